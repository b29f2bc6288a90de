"""What a page is before MyST reads it: its generated part made, its formulas in the form that MyST knows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.extensions.api import api_page, classes_page, settings_page
from docs.extensions.commands import commands_page
from docs.extensions.formulas import as_roles
from docs.extensions.learners import learners_page
from docs.extensions.notebooks import notebook_page
from docs.extensions.routes import routes_page

if TYPE_CHECKING:  # the tests read this file where Sphinx is not installed
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

GENERATED: dict[str, Callable[..., str]] = {
    "api": api_page,
    "classes": classes_page,
    "commands": commands_page,
    "routes": routes_page,
    "learners": learners_page,
    "notebook": notebook_page,
    "settings": settings_page,
}
MARK = re.compile(r"^<!-- generated: (?P<what>\w+)(?P<of>[\w./ ]*) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls first."""
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def expanded(markdown: str) -> str:
    """A page with what is generated in the place of each mark."""
    return MARK.sub(lambda mark: GENERATED[mark["what"]](*mark["of"].split()), markdown)


def _outdated(app: Sphinx, env: BuildEnvironment, *_: set[str]) -> list[str]:
    """The pages with a generated part, which may have changed though the file has not."""
    return [name for name in env.found_docs if MARK.search(Path(env.doc2path(name)).read_text(encoding="utf-8"))]


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    # The empty line that ends an example is for doctest, not for readers.
    source[0] = as_roles(expanded(source[0])).replace("\n\n```\n", "\n```\n")
