"""The values sent to a cluster worker, and the code that the worker runs.

Trials are sent in batches without their data; the data are sent once, as a packed source. A worker opens a source once and keeps the
rows of the current seed, so that batches share them.
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
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.rule import Rule, rules_by_record
from onebit.data.sources import Source
from onebit.engine.compile import code_mark
from onebit.engine.fingerprint import find_reachable
from onebit.errors import InputError, OnebitError
from onebit.experiments.trials import Trial
from onebit.experiments.trials.execution import run_trials
from onebit.experiments.trials.records import Record, make_record
from onebit.experiments.trials.shared_data import SharedData, Tables
from onebit.rules import registry, rule_named
from onebit.version import VERSION

LIBRARIES = ("onebit", "numpy", "numba", "math")  # installed on every worker


class PackedValue(NamedTuple):
    """A pickled value whose arrays are stored separately, so that unpacking does not copy them."""

    token: str
    pickled: bytes
    buffers: list[Any]


def pack(value: object, with_source: bool = False) -> PackedValue:
    """Pack a value; leave out its source unless `with_source`.

    Rules of onebit are packed by name, and memory-mapped arrays by path.
    """
    import cloudpickle

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, part: object) -> str | None:
            return "source" if isinstance(part, Source) and not with_source else None

        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, Rule):
                is_ours = registry().get(part.name) is part
                return (rule_named, (part.name,)) if is_ours else (unpack_rule, (pack_rule(part),))
            is_whole = isinstance(getattr(part, "base", None), mmap.mmap)  # not a slice of a mapped array
            if is_whole and isinstance(part, np.memmap) and part.flags.c_contiguous:
                return np.memmap, (str(part.filename), part.dtype, "r", part.offset, part.shape)
            return super().reducer_override(part)

    file = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    Packer(file, protocol=5, buffer_callback=buffers.append).dump(value)
    arrays = [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]
    return PackedValue(uuid.uuid4().hex, file.getvalue(), arrays)


@cache
def pack_rule(rule: Rule) -> bytes:
    """Pack a user-defined rule with all user code that it reaches."""
    import cloudpickle

    _ = rule.parameters, rule.defaults, rule.kinds  # evaluate annotations now: a worker may lack the names in them
    functions = [value for value in vars(rule).values() if callable(value)]
    names = {rule.record.__module__, *(function.__module__ for function in find_reachable(functions))}
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
    """Return the versions that a worker must share with the sender, including the code of all rules."""
    marks = "".join(code_mark(rule) for rule in registry().values())
    python = ".".join(platform.python_version_tuple()[:2])
    return f"onebit {VERSION} (code {hashlib.sha256(marks.encode()).hexdigest()[:8]}) on Python {python}"


# --- on a worker -------------------------------------------------------------------------------------------------------


class OpenSource:
    """A source that this process has opened, with the rows shared by its trials."""

    def __init__(self, packed: PackedValue) -> None:
        self.source: Source = _unpack("the data", packed)
        self._tables: dict[tuple[Source, int], Tables] = {}  # rows shared by all seeds
        self._shared: SharedData | None = None

    def share_data(self, trial: Trial) -> SharedData:
        """Return the data of the trial's stream and seed; the last ones are cached."""
        with _lock:
            if self._shared is None or (self._shared.stream.key, self._shared.seed) != (trial.stream.key, trial.seed):
                self._shared = SharedData(trial, self._tables)
            return self._shared


_lock = threading.Lock()
_stops: dict[str, threading.Event] = {}  # stop events by run
_sources: dict[str, OpenSource] = {}  # by token; holds only the source used last


def run_batch(run: str, version: str, batch: PackedValue, packed: PackedValue) -> tuple[list[Record], float]:
    """Run the trials of one stream and seed; return their records and the seconds per trial.

    There are fewer records than trials if the run is stopped.
    """
    if version != worker_version():
        raise InputError(
            f"a worker on {platform.node()} has {worker_version()}, but the command runs with {version}: "
            "install the same version everywhere; finished runs are kept"
        )
    with _lock:
        if packed.token not in _sources:
            _sources.clear()  # running batches keep their reference
            _sources[packed.token] = OpenSource(packed)
        opened = _sources[packed.token]
    trials: list[Trial] = _unpack("the code of a learner", batch, opened.source)
    stop, records, begun = _stops.setdefault(run, threading.Event()), [], time.monotonic()
    for trial in trials:
        try:
            outcomes = run_trials([trial], opened.share_data(trial), stop, lambda count: None)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise InputError(f"{trial.title} failed on {platform.node()}: {cause}") from error
        if outcomes is None:
            break
        records.append(make_record(outcomes[0]))
    return records, (time.monotonic() - begun) / len(trials)


def end_run(run: str) -> None:
    """Stop this process's work for a run and release the run's data."""
    _stops.setdefault(run, threading.Event()).set()
    _sources.clear()


def _unpack(content: str, packed: PackedValue, source: Source | None = None) -> Any:
    class Unpacker(pickle.Unpickler):
        def persistent_load(self, name: str) -> Source | None:
            return source

    try:
        return Unpacker(BytesIO(packed.pickled), buffers=packed.buffers).load()
    except OnebitError:
        raise
    except FileNotFoundError as error:
        reason = "large files are not sent; set ONEBIT_CACHE to a folder that all machines share"
        raise InputError(f"{error.filename} is missing on {platform.node()}: {reason}") from error
    except Exception as error:  # user code may import modules that are missing here
        raise InputError(f"{content} cannot be opened on {platform.node()}: {error}") from error


@cache
def unpack_rule(packed: bytes) -> Rule:
    """Return the user-defined rule; the same object for the same bytes, so it is compiled only once."""
    rule: Rule = pickle.loads(packed)
    return rules_by_record.setdefault(rule.record, rule)
