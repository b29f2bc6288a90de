"""List the verdicts that changed between two pages of `onebit reproduce all --markdown`, each with its reason.

git show v0.3.0:docs/reproduction.md > /tmp/old.md
python tools/verdicts.py /tmp/old.md docs/explanation/reproduction.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WORDS = {  # from one verdict to another on much the same numbers: it is judged otherwise
    ("reproduced", "undecided"): "only a part of the interval is within the tolerance",
    ("differs", "undecided"): "a part of the interval is within the tolerance",
    ("undecided", "differs"): "no part of the interval is within the tolerance",
    ("undecided", "reproduced"): "all of the interval is within the tolerance",
}


class Row(NamedTuple):
    """A row of a table of verdicts."""

    paper: str
    item: str
    data: str
    what: str
    published: str
    measured: str
    verdict: str
    note: str


def rows_of(text: str) -> dict[tuple[str, str, str, str], Row]:
    """The rows of a page by what they are of; the notes below a table stand where they are named."""
    return {row[:4]: row for row in _rows(text)}


def _rows(text: str) -> Iterator[Row]:
    paper = ""
    for section in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        head, _, body = section.partition("\n")
        if head.startswith("## "):
            paper = head[3:]
        notes = dict(re.findall(r"^(\d+)\. (.*)$", body, flags=re.MULTILINE))
        for line in re.findall(r"^\| (.*) \|$", body, flags=re.MULTILINE):
            cells = [cell.strip() for cell in line.split(" | ")]
            if len(cells) == 5 and cells[-1] != "verdict":
                verdict, _, mark = cells[4].partition(" [")
                data, what, published, measured, _ = cells
                note = notes.get(mark.rstrip("]"), "")
                yield Row(paper, head.lstrip("# "), data, what, published, measured, verdict, note)


def reason(old: Row, new: Row) -> str:
    """Why a verdict is another."""
    if new.verdict in ("fitted", "vacuous", "missing data", "not run", "failed"):
        return new.note
    numbers = [[float(one) for one in re.findall(r"[\d.]*\d", row.measured.replace(",", ""))] for row in (old, new)]
    moved = len(numbers[0]) != len(numbers[1]) or any(
        abs(before - after) > 0.02 for before, after in zip(*numbers, strict=True)
    )
    if moved:
        return f"measured anew: it was {old.measured or 'not measured'}"
    return WORDS.get((old.verdict, new.verdict), "it is judged otherwise") + (f". {new.note}" if new.note else "")


def changes(old: str, new: str) -> list[str]:
    """The lines of a Markdown table of all verdicts that changed."""
    before, after = rows_of(old), rows_of(new)
    lines = [
        "| paper | item | data | what | published | measured | was | is | why |",
        "|---|---|---|---|---:|---:|---|---|---|",
    ]
    for key, row in after.items():
        if key in before and before[key].verdict != row.verdict:
            cells = (*row[:6], before[key].verdict, row.verdict, reason(before[key], row))
            lines.append(f"| {' | '.join(cells)} |")
    gone, come = len(before.keys() - after.keys()), len(after.keys() - before.keys())
    return [*lines, "", f"{len(lines) - 2} verdicts changed, {come} are new, {gone} are gone, of {len(after)}."]


if __name__ == "__main__":
    given, current = (Path(name).read_text(encoding="utf-8") for name in sys.argv[1:3])
    print("\n".join(changes(given, current)))
