"""Build the pages of comparisons and sweeps, and the facts (versions, machine, cost) on every page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.data.streams import Stream
from onebit.experiments.drawing import (
    describe_score,
    draw_curves,
    draw_sweep,
    failure_table,
    number_cell,
)
from onebit.experiments.grid import is_numeric
from onebit.experiments.report import (
    BANDIT,
    FULL_INFORMATION,
    Cell,
    Column,
    Number,
    Page,
    Part,
    Section,
    Table,
    Text,
)
from onebit.experiments.runner import describe_failures
from onebit.experiments.statistics import Summary, describe_speed
from onebit.experiments.trials import ComparisonEntry, format_options
from onebit.experiments.trials.cost import Cost, describe_platform, format_quantity
from onebit.experiments.trials.records import Record

if TYPE_CHECKING:
    from onebit.experiments.compare import Comparison, DataResult
    from onebit.experiments.sweep import Sweep

MOST_ROWS = 500  # most settings in the table of a page


def page_facts(folder: Path | None, cost: Cost | None = None) -> dict[str, str]:
    """Return the facts at the foot of a page: versions, machine, cost and the folder of the records."""
    lines = {"measured with": describe_platform()}
    if cost is not None and cost.text:
        lines["ran on"] = cost.text
    if folder is not None:
        lines["rows"] = "rows.jsonl, beside this page: one line per run"
    return lines


# --- a comparison ------------------------------------------------------------------------------------------


def comparison_page(comparison: Comparison) -> Page:
    """Build the page of a comparison: the finding, then curves and a table for each stream."""
    sections = [Section(result.stream.name, _data_parts(comparison, result)) for result in comparison.results]
    body: Sequence[Part] = sections[0].parts if len(sections) == 1 else [*sections, _overview(comparison)]
    parts = [Text(describe_outcome(comparison.finding, comparison.failures)), *body]
    title = "Learners compared on " + ", ".join(result.stream.name for result in comparison.results)
    identity = {
        "compare": [identify_stream(result.stream) for result in comparison.results],
        "learners": sorted((entry.rule.name, format_options(entry.options)) for entry in comparison.entries),
        "runs": comparison.runs,
        "seed": comparison.seed,
    }
    return Page(title, comparison.command, parts, page_facts(comparison.folder, comparison.cost), identity)


def identify_stream(data: Stream) -> dict[str, Any]:
    """Return a stream's identity as plain values, without the size and modification time of its file."""
    return {name: value for name, value in data.described().items() if name not in ("size", "modified")}


def describe_outcome(finding: str, failures: Sequence[Record]) -> list[str]:
    """Return the opening sentences: the finding, and which learners are left out because a run failed."""
    left_out = f"But {describe_failures(failures)}; learners and settings with a failed run are left out."
    return [*filter(None, [finding]), *([left_out] if failures else [])]


def _data_parts(comparison: Comparison, result: DataResult) -> list[Part]:
    data = result.stream
    sentences = [
        f"{comparison.runs} runs of {data.rounds:,} rounds, seeds {comparison.seed} to {comparison.seed + comparison.runs - 1}. All learners saw the "
        "same rows in the same order, with the same noise: differences are taken run by run. The intervals are 95 % "
        "intervals of the mean over runs (Student)."
    ]
    if data.about:
        sentences.append(f"{data.about}.")
    if data.source.fixed and data.order == "file":
        sentences.append(
            "The rows came in the order of the file in every run: intervals show only the randomness of the learners."
        )
    sentences += describe_feedback(data)
    if data.caveat:
        sentences.append(f"But {data.caveat}.")
    parts: list[Part] = []
    if result.summaries:
        if result.rewarded:
            parts.append(draw_curves(f"Mean reward so far on {data.name}", result.summaries, rewarded=True))
        parts += [draw_curves(f"Error so far on {data.name}", result.summaries), error_table(result)]
    if result.failures:
        parts.append(failure_table(result.failures))
    return [*parts, Text(sentences)]


def describe_feedback(data: Stream) -> list[str]:
    """Explain how a stream's candidates, rewards and corrections affect the numbers."""
    sentences = []
    if data.restricted:
        sentences.append("In each round only its candidates could be played, and the right class was one of them.")
    if data.source.rewards:
        sentences.append(
            "Every class is worth something from 0 to 1 in every row, and learners are ranked by the mean reward of the labels "
            "played. An error is a round in which another class was worth more than the one played."
        )
    if data.corrected:
        sentences.append(
            f"In {100 * data.corrected:g} % of the rounds in which the label played was wrong the right one was revealed."
        )
    if sentences:
        sentences.append("Streams with candidates, rewards or corrections run on threads, not on a GPU.")
    return sentences


def error_table(result: DataResult) -> Table:
    """Return the table of the learners on one stream, best first."""
    rewarded, against = result.rewarded, "difference to the best learner with bandit feedback, run by run"
    reward_columns = [
        Column("mean reward", True, "labels played, exploration included"),
        Column("less than the best", True, against),
        Column("greedy reward", True, "labels that the learner considered best"),
    ]
    columns = [
        Column("learner"),
        Column("set"),
        *(reward_columns if rewarded else []),
        Column("error, %", True, "labels played, exploration included"),
        *([] if rewarded else [Column("more than the best", True, against)]),
        Column("greedy, %", True, "labels that the learner considered best"),
        Column("rounds/s", True, f"on {describe_speed(result.summaries)}"),
    ]
    groups: dict[str, list[Sequence[Cell]]] = {}
    for summary in sorted(result.summaries, key=lambda summary: summary.full_information):
        cells: list[Cell] = [
            f"`{summary.entry.rule.name}`",
            format_options(summary.entry.options),
            *([number_cell(summary.reward, True, best=summary is result.best)] if rewarded else []),
            *([_difference_cell(result, summary), number_cell(summary.greedy_reward, True)] if rewarded else []),
            number_cell(summary.error, best=not rewarded and summary is result.best),
            *([] if rewarded else [_difference_cell(result, summary)]),
            number_cell(summary.greedy_error),
            Number(summary.rounds_per_second, format_quantity(summary.rounds_per_second)),
        ]
        groups.setdefault(FULL_INFORMATION if summary.full_information else BANDIT, []).append(cells)
    title, first = ("Rewards", "highest mean reward") if rewarded else ("Errors", "lowest error")
    return Table(f"{title} on {result.stream.name}", columns, groups, f"{first} first; click a head to sort")


def _difference_cell(result: DataResult, summary: Summary) -> Number:
    if summary is result.best:
        return Number(0.0, "best", best=True)
    return number_cell(result.difference(summary), result.rewarded, signed=True)


def _overview(comparison: Comparison) -> Section:
    """Return a table of every learner on every stream, with the best ones marked."""
    entries = {summary.entry.title: summary for result in comparison.results for summary in result.summaries}
    columns = [Column("learner"), *(Column(result.stream.name, True) for result in comparison.results)]
    groups: dict[str, list[Sequence[Cell]]] = {}
    for title, sample in sorted(entries.items(), key=lambda item: item[1].full_information):
        cells: list[Cell] = [title, *(_overview_cell(result, sample.entry) for result in comparison.results)]
        groups.setdefault(FULL_INFORMATION if sample.full_information else BANDIT, []).append(cells)
    mixed = " or mean reward" if any(result.rewarded for result in comparison.results) else ""
    return Section("All data at a glance", [Table(f"Error, %{mixed}", columns, groups)])


def _overview_cell(result: DataResult, entry: ComparisonEntry) -> Number:
    """Return a learner's mean on a stream; if there is none, say whether a run failed or none was done."""
    for summary in result.summaries:
        if summary.entry.title == entry.title:
            score = summary.reward if result.rewarded else summary.error
            return number_cell(score, result.rewarded, best=summary is result.best)
    key = (entry.rule.name, format_options(entry.options))
    has_failed = any((record.learner, format_options(record.options)) == key for record in result.failures)
    return Number(None, "failed" if has_failed else "not run")


# --- a sweep ------------------------------------------------------------------------------------------


def sweep_page(sweep: Sweep) -> Page:
    """Build the page of a sweep: the chosen setting's result on fresh streams, figures, all settings."""
    parts: list[Part] = [Text([*describe_outcome("", sweep.failures), *describe_sweep(sweep)])]
    if sweep.chosen is not None:
        parts.append(draw_sweep(sweep))
    if sweep.fresh is not None and sweep.stream.source.rewards:
        parts.append(
            draw_curves("The mean reward of the setting chosen, on fresh streams", [sweep.fresh], rewarded=True)
        )
    if sweep.fresh is not None:
        parts.append(draw_curves("The setting chosen, on fresh streams", [sweep.fresh]))
    parts.append(settings_table(sweep))
    if sweep.failures:
        parts.append(failure_table(sweep.failures))
    title = f"{sweep.grid.rule.name} on {sweep.stream.name}: a sweep"
    identity = {
        "sweep": identify_stream(sweep.stream),
        "settings": [entry.title for entry in sweep.grid.entries],
        "runs": [sweep.runs, sweep.fresh_runs],
        "seed": sweep.seed,
    }
    return Page(title, sweep.command, parts, page_facts(sweep.folder, sweep.cost), identity)


def describe_sweep(sweep: Sweep) -> list[str]:
    """Return sentences on which setting a sweep chose, and how."""
    if not sweep.stream.source.fixed:
        novelty = "newly drawn rows"
    elif sweep.stream.order == "file":
        novelty = "only the learner's random draws are new, as the rows come in the order of the file"
    else:
        novelty = "new orders of the same rows, and new random draws of the learner"
    optimum, score = ("highest", "reward") if sweep.stream.source.rewards else ("lowest", "error")
    bias = "too high" if sweep.stream.source.rewards else "too low"
    how = (
        f"{len(sweep.grid.entries)} settings, {sweep.runs} tuning runs of {sweep.stream.rounds:,} rounds each (seeds from {sweep.seed} "
        f"on). The setting with the {optimum} mean {score} on these was chosen, and then run on {sweep.fresh_runs} fresh streams (seeds "
        f"from {sweep.fresh_seed} on: {novelty}). What counts is the fresh {score}: the {optimum} of many tuning {score}s is {bias}."
    )
    if sweep.chosen is None or sweep.best is None:
        sentences = ["No setting was run without a failure."]
    else:
        tuned = sweep.summaries[sweep.chosen]
        assert tuned is not None
        line = f"Chosen: `{format_options(sweep.best)}`. On the tuning streams {describe_score(tuned)}"
        line += "." if sweep.fresh is None else f", on fresh streams {describe_score(sweep.fresh)} (95 %)."
        sentences = [line]
        edges = sweep.edges()
        if edges:
            sentences.append(
                f"The choice lies on the edge of the grid for {', '.join(edges)}: a wider grid may do better."
            )
    if sweep.stream.caveat:
        sentences.append(f"But {sweep.stream.caveat}.")
    return [*sentences, how, *describe_feedback(sweep.stream)]


def settings_table(sweep: Sweep) -> Table:
    """Return a table of the sweep's settings and tuning results, best first, the chosen one marked."""
    rewarded = sweep.stream.source.rewards
    names = list(sweep.grid.axes)
    chosen = None if sweep.chosen is None else sweep.summaries[sweep.chosen]
    columns = [Column(name, is_numeric(sweep.grid.axes[name])) for name in names]
    columns += [Column("mean reward", True)] if rewarded else []
    columns += [Column("error, %", True), Column("greedy, %", True)]
    ranked = sorted(
        (
            (summary, point)
            for summary, point in zip(sweep.summaries, sweep.grid.points, strict=True)
            if summary is not None
        ),
        key=lambda pair: pair[0].loss.mean,
    )
    rows = [
        [
            *(_format_cell(value) for value in point),
            *([number_cell(summary.reward, True, best=summary is chosen)] if rewarded else []),
            number_cell(summary.error, best=not rewarded and summary is chosen),
            number_cell(summary.greedy_error),
        ]
        for summary, point in ranked[:MOST_ROWS]
    ]
    note = f"the {MOST_ROWS} best of {len(ranked)}; rows.jsonl has all" if len(ranked) > MOST_ROWS else ""
    return Table("All settings, on the tuning streams", columns, {"": rows}, note)


def _format_cell(value: Any) -> Any:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return Number(float(value), f"{value:g}") if is_number else str(value)
