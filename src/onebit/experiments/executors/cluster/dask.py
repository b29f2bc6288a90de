"""Run trials on Dask: on a running cluster given by its scheduler's address, or on local threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from onebit.contract.installation import require
from onebit.engine.processes import cores
from onebit.errors import NetworkError
from onebit.experiments.executors.cluster import CONNECT_S, WAIT_S, ClusterExecutor, WorkerLostError, require_server
from onebit.experiments.executors.cluster.worker import PackedValue, end_run, run_batch
from onebit.experiments.trials.cost import format_count

NO_WORKERS_S = 60.0  # longest wait for workers to start or restart
SENDS = 5  # attempts to send data, as workers may be lost meanwhile


def dask_executor(address: str | None) -> ClusterExecutor:
    """Return an executor on the Dask scheduler at `host:port`, or on threads of this process if None."""
    distributed = require("distributed", "running on Dask", "dask")
    if address is None:  # threads share the data and do not receive Ctrl-C
        options = {"n_workers": 1, "threads_per_worker": cores(), "memory_limit": 0, "dashboard_address": "127.0.0.1:0"}
        return DaskExecutor(distributed.Client(processes=False, set_as_default=False, **options), "on this machine")
    try:
        require_server(address)
        client = distributed.Client(f"tcp://{address}", timeout=CONNECT_S, set_as_default=False, name="onebit")
    except Exception as error:  # Dask may fail in any way if the address is not a scheduler's
        raise NetworkError(f"there is no Dask scheduler at {address}: {error}") from None
    return DaskExecutor(client, f"at tcp://{address}")


class DaskExecutor(ClusterExecutor):
    kind = "Dask"

    def __init__(self, client: Any, at: str) -> None:
        self._client, self.at = client, at

    def _count_slots(self) -> tuple[int, str]:
        self._client.wait_for_workers(1, timeout=NO_WORKERS_S)
        threads = self._client.nthreads()
        count = sum(threads.values())
        return count, f"{format_count(len(threads), 'worker')} with {format_count(count, 'thread')}"

    def _send_source(self, source: PackedValue, sends: int = SENDS) -> Any:
        self._client.wait_for_workers(1, timeout=NO_WORKERS_S)
        try:
            return self._client.scatter([source], hash=False)[0]  # without a list its parts would be sent separately
        except OSError:  # a worker was lost while it received the data
            if sends == 1:
                raise
            return self._send_source(source, sends - 1)

    def _submit_batch(self, *arguments: Any) -> Any:
        return self._client.submit(run_batch, *arguments, pure=False)

    def _take_finished(self, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        from distributed import CancelledError, KilledWorker, wait

        with self._client.as_current(), suppress(TimeoutError, CancelledError):
            wait(futures, timeout=WAIT_S, return_when="FIRST_COMPLETED")
        for future in filter(lambda future: future.done(), futures):
            try:
                result = future.result()
            except (CancelledError, KilledWorker):
                result = WorkerLostError()
            future.release()  # `wait` may leave it in a reference cycle, which keeps the result
            yield future, result

    def _end_run(self, run: str, futures: Sequence[Any]) -> None:
        with suppress(OSError):
            self._client.cancel(list(futures))
            self._client.run(end_run, run, on_error="ignore")

    def close(self) -> None:
        with suppress(OSError):
            self._client.close()  # also stops a cluster that the client has started
