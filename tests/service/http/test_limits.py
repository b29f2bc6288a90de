"""What one token, one stranger and one machine may take: large requests, connections, and lines of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from onebit.service.http.access import LARGE_AT_ONCE, RequestContext
from tests.service.site import NEW, answer_from, error_in, everything_from, process_in, site_in


def test_no_more_connections_than_may_be(tmp_path: Path) -> None:
    with process_in(tmp_path, "--max-connections", "2") as process:
        kept = [process.connect(), process.connect()]
        try:
            for one in kept:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert answer_from(one).startswith(b"HTTP/1.1 200")
            with process.connect() as third:
                head, _, content = everything_from(third).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503")
            assert b"\r\nretry-after: 1" in head
            assert "2 connections" in error_in(content)["message"]
            kept[0].sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = everything_from(kept[0]).decode()
            assert "onebit_connections 2.0" in text
            assert "onebit_connections_refused_total 1.0" in text
        finally:
            for one in kept:
                one.close()
        assert httpx.get(f"{process.url}/healthz").status_code == 200


def test_strangers_do_not_fill_the_log(tmp_path: Path) -> None:
    with process_in(tmp_path) as process:
        for _ in range(50):
            with process.connect() as connection:
                connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
                assert everything_from(connection).startswith(b"HTTP/1.1 400")
    assert not [event for event in process.events if "HTTP" in event["message"]]


def test_large_requests_of_one_token_wait_for_each_other() -> None:
    async def scenario() -> None:
        large_requests = asyncio.Semaphore(LARGE_AT_ONCE)
        contexts = [RequestContext("POST") for _ in range(LARGE_AT_ONCE + 1)]
        for context in contexts:
            context.large_requests = large_requests
        for context in contexts[:-1]:
            await context.reserve_large()
            await context.reserve_large()  # which it has
        last = asyncio.ensure_future(contexts[-1].reserve_large())
        await asyncio.sleep(0)
        assert not last.done()
        contexts[0].release_large()
        await last
        for context in contexts:
            context.release_large()
        assert not large_requests.locked()

    asyncio.run(scenario())


def test_a_token_hears_of_no_tasks_but_its_own(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        everything = site.tokens.create(["admin"])
        for name in ("fruit", "secret", "secrets"):
            assert site.ask("POST", "/v1/tasks", everything, json={**NEW, "name": name}).status_code == 201
        own = site.tokens.create(["admin"], ["fruit", "secre", "fruits"])
        for method, path in (
            ("GET", "/v1/tasks/secre"),
            ("GET", "/v1/tasks/secre/stats"),
            ("GET", "/v1/tasks/secre/decisions"),
            ("DELETE", "/v1/tasks/secre"),
            ("GET", "/v1/tasks/fruits"),
            ("GET", "/v1/tasks/secret"),
            ("GET", "/v1/tasks/nothing"),
            ("GET", "/v1/tasks"),
            ("GET", "/session"),
            ("GET", "/readyz"),
            ("GET", "/metrics"),
        ):
            answer = site.ask(method, path, own)
            assert "secret" not in answer.text, path
        assert "did you mean 'fruit'" in site.ask("GET", "/v1/tasks/fruits", own).text
        # Whether a task of others is there cannot be told.
        there, not_there = site.ask("GET", "/v1/tasks/secret", own), site.ask("GET", "/v1/tasks/nothing", own)
        assert (there.status_code, there.content) == (not_there.status_code, not_there.content)
        taken = site.ask("POST", "/v1/tasks", own, json={**NEW, "name": "secret"})
        free = site.ask("POST", "/v1/tasks", own, json={**NEW, "name": "nothing"})
        assert (taken.status_code, taken.content) == (free.status_code, free.content)
        assert "did you mean 'secret'" in site.ask("GET", "/v1/tasks/secre", everything).text


LONG = "a" * 20_000


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/v1/tasks/{LONG}", None),
        ("GET", f"/v1/tasks/fruit/decisions/{LONG}", None),
        ("GET", f"/v1/tasks/fruit/explanation?id={LONG}", None),
        ("GET", f"/v1/tasks/fruit/stats?{LONG}=1", None),
        ("GET", f"/v1/tasks/fruit/stats?window={LONG}", None),
        ("GET", f"/v1/tasks/fruit/stats?window={'1' * 20_000}", None),
        ("GET", f"/{LONG}", None),
        (LONG, "/v1/tasks", None),
        ("POST", "/v1/tasks/fruit/decide", {"x": [1, 2, LONG]}),
        ("POST", "/v1/tasks/fruit/decide", {"x": [1, 2, 3], LONG: 1}),
        ("POST", "/v1/tasks/fruit/decide", {"x": {LONG: "a"}}),
        ("POST", "/v1/tasks/fruit/decide", {"x": [1, 2, 3], "id": LONG}),
        ("POST", "/v1/tasks/fruit/feedback", {"id": "a", "right": True, "shown": LONG}),
        ("POST", "/v1/tasks", {**NEW, "name": LONG}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "learner": LONG}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "items": LONG}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "mode": LONG}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "classes": ["a", LONG]}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "features": {"kind": LONG}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {LONG: 1}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {"exploration": LONG}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {"exploration": [LONG]}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {"dtype": LONG}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {"kernel": LONG, "max_support": 5}}),
        ("POST", "/v1/tasks", {**NEW, "name": "b", "parameters": {"kernel": "rbf", "max_support": LONG}}),
        ("POST", "/v1/tasks/fruit/learner", {"learner": "banditron", "parameters": {"exploration": LONG}}),
        ("PATCH", "/v1/tasks/fruit", {"add_classes": [LONG]}),
        ("PATCH", "/v1/tasks/fruit", {"silence": LONG}),
    ],
)  # fmt: skip
def test_no_error_gives_back_much_of_what_was_sent(tmp_path: Path, method: str, path: str, body: object) -> None:
    with site_in(tmp_path) as site:
        assert site.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        answer = site.ask(method, path, json=body)
    error = error_in(answer.content)
    assert answer.status_code in (400, 404, 405, 422)
    assert error["message"].count("a") < 400
    assert len(error["message"]) <= 600
    assert len(error["field"] or "") <= 210
