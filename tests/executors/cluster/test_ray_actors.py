"""Workers of Ray, with a Ray that is made up: actors that end before they begin, data that find no room, and a head that is lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.data.streams import stream
from onebit.errors import NetworkError, OnebitError
from onebit.executors.cluster import executor as cluster
from onebit.executors.cluster import ray_backend
from onebit.executors.cluster.executor import ClusterExecutor
from onebit.executors.cluster.ray_backend import Actor, RayBackend
from onebit.executors.cluster.worker import run_batch
from onebit.trials.cost import in_words
from tests.executors.helpers import X, Y, come, trials_on
from tests.logged import heard


class RayError(Exception):
    """What Ray says of an actor that has died."""


class MadeUp:
    """So much of Ray as a backend needs, in this process; of the actors made, `stillborn` says which die before they greet."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=ZeroDivisionError)

    def __init__(self, cores: int, stillborn: Any) -> None:
        self.cores, self.stillborn = cores, stillborn
        self.made, self.killed = list[Any](), list[Any]()
        self.full = False

    def remote(self, **options: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=self._make)

    def _make(self) -> Any:
        actor, number = Actor(), len(self.made)

        def called(method: Any) -> Any:
            def later(*arguments: Any) -> Any:
                return partial(method, *arguments)

            return SimpleNamespace(remote=later)

        made = SimpleNamespace(
            worker_version=called(self._die if self.stillborn(number) else actor.worker_version),
            work=called(actor.work),
            release=SimpleNamespace(remote=actor.release),
            actor=actor,
        )
        self.made.append(made)
        return made

    def _die(self) -> None:
        raise RayError("the actor died because its node died")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self.cores)}

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        assert references
        return references[:num_returns], references[num_returns:]

    def get(self, reference: Any) -> Any:
        return reference()

    def put(self, thing: Any) -> Any:
        if self.full:
            raise RayError("the store is full")
        return thing

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


@pytest.fixture
def head() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOK_S", 0.0)
    monkeypatch.setattr(cluster, "BREATH_S", 0.001)
    monkeypatch.setattr(ray_backend, "BREATH_S", 0.001)
    # An actor asks Ray for its shipment; here it is in the box.
    monkeypatch.setattr(Actor, "work", _work)


def _work(actor: Actor, batch: Any, number: int, box: list[Any]) -> Any:
    shipment = actor._shipments.setdefault(number, box[0])
    return run_batch(batch, shipment, 1)


def backend_of(ray: MadeUp, head: socket.socket) -> RayBackend:
    return RayBackend(ray, "on a desk", False, f"127.0.0.1:{head.getsockname()[1]}")


def test_an_actor_that_ends_before_it_begins_is_made_again(head: socket.socket) -> None:
    ray = MadeUp(2, lambda number: number in (0, 2))
    executor = ClusterExecutor(backend_of(ray, head))
    with heard("onebit.executors") as said:
        assert len(come(executor, trials_on(stream(X, Y), 6))) == 18
    assert in_words(executor.resources).startswith("Ray, 2 workers")
    assert len(ray.made) == 4
    assert ray.killed == [ray.made[0], ray.made[2]], "they hold no core any more"
    assert said == []
    assert all(not actor.actor._shipments for actor in ray.made), "data are let go of"


def test_where_all_end_before_they_begin_it_says_so(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.1)
    ray = MadeUp(2, lambda number: True)
    said = r"has had no workers for 0\.1 s: it ended before it began: the actor died because its node died$"
    with pytest.raises(OnebitError, match=said):
        come(ClusterExecutor(backend_of(ray, head)), trials_on(stream(X, Y), 2))
    assert len(ray.made) == 2 + ray_backend.MORE_TRIES


def test_a_core_whose_actors_end_is_given_up_and_the_others_work(head: socket.socket) -> None:
    ray = MadeUp(3, lambda number: number > 1)
    executor = ClusterExecutor(backend_of(ray, head))
    with heard("onebit.executors") as said:
        for _ in range(10):
            executor._look()
    assert in_words(executor.resources).startswith("Ray, 2 workers")
    assert len(ray.made) == 3 + ray_backend.MORE_TRIES
    assert sum("is left out" in message for message in said) == 1
    assert len(come(executor, trials_on(stream(X, Y), 6))) == 18


def test_data_for_which_there_is_no_room_are_said(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MadeUp(1, lambda number: False)
    ray.full = True
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.05)
    with pytest.raises(
        OnebitError, match=r"Ray on a desk has taken nothing for .*: the data cannot be stored: the store is full"
    ):
        come(ClusterExecutor(backend_of(ray, head)), trials_on(stream(X, Y), 2))


def test_a_head_that_is_lost_is_a_sentence(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would end this process after a minute."""
    monkeypatch.setattr(ray_backend, "CONNECT_S", 0.05)
    ray = MadeUp(1, lambda number: False)
    found = ClusterExecutor(backend_of(ray, head)).run(
        [[trial] for trial in trials_on(stream(X, Y), 20)], lambda count: None
    )
    next(found)
    head.close()
    with pytest.raises(NetworkError, match="the Ray head on a desk no longer answers; the records that came are kept"):
        list(found)
    assert not ray.killed, "there is nobody who could do that"


def test_a_call_that_fails_on_the_way_is_a_lost_head(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is through Ray's client."""
    ray = MadeUp(1, lambda number: False)
    executor = ClusterExecutor(backend_of(ray, head))

    def broken(*arguments: Any, **named: Any) -> Any:
        raise ConnectionError("the client is not connected")

    monkeypatch.setattr(ray, "put", broken)
    with pytest.raises(NetworkError, match="the Ray head on a desk no longer answers"):
        come(executor, trials_on(stream(X, Y), 2))
    assert not ray.killed
