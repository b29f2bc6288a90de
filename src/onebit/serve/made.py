"""Decisions that were made here, as the learner takes them back and as the log has them, for feedback that comes soon."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from onebit.decision import Decision
from onebit.engine.stream import CHOICE_COLUMNS
from onebit.errors import brief
from onebit.rows import SparseRow
from onebit.serve.errors import InvalidError
from onebit.serve.inputs import Inputs, is_storable, stored_classes
from onebit.serve.log.recent_rows import PROBABILITIES, X
from onebit.serve.log.records import Logged
from onebit.serve.schemas import LONGEST_ID
from onebit.serve.served_task import ServedTask
from onebit.serve.tasks import TaskInfo
from onebit.validation import ClassName

MOST = 20_000  # decisions that are held, if they are not too large
MOST_BYTES = 32 * 2**20  # of their x and probabilities
Row = tuple[Any, ...]
_DOUBLE = np.dtype(np.float64)
_numbers_of: Callable[[Any], tuple[float, ...]] = struct.Struct(f"{CHOICE_COLUMNS}d").unpack_from


class Made(NamedTuple):
    """A decision, and its row in the log."""

    decision: Decision
    row: Row


class Said(NamedTuple):
    """A feedback: the decision that it is of, and its row in the log."""

    made: Made
    row: Row


class AskedTerms(NamedTuple):
    """What is asked of a decision beside x, as it was given."""

    among: list[ClassName] | None = None
    complete: bool = False
    sure: float | None = None
    risk: float | None = None


AS_USUAL = AskedTerms()


class MadeDecisions:
    """The last decisions by id: as many as fit."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, Made] = OrderedDict()
        self._bytes = 0

    def get(self, identity: str) -> Made | None:
        """A decision, if it is held."""
        return self._made.get(identity)

    def __contains__(self, identity: str) -> bool:
        return identity in self._made

    def hold(self, identity: str, made: Made) -> None:
        """Hold one more, in the place of the oldest."""
        self._made[identity] = made
        self._bytes += len(made.row[X]) + len(made.row[PROBABILITIES])
        while len(self._made) > MOST or self._bytes > MOST_BYTES:
            self._bytes -= _size(self._made.popitem(last=False)[1])


def _size(made: Made) -> int:
    return len(made.row[X]) + len(made.row[PROBABILITIES])


def made_again(info: TaskInfo, logged: Logged, identity: str) -> Made:
    """A decision that the log has, for a learner of this identity."""
    generation, learnt = (int(part) for part in logged.version.split("."))
    places = {name: place for place, name in enumerate(info.classes)}
    among = None if logged.among is None else tuple(logged.among)
    x = np.array(logged.x, dtype=np.float64) if isinstance(logged.x, list) else logged.x
    decision = Decision(
        logged.id,
        logged.label,
        logged.propensity,
        logged.greedy,
        logged.weight,
        logged.notes,
        x,
        learnt,
        identity,
        among,
        logged.complete,
        {name: chance for name, chance in zip(info.classes, logged.probabilities, strict=False) if chance > 0.0},
        logged.raw,
        logged.confidence,
        logged.sure,
    )
    row = (
        *(logged.seq, info.number, logged.id, logged.time, logged.mode, generation, learnt),
        *(places[logged.label], places[logged.greedy], logged.weight, *logged.notes, logged.propensity),
        *(np.array(logged.probabilities, dtype="<f8").tobytes(), info.inputs.stored(logged.x)),
        *(None if among is None else stored_classes([places[name] for name in among]), int(logged.complete)),
        *(logged.raw, logged.confidence, logged.sure),
    )
    return Made(decision, row)


def decided(
    served: ServedTask, x: Any, seq: int, identity: str, now: float, asked: AskedTerms, max_values: int
) -> Made:
    """What the learner of a task decides, and the row for the log. Nobody else uses the learner meanwhile."""
    info, replicas = served.info, served.follower.replicas
    learner = replicas.resting
    among, complete, sure, risk = asked
    if sure is None and risk is None:
        sure, risk = info.sure, info.risk
    if info.retired:
        among, complete = _playable(info, among, complete)
    stored: bytes | None = None
    if info.inputs.kind != "numbers":
        x, stored = _canonical(info.inputs, x, max_values)
    decision = learner.decide(x, identity, among=among, complete=complete, sure=sure, risk=risk)
    choice = learner.runtime.model.choice
    label, greedy, weight, note, second_note, propensity, raw, confidence, threshold = _numbers_of(choice)
    places = None if decision.among is None else [served.class_indices[name] for name in decision.among]
    row = (
        seq,
        info.number,
        identity,
        now,
        info.mode,
        replicas.generation,
        learner.learnt,
        int(label),
        int(greedy),
        weight,
        note,
        second_note,
        propensity,
        choice[0, CHOICE_COLUMNS:].tobytes(),
        _numbers_in(x, decision) if stored is None else stored,
        stored_classes(places),
        int(decision.complete),
        None if isnan(raw) else raw,
        None if isnan(confidence) else confidence,
        None if isnan(threshold) else threshold,
    )
    return Made(decision, row)


def _playable(info: TaskInfo, among: Iterable[ClassName] | None, complete: bool) -> tuple[list[ClassName], bool]:
    """The candidates without what is retired, which is right no more."""
    found = [name for name in (info.classes if among is None else among) if name not in info.retired]
    if not found:
        raise InvalidError("among has no class that can be played: all of them are retired", "among")
    return found, complete or among is None


def _canonical(inputs: Inputs, x: Any, most: int) -> tuple[Any, bytes]:
    """A dict or a text as it will be read from the log, and as the log keeps it."""
    if isinstance(x, dict):
        x = {name: value.item() if isinstance(value, np.generic) else value for name, value in x.items()}
    stored = inputs.stored(x, "x", most)
    try:
        (read,) = inputs.read([stored])
    except ValueError as error:
        raise InvalidError(f"x {error}, with numbers that are finite", "x") from None
    return read, stored


def _numbers_in(x: Any, decision: Decision) -> bytes:
    """A row of numbers as the log keeps it: as it was given, which the learner may hold in less."""
    if type(x) is np.ndarray and x.dtype is _DOUBLE and x.ndim == 1:  # which the learner has just checked
        return x.tobytes()
    kept = decision.x
    if isinstance(kept, np.ndarray):
        return (kept if kept.dtype is _DOUBLE else np.asarray(x, dtype=_DOUBLE)).tobytes()
    assert isinstance(kept, SparseRow)
    dense = np.zeros(kept.size)
    dense[kept.columns] = kept.values
    return dense.tobytes()


def checked_identity(given: object) -> str:
    """An id that a decision may have."""
    if not isinstance(given, str) or not 0 < len(given) <= LONGEST_ID or not is_storable(given):
        raise InvalidError(
            f"id is {brief(given)}, but must be a text of 1 to {LONGEST_ID} characters without NUL", "id"
        )
    return given
