"""The middleware around all routes: metrics, and error replies."""

from __future__ import annotations

import asyncio
import logging
import secrets
from time import perf_counter

from prometheus_client import Histogram
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from onebit.service.errors import UNKNOWN, NoMemoryError, RequestError, UnfinishedError, UnknownTaskError
from onebit.service.http.access import RequestContext
from onebit.service.http.guard import LARGEST_HEAD, HeadTooLargeError
from onebit.service.http.responses import error_reply

LOG = logging.getLogger("onebit.service")

ENDING = f"the service ended, and {UNKNOWN}"
LEFT = 499  # status, in metrics only, of a request whose client disconnected


class InternalError(RequestError):
    """An internal error of the service."""

    status, code = 500, "internal"


class Middleware:
    """The one middleware around all routes."""

    def __init__(self, app: ASGIApp, request_seconds: Histogram) -> None:
        self._app = app
        self._request_seconds = request_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to its route, or reply with an error."""
        if scope["type"] != "http":  # lifespan events; there are no websockets
            await self._app(scope, receive, send)
            return
        context = RequestContext(scope["method"])
        # The server itself omits the body of a reply to HEAD.
        scope = {**scope, "onebit": context, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEAD:
                raise HeadTooLargeError(f"the head of the request is larger than {LARGEST_HEAD:,} bytes")
            await self._app(scope, receive, send)
        except ClientDisconnect:
            context.status = LEFT
        except (Exception, asyncio.CancelledError) as error:
            if context.status:  # the reply has been started, and cannot be replaced
                raise
            response = _answer(error, context)
            context.status = response.status_code
            await response(scope, receive, send)
        finally:
            context.release_large()
            duration = self._request_seconds.labels(context.method, context.route, context.status)
            duration.observe(perf_counter() - context.started)


def _answer(error: BaseException, context: RequestContext) -> Response:
    if isinstance(error, asyncio.CancelledError):  # the time for pending requests at shutdown is over
        return error_reply(UnfinishedError(ENDING))
    if isinstance(error, UnknownTaskError) and context.principal is not None:
        return error_reply(error.seen(context.principal.sees))
    if isinstance(error, RequestError):
        return error_reply(error)
    if isinstance(error, MemoryError):
        LOG.error(f"there is not enough memory for a request: {error}", extra={"event": "no-memory"})
        return error_reply(
            NoMemoryError(
                "there is not enough memory for this request now: send less at a time, or again later, with the same id"
            )
        )
    number = secrets.token_hex(8)
    about = {"event": "request-failed", "request": number, "method": context.method, "route": context.route}
    LOG.error(f"request {number} failed", exc_info=error, extra=about)
    return error_reply(InternalError(f"internal error; the log has more under request {number}"))
