"""Reports on a learner: its error, its members, how much it explores, and whether that paid off."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from onebit.contract.confidence_sequence import DELTA, least_error, most_error
from onebit.contract.validation import ClassName
from onebit.errors import brief

VERDICTS = {
    True: "more exploration would have paid off at once",
    False: "more exploration would not have paid off at once",
    None: "it is unclear whether more exploration would have paid off",
}
NORMAL = 1.959963984540054  # standard deviations to each side that contain 95 %


@dataclass(frozen=True)
class ExplorationReport:
    """A report on rounds in which a class other than the best was played."""

    rounds: int  # the number of such rounds
    recent: float  # their share of the last few hundred rounds
    right: int  # how often the class played was right in them
    hoped: float  # the share in which the best class was expected to be right

    @property
    def paid(self) -> bool | None:
        """True if exploring beat playing the best class, False if not; None if unclear."""
        if self.rounds == 0:
            return None
        _, low, high = wilson_interval(self.right, self.rounds)
        return None if low <= self.hoped <= high else low > self.hoped


@dataclass(frozen=True)
class CertaintyReport:
    """Counts of decisions with feedback for which a confidence was required."""

    asked: int  # all of them
    sure: int  # those with the required confidence
    wrong: float  # those of the sure ones that were wrong

    @property
    def answered(self) -> float:
        """The share of decisions that were sure."""
        return self.sure / self.asked

    @property
    def error(self) -> tuple[float, float, float] | None:
        """The mean error of sure decisions with time-uniform 95 % bounds; None if none was sure."""
        if self.sure == 0:
            return None
        bounds = (least_error(self.sure, self.wrong, DELTA), most_error(self.sure, self.wrong, DELTA))
        return (self.wrong / self.sure, *bounds)


@dataclass(frozen=True)
class MemberReport:
    """A member of `auto`: its view of x, its share, and how well it predicted the feedback."""

    name: str
    about: str  # a description of its view of x
    share: float  # its weight in the belief of `auto`
    chance: float | None = None  # geometric mean of the probabilities it gave to recent feedback; None if unknown
    behind: float = 0.0  # log-likelihood of all feedback under the best member minus that under this one
    every: int = 1  # it looks at every `every`-th row; at all rows unless asleep
    waits_for: str | None = None  # None once it has begun

    @property
    def asleep(self) -> bool:
        """True if it looks only at some rows because it is far behind."""
        return self.every > 1 and self.waits_for is None


@dataclass(frozen=True)
class ColumnsReport:
    """A report on how `auto` treats the columns of dense rows."""

    count: int
    varying: int  # the number of columns that are not constant
    divided: bool  # True if rows are divided by their scale
    standardised: bool | None  # True if principal components use columns divided by their deviations; None before any
    effective: float | None  # effective number of columns, (sum v)^2/(sum v^2) of variances v; None before computed

    def __str__(self) -> str:
        sentences = [f"{self.varying:,} of {self.count:,} columns vary"]
        if self.standardised is not None and self.effective is not None:
            units = "in units of their deviations" if self.standardised else "as they are"
            bound = "no more than " if self.standardised else ""
            sentences.append(
                f"principal components take them {units}, since the variance lies in {bound}about {self.effective:.3g} of them"
            )
        if self.divided:
            sentences.append("rows differ by orders of magnitude, so each is divided by its scale")
        return "; ".join(sentences)


@dataclass(frozen=True)
class MembersReport:
    """The members of `auto`, and how it treats columns."""

    members: tuple[MemberReport, ...]
    columns: ColumnsReport | None = None  # None for sparse rows, which have only one view


@dataclass(frozen=True)
class NeverRight:
    """The playable classes that were never right, as far as is remembered: their number and the first few."""

    count: int
    classes: tuple[ClassName, ...]

    def __str__(self) -> str:
        left_out = self.count - len(self.classes)
        return ", ".join(map(brief, self.classes)) + (f" and {left_out:,} more" if left_out else "")


@dataclass(frozen=True)
class Description:
    """A report on a learner; `print` shows it as text."""

    learner: str
    learnt: int  # the number of feedbacks, as in `learner.learnt`
    right: float  # the sum of the rewards, 1 for right and 0 for wrong
    settings: dict[str, Any]
    composition: MembersReport | None = None  # the members of `auto`
    never_right: NeverRight | None = None  # None if not tracked
    exploration: ExplorationReport | None = None
    certainty: CertaintyReport | None = None  # None if no decision was required to be sure
    restarts: int = 0
    repairs: int = 0
    rewarded: bool = False  # True if some rewards were strictly between 0 and 1
    taught_nothing: int = 0  # feedbacks without effect: x was 0, or there was only one candidate
    form: str | None = None  # dense or sparse treatment of rows, and why, if the learner chooses

    @property
    def error(self) -> tuple[float, float, float] | None:
        """The error rate with its 95 % interval; None if rewards other than right and wrong were given."""
        if self._taught == 0 or self.rewarded:
            return None
        return wilson_interval(self._taught - int(self.right), self._taught)

    @property
    def reward(self) -> float | None:
        return None if self._taught == 0 else self.right / self._taught

    @property
    def members(self) -> dict[str, float]:
        """The shares of the members of `auto`, by name; empty for other learners."""
        return {} if self.composition is None else {member.name: member.share for member in self.composition.members}

    @property
    def _taught(self) -> int:
        """The number of feedbacks over which `right` was counted."""
        return self.learnt - self.taught_nothing

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, as `onebit run --explain --json` prints it."""
        values = {**asdict(self), "members": self.members, "error": self.error, "reward": self.reward}
        if self.exploration is not None:
            values["exploration"]["paid"] = self.exploration.paid
        if self.certainty is not None:
            values["certainty"] |= {"answered": self.certainty.answered, "error": self.certainty.error}
        return values

    def __str__(self) -> str:
        lines = [f"{self.learner}, {self.learnt:,} feedbacks learnt"]
        if self.taught_nothing:
            lines.append(
                f"{self.taught_nothing:,} of them taught nothing: x was all 0, or there was only one candidate"
            )
        if self.error is not None:
            low, high = 100 * self.error[1], 100 * self.error[2]
            lines.append(f"error so far {100 * self.error[0]:.2f} % (95 %: {low:.2f} to {high:.2f})")
        elif self.reward is not None:
            lines.append(f"mean reward so far {self.reward:.4f}")
        if self.form is not None:
            lines.append(self.form)
        if self.composition is not None:
            lines += self._composition_lines(self.composition)
        if self.never_right is not None and self.never_right.count:
            period = "since the last restart" if self.restarts else "yet"
            lines.append(f"never right {period}: {self.never_right}")
        if self.exploration is not None:
            lines += self._exploration_lines(self.exploration)
        if self.certainty is not None:
            lines.append(self._certainty_line(self.certainty))
        if self.restarts:
            lines.append(f"the data changed, so that it restarted {_format_times(self.restarts)}")
        if self.repairs:
            lines.append(f"a covariance lost its positive definiteness and was repaired {_format_times(self.repairs)}")
        if self.settings:
            lines.append("settings: " + ", ".join(f"{name} {value}" for name, value in self.settings.items()))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the text for a notebook; names are escaped and never read as markup."""
        name, *lines = str(self).splitlines()
        return f"<b>{escape(name)}</b><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"

    def _certainty_line(self, certainty: CertaintyReport) -> str:
        line = f"sure of {100 * certainty.answered:.1f} % of {certainty.asked:,} decisions"
        if certainty.error is None:
            return line
        mean, low, high = (100 * number for number in certainty.error)
        outcome = f"which lacked {mean:.2f} % of the rewards" if self.rewarded else f"of which {mean:.2f} % were wrong"
        return f"{line}, {outcome} (95 %, at all times at once: {low:.2f} to {high:.2f})"

    @staticmethod
    def _composition_lines(composition: MembersReport) -> list[str]:
        has_chances = any(member.chance is not None for member in composition.members)
        column = ", and the probability given to recent feedback (predicted)" if has_chances else ""
        lines = [f"members: share in the beliefs{column}"]
        members = sorted(
            composition.members, key=lambda member: (member.waits_for is not None, -member.share, member.behind)
        )
        width = max(len(member.name) for member in members)
        lines.append(f"  {'':{width}} {'share':>8}{'  predicted' if has_chances else ''}  looks at")
        for member in members:
            chance = f"{'' if member.chance is None else f'{100 * member.chance:.1f} %':>11}" if has_chances else ""
            line = f"  {member.name:{width}} {100 * member.share:6.1f} %{chance}  {member.about}"
            line += f"; asleep, looks at one row in {member.every}" if member.asleep else ""
            lines.append(line if member.waits_for is None else f"{line}; waits for {member.waits_for}")
        return lines if composition.columns is None else [*lines, str(composition.columns)]

    def _exploration_lines(self, report: ExplorationReport) -> list[str]:
        lines = [
            f"exploration: a class other than the best in {report.rounds:,} of {self._taught:,} rounds, "
            f"recently in {100 * report.recent:.1f} %"
        ]
        if report.rounds:
            lines.append(
                f"it was right in {100 * report.right / report.rounds:.1f} % of those, where {100 * report.hoped:.1f} % were "
                f"expected of the best class: {VERDICTS[report.paid]}"
            )
        return lines


def wilson_interval(count: float, total: int, squares: float | None = None) -> tuple[float, float, float]:
    """Return a proportion with the bounds of its 95 % interval (Wilson 1927).

    `count` may be the sum of numbers from 0 to 1 and `squares` the sum of their squares: then it is their mean, with
    their own variance in place of that of bits, which is the largest possible.

    >>> [round(end, 3) for end in wilson_interval(2, 10)], [round(end, 3) for end in wilson_interval(2, 10, 0.4)]
    ([0.2, 0.057, 0.51], [0.2, 0.144, 0.422])
    """
    proportion, squared_deviation = count / total, NORMAL * NORMAL
    variance = (
        proportion * (1 - proportion)
        if squares is None
        else max(0.0, proportion * (1 - proportion) - (count - squares) / total)
    )
    middle = (proportion + squared_deviation / (2 * total)) / (1 + squared_deviation / total)
    half = (
        NORMAL / (1 + squared_deviation / total) * math.sqrt(variance / total + squared_deviation / (4 * total * total))
    )
    return proportion, max(0.0, middle - half), min(1.0, middle + half)


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
