"""What the client raises where the service refuses or does not answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from onebit.errors import NetworkError, OnebitError


class ServiceError(OnebitError):
    """The service refused, or did not answer.

    `status` is the HTTP status, or None where no reply came. `code` is the service's word for it ("conflict",
    "not_found", ...), "unreachable" where no reply came, and "unexpected" where the reply was not the service's.
    `field` names the part of the request that is wrong, where there is one.
    """

    def __init__(self, message: str, *, status: int | None, code: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        """With its keywords, so that it comes back whole from another process."""
        again = partial(type(self), status=self.status, code=self.code, field=self.field)
        return again, (str(self),), vars(self)


class UnreachableError(ServiceError, NetworkError):
    """No reply came, or none to its end. `status` is None and `code` is "unreachable"; it is a `ConnectionError` too."""
