"""What the service answers, as values. A field that a newer service adds is passed over; one that is missing is an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

from onebit.validation import ClassName

Mode = Literal["learn", "shadow", "log-only"]
Silence = Literal["nothing", "wrong", "right"]


@dataclass(frozen=True)
class Value:
    """Something that is read from a JSON object."""

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """Read an object with at least these fields; KeyError and TypeError if it is something else."""
        return cls(**{name: body[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Decided(Value):
    """A decision. `version` is the generation of the learner, a dot, and how many feedbacks it had learnt.

    `among` are the classes that could be played, None if all could. `confidence` is the probability that the label is right, None before
    there was any feedback; `unsure` says that it is below the required one.
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
class Heard(Value):
    """The outcome of one feedback: accepted, revised, withdrawn, duplicate or late; in a batch also unknown or conflict, with a message."""

    id: str
    status: Literal["accepted", "revised", "withdrawn", "duplicate", "late", "unknown", "conflict"]
    message: str | None = None

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """The message is left out where there is none."""
        return cls(body["id"], body["status"], body.get("message"))


@dataclass(frozen=True)
class Forgot(Value):
    """How many decisions were forgotten, whether the learner kept or unlearnt them, and whether nothing of them is left where the log is kept."""

    forgotten: int
    learner: Literal["kept", "unlearnt"]
    erased: bool


@dataclass(frozen=True)
class LoggedDecision(Decided):
    """A decision in the log, with the latest feedback on it, if any. `seq` is its position in the log.

    `revised_time` is when its feedback was revised, or withdrawn where `right` is None. `decided_at`, `feedback_at` and `revised_at` are the
    times as texts.
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
    source: Literal["caller", "silence"] | None
    shown: ClassName | None
    shown_propensity: float | None
    reward: float | None
    truth: ClassName | None
    revised_time: float | None
    complete: bool
    raw: float | None
    sure: float | None
    decided_at: str | None
    feedback_at: str | None
    revised_at: str | None


@dataclass(frozen=True)
class ExplainedPart(Value):
    """What one value of x adds to the lead of a label. Names of this x that share a hashed column speak together."""

    names: list[str | int]
    value: float
    contribution: float


@dataclass(frozen=True)
class Explained(Value):
    """Why a label rather than `rival`, the best of the others, according to the current learner: `lead` is the sum of parts, constant and rest.

    `left_out` parts are not shown, and `rest` is their sum.
    """

    id: str
    label: ClassName
    rival: ClassName
    lead: float
    parts: list[ExplainedPart]
    constant: float
    rest: float
    left_out: int
    version: str

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """With its parts."""
        return super().read({**body, "parts": [ExplainedPart.read(one) for one in body["parts"]]})


@dataclass(frozen=True)
class Training(Value):
    """A learner that is being trained from the log, to take over."""

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
    created_at: str | None
    deleted_at: str | None

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """With its training, where there is one."""
        training = body["training"]
        return super().read({**body, "training": None if training is None else Training.read(training)})


@dataclass(frozen=True)
class Window(Value):
    """The error of the last feedbacks, with the ends of its 95 % interval."""

    size: int
    feedback: int
    wrong: int
    error: float | None
    low: float | None
    high: float | None
    mean_reward: float | None


@dataclass(frozen=True)
class Rates(Value):
    """What comes in: a second, over the last minute; and in each of the last 120 seconds, oldest first."""

    decisions_per_s: float
    feedback_per_s: float
    decisions: list[int]
    feedback: list[int]


@dataclass(frozen=True)
class Delays(Value):
    """How many feedbacks came within each bound; the last count is beyond the last bound."""

    bounds_s: list[float]
    counts: list[int]


@dataclass(frozen=True)
class ClassStats(Value):
    """How often a class was played, heard of, and right, with the ends of the 95 % interval of its right rate."""

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
    """The error after so many feedbacks: over all, and since the point before."""

    feedback: list[int]
    error: list[float]
    recent: list[float]
    reward: list[float]


@dataclass(frozen=True)
class ShadowStats(Value):
    """The learner's own error while something else was shown, estimated from so many rounds, with the ends of its 95 % interval."""

    rounds: int
    error: float | None
    low: float
    high: float
    effective: float
    missing: float


@dataclass(frozen=True)
class SureStats(Value):
    """Of the decisions of which somebody asked whether they are sure: how many were (`answered` is their share), and how wrong those were.

    `overshoot` is by how much their error is above the `risk` of the task at least; None where it has none. The curves have a number for each
    point of `Curve`.
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
    """More mistakes than before, and too many for chance: after `feedback` feedbacks, at the row `seq` of the log.

    `usual` is the error that the task was used to, at the most, and `error` that of the last `since` feedbacks.
    """

    seq: int
    time: float
    raised_at: str | None
    feedback: int
    since: int
    usual: float
    error: float


@dataclass(frozen=True)
class DriftStats(Value):
    """How often a task began to err more than it used to, and the last of these alarms, oldest first."""

    count: int
    alarms: list[DriftAlarm]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """With its alarms."""
        return cls(body["count"], [DriftAlarm.read(one) for one in body["alarms"]])


@dataclass(frozen=True)
class Stats(Value):
    """The statistics of a task. `print` leaves out `rates`, `delays`, `classes`, `curve` and `certainty`, which are long."""

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
    rates: Rates = field(repr=False)
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

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """With all its parts."""
        parts: dict[str, Any] = {
            "window": Window.read(body["window"]),
            "rates": Rates.read(body["rates"]),
            "delays": Delays.read(body["delays"]),
            "classes": [ClassStats.read(one) for one in body["classes"]],
            "exploration": Exploration.read(body["exploration"]),
            "curve": Curve.read(body["curve"]),
            "certainty": SureStats.read(body["certainty"]),
            "shadow": None if body["shadow"] is None else ShadowStats.read(body["shadow"]),
            "drift": DriftStats.read(body["drift"]),
        }
        return super().read({**body, **parts})


@dataclass(frozen=True)
class Version(Value):
    """What the service runs on. States are the same bit for bit where all of these are the same."""

    version: str
    python: str
    numba: str
    numpy: str
    cpu: str


@dataclass(frozen=True)
class TaskAside(Value):
    """A task that is set aside, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Readiness(Value):
    """Whether the service takes requests, and if not, why; true or false like `ready` itself.

    `set_aside` has the tasks that are not served while all others are, and `warnings` what else should be looked after.
    """

    ready: bool
    reason: str | None
    set_aside: tuple[TaskAside, ...]
    warnings: tuple[str, ...]

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        """Read it with the tasks that are set aside."""
        aside = tuple(TaskAside.read(one) for one in body["set_aside"])
        return cls(body["ready"], body["reason"], aside, tuple(body["warnings"]))

    def __bool__(self) -> bool:
        return self.ready
