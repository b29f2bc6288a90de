"""A database that dies in the middle of a command: one sentence, exit code 2, no secret in it, and the same command does its work when the database is back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import onebit
from onebit.cli import main
from onebit.service.maintenance.check import check
from onebit.service.maintenance.copy import copy
from tests.service.postgres import Server, needs_postgres, server

pytestmark = [pytest.mark.long, needs_postgres]
COMMANDS: dict[str, list[str]] = {
    "export": ["export", "{log}", "fruit", "--format", "ndjson", "--quiet"],
    "evaluate": ["evaluate", "{log}", "fruit", "--learner", "banditron", "--quiet"],
    "replay": ["replay", "{log}", "fruit", "--learner", "banditron", "--quiet"],
    "check": ["check", "{log}"],
    "copy": ["copy", "{log}", "{new}"],
    "token": ["token", "create", "--log", "{log}", "--scope", "read"],
    "forget": ["forget", "{log}", "fruit", "--id", "7"],
    "archive": ["archive", "{log}", "fruit", "--to", "{new}"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More decisions than are read in one go."""
    path = tmp_path_factory.mktemp("dying") / "data"
    options: dict[str, Any] = {"classes": ["a", "b"], "features": 2, "learner": "banditron", "seed": 1}
    with onebit.open(path, "fruit", durable="soon", **options) as task:
        for number in range(1100):
            decision = task.decide([number % 5, 1.0], id=str(number))
            task.feedback(decision, right=number % 3 == 0)
    return path


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server that has all that was committed when it is killed, though not if its machine were."""
    with server(fsync="off", full_page_writes="off") as one:
        yield one


class Statements:
    """All that is sent to a server, and what is done before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self.before: dict[int, Callable[[], None]] = {}
        for name in ("execute", "executemany", "stream", "copy"):
            patch.setattr(psycopg.Cursor, name, self._noticed(getattr(psycopg.Cursor, name)))

    def _noticed(self, sends: Callable[..., Any]) -> Callable[..., Any]:
        def send(*given: Any, **named: Any) -> Any:
            self.sent += 1
            self.before.pop(self.sent, lambda: None)()
            return sends(*given, **named)

        return send


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_in_one_sentence_that_its_database_has_died(
    command: str,
    folder: Path,
    mortal: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    address = mortal.log()
    copy(str(folder), address)
    words = [word.format(log=address.replace("@", ":secret@"), new=tmp_path / "new") for word in COMMANDS[command]]
    statements = Statements(monkeypatch)
    # As soon as it has connected and looked, and in the middle; a command that changes something has more to lose later.
    for moment in (3, 6) if command != "forget" else (3, 60):
        statements.sent, statements.before = 0, {moment: mortal.kill}
        code = main(words)
        said = capfd.readouterr().err
        assert not statements.before, f"it sends {statements.sent} statements alone"
        mortal.start()
        assert (code, len(said.splitlines())) == (2, 1), said
        assert said.startswith("onebit: ")
        assert "secret" not in said
    assert main(words) == 0
    assert check(address).fine


def test_rows_that_are_on_their_way_when_it_dies(
    folder: Path, mortal: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    address = mortal.log()
    copy(str(folder), address)
    stream = psycopg.Cursor.stream

    def cut(self: psycopg.Cursor, *given: Any) -> Iterator[Any]:
        for number, row in enumerate(stream(self, *given)):
            if number == 1:
                mortal.kill()
            yield row

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Cursor, "stream", cut)
        code = main(["export", address, "fruit", "--format", "ndjson", "--quiet"])
    said = capfd.readouterr().err
    mortal.start()
    assert (code, len(said.splitlines())) == (2, 1), said
