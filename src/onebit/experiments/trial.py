"""A trial: one learner, one stream, one seed. What it is, how it is run, and many of them on threads.

Trials on the same stream with the same seed share its rows, its order and its noise, so that learners can be compared in pairs and
rows are drawn once. A thread stays with the rows it has until their trials run out: few data sets are in memory at a time,
however many trials there are.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.parameters import refuse_unknown
from onebit.contract.rule import Rule
from onebit.data.sources import Source
from onebit.data.streams import Stream
from onebit.data.tables import Dataset
from onebit.engine.compile import code_mark
from onebit.engine.course import Course
from onebit.engine.stream import Tally
from onebit.errors import OnebitError
from onebit.features import Features, Rows, is_sparse, squared_lengths
from onebit.learner import Learner, learner_class
from onebit.rules import rule_named
from onebit.spaces.kernels import Kernel
from onebit.version import VERSION

LINEAR_MARKS, LOGARITHMIC_MARKS = 120, 80  # of a curve, which is looked at both ways
PATIENCE_S = 2.0  # so long a thread that was stopped is waited for
TARGET_S = 0.05  # the loop comes up for air about this often, to report and to be stopped

Progress = Callable[[int], None]  # told how many rounds have been done since the last call

# What any learner takes besides the parameters of its rule. Trials have seeds, and data have classes.
OPTIONS = {name: meaning for name, meaning in Learner.common.items() if name not in ("seed", "classes")}


@dataclass(frozen=True)
class Entry:
    """A learner as it takes part: a rule with options, or a learner of which every trial gets a copy."""

    template: Rule | Learner
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def rule(self) -> Rule:
        """Its rule."""
        return self.template.rule if isinstance(self.template, Learner) else self.template

    @property
    def said(self) -> str:
        """The options as text; empty for a learner as it comes."""
        return shown(self.options)

    @property
    def title(self) -> str:
        """What it is called in tables and curves."""
        return f"{self.rule.name}, {self.said}" if self.options else self.rule.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All parameters, those left to their defaults too; a bad one is refused."""
        assert isinstance(self.template, Rule)
        refuse_unknown(self.rule.title, self.options, {**self.rule.parameters, **OPTIONS})
        own = {name: value for name, value in self.options.items() if name in self.rule.parameters}
        common = {name: value for name, value in self.options.items() if name not in own}
        return {**self.rule.defaults, **self.rule.plain(own), **common}

    @cached_property
    def described(self) -> dict[str, Any]:
        """What makes it what it is: its rule by name and by code, and all parameters."""
        return {"learner": self.rule.name, "code": code_mark(self.rule), "params": self.settings}

    def make(self, stream: Stream, data: Dataset, seed: int, longest: Callable[[bool, str | None], float]) -> Learner:
        """A fresh learner; the rule may plan with what only a run knows: its length, and that of its rows."""
        if isinstance(self.template, Learner):
            made = self.template.clone(seed=seed)
        else:
            options = self.options
            if self.template.plan is not None:
                length = longest(bool(options.get("bias")), options.get("kernel"))
                planned = self.template.plan(options, stream.rounds, length)
                options = {**options, **planned}
            made = learner_class(self.template)(data.classes, seed=seed, **options)
        made.fix_features(data.X)
        return made


def entry_of(learner: object, options: dict[str, Any] | None = None) -> Entry:
    """The entry of a name, a learner class or a rule, with options, or of a learner."""
    options = dict(options or {})
    if isinstance(learner, Learner):
        if options:
            raise OnebitError("a learner brings its own classes and options")
        return Entry(learner)
    if isinstance(learner, str):
        learner = rule_named(learner)
    if isinstance(learner, type) and issubclass(learner, Learner) and hasattr(learner, "_rule"):
        learner = learner._rule
    if not isinstance(learner, Rule):
        raise OnebitError(f"learner is {learner!r}, but must be the name of one, a Rule, a learner class, or a Learner")
    entry = Entry(learner, options)
    _ = entry.settings
    planned = learner.plan(options, 1, 1.0) if learner.plan is not None else {}
    learner_class(learner)(2, **{**options, **planned, "features": None})  # bad options are found now
    return entry


@dataclass(frozen=True)
class Trial:
    """One learner on one stream with one seed."""

    entry: Entry
    stream: Stream
    seed: int

    @cached_property
    def identity(self) -> str:
        """A hash of what it is: the code, the learner, the stream and the seed, wherever it stands in whichever list."""
        what = {"version": VERSION, **self.entry.described, "stream": self.stream.described(), "seed": self.seed}
        text = json.dumps(what, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What came of a trial: mistakes of played and greedy labels, their curve, or why it failed."""

    trial: Trial
    mistakes: NDArray[np.int64]
    marks: NDArray[np.int64]
    curve: NDArray[np.int64]
    seconds: float
    learner: Learner | None
    why: OnebitError | None = None


def marks_for(rounds: int) -> NDArray[np.int64]:
    """The rounds at which a curve has its points: evenly spaced, and evenly spaced in the logarithm."""
    linear = np.linspace(1, rounds, min(LINEAR_MARKS, rounds))
    return np.unique(np.concatenate([linear, np.geomspace(1, rounds, LOGARITHMIC_MARKS)]).round().astype(np.int64))


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Tables:
    """The rows of a data set in the forms that learners have asked for."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        self._lock = threading.Lock()
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._longest: float | None = None

    def rows(self, learner: Learner) -> Rows:
        if learner.reads_names:  # a learner's vocabulary is its own
            return learner.table(self.data.X)
        form = learner.feature_options
        with self._lock:
            if form not in self._rows:
                self._rows[form] = learner.table(self.data.X)
            return self._rows[form]

    def longest(self, bias: bool, kernel: str | None) -> float:
        """The length of the longest row, with its constant feature where there is one, and in the space of a kernel."""
        with self._lock:
            if self._longest is None:
                values = self.data.X.data if is_sparse(self.data.X) else self.data.X
                held = str(getattr(values, "dtype", "float64"))  # of what may be larger than memory no copy is made
                features = Features(None, None, held if held == "float32" else "float64", False, None)
                features.settle(self.data.X)
                self._longest = float(squared_lengths(features.table(self.data.X)).max())
        norm = np.array([self._longest + bias])
        if kernel is not None:
            norm = Kernel.read(kernel, 1).selves(norm)
        return float(np.sqrt(norm[0]))


class _Ground:
    """What the trials of one stream and one seed share: the rows and the way through them, made when first needed."""

    def __init__(self, trials: Sequence[Trial], fixed: dict[tuple[Source, int], _Tables]) -> None:
        self.stream, self.seed, self.left = trials[0].stream, trials[0].seed, deque(trials)
        self._fixed, self._lock = fixed, threading.Lock()

    @cached_property
    def _made(self) -> tuple[_Tables, Course]:
        source = self.stream.source, self.stream.rounds
        tables = self._fixed.get(source)
        if tables is None:
            tables = _Tables(self.stream.data(self.seed))
            if self.stream.source.fixed:
                self._fixed[source] = tables
        return tables, self.stream.course(tables.data, self.seed)

    def made(self) -> tuple[_Tables, Course]:
        with self._lock:
            return self._made


class _Work:
    """Trials by their grounds. A thread that asks gets one of the ground it stands on, if there is one left."""

    def __init__(self, groups: Iterable[Sequence[Trial]]) -> None:
        self._lock = threading.Lock()
        self._groups = iter(groups)
        self._fixed: dict[tuple[Source, int], _Tables] = {}  # the rows that all seeds share
        self._begun: list[_Ground] = []

    def next(self, mine: _Ground | None) -> tuple[_Ground, Trial] | None:
        with self._lock:
            if mine is None or not mine.left:
                self._begun = [ground for ground in self._begun if ground.left]
                group = next((group for group in self._groups if group), None)
                if group is not None:
                    mine = _Ground(group, self._fixed)
                    self._begun.append(mine)
                elif self._begun:  # help where most is left
                    mine = max(self._begun, key=lambda ground: len(ground.left))
                else:
                    return None
            return mine, mine.left.popleft()


def execute(groups: Iterable[Sequence[Trial]], threads: int, progress: Progress) -> Generator[Outcome, None, None]:
    """Run groups of trials that share stream and seed on threads, and give outcomes as they come.

    Groups are asked for when a thread is free. Closing the iterator stops what is running.
    """
    work, stop, lock = _Work(groups), threading.Event(), threading.Lock()
    outcomes: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()

    def report(count: int) -> None:
        with lock:
            progress(count)

    def labour() -> None:
        ground: _Ground | None = None
        try:
            while not stop.is_set():
                found = work.next(ground)
                if found is None:
                    break
                ground, trial = found
                outcome = _run(trial, ground, stop, report)
                if outcome is not None:
                    outcomes.put(outcome)
        except BaseException as error:
            outcomes.put(error)
        finally:
            outcomes.put(None)

    workers = [threading.Thread(target=labour, daemon=True) for _ in range(threads)]
    working = len(workers)
    try:
        for worker in workers:
            worker.start()
        while working:
            try:
                found = outcomes.get(timeout=0.2)  # in short breaths, so that Ctrl-C is heard
            except queue.Empty:
                continue
            if found is None:
                working -= 1
            elif isinstance(found, BaseException):
                raise found
            else:
                yield found
    finally:
        stop.set()
        # One that draws rows does not hear of it: it ends by itself, later, and is not waited for.
        deadline = time.monotonic() + PATIENCE_S
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(0.0, deadline - time.monotonic()) if working else None)


def _run(trial: Trial, ground: _Ground, stop: threading.Event, progress: Progress) -> Outcome | None:
    """One trial, in chunks; None where it was stopped."""
    rounds = trial.stream.rounds
    marks = marks_for(rounds)
    tally = Tally(np.zeros(3, dtype=np.int64), marks, np.zeros((2, len(marks)), dtype=np.int64))
    done, seconds, told = 0, 0.0, 0
    try:
        tables, course = ground.made()
        learner = trial.entry.make(trial.stream, tables.data, trial.seed, tables.longest)
        rows, course = tables.rows(learner), _as_named(learner, tables.data, course)
        kept, steps, chunk = course.choices, course.steps, 500
        while done < steps:
            if stop.is_set():
                return None
            until = min(steps, done + chunk)
            started = time.thread_time()
            learner.walk(rows, course, kept, tally, done, until)
            took = time.thread_time() - started
            seconds += took
            done, chunk = until, max(1, min(10 * chunk, int(chunk * TARGET_S / max(took, 1e-6))))
            reached = rounds * done // steps
            progress(reached - told)
            told = reached
    except OnebitError as error:
        progress(rounds - told)
        return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, None, error)
    learner.finish_walk(course)
    return Outcome(trial, tally.mistakes[:2], marks, tally.curve, seconds, learner)


def _as_named(learner: Learner, data: Dataset, course: Course) -> Course:
    """The course with the labels as the learner numbers them."""
    if data.classes == learner.classes:
        return course
    place = np.array(learner.label_indices(data.classes), dtype=np.int64)
    return course._replace(labels=place[course.labels])


def shown(options: Mapping[str, Any]) -> str:
    """Options as text.

    >>> shown({"exploration": 0.1, "variant": "PA-I"})
    'exploration=0.1, variant=PA-I'
    """
    return ", ".join(f"{name}={_word(value)}" for name, value in options.items())


def _word(value: object) -> str:
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


def counted(name: str, given: object) -> int:
    """A number of things, of which there is at least one."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise OnebitError(f"{name} is {given!r}, but must be a whole number of at least 1")
    return int(given)
