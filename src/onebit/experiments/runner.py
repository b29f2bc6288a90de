"""Run the trials of an experiment that have no record yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import closing

from onebit.data.streams import Stream
from onebit.executors import Executor
from onebit.experiments.summary import Summary
from onebit.trials.cost import NOTHING, Cost, kind_of
from onebit.trials.records import Record, Records
from onebit.trials.shared_data import by_shared_data
from onebit.trials.trial import CPU, ComparisonEntry, Progress, Trial

Callback = Callable[[Record], object]  # told of each run once it is kept; what it returns does not matter


class Collected:
    """The records of some trials, and what they took."""

    def __init__(self, records: dict[str, Record] | None = None, cost: Cost = NOTHING) -> None:
        self._records = records or {}
        self.cost = cost

    def of(self, trials: Iterable[Trial]) -> list[Record]:
        """Those of these trials that were run, failed or not, in their order."""
        return [self._records[trial.identity] for trial in trials if trial.identity in self._records]

    def failures(self, trials: Iterable[Trial]) -> list[Record]:
        """Those of these trials that failed."""
        return [record for record in self.of(trials) if record.failed]

    def summary(self, entry: ComparisonEntry, stream: Stream, seeds: range) -> Summary | None:
        """How a learner did with all of these seeds; None where a run failed or was not done."""
        records = self.of(Trial(entry, stream, seed) for seed in seeds)
        whole = len(records) == len(seeds) and not any(record.failed for record in records)
        return Summary(entry, records) if whole else None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `collected` has what was done by then."""

    def __init__(self, collected: Collected) -> None:
        super().__init__("stopped")
        self.collected = collected


def collect(
    trials: Iterable[Trial],
    records: Records,
    executor: Executor,
    progress: Progress | None,
    callback: Callback | None = None,
) -> Collected:
    """The records of these trials; those that are not there yet are run, and kept as soon as they are done.

    `callback` is told of each once, in this thread and after it is kept: first of those that were there, then of the others as they come.
    """
    report = progress or (lambda count: None)
    found: dict[str, Record] = {}
    missing: dict[str, Trial] = {}
    for trial in trials:
        record = records.get(trial)
        if record is not None:
            found[trial.identity] = record
            report(trial.stream.rounds)
        elif trial.identity not in missing or trial.curve:  # where two ask for the same, the one that wants more
            missing[trial.identity] = trial
    new: dict[str, Record] = {}
    already, started = len(found), time.perf_counter()

    def cost(measured: bool) -> Cost:
        done = [(missing[identity], record) for identity, record in new.items() if not record.failed]
        seconds = time.perf_counter() - started if new else 0.0
        rounds = sum(trial.stream.rounds for trial, _ in done)
        return Cost(executor.resources, rounds, seconds, _core_seconds(done, executor if measured else None), already)

    try:
        if callback is not None:
            for record in found.values():
                callback(record)
        with closing(executor.run(by_shared_data(missing.values()), report)) as come:
            for record in come:
                if record.fields["id"] not in new:  # an executor may give what was lost and done again twice
                    new[record.fields["id"]] = records.add(record)
                    if callback is not None:
                        callback(record)
        return Collected({**found, **new}, cost(measured=True))
    except KeyboardInterrupt:
        raise Interrupted(Collected({**found, **new}, cost(measured=False))) from None


def _core_seconds(done: Sequence[tuple[Trial, Record]], executor: Executor | None) -> float | None:
    """How long one core would have been at these runs: those of a CPU say so, of others the executor measures one of a kind."""
    total = float(sum(record.fields["seconds"] for _, record in done if record.on == CPU))
    seeds: dict[tuple[int, int], list[Trial]] = {}  # trials of an entry and a stream, which are of one kind
    for trial, record in done:
        if record.on != CPU:
            seeds.setdefault((id(trial.entry), id(trial.stream)), []).append(trial)
    rounds: dict[Hashable, int] = {}
    samples: dict[Hashable, Trial] = {}
    for trials in seeds.values():
        kind = kind_of(trials[0])
        samples.setdefault(kind, trials[0])
        rounds[kind] = rounds.get(kind, 0) + len(trials) * trials[0].stream.rounds
    for kind, trial in samples.items():
        rate = executor.core_rate(trial) if executor is not None else None
        if rate is None:
            return None
        total += rounds[kind] / rate
    return total
