"""A Dask cluster: one that runs somewhere, by the address of its scheduler, or one that is started in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from onebit.engine.processes import cores
from onebit.errors import MissingExtraError, NetworkError
from onebit.executors.cluster.executor import (
    CONNECT_S,
    NO_WORKERS_S,
    WAIT_S,
    ClusterExecutor,
    WorkerLostError,
    require_server,
)
from onebit.executors.cluster.worker import PackedValue, end_run, run_task
from onebit.installation import install_command
from onebit.trials.cost import number_of

POLL_S = 0.01


def dask_executor(address: str | None) -> ClusterExecutor:
    """Return the Dask cluster whose scheduler has this address, `host:port`; without one, start one in this process."""
    try:
        import distributed
    except ModuleNotFoundError:
        raise MissingExtraError(f"Dask is not installed here: {install_command('dask')}") from None
    if address is None:  # threads, which need no copies of the data and do not hear of Ctrl-C
        options = {"n_workers": 1, "threads_per_worker": cores(), "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
        return DaskExecutor(distributed.Client(processes=False, set_as_default=False, **options), "on this machine")
    try:
        require_server(address)
        client = distributed.Client(f"tcp://{address}", timeout=CONNECT_S, set_as_default=False, name="onebit")
    except Exception as error:  # at what is no scheduler Dask may fail in any way
        raise NetworkError(f"there is no Dask scheduler at {address}: {error}") from None
    return DaskExecutor(client, f"at tcp://{address}")


class DaskExecutor(ClusterExecutor):
    """The workers of a Dask cluster."""

    kind = "Dask"

    def __init__(self, client: Any, at: str) -> None:
        self._client, self.at = client, at

    def _size(self) -> tuple[int, str]:
        self._client.wait_for_workers(1, timeout=NO_WORKERS_S)
        threads = self._client.nthreads()
        count = sum(threads.values())
        return count, f"{number_of(len(threads), 'worker')} with {number_of(count, 'thread')}"

    def _put(self, source: PackedValue) -> Any:
        self._client.wait_for_workers(1, timeout=NO_WORKERS_S)
        return self._client.scatter([source], hash=False)[0]  # the parts of what is no list would be sent apart

    def _submit(self, *arguments: Any) -> Any:
        return self._client.submit(run_task, *arguments, pure=False)

    def _finished(self, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        from distributed import KilledWorker

        end = time.monotonic() + WAIT_S
        while not (done := [future for future in futures if future.done()]) and time.monotonic() < end:
            time.sleep(POLL_S)
        for future in done:
            try:
                result = WorkerLostError() if future.cancelled() else future.result()
            except Exception as error:
                is_lost = isinstance(error, KilledWorker) or future.cancelled()
                result = WorkerLostError() if is_lost else error
            yield future, result

    def _end_run(self, run: str, futures: Sequence[Any]) -> None:
        with suppress(OSError):
            self._client.cancel(list(futures))
            self._client.run(end_run, run, on_error="ignore")

    def close(self) -> None:
        """Leave the cluster, or end it if it was started here."""
        with suppress(OSError):
            self._client.close()  # and with it the cluster that it has started
