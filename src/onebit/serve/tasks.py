"""A task as the changes in the log have left it, and the learner that it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from onebit.contract.parameters import refuse_unknown
from onebit.contract.rule import Rule
from onebit.errors import OnebitError
from onebit.learner import Learner, copy_of
from onebit.names import ClassName, checked_classes
from onebit.rules import rule_named
from onebit.serve.inputs import Inputs
from onebit.serve.refusals import Invalid
from onebit.serve.shapes import MOST_CLASSES

USUAL_FLOOR = 0.05  # what a log needs to be evaluated, and what exploring costs
MOST_WEIGHTS = 2**26  # heads (classes, or pairs of them) times columns
OPTIONS = ("bias", "dtype", "kernel", "max_support", "when_full")  # of a learner, beside the parameters of its rule


@dataclass
class TaskInfo:
    """What is decided on, and how: the fold of a task's changes."""

    number: int
    name: str
    created_at: float
    classes: list[ClassName]
    learner: str
    parameters: dict[str, Any]
    exploration_floor: float
    seed: int
    features: dict[str, Any]
    mode: str
    deadline_s: float | None
    silence: str
    display: dict[str, Any] | None
    items: str | None
    deleted: float | None = None
    generation: int = 1
    silence_since: int = 0  # the seq from which the deadline and its meaning hold
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = Inputs.of(self.features)

    @classmethod
    def created(cls, number: int, when: float, detail: dict[str, Any]) -> TaskInfo:
        """From the change that created it."""
        return cls(number=number, created_at=when, **detail)

    def apply(self, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Take a later change."""
        if kind == "deleted":
            self.deleted = when
        elif kind == "learner":
            for name, value in detail.items():
                setattr(self, name, value)
        else:
            self.classes = [*self.classes, *detail.get("add_classes", [])]
            self.mode = detail.get("mode", self.mode)
            if "deadline_s" in detail or "silence" in detail:
                self.deadline_s = detail.get("deadline_s", self.deadline_s)
                self.silence = detail.get("silence", self.silence)
                self.silence_since = seq

    @property
    def detail(self) -> dict[str, Any]:
        """What the change that creates it says."""
        names = (
            *("name", "classes", "learner", "parameters", "exploration_floor", "seed", "features"),
            *("mode", "deadline_s", "silence", "display", "items"),
        )
        return {name: getattr(self, name) for name in names}


@contextmanager
def _about(field: str) -> Iterator[None]:
    """What is refused here is said of this field."""
    try:
        yield
    except OnebitError as error:
        raise error if isinstance(error, Invalid) else Invalid(str(error), field) from None


def check_learner(detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Rule:
    """Refuse most of what no learner could be made of, without making it, which may take a compiler and much memory."""
    with _about("learner"):
        rule = rule_named(detail["learner"])
    with _about("parameters"):
        refuse_unknown(rule.title, detail["parameters"], {**rule.parameters, **dict.fromkeys(OPTIONS)})
        own = {name: value for name, value in detail["parameters"].items() if name in rule.parameters}
        params, _ = rule.settle(len(classes), rule.plain(own))
        if detail["parameters"].get("kernel") and not isinstance(detail["parameters"].get("max_support"), int):
            raise OnebitError("a kernel stores rows: give max_support, the most that it may store")
    if rule.is_told(params):
        raise Invalid(
            f"{rule.title} learns from labels, and the service hears only right and wrong: `onebit learners` lists others",
            "learner",
        )
    if len(classes) > MOST_CLASSES:
        raise Invalid(f"there are {len(classes):,} classes, and {MOST_CLASSES:,} are the most", "classes")
    weights = rule.heads(params) * (inputs.size or 1 << (inputs.hash_bits or 0))
    if weights > MOST_WEIGHTS:
        raise Invalid(
            f"{len(classes):,} classes with these features are {weights:,} weights, and {MOST_WEIGHTS:,} are the most: give fewer "
            "hash_bits or features",
            "features",
        )
    with _about("parameters"):  # without its features a learner has no weights yet, and needs no compiler
        Learner(
            rule,
            classes=classes,
            exploration_floor=detail["exploration_floor"],
            seed=detail["seed"],
            **detail["parameters"],
        )
    return rule


def learner_of(detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
    """A new learner, as a task or a switch asks for it, the same each time.

    It keeps no account of what it was taught: the log sees to it that nothing is taught twice.
    """
    rule = check_learner(detail, classes, inputs)
    with _about("parameters"):
        learner = Learner(
            rule,
            classes=classes,
            exploration_floor=detail["exploration_floor"],
            seed=detail["seed"],
            **inputs.options,
            **detail["parameters"],
        )
    learner.runtime.identity = "a task of the service"
    learner.runtime.disable_ledger()
    return learner


def floor_of(rule_name: str, wanted: float | None) -> float:
    """The exploration floor: as given, or the usual one where the rule can have it."""
    if wanted is not None:
        return wanted
    with _about("learner"):
        rule = rule_named(rule_name)
    return 0.0 if rule.notes_the_label else USUAL_FLOOR


def texts_of(classes: list[ClassName]) -> list[str]:
    """The names of the classes as keys of a JSON object, which must differ too."""
    with _about("classes"):
        texts = [str(name) for name in checked_classes(classes)]
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise Invalid(
                f"two classes are written {text!r} in JSON: a number and a text; name one differently", "classes"
            )
        seen.add(text)
    return texts


def warm(learner: Learner, inputs: Inputs) -> None:
    """Compile what deciding and learning will need, on a copy."""
    copy = copy_of(learner)
    copy.runtime.disable_ledger()
    row = {"numbers": b"\0" * 8 * (inputs.size or 0), "dict": b'{"a":1.0}', "text": b"a"}[inputs.kind]
    rows = inputs.rows([row])
    copy.runtime.learn_rows(rows, ["warm"], copy.runtime.decide_rows(rows, ["warm"]), [True])
