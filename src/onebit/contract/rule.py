"""The definition of a rule: three functions in score space and a record of parameters.

    decide(params, given) -> Choice
    learn(params, given, choice, revealed, step) -> scale
    probabilities(params, given, out)

A rule never sees x. `given` is what is known in a round, a `RuleInput`. `learn` fills all H numbers of `step` every
time, and the engine then does W <- scale * W + step (x) x. `revealed` is the class if it is known, and -1 for
"wrong, and that is all I know". `probabilities` fills `out` with the K probabilities of `decide` over all draws,
ties included; it draws nothing. The functions allocate nothing, and change nothing but `work`, what they fill and,
in `learn`, the rule's own part of the memory.
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

from onebit.contract.candidates import ALL_CLASSES, NO_NARROWING, Labels, Narrowing, narrowing_of_heads
from onebit.contract.covariance import Order
from onebit.contract.draws import Draws
from onebit.contract.parameters import OneOf, Parameter, read_parameters, require_known
from onebit.errors import InputError, brief

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Contrast = tuple[tuple[int, float], ...]  # a weighted sum of scores: pairs of position and weight

NORM = 0
LEARNT = 1
RIGHT = 2
OWN = 3


class RuleInput(NamedTuple):
    """The input of a rule in one round.

    `memory` is a small vector that is saved with the weights: memory[NORM] is ||W||^2 for rules that ask for it, memory[LEARNT] the
    number of feedbacks learnt before this one (from x = 0 nothing is learnt, and lessons are not counted) and memory[RIGHT] how many of them
    said "right" (the sum of their rewards), all kept by the engine; memory[OWN] and what follows belongs to the rule. `work` is scratch,
    (2, max(H, K)), undefined on entry. `reward` is the reward of the label played, in `learn`: 1 for right, 0 for wrong. `candidates` are the
    classes that can be played, in ascending order, or empty if all can: labels are then positions among them, and the scores are theirs
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
    """The result of `decide`; `learn` gets it back, perhaps much later.

    `propensity` is the probability of the label once ties are broken, which most papers divide by; rules that divide by nothing return
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
    expected, signature = CONTRACT[name], inspect.signature(function)
    try:
        signature.bind(*expected)
    except TypeError:
        raise InputError(
            f"{name} of {title} is {name}({', '.join(signature.parameters)}), but must be {name}({', '.join(expected)})"
        ) from None


def one_head_a_class(params: Any) -> int:
    """Return the number of classes: the heads of most rules."""
    return int(params.classes)


def keep_record(params: Any, options: Mapping[str, object]) -> tuple[Any, tuple[float, ...]]:
    """Return the record unchanged, and no memory: the default `prepare`."""
    return params, ()


class Composite(NamedTuple):
    """The additions of a rule with several members, each with its own view of x; only `auto` has them.

    Such a rule learns over all classes if the right one is not known to be a candidate, or if there is only one candidate.
    """

    # Returns the blueprint of the space of all members, from the record, the form of the rows, the heads, the planned heads and the seed.
    space: Callable[..., Any]
    # Returns further fields of a `Description` for `learner.describe()`, from the record, the memory and the space.
    describe: Callable[[Any, Vector, Any], Mapping[str, Any]]
    # Positions in the memory that hold counts, each with the position of its upper limit; files are checked against them.
    counts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Rule:
    """An algorithm: its name, record and functions. Creating one registers it with the engine."""

    # --- names -----------------------------------------------------------------------------------------------------
    name: str  # as users write it, such as conservative-ova
    paper: str
    summary: str
    record: type[Any]  # a NamedTuple of numbers, `classes` first, with the name of the learner class

    # --- functions, compiled for the loop --------------------------------------------------------------------------
    # Chooses a label: decide(params, given).
    decide: Callable[..., Choice]
    # Computes a step: learn(params, given, choice, revealed, step); returns the scale of the weights.
    learn: Callable[..., float]
    # Writes the probability of each label over all draws: probabilities(params, given, out).
    probabilities: Callable[..., None]
    # Computes a step for a known label: teach(params, given, label, step). None: the learner plays, and learns right or wrong.
    teach: Callable[..., float] | None = None
    # Returns how sure the rule is of a label, on any scale: surety(params, given, label). None: `contract.belief.margin`.
    surety: Callable[..., float] | None = None
    # The part of `decide` that treats classes separately, for every `apart`-th class from `first` on:
    # weigh(params, given, first, apart). `decide` calls it with 0 and 1; on a GPU the lanes call it in parallel before.
    # It changes only each class's own numbers in `work`. None: there is no part worth running in parallel.
    weigh: Callable[..., None] | None = None

    # --- record and memory -----------------------------------------------------------------------------------------
    # Completes the record and returns the rule's initial memory: prepare(params, options).
    prepare: Callable[[Any, Mapping[str, object]], tuple[Any, tuple[float, ...]]] = keep_record
    # Computes options that only a run can know, from the given options, the rounds and the length of the longest x.
    plan: Callable[[Mapping[str, object], int, float], Mapping[str, object]] | None = None
    # The sets of options that every check and oracle runs with.
    examples: tuple[Mapping[str, Any], ...] = ({},)

    # --- weights ---------------------------------------------------------------------------------------------------
    # Returns the number of weight vectors for a record.
    heads: Callable[[Any], int] = one_head_a_class
    # Returns the covariance needed besides the weights (`contract.covariance`); the record then needs a field `matrix`.
    second_order: Callable[[Any], Order] | None = None
    # True if memory[NORM] is kept.
    keeps_norm: bool = False
    # Returns the largest squared length that x may have, for a record.
    largest_norm: Callable[[Any], float] | None = None
    # True if, with a kernel, few rounds store a row, so that no budget is needed.
    stores_rarely: bool = False
    # Set for a rule that has several members.
    composite: Composite | None = None

    # --- feedback --------------------------------------------------------------------------------------------------
    # True if the right class is always revealed, even when another was played; or a function of the record.
    full_information: Callable[[Any], bool] | bool = False
    # True if `learn` uses `given.reward`, from 0 to 1; other rules get right with that probability, and wrong otherwise.
    takes_rewards: bool = False
    # True if the notes of a choice depend on its label, so that no exploration floor may replace the label.
    notes_the_label: bool = False

    # --- candidates ------------------------------------------------------------------------------------------------
    # How rounds with candidates are narrowed. None: by heads, one per class; rules with other heads take no candidates.
    narrowing: Narrowing | None = None
    # True if the rule learns something from a round with one candidate.
    learns_alone: bool = False

    # --- inspection ------------------------------------------------------------------------------------------------
    # Returns the probability that each class is right, from the record, the memory and the scores of many rows
    # (`contract.belief`). None: the rule has only scores.
    belief: Callable[[Any, Vector, Matrix], Matrix] | None = None
    # Returns how much one class is preferred to another as a weighted sum of scores, or None if it is not such a sum
    # (`contract.belief`). Not needed with one head per class.
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
        rules_by_record[self.record] = self

    @property
    def title(self) -> str:
        """The name of the learner class, such as ConservativeOVA."""
        return self.record.__name__

    @cached_property
    def narrowed_by(self) -> Narrowing:
        """The narrowing of rounds with candidates for this rule."""
        if self.narrowing is not None:
            return self.narrowing
        if not self.takes_candidates:
            return NO_NARROWING
        return narrowing_of_heads(self.record, self.second_order is not None)

    @property
    def takes_candidates(self) -> bool:
        """True if the rule can choose among some of the classes."""
        return self.narrowing is not None or self.heads is one_head_a_class

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        return read_parameters(self.record)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The default parameters, as a user would write them."""
        values = self.record._field_defaults
        return {name: parameter.show(values[name]) for name, parameter in self.parameters.items()}

    @cached_property
    def kinds(self) -> Mapping[str, type]:
        """The type of each field of the record: float or int."""
        return get_type_hints(self.record)

    @property
    def documentation(self) -> str:
        """The docstring of the rule's file.

        On a cluster worker that got the rule without its file it is the rule's summary.
        """
        return inspect.cleandoc(getattr(sys.modules.get(self.record.__module__), "__doc__", None) or self.summary)

    def has_full_information(self, params: Any) -> bool:
        """Return True if the right class is always revealed with these parameters, whatever was played."""
        return self.full_information(params) if callable(self.full_information) else self.full_information

    def plain(self, options: Mapping[str, object]) -> dict[str, Any]:
        """Validate options and return them as serialisable values: names for codes, floats for reals."""
        plain: dict[str, Any] = {}
        for name, value in options.items():
            parameter = self.parameters[name]
            code = parameter.encode(name, value)
            if not isinstance(parameter, OneOf) or code in parameter.names.values():
                plain[name] = parameter.show(code)  # type: ignore[arg-type]
            else:
                plain[name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        return plain

    def settle(self, classes: int, options: Mapping[str, object]) -> tuple[Any, Vector]:
        """Return the record and the initial memory for these options; raise InputError if unusable."""
        if classes < 2:
            raise InputError(f"{self.title} needs at least 2 classes, got {classes}")
        require_known(self.title, options, self.defaults)
        settings = {**self.defaults, **options}
        values: dict[str, Any] = {"classes": classes}
        for name, parameter in self.parameters.items():
            values[name] = parameter.encode(name, settings[name])
        # Exactly float64 or int64: any other type would trigger another compilation.
        record = self.record(**{name: self.kinds[name](value) for name, value in values.items()})
        try:
            params, memory = self.prepare(record, settings)
        except (OverflowError, ZeroDivisionError):
            raise InputError(
                f"{self.title} cannot be computed with {brief(dict(options))}: numbers are too large or too small"
            ) from None
        return params, np.concatenate([np.zeros(OWN), np.asarray(memory, dtype=np.float64)])


rules_by_record: dict[type[Any], Rule] = {}  # the rules created in this process; the engine dispatches on the record
