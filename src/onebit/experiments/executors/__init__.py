"""Executors run the trials of an experiment: on threads, on a GPU, or on a Dask or Ray cluster.

Neither the result nor the identity of a trial depends on the executor: a trial that has a record is not run again elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from onebit.contract.validation import checked_count
from onebit.engine.gpu.device import find_problem, is_installed
from onebit.errors import InputError, brief, nearest
from onebit.experiments.executors.threads import ThreadsExecutor
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.records import Record

EXECUTORS = {
    "auto": "the GPU if there is one and it pays off, otherwise threads",
    "threads": "this machine's cores",
    "gpu": "this machine's GPU",
    "dask": "Dask with the threads of this process, to try it out",
    "dask://host:port": "the Dask cluster with this scheduler",
    "ray": "the Ray cluster that runs here, or one started on this machine",
    "ray://host:port": "the Ray cluster with this address",
}
CLUSTERS = ("dask", "ray")


class Executor(Protocol):
    """The interface of an executor: it runs trials and yields their records as they finish."""

    @property
    def where(self) -> str:
        """The hardware that was used by all runs so far, as text."""

    def run(self, trials: Sequence[Trial], progress: Progress) -> Generator[Record, None, None]:
        """Run the trials and yield their records in any order; report finished rounds to `progress`.

        Closing the generator stops the running trials; a stopped trial yields no record.
        """

    def close(self) -> None:
        """Stop everything that this executor has started."""


def parse_place(on: object) -> tuple[str, str | None]:
    """Parse the `on` option into the executor's name and the cluster's host and port, if any.

    >>> parse_place("dask://localhost:8786")
    ('dask', 'localhost:8786')
    >>> parse_place("ray")
    ('ray', None)
    """
    if not isinstance(on, str):
        raise InputError(f"on is {brief(on)}, but must be one of {', '.join(EXECUTORS)}")
    kind, slashes, address = on.partition("://")
    if kind not in EXECUTORS or (slashes and kind not in CLUSTERS):
        raise InputError(f"there is no executor {brief(on)} to run on; {nearest(kind, EXECUTORS)}")
    if not slashes:
        return kind, None
    try:
        parts = urlsplit(on)
        whole = bool(parts.hostname and parts.port and address == parts.netloc and "@" not in address)
    except ValueError:  # the port is not a number or too large
        whole = False
    if not whole:
        raise InputError(f"on is {brief(on)}, but the address of a cluster is {kind}://host:port")
    return kind, address


def make_executor(on: str = "auto", threads: int | None = None) -> Executor:
    """Return the executor named by `on`; close it when all runs are done.

    `threads` is the number of threads of this process that run trials, one per core by default; clusters ignore it.
    """
    kind, address = parse_place(on)
    if threads is not None:
        threads = checked_count("threads", threads)
        if kind in CLUSTERS:
            raise InputError(
                f"threads is {threads}, but a cluster has its own number: leave it out with on={brief(on)}"
            )
    on_threads = ThreadsExecutor() if threads is None else ThreadsExecutor(threads)
    if kind == "gpu" or (kind == "auto" and is_installed() and find_problem() is None):
        from onebit.experiments.executors.gpu import GpuExecutor

        return GpuExecutor(on_threads, only_if_it_pays=kind == "auto")
    if kind == "dask":
        from onebit.experiments.executors.cluster.dask import dask_executor

        return dask_executor(address)
    if kind == "ray":
        from onebit.experiments.executors.cluster.ray import ray_executor

        return ray_executor(address)
    return on_threads
