"""What a rule is: three functions in score space and a record of parameters. It never sees x.

    decide(params, memory, scores, norm, draws, work) -> Choice
    learn(params, memory, scores, norm, choice, told, draws, work, coefficients) -> scale
    probabilities(params, memory, scores, norm, work, chances)

`scores` are the H numbers w_h.x, `norm` is ||x||^2 (never 0 in `learn`), and after `learn` the engine does
W <- scale * W + coefficients (x) x. `told` is the class where it is known and -1 for "wrong, and that is all I know".
`learn` fills all H coefficients every time. `probabilities` fills the K chances of `decide` over all draws, ties included.
`work` is scratch, float64 (2, max(H, K)), undefined on entry. The functions allocate nothing and draw nothing of their own.

`memory` is a small float64 vector that is saved with the weights: memory[NORM] is ||W||^2 for rules that ask for it and
memory[LEARNT] is the number of feedbacks learnt before this one, memory[RIGHT] how many of them said "right", all kept by the
engine; from memory[OWN] on it is the rule's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.order import Order
from onebit.contract.parameters import OneOf, Parameter, kinds_of, parameters_of, refuse_unknown
from onebit.errors import OnebitError

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

NORM = 0
LEARNT = 1
RIGHT = 2
OWN = 3


class Choice(NamedTuple):
    """What `decide` says, and `learn` hears again, perhaps much later.

    `weight` is the number that the paper divides by (the probability of the label, given how the tie was broken), and the two
    notes are whatever else a rule must keep from the time of the decision.
    """

    label: int
    greedy: int
    weight: float
    note: float
    second_note: float


def one_head_a_class(params: Any) -> int:
    """One weight vector for each class."""
    return int(params.classes)


def as_given(params: Any, options: Mapping[str, object]) -> tuple[Any, tuple[float, ...]]:
    """For the many rules whose record is just what the user gave, and that remember nothing of their own."""
    return params, ()


@dataclass(frozen=True, eq=False)
class Rule:
    """An algorithm: its name, its record, its functions. Creating one makes it known to the engine.

    `teach` is the step of the same family when the label is known (None: the learner plays, and learns from that).
    `prepare` completes the record and gives the rule's first memory;
    `plan` adds options that only a run can know, from the options given, the rounds and the length of the longest x. `largest_norm` says how long x may be at most; `stores_rarely` that with a
    kernel few rounds add a row, so that no budget is needed. `second_order` says which covariance a rule needs beside its weights
    (`contract.order`); its record then has a field `matrix`. `notes_the_label` says that the notes of a choice belong to its label, so that no floor of
    exploration can put another in its place. `composite` makes a space with several members, and `describe` says what there is to
    say of them. `examples` are the option sets that every check and oracle runs with.
    """

    name: str
    paper: str
    summary: str
    record: type[Any]
    decide: Callable[..., Choice]
    learn: Callable[..., float]
    probabilities: Callable[..., None]
    teach: Callable[..., float] | None = None
    heads: Callable[[Any], int] = one_head_a_class
    prepare: Callable[[Any, Mapping[str, object]], tuple[Any, tuple[float, ...]]] = as_given
    plan: Callable[[Mapping[str, object], int, float], Mapping[str, object]] | None = None
    full: Callable[[Any], bool] | bool = False
    keeps_norm: bool = False
    largest_norm: Callable[[Any], float] | None = None
    stores_rarely: bool = False
    second_order: Callable[[Any], Order] | None = None
    notes_the_label: bool = False
    composite: Callable[..., Any] | None = None
    describe: Callable[[Any, Vector, Sequence[str]], Mapping[str, Any]] | None = None
    examples: tuple[Mapping[str, Any], ...] = ({},)

    def __post_init__(self) -> None:
        fields = getattr(self.record, "_fields", ())
        if "classes" not in fields:
            raise OnebitError(f"the record of {self.name!r} must be a NamedTuple with a field 'classes'")
        for name in fields:
            if name != "classes" and name not in self.record._field_defaults:
                raise OnebitError(f"the field {name!r} of {self.title} needs a default")
        if self.second_order is not None and not self.composite and "matrix" not in fields:
            raise OnebitError(f"{self.title} keeps a covariance, so its record needs the field 'matrix'")
        known[self.record] = self

    @property
    def title(self) -> str:
        """The name of the learner class: ConservativeOVA."""
        return self.record.__name__

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters that a user may set."""
        return parameters_of(self.record)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters as they are when nobody says otherwise, as a user would write them."""
        values = self.record._field_defaults
        return {name: parameter.show(values[name]) for name, parameter in self.parameters.items()}

    @cached_property
    def kinds(self) -> Mapping[str, type]:
        """Whether each field of the record is a float or an int."""
        return kinds_of(self.record)

    @property
    def documentation(self) -> str:
        """The text at the head of the rule's file; on a worker of a cluster, where the rule came without its file, its summary."""
        return inspect.cleandoc(getattr(sys.modules.get(self.record.__module__), "__doc__", None) or self.summary)

    def is_told(self, params: Any) -> bool:
        """Whether this rule, with these parameters, is always told the class (full information)."""
        return self.full(params) if callable(self.full) else self.full

    def plain(self, options: Mapping[str, object]) -> dict[str, Any]:
        """Checked options as plain values that can be written down: names for codes, floats for any real number."""
        found: dict[str, Any] = {}
        for name, value in options.items():
            parameter = self.parameters[name]
            code = parameter.code(name, value)
            named = not isinstance(parameter, OneOf) or code in parameter.names.values()
            found[name] = parameter.show(code) if named else value  # type: ignore[arg-type]
        return found

    def settle(self, classes: int, options: Mapping[str, object]) -> tuple[Any, Vector]:
        """The record and the first memory for these options; what cannot be used is refused with a sentence."""
        if classes < 2:
            raise OnebitError(f"{self.title} needs at least 2 classes, and {classes} was given")
        refuse_unknown(self.title, options, self.defaults)
        given = {**self.defaults, **options}
        values: dict[str, Any] = {"classes": classes}
        for name, parameter in self.parameters.items():
            values[name] = parameter.code(name, given[name])
        # Every number a float64 or an int64: another type would be another compilation.
        record = self.record(**{name: self.kinds[name](value) for name, value in values.items()})
        params, memory = self.prepare(record, given)
        return params, np.concatenate([np.zeros(OWN), np.asarray(memory, dtype=np.float64)])


known: dict[
    type[Any], Rule
] = {}  # every rule created in this process, by its record: the engine dispatches on that type
