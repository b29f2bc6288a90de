"""What is sent to a worker of a cluster, and what it does there.

Trials are sent in batches, without their data. These go once to each worker, which keeps what trials share: the rows as learners
read them, and those drawn for the last few seeds, whichever data they are of.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import pickle
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.rule import Rule, known
from onebit.data.sources import Source
from onebit.data.streams import Stream
from onebit.engine.compile import code_mark
from onebit.engine.reach import reach
from onebit.errors import InputError, OnebitError
from onebit.rules import registry, rule_named
from onebit.trials.execution import run_trials
from onebit.trials.records import Record, record_of
from onebit.trials.shared_data import SharedData
from onebit.trials.trial import ComparisonEntry, Trial
from onebit.version import VERSION

TASK_S = 1.0  # a worker comes back with what it has after so long, or after its first trial
PYTHON = ".".join(platform.python_version_tuple()[:2])
LIBRARIES = ("onebit", "numpy", "numba", "math")  # every worker has them


class Shipment:
    """A source of data on its way to the workers. One that gets it opens it once, and keeps what its trials share."""

    def __init__(self, source: Source) -> None:
        _ = source.identity  # found here, so that no worker reads all rows for it
        self._pickled, self._buffers = _pickled(source)
        self._begin()

    def __getstate__(self) -> tuple[bytes, list[Any]]:
        return self._pickled, self._buffers

    def __setstate__(self, state: tuple[bytes, list[Any]]) -> None:
        self._pickled, self._buffers = state
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._source: Source | None = None
        self._fixed: dict[Any, Any] = {}
        self._held: dict[tuple[str, int], _Held] = {}
        with _PROCESS.lock:
            _PROCESS.shipments.add(self)

    def source(self) -> Source:
        """The source, which shares the memory in which the shipment came."""
        with self._lock:
            if self._source is None:
                self._source = _opened("the data", self._pickled, self._buffers)
            return self._source

    @contextmanager
    def shared_data(self, trial: Trial, keep: int) -> Generator[SharedData, None, None]:
        """What the trials of this stream and this seed share. Of all shipments together, those in use and the last few are kept."""
        key = trial.stream.key, trial.seed
        with _PROCESS.lock:
            held = self._held.setdefault(key, _Held(SharedData(trial, self._fixed)))
            held.users += 1
            held.last = next(_PROCESS.count)
            _PROCESS.tidy(keep)
        try:
            yield held.shared_data
        finally:
            with _PROCESS.lock:
                held.users -= 1


@dataclass
class _Held:
    """The data of a stream and a seed, how many trials run on them, and when the last began."""

    shared_data: SharedData
    users: int = 0
    last: int = 0


class _Process:
    """The shipments of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = itertools.count()
        self.shipments: weakref.WeakSet[Shipment] = weakref.WeakSet()

    def tidy(self, keep: int) -> None:
        """Let go of data that nobody uses, the oldest first, until few enough are left."""
        held = [(held, shipment._held, key) for shipment in self.shipments for key, held in shipment._held.items()]
        idle = sorted((one for one in held if not one[0].users), key=lambda one: one[0].last)
        for _, of, key in idle[: max(0, len(held) - keep)]:
            del of[key]


_PROCESS = _Process()


def _pickled(thing: object) -> tuple[bytes, list[Any]]:
    """Something in bytes, and its arrays as they lie in memory; of those that are mapped from a file, the path."""
    import cloudpickle

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            whole = isinstance(getattr(thing, "base", None), mmap.mmap)  # and no part of it
            if whole and isinstance(thing, np.memmap) and thing.flags.c_contiguous:
                size = os.stat(thing.filename).st_size  # type: ignore[arg-type]
                return _mapped, (str(thing.filename), size, thing.dtype, thing.shape, thing.offset)
            return super().reducer_override(thing)

    file = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    Packer(file, protocol=5, buffer_callback=buffers.append).dump(thing)
    return file.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def _opened(what: str, pickled: bytes, buffers: Sequence[Any] = ()) -> Any:
    """What was pickled elsewhere; its code may need what is not here."""
    try:
        return pickle.loads(pickled, buffers=buffers)
    except OnebitError:
        raise
    except Exception as error:
        raise InputError(f"{what} cannot be opened on {platform.node()}: {error}") from error


def _mapped(path: str, size: int, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Any:
    if not os.path.isfile(path) or os.stat(path).st_size != size:
        raise InputError(
            f"the rows lie in {path}, which is not there on {platform.node()}: large files are not sent, so let ONEBIT_CACHE "
            "name a folder that all machines share"
        )
    return np.memmap(path, dtype=dtype, shape=shape, offset=offset, mode="r")


def named(trial: Trial) -> str:
    """A trial in words."""
    return f"{trial.entry.title} on {trial.stream.name}, seed {trial.seed}"


class TrialSpec(NamedTuple):
    """A trial as it is sent, without its stream: the rule by name or as code, and the hashes under which its record is kept."""

    rule: str | bytes
    options: dict[str, Any]
    seed: int
    identity: str
    code: str


class TrialBatch(NamedTuple):
    """Trials of one stream that are sent together, with its settings; the source is a shipment of its own."""

    settings: dict[str, Any]
    specs: list[TrialSpec]


def batch_of(trials: Sequence[Trial]) -> TrialBatch:
    """Trials of one stream as they are sent."""
    stream = trials[0].stream
    settings = {field.name: getattr(stream, field.name) for field in fields(stream) if field.name != "source"}
    return TrialBatch(
        settings,
        [
            TrialSpec(
                sent_rule(trial.entry.rule),
                trial.entry.options,
                trial.seed,
                trial.identity,
                trial.entry.described["code"],
            )
            for trial in trials
        ],
    )


@cache
def sent_rule(rule: Rule) -> str | bytes:
    """A rule of onebit's as its name; one of a user's own file with all code of theirs that it reaches."""
    import cloudpickle

    if registry().get(rule.name) is rule:
        return rule.name
    _ = rule.parameters, rule.defaults, rule.kinds  # read here: what annotations name may not be there
    functions = [value for value in vars(rule).values() if callable(value)]
    names = {rule.record.__module__, *(function.__module__ for function in reach(functions))}
    own = [sys.modules[name] for name in names if name in sys.modules and name.split(".")[0] not in LIBRARIES]
    added = [module for module in own if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(rule)  # type: ignore[no-any-return]
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


# --- on a worker -------------------------------------------------------------------------------------------------------


class WorkerVersion(NamedTuple):
    """What a worker must have in common with whoever sends it trials."""

    version: str
    python: str
    code: str  # a hash of that of all rules

    def __str__(self) -> str:
        return f"onebit {self.version} (code {self.code}) on Python {self.python}"


def worker_version() -> WorkerVersion:
    """What this process runs."""
    return WorkerVersion(VERSION, PYTHON, _code())


@cache
def _code() -> str:
    marks = "".join(code_mark(rule) for rule in registry().values())
    return hashlib.sha256(marks.encode()).hexdigest()[:8]


@cache
def received_rule(sent: str | bytes, code: str) -> Rule:
    """The rule that was sent; one that was named must have the code here that it has there."""
    if isinstance(sent, str):
        found = rule_named(sent)
        if code_mark(found) != code:
            raise InputError(f"{platform.node()} has other code of {found.name}: install the same onebit everywhere")
        return found
    rule: Rule = _opened("the code of a learner", sent)
    return known.setdefault(rule.record, rule)


class _Stop(threading.Event):
    """Set when somebody says so."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        super().__init__()
        self.is_set = stopped  # type: ignore[method-assign]


def run_batch(
    batch: TrialBatch, shipment: Shipment, threads: int, stopped: Callable[[], bool] = lambda: False
) -> list[Record]:
    """The records of as many trials as are done in about a second, the first of a batch; `threads` batches are worked on at once."""
    begun, records = time.monotonic(), []
    stream = Stream(shipment.source(), **batch.settings)
    for spec in batch.specs:
        rule = received_rule(spec.rule, spec.code)
        trial = Trial(ComparisonEntry(rule, spec.options), stream, spec.seed)
        try:
            with shipment.shared_data(trial, threads + 1) as shared_data:
                outcomes = run_trials([trial], shared_data, _Stop(stopped), lambda count: None)
        except Exception as error:  # which says nothing where it comes out
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{named(trial)}, fails on {platform.node()}: {what}") from error
        if outcomes is None:
            break
        # The hashes of code that came by value may differ here; it is the code that was asked for.
        records.append(Record({**record_of(outcomes[0]).fields, "id": spec.identity, "code": spec.code}))
        if time.monotonic() - begun >= TASK_S:
            break
    return records
