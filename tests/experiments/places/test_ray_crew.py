"""Workers of Ray, with a Ray that is made up: actors that end before they begin, data that find no room, and a head that is lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from onebit.data.streams import stream
from onebit.errors import OnebitError
from onebit.experiments.places import cluster, ray_cluster
from onebit.experiments.places.cluster import ClusterPlace
from onebit.experiments.places.ray_cluster import Hand, RayCrew
from onebit.experiments.places.travel import work_off
from tests.experiments.places.scenes import X, Y, come, trials_on


class RayError(Exception):
    """What Ray says of an actor that has died."""


class MadeUp:
    """So much of Ray as a crew needs, in this process; of the actors made, `stillborn` says which die before they greet."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=ZeroDivisionError)

    def __init__(self, cores: int, stillborn: Any) -> None:
        self.cores, self.stillborn = cores, stillborn
        self.made, self.killed = list[Any](), list[Any]()
        self.full = False

    def remote(self, **options: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=self._make)

    def _make(self) -> Any:
        hand, number = Hand(), len(self.made)

        def called(method: Any) -> Any:
            def later(*arguments: Any) -> Any:
                return partial(method, *arguments)

            return SimpleNamespace(remote=later)

        actor = SimpleNamespace(
            introduction=called(self._die if self.stillborn(number) else hand.introduction),
            work=called(hand.work),
            release=SimpleNamespace(remote=hand.release),
            hand=hand,
        )
        self.made.append(actor)
        return actor

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
    monkeypatch.setattr(ray_cluster, "BREATH_S", 0.001)
    # An actor asks Ray for its parcel; here it is in the box.
    monkeypatch.setattr(Hand, "work", _work)


def _work(hand: Hand, batch: Any, number: int, box: list[Any]) -> Any:
    parcel = hand._parcels.setdefault(number, box[0])
    return work_off(batch, parcel, 1)


def crew_of(ray: MadeUp, head: socket.socket) -> RayCrew:
    return RayCrew(ray, "on a desk", False, f"127.0.0.1:{head.getsockname()[1]}")


def test_an_actor_that_ends_before_it_begins_is_made_again(head: socket.socket, capsys: Any) -> None:
    ray = MadeUp(2, lambda number: number in (0, 2))
    place = ClusterPlace(crew_of(ray, head))
    assert len(come(place, trials_on(stream(X, Y), 6))) == 18
    assert place.where.startswith("Ray, 2 workers")
    assert len(ray.made) == 4
    assert ray.killed == [ray.made[0], ray.made[2]], "they hold no core any more"
    assert capsys.readouterr().err == ""
    assert all(not actor.hand._parcels for actor in ray.made), "data are let go of"


def test_where_all_end_before_they_begin_it_says_so(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.1)
    ray = MadeUp(2, lambda number: True)
    said = r"has had no workers for 0\.1 s: it ended before it began: the actor died because its node died$"
    with pytest.raises(OnebitError, match=said):
        come(ClusterPlace(crew_of(ray, head)), trials_on(stream(X, Y), 2))
    assert len(ray.made) == 2 + ray_cluster.MORE_TRIES


def test_a_core_whose_actors_end_is_given_up_and_the_others_work(head: socket.socket, capsys: Any) -> None:
    ray = MadeUp(3, lambda number: number > 1)
    place = ClusterPlace(crew_of(ray, head))
    for _ in range(10):
        place._look()
    assert place.where.startswith("Ray, 2 workers")
    assert len(ray.made) == 3 + ray_cluster.MORE_TRIES
    assert capsys.readouterr().err.count("is left out") == 1
    assert len(come(place, trials_on(stream(X, Y), 6))) == 18


def test_data_for_which_there_is_no_room_are_said(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = MadeUp(1, lambda number: False)
    ray.full = True
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.05)
    with pytest.raises(
        OnebitError, match=r"Ray on a desk has taken nothing for .*: the data cannot be stored: the store is full"
    ):
        come(ClusterPlace(crew_of(ray, head)), trials_on(stream(X, Y), 2))


def test_a_head_that_is_lost_is_a_sentence(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would end this process after a minute."""
    monkeypatch.setattr(ray_cluster, "CONNECT_S", 0.05)
    ray = MadeUp(1, lambda number: False)
    found = ClusterPlace(crew_of(ray, head)).run([[trial] for trial in trials_on(stream(X, Y), 20)], lambda count: None)
    next(found)
    head.close()
    with pytest.raises(OnebitError, match="the Ray head on a desk no longer answers; the rows that came are kept"):
        list(found)
    assert not ray.killed, "there is nobody who could do that"


def test_a_call_that_fails_on_the_way_is_a_lost_head(head: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is through Ray's client."""
    ray = MadeUp(1, lambda number: False)
    place = ClusterPlace(crew_of(ray, head))

    def broken(*arguments: Any, **named: Any) -> Any:
        raise ConnectionError("the client is not connected")

    monkeypatch.setattr(ray, "put", broken)
    with pytest.raises(OnebitError, match="the Ray head on a desk no longer answers"):
        come(place, trials_on(stream(X, Y), 2))
    assert not ray.killed
