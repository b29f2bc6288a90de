"""A Ray cluster: one that runs somewhere, by its address, the one that this machine belongs to, or one that is started here."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
from collections.abc import Hashable, Iterable
from typing import Any

from onebit.data.sources import Source
from onebit.errors import OnebitError
from onebit.experiments.places.cluster import ClusterPlace, Crew, Lost, call, missing
from onebit.experiments.places.travel import Batch, Introduction, Parcel, introduction, work_off
from onebit.experiments.rows import Row
from onebit.experiments.trial import cores

START_S = 10.0  # so long the first workers are waited for
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def ray_place(address: str | None) -> ClusterPlace:
    """The Ray cluster with this address, `host:port`; without one, that of this machine, or one that is started on its cores."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # or Ray tells its makers of every start
    try:
        import ray
    except ModuleNotFoundError:
        raise missing("Ray", "ray") from None
    joined = not ray.is_initialized()  # one that the user has joined is theirs to leave
    if address is not None:
        if not joined:
            raise OnebitError("this process has joined a Ray cluster already: say on='ray', or ray.shutdown() before")
        if importlib.util.find_spec("grpc") is None:
            raise missing("The client of Ray", "ray")
    at = _join(ray, address) if joined else "that this process has joined"
    crew = RayCrew(ray, at, joined)
    try:
        return ClusterPlace(crew)
    except BaseException:
        crew.close()
        raise


def _join(ray: Any, address: str | None) -> str:
    """Join a cluster, or start one; where it is, in words."""
    try:
        if address is not None:
            call(address)  # Ray would try for half a minute
            ray.init(f"ray://{address}", **QUIET)
            return f"at ray://{address}"
        try:
            ray.init("auto", **QUIET)
        except ConnectionError:
            if os.environ.get("RAY_ADDRESS"):
                raise
            ray.init("local", num_cpus=cores(), include_dashboard=False, **QUIET)
            return "on this machine"
        return f"at {os.environ.get('RAY_ADDRESS') or ray.get_runtime_context().gcs_address}"
    except (OSError, RuntimeError) as error:  # a RuntimeError where versions of Ray or Python differ
        raise OnebitError(f"there is no Ray cluster at {address or os.environ.get('RAY_ADDRESS')}: {error}") from None


class RayCrew(Crew):
    """The workers of a Ray cluster, which are actors, one for each core; parcels lie in Ray's store of objects."""

    kind = "Ray"

    def __init__(self, ray: Any, at: str, joined: bool) -> None:
        self._ray, self.at, self._joined = ray, at, joined
        self._numbers = itertools.count(1)
        self._make = ray.remote(num_cpus=1, max_restarts=0)(Hand)
        self._hands: dict[str, Any] = {}
        self._greetings: dict[str, Any] = {}
        self._parcels: dict[Source, tuple[int, Any]] = {}
        self._under_way: dict[Any, str] = {}

    def present(self) -> dict[str, int]:
        """Those actors that have begun; there is one for each core, and one is lost with its place."""
        first = not self._hands
        while len(self._hands) < int(self._ray.cluster_resources().get("CPU", 0)):
            name = f"ray-{next(self._numbers)}"
            self._hands[name] = self._make.remote()
            self._greetings[name] = self._hands[name].introduction.remote()
        greetings = list(self._greetings.values())
        begun, _ = self._ray.wait(greetings, num_returns=len(greetings), timeout=START_S if first else 0)
        return {name: 1 for name, greeting in self._greetings.items() if greeting in begun}

    def introductions(self, workers: Iterable[str]) -> dict[str, Introduction | Exception]:
        """What these workers run."""
        said: dict[str, Introduction | Exception] = {}
        for worker in workers:
            try:
                said[worker] = self._ray.get(self._greetings[worker])
            except self._ray.exceptions.RayError as error:
                said[worker] = error
        return said

    def send(self, worker: str, threads: int, batch: Batch, source: Source) -> Hashable:
        """Call an actor, which asks for the parcel if it has not got it yet."""
        if source not in self._parcels:
            self._parcels[source] = next(self._numbers), self._ray.put(Parcel(source))
        if worker not in self._hands:
            raise Lost
        number, parcel = self._parcels[source]
        ticket = self._hands[worker].work.remote(batch, number, [parcel])
        self._under_way[ticket] = worker
        return ticket  # type: ignore[no-any-return]

    def answers(self, timeout: float) -> list[tuple[Hashable, list[Row] | BaseException]]:
        """What the actors gave."""
        tickets = list(self._under_way)
        done, _ = self._ray.wait(tickets, num_returns=1, timeout=timeout)
        if done:  # and what else is there by now
            done, _ = self._ray.wait(tickets, num_returns=len(tickets), timeout=0)
        return [(ticket, self._answer(ticket, self._under_way.pop(ticket))) for ticket in done]

    def _answer(self, ticket: Any, worker: str) -> list[Row] | BaseException:
        try:
            return self._ray.get(ticket)  # type: ignore[no-any-return]
        except self._ray.exceptions.RayTaskError as error:
            return error.cause or error  # type: ignore[no-any-return]
        except self._ray.exceptions.RayError:
            self._dismiss(worker)
            return Lost()

    def forget(self, tickets: Iterable[Hashable]) -> None:
        """Dismiss the actors that are at these: there is no other way to stop one. Others take their places when needed."""
        for worker in {self._under_way.pop(ticket) for ticket in tickets if ticket in self._under_way}:
            self._dismiss(worker)

    def _dismiss(self, worker: str) -> None:
        if worker in self._hands:
            self._ray.kill(self._hands.pop(worker))
            del self._greetings[worker]

    def rest(self) -> None:
        """Let the workers forget the data."""
        for hand in self._hands.values():
            hand.rest.remote()
        self._parcels.clear()

    def close(self) -> None:
        """Dismiss all, and leave the cluster where it was joined for this; one that was started for this ends."""
        for worker in list(self._hands):
            self._dismiss(worker)
        self._parcels.clear()
        if self._joined:
            self._ray.shutdown()


class Hand:
    """An actor: a process of the cluster that works off batches."""

    def __init__(self) -> None:
        self._parcels: dict[int, Parcel] = {}

    def introduction(self) -> Introduction:
        """What it runs."""
        return introduction()

    def work(self, batch: Batch, number: int, box: list[Any]) -> list[Row]:
        """Work off a batch; `box` holds a reference to its parcel, which is asked for once."""
        if number not in self._parcels:
            import ray

            self._parcels[number] = ray.get(box[0])
        return work_off(batch, self._parcels[number], 1)

    def rest(self) -> None:
        """Forget all parcels."""
        self._parcels.clear()
