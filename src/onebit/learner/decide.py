"""Decisions of a learner: parse candidates and thresholds, choose classes, and build `Decision` values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, candidates_at, is_complete_at, pack_candidates
from onebit.contract.parameters import Real, checked_flag
from onebit.contract.validation import ClassName, IdLike, checked_id, checked_ids
from onebit.engine import stream as engine
from onebit.engine.schedule import NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.features.features import StoredX, require_table
from onebit.learner.decision import Decision
from onebit.learner.loop_calls import PLAIN_TERMS, DecisionTerms
from onebit.learner.runtime import Runtime

Among = Iterable[ClassName] | None  # the classes that can be played; None for all

SURE = Real("[0, 1]", "the confidence from which a decision is sure")
PROPENSITY = Real("(0, 1]", "the probability with which a label was played")
RISK = Real("(0, 1)", "the share of sure decisions that may be wrong")


def decide_many(
    runtime: Runtime,
    X: Any,
    ids: Sequence[IdLike] | NDArray[Any] | None,
    among: Among | Sequence[Among],
    complete: bool,
    sure: float | None,
    risk: float | None,
) -> list[Decision]:
    """Decide on each row of X; without ids, use up as many free numbers."""
    require_table(X)
    with runtime.lock, runtime.undo_if_refused():
        stored, rows = runtime.read_many(X)
        identities = runtime.ledger.next_ids(len(stored)) if ids is None else checked_ids(ids, len(stored))
        if len(stored) == 0:
            return []
        terms = parse_terms(runtime, among, complete, sure, risk, len(stored))
        choices = runtime.choose_classes(rows, identities, engine.CHOICE_COLUMNS + len(runtime.classes), terms)
        runtime.ledger.next_id += len(stored) if ids is None else 0
        parts = zip(identities, stored, choices.tolist(), strict=True)
        return [build_decision(runtime, *values, terms, row) for row, values in enumerate(parts)]


def choose_best(runtime: Runtime, X: Any, among: Among | Sequence[Among]) -> list[ClassName]:
    """Return the class considered best for each row of X."""
    require_table(X)
    with runtime.lock, runtime.undo_if_refused():
        stored, rows = runtime.read_many(X)
        if len(stored) == 0:
            return []
        terms = parse_terms(runtime, among, False, rows=len(stored))
        identities = [runtime.ledger.next_id] * len(stored)
        choices = runtime.choose_classes(rows, identities, engine.CHOICE_COLUMNS, terms)
        return [runtime.classes[int(row)] for row in choices[:, engine.GREEDY]]


def parse_terms(
    runtime: Runtime,
    among: Any,
    complete: bool,
    sure: float | None = None,
    risk: float | None = None,
    rows: int | None = None,
) -> DecisionTerms:
    """Parse the terms of a decision on one x or, with `rows`, on many.

    `among` is one list of candidates for all rows, or a list for each row.
    """
    if among is None and complete is False and sure is None and risk is None and not runtime.names.retired:
        return PLAIN_TERMS  # the common case
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk, not both: a risk determines the confidence threshold")
    is_complete = checked_flag("complete", complete)
    names = list(among) if isinstance(among, Iterator) else among  # an iterator can be read only once
    if rows is None or not _has_list_per_row(names):
        candidates = runtime.find_candidates(names)
        packed = (
            NOTHING if candidates is None else pack_candidates([candidates] * (rows or 1), is_complete or names is None)
        )
    else:
        packed = _pack_each(runtime, list(names), rows, is_complete)
    return DecisionTerms(
        packed,
        math.nan if sure is None else SURE.encode("sure", sure),
        math.nan if risk is None else RISK.encode("risk", risk),
    )


def _pack_each(runtime: Runtime, lists: Sequence[Among], rows: int, complete: bool) -> Labels:
    """Pack one list of candidates for each row."""
    if len(lists) != rows:
        raise InputError(f"among has {len(lists)} lists of candidates, but there are {rows} rows")
    sets: list[Sequence[int]] = []
    flags = []
    for row, among in enumerate(lists):
        try:
            candidates = runtime.find_candidates(among)
        except OnebitError as error:
            raise InputError(f"row {row}: {error}") from None
        sets.append(range(len(runtime.classes)) if candidates is None else candidates)
        flags.append(complete or among is None or candidates is None)
    return pack_candidates(sets, complete=flags)


def _has_list_per_row(among: object) -> bool:
    """Return True if `among` has a list for each row, False if it is one list; refuse a mixture."""
    if among is None or isinstance(among, str | Mapping) or not isinstance(among, Iterable):
        return False
    kinds = {isinstance(entry, str | int | np.generic) for entry in among}
    if len(kinds) > 1:
        raise InputError(f"among is {brief(among)}, but must be one list of classes, or one list for each row")
    return kinds == {False}


def build_decision(
    runtime: Runtime,
    identity: int | str,
    stored_x: StoredX,
    choice: Sequence[float],
    terms: DecisionTerms = PLAIN_TERMS,
    row: int = 0,
) -> Decision:
    """Build a decision from the loop's choice, a line of numbers; `row` is its row in `terms`."""
    label, greedy, weight, note, second_note, propensity, raw, confidence, sure, *chances = choice
    classes = runtime.names.names
    among, complete = (None, False) if terms is PLAIN_TERMS else _name_candidates(runtime, terms, row)
    probabilities = dict(zip(classes, chances))  # noqa: B905 - `strict` takes two thirds as long again
    if 0.0 in chances:
        probabilities = {name: chance for name, chance in probabilities.items() if chance > 0.0}
    return Decision(
        identity,
        classes[int(label)],
        propensity,
        classes[int(greedy)],
        weight,
        (note, second_note),
        stored_x,
        runtime.ledger.moment,
        runtime.identity,
        among,
        complete,
        probabilities,
        raw,
        None if isnan(confidence) else confidence,
        None if isnan(sure) else sure,
    )


def build_logged_decision(
    runtime: Runtime,
    x: Any,
    label: ClassName,
    propensity: float,
    identity: IdLike | None,
    among: Among,
    complete: bool,
) -> Decision:
    """Build a decision for a label that another system played with this propensity."""
    runtime.names.index(label)
    weight, rule = PROPENSITY.encode("propensity", propensity), runtime.rule
    with runtime.lock:
        terms = parse_terms(runtime, among, complete)
        checked_identity = checked_id(runtime.ledger.next_id if identity is None else identity)
        stored_x, _ = runtime.decide_one(x, checked_identity, terms)
        decision = build_decision(runtime, checked_identity, stored_x, runtime.model.choice[0].tolist(), terms)
        if decision.among is not None and label not in decision.among:
            raise InputError(f"label is {brief(label)}, but must be one of the candidates")
        if decision.among is not None and len(decision.among) == 1 and weight < 1.0:
            raise InputError(f"propensity is {brief(propensity)}, but must be 1: there is only one candidate")
        if rule.notes_the_label and label != decision.label:
            raise InputError(
                f"{rule.title} learns only from labels that it would play itself: here {brief(decision.label)}, "
                f"but {brief(label)} was played"
            )
        runtime.ledger.next_id += 1 if identity is None else 0
    logged = decision._replace(label=label, propensity=weight, weight=weight, probabilities=None)
    # This learner's confidence in its own label says nothing about the label played.
    return logged if label == decision.label else logged._replace(raw=None, confidence=None, sure=None)


def _name_candidates(runtime: Runtime, terms: DecisionTerms, row: int) -> tuple[tuple[ClassName, ...] | None, bool]:
    """Return the names of a row's candidates (None for all), and whether the right class is one of them."""
    if not len(terms.among):
        return None, False
    labels = candidates_at(terms.among, row)
    if len(labels) == len(runtime.classes):
        return None, False
    return tuple(runtime.classes[label] for label in labels), is_complete_at(terms.among, row)
