"""The replies of the service: it builds and documents them with these classes; the client reads them.

A client ignores fields that a newer service adds; a missing field is an error. JSON's null is None here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from onebit.contract.validation import ClassName

Mode = Literal["learn", "shadow", "log-only"]
Silence = Literal["nothing", "wrong", "right"]  # what it means if there is no feedback until the deadline
Source = Literal["caller", "silence"]  # the source of feedback


@dataclass(frozen=True)
class Value:
    """A reply, or a part of one, that can be read from a JSON object."""

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """Read an object that has at least the required fields; raise KeyError or TypeError otherwise."""
        kind: Any = cls  # mypy does not accept a frozen dataclass as hashable
        values = {
            name: body[name]
            for name, field in cls.__dataclass_fields__.items()
            if name in body or field.default is MISSING
        }
        for name, read in _inner_readers(kind).items():
            values[name] = read(values[name])
        return cls(**values)


@cache
def _inner_readers(kind: type[Value]) -> dict[str, Callable[[Any], Any]]:
    """Return the readers of those fields that hold other values, by field name."""
    readers = {name: _inner_reader(hint) for name, hint in get_type_hints(kind).items()}
    return {name: read for name, read in readers.items() if read is not None}


def _inner_reader(hint: Any) -> Callable[[Any], Any] | None:
    """Return the reader of a field of this type; None if its JSON needs no conversion."""
    kinds = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and issubclass(part, Value)]
    sequence = get_origin(hint) if get_origin(hint) in (list, tuple) else None
    if not kinds:
        return tuple if sequence is tuple else None  # JSON has lists only
    read = kinds[0].read
    if sequence is not None:
        return lambda body: sequence(map(read, body))
    return lambda body: None if body is None else read(body)


@dataclass(frozen=True)
class DecisionReply(Value):
    """A decision on one x.

    `version` is the generation of the learner, a dot, and the number of feedbacks it had learnt. `among` are the classes that could be played, null if all
    could. `confidence` is the probability that the label is right, null before there was any feedback; `unsure` says that it is below the required one.
    """

    id: str
    label: ClassName
    greedy: ClassName
    propensity: float
    probabilities: dict[str, float]
    version: str
    among: list[ClassName] | None
    confidence: float | None
    unsure: bool


@dataclass(frozen=True)
class FeedbackReply(Value):
    """The outcome of one feedback: accepted, revised, withdrawn, duplicate or late.

    In a batch also unknown or conflict, with a message.
    """

    id: str
    status: Literal["accepted", "revised", "withdrawn", "duplicate", "late", "unknown", "conflict"]
    message: str | None = None


@dataclass(frozen=True)
class ForgetReply(Value):
    """How many decisions were forgotten, and whether the learner kept or unlearnt them.

    `erased` says whether they are completely erased from the storage of the log.
    """

    forgotten: int
    learner: Literal["kept", "unlearnt"]
    erased: bool


@dataclass(frozen=True)
class LoggedDecision(DecisionReply):
    """A decision in the log, with the latest feedback on it, if any. `seq` is its position in the log.

    `revised_time` is when its feedback was revised, or withdrawn if `right` is null.
    """

    seq: int
    time: float
    weight: float
    notes: list[float]
    mode: Mode
    x: list[float] | dict[str, float] | str
    right: bool | None
    feedback_time: float | None
    late: bool
    source: Source | None
    shown: ClassName | None
    shown_propensity: float | None
    reward: float | None
    truth: ClassName | None
    revised_time: float | None
    complete: bool
    raw: float | None
    sure: float | None


@dataclass(frozen=True)
class ExplanationPart(Value):
    """How much one value of x adds to the lead of a label.

    Names of this x that share a hashed column count together.
    """

    names: list[str | int]
    value: float
    contribution: float


@dataclass(frozen=True)
class ExplanationReply(Value):
    """Why the current learner prefers a label to `rival`, the best of the other labels.

    `lead` is the sum of `parts`, `constant` and `rest`. `left_out` parts are not shown, and `rest` is their sum.
    """

    id: str
    label: ClassName
    rival: ClassName
    lead: float
    parts: list[ExplanationPart]
    constant: float
    rest: float
    left_out: int
    version: str


@dataclass(frozen=True)
class Training(Value):
    """A learner that is being trained from the log to take over."""

    learner: str
    done: int
    of: int
    error: str | None


@dataclass(frozen=True)
class Task(Value):
    """The current state of a task. The classes in `retired` are never played again."""

    name: str
    classes: list[ClassName]
    learner: str
    parameters: dict[str, Any]
    exploration_floor: float
    features: dict[str, Any]
    mode: Mode
    deadline_s: float | None
    silence: Silence
    display: dict[str, Any] | None
    items: str | None
    created: float
    deleted: float | None
    generation: int
    learnt: int
    position: int
    training: Training | None
    revise_within: float | None
    retired: list[ClassName]
    sure: float | None
    risk: float | None


@dataclass(frozen=True)
class Window(Value):
    """The error over the last feedbacks, with its 95 % interval."""

    size: int
    feedback: int
    wrong: int
    error: float | None
    low: float | None
    high: float | None
    mean_reward: float | None


@dataclass(frozen=True)
class Rates(Value):
    """Decisions and feedback per second over the last minute, and in each of the last 120 seconds.

    The lists begin with the oldest second.
    """

    decisions_per_s: float
    feedback_per_s: float
    decisions: list[int]
    feedback: list[int]


@dataclass(frozen=True)
class Delays(Value):
    """How many feedbacks arrived within each bound; the last count is of those beyond the last bound."""

    bounds_s: list[float]
    counts: list[int]


@dataclass(frozen=True)
class ClassStats(Value):
    """How often a class was played, got feedback and was right, with a 95 % interval of its right rate."""

    name: ClassName
    played: int
    heard: int
    right: int
    right_rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Exploration(Value):
    """The share of the last decisions whose label was not the greedy one."""

    window: int
    rate: float | None


@dataclass(frozen=True)
class Curve(Value):
    """The error and mean reward by number of feedbacks; `recent` is the error since the previous point."""

    feedback: list[int]
    error: list[float]
    recent: list[float]
    reward: list[float]


@dataclass(frozen=True)
class ShadowStats(Value):
    """The estimated error of the learner's own decisions while something else was shown.

    It is estimated over the last such rounds from the probabilities in the log (SNIPS), with a 95 % interval; null if nothing that was shown could have been
    played. `effective` is the number of rounds of its own decisions that would give as much information. `missing` is the share of its probability on classes
    that could not be shown, as far as known, by which the interval is widened.
    """

    rounds: int
    error: float | None
    low: float
    high: float
    effective: float
    missing: float


@dataclass(frozen=True)
class SureStats(Value):
    """How many decisions with a required confidence or risk were sure, and how many of those were wrong.

    `answered` is the share that was sure, and `error` the error of those sure decisions that got feedback. `overshoot` is a lower bound on how far the error
    exceeds the `risk` of the task, valid at all times at once except with probability 0.05; null if the task has no risk. The curves have a number
    for each point of `Curve`, or null where there is none yet: the share of sure decisions among those with feedback so far, and the error of the sure ones.
    """

    asked: int
    sure: int
    answered: float | None
    heard: int
    wrong: float
    error: float | None
    risk: float | None
    overshoot: float | None
    answered_curve: list[float | None] = field(repr=False)
    error_curve: list[float | None] = field(repr=False)


@dataclass(frozen=True)
class DriftAlarm(Value):
    """A rise of the error beyond chance, detected after `feedback` feedbacks, at row `seq` of the log.

    `usual` is an upper bound on the usual error of the task, and `error` the error over the last `since` feedbacks, during which it has risen.
    """

    seq: int
    time: float
    feedback: int
    since: int
    usual: float
    error: float


@dataclass(frozen=True)
class DriftStats(Value):
    """How often the error of a task has risen, and the last of these alarms, oldest first."""

    count: int
    alarms: list[DriftAlarm]


@dataclass(frozen=True)
class Stats(Value):
    """The statistics of a task."""

    task: str
    mode: Mode
    learner: str
    generation: int
    learnt: int
    position: int
    queue: int
    decisions: int
    feedback: int
    right: int
    late: int
    silences: int
    refused: int
    window: Window
    rates: Rates = field(repr=False)  # long fields are hidden, so that `print` shows one line
    delays: Delays = field(repr=False)
    classes: list[ClassStats] = field(repr=False)
    exploration: Exploration
    curve: Curve = field(repr=False)
    revised: int
    withdrawn: int
    rewards: int
    truths: int
    mean_reward: float | None
    certainty: SureStats = field(repr=False)
    shadow: ShadowStats | None
    drift: DriftStats


@dataclass(frozen=True)
class Version(Value):
    """The versions and the CPU that the service runs on.

    If all of these agree, learners are bit for bit the same.
    """

    version: str
    python: str
    numba: str
    numpy: str
    cpu: str


@dataclass(frozen=True)
class QuarantinedTask(Value):
    """A task that is quarantined, and why: its routes answer 503, and it can be deleted."""

    name: str
    reason: str


@dataclass(frozen=True)
class Readiness(Value):
    """Whether decisions and feedback are accepted, and if not, why.

    `quarantined` lists the tasks that are not served while all others are; `warnings` lists other problems for the operator.
    """

    ready: bool
    reason: str | None
    quarantined: tuple[QuarantinedTask, ...]
    warnings: tuple[str, ...]

    def __bool__(self) -> bool:
        """Return `ready`."""
        return self.ready
