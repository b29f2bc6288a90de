"""The state of a task after the changes in the log, and how its learner is built and checked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from onebit.contract.parameters import require_known
from onebit.contract.validation import ClassName, checked_classes, join_names
from onebit.engine.stream import LABEL
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy.logged_rounds import usual_floor
from onebit.rules import rule_named
from onebit.service.errors import InvalidError, RequestError
from onebit.service.inputs import Inputs
from onebit.service.requests import (
    MAX_CLASSES,
    Change,
    NewLearner,
    NewTask,
    Seed,
)
from onebit.service.requests import ClassName as ShownClass
from onebit.service.store.rows import Expected, parse_detail
from onebit.spaces.choose import ROWS_TO_SETTLE
from onebit.version import VERSION

MAX_WEIGHTS = 2**26  # heads (one per class or pair of classes) times columns
OPTIONS = ("bias", "dtype", "kernel", "max_support")  # options of a learner besides the parameters of its rule


@dataclass
class TaskInfo:
    """The configuration of a task: the result of applying all its changes in order."""

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
    revise_within: float | None = None
    sure: float | None = None  # confidence from which decisions are sure, unless a request sets its own
    risk: float | None = None  # or the share of sure decisions that may be wrong
    retired: list[ClassName] = field(default_factory=list)  # classes that are never played again
    deleted: float | None = None
    generation: int = 1
    training: dict[str, Any] | None = None  # detail of the learner that is to take over, and `starts`
    forgotten_at: int = 0  # seq of the last change that forgot decisions; 0 if none did
    base: int = 0  # position up to which learnt state is kept without its rows; 0 if all rows exist
    silence_since: int = 0  # seq from which the deadline and the meaning of silence apply
    last_change: int = 0  # seq of the last change applied
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = Inputs(**self.features)

    @property
    def expected(self) -> Expected:
        """What its rows in the log must match."""
        return Expected(self.name, self.number, self.inputs)

    @classmethod
    def created(cls, seq: int, number: int, when: float, detail: dict[str, Any]) -> TaskInfo:
        """Return the task that this change created."""
        fields = {name: detail[name] for name in CREATED}
        return cls(number=number, created_at=when, last_change=seq, **fields)

    def apply(self, seq: int, when: float, kind: str, detail: dict[str, Any]) -> None:
        """Apply a later change."""
        self.last_change = seq
        if kind == "deleted":
            self.deleted = when
        elif kind == "learner":
            for name in SWITCHED:
                setattr(self, name, detail[name])
            self.training = None
        else:
            self.classes = [*self.classes, *detail.get("add_classes", [])]
            self.retired = [*self.retired, *detail.get("remove_classes", [])]
            self.mode = detail.get("mode", self.mode)
            self.training = detail.get("training", self.training)
            if detail.get("forgotten") is not None:
                self.forgotten_at, self.base = seq, detail["forgotten"]["base"] or self.base
            self.revise_within = detail.get("revise_within", self.revise_within)
            if "sure" in detail or "risk" in detail:  # one replaces the other
                self.sure = detail.get("sure", None if detail.get("risk") is not None else self.sure)
                self.risk = detail.get("risk", None if detail.get("sure") is not None else self.risk)
            if "deadline_s" in detail or "silence" in detail:
                self.deadline_s = detail.get("deadline_s", self.deadline_s)
                self.silence = detail.get("silence", self.silence)
                self.silence_since = seq

    @property
    def detail(self) -> dict[str, Any]:
        """The detail of a change that would create this task."""
        return {**{name: getattr(self, name) for name in CREATED}, "version": VERSION}

    def refuse_retiring(self, added: list[ClassName], removed: list[ClassName]) -> None:
        """Raise InvalidError unless all classes to retire are playable and at least two others remain."""
        playable = [name for name in [*self.classes, *added] if name not in self.retired]
        for index, name in enumerate(removed):
            if name not in playable or name in removed[:index]:
                raise InvalidError(
                    f"remove_classes has {name!r}, but the playable classes are {join_names(playable)}, and each can be retired only once",
                    "remove_classes",
                )
        if len(playable) - len(removed) < 2:
            raise InvalidError(
                f"remove_classes has {len(removed)} of the {len(playable)} playable classes, but at least two must remain",
                "remove_classes",
            )


class _Created(NewTask):
    """The stored detail of a task's creation; every field listed in `CREATED` is required.

    Fields that a newer onebit adds are ignored.
    """

    model_config = ConfigDict(extra="ignore", strict=True)
    exploration_floor: Annotated[float, Field(ge=0.0, le=1.0)]
    seed: Seed
    classes: Annotated[list[ShownClass], Field(min_length=2)]
    version: str  # of the onebit that wrote it, whose defaults apply


class _Switched(NewLearner):
    """The detail of the change by which another learner took over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    generation: Annotated[int, Field(ge=2)]
    exploration_floor: Annotated[float, Field(ge=0.0, le=1.0)]
    seed: Seed
    parameters: dict[str, Any]
    version: str


class _Training(_Switched):
    """A learner being trained to take over."""

    starts: Annotated[int, Field(ge=1)]  # how often the training was started


class _Forgotten(BaseModel):
    """Decisions deleted from the log: how many, how many rows, and the position of the first.

    `base` is the position of the learner state that keeps what was learnt from them.
    """

    decisions: Annotated[int, Field(ge=1)]
    rows: Annotated[int, Field(ge=1)]
    first: Annotated[int, Field(ge=1)]
    base: Annotated[int, Field(ge=1)] | None


class _Changed(Change):
    """The detail of any other change."""

    model_config = ConfigDict(extra="ignore", strict=True)
    training: _Training | None = None
    forgotten: _Forgotten | None = None


class _Deleted(BaseModel):
    """The detail of the change that deleted a task: nothing."""


_DETAILS: dict[str, type[BaseModel]] = {
    "created": _Created,
    "learner": _Switched,
    "changed": _Changed,
    "deleted": _Deleted,
}
CREATED = tuple(NewTask.model_fields)  # fields of a task that the change which created it has
SWITCHED = ("generation", *NewLearner.model_fields)


def read_detail(kind: str, stored: str) -> dict[str, Any]:
    """Return the detail of a change.

    Raise ValueError if it does not fit its kind, since the disk may have corrupted it.
    """
    detail, shape = parse_detail(stored), _DETAILS.get(kind)
    if shape is None:
        raise ValueError(f"kind is {brief(kind)}, but must be {' or '.join(_DETAILS)}")
    missing = [name for name in CREATED if name not in detail] if kind == "created" else []
    if missing:
        raise ValueError(f"detail.{missing[0]}: field required")
    try:
        shape.model_validate(detail)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in ("detail", *first["loc"]))
        raise ValueError(f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
    return detail


@contextmanager
def blame_field(field: str) -> Iterator[None]:
    """Turn errors raised in the block into InvalidError for this field.

    RequestError and MemoryError pass through unchanged.
    """
    try:
        yield
    except OnebitError as error:
        raise error if isinstance(error, RequestError | MemoryError) else InvalidError(str(error), field) from None


def check_learner(detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
    """Raise for most learners that cannot be built, without building one.

    Building may need a compiler and much memory. Return the learner without its features, which can tell how much memory it would take.
    """
    with blame_field("learner"):
        rule = rule_named(detail["learner"])
    with blame_field("parameters"):
        require_known(rule.title, detail["parameters"], {**rule.parameters, **dict.fromkeys(OPTIONS)})
        own = {name: value for name, value in detail["parameters"].items() if name in rule.parameters}
        params, _ = rule.settle(len(classes), rule.plain(own))
        if detail["parameters"].get("kernel") and not isinstance(detail["parameters"].get("max_support"), int):
            raise InputError("a kernel stores rows: give max_support, the maximum number that it may store")
    if rule.has_full_information(params):
        raise InvalidError(
            f"{rule.title} learns from labels, but the service receives only right or wrong: choose another one of `onebit learners`",
            "learner",
        )
    if len(classes) > MAX_CLASSES:
        raise InvalidError(f"expected at most {MAX_CLASSES:,} classes, got {len(classes):,}", "classes")
    weights = rule.heads(params) * inputs.columns
    if weights > MAX_WEIGHTS:
        raise InvalidError(
            f"{len(classes):,} classes with these features need {weights:,} weights, but the maximum is {MAX_WEIGHTS:,}: give fewer "
            "hash_bits or features",
            "features",
        )
    with blame_field("parameters"):  # without features a learner has no weights yet and needs no compiler
        return Learner(
            rule,
            classes=classes,
            exploration_floor=detail["exploration_floor"],
            seed=detail["seed"],
            **detail["parameters"],
        )


def check_memory(learner: Learner, classes: int, inputs: Inputs, most: int, field: str) -> None:
    """Raise InvalidError if a learner with `classes` classes takes more memory than a task may use.

    A task has two copies of its learner.
    """
    with blame_field("parameters"):
        needed = 2 * learner.runtime.model.size(classes, inputs.columns, inputs.kind == "numbers")
    if needed > most:
        raise InvalidError(
            f"{learner.runtime.rule.title} with {classes:,} classes and {inputs.columns:,} columns of features would take "
            f"{needed / 2**20:,.0f} MiB of memory, but a task may take at most {most / 2**20:,.0f} (--max-task-memory): give fewer "
            "hash_bits or features, or another learner",
            field,
        )


def check_sure_or_risk(sure: float | None, risk: float | None, where: str = "") -> None:
    """Raise InvalidError if both `sure` and `risk` are given: each decides when a decision is sure."""
    if sure is not None and risk is not None:
        raise InvalidError(
            f"{where}risk cannot be given together with sure, since each determines the required confidence",
            f"{where}risk",
        )


def is_unsure(confidence: float | None, sure: float | None) -> bool:
    """Return True if a decision has less than the required confidence."""
    return sure is not None and (confidence is None or confidence < sure)


def require_candidate_support(learner: Learner, retired: Collection[ClassName], field: str) -> None:
    """Raise InvalidError if classes are retired and the learner cannot play among the others only."""
    rule = learner.runtime.rule
    if retired and not rule.takes_candidates:
        raise InvalidError(
            f"{rule.title} cannot decide among only some of its classes (it defines no Rule.narrowing)", field
        )


def build_learner(detail: dict[str, Any], classes: list[ClassName], inputs: Inputs) -> Learner:
    """Return a new learner for a task or a switch; the same arguments give the same learner.

    It keeps no ledger of what it was taught: the log ensures that nothing is taught twice.
    """
    rule = check_learner(detail, classes, inputs).runtime.rule
    with blame_field("parameters"):
        learner = Learner(
            rule,
            classes=classes,
            exploration_floor=detail["exploration_floor"],
            seed=detail["seed"],
            **inputs.options,
            **detail["parameters"],
        )
        if inputs.kind == "numbers":
            learner.runtime.fix_features(np.empty((0, inputs.columns)))  # rows are dense
    learner.runtime.identity = "a task of the service"
    learner.runtime.disable_ledger()
    return learner


def resolve_floor(rule_name: str, wanted: float | None) -> float:
    """Return the wanted exploration floor, or by default the usual one of the rule."""
    if wanted is not None:
        return wanted
    with blame_field("learner"):
        rule = rule_named(rule_name)
    return usual_floor(rule)


def class_texts(classes: list[ClassName]) -> list[str]:
    """Return class names as keys of a JSON object; raise InvalidError if two of them are equal."""
    with blame_field("classes"):
        texts = [str(name) for name in checked_classes(classes)]
    unique = set[str]()
    for text in texts:
        if text in unique:
            raise InvalidError(
                f"a number and a text are both written {text!r} in JSON: rename one of the two classes", "classes"
            )
        unique.add(text)
    return texts


def warm(learner: Learner, inputs: Inputs) -> None:
    """Compile what deciding and learning will need, by running both on a copy of the learner."""
    copy = copy_learner(learner)
    copy.runtime.disable_ledger()
    row = {"numbers": b"\0" * 8 * (inputs.size or 0), "dict": b'{"a":1.0}', "text": b"a"}[inputs.kind]
    rows = inputs.stack(inputs.read([row]))
    _decide_and_learn(copy, rows)
    routing = copy.runtime.model.routing
    if routing is not None and routing.may_move(inputs.columns):
        empty = np.zeros((ROWS_TO_SETTLE, inputs.columns))
        empty[:, 0] = 1.0
        # Nearly empty rows make it switch to members for sparse data.
        copy.teach(empty, [copy.classes[0]] * ROWS_TO_SETTLE)
        _decide_and_learn(copy, rows)


def _decide_and_learn(learner: Learner, rows: Any) -> None:
    choices = learner.runtime.decide_rows(rows, ["warm"])
    learner.runtime.learn_rows(rows, ["warm"], choices, [True])
    learner.runtime.learn_rows(rows, ["corrected"], choices, [True], truths=choices[:, LABEL].astype(np.int64))
