"""What browsers are given: pages, files, the login page, and the headers that keep them strict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from onebit.service.core.statistics import BOUNDS_S
from onebit.service.http.pages import PAGES
from tests.service.site import NEW, Site, error_in, site_in

SEEN = {"/": "dashboard", "/play/fruit": "play", "/play/anything": "play", "/docs": "docs"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service")) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        yield made


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service")) as made:
        made.tokens.create(["admin"])
        yield made


class Parts(HTMLParser):
    """What a page loads, and what stands in it that a strict browser would not run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.inline: list[str | None] = []  # the nonces of scripts in the page itself
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        source = given.get("src") if tag == "script" else given.get("href") if tag == "link" else None
        if tag == "script" and "src" not in given:
            self.inline.append(given.get("nonce"))
        if source and not source.startswith("data:"):
            self.loads.append(source)
        self.attributes += [name for name, _ in attrs if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("path", SEEN)
def test_a_page_and_all_that_it_loads(site: Site, path: str) -> None:
    answer = site.ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert '<link rel="icon" href="data:' in answer.text  # otherwise browsers ask for another file
    parts = Parts(answer.text)
    assert parts.loads
    assert parts.inline == []
    assert parts.attributes == []
    loads = list(parts.loads)
    seen = set()
    while loads:
        load = loads.pop()
        assert load.startswith("/assets/"), load  # and not of another machine
        if load in seen:
            continue
        seen.add(load)
        file = site.ask("GET", load)
        assert file.status_code == 200, load
        kind = {"js": "text/javascript", "css": "text/css"}[load.rpartition(".")[2]]
        assert file.headers["content-type"] == f"{kind}; charset=utf-8"
        imported = re.findall(r"""^(?:import|export)\b.*?from\s*["']([^"']+)["']""", file.text, re.MULTILINE)
        loads += [one.replace("./", "/assets/") if one.startswith("./") else one for one in imported]


def test_what_has_not_changed_is_not_sent_again(site: Site) -> None:
    for path in ("/", "/assets/style.css"):
        first = site.ask("GET", path)
        tag = first.headers["etag"]
        assert first.headers["cache-control"] == "private, no-cache"
        again = site.ask("GET", path, headers={"if-none-match": f'"other", W/{tag}'})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["etag"] == tag
        assert site.ask("GET", path, headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["__init__.py", "login.html", "dashboard.html", "README.md", "../tokens.py", "..%2ftokens.py", "style.css%00", ""],
)
def test_only_files_for_pages_are_files(site: Site, name: str) -> None:
    assert site.ask("GET", f"/assets/{name}").status_code == 404


@pytest.mark.parametrize("path", SEEN)
def test_whoever_is_not_known_may_log_in(closed: Site, path: str) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for headers in (browser, {**browser, "cookie": "onebit_token=nonsense"}):
        answer = closed.ask("GET", path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        assert "__NONCE__" not in answer.text
        parts = Parts(answer.text)
        assert parts.loads == []  # files are behind the gate
        assert len(parts.inline) == 1
        assert f"script-src 'nonce-{parts.inline[0]}'" in answer.headers["content-security-policy"]
    first, second = (Parts(closed.ask("GET", path, headers=browser).text).inline for _ in range(2))
    assert first != second
    token = closed.tokens.create(["read"])
    assert closed.ask("GET", path, headers={"cookie": f"onebit_token={token}"}).status_code == 200


def test_programs_are_not_shown_the_login_page(closed: Site) -> None:
    for method, path in (
        ("GET", "/v1/tasks"),
        ("GET", "/assets/style.css"),
        ("GET", "/"),
        ("POST", "/"),
        ("GET", "/play"),
    ):
        answer = closed.ask(method, path)
        assert answer.status_code == 401
        assert error_in(answer.content)["code"] == "unauthorized"


def test_every_page_is_there() -> None:
    assert set(SEEN.values()) | {"login"} == set(PAGES)


@pytest.mark.parametrize("path", ["/nothing", "/v2", "/play", "/docs/", "/v1/tasks/", "/assets/nothing.js"])
def test_an_address_at_which_nothing_is_answers_in_the_shape_of_errors(site: Site, path: str) -> None:
    for method in ("GET", "POST"):
        assert error_in(site.ask(method, path).content)["code"] in ("not_found", "method_not_allowed")


def after_some_requests(site: Site) -> httpx.Response:
    for number in range(3):
        site.ask("POST", "/v1/tasks/fruit/decide", json={"id": f"m{number}", "x": [1, 2, 3]})
    site.ask("POST", "/v1/tasks/fruit/feedback", json=[{"id": "m0", "right": True}, {"id": "m1", "right": False}])
    site.ask("POST", "/v1/tasks/fruit/decide", content="nonsense")
    site.ask("GET", "/nothing")
    for _ in range(200):
        if site.service.stats("fruit")["queue"] == 0:
            break
        site.ask("GET", "/healthz")
    return site.ask("GET", "/metrics")


def test_metrics(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        assert site.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        answer = after_some_requests(site)
        version = site.ask("GET", "/version").json()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    values = dict(re.findall(r"^(\w+(?:\{.*\})?) (\S+)$", answer.text, re.MULTILINE))
    assert float(values['onebit_decisions_total{task="fruit"}']) == 3
    assert float(values['onebit_feedback_total{status="accepted",task="fruit"}']) == 2
    assert float(values['onebit_feedback_total{status="late",task="fruit"}']) == 0
    assert float(values['onebit_right_total{task="fruit"}']) == 1
    assert float(values['onebit_right_ratio{task="fruit"}']) == 0.5
    assert float(values['onebit_mean_reward{task="fruit"}']) == 0.5
    assert float(values['onebit_truths_total{task="fruit"}']) == 0
    assert (
        float(values['onebit_asked_sure_total{task="fruit"}']) == float(values['onebit_sure_total{task="fruit"}']) == 0
    )
    assert float(values['onebit_queue_events{task="fruit"}']) == 0
    assert float(values['onebit_refused_total{task="fruit"}']) == 0
    assert float(values["onebit_log_position"]) == 6  # the task, three decisions, two feedbacks
    assert float(values["onebit_commit_seconds_count"]) > 0
    assert float(values['onebit_snapshot_age_seconds{task="fruit"}']) >= 0  # since it is served: there is none yet
    assert float(values['onebit_snapshot_failures_total{task="fruit"}']) == 0
    assert float(values["onebit_ready"]) == 1
    bounds = [f'onebit_feedback_delay_seconds_bucket{{le="{float(bound)}",task="fruit"}}' for bound in BOUNDS_S]
    counts = [float(values[bound]) for bound in bounds]
    assert counts == sorted(counts)
    assert float(values['onebit_feedback_delay_seconds_bucket{le="+Inf",task="fruit"}']) == 2
    route = 'method="POST",route="/v1/tasks/{task}/decide"'
    assert float(values[f'onebit_request_seconds_count{{{route},status="200"}}']) == 3
    assert float(values[f'onebit_request_seconds_count{{{route},status="400"}}']) == 1
    assert float(values[f'onebit_request_seconds_bucket{{le="+Inf",{route},status="200"}}']) == 3
    assert float(values['onebit_request_seconds_count{method="GET",route="none",status="404"}']) == 1
    (about,) = [name for name in values if name.startswith("onebit_build_info")]
    assert dict(re.findall(r'(\w+)="([^"]*)"', about)) == version
    assert float(values[about]) == 1
    assert float(values["process_resident_memory_bytes"]) > 0
    assert "_created" not in answer.text


def test_what_operators_ask(site: Site) -> None:
    assert site.ask("GET", "/healthz").json() == {"status": "ok"}
    assert site.ask("GET", "/readyz").json() == {"ready": True, "reason": None, "quarantined": [], "warnings": []}
    assert set(site.ask("GET", "/version").json()) == {"version", "python", "numba", "numpy", "cpu"}
    learners = {one["name"]: one for one in site.ask("GET", "/v1/learners").json()["learners"]}
    assert "auto" in learners
    assert "perceptron" not in learners  # it is told the class
    assert learners["banditron"]["parameters"][0]["name"] == "exploration"
