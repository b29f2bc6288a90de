"""Draw figures for papers and notebooks with Matplotlib, in the colours of the page."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onebit.contract.installation import require
from onebit.errors import InputError, brief, nearest
from onebit.experiments.report import Band, Curves, Figure, HeatMap, Page, Regions, Scatter, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

MOST_CURVES = 12
SUFFIXES = (".png", ".svg")
_LONGEST_NAME = 48
_LONGEST_LINE = 56  # characters in a line of a title

Looks = dict[tuple[str, str], style.Look]


def draw_figure(part: Figure, measure: str = "played", *, looks: Looks | None = None) -> Drawing:
    """Draw curves, a heat map, a scatter plot or regions as a Matplotlib figure.

    `looks` keeps the colours the same across figures.

    >>> from onebit.experiments.report import Band, Series
    >>> curves = Curves("Error", [1, 2], "rounds", "error, %", [Series("bpa", {"played": Band([90, 80])})])
    >>> draw_figure(curves).axes[0].get_xlabel()
    'rounds'
    """
    require("matplotlib.figure", "a figure")
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(7.2, 4.2), layout="constrained", facecolor="white")
    drawing.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # type: ignore[union-attr, call-arg]
    axes = drawing.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    title = "\n".join(textwrap.wrap(part.title, _LONGEST_LINE))
    axes.set_title(_escape(title), loc="left", fontsize=11, fontweight="bold")
    if isinstance(part, Curves):
        _draw_curves(drawing, axes, part, measure, style.assign_looks([part], MOST_CURVES) if looks is None else looks)
    elif isinstance(part, HeatMap):
        _draw_heat_map(drawing, axes, part)
    elif isinstance(part, Regions):
        _draw_regions(drawing, axes, part)
    else:
        _draw_scatter(drawing, axes, part)
    return drawing


def _write(drawing: Drawing, path: Path) -> None:
    """Write a figure as .png (200 dpi) or .svg; the same part always gives the same bytes."""
    import matplotlib as mpl

    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "onebit"}):
        try:
            drawing.savefig(path, dpi=200, metadata=metadata)
        except OSError as error:
            raise InputError(f"{path}: the figure cannot be written: {error.strerror or error}") from error


def save_figures(page: Page, folder: Path) -> list[Path]:
    """Write every figure of a page as PNG and SVG, named by section and title.

    Curves are written once for each measure.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be created: {error.strerror or error}") from error
    figures = [(above, part) for above, part in style.walk_parts(page.parts) if isinstance(part, Figure)]
    looks = style.assign_looks((part for _, part in figures if isinstance(part, Curves)), MOST_CURVES)
    names: set[str] = set()
    paths = []
    for above, part in figures:
        named = replace(part, title=": ".join((*above[-1:], part.title)))
        measures = part.measures if isinstance(part, Curves) else [""]
        for measure in measures:
            # Only the title may be shortened, not the measure.
            ending = measure if len(measures) > 1 else ""
            name = style.unique_slug(" ".join((*above, part.title)), names, ending)
            drawing = draw_figure(named, measure, looks=looks)
            for suffix in SUFFIXES:
                paths.append(folder / f"{name}{suffix}")
                _write(drawing, paths[-1])
    return paths


def _draw_curves(drawing: Drawing, axes: Axes, curves: Curves, measure: str, looks: Looks) -> None:
    if measure not in curves.measures:
        raise InputError(
            f"the curves {brief(curves.title)} have no measure {brief(measure)}; {nearest(measure, curves.measures)}"
        )
    positions = style.choose_foremost(curves, measure, MOST_CURVES)
    visible = [curves.series[position] for position in positions]
    groups = dict.fromkeys(curves.series[position].group for position in sorted(positions))
    for group in groups:
        if len(groups) > 1:
            axes.plot([], [], " ", label=_escape(f"{group}:"))  # a heading in the legend
        for series in visible:
            if series.group == group and measure in series.measures:
                _draw_curve(axes, curves.x, series.name, series.measures[measure], looks[series.group, series.name])
    if curves.logarithmic and any(value > 0 for value in curves.x):
        axes.set_xscale("log")
    elif max(map(abs, curves.x), default=0) >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel(_escape(curves.x_name))
    y_label = f"{curves.y_name} ({measure})" if len(curves.measures) > 1 else curves.y_name
    axes.set_ylabel(_escape(y_label))
    axes.grid(color="#e4e4e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    if len(axes.get_legend_handles_labels()[1]) > 1:
        drawing.set_size_inches(9.6, 4.4)
        _legend_beside(axes, handlelength=3)
    if len(visible) < len(curves.series):
        note = f"The best {len(visible)} of {len(curves.series)} curves by their last value, references included."
        drawing.supxlabel(note, fontsize=7.5, color="#666666", x=0.01, ha="left")


def _draw_curve(axes: Axes, x: Sequence[float], name: str, band: Band, look: style.Look) -> None:
    axes.plot(
        x,
        band.mean,
        color=style.LIGHT[look.colour],
        linestyle=(0, tuple(length / 2 for length in look.dash)) if look.dash else "-",
        linewidth=1.5,
        marker="o" if len(x) <= 30 else "",
        markersize=4,
        label=_shorten(name),
    )
    if band.low is not None and band.high is not None:
        axes.fill_between(x, band.low, band.high, color=style.LIGHT[look.colour], alpha=0.14, linewidth=0)


def _legend_beside(axes: Axes, **options: float) -> None:
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0, **options)


def _draw_heat_map(drawing: Drawing, axes: Axes, heat: HeatMap) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    columns, rows = len(heat.x_values), len(heat.y_values)
    drawing.set_size_inches(max(4.5, 2.2 + 0.75 * columns), max(2.8, 1.4 + 0.45 * rows))
    numbers = [[math.nan if value is None else value for value in row] for row in heat.values]
    finite = [value for row in numbers for value in row if math.isfinite(value)] or [0.0]
    lowest, highest = min(finite), max(finite)
    mesh = axes.pcolormesh(
        numbers, cmap=LinearSegmentedColormap.from_list("heat", style.HEAT), edgecolors="white", linewidth=1.5,
        vmin=lowest, vmax=highest if highest > lowest else lowest + 1,
    )  # fmt: skip
    for row in range(rows):
        for column in range(columns):
            value = numbers[row][column]
            colour = style.text_colour(style.heat_step(value, lowest, highest) if math.isfinite(value) else 0)
            axes.text(
                column + 0.5, row + 0.5, heat.text[row][column], ha="center", va="center", fontsize=8,
                color=colour, fontweight="bold" if heat.best == (row, column) else "normal",
            )  # fmt: skip
    if heat.best is not None:
        corner = (heat.best[1] + 0.02, heat.best[0] + 0.02)
        axes.add_patch(Rectangle(corner, 0.96, 0.96, fill=False, edgecolor="#111111", linewidth=2.2, clip_on=False))
    axes.set_xticks(
        [position + 0.5 for position in range(columns)], [_escape(value) for value in style.format_ticks(heat.x_values)]
    )
    axes.set_yticks(
        [position + 0.5 for position in range(rows)], [_escape(value) for value in style.format_ticks(heat.y_values)]
    )
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(_escape(heat.x_name))
    axes.set_ylabel(_escape(heat.y_name))
    bar = drawing.colorbar(mesh, ax=axes, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)


def _draw_scatter(drawing: Drawing, axes: Axes, scatter: Scatter) -> None:
    drawing.set_size_inches(6.2, 4.6)
    _draw_points(axes, scatter, size=9, alpha=0.8)
    _name_features(axes)
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid(color="#e4e4e0", linewidth=0.6)
    axes.set_axisbelow(True)
    if scatter.classes:
        _legend_beside(axes, markerscale=1.6)


def _draw_points(axes: Axes, points: Scatter, size: float, alpha: float | None = None) -> None:
    for label, name in enumerate(points.classes):
        chosen = [position for position, value in enumerate(points.labels) if value == label]
        x, y = ([values[position] for position in chosen] for values in (points.x, points.y))
        turn, colour = divmod(label, len(style.LIGHT))
        marker, short = "os"[turn % 2], _shorten(name)
        axes.scatter(x, y, color=style.LIGHT[colour], marker=marker, linewidths=0, label=short, s=size, alpha=alpha)


def _draw_regions(drawing: Drawing, axes: Axes, regions: Regions) -> None:
    from matplotlib.colors import ListedColormap

    drawing.set_size_inches(6.2, 4.6)
    colours = [style.LIGHT[label % len(style.LIGHT)] for label in range(len(regions.points.classes))]
    axes.pcolormesh(
        regions.x, regions.y, regions.labels, cmap=ListedColormap(colours), vmin=-0.5, vmax=len(colours) - 0.5,
        alpha=0.28, shading="nearest", rasterized=True,
    )  # fmt: skip
    _draw_points(axes, regions.points, size=4)
    axes.contour(regions.x, regions.y, regions.scores, levels=[0.0], colors="black", linewidths=1.6)
    _name_features(axes)
    axes.set_aspect("equal", adjustable="box")
    _legend_beside(axes, markerscale=2.5)


def _name_features(axes: Axes) -> None:
    axes.set_xlabel("first feature")
    axes.set_ylabel("second feature")


def _shorten(name: str) -> str:
    """Shorten a name to fit a legend, and escape what Matplotlib would treat specially.

    Matplotlib reads $ as mathematics and leaves out names that begin with _.
    """
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return _escape(f" {short}" if short.startswith("_") else short)


def _escape(text: str) -> str:
    return text.replace("$", r"\$")
