"""A log with every kind of row, written to a folder and to PostgreSQL, with the states that follow from it.

`python -m tests.golden.write` writes it with the other golden files. `tests/service/test_golden.py` starts a service from its rows alone and
compares the states of all learners, bit for bit where there are states of this processor and these versions. On another processor, add its
states with the release that wrote the rows, so that what is expected of later ones was not measured by them:

    git archive RELEASE | tar x -C /tmp/release
    PYTHONPATH=/tmp/release/src python -m tests.golden.every_row tests/golden/1.0.0/every_row
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from onebit.learner.model_file import platform_info
from onebit.service.maintenance.forget import ForgetOrder
from onebit.service.requests import Change, DecideRequest, FeedbackRequest, NewLearner, NewTask
from onebit.service.service import Service
from onebit.service.store.postgres.schema import connect
from onebit.service.store.sqlite.schema import FILE
from tests.service.driving import service_in, states, until_silence
from tests.service.postgres import IN_MEMORY, read_tables, replace_rows, server

CLASSES: list[str | int] = ["ant", "bee", "cat"]
NUMBERS: Any = {"kind": "numbers", "size": 4}
TASKS: dict[str, dict[str, Any]] = {
    "auto": {"learner": "auto", "features": NUMBERS},
    "kernel": {"learner": "banditron", "features": NUMBERS, "parameters": {"kernel": "rbf:0.5", "max_support": 20}},
    "named": {"learner": "thompson", "features": {"kind": "dict", "hash_bits": 6}},
    "rewards": {"learner": "softmax", "features": NUMBERS},
    "shadow": {"learner": "linucb", "features": NUMBERS, "mode": "shadow"},
    "silent": {"learner": "bpa", "features": NUMBERS, "deadline_s": 0.2, "silence": "wrong"},
    "text": {"learner": "auto", "features": {"kind": "text", "hash_bits": 8}},
}
ROUNDS = 30
STATES = "states.json"


def example(task: str, number: int) -> Any:
    """The x of a round: numbers that are exact in any precision."""
    if task == "text":
        return f"word{number % 5} and {'more' if number % 2 else 'less'}"
    if task == "named":
        return {f"f{number % 4}": 1.0, "always": -0.5}
    return [((number * 5 + column * 3) % 8 - 3) / 8.0 for column in range(4)]


def feedback_on(task: str, number: int, answer: dict[str, Any]) -> dict[str, Any]:
    """What is said of a decision: a bit, a reward, the truth, or what was shown instead."""
    truth = CLASSES[number % 3]
    if task == "rewards":
        return {"reward": (number % 5) / 4.0}
    if task == "shadow":
        return {"right": number % 3 == 0, "shown": CLASSES[number % 2], "shown_propensity": 0.5}
    if task == "auto" and number % 4 == 0:
        return {"truth": truth if answer["among"] is None or truth in answer["among"] else answer["label"]}
    return {"right": answer["label"] == truth}


async def play(service: Service, task: str, first: int, count: int = ROUNDS) -> None:
    """Decide and give feedback, every fifth time among two classes; one in seven gets none."""
    for number in range(first, first + count):
        among = CLASSES[:2] if number % 5 == 4 else None
        request = DecideRequest(id=f"{task}-{number}", x=example(task, number), among=among)
        (answer,) = await service.decide(task, [request])
        if number % 7:
            await service.feedback(task, [FeedbackRequest(id=answer["id"], **feedback_on(task, number, answer))])


async def write_rows(service: Service) -> None:
    """Do everything that a log can hold."""
    for name, more in TASKS.items():
        await service.create(NewTask(name=name, classes=list(CLASSES), seed=7, **more))
        await play(service, name, 0)
    for name in ("auto", "rewards"):
        await service.feedback(name, [FeedbackRequest(id=f"{name}-1", right=True, revise=True)])
        await service.feedback(name, [FeedbackRequest(id=f"{name}-2", withdraw=True)])
    await until_silence(service, "silent-0", "silent")
    await service.feedback("silent", [FeedbackRequest(id="silent-0", right=True)])  # too late
    await service.change("auto", Change(add_classes=["dog"]))
    await service.change("silent", Change(mode="log-only", deadline_s=None))
    await service.switch("rewards", NewLearner(learner="epsilon-greedy", seed=8))
    await service.wait_until_switched("rewards")
    await service.forget("named", ForgetOrder(["named-3"], None, False))
    await service.forget("text", ForgetOrder(["text-4"], None, True))
    for name in TASKS:
        await play(service, name, ROUNDS)
    await service.change("auto", Change(remove_classes=["ant"]))
    await play(service, "auto", 2 * ROUNDS)
    await service.create(NewTask(name="deleted", classes=list(CLASSES), learner="bpa", features=NUMBERS, seed=9))
    await play(service, "deleted", 0)
    await service.delete("deleted")


async def hashes(service: Service) -> dict[str, str]:
    """The state of every task that has learnt all its rows, as a hash."""
    found = {}
    for name, (manifest, arrays) in (await states(service)).items():
        about = json.loads(manifest)
        about.pop("platform", None)
        digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
        for key, (dtype, shape, content) in sorted(arrays.items()):
            digest.update(f"{key} {dtype} {shape}".encode() + content)
        found[name] = digest.hexdigest()
    return found


async def _run(where: Path | str, folder: Path) -> None:
    async with service_in(where) as service:
        await write_rows(service)
        add_states(folder, await hashes(service))


def add_states(folder: Path, states: dict[str, str]) -> None:
    """Add the states that follow from the rows of a folder on this processor, with these versions."""
    path = folder / STATES
    known = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*known, {"platform": platform_info(), "states": states}], indent=1) + "\n")


def expected_states(folder: Path) -> dict[str, str] | None:
    """Return the states that were found on this processor with these versions; None if there are none."""
    known = json.loads((folder / STATES).read_text())
    return next((entry["states"] for entry in known if entry["platform"] == platform_info()), None)


async def replay(where: Path | str) -> dict[str, str]:
    """Return the states of a service that starts from the rows of a log."""
    async with service_in(where) as service:
        return await hashes(service)


def add_platform(folder: Path) -> None:
    """Replay both logs on this machine, and add the states that follow."""
    with tempfile.TemporaryDirectory() as temporary:
        shutil.copy(folder / "sqlite" / FILE, temporary)
        add_states(folder / "sqlite", asyncio.run(replay(Path(temporary))))
    with server(**IN_MEMORY) as postgres:
        address = postgres.log()
        restore(folder / "postgres", address)
        add_states(folder / "postgres", asyncio.run(replay(address)))


def write(folder: Path) -> None:
    """Write both logs."""
    sqlite, postgres = folder / "sqlite", folder / "postgres"
    sqlite.mkdir(parents=True)
    postgres.mkdir()
    asyncio.run(_run(sqlite / "running", sqlite))
    shutil.move(sqlite / "running" / FILE, sqlite / FILE)
    shutil.rmtree(sqlite / "running")
    with server(**IN_MEMORY) as one:
        address = one.log()
        asyncio.run(_run(address, postgres))
        with connect(address) as connection:
            connection.execute("DELETE FROM snapshots")
            for table, rows in read_tables(connection):
                (postgres / f"{table}.tsv").write_bytes(rows)


def restore(folder: Path, address: str) -> None:
    """Fill an empty log in PostgreSQL with the rows that were written."""
    with connect(address) as connection:
        for path in sorted(folder.glob("*.tsv")):
            replace_rows(connection, path.stem, path.read_bytes())


if __name__ == "__main__":
    add_platform(Path(sys.argv[1]))
