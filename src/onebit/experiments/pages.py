"""Build the pages of comparisons and sweeps, and the facts (versions, machine, cost) on every page."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.data.streams import Stream
from onebit.engine.processes import cores
from onebit.experiments.compare import Comparison, DataResult
from onebit.experiments.drawing import (
    describe_score,
    draw_curves,
    draw_sweep,
    failure_table,
    format_estimate,
    number,
)
from onebit.experiments.executors.threads import processor
from onebit.experiments.grid import is_numeric
from onebit.experiments.report import (
    BANDIT,
    FULL_INFORMATION,
    Column,
    Number,
    Page,
    Part,
    Section,
    Table,
    TableRow,
    Text,
)
from onebit.experiments.report.tables import plain_table_html, rich
from onebit.experiments.runner import describe_failures
from onebit.experiments.statistics import Summary, describe_speed
from onebit.experiments.sweep import FRESH, Sweep
from onebit.experiments.trials import ComparisonEntry, format_options
from onebit.experiments.trials.cost import Cost, format_count, format_quantity
from onebit.experiments.trials.records import Record
from onebit.version import VERSION

if TYPE_CHECKING:
    from onebit.experiments.run import Result

MOST_ROWS = 500  # most settings in the table of a page
NOTEBOOK_ROWS = 20  # most settings shown in a notebook


def facts(folder: Path | None, cost: Cost | None = None) -> dict[str, str]:
    """Return what a reader needs to repeat it: versions, machine, cost and the folder of the records."""
    versions = [f"onebit {VERSION}", f"Python {platform.python_version()}"]
    for package in ("numpy", "numba"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:  # installed without package metadata
            continue
    found = {"versions": ", ".join(versions), "machine": f"{processor()}, {cores()} cores, {sys.platform}"}
    if cost is not None and cost.text:
        found["ran on"] = cost.text
    if folder is not None:
        found["rows"] = "rows.jsonl, beside this page: one line a run"
    return found


# --- a comparison ------------------------------------------------------------------------------------------


def comparison_page(found: Comparison) -> Page:
    """Build the page of a comparison: the finding, then curves and a table for each stream."""
    sections = [Section(result.stream.name, _data_parts(found, result)) for result in found.results]
    body: Sequence[Part] = sections[0].parts if len(sections) == 1 else [*sections, _overview(found)]
    parts = [Text(describe_outcome(found.finding, found.failures)), *body]
    title = "Learners compared on " + ", ".join(result.stream.name for result in found.results)
    asked = {
        "compare": [identify_stream(result.stream) for result in found.results],
        "learners": sorted((entry.rule.name, entry.options_text) for entry in found.entries),
        "runs": found.runs,
        "seed": found.seed,
    }
    return Page(title, found.command, parts, facts(found.folder, found.cost), asked)


def identify_stream(data: Stream) -> dict[str, Any]:
    """Return a stream's identity as plain values, without the size and modification time of its file."""
    return {name: value for name, value in data.described().items() if name not in ("size", "modified")}


def describe_outcome(finding: str, failures: Sequence[Record]) -> list[str]:
    """Return the opening sentences: the finding, and which learners are left out as a run failed."""
    left_out = f"But {describe_failures(failures)}; learners and settings with a failed run are left out."
    return [*filter(None, [finding]), *([left_out] if failures else [])]


def _data_parts(found: Comparison, result: DataResult) -> list[Part]:
    data = result.stream
    text = [
        f"{found.runs} runs of {data.rounds:,} rounds, seeds {found.seed} to {found.seed + found.runs - 1}. All learners saw the "
        "same rows in the same order, with the same noise: differences are taken run by run. The intervals are 95 % "
        "intervals of the mean over runs (Student)."
    ]
    if data.about:
        text.append(f"{data.about}.")
    if data.source.fixed and data.order == "file":
        text.append(
            "The rows came in the order of the file in every run: intervals show the learners' own chance alone."
        )
    text += describe_feedback(data)
    if data.caveat:
        text.append(f"But {data.caveat}.")
    if data.source.note:
        text.append(data.source.note)
    parts: list[Part] = []
    if result.summaries:
        if result.rewarded:
            parts.append(draw_curves(f"Mean reward so far on {data.name}", result.summaries, rewarded=True))
        parts += [draw_curves(f"Error so far on {data.name}", result.summaries), error_table(result)]
    if result.failures:
        parts.append(failure_table(result.failures))
    return [*parts, Text(text)]


def describe_feedback(data: Stream) -> list[str]:
    """Explain how a stream's candidates, rewards and corrections affect the numbers."""
    words = []
    if data.restricted:
        words.append("In each round only its candidates could be played, and the right class was one of them.")
    if data.source.rewards:
        words.append(
            "Every class is worth something from 0 to 1 in every row, and learners are ranked by the mean reward of the labels "
            "played. An error is a round in which another class was worth more than the one played."
        )
    if data.corrected:
        words.append(
            f"In {100 * data.corrected:g} % of the rounds in which the label played was wrong the right one was revealed."
        )
    if words:
        words.append("Streams with candidates, rewards or corrections run on threads, not on a GPU.")
    return words


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
    rows = [
        TableRow(
            [
                f"`{one.entry.rule.name}`",
                one.entry.options_text,
                *(_reward_cells(result, one) if rewarded else []),
                number(one.error, bar=True, best=not rewarded and one is result.best),
                *([] if rewarded else [_difference_cell(result, one)]),
                number(one.greedy_error),
                Number(one.rounds_per_second, format_quantity(one.rounds_per_second)),
            ],
            FULL_INFORMATION if one.full_information else BANDIT,
        )
        for one in sorted(result.summaries, key=lambda one: one.full_information)
    ]
    title, first = ("Rewards", "highest mean reward") if rewarded else ("Errors", "lowest error")
    return Table(f"{title} on {result.stream.name}", columns, rows, f"{first} first; click a head to sort")


def _difference_cell(result: DataResult, one: Summary) -> Number:
    if one is result.best:
        return Number(0.0, "best", best=True)
    return number(result.difference(one), result.rewarded, signed=True)


def _reward_cells(result: DataResult, one: Summary) -> list[Number]:
    played = number(one.reward, True, best=one is result.best)
    return [played, _difference_cell(result, one), number(one.greedy_reward, True)]


def _overview(found: Comparison) -> Section:
    """Return a table of every learner on every stream, with the best ones marked."""
    entries = {one.entry.title: one for result in found.results for one in result.summaries}
    columns = [Column("learner"), *(Column(result.stream.name, True) for result in found.results)]
    rows = []
    for title, sample in sorted(entries.items(), key=lambda item: item[1].full_information):
        cells: list[Any] = [title]
        for result in found.results:
            there = next((one for one in result.summaries if one.entry.title == title), None)
            cells.append(_missing_cell(result, sample.entry) if there is None else _overview_cell(result, there))
        rows.append(TableRow(cells, FULL_INFORMATION if sample.full_information else BANDIT))
    mixed = " or mean reward" if any(result.rewarded for result in found.results) else ""
    return Section("All data at a glance", [Table(f"Error, %{mixed}", columns, rows)])


def _missing_cell(result: DataResult, entry: ComparisonEntry) -> Number:
    """Return a learner's cell without a mean: a run failed or the comparison was stopped before it."""
    who = (entry.rule.name, entry.options_text)
    failed = any((one.learner, format_options(one.options)) == who for one in result.failures)
    return Number(None, "failed" if failed else "not run")


def _overview_cell(result: DataResult, there: Summary) -> Number:
    if result.rewarded:
        return number(there.reward, True, best=there is result.best)
    return number(there.error, bar=True, best=there is result.best)


# --- a sweep ------------------------------------------------------------------------------------------


def sweep_page(found: Sweep) -> Page:
    """Build the page of a sweep: the chosen setting's result on fresh streams, figures, all settings."""
    parts: list[Part] = [Text([*describe_outcome("", found.failures), *describe_sweep(found)])]
    if found.chosen is not None:
        parts.append(draw_sweep(found))
    if found.fresh is not None and found.stream.source.rewards:
        parts.append(
            draw_curves("The mean reward of the setting chosen, on fresh streams", [found.fresh], rewarded=True)
        )
    if found.fresh is not None:
        parts.append(draw_curves("The setting chosen, on fresh streams", [found.fresh]))
    parts.append(settings_table(found))
    if found.failures:
        parts.append(failure_table(found.failures))
    title = f"{found.grid.rule.name} on {found.stream.name}: a sweep"
    asked = {
        "sweep": identify_stream(found.stream),
        "settings": [one.title for one in found.grid.entries],
        "runs": [found.runs, found.fresh_runs],
        "seed": found.seed,
    }
    return Page(title, found.command, parts, facts(found.folder, found.cost), asked)


def describe_sweep(found: Sweep) -> list[str]:
    """Return sentences on which setting a sweep chose and how."""
    what = (
        "fresh orders of the same rows, and fresh chance of the learner"
        if found.stream.source.fixed
        else "rows drawn afresh"
    )
    if found.stream.source.fixed and found.stream.order == "file":
        what = "fresh chance of the learner alone, since the rows come in the order of the file"
    words = []
    first, counts = "lowest mean error", "error: the lowest of many tuning errors is too low"
    if found.stream.source.rewards:
        first, counts = "highest mean reward", "reward: the highest of many tuning rewards is too high"
    how = (
        f"{len(found.grid.entries)} settings, {found.runs} tuning runs of {found.stream.rounds:,} rounds each (seeds from {found.seed} "
        f"on). The setting with the {first} on these was chosen, and then run on {found.fresh_runs} fresh streams (seeds "
        f"from {found.seed + FRESH} on: {what}). What counts is the fresh {counts}."
    )
    if found.chosen is not None and found.best is not None:
        tuned = found.summaries[found.chosen]
        assert tuned is not None
        line = f"Chosen: `{format_options(found.best)}`. On the tuning streams {describe_score(tuned)}"
        line += "." if found.fresh is None else f", on fresh streams {describe_score(found.fresh)} (95 %)."
        words.append(line)
        edges = found.edges()
        if edges:
            words.append(f"The choice lies on the edge of the grid for {', '.join(edges)}: a wider grid may do better.")
    if found.stream.caveat:
        words.append(f"But {found.stream.caveat}.")
    return [*words, how, *describe_feedback(found.stream)]


def settings_table(found: Sweep, most: int = MOST_ROWS) -> Table:
    """Return the sweep's settings on the tuning streams, best first, with the chosen one marked."""
    rewarded = found.stream.source.rewards
    names = list(found.grid.axes)
    chosen = None if found.chosen is None else found.summaries[found.chosen]
    columns = [Column(name, is_numeric(found.grid.axes[name])) for name in names]
    columns += [Column("mean reward", True)] if rewarded else []
    columns += [Column("error, %", True), Column("greedy, %", True)]
    ranked = sorted(
        ((one, point) for one, point in zip(found.summaries, found.grid.points, strict=True) if one is not None),
        key=lambda pair: pair[0].loss.mean,
    )
    rows = [
        [
            *(_cell(value) for value in point),
            *([number(one.reward, True, best=one is chosen)] if rewarded else []),
            number(one.error, bar=True, best=not rewarded and one is chosen),
            number(one.greedy_error),
        ]
        for one, point in ranked[:most]
    ]
    note = f"the {most} best of {len(ranked)}; rows.jsonl has all" if len(ranked) > most else ""
    return Table("All settings, on the tuning streams", columns, rows, note)


def _cell(value: Any) -> Any:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return Number(float(value), f"{value:g}") if is_number else str(value)


# --- in a notebook: sentences and tables, without scripts ---------------------------------------------------


def comparison_html(found: Comparison) -> str:
    tables = [plain_table_html(error_table(one)) for one in found.results if one.summaries]
    return _paragraphs(describe_outcome(found.finding, found.failures)) + "".join(tables)


def sweep_html(found: Sweep) -> str:
    words = [*describe_outcome("", found.failures), *describe_sweep(found)]
    return _paragraphs(words) + plain_table_html(settings_table(found, NOTEBOOK_ROWS))


def result_html(result: Result) -> str:
    runs = f"{format_count(result.runs, 'run')} of {result.rounds:,} rounds, {format_quantity(result.rounds_per_second)} rounds a second"
    words = [f"`{result.rule}` on {result.data}: {runs}."]
    if result.caveat:
        words.append(f"But {result.caveat}.")
    rewards = []
    if result.rewards is not None:
        rewards = [["mean reward of the labels played", format_estimate(result.reward_interval, True)]]
        rewards.append(["mean reward of the greedy labels", f"{result.greedy_reward:.4f}"])
    rows = [
        *rewards,
        ["error of the labels played, %", format_estimate(result.error_interval)],
        ["error of the greedy labels, %", format_estimate(result.greedy_error_interval)],
        *([["set", format_options(result.params)]] if result.params else []),
    ]
    return _paragraphs(words) + plain_table_html(Table("", [Column(""), Column("")], rows))


def _paragraphs(words: Iterable[str]) -> str:
    return "".join(f"<p>{rich(one)}</p>" for one in words)
