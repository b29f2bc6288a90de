"""The parts of a result page as plain values: experiments build them, pages and figures show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# Groups of learners. Those with full information are references, drawn dashed.
BANDIT, FULL_INFORMATION = "bandit feedback", "full information"


@dataclass(frozen=True)
class Band:
    """The mean at every x, in percent, with the ends of its interval; no ends for a single run."""

    mean: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Series:
    """One learner's curve in each measure ("played", "greedy").

    `group` names the kind of feedback that the learner gets. Group and name tell that a curve is of the same learner in two charts.
    """

    name: str
    measures: Mapping[str, Band]
    group: str = ""


@dataclass(frozen=True)
class Curves:
    """Curves that share their x values.

    `logarithmic` is the initial scale of the x axis; the reader of the page can change it.
    """

    title: str
    x: Sequence[float]
    x_name: str
    y_name: str
    series: Sequence[Series]
    logarithmic: bool = False
    highest_first: bool = False  # True if high values are good, such as rewards

    @property
    def measures(self) -> list[str]:
        """All measures of the curves, in order of first appearance.

        >>> Curves("", [1], "rounds", "error", [Series("a", {"played": Band([5.0]), "greedy": Band([4.0])})]).measures
        ['played', 'greedy']
        """
        return list(dict.fromkeys(measure for series in self.series for measure in series.measures))


@dataclass(frozen=True)
class Number:
    """A table cell that sorts by its value and shows a text, with its interval beside it.

    `best` marks the cell as the best of its column.
    """

    value: float | None
    text: str
    interval: str = ""
    best: bool = False


@dataclass(frozen=True)
class Badge:
    """A table cell with a verdict."""

    text: str
    tone: Literal["good", "bad", "plain"] = "plain"


Cell = str | Number | Badge  # a string is plain text, with `code` in backticks


@dataclass(frozen=True)
class Column:
    """A column header; `help` is shown as a tooltip."""

    title: str
    numeric: bool = False
    help: str = ""


@dataclass(frozen=True)
class Table:
    """A table whose rows can be sorted by any column.

    Rows of one group stand together below its name, and are sorted among themselves; a group named "" has no heading.
    """

    title: str
    columns: Sequence[Column]
    groups: Mapping[str, Sequence[Sequence[Cell]]]
    note: str = ""


@dataclass(frozen=True)
class HeatMap:
    """A value for each pair of settings, one row per y; None if not measured, and the lowest is best."""

    title: str
    x_name: str
    x_values: Sequence[float | str]
    y_name: str
    y_values: Sequence[float | str]
    values: Sequence[Sequence[float | None]]
    text: Sequence[Sequence[str]]
    best: tuple[int, int] | None = None  # row, column
    note: str = ""


@dataclass(frozen=True)
class Scatter:
    """Points in the plane; each label is an index into `classes`."""

    title: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[int]
    classes: Sequence[str]
    note: str = ""


@dataclass(frozen=True)
class Regions:
    """The class that a learner predicts at each point of a rectangle, one row per y, and some points.

    The line on which the `scores` are 0 is the boundary of one class.
    """

    title: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[Sequence[int]]
    scores: Sequence[Sequence[float]]
    points: Scatter
    note: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text, with `code` in backticks."""

    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Section:
    """Parts under one heading, such as those of one data set."""

    title: str
    parts: Sequence[Part]


Figure = Curves | HeatMap | Scatter | Regions
Part = Curves | Table | HeatMap | Scatter | Regions | Text | Section


@dataclass(frozen=True)
class Page:
    """A page: the exact command at the top, the parts, and facts at the bottom.

    The facts are versions, machine and the folder of the records. `identity` says what the page shows, as plain values: a page replaces an older
    one with the same identity, never another one.
    """

    title: str
    command: str
    parts: Sequence[Part]
    facts: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)
