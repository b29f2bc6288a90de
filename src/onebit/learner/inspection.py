"""Read-only views of a learner: settings, weights, scores, beliefs, description and explanations.

An explanation says which features or words of an x speak for a class: how much each adds to the class's lead over
the best of the other classes. The lead is a weighted sum of scores (`contract.belief`): the difference of two
scores, the score of the tree node at which two classes part, the score of their pair or, for `auto`, the
differences of its members weighted by their shares. A space attributes such a sum to the values of a row, so that
the parts add up to the lead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.belief import class_contrast, evaluate_contrast
from onebit.contract.calibration import SURE, SURE_REQUESTS, SURE_WRONG
from onebit.contract.description import CertaintyReport, Description, NeverRight
from onebit.contract.rule import LEARNT, RIGHT, Contrast, one_head_a_class
from onebit.contract.validation import ClassName, checked_count
from onebit.engine import stream as engine
from onebit.errors import InputError, brief
from onebit.features.rows import Rows, slice_row
from onebit.learner.decide import Among, parse_terms
from onebit.learner.loop_calls import decide_row, run_rows
from onebit.learner.runtime import Runtime
from onebit.spaces.choose import KernelChoice

MOST_NAMED = 10  # classes listed as never right


def collect_settings(runtime: Runtime) -> dict[str, Any]:
    """Return every parameter of the rule with its current value: given, default or computed."""
    params = runtime.model.params
    current = {name: note.show(getattr(params, name)) for name, note in runtime.rule.parameters.items()}
    given = {name: value for name, value in runtime.parameters.items() if value is not None}
    resolved = {"matrix": current["matrix"]} if "matrix" in current else {}
    return {**current, **given, **resolved}


def copy_weights(runtime: Runtime) -> NDArray[Any]:
    """Return a copy of the weights: one row per head, one column per feature, the bias last."""
    with runtime.lock:
        if runtime.model.space is None:
            raise InputError("this learner has seen no x yet, so it has no weights")
        return runtime.model.space.matrix(runtime.features.columns)  # type: ignore[no-any-return]


def score_row(runtime: Runtime, x: Any) -> NDArray[np.float64]:
    """Return the score of every head for one x."""
    with runtime.lock:
        runtime.decide_one(x, 0)
        return runtime.model.buffers[engine.SCORES, : runtime.model.heads].copy()


def find_best_classes(runtime: Runtime, rows: Rows) -> NDArray[np.int64]:
    """Return the index of the best class for each row; ties are broken alike for equal rows."""
    choices = np.empty((rows.height, engine.CHOICE_COLUMNS))
    with runtime.lock:
        run_rows(runtime.model, rows, choices, engine.DECIDE, np.zeros(rows.height, dtype=np.uint64))
    return choices[:, engine.GREEDY].astype(np.int64)


def score_rows(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """Return the scores of the heads for each row, followed by variances for second-order rules."""
    model = runtime.model
    with runtime.lock:
        scores = np.empty((rows.height, model.buffers.shape[1]))
        model.refuse_unfitting(rows)
        for row in range(rows.height):
            try:
                decide_row(model, slice_row(rows, row), 0, mode=engine.DECIDE)
            except InputError as error:
                raise InputError(f"row {row}: {error}") from None
            scores[row] = model.buffers[engine.SCORES]
    return scores


def compute_beliefs(runtime: Runtime, rows: Rows) -> NDArray[np.float64]:
    """Return the rule's belief that each class is right, row by row.

    Raise InputError if the rule has scores only.
    """
    with runtime.lock:
        return _apply_belief(runtime, score_rows(runtime, rows))


def compute_belief(runtime: Runtime, x: Any) -> NDArray[np.float64]:
    """Return the rule's belief that each class is right for one x.

    >>> import onebit
    >>> compute_belief(onebit.Auto(classes=2).runtime, [1.0, 2.0]).round(6).tolist()
    [0.5, 0.5]
    """
    with runtime.lock:
        runtime.decide_one(x, 0)
        return np.asarray(_apply_belief(runtime, runtime.model.buffers[engine.SCORES][None])[0])


def describe_missing_belief(title: str) -> str:
    """Return the error message for a rule that has scores but no beliefs."""
    return f"{title} has scores but no beliefs: they say which class is best, not how probable it is that it is right"


def _apply_belief(runtime: Runtime, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    model, rule = runtime.model, runtime.rule
    if rule.belief is None:
        raise InputError(describe_missing_belief(rule.title))
    return rule.belief(model.params, model.memory, scores)


def describe_learner(runtime: Runtime) -> Description:
    """Describe a learner: its error so far, its settings and, for `auto`, its members."""
    model = runtime.model
    with runtime.lock:
        right = model.memory[RIGHT]
        composition_fields: dict[str, Any] = {}
        if runtime.rule.composite is not None and model.space is not None:
            composition_fields.update(runtime.rule.composite.describe(model.params, model.memory, model.space))
        never_right = composition_fields.pop("never_right", None)
        return Description(
            learner=runtime.rule.title,
            learnt=runtime.ledger.moment,
            taught_nothing=max(0, runtime.ledger.moment - int(model.memory[LEARNT])),  # files may be inconsistent
            right=float(right) if runtime.rewarded else int(right),
            rewarded=runtime.rewarded,
            settings=collect_settings(runtime),
            certainty=_report_certainty(runtime),
            repairs=model.repairs,
            form=_describe_form(runtime),
            never_right=None if never_right is None else _name_never_right(runtime, never_right),
            **composition_fields,
        )


def _describe_form(runtime: Runtime) -> str | None:
    """Say if rows are treated as dense or sparse, and why; None if the learner does not choose."""
    routing, features = runtime.model.routing, runtime.features
    if routing is None or features.size is None or features.space is None:
        return None
    return routing.describe(features.size, features.space)


def _name_never_right(runtime: Runtime, never_right: Sequence[int]) -> NeverRight:
    """Name the classes that were never right, leaving out retired ones."""
    classes = [runtime.classes[index] for index in never_right if index not in runtime.names.retired]
    return NeverRight(len(classes), tuple(classes[:MOST_NAMED]))


def _report_certainty(runtime: Runtime) -> CertaintyReport | None:
    """Report how often the learner was sure; None if a confidence was never required."""
    state = runtime.model.calibration
    count = int(state[SURE_REQUESTS])
    return CertaintyReport(count, int(state[SURE]), float(state[SURE_WRONG])) if count else None


# --- why a class rather than another ------------------------------------------------------------------------------------

FeatureName = str | int  # a column without a name has its index


@dataclass(frozen=True)
class FeatureContribution:
    """The contribution of one value of x; hashed names that share a column share a contribution."""

    names: tuple[FeatureName, ...]
    value: float
    contribution: float

    def __str__(self) -> str:
        shared = ", which share a column" if len(self.names) > 1 else ""
        return f"{' + '.join(map(str, self.names))}{shared}"


@dataclass(frozen=True)
class Explanation:
    """An explanation of why one class is preferred to another: lead = parts + constant + rest."""

    label: ClassName
    rival: ClassName  # the best of the others
    lead: float  # negative if the rival is ahead
    parts: tuple[FeatureContribution, ...]  # the largest absolute values first
    constant: float  # the bias; for `auto`, constants of its views or counts of the classes
    rest: float  # the sum of the parts that are left out
    left_out: int  # the number of parts that are left out

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, as the service sends them."""
        return {**asdict(self), "parts": [{**asdict(part), "names": list(part.names)} for part in self.parts]}

    def __str__(self) -> str:
        return "\n".join([self._title, *(f"{amount:+9.3g}  {text}" for amount, text in self._lines)])

    def _repr_html_(self) -> str:
        """Render the explanation for a notebook; names are escaped."""
        cells = (f"<tr><td>{amount:+.3g}</td><td>{escape(text)}</td></tr>" for amount, text in self._lines)
        return f"<b>{escape(self._title)}</b><table>{''.join(cells)}</table>"

    @property
    def _title(self) -> str:
        lead = (
            f"ahead by {self.lead:.3g}" if self.lead > 0.0 else f"behind by {-self.lead:.3g}" if self.lead else "even"
        )
        suffix = "" if self.parts else "; nothing in x speaks for either"
        return f"{self.label!r} rather than {self.rival!r}: {lead}{suffix}"

    @property
    def _lines(self) -> list[tuple[float, str]]:
        lines = [(part.contribution, str(part)) for part in self.parts]
        lines += [(self.constant, "constant")] if self.constant else []
        left_out_text = "1 more feature" if self.left_out == 1 else f"{self.left_out:,} more features"
        return [*lines, *([(self.rest, left_out_text)] if self.left_out else [])]


def explain(runtime: Runtime, x: Any, label: ClassName | None, top: int | None, among: Among = None) -> Explanation:
    """Explain why this class, by default the best one, is preferred to the best playable alternative.

    >>> import onebit
    >>> learner = onebit.BPA(classes=["cold", "warm"])
    >>> learner.teach([{"ice": 1.0, "sun": 0.5}, {"sun": 2.0}], ["cold", "warm"])
    >>> print(explain(learner.runtime, {"ice": 1.0, "sun": 0.25, "sea": 1.0}, None, None))
    'cold' rather than 'warm': ahead by ...
    """
    index = None if label is None else runtime.names.index(label)
    limit = None if top is None else checked_count("top", top)
    with runtime.lock:
        contrast_classes, model = _choose_contrast(runtime), runtime.model
        candidates = _require_rivals(runtime, among, index)
        stored_x, rows = runtime.decide_one(x, runtime.ledger.next_id, parse_terms(runtime, among, False))
        label_index = int(model.choice[0, engine.GREEDY]) if index is None else index
        scores = model.buffers[engine.SCORES].copy()

        def lead(first: int, second: int) -> float:
            return evaluate_contrast(contrast_classes(first, second), scores)

        rival = _find_rival(label_index, candidates, lead)
        sums = model.space.contributions(rows, contrast_classes(label_index, rival))
        names, values = runtime.features.name_values(stored_x), rows.values.ravel()
    order = np.lexsort((np.arange(len(values)), -np.abs(sums.values)))
    contributing = [int(position) for position in order if sums.values[position] != 0.0]
    parts = [
        FeatureContribution(names[position], float(values[position]), float(sums.values[position]))
        for position in contributing[:limit]
    ]
    constant = float(sums.constant)  # NumPy's numbers are not JSON
    if not (np.isfinite(sums.values).all() and math.isfinite(constant)):
        raise InputError("the contributions of the features overflow")
    return Explanation(
        label=runtime.classes[label_index],
        rival=runtime.classes[rival],
        lead=float(sums.values.sum()) + constant,
        parts=tuple(parts),
        constant=constant,
        rest=math.fsum(sums.values[position] for position in contributing[len(parts) :]),
        left_out=len(contributing) - len(parts),
    )


def _choose_contrast(runtime: Runtime) -> Callable[[int, int], Contrast]:
    """Return the function that compares two classes; raise InputError if it is not a sum over features."""
    rule, model = runtime.rule, runtime.model
    if isinstance(runtime.space_choice, KernelChoice):
        raise InputError(f"{rule.title} has a kernel: it stores rows, so features have no weights to explain")
    contrast_function = rule.contrast
    if contrast_function is None and rule.heads is one_head_a_class:
        contrast_function = class_contrast

    def contrast_classes(label: int, rival: int) -> Contrast:
        contrast = None if contrast_function is None else contrast_function(model.params, model.memory, label, rival)
        if contrast is None:
            raise InputError(f"{rule.title} does not choose a class by a weighted sum of scores")
        return contrast

    contrast_classes(0, 1)
    return contrast_classes


def _require_rivals(runtime: Runtime, among: Among, label: int | None) -> list[int]:
    """Return the playable classes; raise InputError if the label is not one of them or the only one."""
    indices = runtime.find_candidates(among)
    candidates = list(range(len(runtime.classes))) if indices is None else indices
    if among is not None and label is not None and label not in candidates:
        raise InputError(f"the label is {brief(runtime.classes[label])}, but must be one of the candidates")
    if len(candidates) == 1:
        raise InputError("there is only one candidate, so no other class to compare it with")
    return candidates


def _find_rival(label: int, candidates: Sequence[int], lead: Callable[[int, int], float]) -> int:
    """Return the class over which the label leads least; of several, the one ahead of the others."""
    rivals = [rival for rival in candidates if rival != label]
    leads = [lead(label, rival) for rival in rivals]
    smallest = min(leads)
    nearest = [rival for rival, rival_lead in zip(rivals, leads, strict=True) if rival_lead == smallest]
    best = nearest[0]
    for rival in nearest[1:]:
        best = rival if lead(rival, best) > 0.0 else best
    return best
