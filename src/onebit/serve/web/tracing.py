"""Traces: a span for each request, where OpenTelemetry is installed and has been configured. Elsewhere there is nothing to pay for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.types import Scope

from onebit.serve.web.request import RequestContext
from onebit.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

FAULT = 500  # from this status on it is the service that failed


class Tracing:
    """Makes the spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, scope: Scope, context: RequestContext) -> Iterator[None]:
        """A span around a request, below that of the caller where its headers name one. Paths, ids and bodies are not in it."""
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind, StatusCode

        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parent = propagate.extract(sent)
        with self._tracer.start_as_current_span(context.method, context=parent, kind=SpanKind.SERVER) as span:
            try:
                yield
            finally:
                span.update_name(f"{context.method} {context.route}")
                span.set_attributes(
                    {
                        "http.request.method": context.method,
                        "http.route": context.route,
                        "http.response.status_code": context.status,
                    }
                )
                if context.status >= FAULT:
                    span.set_status(StatusCode.ERROR)


def tracing() -> Tracing | None:
    """What makes spans, where somebody has said where they go."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return None
    provider = trace.get_tracer_provider()
    configured = not isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider))
    return Tracing(provider.get_tracer("onebit", VERSION)) if configured else None
