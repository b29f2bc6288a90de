"""The look of curves, classes and cells on pages and in figures: colours, dashes, order of curves."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onebit.experiments.report import FULL_INFORMATION, Curves, Part, Section

# Okabe and Ito's colours, which colour-blind readers can tell apart. Their yellow is hard to see on white and their black on a
# dark background, so each background has its own eight colours, in the same order of hues.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#c4629a", "#e69f00", "#56b4e9", "#882255", "#555555")
DARK = ("#4ba6e6", "#f5803e", "#2cc79b", "#e39ac6", "#f2b840", "#9ad7fb", "#f0e442", "#c9ccd1")

# Dashes, used in turn when colours run out. Learners are solid or nearly so, references dashed.
LEARNERS: tuple[tuple[int, ...], ...] = ((), (14, 3, 2, 3), (14, 3, 2, 3, 2, 3), (22, 3))
REFERENCES: tuple[tuple[int, ...], ...] = ((6, 4), (2, 3), (6, 3, 2, 3), (3, 6))

# Seventeen steps of viridis (perceptually uniform), reversed: the lowest error is the brightest.
HEAT = (
    *("#fde725", "#d8e219", "#addc30", "#84d44b", "#5ec962", "#3fbc73", "#28ae80", "#1fa088", "#21918c"),
    *("#26828e", "#2c728e", "#33638d", "#3b528b", "#424086", "#472d7b", "#48186a", "#440154"),
)
DARK_FROM = 10  # steps from which white text is easier to read (relative luminance at most 0.18)


@dataclass(frozen=True)
class Look:
    """The look of a curve: the index of its colour among the eight, and its dashes."""

    colour: int
    dash: tuple[int, ...]


def rank_curves(curves: Curves, measure: str) -> list[int]:
    """Return the positions of the curves, best last value first; those without finite values come last.

    Low values are good unless the curves say that high values are.

    >>> from onebit.experiments.report import Band, Series
    >>> rank_curves(Curves("", [1], "", "", [Series("a", {"played": Band([5])}), Series("b", {"played": Band([3])})]), "played")
    [1, 0]
    """
    sign, finals = -1.0 if curves.highest_first else 1.0, []
    for series in curves.series:
        values = reversed(series.measures[measure].mean) if measure in series.measures else ()
        finals.append(next((sign * value for value in values if math.isfinite(value)), math.inf))
    return sorted(range(len(finals)), key=finals.__getitem__)


def choose_foremost(curves: Curves, measure: str, limit: int) -> list[int]:
    """Return the positions of at most `limit` curves to show first, best first.

    Two places are kept for references (full information); more references are shown only if learners leave places free.

    >>> from onebit.experiments.report import Band, Series
    >>> names = [("a", ""), ("b", FULL_INFORMATION), ("c", FULL_INFORMATION), ("d", FULL_INFORMATION)]
    >>> series = [Series(name, {"played": Band([9 - position])}, group) for position, (name, group) in enumerate(names)]
    >>> choose_foremost(Curves("", [1], "rounds", "error", series), "played", 3)
    [3, 2, 0]
    """
    order = rank_curves(curves, measure)
    references = [position for position in order if curves.series[position].group == FULL_INFORMATION]
    learners = [position for position in order if position not in references]
    chosen = learners[: limit - len(references[:2])]
    chosen += references[: limit - len(chosen)]
    return sorted(chosen, key=order.index)


def assign_looks(charts: Iterable[Curves], limit: int) -> dict[tuple[str, str], Look]:
    """Return the look of each curve by (group, name), the same in all charts.

    Curves that are shown first get their colours first. A chart that shares no curve with the charts before it starts again with the first
    colour.
    """
    result: dict[tuple[str, str], Look] = {}
    counts = {True: 0, False: 0}
    for chart in charts:
        if not any((series.group, series.name) in result for series in chart.series):
            counts = {True: 0, False: 0}
        measure = next(iter(chart.measures), "")
        front = choose_foremost(chart, measure, limit)
        for position in front + [position for position in rank_curves(chart, measure) if position not in front]:
            series = chart.series[position]
            if (series.group, series.name) not in result:
                is_reference = series.group == FULL_INFORMATION
                turn, colour = divmod(counts[is_reference], len(LIGHT))
                dashes = REFERENCES if is_reference else LEARNERS
                # References take the colours from the other end, so that the first few differ from the first learners.
                colour = len(LIGHT) - 1 - colour if is_reference else colour
                result[series.group, series.name] = Look(colour, dashes[turn % len(dashes)])
                counts[is_reference] += 1
    return result


def walk_parts(parts: Sequence[Part], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Part]]:
    """Yield all parts in order, each with the titles of the sections that contain it."""
    for part in parts:
        yield above, part
        if isinstance(part, Section):
            yield from walk_parts(part.parts, (*above, part.title))


LONGEST_SLUG = 80  # in characters


def unique_slug(title: str, used: set[str], ending: str = "") -> str:
    """Return a file name or anchor for a title that is not in `used`, and add it there; append `ending`.

    >>> used = set()
    >>> [unique_slug(title, used) for title in ("Error, by round", "error by ROUND", "误差")]
    ['error-by-round', 'error-by-round-2', 'part']
    """
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if len(slug) > LONGEST_SLUG:  # cut at a word boundary if there is one
        slug = slug[:LONGEST_SLUG].rpartition("-")[0] or slug[:LONGEST_SLUG]
    base = "-".join(filter(None, [slug or "part", ending]))
    name = next(
        name for number in itertools.count(1) if (name := f"{base}-{number}" if number > 1 else base) not in used
    )
    used.add(name)
    return name


def format_ticks(values: Sequence[float | str]) -> list[str]:
    """Format the axis values of a heat map with as few digits as tell them apart, but at least two.

    >>> format_ticks([0.0001, 0.0001847849797, 0.125, "PA-I"])
    ['0.0001', '0.00018', '0.125', 'PA-I']
    """
    whole = [str(value) for value in values]
    for digits in range(2, 17):
        labels = [
            text if isinstance(value, str) or len(text) <= 6 else f"{value:.{digits}g}"
            for value, text in zip(values, whole, strict=True)
        ]
        if len(set(labels)) == len(set(whole)):
            return labels
    return whole


def heat_step(value: float, lowest: float, highest: float) -> int:
    """Return the step of the heat scale for a value between the lowest and the highest.

    >>> heat_step(5, 5, 10), heat_step(10, 5, 10), heat_step(5, 5, 5)
    (0, 16, 0)
    """
    return round((value - lowest) / (highest - lowest) * (len(HEAT) - 1)) if highest > lowest else 0


def text_colour(step: int) -> str:
    """Return black or white, whichever is easier to read on a step of the heat scale."""
    return "#111" if step < DARK_FROM else "#fff"
