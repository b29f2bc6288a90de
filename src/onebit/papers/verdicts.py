"""What came of a paper: a verdict for each number and claim, as a page and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onebit.deprecation import Renamed
from onebit.experiments.pages import facts
from onebit.experiments.statistics import MeanEstimate
from onebit.papers.paper import Paper, PaperItem
from onebit.report.parts import Badge, Column, Number, Page, Part, Section, Table, Text
from onebit.trials.cost import Cost, number_of
from onebit.trials.records import Record

REPRODUCED, DIFFERS, UNDECIDED, MISSING, SHOWN, FAILED, VACUOUS = (
    "reproduced",
    "differs",
    "undecided",
    "missing data",
    "no number published",
    "failed",
    "vacuous",
)


@dataclass(frozen=True)
class Verdict:
    """One number or sentence of a paper: what was published, what was measured here, and whether they agree."""

    item: str
    data: str
    what: str
    published: str
    measured: MeanEstimate | None
    said: str
    verdict: str
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        measured = None if self.measured is None else self.measured.to_dict()
        return {
            "item": self.item,
            "data": self.data,
            "what": self.what,
            "published": self.published,
            "measured": measured,
            "said": self.said,
            "verdict": self.verdict,
            "why": self.why,
        }


@dataclass(frozen=True)
class ItemResult:
    """An item, its verdicts, and what is drawn of it."""

    item: PaperItem
    runs: int
    verdicts: list[Verdict]
    parts: list[Part] = field(repr=False)


@dataclass(frozen=True)
class Reproduction:
    """What came of a paper."""

    paper: Paper
    results: list[ItemResult]
    failures: list[Record]
    command: str
    folder: Path | None = field(repr=False)
    cost: Cost

    effort = Renamed("cost")

    def __repr__(self) -> str:
        return f"Reproduction({self.paper.name}: {_sum(self.counts())})"

    @property
    def verdicts(self) -> list[Verdict]:
        """All verdicts, item after item."""
        return [verdict for result in self.results for verdict in result.verdicts]

    def counts(self) -> dict[str, int]:
        """How many verdicts there are of each kind."""
        found = [verdict.verdict for verdict in self.verdicts]
        return {name: found.count(name) for name in dict.fromkeys(found)}

    def to_dict(self) -> dict[str, Any]:
        """As plain values, as `onebit reproduce --json` prints it."""
        failures = [
            {name: record.fields[name] for name in ("learner", "options", "seed", "why")} for record in self.failures
        ]
        return {
            "paper": self.paper.name,
            "counts": self.counts(),
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
            "failures": failures,
            "effort": self.cost.to_dict(),
        }

    def page(self) -> Page:
        """The page: a section for each item, verdicts first, then the figures."""
        sections = []
        for result in self.results:
            parts: list[Part] = [Text([result.item.note])] if result.item.note else []
            if result.verdicts:
                parts.append(verdict_table(result))
            sections.append(Section(result.item.title, [*parts, *result.parts]))
        intro = [self.paper.title, *([self.paper.note] if self.paper.note else []), _sum(self.counts())]
        about = facts(self.folder, self.cost)
        return Page(f"{self.paper.name} reproduced", self.command, [Text(intro), *sections], about)

    def markdown(self) -> list[str]:
        """The verdicts as lines of Markdown."""
        lines = [f"## {self.paper.name}", "", self.paper.title, ""]
        if self.paper.note:
            lines += [self.paper.note, ""]
        command = self.command.partition(" --out ")[0]  # the folder is of no interest on another machine
        lines += [f"`{command}`: {_sum(self.counts())}", ""]
        for result in self.results:
            lines += [f"### {result.item.title}", ""]
            if result.item.note:
                lines += [result.item.note, ""]
            if result.verdicts:
                lines += ["| data | what | published | measured | verdict |", "|---|---|---:|---:|---|"]
            notes: dict[str, int] = {}
            for one in result.verdicts:
                # Where a data set was looked for is of no interest on another machine.
                why = "The data set was not to be had." if one.verdict == MISSING else one.why
                mark = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
                lines.append(f"| {one.data} | {one.what} | {one.published} | {one.said} | {one.verdict}{mark} |")
            lines += ["", *(f"{number}. {why}" for why, number in notes.items())]
            lines += [""] if notes else []
        return lines


def _sum(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing to compare"


TONES: dict[str, Any] = {REPRODUCED: "good", DIFFERS: "bad"}


def verdict_table(result: ItemResult) -> Table:
    """The verdicts of an item."""
    columns = [Column("data"), Column("what"), Column("published", True), Column("measured", True)]
    columns += [Column("verdict"), Column("explanation")]
    rows: list[Sequence[Any]] = []
    for one in result.verdicts:
        value = None if one.measured is None else 100 * one.measured.mean
        badge = Badge(one.verdict, TONES.get(one.verdict, "plain"))
        rows.append([one.data, one.what, one.published, Number(value, one.said), badge, one.why])
    return Table(
        "Published and measured" + (f", {number_of(result.runs, 'run')}" if result.runs else ""),
        columns,
        rows,
    )
