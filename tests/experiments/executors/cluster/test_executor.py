"""What clusters share, with a cluster that is no process: how trials are cut into batches, what is sent, lost and found again."""

from __future__ import annotations

import importlib
import itertools
import pickle
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.contract.rule import rules_by_record
from onebit.data.dataset import Dataset
from onebit.data.streams import stream
from onebit.errors import NetworkError, OnebitError
from onebit.experiments.executors import cluster
from onebit.experiments.executors.cluster import ClusterExecutor, WorkerLostError, worker
from onebit.experiments.executors.cluster.worker import (
    OpenSource,
    PackedValue,
    end_run,
    pack,
    pack_rule,
    run_batch,
    unpack_rule,
)
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Trial, make_entry
from onebit.experiments.trials.records import Records
from tests.experiments.executors.helpers import X, Y, collect, come, drawn, mixed, on_threads, trials_on


class PaperExecutor(ClusterExecutor):
    """A cluster on paper: what is sent goes through pickle, and is worked off, one task at a time, when it is waited for."""

    kind, at = "Paper", "on a desk"

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self.puts: list[PackedValue] = []
        self.tasks: dict[int, bytes] = {}
        self.batches: list[int] = []
        self.ended: list[tuple[str, list[int]]] = []
        self.closed = 0
        self._numbers = itertools.count()

    def _count_slots(self) -> tuple[int, str]:
        return self.threads, f"{self.threads} pencils"

    def _send_source(self, source: PackedValue) -> int:
        self.puts.append(source)
        return len(self.puts) - 1

    def _submit_batch(self, run: str, version: str, batch: PackedValue, reference: int) -> int:
        number = next(self._numbers)
        self.tasks[number] = pickle.dumps((run, version, batch, self.puts[reference]))
        return number

    def _take_finished(self, futures: Sequence[int]) -> Iterator[tuple[int, Any]]:
        assert set(futures) == set(self.tasks)
        yield min(futures), self.work_off(min(futures))

    def work_off(self, future: int) -> Any:
        result = run_batch(*pickle.loads(self.tasks.pop(future)))
        self.batches.append(len(result[0]))
        return result

    def _end_run(self, run: str, futures: Sequence[int]) -> None:
        self.ended.append((run, list(futures)))
        for future in futures:
            self.tasks.pop(future, None)
        end_run(run)

    def close(self) -> None:
        self.closed += 1


# --- the same rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_s", [0.0, 1.0])
def test_rows_are_those_of_threads(threads: int, batch_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "BATCH_S", batch_s)  # with 0 every batch has one trial
    trials, seen = mixed(), list[int]()
    expected = on_threads(trials)
    assert come(PaperExecutor(threads), trials, seen.append) == expected
    assert sum(1 for row in expected.values() if row["why"]) == 12, "failures are rows"
    assert sum(seen) == sum(trial.stream.rounds for trial in trials)


def test_batches_grow_where_trials_are_short() -> None:
    executor = PaperExecutor(2)
    come(executor, trials_on(stream(X, Y), 4, 30))
    assert executor.batches[0] == 1, "nobody knows yet how long a trial takes"
    assert max(executor.batches) > 5


def test_no_trials_are_no_rows() -> None:
    assert list(PaperExecutor().run([], lambda count: None)) == []


def test_the_workers_of_a_run_are_those_that_were_there_at_most() -> None:
    executor = PaperExecutor(1)
    for count, _ in enumerate(executor.run(trials_on(stream(X, Y), 20), lambda count: None)):
        executor.threads = 3 if count == 20 else 2
    assert executor.where == "Paper, 3 pencils on a desk"


# --- what is lost --------------------------------------------------------------------------------------------------------


class MortalExecutor(PaperExecutor):
    """A cluster that loses whatever is under way with one trial."""

    def __init__(self, culprit: Trial, threads: int) -> None:
        super().__init__(threads)
        self.culprit, self.is_alone = culprit, list[bool]()

    def _take_finished(self, futures: Sequence[int]) -> Iterator[tuple[int, Any]]:
        if not any(self.culprit.identity.encode() in task for task in self.tasks.values()):
            yield from super()._take_finished(futures)
            return
        self.is_alone.append(len(futures) == 1)
        for future in futures:
            del self.tasks[future]
            yield future, WorkerLostError()


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("index", [0, 20, 39])
@pytest.mark.parametrize("seeds", [1, 20])
def test_a_trial_that_ends_its_workers_is_named_and_no_other(threads: int, index: int, seeds: int) -> None:
    trials = trials_on(stream(X, Y, rounds=10, order="shuffle"), seeds, 40 // seeds)
    executor = MortalExecutor(trials[index], threads)
    named = f"{trials[index].entry.title} on arrays, seed {trials[index].seed}: every worker that had it was lost"
    came: list[str] = []
    with pytest.raises(OnebitError, match=re.escape(named)):
        came.extend(record.id for record in executor.run(trials, lambda count: None))
    assert executor.is_alone[-1]
    assert len(came) == len(set(came))
    assert not executor.tasks


def test_what_is_lost_is_done_again_and_no_trial_twice() -> None:
    class Flaky(PaperExecutor):
        def work_off(self, future: int) -> Any:
            if future not in (0, 5, 6):
                return super().work_off(future)
            del self.tasks[future]
            return WorkerLostError()

    trials, executor = trials_on(stream(X, Y), 10), Flaky(2)
    assert come(executor, trials) == on_threads(trials)
    assert len(executor.puts) == 4, "data are sent again: they may be lost, too"


def test_a_cluster_that_does_not_answer_is_a_sentence() -> None:
    class Silent(PaperExecutor):
        def _take_finished(self, futures: Sequence[int]) -> Iterator[tuple[int, Any]]:
            raise TimeoutError("nobody there")

    said = "Paper on a desk does not answer, or has no workers: nobody there; finished runs are kept"
    with pytest.raises(NetworkError, match=re.escape(said)):
        come(Silent(), trials_on(stream(X, Y), 2))


# --- stopping and errors -----------------------------------------------------------------------------------------------


def test_closing_forgets_what_is_under_way() -> None:
    executor = PaperExecutor(2)
    with closing(executor.run(trials_on(stream(X, Y), 20), lambda count: None)) as found:
        next(found)
        under_way = list(executor.tasks)
        assert under_way
    assert executor.ended[0][1] == under_way
    assert not worker._sources, "data are let go of"


def test_ctrl_c_keeps_what_came(tmp_path: Path) -> None:
    trials, told = trials_on(stream(X, Y), 20), list[int]()

    def progress(count: int) -> None:
        told.append(count)
        if len(told) == 7:
            raise KeyboardInterrupt

    rows = Records(tmp_path)
    stopped = TrialCollector(rows, PaperExecutor(2), progress)
    with pytest.raises(KeyboardInterrupt):
        stopped.collect(trials)
    rows.close()
    assert len(stopped.records_of(trials)) == 6
    again = Records(tmp_path)
    assert len(collect(trials, again, PaperExecutor()).records_of(trials)) == 60
    again.close()
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + 60, "each run is there once"


def test_a_batch_stops_when_its_run_has_ended() -> None:
    trials = trials_on(stream(X, Y), 1)
    source, batch = pack(trials[0].stream.source, with_source=True), pack(trials)
    assert len(run_batch("a", worker.worker_version(), batch, source)[0]) == 3
    end_run("b")
    assert run_batch("b", worker.worker_version(), batch, source)[0] == []


def test_another_version_is_refused() -> None:
    said = (
        r"a worker on \S+ has onebit .*, but the command runs with onebit 0\.0\.1: install the same version everywhere"
    )
    with pytest.raises(OnebitError, match=said):
        run_batch("a", "onebit 0.0.1", pack([]), pack(stream(X, Y).source, with_source=True))


def test_any_other_error_says_where_it_was() -> None:
    class Broken(PaperExecutor):
        def work_off(self, future: int) -> Any:
            raise ZeroDivisionError("a mistake of ours")

    said = r"a worker of Paper on a desk failed: ZeroDivisionError: a mistake of ours"
    with pytest.raises(OnebitError, match=said) as failed:
        come(Broken(), trials_on(stream(X, Y), 3))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_an_error_in_a_trial_names_it_and_the_machine() -> None:
    def make(rounds: int, seed: int) -> Dataset:
        raise MemoryError("Unable to allocate 8 PiB")

    said = r"banditron, exploration=0\.1 on drawn, seed 0 failed on \S+: MemoryError: Unable to allocate 8 PiB"
    with pytest.raises(OnebitError, match=said):
        come(PaperExecutor(), trials_on(drawn(make), 2))


# --- what is sent --------------------------------------------------------------------------------------------------------


def test_arrays_are_sent_apart_and_not_copied_when_opened() -> None:
    table = np.arange(40_000.0).reshape(1000, 40)
    source = stream(table, np.arange(1000) % 3).source
    packed = pack(source, with_source=True)
    assert sum(buffer.nbytes for buffer in packed.buffers) >= table.nbytes
    assert len(packed.pickled) < 20_000
    opened = OpenSource(packed).source
    data = opened.make(5, 0)
    assert np.array_equal(data.X, table)
    assert data.X.base is not None, "a view of the bytes that came"
    assert opened.identity == source.identity


def test_the_data_are_sent_once_and_tasks_without_them() -> None:
    executor, trials = PaperExecutor(2), trials_on(stream(np.tile(X, (100, 1)), np.tile(Y, 100), rounds=50), 5)
    come(executor, trials)
    assert len(executor.puts) == 1
    assert sum(buffer.nbytes for buffer in executor.puts[0].buffers) > 100_000
    assert len(pickle.dumps(pack(trials))) < 20_000


def test_a_worker_opens_a_source_once_and_keeps_the_rows_of_the_last_seed() -> None:
    made: list[int] = []

    def make(rounds: int, seed: int) -> Dataset:
        made.append(seed)
        return Dataset(np.array(X), np.array(Y), tuple(range(5)))

    trials = trials_on(drawn(make), 4)
    source = pack(trials[0].stream.source, with_source=True)
    opened = OpenSource(source)
    opened.source = trials[0].stream.source  # not a copy, which would count by itself
    worker._sources[source.token] = opened
    for trial in trials:
        run_batch("c", worker.worker_version(), pack([trial]), source)
    assert made == [0, 1, 2, 3]
    rows = weakref.ref(opened.share_data(trials[-1]))
    assert made == [0, 1, 2, 3]
    del opened
    assert rows() is not None
    end_run("c")
    assert rows() is None, "data are let go of"


def test_what_is_mapped_from_a_file_is_mapped_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, X)
    packed = pack(stream(np.load(path, mmap_mode="r"), Y).source, with_source=True)
    assert len(pickle.dumps(packed)) < 20_000
    mapped = OpenSource(packed).source.make(5, 0).X
    assert isinstance(mapped, np.memmap)
    assert np.array_equal(mapped, X)
    path.unlink()
    with pytest.raises(OnebitError, match=r"rows\.npy is missing on .*: large files are not sent"):
        OpenSource(packed)


def test_a_source_of_a_module_that_a_worker_has_not_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onebit_test_far.py").write_text("def make(rounds, seed): ...\n")
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        packed = pack(drawn(importlib.import_module("onebit_test_far").make).source, with_source=True)
    del sys.modules["onebit_test_far"]
    with pytest.raises(OnebitError, match=r"the data cannot be opened on .*: No module named 'onebit_test_far'"):
        OpenSource(packed)


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
    rules_by_record.pop(rule.record, None)
    for name in ("onebit_test_nudge", "onebit_test_helper"):
        sys.modules.pop(name, None)


def test_a_rule_of_onebit_is_sent_by_name() -> None:
    rule = make_entry("bpa").rule
    assert len(pack(rule).pickled) < 100
    assert pickle.loads(pack(rule).pickled) is rule


def test_a_rule_of_ones_own_is_sent_with_all_code_it_reaches(nudge: Any) -> None:
    """In this process the parts are known; in another, the test of Dask shows that it runs."""
    packed = pack_rule(nudge)
    assert isinstance(packed, bytes)
    assert b"onebit_test_helper" in packed
    assert unpack_rule(packed) is unpack_rule(pack_rule(nudge)), "which is compiled once"


def test_a_rule_that_needs_what_a_worker_has_not_is_a_sentence(nudge: Any) -> None:
    batch = pack([Trial(make_entry(nudge), stream(X, Y), 0)])
    absent = batch._replace(pickled=batch.pickled.replace(b"onebit.contract.choices", b"onebit.contract.nowhere"))
    with pytest.raises(
        OnebitError, match=r"the code of a learner cannot be opened on \S+: No module named 'onebit\.cont"
    ):
        run_batch("d", worker.worker_version(), absent, pack(stream(X, Y).source, with_source=True))
