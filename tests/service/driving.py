"""Driving a service hard: started and stopped in this process, copied as a crash would leave it, compared bit for bit.

The oracle here teaches a plain `Learner` from the rows of the log, one by one. It is written from the design of the service, and shares
no code with the thread that learns.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson

from onebit.errors import OnebitError
from onebit.learner import state
from onebit.learner.learner import Learner
from onebit.service.core.follower import LogFollower
from onebit.service.requests import Change, DecideRequest, FeedbackRequest, NewTask
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.postgres.schema import connect
from onebit.service.store.sqlite.appender import SqliteAppender
from onebit.service.store.sqlite.schema import FILE, connect_to_read
from tests.service.postgres import held_up, image_of, rows_in

PATIENCE_S = 180.0  # after which a test that hangs fails; a learner may have to be compiled first, on a busy machine
TEXT = {"kind": "text", "hash_bits": 8}
State = tuple[str, dict[str, tuple[str, tuple[int, ...], bytes]]]
Where = Path | str  # of a log: a folder, or the address of a database
AnyWhere = TypeVar("AnyWhere", bound=Path | str)


def run(work: Coroutine[Any, Any, Any], patience_s: float = 4 * PATIENCE_S) -> Any:
    """Do it on an event loop of its own; what hangs fails."""
    return asyncio.run(asyncio.wait_for(work, patience_s))


@contextlib.asynccontextmanager
async def service_in(where: Where, **settings: Any) -> AsyncIterator[Service]:
    """A service that runs meanwhile."""
    service = Service(settings_of(where, **settings))
    await service.start()
    try:
        yield service
    finally:
        await asyncio.wait_for(service.stop(), PATIENCE_S)


def settings_of(where: Where, **more: Any) -> Settings:
    """The settings of a service of a log."""
    return Settings(data=Path(), log=where, **more) if isinstance(where, str) else Settings(data=where, **more)


def new_task(name: str = "fruit", **more: Any) -> NewTask:
    """A small task."""
    usual = {"classes": ["a", "b", "c"], "learner": "banditron", "features": {"kind": "numbers", "size": 2}, "seed": 1}
    return NewTask(**{"name": name, **usual, **more})


def ask(identity: str | None, x: Any = (1.0, 2.0), **more: Any) -> DecideRequest:
    return DecideRequest(id=identity, x=list(x) if isinstance(x, tuple) else x, **more)


def hint(identity: str, right: bool | None = True, **more: Any) -> FeedbackRequest:
    return FeedbackRequest(id=identity, right=right, **more)


def withdrawal(identity: str) -> FeedbackRequest:
    return FeedbackRequest(id=identity, withdraw=True)


def change(**what: Any) -> Change:
    return Change(**what)


async def decided(
    service: Service, identity: str, x: Any = (1.0, 2.0), task: str = "fruit", **more: Any
) -> dict[str, Any]:
    """One decision."""
    return (await service.decide(task, [ask(identity, x, **more)]))[0]


async def heard(service: Service, identity: str, right: bool | None = True, task: str = "fruit", **more: Any) -> str:
    """What became of one feedback."""
    return str((await service.feedback(task, [hint(identity, right, **more)]))[0]["status"])


async def until(true: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(patience_s):
        while not true():
            await asyncio.sleep(0.005)


async def until_silence(service: Service, identity: str, task: str = "fruit") -> None:
    """Wait until silence is the answer to a decision."""
    async with asyncio.timeout(PATIENCE_S):
        while (await service.decision(task, identity))["source"] != "silence":
            await asyncio.sleep(0.005)


async def outcome(work: Awaitable[Any]) -> Any:
    """What some work gives, or what it raises."""
    try:
        return await asyncio.wait_for(work, PATIENCE_S)
    except Exception as error:
        return error


def appender_of(service: Service) -> SqliteAppender:
    """What writes the log of a service."""
    appender = service.commits.appender
    assert isinstance(appender, SqliteAppender)
    return appender


# --- the log, as it is on disk ---------------------------------------------------------------------------------------


def rows_of(where: Where, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of the log."""
    if isinstance(where, str):
        return rows_in(where, query, *values)
    with closing(connect_to_read(where / FILE)) as connection:
        return connection.execute(query, values).fetchall()


def numbers_in(where: Where) -> list[int]:
    """The numbers of all rows of the log, rising."""
    return [row[0] for row in everything_in(where)]


def everything_in(where: Where) -> list[tuple[Any, ...]]:
    """All rows of the log in their order."""
    tables = ("changes", "decisions", "feedback", "revisions")
    return sorted((row[0], table, *row[1:]) for table in tables for row in rows_of(where, f"SELECT * FROM {table}"))


def number_of(where: Where, task: str) -> int:
    """The number of the task that has this name now."""
    numbers = [row[0] for row in rows_of(where, "SELECT task FROM changes WHERE kind = 'created' ORDER BY seq")]
    deleted = {row[0] for row in rows_of(where, "SELECT task FROM changes WHERE kind = 'deleted'")}
    named = [
        number
        for number, detail in rows_of(where, "SELECT task, detail FROM changes WHERE kind = 'created' ORDER BY seq")
        if json.loads(detail)["name"] == task and number not in deleted
    ]
    assert len(numbers) == len(set(numbers))
    assert len(named) == 1
    return int(named[0])


@contextlib.contextmanager
def locked(where: Where) -> Iterator[None]:
    """Another program is writing to the log meanwhile."""
    if isinstance(where, str):
        with held_up(where):
            yield
        return
    with closing(sqlite3.connect(where / FILE, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def crash_image(folder: AnyWhere) -> AnyWhere:
    """A copy of a log while its service runs and nothing is being written: what kill -9 would leave."""
    if isinstance(folder, str):
        return image_of(folder)  # type: ignore[return-value]
    number = itertools.count()
    copy = next(one for one in (folder.with_name(f"{folder.name}-{n}") for n in number) if not one.exists())

    def copy_file(one: str, other: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # snapshots are written and removed meanwhile
            shutil.copy2(one, other)

    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("lock", "*-shm"), copy_function=copy_file)
    return copy


def snapshots_in(folder: Where) -> list[Path]:
    """All snapshots, the newest of each task last."""
    if isinstance(folder, str):
        found = rows_in(folder, "SELECT DISTINCT task, name FROM snapshots")
        return sorted(Path("snapshots", str(task), name) for task, name in found)
    return sorted((folder / "snapshots").glob("*/*.onebit"))


def remove_snapshots(where: Where, gone: Sequence[Path]) -> None:
    """Remove some of those that are there."""
    for path in gone:
        if isinstance(where, str):
            with connect(where) as connection:
                connection.execute("DELETE FROM snapshots WHERE task = %s AND name = %s", path.parts[1:])
        else:
            path.unlink()


def without_snapshots(folder: AnyWhere) -> AnyWhere:
    """The same log, but all that is known must come from its rows."""
    if isinstance(folder, str):
        with connect(folder) as connection:
            connection.execute("DELETE FROM snapshots")
        return folder
    shutil.rmtree(folder / "snapshots", ignore_errors=True)
    return folder


# --- states ----------------------------------------------------------------------------------------------------------


def state_of(learner: Learner) -> State:
    """Everything that a learner is, to be compared bit for bit."""
    manifest, arrays = state.dump_state(learner.runtime)
    manifest.pop("identity")
    kept = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}
    return json.dumps(manifest, sort_keys=True), kept


async def followed(service: Service) -> None:
    """Wait until everything that is on disk has been learnt."""
    where = service.settings.where
    for running in list(service.served.values()):
        number = running.info.number
        last = max(
            row[0] or 0
            for table in ("changes", "decisions", "feedback", "revisions")
            for row in rows_of(where, f"SELECT max(seq) FROM {table} WHERE task = ?", number)
        )
        # Not `service.failing`: a database that does not answer for a moment is no reason to look at a learner half-way.
        await until(lambda of=running, last=last: _is_followed(of.follower, last) or of.follower.failing)  # type: ignore[misc]
    assert service.failing is None


def _is_followed(follower: LogFollower, last: int) -> bool:
    """Whether everything up to a position has been learnt, with the last word on it."""
    return follower.position >= last and follower.revised_from is None


async def states(service: Service) -> dict[str, State]:
    """The state of every task, whose two copies are the same."""
    await followed(service)
    found = {}
    for name, running in service.served.items():
        replicas = running.follower.replicas
        both = [state_of(learner) for learner in (replicas._front, replicas._back)]
        (about, arrays), (other_about, other_arrays) = both
        differing = [key for key in arrays if arrays[key] != other_arrays.get(key)]
        assert (about, differing) == (other_about, []), f"the two copies of the learner of {name} differ"
        found[name] = both[0]
    return found


async def restarted(where: Where, **settings: Any) -> dict[str, State]:
    """The states that a service comes to with a log, before it decides anything."""
    async with service_in(where, **settings) as service:
        return await states(service)


def visible(statistics: dict[str, Any]) -> dict[str, Any]:
    """Statistics without what depends on the time at which one looks, or on what the process has read."""
    return {name: value for name, value in statistics.items() if name not in ("rates", "position", "queue")}


# --- processes -------------------------------------------------------------------------------------------------------

_NURSERY = """
import os, sys, tempfile
from pathlib import Path
from onebit.cli import main
import onebit.service.http.process
from tests.service.driving import warmed_up
warmed_up(Path(tempfile.mkdtemp()), sys.argv[1:])
for line in sys.stdin:
    command, *arguments = line.rstrip().split("\\t")
    if command == "start":
        child = os.fork()
        if child == 0:
            errors = os.open(arguments[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(errors, 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)
            os._exit(main(["serve", *arguments[1:]]))
        print(child, flush=True)
    else:
        print(os.waitstatus_to_exitcode(os.waitpid(int(arguments[0]), 0)[1]), flush=True)
"""


def warmed_up(folder: Path, learners: Sequence[str]) -> None:
    """Load what learners need, so that processes which are forked from this one need not."""

    async def work() -> None:
        async with service_in(folder) as service:
            for learner in learners:
                await service.create(new_task(learner, learner=learner))
                await service.create(new_task(f"{learner}-text", learner=learner, features=TEXT))

    run(work())
    shutil.rmtree(folder)


class Nursery:
    """A process that has loaded everything that these learners need, and forks real servers, which then start in a moment."""

    def __init__(self, *learners: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _NURSERY, *learners], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _said(self, *words: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(self, folder: Path, *options: str) -> Life:
        """A server in a folder; it may not listen yet."""
        errors = folder.with_name(f"{folder.name}.{time.monotonic_ns()}.log")
        return self.begin(errors, "--data", str(folder), "--port", "0", *options)

    def begin(self, errors: Path, *options: str) -> Life:
        """A server with these options, which logs to a file."""
        return Life(self, self._said("start", str(errors), *options), errors)

    def wait(self, pid: int) -> int:
        """The exit code of a server that ends; negative where a signal ended it."""
        return self._said("wait", str(pid))

    def close(self) -> None:
        """End; all servers have ended before."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


class Life:
    """One life of a server."""

    def __init__(self, nursery: Nursery, pid: int, errors: Path) -> None:
        self._nursery, self.pid, self._errors = nursery, pid, errors
        self._code: int | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has logged, up to the last whole line."""
        lines = self._errors.read_text().split("\n")[:-1] if self._errors.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself; nobody has waited for it then."""
        return not Path(f"/proc/{self.pid}").exists() or " Z " in Path(f"/proc/{self.pid}/stat").read_text()

    @property
    def port(self) -> int | None:
        """Where it listens, once it does."""
        found = [event["address"] for event in self.events if event["event"] == "listening"]
        return int(found[0].rpartition(":")[2]) if found else None

    async def listens(self) -> int:
        """The port, when it listens."""
        await until(lambda: self.port is not None)
        assert self.port is not None
        return self.port

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, if it has not ended; its exit code."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, how)
            self._code = self._nursery.wait(self.pid)
        return self._code


class Client:
    """One connection; HTTP in its plainest form."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, port: int, **options: Any) -> Client:
        """A new connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, **options))

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        self.writer.write(request_of(method, path, body))
        return await self.answer()

    async def answer(self) -> tuple[int, Any]:
        """The next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        content = await self.reader.readexactly(length)
        return int(head.split()[1]), orjson.loads(content) if content else None


def request_of(method: str, path: str, body: Any = None) -> bytes:
    """The bytes of a request."""
    content = b"" if body is None else orjson.dumps(body)
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (
        method.encode(),
        path.encode(),
        len(content),
        content,
    )


# --- the oracle ------------------------------------------------------------------------------------------------------


def replayed(where: Where, task: str) -> State:
    """The state of a plain learner that is taught the log of a task, one feedback after the other."""
    number = number_of(where, task)
    changes = rows_of(where, "SELECT seq, kind, detail FROM changes WHERE task = ? ORDER BY seq", number)
    created = json.loads(changes[0][2])
    features = created["features"]
    classes = list(created["classes"])
    learner = _learner(created, classes, features)
    generation = 1
    for seq, kind, row in _steps(where, number, changes[1:]):
        if kind == "changed":
            for name in row.get("add_classes", []):
                classes.append(name)
                learner.add_class(name)
        elif kind == "learner":
            generation = row["generation"]
            learner = _trained(where, number, row, created, changes, seq)
        elif kind == "feedback" and row["learn"] and not row["late"]:
            if row["generation"] != generation:
                _learn_of_another(learner, features, row)
            else:
                _learn_of_its_own(learner, features, row)
    return state_of(learner)


def _trained(
    where: Where,
    number: int,
    detail: dict[str, Any],
    created: dict[str, Any],
    changes: list[tuple[Any, ...]],
    before: int,
) -> Learner:
    """A learner that takes over: it was told everything that the log has up to then, from the classes of the beginning on."""
    learner = _learner(detail, created["classes"], created["features"])
    for seq, kind, row in _steps(where, number, changes[1:]):
        if seq >= before:
            break
        if kind == "changed":
            for name in row.get("add_classes", []):
                learner.add_class(name)
        elif kind == "feedback":
            _learn_of_another(learner, created["features"], row)
    return learner


def _learner(detail: dict[str, Any], classes: Sequence[Any], features: dict[str, Any]) -> Learner:
    options = (
        {"features": features["size"]}
        if features["kind"] == "numbers"
        else {"hash_bits": features["hash_bits"], "text": features["kind"] == "text"}
    )
    learner = Learner(
        detail["learner"],
        classes=list(classes),
        seed=detail["seed"],
        exploration_floor=detail["exploration_floor"],
        **options,
        **detail["parameters"],
    )
    if features["kind"] == "numbers":
        learner.runtime.fix_features(np.empty((0, features["size"])))
    learner.runtime.disable_ledger()
    return learner


def _steps(where: Where, number: int, changes: list[tuple[Any, ...]]) -> list[tuple[int, str, dict[str, Any]]]:
    steps = [(seq, kind, json.loads(detail)) for seq, kind, detail in changes]
    steps += [(row["seq"], "feedback", row) for row in _feedback(where, number)]
    return sorted(steps, key=lambda step: step[0])


def _feedback(where: Where, number: int) -> list[dict[str, Any]]:
    names = (
        *("seq", "late", "learn", "right", "shown", "shown_propensity", "reward", "truth"),
        *("id", "generation", "label", "greedy", "weight", "note", "second_note", "propensity", "x"),
        *("among", "complete", "raw", "confidence", "sure"),
    )
    found = rows_of(
        where,
        """SELECT f.seq, f.late, f.learn, f.right, f.shown, f.shown_propensity, f.reward, f.truth,
                  d.id, d.generation, d.label, d.greedy, d.weight, d.note, d.second_note, d.propensity, d.x,
                  d.among, d.complete, d.raw, d.confidence, d.sure
           FROM feedback f JOIN decisions d ON d.seq = f.decision WHERE f.task = ? ORDER BY f.seq""",
        number,
    )
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in found}
    said_names = ("right", "shown", "shown_propensity", "reward", "truth")
    revisions = (
        f"SELECT feedback, {', '.join(f'r.{one}' for one in said_names)} FROM revisions r WHERE task = ? ORDER BY seq"
    )
    for seq, *said in rows_of(where, revisions, number):  # the last word stands in the place of the first
        rows[seq].update(zip(said_names, said, strict=True))
    return [row for row in rows.values() if row["right"] is not None]


def _x(features: dict[str, Any], stored: bytes) -> Any:
    if features["kind"] == "numbers":
        return np.frombuffer(stored, dtype="<f8")
    return stored.decode() if features["kind"] == "text" else orjson.loads(stored)


def _among(learner: Learner, row: dict[str, Any]) -> dict[str, Any]:
    if row["among"] is None:
        return {}
    places = np.frombuffer(row["among"], dtype="<u4")
    if row["shown"] is not None and row["shown"] not in places:
        return {}  # among which that was chosen, nobody knows
    return {"among": [learner.classes[place] for place in places], "complete": bool(row["complete"])}


def _said(learner: Learner, row: dict[str, Any]) -> dict[str, Any]:
    """What is learnt: the truth, or the reward, or one bit."""
    if row["truth"] is not None:
        return {"truth": learner.classes[row["truth"]]}
    return {"right": bool(row["right"])} if row["reward"] is None else {"reward": row["reward"]}


def _learn_of_another(learner: Learner, features: dict[str, Any], row: dict[str, Any]) -> None:
    """From a decision of another learner; late ones, and those that this learner cannot learn, are left out."""
    if row["late"]:
        return
    label = row["label"] if row["shown"] is None else row["shown"]
    propensity = row["propensity"] if row["shown"] is None else row["shown_propensity"]
    with contextlib.suppress(OnebitError):
        decision = learner.from_log(
            _x(features, row["x"]), learner.classes[label], min(propensity, 1.0), row["id"], **_among(learner, row)
        )
        learner.learn(decision, **_said(learner, row))


def _learn_of_its_own(learner: Learner, features: dict[str, Any], row: dict[str, Any]) -> None:
    """From a decision that this learner made, as it noted it then; what was shown in its place had a chance of its own."""
    with contextlib.suppress(OnebitError):
        made = learner.decide(_x(features, row["x"]), row["id"], **_among(learner, row))
        label, weight, propensity = row["label"], row["weight"], row["propensity"]
        if row["shown"] is not None:
            if learner.runtime.rule.notes_the_label and row["shown"] != label:
                return  # what it noted belongs to the label that it chose
            label, weight, propensity = row["shown"], row["shown_propensity"], row["shown_propensity"]
        own = label == row["label"]  # of which it said how sure it was
        learner.learn(
            made._replace(
                label=learner.classes[label],
                propensity=propensity,
                greedy=learner.classes[row["greedy"]],
                weight=weight,
                notes=(row["note"], row["second_note"]),
                raw=row["raw"] if own else None,
                confidence=row["confidence"] if own else None,
                sure=row["sure"] if own else None,
            ),
            **_said(learner, row),
        )
