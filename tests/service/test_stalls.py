"""The event loop is never held up for long: not by learning, by replays, by forgetting, nor by a database that stands still.

A stall is the time of one callback of the loop, less what its thread waited for a core of the machine: waiting for a lock, a disk, or a socket
counts, and a machine that is busy with something else does not.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.service.maintenance.forget import ForgetOrder
from onebit.service.service import Service
from tests.service.driving import ask, decided, followed, heard, hint, new_task, outcome, run, service_in, until
from tests.service.postgres import IN_MEMORY, Server, needs_postgres, server

pytestmark = pytest.mark.long

LONGEST_S = 0.1
WIDE: dict[str, Any] = {"kind": "numbers", "size": 200}


def waited_for_a_core() -> float:
    """Seconds for which this thread could have run, and did not."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


@contextmanager
def stalls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Collect how long each callback of the event loop of this thread took."""
    found, loop_thread = list[float](), threading.get_ident()
    run_handle = asyncio.Handle._run

    def timed(handle: Any) -> None:
        if threading.get_ident() != loop_thread:
            run_handle(handle)
            return
        waited, began = waited_for_a_core(), time.perf_counter()
        run_handle(handle)
        took = time.perf_counter() - began
        if took > LONGEST_S / 10:
            found.append(took - (waited_for_a_core() - waited))

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", timed)
        yield found


async def fill(service: Service, rounds: int, learner: str, features: Any = WIDE) -> None:
    """Create a task, and have so many decisions made and answered in lists of a hundred."""
    await service.create(new_task(learner=learner, features=features))
    rows = np.random.default_rng(0).normal(size=(100, features["size"])).round(3).tolist()
    for start in range(0, rounds, 100):
        ids = [f"d{start + step}" for step in range(100)]
        await service.decide("fruit", [ask(one, x) for one, x in zip(ids, rows, strict=True)], single=False)
        said = [hint(one, step % 3 == 0) for step, one in enumerate(ids)]
        await service.feedback("fruit", said, single=False)


def test_ten_thousand_feedbacks_to_a_wide_auto(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> list[float]:
        async with service_in(tmp_path / "data") as service:
            await fill(service, 100, "auto")
            await followed(service)
            await service.delete("fruit")
            with stalls(monkeypatch) as found:
                await fill(service, 10_000, "auto")
                await followed(service)
            return found

    assert max(run(work()), default=0.0) < LONGEST_S


def test_a_replay_after_a_revision_and_a_forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> list[float]:
        async with service_in(tmp_path / "data") as service:
            await fill(service, 5_000, "bpa")
            await followed(service)
            follower = service.served["fruit"].follower
            with stalls(monkeypatch) as found:
                assert await heard(service, "d7", False, revise=True) in ("revised", "duplicate")
                await heard(service, "d0", False, revise=True)
                await until(lambda: follower.revised_from is None and not follower.revising)
                for first, unlearn in (
                    (0, True),
                    (2_000, False),
                ):  # the one follows the log again, the other keeps a state
                    ids = [f"d{number}" for number in range(first, first + 1_000)]
                    await service.forget("fruit", ForgetOrder(ids, None, unlearn))
                await decided(service, "after", [0.0] * WIDE["size"])
            return found

    assert max(run(work()), default=0.0) < LONGEST_S


@contextmanager
def standing_still(one: Server) -> Iterator[None]:
    """A server all of whose processes are stopped meanwhile."""
    assert one._process is not None
    processes, found = list[int](), [one._process.pid]
    while found:
        processes += found
        asked = ["pgrep", "-P", ",".join(map(str, found))]
        found = [int(pid) for pid in subprocess.run(asked, check=False, capture_output=True, text=True).stdout.split()]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(processes):
            os.kill(pid, signal.SIGCONT)


@needs_postgres
def test_a_database_that_stands_still_for_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(one: Server) -> list[float]:
        async with service_in(one.log()) as service:
            await fill(service, 200, "bpa", {"kind": "numbers", "size": 2})
            with stalls(monkeypatch) as found, standing_still(one):
                asked = [asyncio.create_task(outcome(decided(service, f"new {number}"))) for number in range(20)]
                asked += [asyncio.create_task(outcome(heard(service, f"d{number}", True))) for number in range(20)]
                await asyncio.sleep(10.0)
            await asyncio.gather(*asked)
            await until(lambda: service.failing is None)
            return found

    with server(**IN_MEMORY) as one:
        assert max(run(work(one)), default=0.0) < LONGEST_S


def test_what_counts_as_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> list[float]:
        with stalls(monkeypatch) as found:
            asyncio.get_running_loop().call_soon(time.sleep, 2 * LONGEST_S)
            await asyncio.sleep(0.01)
        return found

    assert max(run(work())) > LONGEST_S
