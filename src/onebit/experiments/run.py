"""`onebit.run`: the whole stream in one compiled loop, replicates on threads, the labels seen by the loop alone.

A run is what stepping a learner by hand gives, bit for bit: decide, compare, learn, row after row. Replicate r has the seed
`seed + r`; a generator draws fresh rows for it, and `shuffle` puts the rows of a file or of arrays into an order of its own.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.parameters import refuse_unknown
from onebit.contract.rule import Rule
from onebit.data.sources import Dataset, Source, source_of
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.features import Features, Rows, squared_lengths
from onebit.learner import Learner, learner_class
from onebit.names import ClassName, checked_seed
from onebit.rules import rule_named

MARKS = 200  # a curve has at most so many points
TARGET_S = 0.05  # the loop comes up for air about this often, to report and to be stopped

Progress = Callable[[int], None]  # told how many rounds have been done since the last call


@dataclass(frozen=True)
class Curve:
    """Errors so far at some rounds, as fractions: one row for each run."""

    rounds: NDArray[np.int64]
    played: NDArray[np.float64]
    greedy: NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """What a run gave: errors are fractions of the rounds, one for each run."""

    rule: str
    params: dict[str, Any]
    data: str
    rounds: int
    errors: NDArray[np.float64]
    greedy_errors: NDArray[np.float64]
    curve: Curve = field(repr=False)
    rounds_per_second: float
    learner: Learner = field(repr=False)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self.errors)

    @property
    def error(self) -> float:
        """The mean error of the labels played."""
        return float(self.errors.mean())

    @property
    def error_sd(self) -> float:
        """The standard deviation of that error from run to run; 0 for one run."""
        return float(self.errors.std(ddof=1)) if self.runs > 1 else 0.0

    @property
    def greedy_error(self) -> float:
        """The mean error of the labels that the learner thought best."""
        return float(self.greedy_errors.mean())

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values, as `onebit run --json` prints it."""
        return {
            "rule": self.rule,
            "params": self.params,
            "data": self.data,
            "rounds": self.rounds,
            "runs": self.runs,
            "error_mean": self.error,
            "error_sd": self.error_sd,
            "greedy_error_mean": self.greedy_error,
            "errors": self.errors.tolist(),
            "greedy_errors": self.greedy_errors.tolist(),
            "rounds_per_second": self.rounds_per_second,
        }


class Stopped(KeyboardInterrupt):
    """Ctrl-C during a run; `result` holds the runs that were done by then, or is None."""

    def __init__(self, result: Result | None) -> None:
        super().__init__("stopped")
        self.result = result


@dataclass(frozen=True)
class _Done:
    """What is kept of a finished run."""

    tally: Tally
    seconds: float


def run(
    learner: str | Learner | Rule | type[Learner],
    X: Any,
    y: Any = None,
    *,
    runs: int = 1,
    seed: int | None = None,
    rounds: int | None = None,
    shuffle: bool = False,
    classes: Iterable[ClassName] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Run a learner over a stream and count its mistakes.

    `learner` is a name, a rule or a learner class with its `options`, or a Learner, from a copy of which every run starts. `X` is a data name, a path, or
    rows, which then need labels `y`. More `rounds` than rows go through the rows again. The learner given is not changed.

    >>> import onebit
    >>> result = onebit.run("perceptron", "synsep10", rounds=2000, runs=2)
    >>> result.runs, 0.2 < result.error < 0.6
    (2, True)
    """
    if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
        raise OnebitError(f"runs is {runs!r}, but must be a whole number of at least 1")
    if isinstance(learner, Learner):
        if options or classes is not None:
            raise OnebitError("a learner brings its own classes and options")
        classes = learner.classes if y is not None else None
    else:
        rule = learner = _rule_behind(learner)
        refuse_unknown(rule.title, options, {**rule.parameters, **Learner.common})
    first_seed = checked_seed((learner.seed if isinstance(learner, Learner) else 0) if seed is None else seed)
    source = source_of(X, y, rounds=rounds, classes=classes)
    plan = _Plan(learner, options, source, first_seed, shuffle)
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise OnebitError(f"threads is {threads!r}, but must be a whole number of at least 1")
    return plan.execute(int(runs), threads or cores(), progress or (lambda count: None))


def _rule_behind(learner: object) -> Rule:
    """The rule of a name, of a learner class, or itself."""
    if isinstance(learner, str):
        return rule_named(learner)
    if isinstance(learner, type) and issubclass(learner, Learner) and hasattr(learner, "_rule"):
        learner = learner._rule
    if not isinstance(learner, Rule):
        raise OnebitError(f"learner is {learner!r}, but must be the name of one, a Rule, a learner class, or a Learner")
    return learner


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Plan:
    """What all runs share: where the data come from, how learners are made, and the data themselves where they are fixed."""

    def __init__(
        self, learner: Rule | Learner, options: dict[str, Any], source: Source, first_seed: int, shuffle: bool
    ) -> None:
        self.source, self.first_seed, self.shuffle = source, first_seed, shuffle
        self.options, self.template = dict(options), learner
        self.shared: tuple[Rows, NDArray[np.int64]] | None = None
        self.marks = np.unique(np.linspace(1, source.rounds, min(MARKS, source.rounds)).astype(np.int64))
        self.stop = threading.Event()
        self.final: tuple[int, Learner] | None = None  # of the first of the finished runs; the others' are not kept
        # The first learner is made here, in the caller's thread: bad options are found, and the compiler runs, before the rest.
        first_data = source.make(source.rounds, first_seed)
        first = self.learner(first_seed, first_data)
        if source.fixed and not first.reads_names:
            self.shared = self._prepared(first, first_data)
        self.title = first.rule.name
        self.params = {
            **first.settings,
            **{name: value for name, value in self.options.items() if name in first.common},
        }

    def learner(self, seed: int, data: Dataset) -> Learner:
        """A fresh learner for one run; the rule may plan with what only a run knows: its length, and that of its rows."""
        if isinstance(self.template, Learner):
            made = self.template.clone(seed=seed)
        else:
            rule, options = self.template, self.options
            if rule.plan is not None:
                options = {
                    **options,
                    **rule.plan(options, self.source.rounds, _longest(data, bool(options.get("bias")))),
                }
            made = learner_class(rule)(data.classes, seed=seed, **options)
        made.fix_features(data.X)
        return made

    def _prepared(self, learner: Learner, data: Dataset) -> tuple[Rows, NDArray[np.int64]]:
        rows = learner.table(data.X)
        if data.classes == learner.classes:
            return rows, data.y
        return rows, learner.label_indices([data.classes[index] for index in data.y.tolist()])

    def one(self, number: int, progress: Progress) -> tuple[_Done, Learner] | None:
        """Run number `number`, in chunks; None where it was stopped."""
        seed, rounds = self.first_seed + number, self.source.rounds
        data = self.source.make(rounds, seed)
        learner = self.learner(seed, data)
        rows, labels = self.shared or self._prepared(learner, data)
        order = _order(len(labels), rounds, seed) if self.shuffle else np.zeros(0, dtype=np.int64)
        tally = Tally(np.zeros(3, dtype=np.int64), self.marks, np.zeros((2, len(self.marks)), dtype=np.int64))
        done, chunk, seconds = 0, 500, 0.0
        while done < rounds:
            if self.stop.is_set():
                return None
            until = min(rounds, done + chunk)
            started = time.thread_time()
            learner.walk(rows, labels, order, tally, done, until)
            took = time.thread_time() - started
            seconds += took
            progress(until - done)
            done, chunk = until, max(1, min(10 * chunk, int(chunk * TARGET_S / max(took, 1e-6))))
        learner.finish_walk(rounds)
        return _Done(tally, seconds), learner

    def execute(self, runs: int, threads: int, progress: Progress) -> Result:
        """All runs, on threads; Ctrl-C ends them at the next chunk and raises `Stopped` with what is done."""
        lock = threading.Lock()

        def report(count: int) -> None:
            with lock:
                progress(count)

        done: dict[int, _Done] = {}
        with ThreadPoolExecutor(max_workers=min(runs, threads)) as pool:
            try:
                self._attend(pool, runs, threads, report, done)
            except BaseException as error:
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                if isinstance(error, KeyboardInterrupt):
                    raise Stopped(self._result(done)) from None
                raise
        result = self._result(done)
        assert result is not None
        return result

    def _attend(
        self, pool: ThreadPoolExecutor, runs: int, threads: int, report: Progress, done: dict[int, _Done]
    ) -> None:
        """Keep the threads busy; wait in short breaths, so that Ctrl-C is heard; pass on the first error."""
        waiting: dict[Future[tuple[_Done, Learner] | None], int] = {}
        coming = iter(range(runs))
        while True:
            for number in itertools.islice(coming, 2 * threads - len(waiting)):
                waiting[pool.submit(self.one, number, report)] = number
            if not waiting:
                return
            finished, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                outcome, number = future.result(), waiting.pop(future)
                assert outcome is not None
                done[number], learner = outcome
                if self.final is None or number < self.final[0]:
                    self.final = number, learner

    def _result(self, done: dict[int, _Done]) -> Result | None:
        """What the finished runs gave, in their order; None where there are none."""
        if not done or self.final is None:
            return None
        rounds = self.source.rounds
        finished = [done[number] for number in sorted(done)]
        curves = np.stack([one.tally.curve for one in finished]) / self.marks
        mistakes = np.stack([one.tally.mistakes for one in finished])
        return Result(
            rule=self.title,
            params=self.params,
            data=self.source.name,
            rounds=rounds,
            errors=mistakes[:, 0] / rounds,
            greedy_errors=mistakes[:, 1] / rounds,
            curve=Curve(self.marks, curves[:, 0], curves[:, 1]),
            rounds_per_second=rounds * len(finished) / max(1e-9, sum(one.seconds for one in finished)),
            learner=self.final[1],
        )


def _order(rows: int, rounds: int, seed: int) -> NDArray[np.int64]:
    """An order of the rows, anew for each time through them."""
    generator = np.random.default_rng([15, seed])
    passes = [generator.permutation(rows) for _ in range(-(-rounds // rows))]
    return np.concatenate(passes)[:rounds].astype(np.int64)


def _longest(data: Dataset, bias: bool) -> float:
    """The length of the longest row, with its constant feature where there is one."""
    features = Features(None, None, "float64", False, None)
    features.settle(data.X)
    return float(np.sqrt(squared_lengths(features.table(data.X)).max() + bias))
