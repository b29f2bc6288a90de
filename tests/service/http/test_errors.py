"""One shape for all errors, whatever goes wrong, and nothing in it that is not for everybody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from onebit.service.errors import UnavailableError
from tests.service.site import NEW, Site, error_in, site_in

DECIDE = "/v1/tasks/fruit/decide"
FEEDBACK = "/v1/tasks/fruit/feedback"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service"), max_body=10_000, max_batch=5) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        assert made.ask("POST", DECIDE, json={"id": "a", "x": [1, 2, 3]}).status_code == 200
        assert made.ask("POST", FEEDBACK, json={"id": "a", "right": True}).status_code == 200
        yield made


FAILURES: dict[str, tuple[int, str, str | None, tuple[Any, ...], dict[str, Any]]] = {
    "not JSON": (400, "bad_request", None, ("POST", DECIDE), {"content": "x=1"}),
    "no body": (400, "bad_request", None, ("POST", DECIDE), {}),
    "white body": (400, "bad_request", None, ("POST", DECIDE), {"content": " \n"}),
    "not an object": (400, "bad_request", None, ("POST", DECIDE), {"json": 5}),
    "a list where one is meant": (400, "bad_request", None, ("POST", "/v1/tasks"), {"json": [NEW]}),
    "a page of another site": (403, "forbidden", None, ("POST", DECIDE), {"headers": {"origin": "https://a.example"}}),
    "unknown path": (404, "not_found", None, ("GET", "/v2"), {}),
    "unknown task": (404, "not_found", None, ("GET", "/v1/tasks/fuit"), {}),
    "unknown decision": (404, "not_found", None, ("GET", "/v1/tasks/fruit/decisions/b"), {}),
    "unknown explanation": (404, "not_found", None, ("GET", "/v1/tasks/fruit/explanation?id=b"), {}),
    "unknown feedback": (404, "not_found", "id", ("POST", FEEDBACK), {"json": {"id": "b", "right": True}}),
    "unknown file": (404, "not_found", None, ("GET", "/assets/nothing.js"), {}),
    "wrong method": (405, "method_not_allowed", None, ("PUT", DECIDE), {}),
    "name taken": (409, "conflict", "name", ("POST", "/v1/tasks"), {"json": NEW}),
    "other x": (409, "conflict", "id", ("POST", DECIDE), {"json": {"id": "a", "x": [3, 2, 1]}}),
    "other answer": (409, "conflict", "right", ("POST", FEEDBACK), {"json": {"id": "a", "right": False}}),
    "too large": (413, "too_large", None, ("POST", DECIDE), {"json": {"x": "a" * 10_000}}),
    "too many": (413, "too_large", None, ("POST", DECIDE), {"json": [{"x": [1, 2, 3]}] * 6}),
    "wrong type": (422, "invalid", "x[1]", ("POST", DECIDE), {"json": {"x": [1, "a", 3]}}),
    "wrong size": (422, "invalid", "x", ("POST", DECIDE), {"json": {"x": [1, 2]}}),
    "wrong in a list": (422, "invalid", "[1].x", ("POST", DECIDE), {"json": [{"x": [1, 2, 3]}, {"x": [1, 2]}]}),
    "wrong query": (422, "invalid", "window", ("GET", "/v1/tasks/fruit/stats?window=no"), {}),
    "unknown query": (422, "invalid", "windw", ("GET", "/v1/tasks/fruit/stats?windw=5"), {}),
    "no id to explain": (422, "invalid", "id", ("GET", "/v1/tasks/fruit/explanation"), {}),
    "empty id to explain": (422, "invalid", "id", ("GET", "/v1/tasks/fruit/explanation?id="), {}),
    "no parts": (422, "invalid", "top", ("GET", "/v1/tasks/fruit/explanation?id=a&top=0"), {}),
    "missing query": (422, "invalid", "number", ("GET", "/v1/tasks/fruit/item"), {}),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_shape(site: Site, failure: str) -> None:
    status, code, field, asked, more = FAILURES[failure]
    answer = site.ask(*asked, **more)
    assert answer.status_code == status, answer.text
    error = error_in(answer.content)
    assert (error["code"], error["field"]) == (code, field), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "\n" not in error["message"]


def test_a_typing_error_in_a_name_is_met_with_the_name(site: Site) -> None:
    message = error_in(site.ask("GET", "/v1/tasks/fuit").content)["message"]
    assert "did you mean 'fruit'" in message


def test_a_wrong_method_is_told_the_right_ones(site: Site) -> None:
    answer = site.ask("PUT", "/v1/tasks")
    assert answer.headers["allow"] == "GET, HEAD, POST"
    options = site.ask("OPTIONS", "/v1/tasks/fruit")
    assert options.status_code == 405
    assert options.headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert not any(name.startswith("access-control") for name in options.headers)
    head = site.ask("HEAD", "/v1/tasks/fruit/stats")
    assert head.status_code == 200
    assert head.content == b""
    assert int(head.headers["content-length"]) > 0
    assert site.ask("HEAD", DECIDE).status_code == 405


def test_a_fault_tells_nothing_but_where_the_log_has_more(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr(site.service, "summary", broken)
    with caplog.at_level(logging.ERROR, "onebit.service"):
        answer = site.ask("GET", "/v1/tasks/fruit/stats")
    assert answer.status_code == 500
    error = error_in(answer.content)
    assert error["code"] == "internal"
    assert "secret" not in answer.text
    assert "Zero" not in answer.text
    record = caplog.records[0]
    assert record.__dict__["request"] in error["message"]
    assert record.__dict__["route"] == "/v1/tasks/{task}/stats"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_what_is_not_possible_now_may_be_tried_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*arguments: object, **more: object) -> None:
        raise UnavailableError("the disk is full")

    monkeypatch.setattr(site.service, "decide", full)
    answer = site.ask("POST", DECIDE, json={"x": [1, 2, 3]})
    assert answer.status_code == 503
    assert error_in(answer.content) == {"code": "unavailable", "message": "the disk is full", "field": None}
    assert int(answer.headers["retry-after"]) > 0
    monkeypatch.setattr(type(site.service), "failing", "the disk is full")
    ready = site.ask("GET", "/readyz")
    assert ready.status_code == 503
    assert ready.json() == {"ready": False, "reason": "the disk is full", "quarantined": [], "warnings": []}


def test_what_is_cut_off_at_the_end_is_told_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def for_ever(*arguments: object, **more: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def cut_off() -> httpx.Response:
        monkeypatch.setattr(site.service, "decide", for_ever)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(site.app), base_url="http://localhost") as client:
            asking = asyncio.create_task(client.post(DECIDE, json={"x": [1, 2, 3]}))
            await begun.wait()
            asking.cancel()
            return await asking

    answer = asyncio.run(cut_off())
    assert answer.status_code == 504, "after a 503 nothing was done"
    error = error_in(answer.content)
    assert error["code"] == "unfinished"
    assert "it is unknown whether this was done: send it again with the same id" in error["message"]


TRICKS = [
    "..",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%2e%2e%2f",
    "fruit%00",
    "fruit%0a",
    "fruit'%20OR%20'1'='1",
    "fruit%22;DROP%20TABLE%20decisions;--",
    "%ff%fe",
    "%F0%9F%8D%8E",
    "fruit/",
    "FRUIT",
    "{task}",
    "a" * 5000,
]


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/tasks/{}"),
        ("PATCH", "/v1/tasks/{}"),
        ("DELETE", "/v1/tasks/{}"),
        ("POST", "/v1/tasks/{}/decide"),
        ("POST", "/v1/tasks/{}/feedback"),
        ("GET", "/v1/tasks/{}/stats"),
        ("GET", "/v1/tasks/{}/decisions"),
        ("GET", "/v1/tasks/fruit/decisions/{}"),
        ("GET", "/assets/{}"),
    ],
)
def test_tricks_in_paths_find_nothing(site: Site, method: str, path: str, trick: str) -> None:
    bodies = {"decide": {"x": [1, 2, 3]}, "feedback": {"id": "a", "right": True}}
    body = next((value for name, value in bodies.items() if path.endswith(name)), {} if method == "PATCH" else None)
    answer = site.ask(method, path.format(trick), json=body)
    # httpx takes dots out of paths by itself, and what is left may be another path.
    assert answer.status_code in (404, 405) or ".." in trick or path == "/v1/tasks/fruit/decisions/{}"
    assert answer.status_code < 500
    if answer.status_code >= 400:
        error_in(answer.content)
    assert "root:" not in answer.text
    assert site.ask("GET", "/v1/tasks").json()["tasks"][0]["name"] == "fruit"


@pytest.mark.parametrize(
    "name", ["..", "../a", "a/b", "a b", "", "a\n", "a\0", "'; DROP TABLE decisions; --", "é", "a" * 101, 5, None]
)
def test_tricks_in_names_are_refused(site: Site, name: object) -> None:
    answer = site.ask("POST", "/v1/tasks", json={**NEW, "name": name})
    assert answer.status_code == 422
    assert error_in(answer.content)["field"] == "name"


@pytest.mark.parametrize("identity", ["' OR 1=1 --", "../../etc", "a/b", "ä\n", "💡", '"', "%2e", "a" * 200])
def test_an_id_may_be_any_text(site: Site, identity: str) -> None:
    from urllib.parse import quote

    first = site.ask("POST", DECIDE, json={"id": identity, "x": [1, 2, 3]})
    assert first.status_code == 200
    assert first.json()["id"] == identity
    assert site.ask("POST", DECIDE, json={"id": identity, "x": [1, 2, 3]}).json() == first.json()
    assert site.ask("POST", FEEDBACK, json={"id": identity, "right": False}).json()["status"] == "accepted"
    if ".." not in identity:  # httpx takes dots out of paths by itself
        found = site.ask("GET", f"/v1/tasks/fruit/decisions/{quote(identity, safe='')}")
        assert found.status_code == 200
        assert found.json()["id"] == identity
