"""The errors with which the service refuses requests: a message, an HTTP status and a code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from onebit.errors import OnebitError, nearest, truncate

MAX_MESSAGE_LENGTH = 600  # characters
KEPT_LENGTH = 150  # characters kept at each end of a longer message

UNKNOWN = "it is unknown whether this was done: send it again with the same id"


class RequestError(OnebitError):
    """The request cannot be parsed.

    This is the base class of all errors of requests. `field` names the invalid part of the body, if there is one.
    """

    status = 400
    code = "bad_request"
    retry_after_s: int | None = None  # after how long the same request may be sent again

    def __init__(self, message: str, field: str | None = None) -> None:
        # A message quotes the request, which may be large. Its beginning says where the error is, and its end what is
        # expected.
        is_long = len(message) > MAX_MESSAGE_LENGTH
        self.message = f"{message[:KEPT_LENGTH]} ... {message[-KEPT_LENGTH:]}" if is_long else message
        self.field = None if field is None else truncate(field)
        super().__init__(self.message)


class UnauthorizedError(RequestError):
    """The request has no valid token."""

    status, code = 401, "unauthorized"


class ForbiddenError(RequestError):
    """The token does not permit this request."""

    status, code = 403, "forbidden"


class NotFoundError(RequestError):
    """The resource does not exist."""

    status, code = 404, "not_found"


class UnknownTaskError(NotFoundError):
    """There is no task of this name.

    The message does not list the existing names, since the caller may not be allowed to see all of them.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no task {truncate(name)!r}")
        self._name = name
        self._known = known

    def with_suggestion(self, is_visible: Callable[[str], bool]) -> NotFoundError:
        """Return an error that suggests a similar name among the tasks that the caller may see."""
        return NotFoundError(f"{self.message}; {nearest(self._name, filter(is_visible, self._known))}")


class MethodNotAllowedError(RequestError):
    """The path exists, but not for this method."""

    status, code = 405, "method_not_allowed"


class RequestTimeoutError(RequestError):
    """The request did not arrive in time."""

    status, code = 408, "timeout"


class ConflictError(RequestError):
    """The request contradicts the current state."""

    status, code = 409, "conflict"


class GoneError(RequestError):
    """The decision was forgotten, and its id cannot be used again."""

    status, code = 410, "gone"


class TooLargeError(RequestError):
    """The request, or its answer, exceeds a limit."""

    status, code = 413, "too_large"


class InvalidError(RequestError):
    """The request is well-formed, but not valid."""

    status, code = 422, "invalid"


class NoMemoryError(RequestError):
    """There is not enough memory, and sending the request again at once would not help."""

    status, code = 507, "no_memory"


class UnavailableError(RequestError):
    """The service cannot do this now: nothing was done, and the same request may be sent again."""

    status, code = 503, "unavailable"
    retry_after_s = 1


class TaskQuarantinedError(UnavailableError):
    """The task is quarantined: its rows are damaged, or it cannot be restored. All other tasks go on."""

    code = "quarantined"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the task is quarantined: {reason}")


class UnfinishedError(RequestError):
    """It is unknown whether the request was carried out; it may still be in progress."""

    status, code = 504, "unfinished"


class InternalError(RequestError):
    """An internal error of the service."""

    status, code = 500, "internal"


class ReadinessWarning(NamedTuple):
    """A problem that operators must know of, although the service goes on.

    `/readyz` lists it to callers that may see the task.
    """

    sentence: str
    task: str | None = None


WarningSource = Callable[[], Iterable[ReadinessWarning]]  # the current warnings of one part of the service
