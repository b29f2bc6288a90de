"""Items that search settings: whether the published one is among the best, and whether it matters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onebit.data.streams import Stream
from onebit.errors import OnebitError
from onebit.experiments.drawing import draw_sweep, format_estimate
from onebit.experiments.grid import Grid, parse_axis
from onebit.experiments.report import Curves, HeatMap, Part, Section
from onebit.experiments.runner import TrialCollector
from onebit.experiments.sweep import Sweep
from onebit.experiments.trials import Trial, format_options
from onebit.papers import PaperData, PaperItem, PaperLearner
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.verdicts import ItemResult, Status, Verdict, explain_verdict, judge_between

IDLE = 0.75  # share of a parameter's other values that do as well, from which on it makes no difference


class GridPlan(ItemPlan):
    """The plan of an item that searches settings: whether the published ones are among the best."""

    def __init__(self, item: PaperItem, streams: PaperStreams, quick: bool) -> None:
        super().__init__(item, streams, quick)
        self.runs = 1 if quick else item.runs
        self.grids: dict[tuple[str, str], Grid] = {}
        for learner in item.learners:
            for data in item.data:
                axes = {name: parse_axis(name, values) for name, values in learner.grid.items()}
                for name, value in learner.chosen.get(data.name, {}).items():
                    axes[name] = axes[name] if value in axes[name] else sorted([*axes[name], value])
                self.grids[learner.name, data.name] = Grid(learner.rule, axes, learner.options_on(data.name))

    def trials_on(self, data: str, data_stream: Stream) -> list[Trial]:
        entries = [entry for learner in self.item.learners for entry in self.grids[learner.name, data].entries]
        return [Trial(entry, data_stream, seed, curve=False) for seed in range(self.runs) for entry in entries]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for data in self.item.data:
            pictures: list[Part] = []
            for learner in self.item.learners:
                verdict, sweep = self._judge_setting(learner, data, collector)
                verdicts.append(verdict)
                if sweep is not None:
                    subject = data.name if len(self.item.learners) == 1 else learner.name
                    pictures.append(self._retitle(draw_sweep(sweep), subject, verdict))
            is_split = len(self.item.learners) > 1 and pictures
            parts += [Section(data.name, pictures)] if is_split else pictures
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _judge_setting(
        self, learner: PaperLearner, data: PaperData, collector: TrialCollector
    ) -> tuple[Verdict, Sweep | None]:
        data_stream, grid = self.streams[data.name], self.grids[learner.name, data.name]
        chosen = learner.chosen.get(data.name, {})
        if isinstance(data_stream, OnebitError):
            return self.missing_verdict(data.name, learner.name, Status.MISSING, format_options(chosen)), None
        summaries = [collector.summary(entry, data_stream, range(self.runs)) for entry in grid.entries]
        means = [math.inf if summary is None else summary.error.mean for summary in summaries]
        lowest = summaries[means.index(min(means))]
        is_incomplete = any(
            len(collector.records_of(Trial(entry, data_stream, seed) for seed in range(self.runs))) < self.runs
            for entry, summary in zip(grid.entries, summaries, strict=True)
            if summary is None
        )
        fallback = self.missing_verdict(
            data.name, learner.name, Status.NOT_RUN if is_incomplete else Status.FAILED, format_options(chosen)
        )
        if lowest is None:
            return fallback, None
        sweep = Sweep(grid, data_stream, summaries, means.index(min(means)), None, [], self.runs, 0, 0, "", None)
        assert sweep.best is not None
        text = f"{format_estimate(lowest.error)} at {format_options(sweep.best)}"
        if is_incomplete:  # the best of some settings may not be the best of the grid
            return replace(fallback, said=text), sweep
        if not chosen:
            return replace(fallback, measured=lowest.error, said=text, verdict=Status.SHOWN, why=""), sweep
        published = summaries[grid.position(chosen)]
        if published is None:
            return replace(fallback, said=text), sweep
        excess = published.difference(lowest)
        judged = judge_between(excess, -math.inf, self.item.tolerance / 100)
        idle = self._find_idle(grid, chosen, means)
        if idle and judged != Status.DIFFERS:
            judged, why = Status.VACUOUS, f"No effect on the grid: {'; '.join(idle)}."
        else:
            why = explain_verdict(judged, excess, learner.why.get(data.name, "") or data.why)
        text = f"{format_estimate(published.error)} there; {text}"
        return replace(fallback, measured=published.error, said=text, verdict=judged, why=why), sweep

    def _find_idle(self, grid: Grid, chosen: Mapping[str, Any], means: Sequence[float]) -> list[str]:
        """Describe the parameters that make no difference near the published setting.

        These are the parameters for which most other values, with the rest as published, come within the tolerance of the best setting.
        """
        allowed, idle = min(means) + self.item.tolerance / 100, []
        for name, values in grid.axes.items():
            settings = [{**chosen, name: value} for value in values if value != chosen[name]]
            near_best = sum(means[grid.position(setting)] <= allowed for setting in settings)
            if settings and near_best >= IDLE * len(settings):
                idle.append(f"{name} ({near_best} of its {len(settings)} other values do as well)")
        return idle

    def _retitle(self, picture: Curves | HeatMap, subject: str, verdict: Verdict) -> Curves | HeatMap:
        titled = replace(picture, title=f"{subject}: {picture.title}")
        if isinstance(titled, Curves):
            return titled
        runs = "error of one run" if self.runs == 1 else f"mean error of {self.runs} runs"
        return replace(titled, note=f"{runs}, %" + (f"; published: {verdict.published}" if verdict.published else ""))
