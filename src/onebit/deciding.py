"""From what is asked to a decision: which classes can be played, in numbers, and what was chosen, in names."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, candidates_at, complete_at, packed
from onebit.contract.draws import word_of
from onebit.contract.parameters import Real, checked_flag
from onebit.decision import Decision
from onebit.engine import stream as engine
from onebit.engine.schedule import NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.features import Kept
from onebit.rows import SparseRow
from onebit.runtime import Runtime
from onebit.spaces.dense import DenseRows
from onebit.validation import MOST_NUMBERS, ClassName

Among = Iterable[ClassName] | None  # the classes that can be played; None: all

SURE = Real("[0, 1]", "the confidence from which a decision is sure")
RISK = Real("(0, 1)", "the share of sure decisions that may be wrong")

_new = tuple.__new__
# The numbers of a choice without its probabilities, in half the time of `tolist`.
_numbers_of: Callable[[Any], tuple[float, ...]] = struct.Struct(f"{engine.CHOICE_COLUMNS}d").unpack_from
# The same without notes and threshold.
_plain_numbers_of: Callable[[Any], tuple[float, ...]] = struct.Struct("3d16x3d").unpack_from


class DecisionTerms(NamedTuple):
    """What is asked beside x: the candidates of each row, packed; none where all classes can be played in every row.

    And from which confidence on a decision is sure, or what share of the sure ones may be wrong; NaN where nobody asks.
    """

    among: Labels = NOTHING
    sure: float = math.nan
    risk: float = math.nan

    def of(self, runtime: Runtime, row: int) -> tuple[tuple[ClassName, ...] | None, bool]:
        """The names of the candidates of a row, or None for all classes, and whether the right one is known to be among them."""
        if not len(self.among):
            return None, False
        found = candidates_at(self.among, row)
        if len(found) == len(runtime.classes):
            return None, False
        return tuple(runtime.classes[label] for label in found), complete_at(self.among, row)


NOTHING_MORE = DecisionTerms()


def _certainty(sure: float | None, risk: float | None) -> tuple[float, float]:
    """`sure` and `risk` of the terms."""
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    return math.nan if sure is None else SURE.code("sure", sure), math.nan if risk is None else RISK.code("risk", risk)


def asked_once(
    runtime: Runtime, among: Among, complete: bool, sure: float | None = None, risk: float | None = None
) -> DecisionTerms:
    """What is asked of one x."""
    if among is None and complete is False and sure is None and risk is None and not runtime.retired:
        return NOTHING_MORE  # as nearly always
    known, certainty = bool(checked_flag("complete", complete)), _certainty(sure, risk)
    found = runtime.candidates(among)
    return DecisionTerms(NOTHING if found is None else packed([found], complete=known or among is None), *certainty)


def asked_many(
    runtime: Runtime,
    rows: int,
    among: Any,
    complete: bool,
    sure: float | None = None,
    risk: float | None = None,
) -> DecisionTerms:
    """What is asked of many rows: one list of candidates for all, or one for each."""
    if among is None and not runtime.retired:
        return asked_once(runtime, None, complete, sure, risk)  # no list, whatever the number of rows
    known, certainty = bool(checked_flag("complete", complete)), _certainty(sure, risk)
    given = list(among) if isinstance(among, Iterator) else among  # which can be walked once
    if not _one_a_row(given):
        found = runtime.candidates(given)
        return DecisionTerms(NOTHING if found is None else packed([found] * rows, known or given is None), *certainty)
    given = list(given)
    if len(given) != rows:
        raise InputError(f"among has {len(given)} lists of candidates, but there are {rows} rows")
    sets: list[Sequence[int]] = []
    flags = []
    for row, one in enumerate(given):
        try:
            listed = runtime.candidates(one)
        except OnebitError as error:
            raise InputError(f"row {row}: {error}") from None
        sets.append(range(len(runtime.classes)) if listed is None else listed)
        flags.append(known or one is None or listed is None)
    return DecisionTerms(packed(sets, complete=flags), *certainty)


def _one_a_row(among: object) -> bool:
    """Whether lists are given, and not one list; some of each are refused."""
    if among is None or isinstance(among, str | Mapping) or not isinstance(among, Iterable):
        return False
    kinds = {isinstance(one, str | int | np.generic) for one in among}
    if len(kinds) > 1:
        raise InputError(f"among is {brief(among)}, but must be one list of classes, or such a list for each row")
    return kinds == {False}


def decision_of(
    runtime: Runtime, identity: int | str, record: bytes, kept: Kept | None, asked: DecisionTerms, row: int = 0
) -> Decision:
    """A choice of the loop as the value that users keep; `kept` is None where x is behind the choice."""
    label, greedy, weight, note, second_note, propensity, raw, confidence, sure = _numbers_of(record)
    form, classes = runtime.form, runtime.names.names
    among, complete = (None, False) if asked is NOTHING_MORE else asked.of(runtime, row)
    # `learn` takes it back as it is, unless it must refuse it. A decision on a text or a dict is made of what `json.dumps` takes.
    lasting = (kept is None or type(kept) is SparseRow) and isfinite(note + second_note + raw)
    fields = (
        identity,
        classes[int(label)],
        propensity,
        classes[int(greedy)],
        weight,
        form if lasting else (note, second_note),
        form.row(record) if kept is None and not lasting else kept,
        runtime.ledger.moment,
        form.learner,
        among,
        complete,
        record if lasting else form.read(record),
        raw,
        None if isnan(confidence) else confidence,
        None if isnan(sure) else sure,
    )
    return _new(Decision, fields)  # in half the time that the constructor takes


def decided_on_array(runtime: Runtime, x: Any) -> Decision | None:
    """The decision on an array that fits, with the next free number, where nothing more is asked, as mostly; None where `decided` must see to it."""
    identity = runtime.next_id
    if runtime.retired or identity >= MOST_NUMBERS:
        return None
    record = runtime.model.decide_array(x, identity)
    if record is None:
        return None
    runtime.next_id = identity + 1
    label, greedy, weight, propensity, raw, confidence = _plain_numbers_of(record)
    form = runtime.form
    name, best = form.classes[int(label)], form.classes[int(greedy)]
    known = None if confidence != confidence else confidence  # noqa: PLR0124 -- NaN is not itself
    fields = (
        identity, name, propensity, best, weight, form, None, runtime.ledger.moment, form.learner,
        None, False, record, raw, known, None,
    )  # fmt: skip
    return _new(Decision, fields)


def decided(runtime: Runtime, x: Any, identity: int | str, asked: DecisionTerms) -> Decision:
    """The decision on one x."""
    record: bytes | None = None
    kept: Kept | None = None
    if asked is NOTHING_MORE:
        record = runtime.model.decide_array(x, identity if type(identity) is int else word_of(identity))
    if record is None:
        kept, rows = runtime.decide_one(x, identity, *asked)
        record = runtime.model.choice.tobytes()
        if type(rows) is DenseRows:  # others are read again, since names are learnt then
            record, kept = record + rows.values.tobytes(), None
    return decision_of(runtime, identity, record, kept, asked)


def decided_many(
    runtime: Runtime, kept: Sequence[Kept] | NDArray[Any], ids: Sequence[int | str], asked: DecisionTerms
) -> list[Decision]:
    """The decisions on rows that were read."""
    columns = engine.CHOICE_COLUMNS + len(runtime.classes)
    rows = runtime.rows(kept)
    choices = runtime.choices(rows, ids, columns, *asked)
    if type(rows) is not DenseRows:
        return [decision_of(runtime, ids[row], one.tobytes(), kept[row], asked, row) for row, one in enumerate(choices)]
    cells = np.concatenate([choices.view(np.uint8), rows.values.view(np.uint8)], axis=1)
    records: list[bytes] = cells.view(f"V{cells.shape[1]}")[:, 0].tolist()
    if asked is NOTHING_MORE and isfinite(choices[:, engine.NOTE : engine.RAW + 1].sum()):
        return _decisions_of(runtime, ids, records, choices)
    rounds = enumerate(zip(ids, records, strict=True))
    return [decision_of(runtime, identity, record, None, asked, row) for row, (identity, record) in rounds]


def _decisions_of(
    runtime: Runtime, ids: Sequence[int | str], records: Sequence[bytes], choices: NDArray[np.float64]
) -> list[Decision]:
    """What `decision_of` makes of choices on dense rows, where nothing more was asked and all notes are finite: all at once, in half the time."""
    form, none = runtime.form, repeat(None)
    moment, learner = repeat(runtime.ledger.moment), repeat(form.learner)
    names = np.array(form.classes, dtype=object)
    labels, greedy = names[choices[:, : engine.GREEDY + 1].T.astype(np.int64)].tolist()
    weights = choices[:, engine.RULE_PROPENSITY].tolist()
    propensities, raws, confidences = choices[:, engine.PROPENSITY : engine.THRESHOLD].T.tolist()
    known = [None if isnan(one) else one for one in confidences] if isnan(sum(confidences)) else confidences
    fields = (
        *(ids, labels, propensities, greedy, weights, repeat(form), none),
        *(moment, learner, none, repeat(False), records, raws, known, none),
    )
    return list(map(_new, repeat(Decision), zip(*fields, strict=False)))
