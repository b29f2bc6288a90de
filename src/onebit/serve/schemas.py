"""The bodies of requests and replies: the contract of the HTTP interface, and what its OpenAPI page is made from."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from onebit.rules import DEFAULT
from onebit.serve.stats_parts import (
    ClassStats,
    Curve,
    Delays,
    DriftStats,
    Exploration,
    Rates,
    ShadowStats,
    SureStats,
    Window,
)

STORABLE = r"^[^\x00]*$"  # a pattern: PostgreSQL holds no NUL; half a character is no text in JSON
ClassName = (
    Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)] | Annotated[int, Field(ge=-(2**53), le=2**53)]
)
Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]
Sure = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]  # the confidence from which a decision is sure
Risk = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]  # the share of sure decisions that may be wrong
LONGEST_ID = 200  # characters
Identity = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=STORABLE)]
TASK_NAME = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"
TaskName = Annotated[str, Field(pattern=TASK_NAME)]
Mode = Literal["learn", "shadow", "log-only"]
Silence = Literal["nothing", "wrong", "right"]
Source = Literal["caller", "silence"]  # whose feedback it is: the caller's, or what silence stands for
Seconds = Annotated[float, Field(gt=0.0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
MOST_CLASSES = 10_000
MOST_FEATURES = 1_000_000
Candidates = Annotated[list[ClassName], Field(min_length=1, max_length=MOST_CLASSES, fail_fast=True)]
FEW = 100  # values whose faults may all be told


def _first_fault(names: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Stop at the first wrong value of many, as lists can and dicts cannot."""
    if isinstance(names, dict) and len(names) > FEW:
        for name, value in names.items():
            if type(value) is not float or not isfinite(value):
                check({name: value})
    return check(names)


class Strict(BaseModel):
    """Neither unknown fields nor texts that look like numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NumbersFeatures(Strict):
    """x is a list of so many numbers."""

    kind: Literal["numbers"]
    size: Annotated[int, Field(ge=1, le=MOST_FEATURES)]


class DictFeatures(Strict):
    """x is an object of names and numbers; names are hashed into 2^hash_bits columns."""

    kind: Literal["dict"]
    hash_bits: Annotated[int, Field(ge=1, le=26)] = 18


class TextFeatures(Strict):
    """x is a text, read as the set of its words, which are hashed into 2^hash_bits columns."""

    kind: Literal["text"]
    hash_bits: Annotated[int, Field(ge=1, le=26)] = 18


FeaturesOf = Annotated[NumbersFeatures | DictFeatures | TextFeatures, Field(discriminator="kind")]


class Image(Strict):
    """x is a picture, row after row; `lowest` is white and `highest` black."""

    kind: Literal["image"]
    width: Annotated[int, Field(ge=1, le=1000)]
    height: Annotated[int, Field(ge=1, le=1000)]
    lowest: Number = 0.0
    highest: Number = 1.0


class NewLearner(Strict):
    """Which learner, with which parameters; an exploration floor or a seed of null means the default."""

    learner: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any] = {}
    exploration_floor: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    seed: Seed | None = None


class NewTask(NewLearner):
    """A task to create: what is decided, and how it is learnt."""

    learner: Annotated[str, Field(max_length=100)] = DEFAULT
    name: TaskName
    classes: (
        Annotated[list[ClassName], Field(min_length=2, max_length=MOST_CLASSES, fail_fast=True)]
        | Annotated[int, Field(ge=2, le=MOST_CLASSES)]
    )
    features: FeaturesOf
    mode: Mode = "learn"
    deadline_s: Seconds | None = None
    silence: Silence = "nothing"
    revise_within: Seconds | None = None
    sure: Sure | None = None
    risk: Risk | None = None
    display: Image | None = None
    items: Annotated[str, Field(max_length=100)] | None = None


class Change(Strict):
    """Changes of a task; fields that are not given stay."""

    add_classes: Annotated[list[ClassName], Field(max_length=MOST_CLASSES, fail_fast=True)] = []
    remove_classes: Annotated[list[ClassName], Field(max_length=MOST_CLASSES, fail_fast=True)] = []
    mode: Mode | None = None
    deadline_s: Seconds | None = None
    silence: Silence | None = None
    revise_within: Seconds | None = None
    sure: Sure | None = None
    risk: Risk | None = None


class Training(BaseModel):
    """A learner that is being trained from the log, to take over."""

    learner: str
    done: int
    of: int
    error: str | None = None


class Task(BaseModel):
    """The current state of a task. The classes in `retired` are never played again."""

    name: str
    classes: list[str | int]
    retired: list[str | int]
    learner: str
    parameters: dict[str, Any]
    exploration_floor: float
    features: FeaturesOf
    mode: Mode
    deadline_s: float | None
    silence: Silence
    revise_within: float | None
    sure: float | None
    risk: float | None
    display: Image | None
    items: str | None
    created: float
    created_at: str | None
    deleted: float | None
    deleted_at: str | None
    generation: int
    learnt: int
    position: int
    training: Training | None


class TaskAside(BaseModel):
    """A task that is set aside, and why: its routes answer 503, and it can be deleted."""

    name: str
    reason: str


class Tasks(BaseModel):
    """All tasks that the token may see."""

    tasks: list[Task]
    set_aside: list[TaskAside]


class DecideRequest(Strict):
    """One x to decide on. The same id again gives the same answer; by default an id is generated.

    `among` lists the candidates, and `complete` says that the right class is one of them. A decision is sure from a confidence of `sure` on,
    or such that at most the share `risk` of the sure ones is wrong; the defaults are those of the task.
    """

    id: Identity | None = None
    among: Candidates | None = None
    complete: bool = False
    sure: Sure | None = None
    risk: Risk | None = None
    x: Annotated[list[Number], Field(fail_fast=True)] | Annotated[dict[str, Number], WrapValidator(_first_fault)] | str


class FeedbackRequest(Strict):
    """Whether a decision was right, or its reward, from 0 to 1, or the class that would have been right: one of these.

    In shadow mode this refers to what was shown instead. With `revise` it replaces earlier feedback; with `withdraw`, and nothing else, that is withdrawn.
    """

    id: Identity
    right: bool | None = None
    reward: Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})] | None = None
    truth: ClassName | None = None
    shown: ClassName | None = None
    shown_propensity: Probability | None = None
    revise: bool = False
    withdraw: bool = False


class Decided(BaseModel):
    """A decision. `version` is the generation of the learner, and how many feedbacks it had learnt.

    `among` are the classes that could be played, null if all could. `confidence` is the probability that the label is right, null
    before there was any feedback; `unsure` says that it is below the required one.
    """

    id: str
    label: str | int
    greedy: str | int
    propensity: float
    probabilities: dict[str, float]
    version: str
    among: list[str | int] | None
    confidence: float | None
    unsure: bool


class Heard(BaseModel):
    """The outcome of one feedback."""

    id: str
    status: Literal["accepted", "revised", "withdrawn", "duplicate", "late", "unknown", "conflict"]
    message: str | None = None


class LoggedDecision(Decided):
    """A decision in the log, with its feedback if there is any."""

    seq: int
    time: float
    weight: float
    notes: Annotated[list[float], Field(min_length=2, max_length=2)]
    decided_at: str | None
    mode: Mode
    x: list[float] | dict[str, float] | str
    right: bool | None
    feedback_time: float | None
    feedback_at: str | None
    late: bool
    source: Source | None
    shown: str | int | None
    shown_propensity: float | None
    reward: float | None
    truth: str | int | None
    revised_time: float | None
    revised_at: str | None
    complete: bool
    raw: float | None
    sure: float | None


class LoggedDecisions(BaseModel):
    """Decisions, the newest first."""

    decisions: list[LoggedDecision]


class ExplainedPart(BaseModel):
    """What one value of x adds to the lead of a label. Names of this x that share a hashed column count together."""

    names: list[str | int]
    value: float
    contribution: float


class Explained(BaseModel):
    """Why a label rather than `rival`, the best of the others, according to the current learner: `lead` is the sum of parts, constant and rest."""

    id: str
    label: str | int
    rival: str | int
    lead: float
    parts: list[ExplainedPart]
    constant: float
    rest: float
    left_out: int
    version: str


class Item(BaseModel):
    """An item of the data of a task, to play with."""

    number: int
    of: int
    x: list[float] | dict[str, float] | str
    truth: str | int


class Stats(BaseModel):
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
    revised: int
    withdrawn: int
    refused: int
    rewards: int
    truths: int
    mean_reward: float | None
    window: Window
    rates: Rates
    delays: Delays
    classes: list[ClassStats]
    exploration: Exploration
    curve: Curve
    shadow: ShadowStats | None
    drift: DriftStats
    certainty: SureStats


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether decisions and feedback are accepted, and if not, why; tasks that are set aside, and warnings."""

    ready: bool
    reason: str | None
    set_aside: list[TaskAside]
    warnings: list[str]


class Version(BaseModel):
    """The versions and the CPU that the service runs on."""

    version: str
    python: str
    numba: str
    numpy: str
    cpu: str


class Session(BaseModel):
    """What a token may do; tasks of null means all of them. `open`: the service has no tokens."""

    scopes: list[Literal["decide", "feedback", "read", "admin"]]
    tasks: list[str] | None
    open: bool


class LearnerParameter(BaseModel):
    """A parameter of a learner."""

    name: str
    default: Any
    range: str
    meaning: str


class LearnerKind(BaseModel):
    """A learner that a task can have."""

    name: str
    summary: str
    parameters: list[LearnerParameter]


class Learners(BaseModel):
    """All learners with bandit feedback."""

    learners: list[LearnerKind]
