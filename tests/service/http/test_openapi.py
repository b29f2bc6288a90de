"""The OpenAPI document: it has every route, with what it takes, what it gives, and every way in which it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.site import NEW, Site, site_in

PUBLIC = ("/healthz",)
BODIES = {
    ("post", "/v1/tasks"): ["NewTask"],
    ("patch", "/v1/tasks/{task}"): ["Change"],
    ("post", "/v1/tasks/{task}/decide"): ["DecideRequest"],
    ("post", "/v1/tasks/{task}/feedback"): ["FeedbackRequest"],
    ("post", "/v1/tasks/{task}/learner"): ["NewLearner"],
}
REPLIES = {
    ("post", "/v1/tasks"): ("201", "Task"),
    ("get", "/v1/tasks"): ("200", "Tasks"),
    ("get", "/v1/tasks/{task}"): ("200", "Task"),
    ("patch", "/v1/tasks/{task}"): ("200", "Task"),
    ("delete", "/v1/tasks/{task}"): ("200", "Task"),
    ("post", "/v1/tasks/{task}/decide"): ("200", "DecisionReply"),
    ("post", "/v1/tasks/{task}/feedback"): ("200", "FeedbackReply"),
    ("post", "/v1/tasks/{task}/learner"): ("202", "Task"),
    ("get", "/v1/tasks/{task}/stats"): ("200", "Stats"),
    ("get", "/v1/tasks/{task}/decisions"): ("200", "LoggedDecisions"),
    ("get", "/v1/tasks/{task}/decisions/{id}"): ("200", "LoggedDecision"),
    ("get", "/v1/tasks/{task}/explanation"): ("200", "ExplanationReply"),
    ("get", "/v1/tasks/{task}/item"): ("200", "Item"),
    ("get", "/v1/learners"): ("200", "Learners"),
    ("get", "/session"): ("200", "Session"),
    ("get", "/readyz"): ("200", "Readiness"),
    ("get", "/version"): ("200", "Version"),
    ("get", "/healthz"): ("200", "Health"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service")) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        yield made


@pytest.fixture(scope="module")
def operations(site: Site) -> dict[tuple[str, str], dict[str, Any]]:
    document = site.ask("GET", "/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    return {(method, path): one for path, methods in document["paths"].items() for method, one in methods.items()}


def test_every_route_is_there(site: Site, operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert set(operations) == {(one.method.lower(), one.path) for one in site.app.operations}
    for operation in operations.values():
        assert operation["description"]


def test_every_body_and_reply_is_there(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    for key, names in BODIES.items():
        body = json.dumps(operations[key]["requestBody"])
        assert all(f"#/components/schemas/{name}" in body for name in names), key
    for key, (status, name) in REPLIES.items():
        assert f'#/components/schemas/{name}"' in json.dumps(operations[key]["responses"][status]), key


def test_every_refusal_is_there(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (method, path), operation in operations.items():
        refused = {status for status in operation["responses"] if status >= "400"}
        assert "default" in refused
        expected = set() if path in PUBLIC else {"401", "403", "503"}
        if (method, path) in BODIES:
            expected |= {"400", "408", "413", "422"}
        if "{" in path:
            expected |= {"404"}
        assert expected <= refused, (method, path)
        for status in refused:
            assert "#/components/schemas/Problem" in json.dumps(operation["responses"][status])
        assert bool(operation.get("security")) == (path not in PUBLIC)


def test_parameters_are_there(operations: dict[tuple[str, str], dict[str, Any]]) -> None:
    found = {
        (parameter["name"], parameter["in"], parameter["required"])
        for parameter in operations["get", "/v1/tasks/{task}/decisions"]["parameters"]
    }
    assert found == {("task", "path", True), ("limit", "query", False), ("before", "query", False)}


def test_how_to_show_a_token_is_there(site: Site) -> None:
    schemes = site.ask("GET", "/openapi.json").json()["components"]["securitySchemes"]
    assert schemes["token"]["scheme"] == "bearer"
    assert (schemes["cookie"]["in"], schemes["cookie"]["name"]) == ("cookie", "onebit_token")
