"""A Ray cluster: one that runs somewhere, by its address, the one that this machine belongs to, or one that is started here."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
import socket
import sys
import time
from collections.abc import Generator, Hashable, Iterable
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from onebit.data.sources import Source
from onebit.engine.processes import cores
from onebit.errors import InputError, NetworkError, brief, lines_of
from onebit.executors.cluster.executor import (
    BREATH_S,
    CONNECT_S,
    Backend,
    ClusterExecutor,
    Work,
    WorkerLostError,
    call,
    missing,
    safe_path,
)
from onebit.executors.cluster.worker import Shipment, TrialBatch, WorkerVersion, run_batch, worker_version
from onebit.trials.records import Record

LOG = logging.getLogger("onebit.executors")

START_S = 10.0  # so long the first workers are waited for
MORE_TRIES = 3  # actors that are made again when several in a row end before they begin
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def ray_executor(address: str | None) -> ClusterExecutor:
    """The Ray cluster with this address, `host:port`; without one, that of this machine, or one that is started on its cores."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or Ray tells its makers of every start
    try:
        import ray
    except ModuleNotFoundError:
        raise missing("Ray", "ray") from None
    joined = not ray.is_initialized()  # one that the user has joined is theirs to leave
    if address is not None:
        if not joined:
            raise InputError("this process has joined a Ray cluster already: say on='ray', or ray.shutdown() before")
        if importlib.util.find_spec("grpc") is None:
            raise missing("The client of Ray", "ray")
    at = _join(ray, address) if joined else "that this process has joined"
    backend = RayBackend(ray, at, joined, address or ray.get_runtime_context().gcs_address)
    try:
        return ClusterExecutor(backend)
    except BaseException:
        backend.close()
        raise


def _join(ray: Any, address: str | None) -> str:
    """Join a cluster, or start one; where it is, in words."""
    named = address or os.environ.get("RAY_ADDRESS")
    answers = False
    try:
        if named and named not in ("auto", "local"):
            call(named.removeprefix("ray://"), _greets)  # Ray would try for half a minute, or for a quarter of an hour
            answers = True
        if address is not None:
            ray.init(f"ray://{address}", **QUIET)
            return f"at ray://{address}"
        try:
            with safe_path(), _trusted_folder():
                ray.init("auto", **QUIET)
        except ConnectionError:
            if named:
                raise
            with safe_path(), _trusted_folder():
                ray.init("local", num_cpus=cores(), include_dashboard=False, **QUIET)
            return "on this machine"
        return f"at {named or ray.get_runtime_context().gcs_address}"
    except ValueError:
        raise InputError(f"the address of Ray's cluster is {brief(named)}, but must be host:port") from None
    except Exception as error:  # Ray may fail in any way, at other versions of it or of Python and at what is no Ray
        if answers and "RAY_AUTH_TOKEN" not in os.environ:  # Ray itself does not say so here
            why = f"{_gist(error)}; where it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as for `ray start`"
        else:
            why = _gist(error)
        what = f"there is no Ray cluster at {named}" if named else "Ray cannot be started on this machine"
        raise NetworkError(f"{what}: {why}") from None


def _trusted_folder() -> AbstractContextManager[None]:
    """Be in a folder meanwhile whose code may be run: Ray has all workers look for code in the one where it is joined.

    Where this process looks in the current folder itself, as a notebook does, workers may too.
    """
    looks_here = any(Path(folder).absolute() == Path.cwd() for folder in sys.path)  # '' is the current folder
    return nullcontext() if looks_here else chdir(os.sep)


def _gist(error: Exception) -> str:
    """What an error says in a line: its first, or the last of a traceback that it brings along."""
    lines = lines_of(error) or [type(error).__name__]
    return lines[-1 if "Traceback" in str(error) else 0]


def _greets(greeting: bytes) -> bool:
    """Whether it may be Ray that speaks: a server of HTTP/2 begins with its settings, a frame of type 4."""
    return greeting[3] == 4


class RayBackend(Backend):
    """The workers of a Ray cluster, which are actors, one for each core; shipments lie in Ray's store of objects."""

    kind = "Ray"

    def __init__(self, ray: Any, at: str, joined: bool, head: str) -> None:
        self._ray, self.at, self._joined, self._head = ray, at, joined, head
        self.more = f"`ray start --address={head}` adds its machine's cores"
        self._numbers = itertools.count(1)
        self._make = ray.remote(num_cpus=1, max_restarts=0)(Actor)
        self._actors: dict[str, Any] = {}
        self._versions: dict[str, Any] = {}
        self._shipments: dict[Source, tuple[int, Any]] = {}
        self._under_way: dict[Any, str] = {}
        self._failed = 0  # actors in a row that ended before they began
        self._given_up = 0  # cores for which no other is made

    def present(self) -> dict[str, int]:
        """Those actors that have begun; there is one for each core, and one is lost with its node."""
        first = not self._actors
        with self._while_there():
            self._call_head()
            wanted = int(self._ray.cluster_resources().get("CPU", 0)) - self._given_up
            while len(self._actors) < wanted:
                name = f"ray-{next(self._numbers)}"
                self._actors[name] = self._make.remote()
                self._versions[name] = self._actors[name].worker_version.remote()
            greetings = list(self._versions.values())
            if not greetings:
                return {}
            begun, _ = self._ray.wait(greetings, num_returns=len(greetings), timeout=START_S if first else 0)
        return {name: 1 for name, greeting in self._versions.items() if greeting in begun}

    def _call_head(self) -> None:
        """Find out whether the head is there: Ray itself waits for a minute, and then ends this process."""
        host, _, port = self._head.rpartition(":")
        end = time.monotonic() + CONNECT_S  # it may be starting again
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(BREATH_S)
            else:
                return

    @contextmanager
    def _while_there(self) -> Generator[None, None, None]:
        """Say it where the head is lost. Nobody is there then who could dismiss actors: Ray would start anew to do so."""
        try:
            yield
        except OSError:
            self._actors.clear()
            raise NetworkError(f"the Ray head {self.at} no longer answers; the records that came are kept") from None

    def versions(self, workers: Iterable[str]) -> dict[str, WorkerVersion | Exception]:
        """What these workers run. Instead of one that ended before it could say so there will be another, some times."""
        said: dict[str, WorkerVersion | Exception] = {}
        for worker in workers:
            try:
                said[worker] = self._ray.get(self._versions[worker])
                self._failed = 0
            except self._ray.exceptions.RayError as error:
                why = f"it ended before it began: {error}"
                said[worker] = ConnectionError(why)
                self._dismiss(worker)
                self._failed += 1
                if self._failed > MORE_TRIES:
                    self._given_up += 1
                    LOG.warning("the worker %s is left out: %s", worker, why)
        return said

    def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
        """Call an actor, which asks for the shipment if it has not got it yet."""
        if worker not in self._actors:
            raise WorkerLostError(f"{worker} has gone")
        with self._while_there():
            if source not in self._shipments:
                try:
                    self._shipments[source] = next(self._numbers), self._ray.put(Shipment(source))
                except self._ray.exceptions.RayError as error:
                    raise WorkerLostError(f"the data cannot be stored: {error}") from error
            number, shipment = self._shipments[source]
            ticket = self._actors[worker].work.remote(batch, number, [shipment])
        self._under_way[ticket] = worker
        return ticket  # type: ignore[no-any-return]

    def ask(self, worker: str, work: Work, item: Any) -> Hashable:
        """Call an actor."""
        if worker not in self._actors:
            raise WorkerLostError(f"{worker} has gone")
        with self._while_there():
            ticket = self._actors[worker].call.remote(work, item)
        self._under_way[ticket] = worker
        return ticket  # type: ignore[no-any-return]

    def answers(self, timeout: float) -> list[tuple[Hashable, Any]]:
        """What the actors gave."""
        tickets = list(self._under_way)
        with self._while_there():
            done, _ = self._ray.wait(tickets, num_returns=1, timeout=timeout)
            if done:  # and what else is there by now
                done, _ = self._ray.wait(tickets, num_returns=len(tickets), timeout=0)
            return [(ticket, self._answer(ticket, self._under_way.pop(ticket))) for ticket in done]

    def _answer(self, ticket: Any, worker: str) -> Any:
        try:
            return self._ray.get(ticket)
        except self._ray.exceptions.RayTaskError as error:
            return error.cause or error
        except self._ray.exceptions.RayError:
            self._dismiss(worker)
            return WorkerLostError()

    def forget(self, tickets: Iterable[Hashable]) -> None:
        """Dismiss the actors that are at these: there is no other way to stop one. Others are made when needed."""
        for worker in {self._under_way.pop(ticket) for ticket in tickets if ticket in self._under_way}:
            self._dismiss(worker)

    def _dismiss(self, worker: str) -> None:
        if worker in self._actors:
            self._ray.kill(self._actors.pop(worker))
            del self._versions[worker]

    def release(self, source: Source) -> None:
        """Let the workers forget these data."""
        if source in self._shipments:
            number, _ = self._shipments.pop(source)
            for actor in self._actors.values():
                actor.release.remote(number)

    def close(self) -> None:
        """Dismiss all, and leave the cluster where it was joined for this; one that was started for this ends."""
        for worker in list(self._actors):
            self._dismiss(worker)
        self._shipments.clear()
        if self._joined:
            self._ray.shutdown()


class Actor:
    """An actor: a process of the cluster that works off batches."""

    def __init__(self) -> None:
        self._shipments: dict[int, Shipment] = {}

    def worker_version(self) -> WorkerVersion:
        """What it runs."""
        return worker_version()

    def work(self, batch: TrialBatch, number: int, box: list[Any]) -> list[Record]:
        """Work off a batch; `box` holds a reference to its shipment, which is asked for once."""
        if number not in self._shipments:
            import ray

            self._shipments[number] = ray.get(box[0])
        return run_batch(batch, self._shipments[number], 1)

    def call(self, work: Work, item: Any) -> Any:
        """Call a function; who wants it to stop dismisses this actor."""
        return work(item, lambda: False)

    def release(self, number: int) -> None:
        """Forget a shipment."""
        self._shipments.pop(number, None)
