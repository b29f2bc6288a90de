"""The bodies of requests; with `onebit.service.replies`, the contract of the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from onebit.rules import DEFAULT
from onebit.service.replies import Mode, Silence

STORABLE = r"^[^\x00]*$"  # PostgreSQL cannot store NUL; lone surrogates are not valid in JSON
ClassName = (
    Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)] | Annotated[int, Field(ge=-(2**53), le=2**53)]
)
Number = Annotated[float, Field(allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]
Sure = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]  # the confidence from which a decision is sure
Risk = Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]  # the share of sure decisions that may be wrong
MAX_ID_LENGTH = 200  # characters
DecisionId = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH, pattern=STORABLE)]
TASK_NAME = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"
TaskName = Annotated[str, Field(pattern=TASK_NAME)]
Seconds = Annotated[float, Field(gt=0.0, le=1e9)]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
MAX_CLASSES = 10_000
MAX_FEATURES = 1_000_000
Candidates = Annotated[list[ClassName], Field(min_length=1, max_length=MAX_CLASSES, fail_fast=True)]
MAX_FORGET_IDS = 10_000  # in one request


class Strict(BaseModel):
    """Base class of bodies: unknown fields are refused, and a string is not accepted as a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NumbersFeatures(Strict):
    """x is a list of `size` numbers."""

    kind: Literal["numbers"]
    size: Annotated[int, Field(ge=1, le=MAX_FEATURES)]


class DictFeatures(Strict):
    """x is an object that maps names to numbers; names are hashed into 2^hash_bits columns."""

    kind: Literal["dict"]
    hash_bits: Annotated[int, Field(ge=1, le=26)] = 18


class TextFeatures(Strict):
    """x is a string, read as the set of its words, which are hashed into 2^hash_bits columns."""

    kind: Literal["text"]
    hash_bits: Annotated[int, Field(ge=1, le=26)] = 18


Features = Annotated[NumbersFeatures | DictFeatures | TextFeatures, Field(discriminator="kind")]


class Image(Strict):
    """x is an image, row by row; the value `lowest` is white and `highest` is black."""

    kind: Literal["image"]
    width: Annotated[int, Field(ge=1, le=1000)]
    height: Annotated[int, Field(ge=1, le=1000)]
    lowest: Number = 0.0
    highest: Number = 1.0


class NewLearner(Strict):
    """A learner and its parameters; null for the exploration floor or the seed means the default."""

    learner: Annotated[str, Field(max_length=100)]
    parameters: dict[str, Any] = {}
    exploration_floor: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    seed: Seed | None = None


class NewTask(NewLearner):
    """A task to create: what it decides, and how it learns."""

    learner: Annotated[str, Field(max_length=100)] = DEFAULT
    name: TaskName
    classes: (
        Annotated[list[ClassName], Field(min_length=2, max_length=MAX_CLASSES, fail_fast=True)]
        | Annotated[int, Field(ge=2, le=MAX_CLASSES)]
    )
    features: Features
    mode: Mode = "learn"
    deadline_s: Seconds | None = None
    silence: Silence = "nothing"
    revise_within: Seconds | None = None
    sure: Sure | None = None
    risk: Risk | None = None
    display: Image | None = None
    items: Annotated[str, Field(max_length=100)] | None = None


class Change(Strict):
    """Changes to a task; fields that are not given keep their values."""

    add_classes: Annotated[list[ClassName], Field(max_length=MAX_CLASSES, fail_fast=True)] = []
    remove_classes: Annotated[list[ClassName], Field(max_length=MAX_CLASSES, fail_fast=True)] = []
    mode: Mode | None = None
    deadline_s: Seconds | None = None
    silence: Silence | None = None
    revise_within: Seconds | None = None
    sure: Sure | None = None
    risk: Risk | None = None


class DecideRequest(Strict):
    """One x to decide on. The same id always gives the same answer; by default an id is generated.

    `among` lists the candidates, and `complete` says that the right class is one of them. A decision is sure if its confidence is at least `sure`,
    or if it is among decisions of which at most the share `risk` is wrong; the defaults are those of the task.
    """

    id: DecisionId | None = None
    among: Candidates | None = None
    complete: bool = False
    sure: Sure | None = None
    risk: Risk | None = None
    x: Annotated[list[Number], Field(fail_fast=True)] | dict[str, Number] | str


class FeedbackRequest(Strict):
    """Whether a decision was right, or its reward from 0 to 1, or the class that would have been right.

    Give one of these. In shadow mode it refers to what was shown instead. With `revise` it replaces earlier feedback; `withdraw`, given alone, withdraws it.
    """

    id: DecisionId
    right: bool | None = None
    reward: Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})] | None = None
    truth: ClassName | None = None
    shown: ClassName | None = None
    shown_propensity: Probability | None = None
    revise: bool = False
    withdraw: bool = False


class ForgetRequest(Strict):
    """The decisions to forget: those with given ids, or those made before a time in seconds since 1970.

    With `unlearn`, the learner also forgets what it learnt from them.
    """

    ids: Annotated[list[DecisionId], Field(min_length=1, max_length=MAX_FORGET_IDS)] | None = None
    before: Number | None = None
    unlearn: bool = False
