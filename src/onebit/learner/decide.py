"""From what is asked to a decision: which classes can be played, in numbers, and what was chosen, in names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import candidates_at, is_complete_at, pack_candidates
from onebit.contract.parameters import Real, checked_flag
from onebit.contract.validation import ClassName, IdLike, checked_id
from onebit.engine.schedule import NOTHING
from onebit.engine.stream import CHOICE_COLUMNS
from onebit.errors import InputError, OnebitError, brief
from onebit.features.features import Kept
from onebit.features.rows import Rows
from onebit.learner.decision import Decision
from onebit.learner.loop_calls import PLAIN_TERMS, DecisionTerms
from onebit.learner.runtime import Runtime

Among = Iterable[ClassName] | None  # the classes that can be played; None: all

SURE = Real("[0, 1]", "the confidence from which a decision is sure")
PROPENSITY = Real("(0, 1]", "the probability with which a label was played")
RISK = Real("(0, 1)", "the share of sure decisions that may be wrong")


def _certainty(sure: float | None, risk: float | None) -> tuple[float, float]:
    """Return `sure` and `risk` of the terms; NaN if not given."""
    if sure is not None and risk is not None:
        raise InputError("give either sure or risk: a risk chooses the confidence from which decisions are sure")
    return math.nan if sure is None else SURE.code("sure", sure), math.nan if risk is None else RISK.code("risk", risk)


def parse_request(
    runtime: Runtime, among: Among, complete: bool, sure: float | None = None, risk: float | None = None
) -> DecisionTerms:
    """Parse the terms of a decision on one x."""
    if among is None and complete is False and sure is None and risk is None and not runtime.names.retired:
        return PLAIN_TERMS  # as nearly always
    known, certainty = bool(checked_flag("complete", complete)), _certainty(sure, risk)
    found = runtime.candidates(among)
    return DecisionTerms(
        NOTHING if found is None else pack_candidates([found], complete=known or among is None), *certainty
    )


def parse_requests(
    runtime: Runtime,
    rows: int,
    among: Any,
    complete: bool,
    sure: float | None = None,
    risk: float | None = None,
) -> DecisionTerms:
    """Parse the terms of decisions on many rows: one list of candidates for all, or one for each."""
    if among is None and not runtime.names.retired:
        return parse_request(runtime, None, complete, sure, risk)  # no list, whatever the number of rows
    known, certainty = bool(checked_flag("complete", complete)), _certainty(sure, risk)
    given = list(among) if isinstance(among, Iterator) else among  # which can be walked once
    if not _one_a_row(given):
        found = runtime.candidates(given)
        return DecisionTerms(
            NOTHING if found is None else pack_candidates([found] * rows, known or given is None), *certainty
        )
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
    return DecisionTerms(pack_candidates(sets, complete=flags), *certainty)


def _one_a_row(among: object) -> bool:
    """Return True if a list of candidates is given for each row, and not one for all; refuse a mixture."""
    if among is None or isinstance(among, str | Mapping) or not isinstance(among, Iterable):
        return False
    kinds = {isinstance(one, str | int | np.generic) for one in among}
    if len(kinds) > 1:
        raise InputError(f"among is {brief(among)}, but must be one list of classes, or such a list for each row")
    return kinds == {False}


def build_decision(runtime: Runtime, identity: int | str, kept: Kept, terms: DecisionTerms) -> Decision:
    """Build the decision from the choice that the loop has just made on one x."""
    choice = runtime.model.choice.tolist()[0]
    label, greedy, weight, note, second_note, propensity, raw, confidence, sure, *chances = choice
    classes = runtime.names.names
    among, complete = (None, False) if terms is PLAIN_TERMS else _candidates(runtime, terms, 0)
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


def make_decisions(
    runtime: Runtime, kept: Sequence[Kept], rows: Rows, ids: Sequence[int | str], terms: DecisionTerms
) -> list[Decision]:
    """Decide on rows that were read, and build the decisions column by column."""
    classes, count = runtime.names.names, len(ids)
    choices = runtime.choices(rows, ids, CHOICE_COLUMNS + len(classes), terms)
    labels, greedy, weights, notes, second_notes, propensities, raws, confidences, sures = choices[
        :, :CHOICE_COLUMNS
    ].T.tolist()
    among: Iterable[tuple[ClassName, ...] | None] = repeat(None)
    complete: Iterable[bool] = repeat(False)
    if len(terms.among):
        among, complete = zip(*(_candidates(runtime, terms, row) for row in range(count)), strict=True)
    return list(
        map(
            Decision,
            ids,
            [classes[int(label)] for label in labels],
            propensities,
            [classes[int(label)] for label in greedy],
            weights,
            zip(notes, second_notes, strict=True),
            kept,
            repeat(runtime.ledger.moment),
            repeat(runtime.identity),
            among,
            complete,
            _probabilities(classes, choices[:, CHOICE_COLUMNS:]),
            raws,
            [None if isnan(confidence) else confidence for confidence in confidences],
            [None if isnan(sure) else sure for sure in sures],
        )
    )


def logged_decision(
    runtime: Runtime,
    x: Any,
    label: ClassName,
    propensity: float,
    identity: IdLike | None,
    among: Among,
    complete: bool,
) -> Decision:
    """Build a decision whose label another system has played, with this propensity."""
    runtime.names.index(label)
    weight, rule = PROPENSITY.code("propensity", propensity), runtime.rule
    terms = parse_request(runtime, among, complete)
    checked = checked_id(runtime.ledger.next_id if identity is None else identity)
    kept, _ = runtime.decide_one(x, checked, terms)
    decision = build_decision(runtime, checked, kept, terms)
    if decision.among is not None and label not in decision.among:
        raise InputError(f"label is {brief(label)}, which is none of the candidates")
    if decision.among is not None and len(decision.among) == 1 and weight < 1.0:
        raise InputError(f"propensity is {brief(propensity)}, but a sole candidate is played with probability 1")
    if rule.notes_the_label and label != decision.label:
        raise InputError(
            f"{rule.title} learns only from labels that it would have played itself: it plays {brief(decision.label)} here, "
            f"and {brief(label)} was played"
        )
    logged = decision._replace(label=label, propensity=weight, weight=weight, probabilities=None)
    # How sure this learner is of its own label says nothing of another.
    return logged if label == decision.label else logged._replace(raw=None, confidence=None, sure=None)


def _probabilities(classes: tuple[ClassName, ...], chances: NDArray[np.float64]) -> list[dict[ClassName, float]]:
    """The probabilities of the classes that could have been played, row by row."""
    probabilities = [dict(zip(classes, row)) for row in chances.tolist()]  # noqa: B905 - as above
    if chances.all():
        return probabilities
    return [{name: chance for name, chance in row.items() if chance > 0.0} for row in probabilities]


def _candidates(runtime: Runtime, terms: DecisionTerms, row: int) -> tuple[tuple[ClassName, ...] | None, bool]:
    """The names of the candidates of a row, or None for all classes, and whether the right one is known to be among them."""
    if not len(terms.among):
        return None, False
    found = candidates_at(terms.among, row)
    if len(found) == len(runtime.classes):
        return None, False
    return tuple(runtime.classes[label] for label in found), is_complete_at(terms.among, row)
