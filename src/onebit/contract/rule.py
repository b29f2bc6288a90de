"""What a rule is: three functions in score space and a record of parameters. It never sees x.

    decide(params, given) -> Choice
    learn(params, given, choice, revealed, step) -> scale
    probabilities(params, given, out)

`given` is what there is in a round, a `RuleInput`. `learn` fills all H numbers of `step` every time, and the engine then does
W <- scale * W + step (x) x. `revealed` is the class where it is known and -1 for "wrong, and that is all I know". `probabilities`
fills `out` with the K probabilities of `decide` over all draws, ties included; it draws nothing. The functions allocate nothing, and
change nothing but `work`, what they fill and, in `learn`, the rule's own part of the memory.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import ALL_CLASSES, AS_IT_IS, Labels, Narrowing, narrowing_of_heads
from onebit.contract.covariance import Order
from onebit.contract.draws import Draws
from onebit.contract.parameters import OneOf, Parameter, read_parameters, require_known
from onebit.errors import InputError, brief

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Contrast = tuple[tuple[int, float], ...]  # a sum of scores: their positions, each with its weight

NORM = 0
LEARNT = 1
RIGHT = 2
OWN = 3


class RuleInput(NamedTuple):
    """What a rule is given in a round.

    `memory` is a small vector that is saved with the weights: memory[NORM] is ||W||^2 for rules that ask for it, memory[LEARNT] the
    number of feedbacks learnt before this one (from x = 0 nothing is learnt, nor are lessons counted) and memory[RIGHT] how many of them
    said "right" (the sum of their rewards), all kept by the engine; from memory[OWN] on it is the rule's. `work` is scratch,
    (2, max(H, K)), undefined on entry. `reward` is what the label played was worth, in `learn`: 1 for right, 0 for wrong. `candidates` are the
    classes that can be played, in rising order, or none where all can: labels are then places among them, and the scores are theirs
    (`contract.candidates`). `complete` says that the right class is one of them.
    """

    memory: Vector
    scores: Vector  # the H numbers w_h.x
    sq_norm: float  # ||x||^2, never 0 in `learn`
    draws: Draws
    work: Matrix
    reward: float = 0.0
    candidates: Labels = ALL_CLASSES
    complete: bool = True


class Choice(NamedTuple):
    """What `decide` says, and `learn` is given again, perhaps much later.

    `propensity` is the probability of the label once ties are broken, which most papers divide by; rules that divide by nothing say
    1.0. The two notes are whatever else a rule must keep from the time of the decision.
    """

    label: int
    greedy: int
    propensity: float
    note: float
    second_note: float


CONTRACT = {
    "decide": ("params", "given"),
    "learn": ("params", "given", "choice", "revealed", "step"),
    "probabilities": ("params", "given", "out"),
    "teach": ("params", "given", "label", "step"),
    "surety": ("params", "given", "label"),
    "weigh": ("params", "given", "first", "apart"),
}


def require_signature(title: str, name: str, function: Callable[..., Any]) -> None:
    """Raise InputError if the function cannot be called as the contract says."""
    wanted, signature = CONTRACT[name], inspect.signature(function)
    try:
        signature.bind(*wanted)
    except TypeError:
        raise InputError(
            f"{name} of {title} is {name}({', '.join(signature.parameters)}), but must be {name}({', '.join(wanted)})"
        ) from None


def one_head_a_class(params: Any) -> int:
    return int(params.classes)


def as_given(params: Any, options: Mapping[str, object]) -> tuple[Any, tuple[float, ...]]:
    """For the many rules whose record is just what the user gave, and that remember nothing of their own."""
    return params, ()


class Composite(NamedTuple):
    """What a rule of several members brings along, each with its own view of x: `auto` alone.

    It learns over all classes where nothing says that the right one is a candidate, or there is one alone.
    """

    # The space of all members: from the record, the form of the rows, the heads, those planned and the seed.
    space: Callable[..., Any]
    # What `learner.describe()` says beyond the error: from the record, the memory and the space, fields of a `Description`.
    describe: Callable[[Any, Vector, Any], Mapping[str, Any]]
    # Positions in the memory that hold whole numbers, each with the position of its upper limit; a file with others is refused.
    counts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Rule:
    """An algorithm: its name, its record, its functions. Creating one makes it known to the engine."""

    # --- what it is called -----------------------------------------------------------------------------------------
    name: str  # for people and commands: conservative-ova
    paper: str
    summary: str
    record: type[Any]  # a NamedTuple of numbers, the first of which is `classes`; its name is that of the learner class

    # --- its functions, compiled for the loop ----------------------------------------------------------------------
    # Choose a label: decide(params, given).
    decide: Callable[..., Choice]
    # Take a step: learn(params, given, choice, revealed, step); returns the scale of the weights.
    learn: Callable[..., float]
    # The probability of each label over all draws: probabilities(params, given, out).
    probabilities: Callable[..., None]
    # The step of the same family for a known label: teach(params, given, label, step). None: the learner plays, and learns from that.
    teach: Callable[..., float] | None = None
    # How sure the rule is of a label, on any scale: surety(params, given, label). None: the margin of its score (`contract.surety`).
    surety: Callable[..., float] | None = None
    # The part of `decide` that is done class by class, for the classes from `first` on that are `apart` by so many:
    # weigh(params, given, first, apart). `decide` calls it with 0 and 1; on a GPU lanes do it together before. It changes
    # nothing but each class's own numbers in `work`. None: there is no such part worth the trouble.
    weigh: Callable[..., None] | None = None

    # --- its record and memory -------------------------------------------------------------------------------------
    # Completes the record, and gives the rule's first memory: prepare(params, options).
    prepare: Callable[[Any, Mapping[str, object]], tuple[Any, tuple[float, ...]]] = as_given
    # Options that only a run can know, from the options given, the rounds and the length of the longest x.
    plan: Callable[[Mapping[str, object], int, float], Mapping[str, object]] | None = None
    # Option sets that every check and oracle runs with.
    examples: tuple[Mapping[str, Any], ...] = ({},)

    # --- its weights -----------------------------------------------------------------------------------------------
    # The number of weight vectors, from the record.
    heads: Callable[[Any], int] = one_head_a_class
    # The covariance that it needs beside the weights (`contract.covariance`); its record then has a field `matrix`.
    second_order: Callable[[Any], Order] | None = None
    # Whether memory[NORM] is kept.
    keeps_norm: bool = False
    # The largest squared length that x may have, from the record.
    largest_norm: Callable[[Any], float] | None = None
    # Whether, with a kernel, few rounds add a row, so that no budget is needed.
    stores_rarely: bool = False
    # The members of a rule that has several.
    composite: Composite | None = None

    # --- the feedback that it takes --------------------------------------------------------------------------------
    # Whether the class is always revealed, even when another was played; or a function of the record.
    full_information: Callable[[Any], bool] | bool = False
    # Whether `learn` takes `given.reward`, any number from 0 to 1; other rules get a bit that is 1 with that probability.
    takes_rewards: bool = False
    # Whether the notes of a choice belong to its label, so that no floor of exploration can put another in its place.
    notes_the_label: bool = False

    # --- rounds with few candidates --------------------------------------------------------------------------------
    # How such a round is given to it. None: by its heads, one for each class; rules with other heads take no candidates.
    narrowing: Narrowing | None = None
    # Whether a round with one candidate teaches it something.
    learns_alone: bool = False

    # --- what there is to tell -------------------------------------------------------------------------------------
    # The probability that each class is right, from the record, the memory and the scores of many rows (`contract.belief`).
    # None: the rule has scores alone.
    belief: Callable[[Any, Vector, Matrix], Matrix] | None = None
    # How much more one class is preferred than another, as a sum of scores, or None where it is no such sum
    # (`contract.belief`). Not needed with one head for each class.
    contrast: Callable[[Any, Vector, int, int], Contrast | None] | None = None

    def __post_init__(self) -> None:
        fields = getattr(self.record, "_fields", ())
        if "classes" not in fields:
            raise InputError(f"the record of {brief(self.name)} must be a NamedTuple with a field 'classes'")
        for name in fields:
            if name != "classes" and name not in self.record._field_defaults:
                raise InputError(f"the field {brief(name)} of {self.title} needs a default")
        if self.second_order is not None and not self.composite and "matrix" not in fields:
            raise InputError(f"{self.title} keeps a covariance, so its record needs the field 'matrix'")
        for name in CONTRACT:
            function = getattr(self, name)
            if function is not None:
                require_signature(self.title, name, function)
        known[self.record] = self

    @property
    def title(self) -> str:
        """The name of the learner class: ConservativeOVA."""
        return self.record.__name__

    @cached_property
    def narrowed_by(self) -> Narrowing:
        """How a round with few candidates is given to it."""
        if self.narrowing is not None:
            return self.narrowing
        if not self.takes_candidates:
            return AS_IT_IS
        return narrowing_of_heads(self.record, self.second_order is not None)

    @property
    def takes_candidates(self) -> bool:
        """Whether it can play a class among a few."""
        return self.narrowing is not None or self.heads is one_head_a_class

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        return read_parameters(self.record)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters as they are when nobody says otherwise, as a user would write them."""
        values = self.record._field_defaults
        return {name: parameter.show(values[name]) for name, parameter in self.parameters.items()}

    @cached_property
    def kinds(self) -> Mapping[str, type]:
        """Whether each field of the record is a float or an int."""
        return get_type_hints(self.record)

    @property
    def documentation(self) -> str:
        """The text at the head of the rule's file; on a worker of a cluster, where the rule came without its file, its summary."""
        return inspect.cleandoc(getattr(sys.modules.get(self.record.__module__), "__doc__", None) or self.summary)

    def has_full_information(self, params: Any) -> bool:
        """Whether the class is always revealed to this rule with these parameters, even when it played another."""
        return self.full_information(params) if callable(self.full_information) else self.full_information

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
            raise InputError(f"{self.title} needs at least 2 classes, and {classes} was given")
        require_known(self.title, options, self.defaults)
        given = {**self.defaults, **options}
        values: dict[str, Any] = {"classes": classes}
        for name, parameter in self.parameters.items():
            values[name] = parameter.code(name, given[name])
        # Every number a float64 or an int64: another type would be another compilation.
        record = self.record(**{name: self.kinds[name](value) for name, value in values.items()})
        try:
            params, memory = self.prepare(record, given)
        except (OverflowError, ZeroDivisionError):
            raise InputError(
                f"{self.title} cannot be worked out with {brief(dict(options))}: numbers are too large or too small"
            ) from None
        return params, np.concatenate([np.zeros(OWN), np.asarray(memory, dtype=np.float64)])


known: dict[
    type[Any], Rule
] = {}  # every rule created in this process, by its record: the engine dispatches on that type
