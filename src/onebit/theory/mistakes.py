"""`onebit.theory.bounds`: the bounds that papers promise a learner on some data, next to its runs.

The rows, their order and the noise in their labels are those of one seed, the same in all runs, as the theorems have it: only the
learner's own randomness differs from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Rule
from onebit.contract.validation import MAX_RUNS, ClassName, checked_count, checked_seed
from onebit.data.streams import stream
from onebit.errors import InputError, brief, nearest
from onebit.experiments.drawing import make_band
from onebit.experiments.pages import page_facts
from onebit.experiments.report import Badge, Band, Cell, Column, Curves, Number, Page, Part, Series, Table, Text
from onebit.experiments.run import STREAM_SETTINGS, Result, run
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.experiments.trials import Progress, make_entry
from onebit.theory.bound import Bound
from onebit.theory.rounds import read_rounds
from onebit.theory.setting import Setting
from onebit.theory.theorems import check_theorems, compute_promises, describe_setting

RUNS = 5
FEW = 10.0  # smaller bounds on other things than mistakes are shown with three decimals
# In half widths of the 95 % interval: about four standard errors, so that a true equality fails once in 20,000 times.
EQUAL_WITHIN = 2.0


@dataclass(frozen=True)
class CheckedBound:
    """A bound and its measured values, one per measured run."""

    bound: Bound
    measured: Sequence[float]

    @property
    def mean(self) -> MeanEstimate:
        return estimate(np.array(self.measured))

    @property
    def held(self) -> bool | None:
        """True if the runs kept the bound; None if there is nothing to compare.

        A bound in expectation is kept if the interval of the mean reaches down to it. A mean that is promised to equal a value must be within twice
        its interval of it, about four standard errors. There is nothing to compare if the theorem could not be read or is about another learner.
        """
        if math.isnan(self.bound.value) or not self.bound.applies:
            return None
        limit = self.bound.value * (1.0 + 1e-9) + 1e-9
        if self.bound.setting == "every run":
            return max(self.measured) <= limit
        mean = self.mean
        if self.bound.equal:
            if math.isnan(mean.low):  # a single run cannot confirm equality
                return None
            return abs(mean.mean - self.bound.value) <= EQUAL_WITHIN * (mean.high - mean.mean) + 1e-9
        return (mean.mean if math.isnan(mean.low) else min(mean.mean, mean.low)) <= limit

    @property
    def measured_text(self) -> str:
        """The measured mean as text, with its interval if numbers are small; empty if not measured."""
        mean = self.mean
        if not self.bound.applies:
            return ""
        if abs(self.bound.value) >= FEW or self.bound.of.startswith("mistakes"):
            return f"{mean.mean:,.1f}"
        return f"{mean.mean:.3f}" + ("" if math.isnan(mean.low) else f" ± {mean.high - mean.mean:.3f}")

    def to_dict(self) -> dict[str, Any]:
        measured = list(self.measured) if self.bound.applies else None
        return {**self.bound.to_dict(), "measured": measured, "held": self.held}


def check_bounds(errors: NDArray[np.float64], rounds: int, bounds: Sequence[Bound]) -> list[CheckedBound]:
    """Pair each bound with the mistakes of the runs, or with the quantity that its theorem is about."""
    mistakes = [float(round(error * rounds)) for error in errors]
    return [CheckedBound(bound, mistakes if bound.left is None else bound.left) for bound in bounds]


def mistake_curves(
    rule: str, marks: NDArray[np.int64], played: NDArray[np.float64], bounds: Sequence[Bound], title: str
) -> Curves:
    """Return the curves of mistakes so far with their interval, and of the bounds with a line.

    `played` has one row per run. Bounds that end below the number of rounds are drawn; if there are none, the lowest bound is, next to the line
    of all rounds.
    """
    drawn = {f"mistakes of {rule}": make_band(played * marks)}
    lines = {bound.name: bound.line for bound in bounds if bound.line is not None}
    binding = {name: line for name, line in lines.items() if line[-1] < marks[-1]}
    if not binding:
        lowest = min(lines.items(), key=lambda item: float(item[1][-1]))
        drawn["all rounds"] = Band(marks.astype(float).tolist())
        binding = dict([lowest]) if lowest[1][-1] < 3 * marks[-1] else {}
    drawn |= {name: Band(line) for name, line in binding.items()}
    series = [Series(name, {"mistakes": band}) for name, band in drawn.items()]
    return Curves(title, marks.tolist(), "rounds", "mistakes", series)


@dataclass(frozen=True)
class Bounds:
    """The bounds that theorems promise a learner on some data, next to its runs."""

    result: Result = field(repr=False)
    rows: list[CheckedBound]
    notes: list[str]
    seed: int
    command: str

    def __getitem__(self, name: str) -> CheckedBound:
        """Return the bound with this name."""
        for checked in self.rows:
            if checked.bound.name == name:
                return checked
        raise InputError(
            f"there is no bound {brief(name)} in this result; {nearest(name, [checked.bound.name for checked in self.rows])}"
        )

    @property
    def broken(self) -> list[CheckedBound]:
        """The bounds that are proved but were not kept; there should be none."""
        return [
            checked for checked in self.rows if checked.held is False and checked.bound.holds in ("proved", "vacuous")
        ]

    @cached_property
    def mistakes(self) -> list[int]:
        return [round(error * self.result.rounds) for error in self.result.errors.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Return the bounds as plain values, as printed by `onebit bounds --json`."""
        return {
            "rule": self.result.rule,
            "params": self.result.params,
            "data": self.result.data,
            "rounds": self.result.rounds,
            "runs": self.result.runs,
            "seed": self.seed,
            "mistakes": self.mistakes,
            "bounds": [checked.to_dict() for checked in self.rows],
            "notes": self.notes,
        }

    def page(self) -> Page:
        """Build the page: the table of bounds, and the mistakes drawn against them."""
        text = [
            f"{self.result.runs} runs of {self.result.rounds:,} rounds on the same rows and labels; only the learner's own chance differs. "
            "U is the best linear classifier in hindsight, fitted for each bound; any other U gives a larger one. A bound in "
            "expectation is compared with the mean over runs and its 95 % interval, the others with every run.",
            *self.notes,
        ]
        parts: list[Part] = [Text(text), self.table()]
        if any(checked.bound.line is not None for checked in self.rows):
            curve, bounds = self.result.curve, [checked.bound for checked in self.rows]
            title = "Mistakes so far, and the bounds"
            parts.append(mistake_curves(self.result.rule, curve.rounds, curve.played, bounds, title))
        title = f"What theory promises of {self.result.rule} on {self.result.data}"
        return Page(title, self.command, parts, page_facts(None), {"bounds": self.command})

    def table(self) -> Table:
        """Return a table of all bounds with the measured values."""
        columns = [
            Column("theorem"),
            Column("says"),
            Column("bound", True),
            Column("measured", True, "mistakes, or what the theorem is about; mean over the runs looked at"),
            Column("theorem is", help="proved; vacuous: proved, but not below the rounds; false; unproved; unread"),
            Column("runs kept it"),
            Column("why, and with which numbers"),
        ]
        return Table("Bounds", columns, {"": [self._cells(checked) for checked in self.rows]})

    def _cells(self, checked: CheckedBound) -> list[Cell]:
        bound, tones = checked.bound, {"proved": "good", "false": "bad"}
        numbers = ", ".join(f"{name} {value:,.4g}" for name, value in bound.assumptions.items())
        about = "" if bound.of == "mistakes" else f"{bound.of}, "
        return [
            f"{bound.name} ({bound.paper})",
            f"{bound.statement}; {about}{bound.setting}",
            Number(bound.log_value, bound.value_text),
            Number(checked.mean.mean if bound.applies else None, checked.measured_text),
            Badge(bound.holds, tones.get(bound.holds, "plain")),  # type: ignore[arg-type]
            "" if checked.held is None else Badge("yes", "good") if checked.held else Badge("no", "bad"),
            "; ".join(part for part in (bound.why, numbers) if part),
        ]


def bounds(
    rule: str | Rule,
    X: Any,
    y: Any = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    classes: Sequence[ClassName] | None = None,
    groups: Sequence[Sequence[ClassName]] | None = None,
    progress: Progress | None = None,
    command: str = "",
    **options: Any,
) -> Bounds:
    """Compute all bounds of the papers that apply to a learner on these data, and run the learner.

    `X` and `y` are what `onebit.run` takes, and its keywords (`rounds`, `order`, `prepare`, ...) say how the data arrive. `groups`
    are for the theorems on group weakly separable classes. The comparators need SciPy, the margins Clarabel.

    >>> from onebit.theory.mistakes import bounds
    >>> result = bounds("gaptron", "weak2d", rounds=300, runs=3, setting="full", loss="smooth")
    >>> [(checked.bound.name, checked.held) for checked in result.rows]
    [('Lemma 1', True), ('Theorem 3', True)]
    """
    checked_count("runs", runs, MAX_RUNS)
    first_seed = checked_seed(seed)
    settings = {name: options.pop(name) for name in STREAM_SETTINGS if name in options}
    entry = make_entry(rule, options)
    check_theorems(entry)
    rounds = read_rounds(stream(X, y, classes=classes, **settings), first_seed)
    result = run(entry.rule, rounds.as_stream(), runs=runs, seed=first_seed, progress=progress, **options)
    setting = Setting(entry.rule, entry.options, rounds, runs, first_seed, result.curve.rounds, groups)
    checked_bounds = check_bounds(result.errors, rounds.count, compute_promises(setting))
    return Bounds(result, checked_bounds, describe_setting(setting), first_seed, command)
