"""From what is asked to a decision: which classes can be played, in numbers, and what was chosen, in names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

from onebit.contract.candidates import candidates_at, complete_at, packed
from onebit.contract.parameters import Real, checked_flag
from onebit.decision import Decision
from onebit.engine import stream as engine
from onebit.engine.schedule import NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.features import Kept
from onebit.rows import Rows
from onebit.runtime import Runtime
from onebit.stepping import PLAIN_TERMS, DecisionTerms
from onebit.validation import ClassName

Among = Iterable[ClassName] | None  # the classes that can be played; None: all

SURE = Real("[0, 1]", "the confidence from which a decision is sure")
RISK = Real("(0, 1)", "the share of sure decisions that may be wrong")


def _certainty(sure: float | None, risk: float | None) -> tuple[float, float]:
    """`sure` and `risk` of the terms."""
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    return math.nan if sure is None else SURE.code("sure", sure), math.nan if risk is None else RISK.code("risk", risk)


def parse_request(
    runtime: Runtime, among: Among, complete: bool, sure: float | None = None, risk: float | None = None
) -> DecisionTerms:
    """What is asked of one x."""
    if among is None and complete is False and sure is None and risk is None and not runtime.retired:
        return PLAIN_TERMS  # as nearly always
    known, certainty = bool(checked_flag("complete", complete)), _certainty(sure, risk)
    found = runtime.candidates(among)
    return DecisionTerms(NOTHING if found is None else packed([found], complete=known or among is None), *certainty)


def parse_requests(
    runtime: Runtime,
    rows: int,
    among: Any,
    complete: bool,
    sure: float | None = None,
    risk: float | None = None,
) -> DecisionTerms:
    """What is asked of many rows: one list of candidates for all, or one for each."""
    if among is None and not runtime.retired:
        return parse_request(runtime, None, complete, sure, risk)  # no list, whatever the number of rows
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


def make_decision(runtime: Runtime, x: Any, identity: int | str, terms: DecisionTerms) -> Decision:
    """Decide on one x."""
    kept, _ = runtime.decide_one(x, identity, terms)
    return _decision(runtime, identity, kept, runtime.model.choice.tolist()[0], terms, 0)


def make_decisions(
    runtime: Runtime, kept: Sequence[Kept], rows: Rows, ids: Sequence[int | str], terms: DecisionTerms
) -> list[Decision]:
    """Decide on rows that were read."""
    choices = runtime.choices(rows, ids, engine.CHOICE_COLUMNS + len(runtime.classes), terms).tolist()
    return [
        _decision(runtime, identity, x, choice, terms, row)
        for row, (identity, x, choice) in enumerate(zip(ids, kept, choices, strict=True))
    ]


def _candidates(runtime: Runtime, terms: DecisionTerms, row: int) -> tuple[tuple[ClassName, ...] | None, bool]:
    """The names of the candidates of a row, or None for all classes, and whether the right one is known to be among them."""
    if not len(terms.among):
        return None, False
    found = candidates_at(terms.among, row)
    if len(found) == len(runtime.classes):
        return None, False
    return tuple(runtime.classes[label] for label in found), complete_at(terms.among, row)


def _decision(
    runtime: Runtime,
    identity: int | str,
    kept: Kept,
    choice: Sequence[float],
    terms: DecisionTerms,
    row: int,
) -> Decision:
    """The choice of the loop as the value that users keep."""
    label, greedy, weight, note, second_note, propensity, raw, confidence, sure, *chances = choice
    classes = runtime.names.names
    among, complete = (None, False) if terms is PLAIN_TERMS else _candidates(runtime, terms, row)
    probabilities = dict(zip(classes, chances, strict=True))
    if 0.0 in chances:
        probabilities = {name: chance for name, chance in probabilities.items() if chance > 0.0}
    return Decision(
        identity,
        classes[int(label)],
        propensity,
        classes[int(greedy)],
        weight,
        (note, second_note),
        kept,
        runtime.ledger.moment,
        runtime.identity,
        among,
        complete,
        probabilities,
        raw,
        None if isnan(confidence) else confidence,
        None if isnan(sure) else sure,
    )
