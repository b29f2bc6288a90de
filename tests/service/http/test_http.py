"""What programs that know HTTP expect: what is not kept, the place of what was created, times as texts, pages of other sites."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from onebit.cli.serve import parse_origin
from tests.service.site import NEW, Site, error_in, site_in

READ = [
    "/v1/tasks",
    "/v1/tasks/fruit",
    "/v1/tasks/fruit/stats",
    "/v1/learners",
    "/version",
    "/openapi.json",
    "/v1/tasks/fruit/decisions",
    "/v1/tasks/fruit/decisions/a",
]
FRIEND = "https://app.example.org"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service")) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        assert made.ask("POST", "/v1/tasks/fruit/decide", json={"id": "a", "x": [1, 2, 3]}).status_code == 200
        while made.service.stats("fruit")["queue"]:
            made.ask("GET", "/healthz")
        yield made


@pytest.mark.parametrize("path", READ)
def test_answers_are_not_kept(site: Site, path: str) -> None:
    assert site.ask("GET", path).headers["cache-control"] == "no-store"


def test_where_the_new_task_is(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        answer = site.ask("POST", "/v1/tasks", json=NEW)
        assert answer.status_code == 201
        assert site.ask("GET", answer.headers["location"]).json()["name"] == "fruit"


# --- pages of other sites ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """A service that pages of one other site may use, and a token."""
    with site_in(tmp_path_factory.mktemp("service"), cors_origin=(FRIEND,)) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        yield made, made.tokens.create(["admin"])


def asking(origin: str) -> dict[str, str]:
    return {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type",
    }


def test_no_other_site_may_unless_named(site: Site) -> None:
    for headers in ({"origin": FRIEND}, asking(FRIEND)):
        answer = site.ask("OPTIONS" if len(headers) > 1 else "GET", "/v1/tasks", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_site_that_is_named_may(shared: tuple[Site, str]) -> None:
    site, token = shared
    before = site.ask("OPTIONS", "/v1/tasks/fruit/decide", headers=asking(FRIEND))
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == FRIEND
    assert "authorization" in before.headers["access-control-allow-headers"]
    answer = site.ask("POST", "/v1/tasks/fruit/decide", token, json={"x": [1, 2, 3]}, headers={"origin": FRIEND})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, FRIEND)
    assert "origin" in answer.headers["vary"].lower()
    assert "location" in answer.headers["access-control-expose-headers"]
    read = site.ask("GET", "/v1/tasks", token, headers={"origin": FRIEND})
    assert (read.headers["vary"].lower(), read.headers["cache-control"]) == ("origin", "no-store")


def test_its_refusals_can_be_read_too(shared: tuple[Site, str]) -> None:
    site, token = shared
    for given, status in ((None, 401), (token, 422)):
        body = {"x": "text"}
        answer = site.ask("POST", "/v1/tasks/fruit/decide", given, json=body, headers={"origin": FRIEND})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, FRIEND)


@pytest.mark.parametrize("other", ["https://app.example.org.evil.example", "http://app.example.org", "null"])
def test_others_still_may_not(shared: tuple[Site, str], other: str) -> None:
    site, token = shared
    before = site.ask("OPTIONS", "/v1/tasks/fruit/decide", headers=asking(other))
    assert before.status_code == 400
    assert "access-control-allow-origin" not in before.headers
    answer = site.ask("GET", "/v1/tasks", token, headers={"origin": other})
    assert "access-control-allow-origin" not in answer.headers


def test_a_cookie_is_nothing_to_other_sites(shared: tuple[Site, str]) -> None:
    site, token = shared
    headers = {"origin": FRIEND, "cookie": f"onebit_token={token}"}
    answer = site.ask("POST", "/v1/tasks/fruit/decide", json={"x": [1, 2, 3]}, headers=headers)
    assert (answer.status_code, error_in(answer.content)["code"]) == (403, "forbidden")
    assert "access-control-allow-credentials" not in answer.headers


def test_without_tokens_the_named_site_may_and_others_may_not(tmp_path: Path) -> None:
    with site_in(tmp_path, cors_origin=(FRIEND,)) as site:
        assert site.ask("POST", "/v1/tasks", json=NEW, headers={"origin": FRIEND}).status_code == 201
        assert site.ask("POST", "/v1/tasks", json=NEW, headers={"origin": "https://evil.example"}).status_code == 403


def test_origins_are_as_browsers_send_them() -> None:
    assert parse_origin("https://App.example.org/") == "https://app.example.org"
    assert parse_origin("https://app.example.org:443") == "https://app.example.org"
    assert parse_origin("http://localhost:3000") == "http://localhost:3000"
    assert parse_origin("http://[::1]:3000") == "http://[::1]:3000"


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "app.example.org",
        "https://",
        "https://a/b",
        "https://u@a",
        "ftp://a",
        "https://a?b",
        "https://a:b",
        "",
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not the origin of a page"):
        parse_origin(text)
