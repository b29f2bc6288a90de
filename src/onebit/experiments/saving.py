"""A result folder as people look at it: the page, and each figure as PNG and SVG."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

from onebit.errors import InputError
from onebit.files import whole_file
from onebit.report.html import mark_of, page_html
from onebit.report.parts import Page

PAGE, FIGURES = "page", "figures"
HEAD = 1000  # bytes of a page that have its mark, if it has one


def save_page(page: Page, folder: str | Path) -> Path:
    """Write the page, and its figures where matplotlib is installed; the path of the page.

    The page replaces an older one that answers the same, whole or not at all; beside one that answers something else it gets a name of its own.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = _number(page, folder)
        path, figures = folder / f"{PAGE}{number}.html", folder / f"{FIGURES}{number}"
        with whole_file(path) as file:
            file.write(page_html(page).encode(errors="replace"))
        if importlib.util.find_spec("matplotlib") is not None:
            for old in figures.glob("*.[ps][nv]g"):  # of an earlier page
                old.unlink()
            from onebit.report.figures import save_figures

            save_figures(page, figures)
    except OSError as error:
        raise InputError(f"the page cannot be written to {folder}: {error.strerror or error}") from None
    return path


def _number(page: Page, folder: Path) -> str:
    """What follows the name of the page: nothing where none is there, or the first one is its own, else -2, -3 and so on."""
    mark = mark_of(page)
    numbers = itertools.chain([""], (f"-{count}" for count in itertools.count(2)))
    return next(number for number in numbers if _is_its_own(folder / f"{PAGE}{number}.html", mark))


def _is_its_own(path: Path, mark: str) -> bool:
    """Whether a page with this mark may be written there."""
    if not path.is_file():
        return True
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(HEAD)
    return mark in head
