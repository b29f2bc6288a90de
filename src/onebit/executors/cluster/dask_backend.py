"""A Dask cluster: one that runs somewhere, by the address of its scheduler, or one of this machine's cores as processes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import signal
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from onebit.data.sources import Source
from onebit.engine.processes import cores
from onebit.errors import InputError, NetworkError
from onebit.executors.cluster.executor import (
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

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

# What Dask does beside the work, dozens of times a second in each process, takes a twentieth of two cores; it is not looked at here.
LESS: dict[str, object] = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.cycle": "5s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.nanny.pre-spawn-environ.PYTHONSAFEPATH": 1,  # for a worker that is started anew, as below for the first
}
MOST_GREETING = 2**20  # bytes
GONE = ("cancelled", "lost", "error")  # what Dask says of data that nobody has any more


def dask_executor(address: str | None) -> ClusterExecutor:
    """The Dask cluster whose scheduler has this address, `host:port`; without one, a cluster of this machine's cores."""
    try:
        import distributed
    except ModuleNotFoundError:
        raise missing("Dask", "dask") from None
    with ExitStack() as undo:  # whatever happens, Ctrl-C too
        cluster = None
        if address is None:
            cluster = _started(distributed)
            undo.callback(cluster.close)
        backend = DaskBackend(_joined(distributed, cluster, address), cluster)
        undo.callback(backend.close)
        executor = ClusterExecutor(backend)
        undo.pop_all()
        return executor


def _joined(distributed: Any, cluster: LocalCluster | None, address: str | None) -> Client:
    """A client of a scheduler. Whatever else it is that answers, it is none, and Dask may fail at it in any way."""
    try:
        if address is not None:
            call(address, _greets)  # Dask would wait for what never comes
        return distributed.Client(cluster or f"tcp://{address}", timeout=CONNECT_S, set_as_default=False, name="onebit")
    except Exception as error:
        at = f"at {address}" if cluster is None else "on this machine, though one was started"
        raise NetworkError(f"there is no Dask scheduler {at}: {error}") from None


def _greets(greeting: bytes) -> bool:
    """Whether it may be Dask that speaks: a message begins with its length, and the first is short."""
    return int.from_bytes(greeting, "little") < MOST_GREETING


def _started(distributed: Any) -> LocalCluster:
    """A process for each core, and no limit of memory: threads have none either. Port 0 is any that is free."""
    import dask

    try:
        with dask.config.set(LESS), safe_path(), _undisturbed():
            return distributed.LocalCluster(
                n_workers=cores(),
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                silence_logs=logging.CRITICAL,  # a worker that is ended while it calls the scheduler would tell of it at length
                dashboard_address="127.0.0.1:0",
                preload=[__name__],
            )
    except RuntimeError as error:
        raise InputError(
            f"Dask cannot start its workers: {error} In a script, they are started below `if __name__ == '__main__':`"
        ) from None


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the workers have started. They do not hear of it: who started them ends them."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    heard: list[int] = []
    resource_tracker.ensure_running()  # which would unblock the signal
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    # It is blocked in the threads and processes that are started now, too.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def dask_setup(worker: object) -> None:
    """Called by Dask where a worker of this machine starts: Ctrl-C is for the process that started it, which then ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class DaskBackend(Backend):
    """The workers of a Dask cluster. A batch is a task of one worker; a shipment goes from worker to worker."""

    kind = "Dask"

    def __init__(self, client: Client, cluster: LocalCluster | None) -> None:
        self._client, self._cluster = client, cluster
        self.at = "on this machine" if cluster is not None else f"at {client.scheduler.address}"
        self.more = f"`dask worker {client.scheduler.address}` starts one"
        self._numbers = itertools.count()
        self._shipments: dict[Source, Future] = {}
        self._own: dict[tuple[str, Source], Future] = {}
        self._futures: dict[Hashable, Future] = {}
        self._done: queue.SimpleQueue[tuple[Hashable, Any]] = queue.SimpleQueue()

    def present(self) -> dict[str, int]:
        """The workers that the scheduler knows, by their addresses."""
        try:
            return dict(self._client.nthreads())
        except (OSError, TimeoutError):
            raise NetworkError(
                f"the Dask scheduler {self.at} no longer answers; the records that came are kept"
            ) from None

    def versions(self, workers: Iterable[str]) -> dict[str, WorkerVersion | Exception]:
        """What these workers run; one that has gone meanwhile says nothing."""
        return self._client.run(worker_version, workers=list(workers), on_error="return")  # type: ignore[no-any-return]

    def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
        """Submit a batch to one worker."""
        try:
            shipment = self._shipment(worker, source)
        except (OSError, TimeoutError, KeyError) as error:  # those who were to have it go while it comes, or are paused
            raise WorkerLostError(
                f"the data do not reach the workers ({error}); perhaps they are short of memory"
            ) from error
        return self._submit(worker, _work, batch, shipment, threads)

    def ask(self, worker: str, work: Work, item: Any) -> Hashable:
        """Submit a call to one worker."""
        return self._submit(worker, _called, work, item)

    def _submit(self, worker: str, function: Callable[..., Any], *arguments: Any) -> Hashable:
        key = f"onebit-{self._client.id}-{next(self._numbers)}"
        future = self._client.submit(function, *arguments, key=key, workers=[worker], pure=False)
        self._futures[key] = future
        asyncio.run_coroutine_threadsafe(self._fetch(key, future), self._client.loop.asyncio_loop)
        return key

    def _shipment(self, worker: str, source: Source) -> Future:
        """The shipment as this worker has it, under a name of its own: of many copies under one name Dask drops some."""
        everybodys = self._shipments.get(source)
        if everybodys is None or everybodys.status in GONE:
            # To one worker, from which the others get it: all of them would be also those that are left out.
            everybodys = self._client.scatter(Shipment(source), workers=[worker], hash=False)
            self._shipments[source] = everybodys
        own = self._own.get((worker, source))
        if own is None or own.status in GONE:
            own = self._client.submit(_keep, everybodys, workers=[worker], pure=False)
            self._own[worker, source] = own
        return own

    async def _fetch(self, key: Hashable, future: Future) -> None:
        """Get what a task gives as soon as it is there, which it may never be: what was done may be lost before it is fetched."""
        from distributed.client import CancelledError
        from distributed.scheduler import KilledWorker

        answer: Any
        try:
            answer = await self._client.gather(future, asynchronous=True)
        except (asyncio.CancelledError, CancelledError, KilledWorker):
            answer = WorkerLostError()
        except Exception as error:
            answer = (
                error if future.status == "error" else WorkerLostError()
            )  # an error of the task, or on the way to it
        self._done.put((key, answer))

    def answers(self, timeout: float) -> list[tuple[Hashable, Any]]:
        """What the tasks gave."""
        found = []
        with suppress(queue.Empty):
            found.append(self._done.get(timeout=timeout))
            while not self._done.empty():
                found.append(self._done.get())
        # What was cancelled is answered too.
        return [(key, answer) for key, answer in found if self._futures.pop(key, None) is not None]

    def forget(self, tickets: Iterable[Hashable]) -> None:
        """Cancel tasks. One that runs sees it and ends."""
        futures = [self._futures.pop(ticket) for ticket in tickets if ticket in self._futures]
        if futures:
            with suppress(OSError, TimeoutError):
                self._client.cancel(futures)

    def release(self, source: Source) -> None:
        """Let the workers forget these data, which they do when nobody here has them."""
        self._shipments.pop(source, None)
        self._own = {key: own for key, own in self._own.items() if key[1] != source}

    def close(self) -> None:
        """Leave the cluster, or end it where it was started here."""
        self._own.clear()
        self._shipments.clear()
        with suppress(OSError, TimeoutError):
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _keep(shipment: Shipment) -> Shipment:
    """A task that makes a shipment one worker's own."""
    return shipment


def _work(batch: TrialBatch, shipment: Shipment, threads: int) -> list[Record]:
    """A task that works off a batch."""
    return run_batch(batch, shipment, threads, _stopped())


def _called(work: Work, item: Any) -> Any:
    """A task that calls a function."""
    return work(item, _stopped())


def _stopped() -> Callable[[], bool]:
    """What says, in a task, whether it has been cancelled."""
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def stopped() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return stopped
