"""What clusters share, with workers that are no processes: who gets which trials, what travels, and what is lost and found again."""

from __future__ import annotations

import importlib
import itertools
import pickle
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from onebit.checks import rows as some_rows
from onebit.contract.rule import known
from onebit.data.sources import Source
from onebit.data.streams import stream
from onebit.data.tables import Dataset
from onebit.engine.compile import code_mark
from onebit.errors import NetworkError, OnebitError
from onebit.executors.cluster import executor as cluster
from onebit.executors.cluster import worker
from onebit.executors.cluster.dask_backend import _greets as dask_greets
from onebit.executors.cluster.executor import Backend, ClusterExecutor, Work, WorkerLostError
from onebit.executors.cluster.ray_backend import _greets as ray_greets
from onebit.executors.cluster.worker import (
    Shipment,
    TrialBatch,
    WorkerVersion,
    batch_of,
    received_rule,
    run_batch,
    sent_rule,
    worker_version,
)
from onebit.experiments.runner import Interrupted, collect
from onebit.trials.cost import in_words
from onebit.trials.records import Record, Records
from onebit.trials.trial import Trial, entry_of
from tests.executors.helpers import X, Y, come, drawn, grouped, mixed, on_threads, trials_on
from tests.logged import heard


class Paper(Backend):
    """Workers on paper: what is sent goes through pickle, and is worked off when answers are asked for."""

    kind, at, more = "Paper", "on a desk", "sharpen a pencil"

    def __init__(self, **threads: int) -> None:
        self.here = dict(threads)
        self.said: dict[str, WorkerVersion | Exception] = {}
        self.sent: dict[int, tuple[str, TrialBatch, bytes]] = {}
        self.asked: dict[int, tuple[str, bytes]] = {}
        self.batches: list[tuple[str, int]] = []
        self.forgotten: list[Hashable] = []
        self.released: list[Source] = []
        self.closed = 0
        self.before: Callable[[str, TrialBatch], None] = lambda worker, batch: (
            None
        )  # called before a batch is worked off
        self._numbers = itertools.count()

    def present(self) -> dict[str, int]:
        return dict(self.here)

    def versions(self, workers: Iterable[str]) -> dict[str, WorkerVersion | Exception]:
        return {worker: self.said.get(worker, worker_version()) for worker in workers}

    def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
        number = next(self._numbers)
        self.sent[number] = worker, pickle.loads(pickle.dumps(batch)), pickle.dumps(Shipment(source))
        self.batches.append((worker, len(batch.specs)))
        return number

    def ask(self, worker: str, work: Work, item: Any) -> Hashable:
        number = next(self._numbers)
        self.asked[number] = worker, pickle.dumps((work, item))
        return number

    def answers(self, timeout: float) -> list[tuple[Hashable, Any]]:
        if self.asked:
            number = min(self.asked)
            worker, call = self.asked.pop(number)
            work, item = pickle.loads(call)
            try:
                return [(number, work(item, lambda: False))]
            except (WorkerLostError, OnebitError, ZeroDivisionError) as error:
                return [(number, error)]
        number = min(self.sent)
        worker, batch, shipment = self.sent.pop(number)
        try:
            self.before(worker, batch)
            return [(number, run_batch(batch, pickle.loads(shipment), 1))]
        except (WorkerLostError, OnebitError, ZeroDivisionError) as error:
            return [(number, error)]

    def forget(self, tickets: Iterable[Hashable]) -> None:
        for ticket in list(tickets):
            self.sent.pop(int(str(ticket)), None)
            self.asked.pop(int(str(ticket)), None)
            self.forgotten.append(ticket)

    def release(self, source: Source) -> None:
        self.released.append(source)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOK_S", 0.0)
    monkeypatch.setattr(cluster, "BREATH_S", 0.001)
    monkeypatch.setattr(cluster, "LEAST_S", 0.0)  # trials are short here, and batches should be many
    monkeypatch.setattr(worker, "TASK_S", 60.0)  # and come back whole, on a busy machine too


@pytest.fixture
def said() -> Iterator[list[str]]:
    with heard("onebit.executors") as messages:
        yield messages


# --- the same rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [{"a": 1}, {"a": 2, "b": 1}])
@pytest.mark.parametrize("task_s", [0.0, 1.0])
def test_rows_are_those_of_threads(workers: dict[str, int], task_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TASK_S", task_s)  # with 0 every batch comes back after one trial
    trials, seen = mixed(), list[int]()
    executor = ClusterExecutor(Paper(**workers))
    expected = on_threads(trials)
    assert come(executor, trials, seen.append) == expected
    assert sum(1 for row in expected.values() if row["why"]) == 12, "failures are rows"
    assert sum(seen) == sum(trial.stream.rounds for trial in trials)


def test_all_workers_get_several_batches_and_the_last_ones_are_small() -> None:
    backend = Paper(a=1, b=1)
    come(ClusterExecutor(backend), trials_on(stream(X, Y), 30, 4))
    assert backend.batches[0][1] == 1 + 120 // 8
    assert backend.batches[-1][1] == 1
    counts = Counter(worker for worker, _ in backend.batches)
    assert counts["a"] > 5
    assert counts["b"] > 5


def test_a_batch_is_no_smaller_than_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LEAST_S", 10 * cluster.TRIAL_S)
    backend = Paper(a=1, b=1)
    come(ClusterExecutor(backend), trials_on(stream(X, Y), 30, 4))
    assert len(backend.batches) <= 14, "of about ten each"


def test_nothing_waits_behind_a_long_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TASK_S", 0.0)  # as if all were long
    backend, most = Paper(a=1, b=1), list[int]()
    backend.before = lambda worker, batch: most.append(len(backend.sent) + 1)
    come(ClusterExecutor(backend), trials_on(stream(X, Y), 10))
    assert max(most) == 2, "each has the one that it works on"


def test_a_thread_stays_with_its_seed_while_there_are_others() -> None:
    made: list[int] = []
    shipments: dict[str, Shipment] = {}

    def make(rounds: int, seed: int) -> Dataset:
        made.append(seed)
        table, labels = some_rows(rounds, seed=seed)
        return Dataset(table, labels, tuple(range(5)))

    class Shared(Paper):
        """One shipment a worker, as a cluster has it."""

        def answers(self, timeout: float) -> list[tuple[Hashable, list[Record] | BaseException]]:
            number = min(self.sent)
            worker, batch, _ = self.sent.pop(number)
            shipment = shipments.setdefault(worker, Shipment(streamed.source))
            shipment._source = streamed.source  # not a copy, which would count by itself
            return [
                (number, run_batch(batch, shipment, 3))
            ]  # two workers in one process, each with one thread and one seed more

    streamed = drawn(make)
    come(ClusterExecutor(Shared(a=1, b=1)), trials_on(streamed, 6, 20))
    assert set(made) == set(range(6))
    assert len(made) <= 8, "a worker draws the rows of a seed once, and only the last seeds are shared"


def test_no_trials_are_no_rows() -> None:
    assert list(ClusterExecutor(Paper(a=1)).run([[], []], lambda count: None)) == []


# --- workers that come and go --------------------------------------------------------------------------------------------


def test_what_a_lost_worker_had_is_done_by_others() -> None:
    backend, trials = Paper(a=1, b=2), trials_on(stream(X, Y), 10)
    lost: list[str] = []

    def before(worker: str, batch: TrialBatch) -> None:
        if worker == "a" and len(backend.batches) > 4 and not lost:
            lost.append(worker)
            del backend.here["a"]
            raise WorkerLostError

    backend.before = before
    assert come(ClusterExecutor(backend), trials) == on_threads(trials)
    assert lost == ["a"]
    assert backend.forgotten, "it had another batch, of which nothing is heard any more"


def test_who_comes_later_gets_work() -> None:
    backend, trials = Paper(a=1), trials_on(stream(X, Y), 20)
    backend.before = lambda worker, batch: backend.here.update(late=1)
    come(ClusterExecutor(backend), trials)
    assert {"a", "late"} == {worker for worker, _ in backend.batches}


class Mortal(Paper):
    """Workers that one trial ends, and all that they have with it; instead of each that is lost there is a fresh one."""

    def __init__(self, culprit: Trial, **threads: int) -> None:
        super().__init__(**threads)
        self.culprit, self.lost = culprit, list[list[int]]()
        self.losses: Counter[str] = Counter()
        self.beside: list[int] = []  # how many trials others were at while one was tried alone

    def of(self, worker: str) -> list[int]:
        return [number for number, (one, _, _) in self.sent.items() if one == worker]

    def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
        number = super().send(worker, threads, batch, source)
        alone = [
            one for one in self.of(worker) if any(self.losses[each.identity] > 1 for each in self.sent[one][1].specs)
        ]
        assert not alone or len(self.of(worker)) == len(batch.specs) == 1, "a suspect has its worker to itself"
        return number

    def answers(self, timeout: float) -> list[tuple[Hashable, list[Record] | BaseException]]:
        worker, batch, _ = self.sent[min(self.sent)]
        if self.losses[batch.specs[0].identity] > 1:
            self.beside.append(len(self.sent) - 1)
        held = [self.sent[number][1].specs for number in self.of(worker)]
        begun = held[: self.here[worker]]  # a thread is at one batch at a time
        if self.culprit.identity not in {spec.identity for specs in begun for spec in specs}:
            return super().answers(timeout)
        self.losses.update(spec.identity for specs in held for spec in specs)
        self.lost.append([len(specs) for specs in held])
        self.here[f"after {worker}"] = self.here.pop(worker)
        return [(number, WorkerLostError()) for number in self.of(worker) if self.sent.pop(number)]


@pytest.mark.parametrize("workers", [{"a": 1}, {"a": 2}, {"a": 8}, {"a": 2, "b": 1}, {"a": 4, "b": 4}])
@pytest.mark.parametrize("index", [0, 20, 39])
@pytest.mark.parametrize("seeds", [1, 20])
def test_a_trial_that_ends_its_workers_is_named_and_no_other(workers: dict[str, int], index: int, seeds: int) -> None:
    trials = trials_on(stream(X, Y, rounds=10, order="shuffle"), seeds, 40 // seeds)
    backend = Mortal(trials[index], **workers)
    named = f"{trials[index].entry.title} on arrays, seed {trials[index].seed}: 3 workers were lost"
    with pytest.raises(OnebitError, match=re.escape(named)):
        list(ClusterExecutor(backend).run(grouped(trials), lambda count: None))
    assert len(backend.lost) == 3
    assert backend.lost[-1] == [1]
    assert len(backend.released) == 1
    if len(workers) > 1 and seeds == 1 and index == 0:
        assert max(backend.beside) > 0, "others go on meanwhile"


def test_what_is_lost_with_it_once_is_not_held_up() -> None:
    """Machines go for many reasons, and then no trial is to blame."""
    backend, trials = Paper(a=1, b=1), trials_on(stream(X, Y), 1, 40)
    sizes: list[int] = []

    def before(worker: str, batch: TrialBatch) -> None:
        sizes.append(len(batch.specs))
        if len(sizes) == 1:
            raise WorkerLostError

    backend.before = before
    assert len(come(ClusterExecutor(backend), trials)) == 40
    assert min(sizes[:4]) > 1


@pytest.mark.parametrize("times", [3, 1_000_000])
def test_what_cannot_be_sent_is_tried_again_and_then_it_says_why(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.05)
    tries = itertools.count()

    class Paused(Paper):
        def send(self, worker: str, threads: int, batch: TrialBatch, source: Source) -> Hashable:
            if next(tries) < times:
                raise WorkerLostError("all are paused")
            return super().send(worker, threads, batch, source)

    trials = trials_on(stream(X, Y), 4)
    if times == 3:
        monkeypatch.setattr(cluster, "NO_WORKERS_S", 60.0)
        assert len(come(ClusterExecutor(Paused(a=1)), trials)) == 12
    else:
        with pytest.raises(OnebitError, match=r"Paper on a desk has taken nothing for 0\.05 s: all are paused"):
            come(ClusterExecutor(Paused(a=1)), trials)


def test_a_worker_that_cannot_be_reached_is_asked_again_and_then_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Paper(a=1)
    backend.said = {"a": ConnectionError("no route to a")}
    executor = ClusterExecutor(backend)
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.05)
    with pytest.raises(NetworkError, match=r"Paper on a desk has had no workers for 0\.05 s: no route to a"):
        come(executor, trials_on(stream(X, Y), 2))
    backend.said = {}
    assert len(come(executor, trials_on(stream(X, Y), 2))) == 6


def test_one_that_cannot_be_reached_does_not_end_the_work_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.005)
    monkeypatch.setattr(cluster, "TASK_S", 0.0)  # so that nothing is under way when one batch has come back
    backend = Paper(a=1, far=1)
    backend.said = {"far": ConnectionError("no route to it")}
    assert len(come(ClusterExecutor(backend), trials_on(stream(X, Y), 20))) == 60


def test_without_workers_it_waits_and_then_says_so(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    backend = Paper()
    looks = itertools.count()
    monkeypatch.setattr(backend, "present", lambda: {"a": 1} if next(looks) > 5 else {})
    trials = trials_on(stream(X, Y), 2)
    assert len(come(ClusterExecutor(backend), trials)) == 6
    monkeypatch.setattr(cluster, "NO_WORKERS_S", 0.01)
    with pytest.raises(NetworkError, match=r"Paper on a desk has had no workers for 0\.01 s; sharpen a pencil"):
        come(ClusterExecutor(Paper()), trials)
    assert said[-1] == "waiting for workers of Paper on a desk; sharpen a pencil"


def test_a_worker_with_another_version_is_left_out(said: list[str]) -> None:
    backend, trials = Paper(a=1, old=1, strange=1), trials_on(stream(X, Y), 5)
    backend.said = {
        "old": WorkerVersion("0.0.1", "3.9", "f00"),
        "strange": ModuleNotFoundError("No module named 'onebit'"),
    }
    executor = ClusterExecutor(backend)
    assert in_words(executor.resources) == "Paper, 1 worker with 1 thread on a desk"
    come(executor, trials)
    assert {worker for worker, _ in backend.batches} == {"a"}
    assert len(said) == 2, "each is refused once"
    here = str(worker_version())
    assert said[0].startswith(
        "the worker old is left out: it runs onebit 0.0.1 (code f00) on Python 3.9, and here it is onebit"
    )
    assert here in said[0]
    assert "No module named 'onebit'" in said[1]


def test_where_all_are_refused_it_ends(said: list[str]) -> None:
    backend = Paper(old=1)
    backend.said = {"old": WorkerVersion("0.0.1", "3.9", "f00")}
    with pytest.raises(OnebitError, match="Paper on a desk has no workers but those that are left out"):
        come(ClusterExecutor(backend), trials_on(stream(X, Y), 2))
    assert len(said) == 1


def test_a_worker_with_other_code_is_left_out(said: list[str]) -> None:
    backend = Paper(a=1, other=1)
    backend.said = {"other": worker_version()._replace(code="f00")}
    trials = trials_on(stream(X, Y), 5)
    assert come(ClusterExecutor(backend), trials) == on_threads(trials)
    assert {worker for worker, _ in backend.batches} == {"a"}
    assert "(code f00)" in said[0]


def test_where_says_who_was_there(said: list[str]) -> None:
    """Also those that are gone by then."""
    backend = Paper(a=1, b=2)
    executor = ClusterExecutor(backend)
    trials = trials_on(stream(X, Y), 40)
    with closing(executor.run(grouped(trials), lambda count: None)) as rows:
        for count, _ in enumerate(rows):
            if count == 20:
                backend.here = {"b": 2}
    assert in_words(executor.resources) == "Paper, 2 workers with 3 threads on a desk"


def test_other_code_of_the_same_version_is_refused() -> None:
    trial = Trial(entry_of("bpa"), stream(X, Y), 0)
    batch = batch_of([trial])
    wrong = batch._replace(specs=[spec._replace(code="other") for spec in batch.specs])
    assert len(run_batch(batch, Shipment(trial.stream.source), 1)) == 1
    with pytest.raises(OnebitError, match="has other code of bpa: install the same onebit everywhere"):
        run_batch(wrong, Shipment(trial.stream.source), 1)


# --- stopping and errors -----------------------------------------------------------------------------------------------


def test_closing_forgets_what_is_under_way() -> None:
    backend = Paper(a=1, b=1)
    with closing(ClusterExecutor(backend).run(grouped(trials_on(stream(X, Y), 20)), lambda count: None)) as found:
        next(found)
        under_way = list(backend.sent)
        assert under_way
    assert backend.forgotten == under_way
    assert len(backend.released) == 1


def test_ctrl_c_keeps_what_came(tmp_path: Path) -> None:
    trials, heard = trials_on(stream(X, Y), 20), list[int]()

    def progress(count: int) -> None:
        heard.append(count)
        if len(heard) == 7:
            raise KeyboardInterrupt

    rows = Records(tmp_path)
    with pytest.raises(Interrupted) as stopped:
        collect(trials, rows, ClusterExecutor(Paper(a=1, b=1)), progress)
    rows.close()
    assert len(stopped.value.collected.of(trials)) == 6
    again, backend = Records(tmp_path), Paper(a=1)
    assert len(collect(trials, again, ClusterExecutor(backend), None).of(trials)) == 60
    again.close()
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + 60, "each run is there once"


def test_a_batch_stops_when_it_is_told_to() -> None:
    trials = trials_on(stream(X, Y), 3)
    asked = itertools.count()
    found = run_batch(batch_of(trials), Shipment(trials[0].stream.source), 1, lambda: next(asked) >= 4)
    assert 0 < len(found) < 9


def test_any_other_error_says_where_it_was() -> None:
    backend = Paper(a=1)

    def before(worker: str, batch: TrialBatch) -> None:
        raise ZeroDivisionError("a mistake of ours")

    backend.before = before
    said = r"the worker a failed at banditron, exploration=0\.1 on arrays, seed 0: ZeroDivisionError: a mistake of ours"
    with pytest.raises(OnebitError, match=said) as failed:
        come(ClusterExecutor(backend), trials_on(stream(X, Y), 3))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert len(backend.released) == 1


def test_an_error_in_a_trial_names_it_and_the_machine() -> None:
    def make(rounds: int, seed: int) -> Dataset:
        raise MemoryError("Unable to allocate 8 PiB")

    trials = trials_on(drawn(make), 2)
    said = r"banditron, exploration=0\.1 on drawn, seed 0, fails on \S+: MemoryError: Unable to allocate 8 PiB"
    with pytest.raises(OnebitError, match=said):
        run_batch(batch_of(trials), Shipment(trials[0].stream.source), 1)


@pytest.mark.parametrize("hangs_up", [True, False])
def test_a_server_that_says_nothing_is_no_cluster(hangs_up: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:

        def hang_up() -> None:
            mute.accept()[0].close()

        if hangs_up:
            Thread(target=hang_up).start()
        with pytest.raises(OSError, match="it hangs up" if hangs_up else "timed out"):
            cluster.call(f"127.0.0.1:{mute.getsockname()[1]}")


def test_a_server_that_speaks_otherwise_is_no_cluster() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak() -> None:
            with other.accept()[0] as line:
                line.sendall(b"SSH-")
                line.sendall(b"2.0-Open")

        for greets in (dask_greets, ray_greets):
            Thread(target=speak).start()
            with pytest.raises(OSError, match=r"something else answers there: b'SSH-2\.0-'"):
                cluster.call(f"127.0.0.1:{other.getsockname()[1]}", greets)
    assert dask_greets((300).to_bytes(8, "little"))
    assert ray_greets(bytes([0, 0, 12, 4, 0, 0, 0, 0]))


# --- what travels ------------------------------------------------------------------------------------------------------


def test_arrays_travel_apart_and_are_not_copied_when_opened() -> None:
    table = np.arange(40_000.0).reshape(1000, 40)
    sent = Shipment(stream(table, np.arange(1000) % 3).source)
    assert sum(buffer.nbytes for buffer in sent._buffers) >= table.nbytes
    assert len(sent._pickled) < 20_000
    opened = pickle.loads(pickle.dumps(sent)).source()
    data = opened.make(5, 0)
    assert np.array_equal(data.X, table)
    assert data.X.base is not None, "a view of the bytes that came"
    assert opened.identity == sent.source().identity


def test_a_shipment_that_was_opened_is_sent_as_it_came() -> None:
    trials = trials_on(stream(X, Y), 2)
    shipment = Shipment(trials[0].stream.source)
    before = pickle.dumps(shipment)
    assert len(run_batch(batch_of(trials), shipment, 1)) == 6
    assert pickle.dumps(shipment) == before


def kept(shipments: Iterable[Shipment]) -> list[tuple[int, int]]:
    """Of which shipments and seeds this process has the rows."""
    return [(number, seed) for number, shipment in enumerate(shipments) for _, seed in shipment._held]


def test_a_worker_keeps_the_rows_of_its_last_seeds_only_whichever_data_they_are_of() -> None:
    streams = [stream(name, rounds=50) for name in ("synsep9", "synsep10", "strong2d")]
    shipments = [Shipment(one.source) for one in streams]
    for one, shipment in zip(streams, shipments, strict=True):
        run_batch(batch_of(trials_on(one, 4, 1)), shipment, 2)
    assert kept(shipments) == [(2, 1), (2, 2), (2, 3)]
    run_batch(batch_of(trials_on(streams[0], 1, 1)), shipments[0], 2)
    assert kept(shipments) == [(0, 0), (2, 2), (2, 3)]
    del shipments[2], shipment
    run_batch(batch_of(trials_on(streams[1], 2, 1)), shipments[1], 2)
    assert kept(shipments) == [(0, 0), (1, 0), (1, 1)], "what came with a shipment goes with it"


def test_rows_that_a_trial_runs_on_stay_while_others_come_and_go() -> None:
    streamed = stream("synsep9", rounds=50)
    shipment = Shipment(streamed.source)
    with shipment.shared_data(Trial(entry_of("banditron"), streamed, 99), 2) as shared:
        run_batch(batch_of(trials_on(streamed, 4, 1)), shipment, 1)
        assert kept([shipment]) == [(0, 99), (0, 3)]
        with shipment.shared_data(Trial(entry_of("bpa"), streamed, 99), 2) as same:
            assert same is shared


def test_data_are_let_go_of_when_their_trials_are_done() -> None:
    backend = Paper(a=1)
    streams = [stream(X, Y), stream(X + 1, Y)]
    seen: dict[Source, int] = {}
    trials = [trial for one in streams for trial in trials_on(one, 5)]
    for count, _ in enumerate(ClusterExecutor(backend).run(grouped(trials), lambda count: None)):
        for source in backend.released:
            seen.setdefault(source, count)
    assert set(backend.released) == {one.source for one in streams}
    assert len(backend.released) == 2
    assert list(seen.values()) == [15], "the first before the second is done"


def test_what_is_mapped_from_a_file_is_mapped_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, X)
    source = stream(np.load(path, mmap_mode="r"), Y).source
    shipment = pickle.loads(pickle.dumps(Shipment(source)))
    assert len(pickle.dumps(shipment)) < 20_000
    mapped = shipment.source().make(5, 0).X
    assert isinstance(mapped, np.memmap)
    assert np.array_equal(mapped, X)
    lost = pickle.loads(pickle.dumps(Shipment(source)))
    path.unlink()
    with pytest.raises(OnebitError, match=r"rows\.npy, which is not there on .*: large files are not sent"):
        lost.source()


def test_a_source_of_a_module_that_a_worker_has_not_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onebit_test_far.py").write_text("def make(rounds, seed): ...\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        shipment = Shipment(drawn(importlib.import_module("onebit_test_far").make).source)
    del sys.modules["onebit_test_far"]
    with pytest.raises(OnebitError, match=r"the data cannot be opened on .*: No module named 'onebit_test_far'"):
        shipment.source()


HELPER = "def step_of(right, step):\n    return step if right else -step\n"
NUDGE = '''
"""A rule of a user's own file, with annotations that are strings and a helper in another file."""
from __future__ import annotations
from typing import Annotated, NamedTuple
import onebit
from onebit_test_helper import step_of
from onebit.contract.choices import fill
from onebit.contract.exploration import decide_epsilon_greedy, epsilon_greedy_probabilities
from onebit.contract.parameters import Real

class Nudge(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 1)", "the probability of exploring")] = 0.1
    step: Annotated[float, Real("(0, inf)", "how far the played class moves")] = 0.1

def learn(params, given, choice, revealed, step):
    fill(step, params.classes, 0.0)
    step[choice.label] = step_of(revealed == choice.label, params.step)
    return 1.0

RULE = onebit.Rule(
    "nudge", "none", "moves the played class", Nudge, decide_epsilon_greedy, learn, epsilon_greedy_probabilities
)
'''


@pytest.fixture
def nudge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The rule of a file that only this process can import."""
    (tmp_path / "onebit_test_helper.py").write_text(HELPER)
    (tmp_path / "onebit_test_nudge.py").write_text(NUDGE)
    monkeypatch.syspath_prepend(tmp_path)
    rule = importlib.import_module("onebit_test_nudge").RULE
    yield rule
    known.pop(rule.record, None)
    for name in ("onebit_test_nudge", "onebit_test_helper"):
        sys.modules.pop(name, None)


def test_a_rule_of_onebit_travels_as_its_name() -> None:
    assert sent_rule(entry_of("bpa").rule) == "bpa"
    assert received_rule("bpa", code_mark(entry_of("bpa").rule)) is entry_of("bpa").rule


def test_a_rule_of_ones_own_travels_with_all_code_it_reaches(nudge: Any) -> None:
    """In this process the parts are known; in another, the test of Dask shows that it runs."""
    sent = sent_rule(nudge)
    assert isinstance(sent, bytes)
    assert b"onebit_test_helper" in sent
    assert received_rule(sent, "") is not None
    assert received_rule(sent, "") is received_rule(sent_rule(nudge), "")


def test_a_rule_that_needs_what_a_worker_has_not_is_a_sentence(nudge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sent_rule(nudge)
    assert isinstance(sent, bytes)
    absent = sent.replace(b"onebit.contract.choices", b"onebit.contract.nowhere")
    with pytest.raises(
        OnebitError, match=r"the code of a learner cannot be opened on \S+: No module named 'onebit\.cont"
    ):
        received_rule(absent, "")
