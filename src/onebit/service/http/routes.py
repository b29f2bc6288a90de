"""The operations of the interface: who may use each, what it takes, and the function that answers.

The function's signature is the contract: the body is checked straight from its bytes against it, and `openapi` describes it. A path is a
`PathItem`, an ASGI application as Starlette's `Route` takes them, and has an operation for each of its methods.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, NamedTuple, get_type_hints

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onebit.service.core.plan import HeavyWork
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
from onebit.service.http.bodies import BodyReader, QueryReader, read_body
from onebit.service.http.replies import empty_reply, error_reply, json_reply
from onebit.service.http.request import RequestContext
from onebit.service.settings import Settings

# "nobody" needs no token at all; "anybody" needs a token, of any scope; "everything" is read for a token of all tasks.
Needs = Literal["nobody", "anybody", "decide", "feedback", "read", "admin", "everything"]
Endpoint = Callable[..., Awaitable[object]]


class _Text(StringConvertor):
    """Any text, to the end of the path: an id may have slashes and new lines."""

    regex = "(?s:.+)"


register_url_convertor("text", _Text())


class Parameter(NamedTuple):
    """A parameter of the path or of the query, as the signature of the endpoint has it."""

    kind: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Return True if it has no default."""
        return self.default is inspect.Parameter.empty


class Operation:
    """One method of one path."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        *,
        needs: Needs,
        tag: str,
        reply: Any = None,
        status: int = 200,
        refuses: Iterable[type[RequestError]] = (),
        settings: Settings,
        heavy_work: HeavyWork,
        hear_of: Callable[[str], Awaitable[None]],
        page: bool = False,
        content: str | None = None,
        also: dict[int, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.method = method
        self.pattern = path  # as Starlette's routes have it
        self.path = path.replace(":text", "")
        self.endpoint = endpoint
        self.needs: Needs = needs
        self.tag = tag  # the group in which it is described
        self.reply = reply  # the type of what is answered, where that is JSON
        self.status = status
        self.page = page  # for people: they are shown how to log in
        self.content = content  # the type of an answer that is no JSON
        self.also = also or {}  # the types of answers of other statuses
        self.headers = headers or {}  # of an answer that is no refusal, and what they say
        self._hear_of = hear_of
        self._max_body = settings.max_body
        self._patience_s = settings.request_timeout_s
        hints = get_type_hints(endpoint, include_extras=True)
        given = inspect.signature(endpoint).parameters
        found = {name: Parameter(hints[name], one.default) for name, one in given.items() if name in hints}
        self._wants_request = found.pop("request", None) is not None
        body = found.pop("body", None)
        self.body = None if body is None else body.kind
        self.in_path = {name: one for name, one in found.items() if f"{{{name}}}" in self.path}
        self.query = {name: one for name, one in found.items() if name not in self.in_path}
        self._body = None if body is None else BodyReader(self.body, settings, heavy_work)
        required = [name for name, one in self.query.items() if one.required]
        kinds = {name: one.kind for name, one in self.query.items()}
        self._query = QueryReader(kinds, required) if kinds else None
        self.errors: set[type[RequestError]] = set(refuses)
        if needs != "nobody":
            self.errors |= {UnauthorizedError, ForbiddenError, UnavailableError}
        if self.in_path:
            self.errors |= {NotFoundError}
        if self._body:
            self.errors |= {RequestError, RequestTimeoutError, TooLargeError, InvalidError}
        if self.query:
            self.errors |= {InvalidError}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        context: RequestContext = scope["onebit"]
        arguments: dict[str, Any] = scope["path_params"]
        task = arguments.get("task")
        self._check(context, task)
        if task is not None:
            await self._hear_of(task)
        if self._query is not None:
            arguments |= self._query.read(scope["query_string"])
        if self._body is not None:
            content = await read_body(scope, receive, self._max_body, self._patience_s, context.reserve_large)
            arguments["body"] = await self._body.read(content)
        if self._wants_request:
            arguments["request"] = Request(scope)
        answer = await self.endpoint(**arguments)
        response = answer if isinstance(answer, Response) else json_reply(answer, self.status)
        context.status = response.status_code
        await response(scope, receive, send)

    def _check(self, context: RequestContext, task: str | None) -> None:
        """Refuse a caller whose token does not allow this operation."""
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
                raise ForbiddenError("the token has not the scope read")
        elif self.needs != "anybody" and self.needs not in principal.scopes:
            raise ForbiddenError(f"the token has not the scope {self.needs}")


class PathItem:
    """A path, and its operations by method."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = {one.method: one for one in operations}
        self.path = next(iter(self.operations.values())).path
        methods = {*self.operations, "OPTIONS"} | ({"HEAD"} if "GET" in self.operations else set())
        self._allowed = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to this path."""
        context: RequestContext = scope["onebit"]
        context.route = self.path
        operation = self.operations.get(scope["method"])
        if operation is not None:
            await operation(scope, receive, send)
            return
        # Which methods there are is the answer to OPTIONS; any other is refused.
        header = [(b"allow", self._allowed.encode())]
        if scope["method"] == "OPTIONS":
            response: Response = empty_reply(header)
        else:
            sentence = f"this path is not for this method; it is for {self._allowed}"
            response = error_reply(MethodNotAllowedError(sentence), header)
        context.status = response.status_code
        await response(scope, receive, send)
