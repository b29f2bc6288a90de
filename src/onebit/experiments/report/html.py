"""Render a page as one self-contained HTML file that needs no network, plus its figures."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import itertools
import json
import math
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from onebit.contract.files import open_atomically
from onebit.contract.installation import install_command
from onebit.errors import InputError
from onebit.experiments.report import (
    Band,
    Curves,
    HeatMap,
    Page,
    Part,
    Regions,
    Scatter,
    Section,
    Table,
    Text,
    style,
)
from onebit.experiments.report.tables import heat_map_html, render_text, table_html

SHOWN_AT_FIRST = 8  # more curves are hard to read; the reader can switch the others on
PAGE, FIGURES = "page", "figures"  # names of the page and of the folder of figures
HEAD = 1000  # the mark, if any, is within these first bytes of a page
DIGITS = 4  # digits of a chart's largest value: values up to 100 % are kept to 0.01 %

_MEASURES = {"played": "errors of the labels that were played", "greedy": "errors of the greedy labels"}
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' "
    "fill='%230072b2'/%3E%3Cpath d='M4 8.5l2.6 2.6L12 5.4' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E"
)


def page_html(page: Page) -> str:
    """Render the whole page; all text is escaped and never interpreted as markup.

    >>> "&lt;b&gt;" in page_html(Page("<b>", "onebit compare iris", [Text(["So `it` is."])]))
    True
    """
    writer = _Writer(page)
    body = "".join(writer.part(part, 2) for part in page.parts)
    styles = _read_asset("uPlot.min.css") + _palette() + _read_asset("page.css")
    lines = [f"<dt>{render_text(name)}</dt><dd>{render_text(value)}</dd>" for name, value in page.facts.items()]
    facts = "".join(f"<div>{line}</div>" for line in lines)
    scripts = [_read_asset("uPlot.iife.min.js"), _read_asset("page.js")]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_fingerprint, scripts))}; style-src {_fingerprint(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{make_mark(page)}
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<link rel="icon" href="{_ICON}">
<style>{styles}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<p class="brand">onebit</p>
<h1>{escape(page.title)}</h1>
<div class="command"><code tabindex="0" aria-label="the command that made this page">{escape(page.command)}</code>
<button type="button" class="copy" data-test="copy">Copy</button></div>
{writer.contents()}</header>
<main id="main">
{body}</main>
<footer>{f"<dl>{facts}</dl>" if facts else ""}</footer>
<!-- uPlot, which draws the curves:
{_read_asset("uPlot.LICENSE")}-->
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""
    # A file name may contain undecodable bytes (lone surrogates), which cannot be encoded in UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")


def save_page(page: Page, folder: str | Path | None) -> Path:
    """Write the page, and its figures if Matplotlib is installed; return the path of the page.

    The page replaces an older one with the same identity, atomically; next to any other page it gets a numbered name.
    """
    if folder is None:
        raise InputError("the runs have no folder of their own: name one to save the page in")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        suffix = _choose_suffix(page, folder)
        path, figures = folder / f"{PAGE}{suffix}.html", folder / f"{FIGURES}{suffix}"
        with open_atomically(path) as file:
            file.write(page_html(page).encode(errors="replace"))
        if importlib.util.find_spec("matplotlib") is not None:
            for figure in figures.glob("*.[ps][nv]g"):  # of an earlier page
                figure.unlink()
            from onebit.experiments.report.figures import save_figures

            save_figures(page, figures)
    except OSError as error:
        raise InputError(f"the page cannot be written to {folder}: {error.strerror or error}") from None
    return path


def _choose_suffix(page: Page, folder: Path) -> str:
    """Return the suffix of the page's file name: "", or -2, -3 etc. if other pages are there."""
    for number in itertools.count(1):
        suffix = f"-{number}" if number > 1 else ""
        path = folder / f"{PAGE}{suffix}.html"
        if not path.is_file():
            return suffix
        with path.open(encoding="utf-8", errors="replace") as file:
            if make_mark(page) in file.read(HEAD):
                return suffix
    raise AssertionError


def make_mark(page: Page) -> str:
    """Return the line near the top of a page that identifies what the page shows."""
    identity = json.dumps(page.identity, sort_keys=True, default=str)
    return f'<meta name="onebit-page" content="{hashlib.blake2b(identity.encode(), digest_size=12).hexdigest()}">'


class _Writer:
    """Renders the parts of one page; keeps the anchors in use and the look of each curve."""

    def __init__(self, page: Page) -> None:
        self._anchors = {"main"}
        charts = [part for _, part in style.walk_parts(page.parts) if isinstance(part, Curves)]
        self._looks = style.assign_looks(charts, SHOWN_AT_FIRST)
        self._contents: list[tuple[str, str]] = []

    def part(self, part: Part, level: int) -> str:
        if isinstance(part, Text):
            return "".join(f"<p>{render_text(paragraph)}</p>\n" for paragraph in part.paragraphs)
        anchor = style.unique_slug(part.title, self._anchors)
        heading = f"<h{level}>{render_text(part.title)}</h{level}>" if part.title else ""
        if isinstance(part, Section):
            if level == 2:
                self._contents.append((anchor, part.title))
            inner = "".join(self.part(child, min(level + 1, 6)) for child in part.parts)
            return f'<section id="{anchor}">{heading}\n{inner}</section>\n'
        if isinstance(part, Table):
            return f'<div class="part" id="{anchor}">{heading}{table_html(part)}</div>\n'
        if isinstance(part, Curves):
            drawn, note = self._curves(part), ""
        else:
            drawn, note = heat_map_html(part) if isinstance(part, HeatMap) else _draw_picture(part), part.note
        note = f'<p class="note">{render_text(note)}</p>' if note else ""
        return f'<figure class="part" id="{anchor}"><figcaption>{heading}</figcaption>{drawn}{note}</figure>\n'

    def contents(self) -> str:
        """Return links to the sections; call it after the parts are written."""
        if len(self._contents) < 2:
            return ""
        links = "".join(f'<li><a href="#{anchor}">{render_text(title)}</a></li>' for anchor, title in self._contents)
        return f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n'

    def _curves(self, curves: Curves) -> str:
        label = escape(f"{curves.title}: {curves.y_name} by {curves.x_name}")
        return (
            f'<div class="curves" data-test="curves" data-label="{label}"><div class="tools"></div>'
            f'<div class="chart"><div class="plot"></div><div class="legend"></div></div>'
            f'<script type="application/json">{_encode_json(self._curves_data(curves))}</script>'
            "<noscript><p>The curves need JavaScript; nothing is loaded from elsewhere.</p></noscript></div>"
        )

    def _curves_data(self, curves: Curves) -> dict[str, Any]:
        measures = curves.measures
        visible = style.choose_foremost(curves, next(iter(measures), ""), SHOWN_AT_FIRST)
        bands = [band for series in curves.series for band in series.measures.values()]
        largest = max((abs(value) for band in bands for value in band.mean if math.isfinite(value)), default=0.0)
        decimals = min(max(DIGITS - math.ceil(math.log10(largest)), 0), 9) if largest > 0 else 0
        return {
            "x": [float(f"{value:.7g}") for value in curves.x],
            "xName": curves.x_name,
            "yName": curves.y_name,
            "logarithmic": curves.logarithmic,
            "decimals": decimals,
            "measures": [{"name": name, "help": _MEASURES.get(name, "")} for name in measures],
            "series": [
                {
                    "name": series.name,
                    "group": series.group,
                    "colour": self._looks[series.group, series.name].colour,
                    "dash": self._looks[series.group, series.name].dash,
                    "shown": position in visible,
                    "measures": {name: _round_band(band, decimals) for name, band in series.measures.items()},
                }
                for position, series in enumerate(curves.series)
            ],
        }


def _round_band(band: Band, decimals: int) -> dict[str, list[float | None]]:
    """Round a curve and the ends of its interval to this many decimals; None replaces NaN."""
    lines = {"mean": band.mean, "low": band.low, "high": band.high}
    return {
        name: [round(value, decimals) if math.isfinite(value) else None for value in values]
        for name, values in lines.items()
        if values is not None
    }


def _encode_json(value: Any) -> str:
    """Encode a value as JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _fingerprint(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _palette() -> str:
    """Return the colours of curves and cells as CSS, so that they are defined in one place."""

    def define_variables(colours: Sequence[str]) -> str:
        return "".join(f"--curve-{index}:{colour};" for index, colour in enumerate(colours))

    classes = "".join(f".curve-{index}{{--curve:var(--curve-{index})}}" for index in range(len(style.LIGHT)))
    cells = "".join(
        f".heat-{step}{{background:{colour};color:{style.text_colour(step)}}}" for step, colour in enumerate(style.HEAT)
    )
    dark = f"@media screen and (prefers-color-scheme:dark){{:root:not([data-paper]){{{define_variables(style.DARK)}}}}}"
    return f":root{{{define_variables(style.LIGHT)}}}{dark}{classes}{cells}\n"


@cache
def _read_asset(name: str) -> str:
    return files("onebit.experiments.report").joinpath("assets", name).read_text(encoding="utf-8")


def _draw_picture(part: Scatter | Regions) -> str:
    """Draw a scatter plot or regions as an inline image, or a note if Matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return f'<p class="note">The picture needs Matplotlib: {escape(install_command("experiments"))}</p>'
    from onebit.experiments.report.figures import draw_figure

    content = io.BytesIO()
    draw_figure(part).savefig(content, format="png", dpi=110, metadata={"Software": None})
    encoded = base64.b64encode(content.getvalue()).decode("ascii")
    return f'<img class="picture" alt="{escape(part.title)}" src="data:image/png;base64,{encoded}">'
