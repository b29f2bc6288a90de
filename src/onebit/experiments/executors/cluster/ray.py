"""Run trials on Ray: a cluster given by its address, this machine's cluster, or a new one."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from onebit.contract.installation import require
from onebit.errors import InputError, NetworkError, brief, clean_lines
from onebit.experiments.executors.cluster import WAIT_S, ClusterExecutor, WorkerLostError, require_server
from onebit.experiments.executors.cluster.worker import PackedValue, run_batch
from onebit.experiments.trials.cost import format_count

RETRIES = 2  # attempts to repeat a task whose worker died
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def ray_executor(address: str | None) -> ClusterExecutor:
    """Return an executor on the Ray cluster at `host:port`.

    Without an address, use the cluster that this machine belongs to, or start one on its cores.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray reports every start to its makers
    ray = require("ray", "running on Ray", "ray")
    if ray.is_initialized():  # the user has connected, and disconnects
        if address is not None:
            raise InputError(
                "this process has joined a Ray cluster already: use on='ray', or call ray.shutdown() first"
            )
        return RayExecutor(ray, "that this process has joined", is_owner=False)
    return RayExecutor(ray, _join(ray, address), is_owner=True)


def _join(ray: Any, address: str | None) -> str:
    """Connect to a Ray cluster, or start one; return a text that says where it is."""
    where = address or os.environ.get("RAY_ADDRESS")
    try:
        if where and where not in ("auto", "local"):
            require_server(where.removeprefix("ray://"))
        with _without_code_from_here():
            if address is not None:
                ray.init(f"ray://{address}", **QUIET)
                return f"at ray://{address}"
            ray.init(include_dashboard=False, **QUIET)  # connects to this machine's cluster or starts one
        return f"at {ray.get_runtime_context().gcs_address}"
    except ValueError:
        raise InputError(f"the address of Ray's cluster is {brief(where)}, but must be host:port") from None
    except Exception as error:  # wrong versions or addresses make Ray fail in any way
        lines = clean_lines(error) or [type(error).__name__]
        why = lines[-1 if "Traceback" in str(error) else 0]
        if where and "RAY_AUTH_TOKEN" not in os.environ:  # Ray's own error does not say this
            why += "; where it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as for `ray start`"
        problem = f"there is no Ray cluster at {where}" if where else "Ray cannot be started on this machine"
        raise NetworkError(f"{problem}: {why}") from None


@contextmanager
def _without_code_from_here() -> Iterator[None]:
    """Keep processes started in this context from importing code from the current folder.

    Anybody may have put code there, and Ray makes all workers search for code in the folder from which the cluster was joined. If this
    process itself imports from the current folder, as a notebook does, its workers may too.
    """
    looks_here = any(Path(folder).absolute() == Path.cwd() for folder in sys.path)  # '' is the current folder
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with nullcontext() if looks_here else chdir(os.sep):
            yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


class RayExecutor(ClusterExecutor):
    kind = "Ray"

    def __init__(self, ray: Any, at: str, is_owner: bool) -> None:
        self._ray, self.at, self._is_owner = ray, at, is_owner
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(run_batch)

    def _count_slots(self) -> tuple[int, str]:
        count = max(1, int(self._ray.cluster_resources().get("CPU", 0)))
        return count, format_count(count, "core")

    def _send_source(self, source: PackedValue) -> Any:
        return self._ray.put(source)

    def _submit_batch(self, *arguments: Any) -> Any:
        return self._task.remote(*arguments)

    def _take_finished(self, futures: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        self._ray.wait(futures, num_returns=1, timeout=WAIT_S)
        for future in self._ray.wait(futures, num_returns=len(futures), timeout=0)[0]:
            try:
                yield future, self._ray.get(future)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause or error from None
            except self._ray.exceptions.RayError:
                yield future, WorkerLostError()

    def _end_run(self, run: str, futures: Sequence[Any]) -> None:
        for future in futures:
            self._ray.cancel(future, force=True)

    def close(self) -> None:
        if self._is_owner:
            self._ray.shutdown()
