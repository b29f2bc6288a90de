"""NUL and half a character, which no database holds, wherever a request has a text: 404 where it is looked up, 422 where it is given, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.service.errors import InvalidError, NotFoundError
from tests.cli.call import Call
from tests.service.driving import Where
from tests.service.site import Process, Site, error_in, everything_from, process_in, site_in

TEXTS = {
    "nul": "\\u0000",
    "nul inside": "a\\u0000b",
    "high half": "\\ud800",
    "low half": "a\\udc00b",
}  # as JSON has them
ENCODED = ["%00", "a%00b", "%ED%A0%80", "a%ED%B0%80", "%FF"]  # as addresses have them; the last three are no UTF-8
TASKS = {
    "numbers": '{"kind": "numbers", "size": 2}',
    "names": '{"kind": "dict", "hash_bits": 4}',
    "words": '{"kind": "text", "hash_bits": 4}',
}
# Where a text is given in the body of a request.
GIVEN = {
    "name of a task": ("POST", "/v1/tasks", '{"name": "%s", "classes": 2, "features": {"kind": "text"}}'),
    "class": ("POST", "/v1/tasks", '{"name": "new", "classes": ["a", "%s"], "features": {"kind": "text"}}'),
    "kind": ("POST", "/v1/tasks", '{"name": "new", "classes": 2, "features": {"kind": "%s"}}'),
    "learner": ("POST", "/v1/tasks", '{"name": "new", "classes": 2, "learner": "%s", "features": {"kind": "text"}}'),
    "items": ("POST", "/v1/tasks", '{"name": "new", "classes": 2, "items": "%s", "features": {"kind": "text"}}'),
    "parameter": ("POST", "/v1/tasks/numbers/learner", '{"learner": "bpa", "parameters": {"%s": 1}}'),
    "value of a parameter": ("POST", "/v1/tasks/numbers/learner", '{"learner": "bpa", "parameters": {"kernel": "%s"}}'),
    "other learner": ("POST", "/v1/tasks/numbers/learner", '{"learner": "%s"}'),
    "added class": ("PATCH", "/v1/tasks/numbers", '{"add_classes": ["%s"]}'),
    "removed class": ("PATCH", "/v1/tasks/numbers", '{"remove_classes": ["%s"]}'),
    "mode": ("PATCH", "/v1/tasks/numbers", '{"mode": "%s"}'),
    "unknown field": ("PATCH", "/v1/tasks/numbers", '{"%s": 1}'),
    "id": ("POST", "/v1/tasks/numbers/decide", '{"id": "%s", "x": [1, 2]}'),
    "id in a list": ("POST", "/v1/tasks/numbers/decide", '[{"x": [1, 2]}, {"id": "%s", "x": [1, 2]}]'),
    "candidate": ("POST", "/v1/tasks/numbers/decide", '{"x": [1, 2], "among": ["a", "%s"]}'),
    "name of a feature": ("POST", "/v1/tasks/names/decide", '{"x": {"a": 1, "%s": 2}}'),
    "text": ("POST", "/v1/tasks/words/decide", '{"x": "%s"}'),
    "text of another kind": ("POST", "/v1/tasks/numbers/decide", '{"x": "%s"}'),
    "id of a feedback": ("POST", "/v1/tasks/numbers/feedback", '{"id": "%s", "right": true}'),
    "id of a feedback in a list": ("POST", "/v1/tasks/numbers/feedback", '[{"id": "%s", "right": true}]'),
    "id of a withdrawal": ("POST", "/v1/tasks/numbers/feedback", '{"id": "%s", "withdraw": true}'),
    "truth": ("POST", "/v1/tasks/numbers/feedback", '{"id": "known", "truth": "%s"}'),
    "shown": ("POST", "/v1/tasks/numbers/feedback", '{"id": "known", "right": true, "shown": "%s"}'),
    "forgotten id": ("POST", "/v1/tasks/numbers/forget", '{"ids": ["%s"]}'),
}
LOOKED_UP = [
    "/v1/tasks/{text}",
    "/v1/tasks/{text}/stats",
    "/v1/tasks/{text}/decisions",
    "/v1/tasks/{text}/decisions/known",
    "/v1/tasks/numbers/decisions/{text}",
    "/v1/tasks/numbers/explanation?id={text}",
    "/v1/tasks/{text}/explanation?id=known",
    "/v1/tasks/numbers/stats?window={text}",
    "/v1/tasks/numbers/decisions?before={text}",
    "/v1/tasks/numbers/decisions?{text}=1",
    "/v1/tasks/numbers/item?number={text}",
    "/assets/{text}",
    "/{text}",
]


@pytest.fixture
def site(where: Where, tmp_path: Path) -> Iterator[Site]:
    log: dict[str, Any] = {"log": where} if isinstance(where, str) else {}
    with site_in(tmp_path / "data", **log) as made:
        for name, features in TASKS.items():
            new = f'{{"name": "{name}", "classes": ["a", "b"], "learner": "banditron", "features": {features}}}'
            assert made.ask("POST", "/v1/tasks", content=new).status_code == 201
        known = '{"id": "known", "x": [1, 2]}'
        assert made.ask("POST", "/v1/tasks/numbers/decide", content=known).status_code == 200
        yield made


def test_every_text_of_a_request(site: Site) -> None:
    for what, (method, path, body) in GIVEN.items():
        for text in TEXTS.values():
            reply = site.ask(method, path, content=body % text)
            assert reply.status_code in (404, 422), (what, text, reply.text)
            assert error_in(reply.content)["message"]
    for path in LOOKED_UP:
        for text in ENCODED:
            reply = site.ask("GET", path.format(text=text))
            assert reply.status_code in (404, 422), (path, text, reply.text)
    for text in ENCODED:
        assert site.ask("DELETE", f"/v1/tasks/{text}").status_code == 404
    assert site.ask("GET", "/readyz").status_code == 200
    assert site.ask("POST", "/v1/tasks/numbers/feedback", json={"id": "known", "right": True}).status_code == 200
    assert [one["name"] for one in site.ask("GET", "/v1/tasks").json()["tasks"]] == list(TASKS)
    assert len(site.ask("GET", "/v1/tasks/numbers/decisions").json()["decisions"]) == 1


def test_every_token(site: Site) -> None:
    site.app.tokens.create(["read"])
    while site.ask("GET", "/v1/tasks").status_code == 200:  # a node hears of the first token
        pass
    for token in (b"\0", b"onebit_\0_\0", b"onebit_\xed\xa0\x80_a", b"\xff"):
        for headers in ({"authorization": b"Bearer " + token}, {"cookie": b"onebit_token=" + token}):
            reply = site.ask("GET", "/v1/tasks", headers=headers)
            assert reply.status_code == 401, (token, reply.text)


def test_the_paths_of_a_server(tmp_path: Path) -> None:
    """As its own reader of HTTP decodes them."""

    def status(process: Process, path: str) -> int:
        with process.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            return int(everything_from(connection)[9:12])

    with process_in(tmp_path) as process:
        with process.connect() as connection:
            body = (
                b'{"name": "numbers", "classes": 2, "learner": "banditron", "features": {"kind": "numbers", "size": 2}}'
            )
            head = f"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            assert everything_from(connection)[9:12] == b"201"
        for path in LOOKED_UP:
            for text in ENCODED:
                assert status(process, path.format(text=text)) in (404, 422), (path, text)
        assert status(process, "/readyz") == 200


def test_an_open_task(where: Where) -> None:
    with onebit.open(str(where), "fruit", classes=["a", "b"], learner="banditron", features=2) as task:
        task.decide([1.0, 2.0], id="known")
        for text in ("\0", "a\0b", "\ud800"):
            for refused in (
                lambda: task.decide([1.0, 2.0], id=text),  # noqa: B023 - called at once
                lambda: task.feedback(text, right=True),  # noqa: B023
                lambda: task.feedback("known", truth=text),  # noqa: B023
                lambda: task.withdraw(text),  # noqa: B023
            ):
                with pytest.raises((InvalidError, NotFoundError)):
                    refused()
            with pytest.raises(NotFoundError, match="no decision"):
                task.decision(text)
        assert task.feedback("known", right=True).status == "accepted"


def test_a_command(where: Where, tmp_path: Path, call: Call) -> None:
    log = ["--log" if isinstance(where, str) else "--data", str(where)]
    with onebit.open(str(where), "fruit", classes=["a", "b"], learner="banditron", features=2) as task:
        task.decide([1.0, 2.0], id="known")
    for command in (
        ["forget", str(where), "fruit", "--id", "a\udcff"],
        ["forget", str(where), "a\udcff", "--id", "known"],
        ["export", str(where), "a\udcff", "--format", "ndjson", "--out", str(tmp_path / "out")],
        ["token", "create", *log, "--scope", "read", "--name", "a\udcff"],
        ["token", "create", *log, "--scope", "read", "--task", "a\udcff"],
        ["token", "revoke", *log, "a\udcff"],
    ):
        code, _, said = call(*command)
        assert code == 2, (command, said)
        assert len(said.strip().splitlines()) <= 3
