"""Which features or words of an x spoke for a class: what each adds to the lead of that class over the best of the others.

The lead is a sum of scores (`contract.contrast`): the difference of two, the score of the node of a tree at which two classes part, that of
their pair, or the differences of the members of `auto` by their shares. A space says what each value of a row adds to such a sum, so that
the parts of an explanation sum up to it. It is the learner of now that is explained, and nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np

from onebit.contract.contrast import Contrast, amount, class_contrast
from onebit.contract.rule import one_head_a_class
from onebit.contract.validation import ClassName, checked_count
from onebit.engine import stream as engine
from onebit.errors import InputError, brief
from onebit.features.rows import as_rows
from onebit.learner.decide import Among, parse_request
from onebit.learner.runtime import Runtime
from onebit.spaces.choose import KernelChoice

FeatureName = str | int  # a column without a name is called by its number


@dataclass(frozen=True)
class FeatureContribution:
    """The contribution of one value of x. If names are hashed, names of this x that share a column count together."""

    names: tuple[FeatureName, ...]
    value: float
    contribution: float

    def __str__(self) -> str:
        shared = ", which share a column" if len(self.names) > 1 else ""
        return f"{' + '.join(map(str, self.names))}{shared}"


@dataclass(frozen=True)
class Explanation:
    """Why a class rather than another: the lead of the one is the sum of the parts, the constant and the rest."""

    label: ClassName
    rival: ClassName  # the best of the others
    lead: float  # below 0 where the rival is ahead
    parts: tuple[FeatureContribution, ...]  # the largest first, whatever their sign
    constant: float  # the bias; for `auto` the constants of its views, or how much it has heard of the classes
    rest: float  # of the parts that are not shown
    left_out: int  # so many

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the service sends them."""
        return {**asdict(self), "parts": [{**asdict(part), "names": list(part.names)} for part in self.parts]}

    def __str__(self) -> str:
        return "\n".join([self._title, *(f"{amount:+9.3g}  {what}" for amount, what in self._lines)])

    def _repr_html_(self) -> str:
        """Render for a notebook; names are escaped."""
        cells = (f"<tr><td>{amount:+.3g}</td><td>{escape(what)}</td></tr>" for amount, what in self._lines)
        return f"<b>{escape(self._title)}</b><table>{''.join(cells)}</table>"

    @property
    def _title(self) -> str:
        by = f"ahead by {self.lead:.3g}" if self.lead > 0.0 else f"behind by {-self.lead:.3g}" if self.lead else "even"
        silent = "" if self.parts else "; nothing in x speaks for either"
        return f"{self.label!r} rather than {self.rival!r}: {by}{silent}"

    @property
    def _lines(self) -> list[tuple[float, str]]:
        lines = [(part.contribution, str(part)) for part in self.parts]
        lines += [(self.constant, "constant")] if self.constant else []
        more = "1 feature more" if self.left_out == 1 else f"{self.left_out:,} features more"
        return [*lines, *([(self.rest, more)] if self.left_out else [])]


def explain(runtime: Runtime, x: Any, label: ClassName | None, top: int | None, among: Among = None) -> Explanation:
    """Explain why this class, by default the best one, rather than the best of the others that can be played.

    >>> import onebit
    >>> learner = onebit.BPA(classes=["cold", "warm"])
    >>> learner.teach([{"ice": 1.0, "sun": 0.5}, {"sun": 2.0}], ["cold", "warm"])
    >>> print(explain(learner.runtime, {"ice": 1.0, "sun": 0.25, "sea": 1.0}, None, None))
    'cold' rather than 'warm': ahead by ...
    """
    chosen = None if label is None else runtime.names.index(label)
    most = None if top is None else checked_count("top", top)
    with runtime.lock:
        between, model = _contrast_of(runtime), runtime.model
        candidates = _candidates(runtime, among, chosen)
        kept, row = runtime.decide_one(x, runtime.ledger.next_id, parse_request(runtime, among, False))
        number = int(model.choice[0, engine.GREEDY]) if chosen is None else chosen
        scores = model.buffers[engine.SCORES].copy()
        rival = _rival_of(number, candidates, lambda one, other: amount(between(one, other), scores))
        rows = as_rows(row)
        found = model.space.contributions(rows, between(number, rival))
        names, values = runtime.features.names_in(kept), rows.values.ravel()
    order = np.lexsort((np.arange(len(values)), -np.abs(found.values)))
    speaking = [int(place) for place in order if found.values[place] != 0.0]
    parts = [FeatureContribution(names[one], float(values[one]), float(found.values[one])) for one in speaking[:most]]
    constant = float(found.constant)  # spaces add it up in NumPy's numbers, which are not JSON
    if not (np.isfinite(found.values).all() and math.isfinite(constant)):
        raise InputError("what a feature adds cannot be told: it is beyond the range of numbers")
    return Explanation(
        label=runtime.classes[number],
        rival=runtime.classes[rival],
        lead=float(found.values.sum()) + constant,
        parts=tuple(parts),
        constant=constant,
        rest=math.fsum(found.values[one] for one in speaking[len(parts) :]),
        left_out=len(speaking) - len(parts),
    )


def _contrast_of(runtime: Runtime) -> Callable[[int, int], Contrast]:
    """Return the function that compares two classes; refused if that is not a sum over features."""
    rule, model = runtime.rule, runtime.model
    if isinstance(runtime.space_choice, KernelChoice):
        raise InputError(f"{rule.title} has a kernel: it stores rows, and no feature has a weight that could be told")
    given = rule.contrast
    if given is None and rule.heads is one_head_a_class:
        given = class_contrast

    def between(label: int, rival: int) -> Contrast:
        found = None if given is None else given(model.params, model.memory, label, rival)
        if found is None:
            raise InputError(
                f"{rule.title} names a class by more than a sum of scores: what a feature adds cannot be told"
            )
        return found

    between(0, 1)
    return between


def _candidates(runtime: Runtime, among: Among, label: int | None) -> list[int]:
    """Return the classes that can be played; refused if the label is none of them, or there is no other."""
    found = runtime.candidates(among)
    candidates = list(range(len(runtime.classes))) if found is None else found
    if among is not None and label is not None and label not in candidates:
        raise InputError(f"the label is {brief(runtime.classes[label])}, but must be one of the candidates")
    if len(candidates) == 1:
        raise InputError("there is one candidate alone, and so no other class that it could be ahead of")
    return candidates


def _rival_of(label: int, candidates: Sequence[int], lead: Callable[[int, int], float]) -> int:
    """Return the class over which the label leads by least; of several such, the one that leads over the others."""
    others = [one for one in candidates if one != label]
    leads = [lead(label, one) for one in others]
    least = min(leads)
    nearest = [one for one, amount in zip(others, leads, strict=True) if amount == least]
    best = nearest[0]
    for one in nearest[1:]:
        best = one if lead(one, best) > 0.0 else best
    return best
