"""Feedback on decisions: checked, in numbers, and learnt."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, pack_candidates
from onebit.contract.draws import hash_id, hash_ids
from onebit.contract.validation import ClassName, join_names
from onebit.engine import stream as engine
from onebit.engine.schedule import NO_REWARDS, NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.batches import LearningBatch, correct_rows
from onebit.learner.decision import Decision
from onebit.learner.loop_calls import learn_row, single_row
from onebit.learner.runtime import Runtime
from onebit.spaces.sparse import SparseRows

KINDS = ("bandit", "label")
_MOST = sys.float_info.max
_PLAIN = frozenset({float, type(None)})


def require_feedback_kind(runtime: Runtime, feedback: object) -> None:
    """Refuse a kind of feedback that is neither 'bandit' nor 'label', or too little for the rule."""
    if feedback not in KINDS:
        raise InputError(f"feedback is {brief(feedback)}, but must be 'bandit' or 'label'")
    if runtime.needs_labels and feedback == "bandit":
        raise InputError(f"{runtime.rule.title} learns from labels, not from one bit: give feedback='label'")


class Answer(NamedTuple):
    """The outcome of a decision, in numbers."""

    revealed: int  # the class that the loop compares with the one played; -1 for some other class
    reward: float | None = None  # what the label was worth, where that is a number
    corrects: bool = False  # whether the class was named to be learnt as such


def learn_answer(
    runtime: Runtime,
    decision: Decision,
    right: bool | None,
    label: ClassName | None,
    reward: float | None,
    truth: ClassName | None,
) -> None:
    """Learn from the outcome of one decision; where it cannot be learnt, nothing is changed."""
    if not isinstance(decision, Decision):
        raise InputError(f"learn takes a Decision, and was given a {type(decision).__name__}")
    played, identity = runtime.names.index(decision.label), decision.id
    plain = type(right) is bool and label is None and reward is None and truth is None
    if plain and (right or not runtime.model.needs_labels):
        revealed, worth, corrects = played if right else -1, None, False
    else:
        revealed, worth, corrects = parse_answer(runtime, decision, played, right, label, reward, truth)
    if decision.learner != runtime.identity:
        raise InputError(f"decision {brief(identity)} was made by another learner")
    runtime.ledger.refuse_learnt(identity, decision.version)
    model, features = runtime.model, runtime.features
    word = identity if type(identity) is int else hash_id(identity)
    is_first, names = model.space is None, features.feature_names
    try:
        kept, row = features.read(decision.x, copy=False)
        choice = _choice_numbers(runtime, decision, played)
        among = NOTHING if decision.among is None else _candidates(runtime, [decision])
        if corrects:
            rows, labels, words = single_row(model, row), np.array([revealed]), np.array([word], dtype=np.uint64)
            with model.unchanged_if_refused(rows):
                correct_rows(model, rows, labels, np.array([choice]), words, among)
        else:
            rewards = NO_REWARDS if worth is None else np.array([[worth]])
            learn_row(model, row, choice, word, revealed, among, rewards)
    except OnebitError:
        runtime.forget_features(is_first, (features.columns, names))
        raise
    vocabulary = features.vocabulary
    if vocabulary is not None and isinstance(row, SparseRows) and row.width > len(vocabulary):
        features.add_names(kept)
    if worth is not None:
        runtime.note_rewards(np.array([worth]))
    runtime.ledger.record(identity)


def parse_answer(
    runtime: Runtime,
    decision: Decision,
    played: int,
    right: bool | None,
    label: ClassName | None,
    reward: float | None,
    truth: ClassName | None,
) -> Answer:
    """Parse the outcome of a decision; `played` is the number of its label."""
    if right is not None and label is None and reward is None and truth is None:
        said: object = right
        if said is not True and said is not False and not isinstance(said, np.bool_):
            raise InputError(f"right is {brief(right)}, but must be True or False")
        if not right and runtime.model.needs_labels:
            raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not only that it was wrong")
        return Answer(played if right else -1)
    if (right is not None) + (label is not None) + (reward is not None) + (truth is not None) != 1:
        raise InputError("give either right=True or False, or the label, or a reward, or the truth: one of them")
    if label is not None:
        return Answer(_known_class(runtime, decision, "label", label))
    if truth is not None:
        # Of one candidate a truth says that it was right, and no more.
        alone = decision.among is not None and len(set(decision.among)) == 1
        named = _known_class(runtime, decision, "truth", truth)
        return Answer(named, corrects=runtime.corrects and not alone)
    worth = check_reward(reward)
    if runtime.needs_labels:
        raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not a reward")
    return Answer(played if worth == 1.0 else -1, worth)


def check_reward(reward: object) -> float:
    """Return a reward from 0 to 1; refuse others, and say how they become one."""
    plain = reward.item() if isinstance(reward, np.generic) else reward
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0.0 <= plain <= 1.0:
        raise InputError(
            f"reward is {brief(reward)}, but must be a number from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
        )
    return float(plain)


def _known_class(runtime: Runtime, decision: Decision, name: str, given: ClassName) -> int:
    """Return the number of a class that was named as right; it must be a candidate."""
    number = runtime.names.index(given)
    if decision.among is not None and given not in decision.among and (name == "truth" or runtime.needs_labels):
        raise InputError(
            f"{name} is {brief(given)}, but the candidates of decision {brief(decision.id)} were {join_names(decision.among)}"
        )
    return number


def _candidates(runtime: Runtime, decisions: Sequence[Decision]) -> Labels:
    """Pack the candidates of decisions; empty if all classes could be played in each."""
    if all(decision.among is None for decision in decisions):
        return NOTHING
    sets: list[Sequence[int]] = []
    for decision in decisions:
        if decision.among is not None and not isinstance(decision.among, tuple | list):
            raise InputError(
                f"decision {brief(decision.id)} has the candidates {brief(decision.among)}, but must have a list, or None"
            )
        if decision.among is None:
            sets.append(range(len(runtime.classes)))
            continue
        numbers = sorted({runtime.names.index(name) for name in decision.among})
        if not {runtime.names.index(decision.label), runtime.names.index(decision.greedy)} <= set(numbers):
            raise InputError(f"decision {brief(decision.id)} has a label that is none of its candidates")
        sets.append(numbers)
    return pack_candidates(sets, complete=[decision.complete or decision.among is None for decision in decisions])


def _choice_numbers(runtime: Runtime, decision: Decision, played: int) -> tuple[float, ...]:
    """Return the numbers of a decision in the loop's columns, checked: they may come from outside."""
    greedy = played if decision.greedy == decision.label else runtime.names.index(decision.greedy)
    raw, confidence, sure = decision.raw, decision.confidence, decision.sure
    try:
        note, second_note = decision.notes
        fits = math.isfinite(decision.weight + note + second_note)
        fits = fits and (raw is None or -_MOST <= raw <= _MOST)
        fits = fits and (confidence is None or 0.0 <= confidence <= 1.0) and (sure is None or 0.0 <= sure <= 1.0)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        _require_numbers(decision)
    raw = math.nan if raw is None else raw
    confidence = math.nan if confidence is None else confidence
    sure = math.nan if sure is None else sure
    # The propensity over ties and the floor is not learnt from.
    return played, greedy, decision.weight, note, second_note, 0.0, raw, confidence, sure


def _require_numbers(decision: Decision) -> None:
    """Refuse a decision with a field that is no number, or out of range."""
    for name, given, least, most, said in (
        ("raw", decision.raw, -_MOST, _MOST, "a finite number"),
        ("confidence", decision.confidence, 0.0, 1.0, "a number from 0 to 1"),
        ("sure", decision.sure, 0.0, 1.0, "a number from 0 to 1"),
    ):
        if given is not None and not (_is_number(given) and least <= given <= most):
            raise InputError(
                f"decision {brief(decision.id)} has the {name} {brief(given)}, but must have {said}, or None"
            )
    notes = decision.notes
    if not isinstance(notes, tuple | list) or len(notes) != 2 or not all(map(_is_number, (decision.weight, *notes))):
        raise InputError(
            f"decision {brief(decision.id)} has the weight {brief(decision.weight)} and the notes {brief(notes)}, but must "
            "have a number and two numbers"
        )
    if not all(map(math.isfinite, notes)):
        raise InputError(f"decision {brief(decision.id)} has the notes {brief(notes)}, but they must be finite")


def _is_number(given: object) -> bool:
    return isinstance(given, float | int | np.floating) and not isinstance(given, bool)


def parse_answers(
    runtime: Runtime,
    decisions: Sequence[Decision],
    right: Sequence[bool] | NDArray[np.bool_] | None,
    labels: Sequence[ClassName] | NDArray[Any] | None,
    rewards: Sequence[float] | NDArray[Any] | None,
    truths: Sequence[ClassName | None] | NDArray[Any] | None,
) -> LearningBatch | None:
    """Parse the outcomes of many decisions; None if there are no decisions."""
    given = [answers for answers in (right, labels, rewards, truths) if answers is not None]
    if len(given) != 1 and not (len(given) == 2 and right is not None and truths is not None):
        raise InputError(
            "give either right, labels, rewards or truths, or right and truths: an answer for each decision"
        )
    if not hasattr(decisions, "__len__"):
        raise InputError("decisions and answers must be lists, one answer for each decision")
    count = len(decisions)
    rights, names, worths, named = (_answers(answers, count) for answers in (right, labels, rewards, truths))
    if not count:
        return None
    _require_own(runtime, decisions)
    ids, played_names, _, greedy, weights, notes, xs, _, _, among, _, _, *surety = zip(*decisions, strict=True)
    played = runtime.names.numbers(played_names)
    worth, known = NO_REWARDS, NOTHING
    plain = truths is None and set(map(type, rights)) == {bool}
    if plain and not (runtime.needs_labels and False in rights):
        revealed = np.where(rights, played, -1)
    else:
        if truths is not None:
            rights, named = _without_contradictions(decisions, rights, named)
        said = zip(decisions, played, rights, names, worths, named, strict=True)
        answers = [parse_answer(runtime, *each) for each in said]
        revealed = np.array([answer.revealed for answer in answers])
        if rewards is not None:
            worth = np.array([[answer.reward] for answer in answers], dtype=np.float64)
        if truths is not None:
            known = np.array([answer.revealed if answer.corrects else -1 for answer in answers])
    rows = runtime.features.read_all(xs)
    runtime.model.make_room(rows)
    choices = _choice_rows(runtime.names.numbers(greedy), played, weights, notes, surety)
    if choices is None:  # some number is not a plain float: check them one by one
        each = zip(decisions, played, strict=True)
        choices = np.array([_choice_numbers(runtime, decision, label) for decision, label in each])
    sets = NOTHING if among.count(None) == count else _candidates(runtime, decisions)
    return LearningBatch(rows, list(ids), choices, revealed, hash_ids(ids), sets, worth, known)


def _require_own(runtime: Runtime, decisions: Sequence[Decision]) -> None:
    """Refuse decisions of another learner, learnt ones, and duplicates."""
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise InputError(f"learn takes a Decision, and was given a {type(decision).__name__}")
        if decision.learner != runtime.identity:
            raise InputError(f"decision {brief(decision.id)} was made by another learner")
    ids = [decision.id for decision in decisions]
    if len(set(ids)) < len(ids):
        twice = next(identity for place, identity in enumerate(ids) if identity in ids[:place])
        raise InputError(f"decision {brief(twice)} is there twice")
    if not runtime.ledger.knows_none(ids):
        for decision in decisions:
            runtime.ledger.refuse_learnt(decision.id, decision.version)


def _choice_rows(
    greedy: Sequence[int],
    played: Sequence[int],
    weights: Sequence[Any],
    notes: Sequence[Any],
    surety: Sequence[tuple[Any, ...]],
) -> NDArray[np.float64] | None:
    """Return the numbers of decisions in the loop's columns, built column by column; None if they are not all floats in range.

    `surety` are the columns of `raw`, `confidence` and `sure`.
    """
    try:
        first_notes, second_notes = zip(*notes, strict=True)
        kinds = set(map(type, chain(weights, first_notes, second_notes, *surety)))
    except (TypeError, ValueError):
        return None
    if not kinds <= _PLAIN:
        return None
    # The propensity over ties and the floor is not learnt from.
    nothing = [0.0] * len(played)
    columns = np.array([played, greedy, weights, first_notes, second_notes, nothing, *surety], dtype=np.float64)
    raw, shares = columns[engine.RAW], columns[engine.CONFIDENCE :]  # None has become NaN
    fits = np.isfinite(columns[: engine.RAW]).all() and not np.isinf(raw).any()
    fits = fits and np.isnan(columns).sum() == sum(column.count(None) for column in surety)
    if not fits or ((shares < 0.0) | (shares > 1.0)).any():
        return None
    return np.ascontiguousarray(columns.T)


def _without_contradictions(
    decisions: Sequence[Decision], rights: list[Any], truths: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Return either a truth or right and wrong for each decision; refuse pairs that contradict each other."""
    truths = [None if isinstance(truth, float) and math.isnan(truth) else truth for truth in truths]  # None in a frame
    for decision, right, truth in zip(decisions, rights, truths, strict=True):
        if truth is not None and right is not None and right is not (decision.label == truth):
            raise InputError(
                f"decision {brief(decision.id)} is {brief(decision.label)}: right is {brief(right)} beside the truth {brief(truth)}, but "
                "must follow from it, or be None"
            )
    return [right if truth is None else None for right, truth in zip(rights, truths, strict=True)], truths


def _answers(given: Any, count: int) -> list[Any]:
    """Return a list of answers, one for each decision; None for each if there are none of this kind."""
    if given is None:
        return [None] * count
    ordered = hasattr(given, "__len__") and not isinstance(given, str | bytes | Mapping | Set)
    if not ordered:
        raise InputError("decisions and answers must be lists, one answer for each decision")
    if len(given) != count:
        raise InputError(f"there are {len(given)} answers for {count} decisions")
    if type(given) is list and set(map(type, given)) == {bool}:  # as mostly
        return given
    return [one.item() if isinstance(one, np.generic) else one for one in given]
