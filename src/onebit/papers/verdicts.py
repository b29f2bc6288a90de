"""The result of reproducing a paper: a verdict for each number and claim, as a page and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from onebit.experiments.pages import page_facts
from onebit.experiments.report import Badge, Column, Number, Page, Part, Section, Table, Text
from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.trials.cost import Cost, format_count
from onebit.experiments.trials.records import Record
from onebit.papers import Paper, PaperItem, PaperResult


class Status(StrEnum):
    """The possible verdicts on a published number or claim."""

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    VACUOUS = "vacuous"
    FITTED = "fitted"
    SHOWN = "no number published"
    MISSING = "missing data"
    NOT_RUN = "not run"
    FAILED = "failed"


UNMEASURED = (Status.MISSING, Status.NOT_RUN, Status.FAILED)  # nothing is known about these
STATED = "All that the paper states"
HOW_JUDGED = (
    "Errors are in percent of the rounds: the mean over runs with its 95 % interval. A verdict is based on the whole interval. A number is *reproduced* "
    "if all of the interval lies within the item's tolerance of the published number, and *differs* if none of it does. A claim that one learner errs "
    "less than another is reproduced if the interval of the difference, taken run by run, lies above 0, and differs if it lies below. A setting chosen "
    "from a grid is reproduced if the interval of its excess error over the best of the grid lies within the tolerance, and differs if it lies above; "
    "it is *vacuous* if a parameter of it makes no difference there (three quarters of its other values do as well), as is a bound that is no less "
    "than the number of rounds. Anything else is *undecided*: more runs would tell. *Fitted* does not count: details that the paper does not describe "
    "were chosen here to match its numbers, and only the order of the learners is tested. *Missing data* means that a data set was not available, and "
    "*not run* that there is no run, so that nothing is known."
)


def judge_between(measured: MeanEstimate, low: float, high: float) -> Status:
    """Judge whether a mean lies between two numbers, by its whole interval.

    REPRODUCED if all of the interval lies between them, DIFFERS if no part of it does, and UNDECIDED if only a part does, or if there is no
    interval because there was one run.

    >>> judge_between(MeanEstimate(0.1764, 0.1599, 0.1929), 0.138, 0.178), judge_between(MeanEstimate(0.16, 0.15, 0.17), 0.138, 0.178)
    (<Status.UNDECIDED: 'undecided'>, <Status.REPRODUCED: 'reproduced'>)
    """
    if low <= measured.low and measured.high <= high:
        return Status.REPRODUCED
    return Status.DIFFERS if measured.low > high or measured.high < low else Status.UNDECIDED


def judge_gain(gain: MeanEstimate) -> Status:
    """Judge whether a claimed difference exists: its whole interval lies above 0, below 0, or neither."""
    return Status.REPRODUCED if gain.low > 0 else Status.DIFFERS if gain.high < 0 else Status.UNDECIDED


def explain_verdict(verdict: Status, judged: MeanEstimate, why: str) -> str:
    """Return the explanation of a verdict: empty if reproduced, else why.

    For a single run, it is that one run decides nothing.
    """
    if verdict == Status.UNDECIDED and math.isnan(judged.low):
        return "One run has no interval, and decides nothing."
    return "" if verdict == Status.REPRODUCED else why


@dataclass(frozen=True)
class Verdict:
    """One number or claim of a paper: as published, as measured here, and whether they agree."""

    item: str
    data: str
    what: str
    published: str
    measured: MeanEstimate | None
    said: str
    verdict: Status
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "measured": None if self.measured is None else self.measured.to_dict()}


@dataclass(frozen=True)
class ItemResult:
    """An item with its verdicts and its drawings."""

    item: PaperItem
    runs: int
    verdicts: list[Verdict]
    parts: list[Part] = field(repr=False)


@dataclass(frozen=True)
class Reproduction:
    """The result of `onebit.reproduce`.

    `measured_with` has the versions used on each machine that ran a part of it.
    """

    paper: Paper
    results: list[ItemResult]
    failures: list[Record]
    command: str
    folder: Path | None = field(repr=False)
    cost: Cost
    measured_with: Sequence[str]

    def __repr__(self) -> str:
        return f"Reproduction({self.paper.name}: {self.summary})"

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for result in self.results for verdict in result.verdicts]

    def counts(self) -> dict[str, int]:
        statuses = [verdict.verdict for verdict in self.verdicts]
        return {name: statuses.count(name) for name in dict.fromkeys(statuses)}

    @property
    def summary(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return counts or "nothing to compare; what was drawn is on the page"

    @property
    def unmeasured(self) -> list[Verdict]:
        """The verdicts on what could not be measured, so that nothing is known about it."""
        return [verdict for verdict in self.verdicts if verdict.verdict in UNMEASURED]

    @property
    def title(self) -> str:
        """The paper's name and whether it was measured; each cell says whether it was reproduced."""
        cells, missing = len(self.verdicts), len(self.unmeasured)
        if not missing:
            return f"{self.paper.name}: {'published and measured' if cells else 'drawn'}"
        subject = "nothing was" if missing == cells else f"{missing} of {format_count(cells, 'cell')} were not"
        return f"{self.paper.name}: {subject} measured"

    @property
    def missing_data(self) -> dict[str, str]:
        """The sources that were not available, by name, each with how to get it."""
        missing = {}
        for result in self.results:
            sources = {data.name: data.source for data in result.item.data}
            missing.update({sources[row.data]: row.why for row in result.verdicts if row.verdict == Status.MISSING})
        return missing

    def describe_gaps(self) -> list[str]:
        """Return sentences on what could not be measured, and how to get the missing data."""
        counts = {name: count for name, count in self.counts().items() if name in UNMEASURED}
        if not counts:
            return []
        why = ", ".join(f"{count} {name}" for name, count in counts.items())
        cells = format_count(len(self.verdicts), "cell")
        return [
            f"{len(self.unmeasured)} of {cells} could not be measured ({why}): nothing is known about them.",
            *(f"{reason}." for reason in self.missing_data.values()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the reproduction as plain values, as printed by `onebit reproduce --json`."""
        return {
            "paper": self.paper.name,
            "title": self.title,
            "counts": self.counts(),
            "lacking": self.describe_gaps(),
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "failures": [record.failure_to_dict() for record in self.failures],
            "effort": self.cost.to_dict(),
        }

    def page(self) -> Page:
        """Build the page: what is missing, a section per item, and the list of the paper's statements."""
        sections = []
        for result in self.results:
            parts: list[Part] = [Text([result.item.note])] if result.item.note else []
            if result.verdicts:
                parts.append(verdict_table(result))
            sections.append(Section(result.item.title, [*parts, *result.parts]))
        if self.paper.results:
            columns = [Column("result"), Column("what it says"), Column("item, or why there is none")]
            rows = [[result.what, result.says, self._describe_items(result)] for result in self.paper.results]
            sections.append(
                Section(STATED, [Table("Results, and the items that test or show them", columns, {"": rows})])
            )
        intro = [*self.describe_gaps(), self.paper.title, *filter(None, [self.paper.note]), self.summary]
        if self.verdicts:
            intro.append(HOW_JUDGED.replace("*", ""))
        about = {**page_facts(self.folder, self.cost), "measured with": "; ".join(self.measured_with)}
        identity = {"reproduce": self.paper.name, "items": [[result.item.name, result.runs] for result in self.results]}
        return Page(self.title, self.command, [Text(intro), *sections], about, identity)

    def markdown(self) -> list[str]:
        """Return the verdicts as lines of Markdown."""
        lines = [f"## {self.paper.name}", "", self.paper.title, ""]
        if self.paper.note:
            lines += [self.paper.note, ""]
        command = self.command.partition(" --out ")[0]  # the folder means nothing on another machine
        lines += [f"`{command}`: {self.summary}", ""]
        if self.unmeasured:
            lines += [self.describe_gaps()[0], ""]
        if self.missing_data:
            names = ", ".join(f"`{name}`" for name in self.missing_data)
            lines += [
                f"Missing data: {names}; `onebit data fetch NAME` fetches them, or says which file to put where.",
                "",
            ]
        for result in self.results:
            lines += [f"### {result.item.title}", ""]
            if result.item.note:
                lines += [result.item.note, ""]
            if result.verdicts:
                lines += ["| data | what | published | measured | verdict |", "|---|---|---:|---:|---|"]
            notes: dict[str, int] = {}
            for row in result.verdicts:
                # The path where a data set was expected means nothing on another machine.
                why = "The data set was not available." if row.verdict == Status.MISSING else row.why
                mark = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
                lines.append(f"| {row.data} | {row.what} | {row.published} | {row.said} | {row.verdict}{mark} |")
            lines += [""] if result.verdicts else []
            lines += [f"{number}. {why}" for why, number in notes.items()]
            lines += [""] if notes else []
        if self.paper.results:
            lines += [f"### {STATED}", "", "| result | what it says | item, or why there is none |", "|---|---|---|"]
            lines += [f"| {item.what} | {item.says} | {self._describe_items(item)} |" for item in self.paper.results]
            lines += [""]
        return lines

    def _describe_items(self, statement: PaperResult) -> str:
        """Return the items that test or show a statement of the paper, or why there are none."""
        titles = {item.name: item.title for item in self.paper.items}
        items = {result.item.name for result in self.results}
        names = [f"{titles[name]} ({name}{'' if name in items else ', not run here'})" for name in statement.items]
        return statement.why or "; ".join(names)


TONES: dict[str, Any] = {Status.REPRODUCED: "good", Status.DIFFERS: "bad"}


def verdict_table(result: ItemResult) -> Table:
    """Return the table of an item's verdicts, with published and measured values."""
    columns = [Column("data"), Column("what"), Column("published", True), Column("measured", True)]
    columns += [Column("verdict"), Column("explanation")]
    rows: list[Sequence[Any]] = []
    for row in result.verdicts:
        value = None if row.measured is None else 100 * row.measured.mean
        badge = Badge(row.verdict, TONES.get(row.verdict, "plain"))
        rows.append([row.data, row.what, row.published, Number(value, row.said), badge, row.why])
    return Table(
        "Published and measured" + (f", {format_count(result.runs, 'run')}" if result.runs else ""),
        columns,
        {"": rows},
    )
