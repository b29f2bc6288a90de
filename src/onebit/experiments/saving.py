"""A result folder as people look at it: the page, and each figure as PNG and SVG."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from onebit.errors import InputError
from onebit.files import whole_file
from onebit.report.html import page_html
from onebit.report.parts import Page

PAGE, FIGURES = "page.html", "figures"


def save_page(page: Page, folder: str | Path, processes: int = 1) -> Path:
    """Write the page, and its figures where matplotlib is installed, many of them in several processes; the path of the page.

    The page replaces an older one whole or not at all.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / PAGE) as file:
            file.write(page_html(page).encode(errors="replace"))
        if importlib.util.find_spec("matplotlib") is not None:
            for old in (folder / FIGURES).glob("*.[ps][nv]g"):  # of an earlier page
                old.unlink()
            from onebit.report.figures import save_figures

            save_figures(page, folder / FIGURES, processes)
    except OSError as error:
        raise InputError(f"the page cannot be written to {folder}: {error.strerror or error}") from None
    return folder / PAGE
