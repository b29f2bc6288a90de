"""What a page is before MyST reads it: its generated part made, its formulas in the form that MyST knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from docs.extensions.formulas import as_roles
from docs.extensions.learners import learners_page

if TYPE_CHECKING:  # the tests read this file where Sphinx is not installed
    from sphinx.application import Sphinx

GENERATED: dict[str, Callable[[], str]] = {"learners": learners_page}
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls first."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def expanded(markdown: str) -> str:
    """A page with what is generated in the place of each mark."""
    return MARK.sub(lambda mark: GENERATED[mark[1]](), markdown)


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    # The empty line that ends an example is for doctest, not for readers.
    source[0] = as_roles(expanded(source[0])).replace("\n\n```\n", "\n```\n")
