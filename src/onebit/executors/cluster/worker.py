"""What is sent to a worker of a cluster, and what the worker does with it.

A task is a function with its arguments, without the data: those are sent once, as a packed source. A worker opens a source once,
and keeps the rows of the seeds that it runs on, so that tasks share them.
"""

from __future__ import annotations

import hashlib
import mmap
import pickle
import platform
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from onebit.contract.rule import Rule, known
from onebit.data.sources import Source
from onebit.engine.compile import code_mark
from onebit.engine.reach import reach
from onebit.errors import InputError, OnebitError
from onebit.rules import registry, rule_named
from onebit.trials.execution import run_trials
from onebit.trials.records import Record, record_of
from onebit.trials.shared_data import SharedData, Tables
from onebit.trials.trial import Trial
from onebit.version import VERSION

LIBRARIES = ("onebit", "numpy", "numba", "math")  # every worker has them


class PackedValue(NamedTuple):
    """A value in bytes; its arrays lie apart, so that they are not copied when it is opened."""

    token: str
    pickled: bytes
    buffers: list[Any]


def pack(value: object, source: PackedValue | None = None) -> PackedValue:
    """Pack a value. Rules of onebit are sent by name, arrays that are mapped from a file by path; `source` is sent apart."""
    import cloudpickle

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, Rule):
                return unpack_rule, (pack_rule(part),)
            if isinstance(part, Source) and source is not None:
                return _source_with, (source.token,)
            is_whole = isinstance(getattr(part, "base", None), mmap.mmap)  # and no part of what is mapped
            if is_whole and isinstance(part, np.memmap) and part.flags.c_contiguous:
                return np.memmap, (str(part.filename), part.dtype, "r", part.offset, part.shape)
            return super().reducer_override(part)

    file = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    Packer(file, protocol=5, buffer_callback=buffers.append).dump(value)
    arrays = [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]
    return PackedValue(uuid.uuid4().hex, file.getvalue(), arrays)


@cache
def pack_rule(rule: Rule) -> str | bytes:
    """Return the name of a rule of onebit; a rule of a user's own file is packed with all code of theirs that it reaches."""
    import cloudpickle

    if registry().get(rule.name) is rule:
        return rule.name
    _ = rule.parameters, rule.defaults, rule.kinds  # read here: a worker may lack what annotations name
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


@cache
def worker_version() -> str:
    """Return what a worker must have in common with the process that sends it work, the code of all rules too."""
    marks = "".join(code_mark(rule) for rule in registry().values())
    python = ".".join(platform.python_version_tuple()[:2])
    return f"onebit {VERSION} (code {hashlib.sha256(marks.encode()).hexdigest()[:8]}) on Python {python}"


# --- on a worker -------------------------------------------------------------------------------------------------------


class OpenSource:
    """A source that this process has opened, and the rows that its trials share."""

    def __init__(self, packed: PackedValue) -> None:
        self.source: Source = _unpack("the data", packed)
        self.tables: dict[tuple[Source, int], Tables] = {}  # the same for all seeds
        self.shared: WeakValueDictionary[tuple[str, int], SharedData] = WeakValueDictionary()

    def share_data(self, trial: Trial) -> SharedData:
        """Return the data of this stream and seed. Those in use and the last two are in memory."""
        key = trial.stream.key, trial.seed
        with _lock:
            shared = self.shared.get(key) or SharedData(trial, self.tables)
            self.shared[key] = shared
            _recent.append((self, shared))
        return shared


_lock = threading.Lock()
_stops: dict[str, threading.Event] = {}  # by run
_sources: WeakValueDictionary[str, OpenSource] = WeakValueDictionary()
_recent: deque[tuple[OpenSource, SharedData]] = deque(maxlen=2)


def run_task(run: str, version: str, task: PackedValue, packed: PackedValue | None) -> Any:
    """Run a task: a function, which gets its arguments, its data, and an event that says when to stop."""
    if version != worker_version():
        here = f"a worker on {platform.node()} has {worker_version()}"
        raise InputError(f"{here}, but it is {version} where the command runs: install the same everywhere")
    with _lock:
        opened = None if packed is None else _sources.get(packed.token) or OpenSource(packed)
        if packed is not None and opened is not None:
            _sources[packed.token] = opened
    work, *arguments = _unpack("the code of a learner", task)
    return work(*arguments, opened, _stops.setdefault(run, threading.Event()))


def end_run(run: str) -> None:
    """Stop what this process does for a run, and let go of its data."""
    _stops.setdefault(run, threading.Event()).set()
    _recent.clear()


def run_batch(trials: Sequence[Trial], opened: OpenSource, stop: threading.Event) -> tuple[list[Record], float]:
    """Return the records of trials of one stream, fewer where they are stopped, and how many seconds each took."""
    records, begun = [], time.monotonic()
    for trial in trials:
        try:
            outcomes = run_trials([trial], opened.share_data(trial), stop, lambda count: None)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{trial.title}, fails on {platform.node()}: {what}") from error
        if outcomes is None:
            break
        records.append(record_of(outcomes[0]))
    return records, (time.monotonic() - begun) / len(trials)


def _unpack(what: str, packed: PackedValue) -> Any:
    try:
        return pickle.loads(packed.pickled, buffers=packed.buffers)
    except OnebitError:
        raise
    except FileNotFoundError as error:
        why = "large files are not sent, so let ONEBIT_CACHE name a folder that all machines share"
        raise InputError(f"{error.filename} is missing on {platform.node()}: {why}") from error
    except Exception as error:  # it has a user's code, which may need what is missing here
        raise InputError(f"{what} cannot be opened on {platform.node()}: {error}") from error


@cache
def unpack_rule(packed: str | bytes) -> Rule:
    """Return the rule that was sent."""
    if isinstance(packed, str):
        return rule_named(packed)
    rule: Rule = pickle.loads(packed)
    return known.setdefault(rule.record, rule)


def _source_with(token: str) -> Source:
    return _sources[token].source
