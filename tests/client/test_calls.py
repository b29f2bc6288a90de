"""What is sent, how replies are read, and when a request is sent again: both clients, a scripted service, no sockets."""

from __future__ import annotations

import copy
import email.utils
import inspect
import pickle
import random
import subprocess
import sys
import time
import traceback
from functools import partial
from typing import Any

import httpx
import numpy as np
import pytest

from onebit.client import (
    AsyncClient,
    AsyncTaskHandle,
    Client,
    DecisionReply,
    LoggedDecision,
    QuarantinedTask,
    Readiness,
    ServiceError,
    Task,
    TaskHandle,
    UnreachableError,
    bodies,
    plan,
)
from onebit.contract.installation import install_command
from onebit.errors import OnebitError
from onebit.service import replies
from tests.client.scripted import DECIDED, KINDS, TASK, TOKEN, URL, Answer, answer, follow, refused

DROPPED = httpx.ReadError("connection reset by peer")
NO_CONNECTION = httpx.ConnectError("connection refused")
both = pytest.mark.parametrize("kind", KINDS)

# Every call, with a reply to it, and whether it may be sent again although the first may have been done.
LOGGED = {
    **DECIDED,
    "seq": 1,
    "time": 1.0,
    "weight": 1.0,
    "notes": [0.0, 0.0],
    "mode": "learn",
    "x": "goal",
    "right": None,
    "feedback_time": None,
    "late": False,
    "source": None,
    "shown": None,
    "shown_propensity": None,
    **dict.fromkeys(("reward", "truth", "revised_time", "raw", "sure")),
    "complete": False,
}
STATS: dict[str, Any] = {
    **dict.fromkeys(("generation", "learnt", "position", "queue", "decisions", "feedback", "right", "late"), 0),
    **dict.fromkeys(("silences", "refused", "revised", "withdrawn", "rewards", "truths"), 0),
    "task": "news",
    "mode": "learn",
    "learner": "auto",
    "window": {"size": 1000, "feedback": 0, "wrong": 0, "error": None, "low": None, "high": None, "mean_reward": None},
    "rates": {"decisions_per_s": 0.0, "feedback_per_s": 0.0, "decisions": [0], "feedback": [0]},
    "delays": {"bounds_s": [1.0], "counts": [0, 0]},
    "classes": [{"name": "sport", "played": 1, "heard": 0, "right": 0, "right_rate": None, "low": None, "high": None}],
    "exploration": {"window": 0, "rate": None},
    "curve": {"feedback": [], "error": [], "recent": [], "reward": []},
    "mean_reward": None,
    "certainty": {
        "asked": 0,
        "sure": 0,
        "answered": None,
        "heard": 0,
        "wrong": 0.0,
        "error": None,
        "risk": None,
        "overshoot": None,
        "answered_curve": [],
        "error_curve": [],
    },
    "shadow": None,
    "drift": {"count": 0, "alarms": []},
}
EXPLAINED = {
    "id": "a",
    "label": "sport",
    "rival": "tech",
    "lead": 0.75,
    "constant": 0.25,
    "rest": 0.0,
    "left_out": 0,
    "parts": [{"names": ["goal"], "value": 1.0, "contribution": 0.5}],
    "version": "1.0",
}
VERSION = {"version": "1", "python": "3", "numba": "0", "numpy": "2", "cpu": "x"}
CALLS: dict[str, tuple[Any, Any, bool]] = {
    "decide": (lambda c: c.task("news").decide("goal"), DECIDED, True),
    "decide_many": (lambda c: c.task("news").decide_many(["goal"]), [DECIDED], True),
    "feedback": (lambda c: c.task("news").feedback("a", True), {"id": "a", "status": "accepted"}, True),
    "feedback_many": (lambda c: c.task("news").feedback_many(["a"], [True]), [{"id": "a", "status": "late"}], True),
    "withdraw": (lambda c: c.task("news").withdraw("a"), {"id": "a", "status": "withdrawn"}, True),
    "withdraw_many": (lambda c: c.task("news").withdraw_many(["a"]), [{"id": "a", "status": "withdrawn"}], True),
    "stats": (lambda c: c.task("news").stats(), STATS, True),
    "decisions": (lambda c: c.task("news").decisions(), {"decisions": [LOGGED]}, True),
    "decision": (lambda c: c.task("news").decision("a"), LOGGED, True),
    "explain": (lambda c: c.task("news").explain("a"), EXPLAINED, True),
    "info": (lambda c: c.task("news").info(), TASK, True),
    "change": (lambda c: c.task("news").change(mode="shadow"), {**TASK, "mode": "shadow"}, True),
    "switch": (lambda c: c.task("news").switch("bpa"), TASK, False),
    "forget": (lambda c: c.task("news").forget(["a"]), {"forgotten": 1, "learner": "kept", "erased": True}, False),
    "delete": (lambda c: c.task("news").delete(), {**TASK, "deleted": 2.0}, False),
    "create_task": (lambda c: c.create_task("news", ["sport", "tech"], "text"), TASK, True),
    "tasks": (lambda c: c.tasks(), {"tasks": [TASK]}, True),
    "version": (lambda c: c.version(), VERSION, True),
}
UNSENT = {"task", "ready", "close", "aclose", "from_env"}  # ready is asked once


def public(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in vars(base) if not name.startswith("_")}


def test_the_list_of_calls_is_whole() -> None:
    assert set(CALLS) == (public(Client) | public(TaskHandle)) - UNSENT


@both
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_sent_again_after_every_passing_failure(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, body, _ = CALLS[name]
    passing_ones: list[Answer] = [
        NO_CONNECTION,
        *(refused(status, "unavailable", "not now") for status in (408, 429, 503)),
    ]
    for passing in passing_ones:
        found, script = follow(kind, monkeypatch, [passing, answer(200, body)], call)
        assert not isinstance(found, Exception), found
        assert len({request.content for request in script.requests}) == 1  # the same, id and all
        assert len(script.requests) == 2


@both
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "lost",
    [
        DROPPED,
        httpx.ReadTimeout("slow"),
        answer(502, None),
        answer(504, None),
        refused(504, "unfinished", "The service ended."),
        httpx.Response(200, text='{"id": "a'),
    ],
)
def test_what_may_have_been_done_is_sent_again_only_where_that_is_safe(
    name: str, kind: str, lost: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, body, safe = CALLS[name]
    found, script = follow(kind, monkeypatch, [lost, *([answer(200, body)] if safe else [])], call)
    if safe:
        assert not isinstance(found, Exception), found
        assert len({request.content for request in script.requests}) == 1
    else:
        assert isinstance(found, ServiceError)
        assert str(found).endswith("it is unknown whether this was done")


@both
@pytest.mark.parametrize(("status", "code"), [(400, "bad_request"), (401, "unauthorized"), (404, "not_found")])
@pytest.mark.parametrize("name", CALLS)
def test_a_refusal_is_the_services_sentence_and_is_not_tried_again(
    name: str, status: int, code: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = follow(kind, monkeypatch, [refused(status, code, "It is so.", "x[3]")], CALLS[name][0])
    assert isinstance(found, ServiceError)
    assert isinstance(found, OnebitError)
    assert (str(found), found.status, found.code, found.field) == ("It is so.", status, code, "x[3]")


@both
def test_it_gives_up_after_the_attempts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = CALLS["decide"][0]
    found, script = follow(kind, monkeypatch, [refused(503, "unavailable", "The disk is full.")] * 3, call, attempts=3)
    assert (str(found), found.status) == ("The disk is full. (tried 3 times)", 503)
    assert len(script.slept) == 3
    found, _ = follow(kind, monkeypatch, [NO_CONNECTION], call, attempts=1)
    assert str(found) == f"{URL} cannot be reached: connection refused"
    assert (found.status, found.code) == (None, "unreachable")
    found, _ = follow(kind, monkeypatch, [httpx.ReadTimeout("")] * 2, call, attempts=2, timeout_s=0.25)
    assert str(found) == f"no reply from {URL} within 0.25 s (tried 2 times)"


@both
def test_it_waits_as_long_as_the_service_says(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    busy = [refused(503, "unavailable", "no", retry_after=told) for told in ("7", date, "soon", "0")]
    _, script = follow(kind, monkeypatch, [*busy, answer(200, DECIDED)], CALLS["decide"][0], attempts=5)
    assert script.slept[:2] == [0.0, 7.0]
    assert 25.0 < script.slept[2] <= 30.0
    assert script.slept[3:] == [2.0, 4.0]  # what was said means nothing, or less than the plan


@both
def test_it_does_not_wait_for_hours(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = CALLS["decide"][0]
    found, script = follow(kind, monkeypatch, [refused(429, "busy", "Later.", retry_after="3600")], call)
    assert (str(found), script.slept) == ("Later.", [0.0])


def test_pauses_are_drawn_up_to_a_bound_that_doubles() -> None:
    lost = plan.NoReply("", doubtful=True)
    for attempt, bound in ((1, 0.5), (2, 1.0), (3, 2.0), (9, 10.0), (50, 10.0)):
        drawn = [plan.draw_wait(attempt, lost) for _ in range(200)]
        assert 0.0 <= min(drawn) < 0.2 * bound  # each fails by chance with probability 0.8 ** 200 < 1e-19
        assert 0.8 * bound < max(drawn) <= bound


@both
def test_create_is_fine_where_the_first_attempt_made_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = refused(409, "conflict", "The name is taken.")

    def create(client: Any, **more: Any) -> Any:
        return client.create_task("news", ["sport", "tech"], "text", seed=7, **more)

    found, script = follow(kind, monkeypatch, [DROPPED, taken, answer(200, TASK)], create)
    assert found.name == "news"
    assert script.asked == ["POST /v1/tasks", "POST /v1/tasks", "GET /v1/tasks/news"]
    other = answer(200, {**TASK, "classes": ["sport", "tech", "art"]})
    found, _ = follow(kind, monkeypatch, [DROPPED, taken, other], create)
    assert (str(found), found.status) == ("The name is taken.", 409)
    for certain in (NO_CONNECTION, refused(503, "unavailable", "no")):  # then somebody else has made it
        found, _ = follow(kind, monkeypatch, [certain, taken], create)
        assert found.status == 409
    found, _ = follow(kind, monkeypatch, [taken], create)
    assert found.status == 409
    found, _ = follow(kind, monkeypatch, [taken, answer(200, TASK)], lambda client: create(client, exist_ok=True))
    assert found.name == "news"
    found, _ = follow(kind, monkeypatch, [taken, other], lambda client: create(client, exist_ok=True))
    assert found.status == 409


@both
@pytest.mark.parametrize("exist_ok", [False, True])
def test_a_task_that_is_being_compiled_is_waited_for(
    exist_ok: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, absent = refused(409, "conflict", "The name is taken."), refused(404, "not_found", "There is no task.")
    first: list[Answer] = [] if exist_ok else [httpx.ReadTimeout("slow")]

    def create(client: Any) -> Any:
        return client.create_task("news", ["sport", "tech"], "text", exist_ok=exist_ok)

    for ending in ([taken, answer(200, TASK)], [answer(201, TASK)]):  # it is there; or the first attempt had failed
        found, script = follow(kind, monkeypatch, [*first, taken, absent, taken, absent, *ending], create)
        assert found.name == "news"
        assert script.slept.count(plan.LONGEST_WAIT_S) == 2
    found, _ = follow(kind, monkeypatch, [*first, *[taken, absent] * 4], create)
    assert (str(found), found.status) == ("The name is taken.", 409)
    found, _ = follow(kind, monkeypatch, [*first, taken, refused(403, "forbidden", "Not yours.")], create)
    assert found.status == 403


SLOW = ("create_task", "change", "switch", "forget")  # the service may compile a learner first, or write the log anew


@both
@pytest.mark.parametrize("name", CALLS)
def test_what_may_compile_is_given_time(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for timeout_s, patient_s in ((10.0, 120.0), (300.0, 300.0)):
        waits = patient_s if name in SLOW else timeout_s
        _, script = follow(kind, monkeypatch, [answer(200, CALLS[name][1])], CALLS[name][0], timeout_s=timeout_s)
        assert script.requests[0].extensions["timeout"] == {
            "connect": timeout_s, "read": waits, "write": timeout_s, "pool": None
        }  # fmt: skip
        found, _ = follow(kind, monkeypatch, [httpx.ReadTimeout("")], CALLS[name][0], timeout_s=timeout_s, attempts=1)
        assert f"within {waits:g} s" in str(found)
        found, _ = follow(
            kind, monkeypatch, [httpx.ConnectTimeout("")], CALLS[name][0], timeout_s=timeout_s, attempts=1
        )
        assert f"within {timeout_s:g} s" in str(found)


@both
def test_a_class_that_the_first_attempt_added_is_fine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = refused(409, "conflict", "The class is there.")

    def change(client: Any) -> Any:
        return client.task("news").change(add_classes=["art"], mode="shadow")

    def retire(client: Any) -> Any:
        return client.task("news").change(remove_classes=["tech"])

    for gone, done in ((["tech"], True), ([], False)):
        found, _ = follow(kind, monkeypatch, [DROPPED, there, answer(200, {**TASK, "retired": gone})], retire)
        assert isinstance(found, Task) is done
    added = {**TASK, "classes": ["sport", "tech", "art"], "mode": "shadow"}
    found, _ = follow(kind, monkeypatch, [DROPPED, there, answer(200, added)], change)
    assert isinstance(found, Task)
    for other in ({**added, "mode": "learn"}, TASK):
        found, _ = follow(kind, monkeypatch, [DROPPED, there, answer(200, other)], change)
        assert found.status == 409
    found, _ = follow(kind, monkeypatch, [there], change)
    assert found.status == 409


@pytest.mark.parametrize(
    ("wanted", "same"),
    [
        ({"classes": ["sport", "tech"], "features": {"kind": "text"}}, True),
        ({"classes": 2}, False),
        ({"features": {"kind": "text", "hash_bits": 20}}, False),
        ({"parameters": {"rate": 0.1}}, False),
        ({"display": {"kind": "image"}}, False),
        ({"learner": "bpa"}, False),
        ({"seed": 5, "mode": "learn", "silence": "nothing"}, True),
    ],
)
def test_a_task_has_settings(wanted: dict[str, Any], same: bool) -> None:
    from onebit.client.calls import has_settings

    assert has_settings(Task.read(TASK), wanted) is same
    assert has_settings(Task.read({**TASK, "classes": [0, 1, 2]}), {"classes": 3})


@both
def test_what_is_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(client: Any) -> Any:
        return client.create_task(
            "t", np.array(["a", "b"]), 3, parameters={"rate": np.int64(1)}, deadline_s=5, silence="wrong"
        )

    _, script = follow(kind, monkeypatch, [answer(201, TASK)], create)
    assert script.bodies == [
        {
            "name": "t",
            "classes": ["a", "b"],
            "features": {"kind": "numbers", "size": 3},
            "parameters": {"rate": 1},
            "deadline_s": 5,
            "silence": "wrong",
        }
    ]
    assert script.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert script.requests[0].headers["Content-Type"] == "application/json"
    for changes, body in (
        ({}, {}),
        ({"deadline_s": None}, {"deadline_s": None}),
        ({"deadline_s": 3.0, "silence": "right"}, {"deadline_s": 3.0, "silence": "right"}),
        ({"remove_classes": ["a"], "revise_within": None}, {"remove_classes": ["a"], "revise_within": None}),
        ({"sure": 0.9}, {"sure": 0.9}),
        ({"risk": None}, {"risk": None}),
    ):
        call = partial(lambda named, client: client.task("t").change(**named), changes)
        _, script = follow(kind, monkeypatch, [answer(200, TASK)], call)
        assert script.bodies == [body]
    _, script = follow(
        kind, monkeypatch, [answer(200, [{"id": "a", "status": "accepted"}] * 2)],
        lambda c: c.task("t").feedback_many(
            ["a", DecisionReply.read({**DECIDED, "id": "b"})], np.array([True, False]), np.array([3, 4]), [0.5, None]
        ),
    )  # fmt: skip
    assert script.bodies == [
        [
            {"id": "a", "right": True, "shown": 3, "shown_propensity": 0.5},
            {"id": "b", "right": False, "shown": 4},
        ]
    ]
    one, two = {"id": "a", "status": "revised"}, {"id": "b", "status": "withdrawn"}
    thoughts: list[tuple[Any, Any, Any]] = [
        (one, lambda t: t.feedback("a", False, revise=True), {"id": "a", "right": False, "revise": True}),
        ([one], lambda t: t.feedback_many(["a"], [True], revise=True), [{"id": "a", "right": True, "revise": True}]),
        (two, lambda t: t.withdraw(DecisionReply.read({**DECIDED, "id": "b"})), {"id": "b", "withdraw": True}),
        (
            [one, two],
            lambda t: t.withdraw_many(["a", "b"]),
            [{"id": "a", "withdraw": True}, {"id": "b", "withdraw": True}],
        ),
    ]
    for reply, call, body in thoughts:
        _, script = follow(kind, monkeypatch, [answer(200, reply)], lambda c, call=call: call(c.task("t")))  # type: ignore[misc]
        assert script.bodies == [body]
    _, script = follow(
        kind, monkeypatch, [answer(200, {"decisions": []})], lambda c: c.task("t").decisions(limit=5, before=9)
    )
    assert str(script.requests[0].url) == f"{URL}/v1/tasks/t/decisions?limit=5&before=9"


@both
def test_candidates_certainty_and_answers_are_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = {"id": "a", "status": "accepted"}
    some = np.array([1.0, 2.0])
    asked: list[tuple[Any, Any, Any]] = [
        (
            DECIDED,
            lambda t: t.decide(some, "a", among=("x", "y"), complete=True, sure=np.float32(0.5)),
            {"id": "a", "x": [1.0, 2.0], "among": ["x", "y"], "sure": 0.5, "complete": True},
        ),
        (
            [DECIDED] * 2,
            lambda t: t.decide_many(["x", "y"], ["a", "b"], among=np.array([3, 4]), risk=0.1),
            [{"id": "a", "x": "x", "among": [3, 4], "risk": 0.1}, {"id": "b", "x": "y", "among": [3, 4], "risk": 0.1}],
        ),
        (
            [DECIDED] * 2,
            lambda t: t.decide_many(["x", "y"], ["a", "b"], among=[["p"], None]),
            [{"id": "a", "x": "x", "among": ["p"]}, {"id": "b", "x": "y"}],
        ),
        (heard, lambda t: t.feedback("a", reward=0.5), {"id": "a", "reward": 0.5}),
        (heard, lambda t: t.feedback("a", truth="x", revise=True), {"id": "a", "truth": "x", "revise": True}),
        (
            [heard] * 3,
            lambda t: t.feedback_many(
                ["a", "b", "c"], [True, None, None], rewards=[None, 1, None], truths=[None, None, 7]
            ),
            [{"id": "a", "right": True}, {"id": "b", "reward": 1.0}, {"id": "c", "truth": 7}],
        ),
    ]
    for reply, call, body in asked:
        _, script = follow(kind, monkeypatch, [answer(200, reply)], lambda c, call=call: call(c.task("t")))  # type: ignore[misc]
        assert script.bodies == [body]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda t: t.decide("x", sure=float("nan")), "cannot be written as JSON: Out of range"),
        (lambda t: t.decide("x", among="abc"), "among is 'abc'"),
        (lambda t: t.decide_many(["x"], among=[["a"], ["b"]]), "X has 1 items, but among has 2"),
        (lambda t: t.decide_many(["x", "y"], among=["a", ["b"]]), r"among\[0\] is 'a'"),
        (lambda t: t.feedback("a", reward=float("nan")), "cannot be written as JSON: Out of range"),
        (lambda t: t.feedback_many(["a"], truths=["x", "y"]), "ids has 1 items, but truths has 2"),
    ],
)
def test_what_cannot_be_asked_or_said_is_not_sent(call: Any, sentence: str) -> None:
    with Client(URL) as client, pytest.raises(OnebitError, match=sentence):
        call(client.task("t"))


@both
@pytest.mark.parametrize("name", ["a/b", "..", "ä ?#%2F", "x" * 200])
def test_any_id_can_be_asked_for(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, script = follow(kind, monkeypatch, [answer(200, LOGGED)], lambda c: c.task("t").decision(name))
    target = script.requests[0].url
    assert target.path == f"/v1/tasks/t/decisions/{name}"
    assert target.raw_path.count(b"/") == 5
    found, script = follow(kind, monkeypatch, [answer(200, EXPLAINED)], lambda c: c.task("t").explain(name, top=3))
    assert dict(script.requests[0].url.params) == {"id": name, "top": "3"}
    assert found.parts[0].names == ["goal"]


@pytest.mark.parametrize("top", [0, True, 1.5, "3", None])
def test_a_number_of_parts_that_is_none_is_refused_before_anything_is_sent(top: Any) -> None:
    with Client(URL) as client, pytest.raises(OnebitError, match="top is "):
        client.task("t").explain("a", top=top)


@both
def test_rows_of_every_form_are_sent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    for X, sent in (
        (np.arange(4, dtype=np.float32).reshape(2, 2), [[0.0, 1.0], [2.0, 3.0]]),
        (pandas.DataFrame({"a": [0, 2], "b": [1, 3]}), [[0.0, 1.0], [2.0, 3.0]]),
        ([{"rain": np.float64(0.5)}, {}], [{"rain": 0.5}, {}]),
        (pandas.Series(["late goal", "ä"]), ["late goal", "ä"]),
        (([1, True], (2, 3)), [[1.0, 1.0], [2.0, 3.0]]),
    ):
        call = partial(lambda rows, client: client.task("t").decide_many(rows), X)
        _, script = follow(kind, monkeypatch, [answer(200, [DECIDED] * 2)], call)
        assert [one["x"] for one in script.bodies[0]] == sent
        assert len({one["id"] for one in script.bodies[0]}) == 2


WRONG: dict[str, Any] = {
    r"X\[1\]\[0\] is nan, but must be a finite number": lambda t: t.decide_many([[1.0], [float("nan")]]),
    r"x\[1\] is inf": lambda t: t.decide(np.array([1.0, np.inf])),
    r"x\['rain'\] is 'much', but must be a finite": lambda t: t.decide({"rain": "much"}),
    r"x has the name 3, but names must be strings": lambda t: t.decide({3: 1.0}),
    r"x is 3, but must be a row of numbers": lambda t: t.decide(3),
    r"x is \['a', 'b'\], but must be a row": lambda t: t.decide(["a", "b"]),
    r"x is \[\[1\.0\]\], but must be a row": lambda t: t.decide([[1.0]]),
    r"X is 'one text', but must be a matrix or a list": lambda t: t.decide_many("one text"),
    r"X is \{'rain': 1\}, but must be a matrix or a list": lambda t: t.decide_many({"rain": 1}),
    r"X is 3.0, but must be a matrix or a list": lambda t: t.decide_many(np.array(3.0)),
    r"X has 2 items, but ids has 1": lambda t: t.decide_many([[1.0], [2.0]], ids=["a"]),
    r"ids has 2 items, but right has 1": lambda t: t.feedback_many(["a", "b"], [True]),
    r"ids is 'a', but must be a matrix or a list": lambda t: t.withdraw_many("a"),
    r"id is None, but must be a non-empty string": lambda t: t.withdraw(None),
    r"cannot be written as JSON: \{1\} cannot be represented": lambda t: t.switch("bpa", parameters={"rate": {1}}),
    r"cannot be written as JSON: Out of range": lambda t: t.change(deadline_s=float("inf")),
    r"id is '', but must be a non-empty string": lambda t: t.feedback("", True),
    r"id is 7, but must be a non-empty string": lambda t: t.decide([1.0], id=7),
}


@both
@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_sent_is_not(message: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = follow(kind, monkeypatch, [], lambda client: WRONG[message](client.task("t")))
    with pytest.raises(OnebitError, match=message):
        raise found


@pytest.mark.parametrize("name", ["", "a/b", "..", "ü", "x" * 101, ".hidden", "a b", None])
def test_a_name_that_no_task_has_is_refused(name: Any) -> None:
    with Client(URL) as client, pytest.raises(OnebitError, match="cannot be the name of a task"):
        client.task(name)


@both
def test_many_rows_take_several_requests(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_ROWS", 4)
    monkeypatch.setattr(bodies, "MOST_BYTES", 300)
    ids = [f"{number}" for number in range(10)]
    answers = [
        answer(200, [{**DECIDED, "id": one} for one in group]) for group in (ids[:4], ids[4:8], ids[8:9], ids[9:])
    ]
    X = [*["short"] * 8, "l" + "o" * 280 + "ng", "short"]
    found, script = follow(kind, monkeypatch, answers, lambda c: c.task("t").decide_many(X, ids=ids))
    assert [one.id for one in found] == ids
    assert [one["x"] for body in script.bodies for one in body] == X
    found, script = follow(kind, monkeypatch, [], lambda c: c.task("t").decide_many([]))
    assert found == []


@both
def test_a_request_that_is_too_large_is_halved(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    large = httpx.Response(413, text="<html>a proxy's page")
    ids = ["a", "b", "c"]
    answers = [large, *(answer(200, [{**DECIDED, "id": one} for one in group]) for group in (ids[:1], ids[1:]))]
    found, script = follow(kind, monkeypatch, answers, lambda c: c.task("t").decide_many(["x"] * 3, ids=ids))
    assert [one.id for one in found] == ids
    assert [len(body) for body in script.bodies] == [3, 1, 2]
    found, _ = follow(kind, monkeypatch, [large], lambda c: c.task("t").decide_many(["x"]))
    assert found.status == 413


@both
def test_a_refusal_of_a_later_request_says_where_it_is(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MOST_ROWS", 2)
    answers = [answer(200, [DECIDED] * 2), refused(422, "invalid", "x of item 1 is too short.", "[1].x")]
    found, _ = follow(kind, monkeypatch, answers, lambda c: c.task("t").decide_many(["x"] * 4))
    assert str(found) == "in X, counting from item 2: x of item 1 is too short."
    assert (found.status, found.field) == (422, "[1].x")
    monkeypatch.setattr(bodies, "MOST_ROWS", 4)
    answers = [httpx.Response(413), answer(200, [DECIDED] * 2), refused(422, "invalid", "x of item 1 is too short.")]
    found, _ = follow(kind, monkeypatch, answers, lambda c: c.task("t").decide_many(["x"] * 4))
    assert str(found) == "in X, counting from item 2: x of item 1 is too short."


@both
def test_replies_that_are_not_the_services(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = CALLS["decide"][0]
    moved = httpx.Response(301, headers={"Location": "https://elsewhere.test/"})
    found, _ = follow(kind, monkeypatch, [moved], decide)
    assert "301 (Moved Permanently), a redirect to https://elsewhere.test/" in str(found)
    assert found.code == "unexpected"
    found, _ = follow(kind, monkeypatch, [httpx.Response(500, text="<html>")], decide)
    assert str(found) == "the reply 500 (Internal Server Error) did not come from the service itself"
    for strange in (answer(200, {"label": 1}), answer(200, [1]), answer(200, "text"), answer(200, None)):
        found, _ = follow(kind, monkeypatch, [strange], decide)
        assert "this client cannot read the reply" in str(found)
    found, _ = follow(kind, monkeypatch, [answer(200, [DECIDED])], lambda c: c.task("t").decide_many(["a", "b"]))
    assert "this client cannot read the reply" in str(found)


@both
def test_that_a_service_is_not_ready_is_an_answer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fine: dict[str, Any] = {"ready": True, "reason": None, "quarantined": [], "warnings": []}
    found, _ = follow(kind, monkeypatch, [answer(200, fine)], lambda c: c.ready())
    assert found
    starting = {**fine, "ready": False, "reason": "it starts"}
    found, _ = follow(kind, monkeypatch, [answer(503, starting)], lambda c: c.ready())
    assert not found
    assert found.reason == "it starts"
    for lost in (httpx.Response(503, text="a proxy's page"), NO_CONNECTION):
        found, _ = follow(kind, monkeypatch, [lost], lambda c: c.ready())
        assert isinstance(found, ServiceError)


@both
def test_readiness_says_what_to_look_after(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = {"name": "news", "reason": "a row of its log is damaged"}
    body = {"ready": True, "reason": None, "quarantined": [aside], "warnings": ["the disk is nearly full"]}
    found, _ = follow(kind, monkeypatch, [answer(200, body)], lambda c: c.ready())
    assert found == Readiness(True, None, (QuarantinedTask(**aside),), ("the disk is nearly full",))


@both
def test_only_where_no_reply_came_is_it_a_connection_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = CALLS["decide"][0]
    for lost in (NO_CONNECTION, DROPPED, httpx.ReadTimeout("slow"), httpx.Response(200, text='{"id": "a')):
        found, _ = follow(kind, monkeypatch, [lost], decide, attempts=1)
        assert isinstance(found, UnreachableError)
        assert isinstance(found, ConnectionError)
        assert (found.status, found.code, found.field) == (None, "unreachable", None)
    for reply in (refused(503, "unavailable", "not now"), httpx.Response(502, text="<html>"), answer(200, [1])):
        found, _ = follow(kind, monkeypatch, [reply], decide, attempts=1)
        assert type(found) is ServiceError


@pytest.mark.parametrize("kind", [ServiceError, UnreachableError])
def test_errors_go_from_process_to_process(kind: type[ServiceError]) -> None:
    error = kind("It is so.", status=409, code="conflict", field="x")
    error.add_note("in round 3")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == ("It is so.", ("It is so.",), vars(error))


def test_the_token_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        for lost in (NO_CONNECTION, refused(401, "unauthorized", "This token is not known.")):
            found, _ = follow(kind, monkeypatch, [lost], CALLS["decide"][0], attempts=1)
            assert TOKEN not in "".join(traceback.format_exception(found))
    with Client(URL, TOKEN) as client:
        assert repr(client) == f"Client('{URL}')"
        assert repr(client.task("news")) == "TaskHandle('news')"
        assert TOKEN not in repr(vars(client))
    for bad in (f"{TOKEN}\n", f"{TOKEN} x", f"{TOKEN}ä", ""):
        with pytest.raises(OnebitError) as caught:
            Client(URL, bad)
        assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "service.test", "ftp://service.test", "http://", "http://service.test/?a=1", None, "http://a:b"],
)
def test_an_address_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(OnebitError, match=r"url is .* but must be like"):
        Client(url)


def test_other_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OnebitError, match="must not contain a user name or a password") as caught:
        Client("http://me:hidden@service.test")
    assert "hidden" not in str(caught.value)
    with pytest.raises(OnebitError, match="timeout_s is 0"):
        Client(URL, timeout_s=0)
    with pytest.raises(OnebitError, match="attempts is 0"):
        Client(URL, attempts=0)


def test_a_service_below_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def see(request: httpx.Request) -> httpx.Response:
        seen.append(str(request.url))
        return answer(200, VERSION)

    with Client(f"{URL}/onebit/", transport=httpx.MockTransport(see)) as client:
        client.version()
    assert seen == [f"{URL}/onebit/version"]


def test_the_environment_says_where_and_who(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEBIT_URL", raising=False)
    monkeypatch.delenv("ONEBIT_TOKEN", raising=False)
    with pytest.raises(OnebitError, match="ONEBIT_URL is not set"):
        Client.from_env()
    monkeypatch.setenv("ONEBIT_URL", URL)
    with Client.from_env(attempts=2) as client:
        assert "Authorization" not in client._connection.http.headers
        assert client._attempts == 2
    monkeypatch.setenv("ONEBIT_TOKEN", TOKEN)
    with Client.from_env() as client:
        assert client._connection.http.headers["Authorization"] == f"Bearer {TOKEN}"


def test_ids_made_here_are_all_different_and_sort_by_time() -> None:
    first = [bodies.new_id() for _ in range(5000)]
    time.sleep(0.003)
    second = [bodies.new_id() for _ in range(10)]
    assert len({*first, *second}) == 5010
    assert max(first) < min(second)
    assert all(len(one) == 36 and one[14] == "7" and one[19] in "89ab" for one in first)


VALUES = {
    kind.__name__: kind for kind in vars(replies).values() if isinstance(kind, type) and issubclass(kind, replies.Value)
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """The replies in the OpenAPI document of the service."""
    return dict(pytest.importorskip("tools.typescript").openapi()["components"]["schemas"])


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"Value"}))
def test_values_have_the_fields_of_the_services_replies(name: str, described: dict[str, Any]) -> None:
    assert set(VALUES[name].__dataclass_fields__) == set(described[name]["properties"])


@pytest.mark.parametrize(
    ("call", "name", "own"),
    [
        (Client.create_task, "NewTask", {"exist_ok"}),
        (TaskHandle.change, "Change", set()),
        (TaskHandle.switch, "NewLearner", set()),
        (TaskHandle.forget, "ForgetRequest", set()),
        (TaskHandle.decide, "DecideRequest", set()),
        (TaskHandle.feedback, "FeedbackRequest", set()),
    ],
)
def test_calls_take_the_fields_of_the_services_requests(call: Any, name: str, own: set[str]) -> None:
    schemas = pytest.importorskip("onebit.service.requests")
    fields = set(getattr(schemas, name).model_fields) - {"withdraw"}  # which is a call of its own
    assert set(inspect.signature(call).parameters) - {"self"} - own == fields


def test_stats_print_as_a_line() -> None:
    many = {"feedback": list(range(400)), "error": [0.5] * 400, "recent": [0.5] * 400, "reward": [0.5] * 400}
    shown = repr(replies.Stats.read({**STATS, "curve": many}))
    assert "task='news'" in shown
    assert len(shown) < 500


def test_a_field_that_a_newer_service_adds_is_passed_over() -> None:
    assert LoggedDecision.read({**LOGGED, "mood": "good"}).id == "a"


def test_without_httpx_it_says_what_to_install() -> None:
    program = (
        "import sys, onebit.errors; sys.modules['httpx'] = None\n"
        "for caught in (ImportError, onebit.errors.OnebitError):\n"
        "    try: import onebit.client\n"
        "    except caught as error: print(error)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    assert answer.stdout == f"the client of the service needs HTTPX: {install_command('client')}\n" * 2


def test_importing_the_client_loads_no_compiler() -> None:
    program = "import sys, onebit.client; sys.exit(any(name in sys.modules for name in ('numba', 'scipy', 'pydantic', 'starlette')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_operation_is_a_function_or_a_coroutine_function_of_the_same_signature() -> None:
    for blocking, asynchronous in (
        (Client.create_task, AsyncClient.create_task),
        (TaskHandle.decide, AsyncTaskHandle.decide),
    ):
        assert not inspect.iscoroutinefunction(blocking)
        assert inspect.iscoroutinefunction(asynchronous)
        assert inspect.signature(blocking) == inspect.signature(asynchronous)
    assert inspect.signature(TaskHandle.decide).return_annotation == "DecisionReply"
