"""The result of reproducing a paper: a verdict for each number and claim, as a page and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from onebit.experiments.pages import facts
from onebit.experiments.report import Badge, Column, Number, Page, Part, Section, Table, Text
from onebit.experiments.statistics import MeanEstimate
from onebit.experiments.trials.cost import Cost, format_count
from onebit.experiments.trials.records import Record
from onebit.papers import Paper, PaperItem, PaperResult


class Status(StrEnum):
    """The possible verdicts."""

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
    """Judge whether a claimed difference is there: its whole interval is above 0, below 0, or neither."""
    return Status.REPRODUCED if gain.low > 0 else Status.DIFFERS if gain.high < 0 else Status.UNDECIDED


def explain_verdict(verdict: Status, judged: MeanEstimate, why: str) -> str:
    """Return the explanation of a verdict: empty if reproduced, else why.

    For a single run it says that one run decides nothing.
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
        found = [verdict.verdict for verdict in self.verdicts]
        return {name: found.count(name) for name in dict.fromkeys(found)}

    @property
    def summary(self) -> str:
        told = ", ".join(f"{count} {name}" for name, count in self.counts().items())
        return told or "nothing to compare; what was drawn is on the page"

    @property
    def unmeasured(self) -> list[Verdict]:
        """The verdicts of what could not be measured, so that nothing is known about it."""
        return [one for one in self.verdicts if one.verdict in UNMEASURED]

    @property
    def title(self) -> str:
        """The paper's name and whether it was measured; each cell says whether it was reproduced."""
        cells, lacking = len(self.verdicts), len(self.unmeasured)
        if not lacking:
            return f"{self.paper.name}: {'published and measured' if cells else 'drawn'}"
        told = "nothing was" if lacking == cells else f"{lacking} of {format_count(cells, 'cell')} were not"
        return f"{self.paper.name}: {told} measured"

    @property
    def missing_data(self) -> dict[str, str]:
        """The data that were not available, by the name of their source, and how to get them."""
        found = {}
        for result in self.results:
            sources = {data.name: data.source for data in result.item.data}
            found.update({sources[one.data]: one.why for one in result.verdicts if one.verdict == Status.MISSING})
        return found

    def lacking(self) -> list[str]:
        """Return sentences on what could not be measured, and how to get the missing data."""
        counts = {name: count for name, count in self.counts().items() if name in UNMEASURED}
        if not counts:
            return []
        why = ", ".join(f"{count} {name}" for name, count in counts.items())
        cells = format_count(len(self.verdicts), "cell")
        return [
            f"{len(self.unmeasured)} of {cells} could not be measured ({why}): nothing is known about them.",
            *(f"{told}." for told in self.missing_data.values()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the reproduction as plain values, as printed by `onebit reproduce --json`."""
        return {
            "paper": self.paper.name,
            "title": self.title,
            "counts": self.counts(),
            "lacking": self.lacking(),
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
            rows = [[one.what, one.says, self._shown_by(one)] for one in self.paper.results]
            sections.append(
                Section(STATED, [Table("Results, and the items that test or show them", columns, {"": rows})])
            )
        intro = [*self.lacking(), self.paper.title, *([self.paper.note] if self.paper.note else []), self.summary]
        if self.verdicts:
            intro.append(HOW_JUDGED.replace("*", ""))
        about = {**facts(self.folder, self.cost), "measured with": "; ".join(self.measured_with)}
        asked = {"reproduce": self.paper.name, "items": [[result.item.name, result.runs] for result in self.results]}
        return Page(self.title, self.command, [Text(intro), *sections], about, asked)

    def markdown(self) -> list[str]:
        """Return the verdicts as lines of Markdown."""
        lines = [f"## {self.paper.name}", "", self.paper.title, ""]
        if self.paper.note:
            lines += [self.paper.note, ""]
        command = self.command.partition(" --out ")[0]  # the folder means nothing on another machine
        lines += [f"`{command}`: {self.summary}", ""]
        if self.unmeasured:
            lines += [self.lacking()[0], ""]
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
            for one in result.verdicts:
                # The path where a data set was expected means nothing on another machine.
                why = "The data set was not available." if one.verdict == Status.MISSING else one.why
                mark = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
                lines.append(f"| {one.data} | {one.what} | {one.published} | {one.said} | {one.verdict}{mark} |")
            lines += [""] if result.verdicts else []
            lines += [f"{number}. {why}" for why, number in notes.items()]
            lines += [""] if notes else []
        if self.paper.results:
            lines += [f"### {STATED}", "", "| result | what it says | item, or why there is none |", "|---|---|---|"]
            lines += [f"| {one.what} | {one.says} | {self._shown_by(one)} |" for one in self.paper.results]
            lines += [""]
        return lines

    def _shown_by(self, stated: PaperResult) -> str:
        """Return the items that test or show a statement of the paper, or why there are none."""
        titles = {item.name: item.title for item in self.paper.items}
        ran = {result.item.name for result in self.results}
        named = [f"{titles[name]} ({name}{'' if name in ran else ', not run here'})" for name in stated.items]
        return stated.why or "; ".join(named)


TONES: dict[str, Any] = {Status.REPRODUCED: "good", Status.DIFFERS: "bad"}


def verdict_table(result: ItemResult) -> Table:
    columns = [Column("data"), Column("what"), Column("published", True), Column("measured", True)]
    columns += [Column("verdict"), Column("explanation")]
    rows: list[Sequence[Any]] = []
    for one in result.verdicts:
        value = None if one.measured is None else 100 * one.measured.mean
        badge = Badge(one.verdict, TONES.get(one.verdict, "plain"))
        rows.append([one.data, one.what, one.published, Number(value, one.said), badge, one.why])
    return Table(
        "Published and measured" + (f", {format_count(result.runs, 'run')}" if result.runs else ""),
        columns,
        {"": rows},
    )
