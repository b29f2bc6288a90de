"""Tokens: what is kept of them, who is let in, and the command that makes them."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import multiprocessing
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onebit.cli import main
from onebit.errors import OnebitError
from onebit.service.errors import UnauthorizedError, UnavailableError
from onebit.service.tokens import SCOPES, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


def test_what_is_kept_is_a_hash_and_for_nobody_else(tokens: Tokens) -> None:
    text = tokens.create(["feedback", "decide", "decide"], ["digits"], "for the shop")
    found = re.fullmatch(r"onebit_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", text)
    assert found
    identity, secret = found.groups()
    kept = json.loads(tokens.path.read_text())["tokens"]
    assert [one["id"] for one in kept] == [identity]
    assert kept[0]["digest"] == hashlib.sha256(secret.encode()).hexdigest()
    assert kept[0]["scopes"] == ["decide", "feedback"]
    assert kept[0]["tasks"] == ["digits"]
    assert kept[0]["name"] == "for the shop"
    assert secret not in tokens.path.read_text()
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600


def test_two_tokens_have_nothing_in_common(tokens: Tokens) -> None:
    first, second = (tokens.create(["read"]).split("_", 2) for _ in range(2))
    assert first[1] != second[1]
    assert first[2] != second[2]


def test_who_shows_a_token(tokens: Tokens) -> None:
    who = tokens.check(tokens.create(["decide"], ["a", "b"]))
    assert who.scopes == {"decide"}
    assert who.sees("a")
    assert not who.sees("c")
    admin = tokens.check(tokens.create(["admin"]))
    assert admin.scopes == set(SCOPES)
    assert admin.sees("c")


def test_what_is_not_a_token_is_refused(tokens: Tokens) -> None:
    text = tokens.create(["admin"])
    identity = text.split("_")[1]
    other = tokens.create(["read"])
    wrong = [
        *(
            None,
            "",
            "_",
            "__",
            "onebit",
            "onebit__",
            f"onebit_{identity}",
            f"onebit_{identity}_",
            text[:-1],
            text + "a",
        ),
        *(text.upper(), " " + text, text.replace("onebit", "one"), f"onebit_{identity}_{other.split('_', 2)[2]}"),
        *("onebit_nobody_", "\udc80", "onebit_\udc80_\udc80", f"onebit_{identity}_\udc80"),
    ]
    for one in wrong:
        with pytest.raises(UnauthorizedError):
            tokens.check(one)
    assert tokens.check(text).id == identity


def test_a_revoked_token_is_refused_by_a_service_that_runs(tokens: Tokens) -> None:
    running = Tokens(tokens.path)
    kept, lost = tokens.create(["read"]), tokens.create(["read"])
    assert running.check(lost).id
    revoked = tokens.revoke(lost.split("_")[1])
    assert revoked.revoked is not None
    with pytest.raises(UnauthorizedError, match="revoked"):
        running.check(lost)
    assert running.check(kept).id
    assert tokens.revoke(lost) == revoked  # again, by its text: the first time counts


def is_open(tokens: Tokens) -> bool:
    return tokens.open


def test_a_service_without_a_file_is_open_and_closes_for_good(tokens: Tokens) -> None:
    running = Tokens(tokens.path)
    assert is_open(running)
    assert running.check(None).scopes == set(SCOPES)
    text = tokens.create(["read"])
    assert not is_open(running)
    with pytest.raises(UnauthorizedError):
        running.check(None)
    tokens.revoke(text)
    assert not is_open(running)  # nobody has a token, and yet not everybody is let in
    with pytest.raises(UnauthorizedError):
        running.check(None)
    tokens.path.unlink()
    assert not is_open(running)
    with pytest.raises(UnavailableError, match="missing"):
        running.check(None)
    again = tokens.create(["read"])
    assert running.check(again).id


DAMAGED: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "other JSON": lambda text: "[]",
    "no hash": lambda text: text.replace('"digest"', '"digst"'),
    "another format": lambda text: text.replace('"format": 1', '"format": 2'),
    "an unknown scope": lambda text: text.replace('"read"', '"root"'),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_not_taken_and_those_read_before_go_on(tokens: Tokens, damage: str) -> None:
    text = tokens.create(["read"])
    whole = tokens.path.read_text()
    running = Tokens(tokens.path)
    assert running.check(text).id
    tokens.path.write_text(DAMAGED[damage](whole))
    assert running.check(text).id
    with pytest.raises(UnauthorizedError):
        running.check(None)
    assert "damaged" in str(running.trouble)
    assert "later revocations are not seen" in str(running.trouble)
    assert not is_open(running)
    new = Tokens(tokens.path)  # who has read none before lets nobody in
    assert not is_open(new)
    for one in (text, None):
        with pytest.raises(UnavailableError, match="all requests are refused until it is repaired"):
            new.check(one)
    with pytest.raises(OnebitError, match="not a token file, or is damaged"):
        tokens.create(["read"])  # and it is not overwritten
    tokens.path.write_text(whole)
    for service in (running, new):
        assert service.check(text).id
        assert service.trouble is None


class Failures:
    """A disk that does not let a file be read while `error` is set, and a clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.now = 1000.0
        real = Path.read_bytes

        def read(path: Path) -> bytes:
            if self.error is not None:
                raise self.error
            return real(path)

        monkeypatch.setattr(Path, "read_bytes", read)
        monkeypatch.setattr("onebit.service.tokens.time.monotonic", lambda: self.now)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO, errno.EISDIR])
def test_a_passing_failure_to_read_locks_nobody_out(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    first = tokens.create(["read"])
    failures = Failures(monkeypatch)
    running = Tokens(tokens.path)
    assert running.check(first).id
    second = tokens.create(["read"])
    failures.error = OSError(error, os.strerror(error))
    with caplog.at_level(logging.INFO, "onebit.service"):
        for _ in range(1000):
            assert running.check(first).id
            with pytest.raises(UnauthorizedError):
                running.check(second)  # it is not known yet
        failures.now += 59.0
        assert (running.trouble or "") != ""
        assert [record.__dict__["event"] for record in caplog.records] == ["tokens-unread"]
        assert os.strerror(error) in caplog.text
        failures.now += 2.0
        assert running.check(first).id
        assert [record.__dict__["event"] for record in caplog.records] == ["tokens-unread"] * 2
        failures.error = None  # nothing about the file changes
        failures.now += 2.0
        assert running.check(second).id
        assert running.trouble is None
        assert caplog.records[-1].__dict__["event"] == "tokens-read"


@pytest.mark.parametrize("error", [errno.EMFILE, errno.EACCES])
def test_a_failure_at_the_first_look_heals_too(tokens: Tokens, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    text = tokens.create(["read"])
    failures = Failures(monkeypatch)
    failures.error = OSError(error, os.strerror(error))
    running = Tokens(tokens.path)
    assert not is_open(running)
    with pytest.raises(UnavailableError, match="all requests are refused"):
        running.check(text)
    failures.error = None
    failures.now += 2.0
    assert running.check(text).id
    with pytest.raises(UnauthorizedError):
        running.check(None)


def test_something_else_in_the_place_of_the_file(tokens: Tokens) -> None:
    text = tokens.create(["read"])
    running = Tokens(tokens.path)
    assert running.check(text).id
    whole = tokens.path.read_bytes()
    for other in (Path.mkdir, os.mkfifo):
        tokens.path.unlink()
        other(tokens.path)
        assert running.check(text).id
        assert not is_open(running)
        with pytest.raises(UnavailableError):
            Tokens(tokens.path).check(text)
        tokens.path.rmdir() if tokens.path.is_dir() else tokens.path.unlink()
        tokens.path.write_bytes(whole)
        assert running.check(text).id
        assert running.trouble is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_and_the_mode_are_kept_where_root_makes_a_token(tmp_path: Path) -> None:
    folder = tmp_path / "service"
    folder.mkdir()
    os.chown(folder, 1234, 1235)
    tokens = Tokens(folder / "tokens.json")
    text = tokens.create(["read"])
    made = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in folder.iterdir()}
    assert made == {"tokens.json": (1234, 1235), ".tokens.json.lock": (1234, 1235)}
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    os.chown(tokens.path, 1236, 1237)  # as somebody has set it
    tokens.path.chmod(0o640)
    tokens.revoke(text)
    kept = tokens.path.stat()
    assert (kept.st_uid, kept.st_gid, stat.S_IMODE(kept.st_mode)) == (1236, 1237, 0o640)


def test_a_token_expires(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr("onebit.service.tokens.time.time", lambda: now[0])
    running = Tokens(tokens.path)
    short, long = tokens.create(["read"], expires=now[0] + 3600.0), tokens.create(["read"])
    assert running.check(short).id
    now[0] += 3600.0
    with pytest.raises(UnauthorizedError, match="the token expired at 2027-01-15 09:00 UTC"):
        running.check(short)
    with pytest.raises(UnauthorizedError, match="unknown or was revoked"):
        running.check(short[:-1])  # who does not know the secret does not learn of it
    assert running.check(long).id
    with pytest.raises(OnebitError, match="expiry of a token must be in the future"):
        tokens.create(["read"], expires=now[0])


def test_a_file_that_cannot_be_looked_at_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    running = Tokens(tmp_path / "file" / "tokens.json")
    assert not is_open(running)
    with pytest.raises(UnavailableError):
        running.check(None)


@pytest.mark.parametrize(
    ("scopes", "tasks", "sentence"),
    [
        ([], [], "a token needs a scope"),
        (["raed"], [], "'raed' is not a scope; did you mean 'read'"),
        (["read"], ["../etc"], "cannot be the name of a task"),
        (["read"], ["a\n"], "cannot be the name of a task"),
    ],
)
def test_what_no_token_can_be_made_of(tokens: Tokens, scopes: list[str], tasks: list[str], sentence: str) -> None:
    with pytest.raises(OnebitError, match=sentence):
        tokens.create(scopes, tasks)
    assert not tokens.path.exists()


def create_ten(path: Path) -> None:
    for _ in range(10):
        Tokens(path).create(["read"])


def test_several_processes_make_tokens_at_once_and_none_is_lost(tokens: Tokens) -> None:
    context = multiprocessing.get_context("spawn")
    makers = [context.Process(target=create_ten, args=(tokens.path,)) for _ in range(3)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert [maker.exitcode for maker in makers] == [0, 0, 0]
    assert len({token.id for token in tokens.listed()}) == 30


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "service"
    assert main(["token", "create", "--data", str(folder), "--scope", "decide,feedback", "--task", "digits"]) == 0
    out, err = capsys.readouterr()
    text = out.rstrip("\n")
    assert "only time" in err
    tokens = Tokens(folder / "tokens.json")
    assert tokens.check(text).tasks == frozenset({"digits"})
    monkeypatch.setenv("ONEBIT_SERVE_DATA", str(folder))
    assert main(["token", "create", "--scope", "admin", "--name", "for me"]) == 0
    capsys.readouterr()
    assert main(["token", "list", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(one["scopes"], one["tasks"], one["name"]) for one in shown] == [
        (["decide", "feedback"], ["digits"], None),
        (["admin"], None, "for me"),
    ]
    assert all("digest" not in one for one in shown)
    identity = text.split("_")[1]
    assert main(["token", "revoke", identity]) == 0
    capsys.readouterr()
    assert main(["token", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert identity in first
    assert "revoked" in first
    assert "digits" in first
    assert "all tasks" in second
    assert "for me" in second
    assert "revoked" not in second
    assert main(["token", "create", "--scope", "read", "--expires", "90d"]) == 0
    assert main(["token", "create", "--scope", "read", "--expires", "2999-01-01"]) == 0
    capsys.readouterr()
    assert main(["token", "list"]) == 0
    soon, later = capsys.readouterr().out.splitlines()[-2:]
    assert re.search(r"expires \d{4}-\d\d-\d\d \d\d:\d\d$", soon)
    assert "expires 2999-01-01 00:00" in later
    assert tokens.listed()[-2].expires == pytest.approx(time.time() + 90 * 86_400, abs=600)
    file = tmp_path / "elsewhere.json"
    assert main(["token", "create", "--scope", "read", "--token-file", str(file)]) == 0
    assert len(Tokens(file).listed()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create", "--scope", "read"], "--data DIR is missing"),
        (["create", "--data", "."], "a token needs a scope: decide, feedback, read, admin"),
        (["create", "--data", ".", "--scope", "reed"], "did you mean 'read'"),
        (["create", "abc", "--data", ".", "--scope", "read"], "takes no ID"),
        (["revoke", "--data", "."], "ID is missing"),
        (["revoke", "abc", "--data", "."], "there is no token 'abc'"),
        (["list", "--data", ".", "--scope", "read"], "--scope applies only to `onebit token create`"),
        (["list", "--data", ".", "--expires", "1d"], "--expires applies only to `onebit token create`"),
        (["create", "--data", ".", "--scope", "read", "--expires", "soon"], "'soon' is not a time: give one such as"),
        (
            ["create", "--data", ".", "--scope", "read", "--expires", "2001-01-01"],
            "is in the past, but must be in the future",
        ),
        (["create", "--data", ".", "--scope", "read", "--expires", "0d"], "is in the past, but must be in the future"),
        (["create", "--data", ".", "--scope", "read", "--expires", "999999999w"], "is not a time"),
        (["create", "--data", ".", "--scope", "read", "--name", "a\nb"], "must be printable"),
        (["create", "--data", ".", "--scope", "read", "--name", "\udc80"], "must be printable"),
        (["make", "--data", "."], "invalid choice: 'make'"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONEBIT_SERVE_DATA", raising=False)
    assert main(["token", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1
    assert not (tmp_path / "tokens.json").exists()


def test_the_folder_remembers_that_there_were_tokens(tmp_path: Path) -> None:
    """Also where the process that knew is gone, and so is the file: nobody is let in by that."""
    path, closed = tmp_path / "tokens.json", tmp_path / "closed"
    assert Tokens(path, closed).open
    assert not closed.exists()
    Tokens(path).create(["read"])
    assert not Tokens(path, closed).open
    path.unlink()
    assert not Tokens(path, closed).open
    with pytest.raises(UnavailableError):
        Tokens(path, closed).check(None)
