"""Every route with every kind of learner and of x: no reply is a fault of the service, and each is what the OpenAPI document says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest

from tests.service.site import Site, site_in

CLASSES = ["a", "b", 3]
FEATURES: dict[str, dict[str, Any]] = {
    "numbers": {"kind": "numbers", "size": 3},
    "mostly zeros": {"kind": "numbers", "size": 300},
    "dict": {"kind": "dict", "hash_bits": 6},
    "text": {"kind": "text", "hash_bits": 6},
}
KERNEL = {"kernel": "rbf:0.5", "max_support": 8}
LEARNERS: dict[str, dict[str, Any]] = {
    "auto": {"learner": "auto"},
    "first-order": {"learner": "banditron"},
    "second-order": {"learner": "linucb"},
    "full matrix": {"learner": "soba", "parameters": {"matrix": "full"}},
    "kernel": {"learner": "bpa", "parameters": KERNEL},
    "pairs": {"learner": "conservative-ova", "parameters": {"coding": "all-pairs"}},
    "tree": {"learner": "offset-tree"},
    "logits": {"learner": "policy-gradient"},
}
QUICK = ("auto", "first-order")
CASES = [(learner, kind, "learn") for learner in LEARNERS for kind in FEATURES]
CASES += [(learner, kind, "shadow") for learner in QUICK for kind in FEATURES]
UNEXPLAINED = "cannot be explained"  # a kernel stores rows, and a code is no sum of scores
ROUNDS = 12
TOKEN_SCOPES = ["decide", "feedback", "read", "admin"]


class Checked:
    """A service whose every reply is compared with what its document says of that route and status."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._token = site.tokens.create(TOKEN_SCOPES)
        self._document = self._send("GET", "/openapi.json").json()
        for model in self._document["components"]["schemas"].values():
            if "properties" in model:
                model["additionalProperties"] = False  # nothing is sent that is not described
        self.called: set[tuple[str, str]] = set()

    def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return self.site.ask(method, path, self._token, content=content)

    def ask(self, method: str, route: str, body: Any = None, query: str = "", **in_path: str) -> Any:
        """Call a route; the reply, once it was found to be as described."""
        self.called.add((method, route))
        reply = self._send(method, route.format(**in_path) + query, body)
        assert reply.status_code < 500, (method, route, reply.text)
        described = self._document["paths"][route][method.lower()]["responses"][str(reply.status_code)]
        if "content" not in described:
            assert not reply.content
            return None
        kind = reply.headers["content-type"]
        contents = described["content"]
        content = contents.get(kind) or contents.get(kind.partition(";")[0]) or contents.get("*/*")
        assert content is not None or kind in contents, (kind, list(contents))
        if "json" not in kind:
            return reply.text
        answer = json.loads(reply.content, parse_constant=_refuse_constant)
        if content:
            jsonschema.validate(answer, {**content["schema"], "components": self._document["components"]})
        return answer


def _refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    with site_in(tmp_path_factory.mktemp("service")) as site:
        yield Checked(site)


def x_of(kind: str, number: int) -> Any:
    """An x that says which class is right."""
    if kind == "numbers":
        return [float(number % 3 == one) + number / 100.0 for one in range(3)]
    if kind == "mostly zeros":
        return [1.0 if column in (number % 3, 50 + number) else 0.0 for column in range(300)]
    return {f"word{number % 3}": 1.0, f"other{number}": 0.5} if kind == "dict" else f"word{number % 3} other{number}"


def every_route(checked: Checked, name: str, learner: dict[str, Any], kind: str, mode: str) -> int:
    """Call every route of a task; how many of its decisions were explained."""
    task = "/v1/tasks/{task}"

    def ask(method: str, route: str, body: Any = None, query: str = "", **more: str) -> Any:
        return checked.ask(method, route, body, query, task=name, **more)

    def explain(identity: str) -> dict[str, Any]:
        return dict(ask("GET", f"{task}/explanation", query=f"?id={identity}"))

    new = {"name": name, "classes": CLASSES, "features": FEATURES[kind], "seed": 1, "mode": mode, **learner}
    assert ask("POST", "/v1/tasks", new)["learnt"] == 0
    shown = {"shown": "a", "shown_propensity": 0.5} if mode == "shadow" else {}
    ask("POST", f"{task}/decide", {"id": "0", "x": x_of(kind, 0)})
    explain("0")  # before anything was learnt
    ask("POST", f"{task}/decide", {"x": x_of(kind, 0)})
    more: list[dict[str, Any]] = [{}, {"among": ["a", "b"]}, {"among": [3, "a"], "complete": True}, {"risk": 0.1}]
    asks = [{"id": str(n), "x": x_of(kind, n), "sure": 0.5, **more[n % 4]} for n in range(1, ROUNDS)]
    for one in asks:
        one.pop("sure" if "risk" in one else "none", None)
    decided = ask("POST", f"{task}/decide", asks)
    words: list[dict[str, Any]] = [{"right": True}, {"right": False}]
    words += [] if mode == "shadow" else [{"reward": 0.25}, {"truth": 3}]
    for one in decided:
        ask("POST", f"{task}/feedback", {"id": one["id"], **words[int(one["id"]) % len(words)], **shown})
    ask("POST", f"{task}/feedback", [{"id": one["id"], "right": True, **shown} for one in decided])
    ask("POST", f"{task}/feedback", {"id": "1", "right": True, "revise": True, **shown})
    ask("POST", f"{task}/feedback", {"id": "2", "withdraw": True})
    ask("POST", f"{task}/feedback", {"id": "unknown", "right": True, **shown})
    while ask("GET", f"{task}/stats", query="?window=10")["queue"]:
        pass
    found = [explain(identity) for identity in ("0", *(one["id"] for one in decided))]
    assert all("parts" in one or UNEXPLAINED in one["detail"] for one in found)
    assert len(ask("GET", f"{task}/decisions")["decisions"]) == ROUNDS + 1
    ask("GET", f"{task}/decisions/{{id}}", id="1")
    ask("GET", f"{task}/decisions/{{id}}", id="unknown")
    ask("GET", f"{task}/item", query="?number=0")
    ask("PATCH", task, {"add_classes": ["d"], "remove_classes": ["b"], "sure": 0.9, "deadline_s": 60.0})
    ask("POST", f"{task}/decide", {"id": "after", "x": x_of(kind, 1)})
    explain("after")
    explain("1")  # of a label that may be retired now
    ask("POST", f"{task}/forget", {"ids": ["3", "4"]})
    ask("POST", f"{task}/forget", {"ids": ["5"], "unlearn": True})
    ask("GET", f"{task}/decisions/{{id}}", id="3")
    ask("POST", f"{task}/learner", {**learner, "seed": 2})
    while (now := ask("GET", task))["training"] is not None and now["training"]["error"] is None:
        pass
    explain("1")
    for route in ("/v1/tasks", "/v1/learners", "/readyz", "/healthz", "/version", "/metrics", "/session"):
        ask("GET", route)
    assert ask("DELETE", task)["deleted"] is not None
    assert ask("GET", task)["status"] == 404
    return sum("parts" in one for one in found)


@pytest.mark.parametrize(
    ("learner", "kind", "mode"),
    [pytest.param(*case, marks=() if case[0] in QUICK and case[2] == "learn" else pytest.mark.long) for case in CASES],
)
def test_every_route(checked: Checked, learner: str, kind: str, mode: str) -> None:
    chosen = LEARNERS[learner]
    if learner == "full matrix" and kind in ("dict", "text"):  # where a whole matrix is refused
        chosen = {"learner": chosen["learner"]}
    explained = every_route(checked, f"{learner}-{kind}-{mode}".replace(" ", "-"), chosen, kind, mode)
    assert explained > 0 or learner in ("kernel", "pairs")


def test_no_route_is_left_out(checked: Checked) -> None:
    every_route(checked, "last", LEARNERS["first-order"], "numbers", "learn")
    digits = {"classes": 10, "features": {"kind": "numbers", "size": 64}, "items": "digits", "learner": "banditron"}
    checked.ask("POST", "/v1/tasks", {"name": "digits", **digits})
    assert len(checked.ask("GET", "/v1/tasks/{task}/item", query="?number=7", task="digits")["x"]) == 64
    for method in ("POST", "GET", "DELETE"):
        checked.ask(method, "/session")
    for page in ("/", "/docs", "/openapi.json"):
        checked.ask("GET", page)
    checked.ask("GET", "/play/{task}", task="digits")
    checked.ask("GET", "/assets/{name}", name="style.css")
    assert checked.called == {(one.method, one.path) for one in checked.site.app.operations}
