"""A route: who may use it, what it takes, and the function that answers. The function's signature is the contract.

FastAPI reads the signature for the OpenAPI page. The request itself takes a shorter way than FastAPI's: the body is checked straight from
its bytes, and there is nothing to inject, which makes a decision twice as quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, get_type_hints

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.types import Receive, Scope, Send

from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import (
    ForbiddenError,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    RequestError,
    RequestTimeoutError,
    TooLargeError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from onebit.serve.schemas import ErrorReply
from onebit.serve.settings import Settings
from onebit.serve.web.bodies import BodyReader, QueryReader, read_body
from onebit.serve.web.replies import empty_reply, error_reply, json_reply
from onebit.serve.web.request import COOKIE, RequestContext

# "nobody" needs no token at all; "anybody" needs a token, of any scope; "everything" is read for a token of all tasks.
Needs = Literal["nobody", "anybody", "decide", "feedback", "read", "admin", "everything"]
Endpoint = Callable[..., Awaitable[object]]

_SCHEMES = [
    Depends(HTTPBearer(auto_error=False, scheme_name="token", description="A token of `onebit token create`")),
    Depends(APIKeyCookie(name=COOKIE, auto_error=False, scheme_name="cookie", description="Set by POST /session")),
]


class _Text(StringConvertor):
    """Any text, to the end of the path: an id may have slashes and new lines."""

    regex = "(?s:.+)"


register_url_convertor("text", _Text())


class GuardedRoute(APIRoute):
    """A route that says who may use it."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        *,
        needs: Needs,
        reply: Any = None,
        status: int = 200,
        refuses: Iterable[type[RequestError]] = (),
        settings: Settings,
        heavy_work: CooperativeLock,
        page: bool = False,
        content: str | None = None,
        also: dict[int, Any] | None = None,
    ) -> None:
        self.needs: Needs = needs
        self.page = page  # for people: they are shown how to log in
        self._max_body = settings.max_body
        hints = get_type_hints(endpoint, include_extras=True)
        given = inspect.signature(endpoint).parameters
        in_path = path.replace(":text", "")
        query = {
            name: hints[name] for name in given if name not in ("request", "body") and f"{{{name}}}" not in in_path
        }
        self._wants_request = "request" in given
        self._body = BodyReader(get_type_hints(endpoint)["body"], settings, heavy_work) if "body" in given else None
        required = [name for name in query if given[name].default is inspect.Parameter.empty]
        self._query = QueryReader(query, required) if query else None
        kinds: set[type[RequestError]] = set(refuses)
        if needs != "nobody":
            kinds |= {UnauthorizedError, ForbiddenError, TooManyRequestsError, UnavailableError}
        if "{" in path:
            kinds |= {NotFoundError}
        if self._body:
            kinds |= {RequestError, RequestTimeoutError, TooLargeError, InvalidError}
        if query:
            kinds |= {InvalidError}
        super().__init__(
            path,
            endpoint,
            methods=[method],
            response_model=reply,
            response_class=JSONResponse if reply else Response,  # what is not JSON is not said to be
            status_code=status,
            dependencies=[] if needs == "nobody" else _SCHEMES,
            responses={
                "default": {"model": ErrorReply, "description": "Whatever else goes wrong"},
                **({status: {"content": {content: {}}}} if content else {}),
                **{
                    kind.status: {"model": ErrorReply, "description": _first_line(kind)}
                    for kind in sorted(kinds, key=lambda kind: kind.status)
                },
                **{other: {"model": model} for other, model in (also or {}).items()},
            },
            openapi_extra={"x-scope": needs},
        )

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to this path."""
        context: RequestContext = scope["onebit"]
        context.route = self.path_format
        if scope["method"] not in (self.methods or ()):
            await self._other_method(scope, receive, send)
            return
        arguments: dict[str, Any] = scope["path_params"]
        self._check(context, arguments.get("task"))
        if self._query is not None:
            arguments |= self._query.read(scope["query_string"])
        if self._body is not None:
            content = await read_body(scope, receive, self._max_body, context.make_room)
            arguments["body"] = await self._body.read(content)
        if self._wants_request:
            arguments["request"] = Request(scope)
        answer = await self.endpoint(**arguments)
        response = answer if isinstance(answer, Response) else json_reply(answer, self.status_code or 200)
        context.status = response.status_code
        await response(scope, receive, send)

    def _check(self, context: RequestContext, task: str | None) -> None:
        """Whether who asks may."""
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

    async def _other_method(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Say which methods there are: that is the answer to OPTIONS, and a refusal of any other."""
        routes = [route for route in scope["router"].routes if route.path_regex.match(scope["path"])]
        methods = {method for route in routes for method in route.methods} | {"OPTIONS"}
        allowed = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
        header = [(b"allow", allowed.encode())]
        if scope["method"] == "OPTIONS":
            response: Response = empty_reply(header)
        else:
            response = error_reply(
                MethodNotAllowedError(f"this path is not for this method; it is for {allowed}"), header
            )
        scope["onebit"].status = response.status_code
        await response(scope, receive, send)


def _first_line(kind: type[RequestError]) -> str:
    return (kind.__doc__ or "").split("\n")[0]
