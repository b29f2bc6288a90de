"""The parts of a page, as plain values: whoever computes the numbers makes these, and the page and the figures show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

BANDIT, FULL_INFORMATION = (
    "bandit feedback",
    "full information",
)  # groups of learners; the latter are references, drawn dashed


@dataclass(frozen=True)
class Band:
    """A mean at every x, in percent, and the ends of its interval; no ends where there is only one run."""

    mean: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Series:
    """One learner's curve, in each measure ("played", "greedy"). The group says which feedback it gets."""

    name: str
    measures: Mapping[str, Band]
    group: str = ""


@dataclass(frozen=True)
class Curves:
    """Curves that share their x. `logarithmic` is the axis at first; a reader of the page can change it."""

    title: str
    x: Sequence[float]
    x_name: str
    y_name: str
    series: Sequence[Series]
    logarithmic: bool = False
    highest_first: bool = False  # whether high is good, as of rewards, and the best curve ends highest

    @property
    def measures(self) -> list[str]:
        """The measures that any of its curves has, in the order in which they come.

        >>> Curves("", [1], "rounds", "error", [Series("a", {"played": Band([5.0]), "greedy": Band([4.0])})]).measures
        ['played', 'greedy']
        """
        return list(dict.fromkeys(measure for one in self.series for measure in one.measures))


@dataclass(frozen=True)
class Number:
    """A cell that sorts by its value and shows a text; the interval stands beside it, muted, and its ends are drawn.

    `best` marks it as the best of its column.
    """

    value: float | None
    text: str
    interval: str = ""
    ends: tuple[float, float] | None = None
    best: bool = False


@dataclass(frozen=True)
class Badge:
    """A cell with a verdict."""

    text: str
    tone: Literal["good", "bad", "plain"] = "plain"


Cell = str | Number | Badge  # a string is plain text, with `code` in backticks


@dataclass(frozen=True)
class TableRow:
    """The cells of one row. Rows of one group stand together, below its name, and are sorted among themselves."""

    cells: Sequence[Cell]
    group: str = ""


@dataclass(frozen=True)
class Column:
    """The head of a column; the help is shown when the pointer rests on it."""

    title: str
    numeric: bool = False
    help: str = ""


@dataclass(frozen=True)
class Table:
    """Rows that a reader can sort by any column. A row is its cells, or a `TableRow` where it has a group."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[TableRow | Sequence[Cell]]
    note: str = ""

    @property
    def groups(self) -> dict[str, list[Sequence[Cell]]]:
        """The rows of each group, groups in the order in which they come.

        >>> Table("", [Column("learner")], [["bpa"], TableRow(["perceptron"], "full information")]).groups
        {'': [['bpa']], 'full information': [['perceptron']]}
        """
        found: dict[str, list[Sequence[Cell]]] = {}
        for row in self.rows:
            cells, group = (row.cells, row.group) if isinstance(row, TableRow) else (row, "")
            found.setdefault(group, []).append(cells)
        return found


@dataclass(frozen=True)
class HeatMap:
    """A value for each pair of settings: one row for each y, None where nothing was measured; the lowest is the best."""

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
    """Points in the plane; a label is the position of the point's class in `classes`."""

    title: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[int]
    classes: Sequence[str]
    note: str = ""
    x_name: str = "first feature"
    y_name: str = "second feature"


@dataclass(frozen=True)
class Regions:
    """The class that a learner thinks best at each point of a rectangle, one row for each y, with some points on top.

    Where `scores` are given, the line on which they are 0 is the boundary of one class.
    """

    title: str
    x: Sequence[float]
    y: Sequence[float]
    labels: Sequence[Sequence[int]]
    classes: Sequence[str]
    scores: Sequence[Sequence[float]] | None = None
    points: Scatter | None = None
    x_name: str = ""
    y_name: str = ""
    note: str = ""


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text, with `code` in backticks."""

    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Section:
    """Parts below one heading, such as those of one data set."""

    title: str
    parts: Sequence[Part]


Figure = Curves | HeatMap | Scatter | Regions
Part = Curves | Table | HeatMap | Scatter | Regions | Text | Section


@dataclass(frozen=True)
class Page:
    """A page: the exact command on top, the parts, and at the foot the facts (versions, machine, where the rows are).

    `asked` is what the page answers, as plain values: a page that answers the same replaces it, one that answers something else does not.
    """

    title: str
    command: str
    parts: Sequence[Part]
    facts: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
