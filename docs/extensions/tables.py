"""Tables in Markdown, which all generated pages have."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table.

    >>> table(("name", "range"), [("`rate`", "a | b")])
    ['| name | range |', '| --- | --- |', '| `rate` | a \\\\| b |']
    """
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return ["| " + " | ".join(row) + " |" for row in cells]
