"""The statement of a theorem for given rounds: its value, its assumptions and whether it is proved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

# proved: proved and not vacuous. vacuous: proved, but no run could break it. false: there is a counterexample. unproved: the proof
# has a gap. unread: our text of the paper is damaged.
Holds = Literal["proved", "vacuous", "false", "unproved", "unread"]
When = Literal["every run", "in expectation"]
LOOKED_AT = "rounds looked at"  # assumption of a bound on the first rounds of runs


@dataclass(frozen=True)
class Bound:
    """A theorem's bound, evaluated on given rounds.

    `value` is in mistakes unless `of` names another quantity: infinite if nothing is promised, NaN if the theorem cannot be read.
    `log_value` is its natural logarithm, known even if the value overflows. A theorem on something else than the mistakes of all runs has the
    measured values in `left`, one for each run measured. `line` is the bound at the rounds of a curve. If `equal`, the theorem promises the
    value itself, not an upper bound.
    """

    name: str
    paper: str
    statement: str
    value: float
    holds: Holds = "proved"
    why: str = ""
    setting: When = "every run"
    assumptions: Mapping[str, float] = field(default_factory=dict)
    log_value: float | None = None
    of: str = "mistakes"
    left: Sequence[float] | None = None
    applies: bool = True  # False if the theorem is about a different learner than the one run
    equal: bool = False
    line: Sequence[float] | None = field(default=None, repr=False, compare=False)

    def judge(self, rounds: int) -> Bound:
        """Return the bound with `log_value` set, marked as vacuous if no run of `rounds` rounds can break it.

        >>> Bound("Theorem 3", "Prompak 2017", "", 500.0).judge(400).holds
        'vacuous'
        """
        log_value = self.log_value
        if log_value is None and not math.isnan(self.value):
            log_value = math.log(self.value) if self.value > 0.0 else -math.inf
        rounds = int(self.assumptions.get(LOOKED_AT, rounds))
        if self.holds != "proved" or not self.of.startswith("mistakes") or self.value < rounds:
            return replace(self, log_value=log_value)
        why = [self.why] if self.why else []
        if log_value != math.inf:
            why.append(f"it is not below the {rounds:,} rounds, so any learner keeps it")
        return replace(self, log_value=log_value, holds="vacuous", why="; ".join(why))

    @property
    def value_text(self) -> str:
        """The value as text: as a power of ten if it overflows, after "= " if the theorem promises equality.

        >>> Bound("", "", "", math.inf, log_value=2302.585093).value_text, Bound("", "", "", 1234.5, equal=True).value_text
        ('10^1,000', '= 1,234.5')
        """
        if math.isnan(self.value):
            return "unread"
        if self.value < 1e9:
            return ("= " if self.equal else "") + f"{self.value:,.1f}".removesuffix(".0")
        if self.log_value is None or math.isinf(self.log_value):
            return "none"
        return f"10^{self.log_value / math.log(10.0):,.0f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain values, with None for numbers that are not finite."""
        numbers = {
            "value": _finite(self.value),
            "log_value": _finite(self.log_value),
            "assumptions": {name: _finite(number) for name, number in self.assumptions.items()},
        }
        return {name: value for name, value in {**vars(self), **numbers}.items() if name not in ("left", "line")}


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
