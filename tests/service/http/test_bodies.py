"""Bodies: what cannot be meant is refused in a sentence that says where, and nothing that is sent makes the service fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from onebit.service import requests
from onebit.service.core.plan import HeavyWork
from onebit.service.errors import RequestError
from onebit.service.http.bodies import BodyReader
from onebit.service.replies import DecisionReply
from onebit.service.settings import Settings
from tests.service.site import NEW, Site, error_in, site_in

DECIDE = "/v1/tasks/fruit/decide"
MOST = 1_000_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_in(tmp_path_factory.mktemp("service"), max_body=MOST) as made:
        assert made.ask("POST", "/v1/tasks", json=NEW).status_code == 201
        yield made


TASK = json.dumps(NEW)[:-1]  # to be gone on with
SENTENCES = [
    (DECIDE, '{"x": [1, 2, "a"]}', 422, "x[2]", "x[2] is 'a', but must be a number"),
    (DECIDE, '{"x": [1, 2, true]}', 422, "x[2]", "x[2] is true, but must be a number"),
    (DECIDE, '{"x": [1, 2, null]}', 422, "x[2]", "x[2] is null, but must be a number"),
    (DECIDE, '{"x": [1, 2, NaN]}', 422, "x[2]", "x[2] is nan, but must be a finite number"),
    (DECIDE, '{"x": [1, 2, -Infinity]}', 422, "x[2]", "x[2] is -inf, but must be a finite number"),
    (DECIDE, '{"x": [1, 2, 1e999]}', 422, "x[2]", "x[2] is inf, but must be a finite number"),
    (DECIDE, '{"x": [1, 2, 1%s]}' % ("0" * 400), 422, "x[2]", "must be a finite number"),
    (DECIDE, '{"x": {"a": NaN}}', 422, "x.a", "x.a is nan, but must be a finite number"),
    (DECIDE, '{"x": 5}', 422, "x", "x is 5, but must be a list or an object or a string"),
    (DECIDE, '{"x": [[1, 2, 3]]}', 422, "x[0]", "x[0] is a list of 3, but must be a number"),
    (DECIDE, "{}", 422, "x", "x is missing"),
    (
        DECIDE,
        '{"x": [1, 2, 3], "identity": 5}',
        422,
        "identity",
        "identity is not a known field; known are: among, complete, id, risk, sure, x",
    ),
    (DECIDE, '{"X": [1, 2, 3]}', 422, "x", "x is missing"),
    (DECIDE, '{"x": [1, 2, 3], "id": 5}', 422, "id", "id is 5, but must be a string"),
    (DECIDE, '{"x": [1, 2, 3], "id": ""}', 422, "id", "id is '', but must be a string of length 1 or more"),
    (DECIDE, '{"x": [1, 2, 3], "id": "%s"}' % ("a" * 201), 422, "id", "must be a string of length 200 or less"),
    (DECIDE, ' \n [{"x": [1, 2, 3]}, {"x": [1, "b", 3]}]', 422, "[1].x[1]", "[1].x[1] is 'b', but must be a number"),
    (DECIDE, '[{"x": [1, 2, 3]}, 7]', 422, "[1]", "[1] is 7, but must be an object"),
    (DECIDE, "7", 400, None, "the body is JSON, but must be an object or a list of them"),
    (DECIDE, '"text"', 400, None, "must be an object"),
    (DECIDE, "", 400, None, "the body is empty"),
    (DECIDE, '{"x": [1, 2, 3]', 400, None, "the body is not valid JSON: EOF"),
    (DECIDE, '{"x": [1, 2, 3]} {}', 400, None, "trailing characters"),
    (DECIDE, "{'x': [1, 2, 3]}", 400, None, "not valid JSON"),
    (DECIDE, '{"x": [1, 2, 1%s]}' % ("0" * 5000), 400, None, "number out of range"),
    (DECIDE, '{"x": ' + "[" * 10_000 + "]" * 10_000 + "}", 400, None, "recursion limit exceeded"),
    (DECIDE, '{"x": ' + '{"a":' * 20_000 + "1" + "}" * 20_001, 400, None, "recursion limit exceeded"),
    (DECIDE, '{"x": "\\ud800"}', 422, None, "half a character"),
    (DECIDE, b'{"x": "\xff"}', 400, None, "not valid JSON"),
    (DECIDE, b'\xef\xbb\xbf{"x": [1, 2, 3]}', 400, None, "not valid JSON"),
    (DECIDE, '{"x": [1, 2, 3]}'.encode("utf-16"), 400, None, "not valid JSON"),
    ("/v1/tasks/fruit/feedback", '{"id": "a", "right": 1}', 422, "right", "right is 1, but must be true or false"),
    (
        "/v1/tasks/fruit/feedback",
        '{"id": "a", "right": "yes"}',
        422,
        "right",
        "right is 'yes', but must be true or false",
    ),
    (
        "/v1/tasks/fruit/feedback",
        '{"id": "a", "right": true, "shown": 1.5}',
        422,
        "shown",
        "shown is 1.5, but must be a string or an integer",
    ),
    (
        "/v1/tasks/fruit/feedback",
        '{"id": "a", "right": true, "shown": "plum", "shown_propensity": 0}',
        422,
        "shown_propensity",
        "shown_propensity is 0, but must be greater than 0",
    ),
    ("/v1/tasks/fruit/feedback", '{"id": "a", "right": true, "shown": "plum"}', 422, "shown", "'plum'"),
    ("/v1/tasks", '{"name": "../a"}', 422, "name", "name is '../a', but must be 1 to 100 letters"),
    ("/v1/tasks", '{"name": "a", "classes": 1, "features": {"kind": "text"}}', 422, "classes", "at least 2"),
    (
        "/v1/tasks",
        TASK + ', "features": {"kind": "sound"}}',
        422,
        "features.kind",
        "must be one of 'numbers', 'dict', 'text'",
    ),
    ("/v1/tasks", TASK + ', "features": {}}', 422, "features.kind", "features.kind is missing"),
    ("/v1/tasks", TASK + ', "features": {"kind": "numbers"}}', 422, "features.size", "features.size is missing"),
    (
        "/v1/tasks",
        TASK + ', "features": {"kind": "numbers", "size": "3"}}',
        422,
        "features.size",
        "must be an integer",
    ),
    (
        "/v1/tasks",
        TASK + ', "classes": ["a", 1.5]}',
        422,
        "classes[1]",
        "classes[1] is 1.5, but must be a string or an integer",
    ),
    (
        "/v1/tasks",
        TASK + ', "mode": "lern"}',
        422,
        "mode",
        "mode is 'lern', but must be 'learn', 'shadow' or 'log-only'",
    ),
    ("/v1/tasks", TASK + ', "deadline": 5}', 422, "deadline", "did you mean 'deadline_s'?"),
    ("/v1/tasks", TASK + ', "deadline_s": -5}', 422, "deadline_s", "deadline_s is -5, but must be greater than 0"),
    ("/v1/tasks", TASK + ', "seed": 1e30}', 422, "seed", "must be an integer"),
]


@pytest.mark.parametrize(("path", "body", "status", "field", "words"), SENTENCES)
def test_a_sentence_says_what_is_wrong_and_where(
    site: Site, path: str, body: str | bytes, status: int, field: str | None, words: str
) -> None:
    answer = site.ask("POST", path, content=body)
    assert answer.status_code == status, answer.text
    error = error_in(answer.content)
    assert error["field"] == field, error
    assert words in error["message"]
    assert len(error["message"]) < 500


@pytest.mark.parametrize(
    "more",
    [
        {"parameters": {"exploration": "no"}},
        {"parameters": {"exploration": None}},
        {"parameters": {"exploration": [[[]]]}},
        {"parameters": {"exploration": 10**400}},
        {"parameters": {"exploration": -1}},
        {"parameters": {"expl": 0.1}},
        {"parameters": {"classes": 3}},
        {"parameters": {"seed": 3}},
        {"learner": "nobody"},
        {"learner": "perceptron"},
        {"classes": ["a", "a"]},
        {"classes": [1, "1"]},
        {"classes": 10_000, "features": {"kind": "text", "hash_bits": 26}},
        {"items": "nothing"},
        {"items": "../../etc/passwd"},
        {"display": {"kind": "image", "width": 8, "height": 8}},
        {"exploration_floor": 1.5},
    ],
)
def test_tasks_that_cannot_be(site: Site, more: dict[str, Any]) -> None:
    answer = site.ask("POST", "/v1/tasks", content=json.dumps({**NEW, "name": "other", **more}))
    assert answer.status_code == 422, answer.text
    error_in(answer.content)
    assert [task["name"] for task in site.ask("GET", "/v1/tasks").json()["tasks"]] == ["fruit"]


def test_parameters_that_are_no_numbers(site: Site) -> None:
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        content = TASK + f', "name": "other", "parameters": {{"exploration": {number}}}}}'
        answer = site.ask("POST", "/v1/tasks", content=content)
        assert answer.status_code == 422, answer.text


def test_a_body_that_says_how_large_it_is_is_not_read(site: Site) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b" " * 2**20

    answer = site.ask("POST", DECIDE, content=endless(), headers={"content-length": str(100 * 2**20)})
    assert answer.status_code == 413
    assert error_in(answer.content)["message"].startswith(f"the body is larger than {MOST:,} bytes")
    assert read == 0


def test_a_body_that_does_not_is_read_no_further_than_it_may_be(site: Site) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while read < 100 * 2**20:
            read += 2**16
            yield b" " * 2**16

    answer = site.ask("POST", DECIDE, content=endless())
    assert answer.status_code == 413
    assert read <= MOST + 2**16


def test_the_largest_body_is_taken(site: Site) -> None:
    body = b'{"x": [1, 2, 3]}'
    assert site.ask("POST", DECIDE, content=body.ljust(MOST)).status_code == 200
    assert site.ask("POST", DECIDE, content=body.ljust(MOST + 1)).status_code == 413


def test_a_body_in_pieces_is_one_body(site: Site) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for letter in b'{"x": [1, 2, 3], "id": "\xc3\xa4"}':
            yield bytes([letter])

    assert site.ask("POST", DECIDE, content=pieces()).json()["id"] == "ä"


def test_one_or_many(site: Site) -> None:
    one = site.ask("POST", DECIDE, json={"id": "one", "x": [1, 2, 3]}).json()
    many = site.ask("POST", DECIDE, json=[{"id": "one", "x": [1, 2, 3]}, {"x": [3, 2, 1]}]).json()
    assert many[0] == one
    assert TypeAdapter(DecisionReply).validate_python(many[1])
    assert site.ask("POST", DECIDE, json=[]).json() == []
    heard = [{"id": "one", "right": True}, {"id": "one", "right": True}, {"id": "nobody", "right": True}]
    answer = site.ask("POST", "/v1/tasks/fruit/feedback", json=heard)
    assert answer.status_code == 200
    assert [one["status"] for one in answer.json()] == ["accepted", "duplicate", "unknown"]


def reader(declared: Any) -> BodyReader:
    return BodyReader(declared, Settings(data=Path()), HeavyWork())


READERS: dict[str, BodyReader] = {
    "asks": reader(requests.DecideRequest | list[requests.DecideRequest]),
    "hints": reader(requests.FeedbackRequest | list[requests.FeedbackRequest]),
    "task": reader(requests.NewTask),
    "change": reader(requests.Change),
    "learner": reader(requests.NewLearner),
}
WORDS = st.sampled_from(
    [*requests.NewTask.model_fields, *requests.FeedbackRequest.model_fields, "x", "kind", "size", "list[float]", "str"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.parametrize("name", READERS)
@profile(max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=ANY_JSON)
def test_any_json_is_a_value_or_a_refusal(name: str, body: object) -> None:
    try:
        answer = asyncio.run(READERS[name].read(json.dumps(body).encode()))
    except RequestError as refusal:
        answer = refusal
    if isinstance(answer, RequestError):
        assert answer.status in (400, 422)
        assert answer.message
        assert "\n" not in answer.message
    else:
        assert isinstance(answer, BaseModel | list)


@pytest.mark.parametrize("name", READERS)
@profile(max_examples=300, derandomize=True, deadline=None)
@given(body=st.binary(max_size=30))
def test_any_bytes_are_a_refusal(name: str, body: bytes) -> None:
    with pytest.raises(RequestError):
        asyncio.run(READERS[name].read(b"\x80" + body))
