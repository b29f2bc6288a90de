"""Why the service refuses a request: one sentence, with the HTTP status that says it to a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from onebit.errors import OnebitError, nearest, truncate

MOST_IN_SENTENCE = 600  # characters
KEPT = 150  # at either end of a longer one

UNKNOWN = "nobody knows whether this was done: send it again, with the same id"


class RequestError(OnebitError):
    """A request that cannot be read. Others are kinds of it; `field` names the part of the body that is wrong, where there is one."""

    status = 400
    code = "bad_request"
    retry_after_s: int | None = None  # when the same request may be sent again

    def __init__(self, message: str, field: str | None = None) -> None:
        # What was sent is in the sentence, and may be of any size. Its beginning says where, and its end what would be right.
        long = len(message) > MOST_IN_SENTENCE
        self.message = f"{message[:KEPT]} ... {message[-KEPT:]}" if long else message
        self.field = None if field is None else truncate(field)
        super().__init__(self.message)


class UnauthorizedError(RequestError):
    """Nobody knows who asks."""

    status, code = 401, "unauthorized"


class ForbiddenError(RequestError):
    """Who asks may not."""

    status, code = 403, "forbidden"


class NotFoundError(RequestError):
    """There is no such thing."""

    status, code = 404, "not_found"


class UnknownTaskError(NotFoundError):
    """There is no task of this name. The names of those that there are, are not for everybody."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no task {truncate(name)!r}")
        self._name = name
        self._known = known

    def seen(self, sees: Callable[[str], bool]) -> NotFoundError:
        """The same, with the names that one may see."""
        return NotFoundError(f"{self.message}; {nearest(self._name, filter(sees, self._known))}")


class MethodNotAllowedError(RequestError):
    """The path is there, but not for this method."""

    status, code = 405, "method_not_allowed"


class RequestTimeoutError(RequestError):
    """The request did not arrive in time."""

    status, code = 408, "timeout"


class ConflictError(RequestError):
    """It contradicts what is there already."""

    status, code = 409, "conflict"


class GoneError(RequestError):
    """It was there, and was forgotten: it does not come back, and its id is not used again."""

    status, code = 410, "gone"


class TooLargeError(RequestError):
    """More than one request may hold."""

    status, code = 413, "too_large"


class InvalidError(RequestError):
    """It can be read, but is not valid here."""

    status, code = 422, "invalid"


class NoMemoryError(RequestError):
    """There is not enough memory, and sending the same again at once would not help."""

    status, code = 507, "no_memory"


class UnavailableError(RequestError):
    """Not now: nothing was done, and the same request may be sent again."""

    status, code = 503, "unavailable"
    retry_after_s = 1


class TaskQuarantinedError(UnavailableError):
    """The task is quarantined: its rows in the log are damaged, or it cannot be brought up. All other tasks go on."""

    code = "quarantined"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the task is quarantined: {reason}")


class UnfinishedError(RequestError):
    """Nobody knows whether it was done, or is still being done."""

    status, code = 504, "unfinished"


class ReadinessWarning(NamedTuple):
    """What does not stop the service, but whoever runs it must know; `/readyz` lists it to those who may see the task."""

    sentence: str
    task: str | None = None


WarningSource = Callable[[], Iterable[ReadinessWarning]]  # what a part of the service has to warn of now
