"""The errors that the client raises if the service refuses a request or does not answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from onebit.errors import NetworkError, OnebitError


class ServiceError(OnebitError):
    """The service refused a request, or did not reply.

    `status` is the HTTP status, or None if no reply came. `code` is the service's error code ("conflict",
    "not_found", ...), "unreachable" if no reply came, and "unexpected" if the reply was not the service's.
    `field` names the part of the request that is wrong, if there is one.
    """

    def __init__(self, message: str, *, status: int | None, code: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling with keyword arguments, so that no attribute is lost between processes."""
        again = partial(type(self), status=self.status, code=self.code, field=self.field)
        return again, (str(self),), vars(self)


class UnreachableError(ServiceError, NetworkError):
    """No complete reply came. `status` is None and `code` is "unreachable".

    It is a `ConnectionError` too.
    """
