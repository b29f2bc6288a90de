"""Points in the plane as SVG, for the page."""

from __future__ import annotations

import math
from html import escape

from onebit.report import style
from onebit.report.parts import Scatter

MOST_POINTS = 4_000  # more would only hide each other
_SIZE, _LEFT, _BELOW, _EDGE = 440, 56, 42, 6  # of the square, and of the room around it


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from low to high, about as many as wanted.

    >>> ticks(-1.2, 1.3)
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def thinned(scatter: Scatter) -> list[int]:
    """The places of the points to draw: all, or evenly taken ones, and only those that are numbers."""
    known = [
        place
        for place, pair in enumerate(zip(scatter.x, scatter.y, strict=True))
        if all(math.isfinite(value) for value in pair)
    ]
    return known[:: -(-len(known) // MOST_POINTS) or 1]


def scatter_svg(scatter: Scatter) -> str:
    """The points with axes of the same scale and their titles, and the names of the classes below."""
    places = thinned(scatter)
    xs, ys = [scatter.x[place] for place in places] or [0.0], [scatter.y[place] for place in places] or [0.0]
    middle_x, middle_y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    half = max(max(xs) - min(xs), max(ys) - min(ys), 1e-9) / 2 * 1.06

    def across(value: float) -> float:
        return round(_LEFT + (value - middle_x + half) / (2 * half) * _SIZE, 1)

    def down(value: float) -> float:
        return round(_EDGE + (middle_y + half - value) / (2 * half) * _SIZE, 1)

    lines = "".join(
        f'<path class="grid" d="M{across(value)} {_EDGE}v{_SIZE}"/><text x="{across(value)}" y="{_EDGE + _SIZE + 16}" '
        f'text-anchor="middle">{value:g}</text>'
        for value in ticks(middle_x - half, middle_x + half)
    ) + "".join(
        f'<path class="grid" d="M{_LEFT} {down(value)}h{_SIZE}"/><text x="{_LEFT - 8}" y="{down(value) + 4}" '
        f'text-anchor="end">{value:g}</text>'
        for value in ticks(middle_y - half, middle_y + half)
    )
    middle = _EDGE + _SIZE / 2
    lines += (
        f'<text x="{_LEFT + _SIZE / 2}" y="{_EDGE + _SIZE + 36}" text-anchor="middle">{escape(scatter.x_name)}</text>'
        f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(scatter.y_name)}</text>'
    )
    points = legend = ""
    for label, name in enumerate(scatter.classes):
        turn, colour = divmod(label, len(style.LIGHT))
        kind = f"dots curve-{colour} {'round' if turn % 2 == 0 else 'square'}"
        # A line of no length with a round or square cap is a dot, in a quarter of the bytes of a circle.
        path = "".join(
            f"M{across(scatter.x[place])} {down(scatter.y[place])}h0"
            for place in places
            if scatter.labels[place] == label
        )
        points += f'<path class="{kind}" d="{path}"><title>{escape(name)}</title></path>' if path else ""
        mark = f'<svg viewBox="0 0 12 12" aria-hidden="true"><path class="{kind}" d="M6 6h0"/></svg>'
        legend += f"<li>{mark}{escape(name)}</li>"
    fewer = len(places) < len(scatter.x)
    note = f'<p class="note">{len(places):,} of {len(scatter.x):,} points are drawn.</p>' if fewer else ""
    return (
        f'<svg class="scatter" data-test="scatter" viewBox="0 0 {_LEFT + _SIZE + _EDGE} {_EDGE + _SIZE + _BELOW}" role="img" '
        f'aria-label="{escape(scatter.title)}">{lines}{points}</svg><ul class="classes">{legend}</ul>{note}'
    )
