"""The operations of the HTTP interface: required scope, parameters, and the endpoint that answers.

The endpoint's signature is the contract: the body is validated against it straight from the bytes, and `openapi` describes it. A path is a
`PathItem`, an ASGI application as Starlette's `Route` takes them, with one operation per method.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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
from onebit.service.http.access import RequestContext, get_principal
from onebit.service.http.bodies import BodyReader, QueryReader, read_body
from onebit.service.http.responses import build_error_reply, build_json_reply
from onebit.service.tokens import Principal

if TYPE_CHECKING:
    from onebit.service.service import Service

# "nobody" needs no token; "anybody" needs a token of any scope; "everything" needs scope `read` for all tasks.
Needs = Literal["nobody", "anybody", "decide", "feedback", "read", "admin", "everything"]
Endpoint = Callable[..., Awaitable[object]]


class _TextConvertor(StringConvertor):
    """A path parameter of any text up to the end: an id may contain slashes and newlines."""

    regex = "(?s:.+)"


register_url_convertor("text", _TextConvertor())


@dataclass(eq=False)
class Operation:
    """An operation of the HTTP interface: one method of one path."""

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
    refusals: Iterable[type[RequestError]] = ()  # errors besides those that follow from the signature
    other_replies: dict[int, Any] = field(default_factory=dict)  # types of JSON replies with other statuses

    def __post_init__(self) -> None:
        self.path = self.pattern.replace(":text", "")
        parameters = dict(inspect.signature(self.endpoint, eval_str=True).parameters)
        self._wants_request = parameters.pop("request", None) is not None
        body = parameters.pop("body", None)
        self.body = None if body is None else body.annotation
        self.in_path = [parameter for name, parameter in parameters.items() if f"{{{name}}}" in self.path]
        self.query = [parameter for parameter in parameters.values() if parameter not in self.in_path]
        service = self.service
        self._body = None if body is None else BodyReader(self.body, service.settings, service.heavy_work)
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

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        """Return the response to a request."""
        context: RequestContext = scope["onebit"]
        request = Request(scope, receive)
        arguments: dict[str, Any] = request.path_params
        task = arguments.get("task")
        if self.needs != "nobody":
            self._check_rights(get_principal(request), task)
        if task is not None:
            await self.service.discover(task)
        if self.query:
            arguments |= self._query.read(request)
        if self._body is not None:
            content = await read_body(request, self.service.settings, context.reserve_large)
            arguments["body"] = await self._body.read(content)
        if self._wants_request:
            arguments["request"] = request
        answer = await self.endpoint(**arguments)
        return answer if isinstance(answer, Response) else build_json_reply(answer, self.status)

    def _check_rights(self, principal: Principal, task: str | None) -> None:
        """Raise an error if the token does not allow this operation."""
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

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = {operation.method: operation for operation in operations}
        self._path = operations[0].path
        methods = {*self._operations} | ({"HEAD"} if "GET" in self._operations else set())
        self._allowed = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request to this path."""
        context: RequestContext = scope["onebit"]
        context.route = self._path
        operation = self._operations.get(scope["method"])
        if operation is None:
            message = f"method {scope['method']} is not allowed for this path; allowed: {self._allowed}"
            response: Response = build_error_reply(MethodNotAllowedError(message))
            response.headers["allow"] = self._allowed
        else:
            response = await operation.answer(scope, receive)
        context.status = response.status_code
        await response(scope, receive, send)
