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
    """The plan of an item that searches settings: whether the published ones are among the good ones."""

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

    def trials_on(self, data: str, given: Stream) -> list[Trial]:
        entries = [entry for learner in self.item.learners for entry in self.grids[learner.name, data].entries]
        return [Trial(entry, given, seed, curve=False) for seed in range(self.runs) for entry in entries]

    def result(self, collector: TrialCollector) -> ItemResult:
        verdicts: list[Verdict] = []
        parts: list[Part] = []
        for data in self.item.data:
            pictures: list[Part] = []
            for learner in self.item.learners:
                verdict, found = self._judge_setting(learner, data, collector)
                verdicts.append(verdict)
                if found is not None:
                    of = data.name if len(self.item.learners) == 1 else learner.name
                    pictures.append(self._retitle(draw_sweep(found), of, verdict))
            several = len(self.item.learners) > 1 and pictures
            parts += [Section(data.name, pictures)] if several else pictures
        return ItemResult(self.item, self.runs, verdicts, parts)

    def _judge_setting(
        self, learner: PaperLearner, data: PaperData, collector: TrialCollector
    ) -> tuple[Verdict, Sweep | None]:
        streamed, grid = self.streams[data.name], self.grids[learner.name, data.name]
        chosen = learner.chosen.get(data.name, {})
        if isinstance(streamed, OnebitError):
            return self.unmeasured(data.name, learner.name, Status.MISSING, format_options(chosen)), None
        summaries = [collector.summary(entry, streamed, range(self.runs)) for entry in grid.entries]
        means = [math.inf if one is None else one.error.mean for one in summaries]
        lowest = summaries[means.index(min(means))]
        lacking = any(
            len(collector.records_of(Trial(entry, streamed, seed) for seed in range(self.runs))) < self.runs
            for entry, one in zip(grid.entries, summaries, strict=True)
            if one is None
        )
        failed = self.unmeasured(
            data.name, learner.name, Status.NOT_RUN if lacking else Status.FAILED, format_options(chosen)
        )
        if lowest is None:
            return failed, None
        found = Sweep(grid, streamed, summaries, means.index(min(means)), None, [], self.runs, 0, 0, "", None)
        assert found.best is not None
        said = f"{format_estimate(lowest.error)} at {format_options(found.best)}"
        if lacking:  # the best of some settings may not be the best of the grid
            return replace(failed, said=said), found
        if not chosen:
            return replace(failed, measured=lowest.error, said=said, verdict=Status.SHOWN, why=""), found
        published = summaries[grid.position(chosen)]
        if published is None:
            return replace(failed, said=said), found
        excess = published.difference(lowest)
        judged = judge_between(excess, -math.inf, self.item.tolerance / 100)
        idle = self._find_idle(grid, chosen, means)
        if idle and judged != Status.DIFFERS:
            judged, why = Status.VACUOUS, f"No effect on the grid: {'; '.join(idle)}."
        else:
            why = explain_verdict(judged, excess, learner.why.get(data.name, "") or data.why)
        said = f"{format_estimate(published.error)} there; {said}"
        return replace(failed, measured=published.error, said=said, verdict=judged, why=why), found

    def _find_idle(self, grid: Grid, chosen: Mapping[str, Any], means: Sequence[float]) -> list[str]:
        """Describe the parameters that make no difference near the published setting.

        These are the parameters for which most other values, with the rest as published, come within the tolerance of the best setting.
        """
        allowed, idle = min(means) + self.item.tolerance / 100, []
        for name, values in grid.axes.items():
            others = [{**chosen, name: value} for value in values if value != chosen[name]]
            near_best = sum(means[grid.position(one)] <= allowed for one in others)
            if others and near_best >= IDLE * len(others):
                idle.append(f"{name} ({near_best} of its {len(others)} other values do as well)")
        return idle

    def _retitle(self, picture: Curves | HeatMap, of: str, verdict: Verdict) -> Curves | HeatMap:
        titled = replace(picture, title=f"{of}: {picture.title}")
        if isinstance(titled, Curves):
            return titled
        runs = "error of one run" if self.runs == 1 else f"mean error of {self.runs} runs"
        return replace(titled, note=f"{runs}, %" + (f"; published: {verdict.published}" if verdict.published else ""))
