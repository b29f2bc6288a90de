"""The operations of the interface: who may use each, what it takes, and the endpoint that answers.

The endpoint's signature is the contract: the body is validated against it straight from the bytes, and `openapi` describes it. A path is a
`PathItem`, an ASGI application as Starlette's `Route` takes them, with one operation per method.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import KW_ONLY, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.service.errors import (
    ForbiddenError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    RequestError,
    RequestTimeoutError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
)
from onebit.service.http.bodies import BodyReader, Parameter, QueryReader, read_body
from onebit.service.http.responses import empty_reply, error_reply, json_reply
from onebit.service.tokens import Principal

if TYPE_CHECKING:
    from onebit.service.service import Service

# "nobody" needs no token; "anybody" needs a token of any scope; "everything" needs scope `read` for all tasks.
Needs = Literal["nobody", "anybody", "decide", "feedback", "read", "admin", "everything"]
Endpoint = Callable[..., Awaitable[object]]
COOKIE = "onebit_token"
LARGE_AT_ONCE = 2  # large requests, or requests with large replies, of one token at a time


class RequestContext:
    """The state of a request while it is being answered."""

    __slots__ = ("is_large", "large_requests", "method", "principal", "route", "started", "status", "token")

    def __init__(self, method: str) -> None:
        self.method = method
        self.principal: Principal | None = None
        self.token: str | None = None  # text of the token
        self.route = "none"  # path as declared
        self.status = 0  # status of the reply, once it has started
        self.started = perf_counter()
        self.large_requests: asyncio.Semaphore | None = None  # limits the large requests of this token
        self.is_large = False

    async def reserve_large(self) -> None:
        """Wait until this request, or its reply, may be large.

        The number of large requests of one token at a time is limited.
        """
        if not self.is_large and self.large_requests is not None:
            await self.large_requests.acquire()
            self.is_large = True

    def release_large(self) -> None:
        """Let the next large request of the token proceed."""
        if self.is_large and self.large_requests is not None:
            self.large_requests.release()
            self.is_large = False


def context_of(request: Request) -> RequestContext:
    """Return the context of a request."""
    context: RequestContext = request.scope["onebit"]
    return context


def principal_of(request: Request) -> Principal:
    """Return the principal of a request, which the middleware has authenticated."""
    principal = context_of(request).principal
    assert principal is not None
    return principal


class _Text(StringConvertor):
    """A path parameter of any text up to the end: an id may contain slashes and newlines."""

    regex = "(?s:.+)"


register_url_convertor("text", _Text())


@dataclass(eq=False)
class Operation:
    """An operation: one method of one path."""

    method: str
    pattern: str  # path in the syntax of Starlette's routes
    endpoint: Endpoint
    service: Service
    _: KW_ONLY
    needs: Needs
    tag: str  # group in the documentation
    reply: Any = None  # type of a JSON reply
    status: int = 200
    content: str | None = None  # media type of any other reply
    is_page: bool = False  # a page for people, who get the login page if they have no token
    refusals: Iterable[type[RequestError]] = ()  # errors besides those that follow from the signature
    other_replies: dict[int, Any] = field(default_factory=dict)  # types of JSON replies with other statuses
    headers: dict[str, str] = field(default_factory=dict)  # headers of a successful reply, and their meanings

    def __post_init__(self) -> None:
        self.path = self.pattern.replace(":text", "")
        hints = get_type_hints(self.endpoint, include_extras=True)
        declared = inspect.signature(self.endpoint).parameters
        parameters = {name: Parameter(hints[name], declared[name].default) for name in declared}
        self._wants_request = parameters.pop("request", None) is not None
        body = parameters.pop("body", None)
        self.body = None if body is None else body.kind
        self.in_path = {name: parameter for name, parameter in parameters.items() if f"{{{name}}}" in self.path}
        self.query = {name: parameter for name, parameter in parameters.items() if name not in self.in_path}
        settings = self.service.settings
        self._body = None if body is None else BodyReader(self.body, settings, self.service.heavy_work)
        self._query = QueryReader(self.query)
        self.errors: set[type[RequestError]] = set(self.refusals)
        if self.needs != "nobody":
            self.errors |= {UnauthorizedError, ForbiddenError, UnavailableError}
        if self.in_path:
            self.errors |= {NotFoundError}
        if self._body:
            self.errors |= {RequestError, RequestTimeoutError, TooLargeError, InvalidError}
        if self.query:
            self.errors |= {InvalidError}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        context: RequestContext = scope["onebit"]
        arguments: dict[str, Any] = scope["path_params"]
        task = arguments.get("task")
        self._check(context, task)
        if task is not None:
            await self.service.discover(task)
        if self.query:
            arguments |= self._query.read(scope["query_string"])
        if self._body is not None:
            content = await read_body(scope, receive, self.service.settings, context.reserve_large)
            arguments["body"] = await self._body.read(content)
        if self._wants_request:
            arguments["request"] = Request(scope)
        answer = await self.endpoint(**arguments)
        response = answer if isinstance(answer, Response) else json_reply(answer, self.status)
        context.status = response.status_code
        await response(scope, receive, send)

    def _check(self, context: RequestContext, task: str | None) -> None:
        """Raise an error if the token does not allow this operation."""
        if self.needs == "nobody":
            return
        principal = context.principal
        if principal is None:
            raise UnauthorizedError("a token is needed: Authorization: Bearer TOKEN")
        if task is not None and not principal.sees(task):
            raise ForbiddenError("the token is for other tasks")
        if self.needs == "everything":
            if principal.tasks is not None:
                raise ForbiddenError("this needs a token for all tasks")
            if "read" not in principal.scopes:
                raise ForbiddenError("the token lacks scope 'read'")
        elif self.needs != "anybody" and self.needs not in principal.scopes:
            raise ForbiddenError(f"the token lacks scope '{self.needs}'")


class PathItem:
    """A path and its operations by method."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = {operation.method: operation for operation in operations}
        self.path = next(iter(self.operations.values())).path
        methods = {*self.operations, "OPTIONS"} | ({"HEAD"} if "GET" in self.operations else set())
        self._allowed = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request to this path."""
        context: RequestContext = scope["onebit"]
        context.route = self.path
        operation = self.operations.get(scope["method"])
        if operation is not None:
            await operation(scope, receive, send)
            return
        header = [(b"allow", self._allowed.encode())]
        if scope["method"] == "OPTIONS":
            response: Response = empty_reply(header)
        else:
            message = f"the method {scope['method']} is not allowed here; allowed are {self._allowed}"
            response = error_reply(MethodNotAllowedError(message), header)
        context.status = response.status_code
        await response(scope, receive, send)
