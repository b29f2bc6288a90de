"""What `onebit.open` needs of a task in this process, wherever its log is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from onebit.decision import Decision
from onebit.serve.clock import Clock
from onebit.serve.errors import InvalidError
from onebit.serve.log.reading import Reader
from onebit.serve.made import AskedTerms
from onebit.serve.schemas import Change, FeedbackRequest, NewLearner
from onebit.serve.served_task import ServedTask
from onebit.serve.web.messages import message_of

Answer = tuple[str, str, str]  # the id of a decision, what became of a feedback, and a sentence where it was refused
Model = TypeVar("Model", bound=BaseModel)


class Core(Protocol):
    """One task of a log. Any thread may call it."""

    @property
    def served(self) -> ServedTask:
        """The task as it is now."""

    @property
    def reader(self) -> Reader:
        """What reads its log, for whoever has it whole."""

    @property
    def clock(self) -> Clock:
        """The times of its log."""

    @property
    def where(self) -> str:
        """Where its log is, for people."""

    @property
    def log(self) -> Path | str:
        """Where its log is, for programs."""

    def decide(self, x: Any, given: str | None, asked: AskedTerms) -> Decision:
        """Decide on one x. An id that was decided before is answered as then."""

    def decide_many(self, xs: Sequence[Any], ids: Sequence[str | None], asked: AskedTerms) -> list[Decision]:
        """Decide on many x, all or none."""

    def hear(self, request: FeedbackRequest) -> Answer:
        """Record what is said of a decision, and learn it; refuse what is unknown, or contradicts what was said before."""

    def hear_many(self, requests: Sequence[FeedbackRequest]) -> list[Answer]:
        """Record what is said of many decisions; what is unknown, or a contradiction, is an answer."""

    def change(self, change: Change) -> None:
        """Change the task: it holds when this returns."""

    def switch(self, new: NewLearner) -> None:
        """Have another learner trained from the log: it decides when this returns."""

    def whole(self) -> AbstractContextManager[None]:
        """Everything that was said here is written and learnt, and no other thread looks at it meanwhile."""

    def flush(self) -> None:
        """Have everything on disk."""

    def close(self, why: str) -> None:
        """Have everything on disk, keep a snapshot, and let go of the log; from now on whoever asks is told why not."""

    def forked(self) -> None:
        """Let go of what belongs to the parent of this process, which goes on with it."""


def checked(model: type[Model], given: dict[str, Any]) -> Model:
    """What was given, or one sentence on what is wrong with it."""
    try:
        return model.__pydantic_validator__.validate_python(given)  # type: ignore[no-any-return]  # `model_validate`, in two thirds of its time
    except ValidationError as error:
        raise InvalidError(*message_of(error.errors(), given, list(model.model_fields))) from None
