"""How curves, classes and cells look, on pages and in figures: colours, dashes, order of curves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from onebit.experiments.report import FULL_INFORMATION, Band, Curves, Part, Section, Series

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


def final(band: Band | None) -> float:
    """Return the last finite value of a curve, or infinity if it has none, so that it ranks last."""
    return next((value for value in reversed(band.mean) if math.isfinite(value)), math.inf) if band else math.inf


def ranked(curves: Curves, measure: str) -> list[int]:
    """Return the positions of the curves, best first, by their final values.

    Low values are good unless the curves say that high values are.

    >>> ranked(Curves("", [1], "", "", [Series("a", {"played": Band([5])}), Series("b", {"played": Band([3])})]), "played")
    [1, 0]
    """
    finals = [final(one.measures.get(measure)) for one in curves.series]
    if curves.highest_first:
        finals = [-value if math.isfinite(value) else math.inf for value in finals]
    return sorted(range(len(finals)), key=finals.__getitem__)


def foremost(curves: Curves, measure: str, limit: int) -> list[int]:
    """Return the positions of at most `limit` curves to show first, best first.

    Two places are kept for references (full information); more references are shown only if learners leave places free.

    >>> names = [("a", ""), ("b", FULL_INFORMATION), ("c", FULL_INFORMATION), ("d", FULL_INFORMATION)]
    >>> series = [Series(name, {"played": Band([9 - position])}, group) for position, (name, group) in enumerate(names)]
    >>> foremost(Curves("", [1], "rounds", "error", series), "played", 3)
    [3, 2, 0]
    """
    order = ranked(curves, measure)
    references = [position for position in order if curves.series[position].group == FULL_INFORMATION]
    learners = [position for position in order if position not in references]
    kept = learners[: limit - len(references[:2])]
    kept += references[: limit - len(kept)]
    return sorted(kept, key=order.index)


def looks(charts: Iterable[Curves], limit: int) -> dict[tuple[str, str], Look]:
    """Return the look of each curve by (group, name), the same in all charts.

    Curves that are shown first get their colours first. A chart that shares no curve with the charts before it starts again with the first
    colour.
    """
    found: dict[tuple[str, str], Look] = {}
    counts = {True: 0, False: 0}
    for chart in charts:
        if not any(identity(one) in found for one in chart.series):
            counts = {True: 0, False: 0}
        measure = next(iter(chart.measures), "")
        front = foremost(chart, measure, limit)
        for position in front + [position for position in ranked(chart, measure) if position not in front]:
            one = chart.series[position]
            if identity(one) not in found:
                reference = one.group == FULL_INFORMATION
                turn, colour = divmod(counts[reference], len(LIGHT))
                dashes = REFERENCES if reference else LEARNERS
                # References take the colours from the other end, so that the first few differ from the first learners.
                colour = len(LIGHT) - 1 - colour if reference else colour
                found[identity(one)] = Look(colour, dashes[turn % len(dashes)])
                counts[reference] += 1
    return found


def identity(series: Series) -> tuple[str, str]:
    """Return the (group, name) key by which a curve is the same learner in two charts."""
    return series.group, series.name


def walk(parts: Sequence[Part], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Part]]:
    """Yield all parts in order, each with the titles of the sections that contain it."""
    for part in parts:
        yield above, part
        if isinstance(part, Section):
            yield from walk(part.parts, (*above, part.title))


LONGEST_SLUG = 80  # in characters


class Slugs:
    """Makes unique file names and anchors from titles.

    >>> slugs = Slugs()
    >>> slugs.new("Error, by round"), slugs.new("error by ROUND"), slugs.new("误差")
    ('error-by-round', 'error-by-round-2', 'part')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, title: str, ending: str = "") -> str:
        """Return a unique name for this title, cut to a sensible length, with `ending` appended."""
        words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        if len(words) > LONGEST_SLUG:  # cut at a word boundary if there is one
            words = words[:LONGEST_SLUG].rpartition("-")[0] or words[:LONGEST_SLUG]
        base = words or "part"
        base += f"-{ending}" if ending else ""
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._taken.add(name)
        return name


def ticks(values: Sequence[float | str]) -> list[str]:
    """Format the axis values of a heat map with as few digits as tell them apart, but at least two.

    >>> ticks([0.0001, 0.0001847849797, 0.125, "PA-I"])
    ['0.0001', '0.00018', '0.125', 'PA-I']
    """
    whole = [str(value) for value in values]
    for digits in range(2, 17):
        found = [
            text if isinstance(value, str) or len(text) <= 6 else f"{value:.{digits}g}"
            for value, text in zip(values, whole, strict=True)
        ]
        if len(set(found)) == len(set(whole)):
            return found
    return whole


def shade(value: float, lowest: float, highest: float) -> int:
    """Return the step of the heat scale for a value between the lowest and the highest.

    >>> shade(5, 5, 10), shade(10, 5, 10), shade(5, 5, 5)
    (0, 16, 0)
    """
    return round((value - lowest) / (highest - lowest) * (len(HEAT) - 1)) if highest > lowest else 0


def text_colour(step: int) -> str:
    """Return black or white, whichever is easier to read on a step of the heat scale."""
    return "#111" if step < DARK_FROM else "#fff"
