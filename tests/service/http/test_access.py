"""Who is let in: every route of the application is tried with every kind of token, so that a new route cannot be forgotten."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebit.service.http.app import App
from onebit.service.http.routes import Operation
from onebit.service.tokens import SCOPES
from tests.service.site import NEW, Site, error_in, site_in

# What the interface promises. "any" is any token, "all" is read for all tasks, None is nobody's business.
NEEDS = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): "any",
    ("GET", "/version"): "any",
    ("GET", "/metrics"): "all",
    ("POST", "/session"): "any",
    ("GET", "/session"): "any",
    ("DELETE", "/session"): "any",
    ("GET", "/v1/learners"): "any",
    ("POST", "/v1/tasks"): "admin",
    ("GET", "/v1/tasks"): "any",
    ("GET", "/v1/tasks/{task}"): "any",
    ("PATCH", "/v1/tasks/{task}"): "admin",
    ("DELETE", "/v1/tasks/{task}"): "admin",
    ("POST", "/v1/tasks/{task}/decide"): "decide",
    ("POST", "/v1/tasks/{task}/feedback"): "feedback",
    ("POST", "/v1/tasks/{task}/forget"): "admin",
    ("POST", "/v1/tasks/{task}/learner"): "admin",
    ("GET", "/v1/tasks/{task}/stats"): "read",
    ("GET", "/v1/tasks/{task}/decisions"): "read",
    ("GET", "/v1/tasks/{task}/decisions/{id}"): "read",
    ("GET", "/v1/tasks/{task}/explanation"): "read",
    ("GET", "/v1/tasks/{task}/item"): "decide",
    ("GET", "/"): "any",
    ("GET", "/play/{task}"): "any",
    ("GET", "/docs"): "any",
    ("GET", "/assets/{name}"): "any",
    ("GET", "/openapi.json"): "any",
}
IN = range(200, 300)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with tokens and a task."""
    with site_in(tmp_path_factory.mktemp("service")) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        made.tokens.create(["admin"])
        yield made


def routes(app: App) -> list[tuple[str, str]]:
    return [(one.method, one.path) for one in app.operations]


def filled(path: str) -> str:
    return path.replace("{task}", "fruit").replace("{id}", "a").replace("{name}", "style.css")


def test_the_table_of_this_test_is_complete(site: Site) -> None:
    assert sorted(routes(site.app)) == sorted(NEEDS)


@pytest.mark.parametrize(("method", "path"), NEEDS)
def test_nobody_gets_in_without_a_good_token(site: Site, method: str, path: str) -> None:
    revoked = site.tokens.create(["admin"])
    site.tokens.revoke(revoked)
    good = site.tokens.create(["admin"])
    for token in (None, "", "nonsense", revoked, good[:-1], f"{good} {good}"):
        answer = site.ask(method, filled(path), token)
        if NEEDS[method, path] is None:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
    for header in (f"Basic {good}", good, f"Bearer{good}"):
        answer = site.ask(method, filled(path), headers={"authorization": header})
        assert answer.status_code == (200 if NEEDS[method, path] is None else 401)


@pytest.mark.parametrize(("method", "path"), NEEDS)
def test_a_scope_opens_what_it_is_for_and_nothing_else(site: Site, method: str, path: str) -> None:
    needed = NEEDS[method, path]
    for scope in SCOPES:
        if method == "DELETE" and scope == "admin":
            continue  # it would be done
        answer = site.ask(method, filled(path), site.tokens.create([scope]))
        allowed = needed in (None, "any") or scope in ("admin", "read" if needed == "all" else needed)
        assert (answer.status_code == 403) == (not allowed), (scope, answer.text)
        assert answer.status_code != 401
        if not allowed:
            assert f"scope '{'read' if needed == 'all' else needed}'" in error_in(answer.content)["message"]


@pytest.mark.parametrize(("method", "path"), NEEDS)
def test_a_token_of_another_task_opens_nothing_of_this_one(site: Site, method: str, path: str) -> None:
    token = site.tokens.create(["admin"], ["vegetables"])
    answer = site.ask(method, filled(path), token, json=NEW if path == "/v1/tasks" and method == "POST" else None)
    if "{task}" in path or NEEDS[method, path] == "all" or (method, path) == ("POST", "/v1/tasks"):
        assert answer.status_code == 403
        assert "task" in error_in(answer.content)["message"]
    else:
        assert answer.status_code in IN
    if path == "/v1/tasks" and method == "GET":
        assert answer.json() == {"tasks": [], "quarantined": []}


def test_a_token_of_a_task_opens_that_task(site: Site) -> None:
    token = site.tokens.create(["decide", "read"], ["fruit", "vegetables"])
    assert [task["name"] for task in site.ask("GET", "/v1/tasks", token).json()["tasks"]] == ["fruit"]
    assert site.ask("POST", "/v1/tasks/fruit/decide", token, json={"x": [1, 2, 3]}).status_code == 200
    assert site.ask("GET", "/v1/tasks/fruit/stats", token).json()["task"] == "fruit"
    assert site.ask("GET", "/session", token).json() == {
        "scopes": ["decide", "read"],
        "tasks": ["fruit", "vegetables"],
        "open": False,
    }


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/tasks/", "/healthz/", "/healthz/../v1/tasks", "//healthz", "/docs/"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "BREW"])
def test_unknown_paths_and_methods_are_for_nobody_either(site: Site, method: str, path: str) -> None:
    assert site.ask(method, path).status_code == 401


@pytest.mark.parametrize(("method", "path"), NEEDS)
def test_other_methods_need_a_token_too(site: Site, method: str, path: str) -> None:
    if NEEDS[method, path] is not None:
        for other in ("HEAD", "OPTIONS", "PUT", "TRACE"):
            assert site.ask(other, filled(path)).status_code == 401


def test_an_operation_that_does_not_say_who_may_use_it_cannot_be_made(site: Site) -> None:
    async def secrets() -> str:
        return "all of them"

    with pytest.raises(TypeError, match="needs"):
        Operation("GET", "/secrets", secrets, site.service)  # type: ignore[call-arg]


def test_revoking_works_at_once(site: Site) -> None:
    token = site.tokens.create(["read"])
    assert site.ask("GET", "/v1/tasks", token).status_code == 200
    site.tokens.revoke(token)
    assert site.ask("GET", "/v1/tasks", token).status_code == 401


def test_a_file_of_tokens_that_cannot_be_read_is_told_of_and_locks_nobody_out(site: Site) -> None:
    token = site.tokens.create(["admin"])
    assert site.ask("GET", "/readyz", token).json()["warnings"] == []
    whole = site.tokens.path.read_bytes()
    site.tokens.path.write_bytes(b"{")
    try:
        assert site.ask("GET", "/v1/tasks").status_code == 401
        assert site.ask("GET", "/v1/tasks", token).status_code == 200
        ready = site.ask("GET", "/readyz", token)
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert "later revocations are not seen" in ready.json()["warnings"][0]
        assert str(site.tokens.path) not in ready.text
        assert "onebit_warnings 1.0" in site.ask("GET", "/metrics", token).text
    finally:
        site.tokens.path.write_bytes(whole)
    assert site.ask("GET", "/readyz", token).json()["warnings"] == []
    assert "onebit_warnings 0.0" in site.ask("GET", "/metrics", token).text


def test_a_file_of_tokens_that_is_gone_closes_the_service(site: Site) -> None:
    token = site.tokens.create(["admin"])
    whole = site.tokens.path.read_bytes()
    assert site.ask("GET", "/v1/tasks", token).status_code == 200
    site.tokens.path.unlink()
    try:
        for sent in (token, None):
            answer = site.ask("GET", "/v1/tasks", sent)
            assert answer.status_code == 503
            assert "missing" in error_in(answer.content)["message"]
            assert str(site.tokens.path) not in answer.text
        assert site.ask("GET", "/healthz").status_code == 200
    finally:
        site.tokens.path.write_bytes(whole)
    assert site.ask("GET", "/v1/tasks", token).status_code == 200


def test_a_token_expires_for_programs_and_for_browsers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    token = site.tokens.create(["read"], expires=time.time() + 3600.0)
    answer = site.ask("POST", "/session", token)
    age = re.search(r"Max-Age=(\d+)", answer.headers["set-cookie"])
    assert age
    assert 3000 < int(age[1]) <= 3600
    cookie = {"cookie": f"onebit_token={token}"}
    assert site.ask("GET", "/v1/tasks", headers=cookie).status_code == 200
    real = time.time
    monkeypatch.setattr("onebit.service.tokens.time.time", lambda: real() + 3600.0)
    for sent, headers in ((token, {}), (None, cookie)):
        answer = site.ask("GET", "/v1/tasks", sent, headers=headers)
        assert answer.status_code == 401
        assert "the token expired at" in error_in(answer.content)["message"]


def test_the_cookie(site: Site) -> None:
    token = site.tokens.create(["admin"])
    answer = site.ask("POST", "/session", token)
    assert answer.status_code == 204
    assert answer.content == b""
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(rf"onebit_token={token}; HttpOnly; Max-Age=\d+; Path=/; SameSite=strict", cookie)
    assert "; Secure" in site.ask("POST", "/session", token, base="https://localhost").headers["set-cookie"]
    behind = site.ask("POST", "/session", token, headers={"x-forwarded-proto": "https"})
    assert "; Secure" in behind.headers["set-cookie"]
    headers = {"cookie": f"theme=dark; onebit_token={token}; a=b"}
    assert site.ask("GET", "/session", headers=headers).json()["scopes"] == list(SCOPES)
    assert site.ask("GET", "/session", headers={"cookie": "onebit_token=nonsense"}).status_code == 401
    assert site.ask("GET", "/session", headers={"cookie": f"not_onebit_token={token}"}).status_code == 401
    assert site.ask("GET", "/session", "nonsense", headers=headers).status_code == 401  # what is said outright counts
    left = site.ask("DELETE", "/session", headers=headers)
    assert left.status_code == 204
    assert "Max-Age=0" in left.headers["set-cookie"]


def test_a_page_of_another_site_cannot_use_the_cookie(site: Site) -> None:
    token = site.tokens.create(["decide"])
    x, cookie = {"x": [1, 2, 3]}, {"cookie": f"onebit_token={token}"}
    path = "/v1/tasks/fruit/decide"
    assert site.ask("POST", path, headers=cookie, json=x).status_code == 200
    for origin, status in {
        "http://localhost:8000": 200,
        "https://localhost:8000": 200,  # a proxy speaks TLS
        "http://localhost:9000": 403,
        "http://localhost": 403,
        "https://evil.example": 403,
        "https://localhost:8000.evil.example": 403,
        "null": 403,
    }.items():
        answer = site.ask("POST", path, headers={**cookie, "origin": origin}, json=x)
        assert answer.status_code == status, origin
    # A program that sends the token itself is not led on by a browser.
    assert site.ask("POST", path, token, headers={"origin": "https://evil.example"}, json=x).status_code == 200


def test_a_service_without_tokens_is_for_this_machine_only(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        assert site.ask("GET", "/session").json() == {"scopes": list(SCOPES), "tasks": None, "open": True}
        for base in (
            "http://localhost:8000",
            "http://LOCALHOST",
            "http://127.0.0.1:1",
            "http://[::1]:8000",
            "http://[::1]",
        ):
            assert site.ask("GET", "/v1/tasks", base=base).status_code == 200, base
        for base in (
            *("http://evil.example:8000", "http://localhost.evil.example", "http://192.168.1.2:8000"),
            *("http://evil.example", "http://[::2]:8000"),
        ):
            answer = site.ask("GET", "/v1/tasks", base=base)
            assert answer.status_code == 403, base
            assert "localhost" in error_in(answer.content)["message"]
        assert site.ask("POST", "/v1/tasks", json=NEW, headers={"origin": "https://evil.example"}).status_code == 403
        assert site.ask("POST", "/v1/tasks", json=NEW, headers={"origin": "http://localhost:8000"}).status_code == 201
        assert "set-cookie" not in site.ask("POST", "/session").headers  # there is no token to keep
        token = site.tokens.create(["read"])
        assert site.ask("GET", "/v1/tasks").status_code == 401
        assert site.ask("GET", "/v1/tasks", token, base="http://anywhere.example").status_code == 200
