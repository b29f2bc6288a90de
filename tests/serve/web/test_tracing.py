"""Traces: a span for each request where OpenTelemetry is configured, and nothing where it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

trace = pytest.importorskip("opentelemetry.trace", reason="opentelemetry is not here")
sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK of opentelemetry is not here")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

from onebit.serve.web.tracing import tracing  # noqa: E402
from tests.serve.site import NEW, site_in  # noqa: E402

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def test_a_request_is_a_span_below_its_caller(tmp_path: Path, spans: Any) -> None:
    with site_in(tmp_path) as site:
        site.ask("POST", "/v1/tasks", json=NEW)
        spans.clear()
        body = {"id": "secret", "x": [1, 2, 3]}
        site.ask("POST", "/v1/tasks/fruit/decide", json=body, headers={"traceparent": PARENT})
        site.ask("GET", "/nothing")
    decide, nothing = spans.get_finished_spans()
    assert (decide.name, decide.kind) == ("POST /v1/tasks/{task}/decide", trace.SpanKind.SERVER)
    assert f"{decide.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{decide.parent.span_id:016x}" == PARENT.split("-")[2]
    assert dict(decide.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/tasks/{task}/decide",
        "http.response.status_code": 200,
    }
    assert (nothing.name, nothing.attributes["http.response.status_code"], nothing.parent) == ("GET none", 404, None)
    assert nothing.status.is_unset


def test_a_fault_of_the_service_is_an_error(tmp_path: Path, spans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with site_in(tmp_path) as site:
        monkeypatch.setattr(site.service, "tasks", lambda: 1 / 0)
        assert site.ask("GET", "/v1/tasks").status_code == 500
    assert spans.get_finished_spans()[-1].status.status_code is trace.StatusCode.ERROR


def test_what_is_not_configured_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracing() is None
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert tracing() is None
