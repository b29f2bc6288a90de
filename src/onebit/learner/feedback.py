"""Feedback on decisions: validation, conversion to numbers, and learning."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels, pack_candidates
from onebit.contract.draws import hash_id, hash_ids
from onebit.contract.validation import ClassName, join_names
from onebit.engine.schedule import NO_REWARDS, NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.batches import NO_TRUTHS, LearningBatch
from onebit.learner.decision import Decision, require_numbers
from onebit.learner.loop_calls import learn_row
from onebit.learner.runtime import Runtime
from onebit.spaces.sparse import SparseRows

KINDS = ("bandit", "label")
_LARGEST_FLOAT = sys.float_info.max


def require_feedback_kind(runtime: Runtime, feedback: object) -> None:
    """Raise InputError if `feedback` is not 'bandit' or 'label', or tells too little for the rule."""
    if feedback not in KINDS:
        raise InputError(f"feedback is {brief(feedback)}, but must be 'bandit' or 'label'")
    if runtime.needs_labels and feedback == "bandit":
        raise InputError(f"{runtime.rule.title} learns from labels, not from one bit: give feedback='label'")


class Answer(NamedTuple):
    """The outcome of a decision, as numbers."""

    revealed: int  # the class that the loop compares with the label played; -1 for any other class
    reward: float | None = None  # the reward of the label played, if given as a number
    is_truth: bool = False  # True if somebody named `revealed` as the right class


def learn_answer(
    runtime: Runtime,
    decision: Decision,
    right: bool | None,
    label: ClassName | None,
    reward: float | None,
    truth: ClassName | None,
) -> None:
    """Learn from the outcome of one decision; if that fails, nothing changes."""
    if not isinstance(decision, Decision):
        raise InputError(f"expected a Decision, got {brief(decision)}")
    with runtime.lock:
        played = runtime.names.index(decision.label)
        is_bit = type(right) is bool and label is reward is truth is None
        if is_bit and decision.among is None and not runtime.model.needs_labels:
            revealed = played if right else -1  # the common case
        else:
            answer = parse_answer(runtime, decision, played, right, label, reward, truth)
            if answer.reward is not None or answer.is_truth or decision.among is not None:
                with runtime.undo_if_refused():
                    _require_own_decisions(runtime, [decision])
                    runtime.learn_batch(_build_batch(runtime, [decision], [played], *_split_answers([answer])))
                return
            revealed = answer.revealed
        # A shortcut for right, wrong or a label among all classes: it takes a fifth of the time of a batch.
        features, identity = runtime.features, decision.id
        if decision.learner != runtime.identity:
            raise InputError(f"decision {brief(identity)} was made by another learner")
        runtime.ledger.refuse_learnt(identity, decision.version)
        is_first, names = runtime.model.space is None, features.feature_names
        try:
            stored_x, row = features.read(decision.x, copy=False)
            numbers = _encode_choice(runtime, decision, played)
            word = identity if type(identity) is int else hash_id(identity)
            learn_row(runtime.model, row, numbers, word, revealed)
        except OnebitError:
            runtime.forget_features(is_first, features.columns, names)
            raise
        vocabulary = features.vocabulary
        if vocabulary is not None and isinstance(row, SparseRows) and row.width > len(vocabulary):
            features.add_names(stored_x)
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
    """Parse the outcome of a decision; `played` is the index of its label."""
    if right is not None and label is None and reward is None and truth is None:
        answer: object = right
        if answer is not True and answer is not False and not isinstance(answer, np.bool_):
            raise InputError(f"right is {brief(right)}, but must be True or False")
        if not right and runtime.model.needs_labels:
            raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not right=False")
        return Answer(played if right else -1)
    if (right is not None) + (label is not None) + (reward is not None) + (truth is not None) != 1:
        raise InputError("give exactly one of right, label, reward and truth")
    if label is not None:
        return Answer(_find_class(runtime, decision, "label", label))
    if truth is not None:
        return Answer(_find_class(runtime, decision, "truth", truth), is_truth=True)
    checked_reward = check_reward(reward)
    if runtime.needs_labels:
        raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not a reward")
    return Answer(played if checked_reward == 1.0 else -1, checked_reward)


def check_reward(reward: object) -> float:
    """Return a reward from 0 to 1; for other values, raise InputError and say how to rescale them."""
    plain = reward.item() if isinstance(reward, np.generic) else reward
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0.0 <= plain <= 1.0:
        raise InputError(
            f"reward is {brief(reward)}, but must be a number from 0 to 1; rescale rewards from a to b: (reward - a) / (b - a)"
        )
    return float(plain)


def _find_class(runtime: Runtime, decision: Decision, name: str, class_name: ClassName) -> int:
    """Return the index of the class named as right; it must be a candidate."""
    index = runtime.names.index(class_name)
    if decision.among is not None and class_name not in decision.among and (name == "truth" or runtime.needs_labels):
        raise InputError(
            f"{name} is {brief(class_name)}, but the candidates of decision {brief(decision.id)} were {join_names(decision.among)}"
        )
    return index


def _pack_among(runtime: Runtime, decisions: Sequence[Decision]) -> Labels:
    """Pack the candidates of decisions; empty if all classes could be played in each."""
    if all(decision.among is None for decision in decisions):
        return NOTHING
    sets: list[Sequence[int]] = []
    for decision in decisions:
        if decision.among is not None and not isinstance(decision.among, tuple | list):
            raise InputError(
                f"the candidates of decision {brief(decision.id)} are {brief(decision.among)}, but must be a list or None"
            )
        if decision.among is None:
            sets.append(range(len(runtime.classes)))
            continue
        candidates = sorted({runtime.names.index(name) for name in decision.among})
        if not {runtime.names.index(decision.label), runtime.names.index(decision.greedy)} <= set(candidates):
            raise InputError(f"decision {brief(decision.id)} has a label that is not one of its candidates")
        sets.append(candidates)
    return pack_candidates(sets, complete=[decision.complete or decision.among is None for decision in decisions])


def _encode_choice(runtime: Runtime, decision: Decision, played: int) -> tuple[float, ...]:
    """Return the numbers of a decision in the order of the loop's columns.

    They are validated, because decisions may come from outside.
    """
    greedy = played if decision.greedy == decision.label else runtime.names.index(decision.greedy)
    raw, confidence, sure = decision.raw, decision.confidence, decision.sure
    try:
        note, second_note = decision.notes
        fits = math.isfinite(decision.weight + note + second_note)
        fits = fits and (raw is None or -_LARGEST_FLOAT <= raw <= _LARGEST_FLOAT)
        fits = fits and (confidence is None or 0.0 <= confidence <= 1.0) and (sure is None or 0.0 <= sure <= 1.0)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        require_numbers(decision)
    raw = math.nan if raw is None else raw
    confidence = math.nan if confidence is None else confidence
    sure = math.nan if sure is None else sure
    # Learning uses the rule's own propensity, not the one over ties and the floor.
    return played, greedy, decision.weight, note, second_note, 0.0, raw, confidence, sure


def learn_answers(
    runtime: Runtime,
    decisions: Sequence[Decision],
    right: Sequence[bool] | NDArray[np.bool_] | None,
    labels: Sequence[ClassName] | NDArray[Any] | None,
    rewards: Sequence[float] | NDArray[Any] | None,
    truths: Sequence[ClassName | None] | NDArray[Any] | None,
) -> None:
    """Learn from the outcomes of many decisions; if one of them is refused, none is learnt."""
    given = [answers for answers in (right, labels, rewards, truths) if answers is not None]
    if len(given) != 1 and not (len(given) == 2 and right is not None and truths is not None):
        raise InputError(
            "give one of right, labels, rewards and truths, or right with truths: one answer for each decision"
        )
    if not hasattr(decisions, "__len__"):
        raise InputError("decisions and answers must be lists, one answer for each decision")
    count = len(decisions)
    lists = (_list_answers(answers, count) for answers in (right, labels, rewards, truths))
    right_list, label_list, reward_list, truth_list = lists
    if not count:
        return
    with runtime.lock, runtime.undo_if_refused():
        _require_own_decisions(runtime, decisions)
        played = [runtime.names.index(decision.label) for decision in decisions]
        if truths is not None:
            right_list, truth_list = _resolve_truths(decisions, right_list, truth_list)
        if (
            truths is None
            and set(map(type, right_list)) == {bool}
            and not (runtime.needs_labels and False in right_list)
        ):
            answers = np.where(right_list, played, -1), NO_REWARDS, NO_TRUTHS  # the common case
        else:
            outcomes = zip(decisions, played, right_list, label_list, reward_list, truth_list, strict=True)
            answers = _split_answers([parse_answer(runtime, *outcome) for outcome in outcomes])
        runtime.learn_batch(_build_batch(runtime, decisions, played, *answers))


def _split_answers(answers: Sequence[Answer]) -> tuple[Labels, NDArray[np.float64], NDArray[np.bool_]]:
    """Split answers into revealed labels, rewards (empty if there are none), and a mask of truths."""
    rewards = NO_REWARDS
    if any(answer.reward is not None for answer in answers):
        rewards = np.array([[answer.reward] for answer in answers], dtype=np.float64)
    revealed, has_truth = [answer.revealed for answer in answers], [answer.is_truth for answer in answers]
    return np.array(revealed), rewards, np.array(has_truth)


def _build_batch(
    runtime: Runtime,
    decisions: Sequence[Decision],
    played: Sequence[int],
    revealed: Labels,
    rewards: NDArray[np.float64],
    has_truth: NDArray[np.bool_],
) -> LearningBatch:
    """Build a batch from decisions and their answers; `played` has the indices of their labels."""
    rows = runtime.features.read_all([decision.x for decision in decisions])
    runtime.model.make_room(rows)
    choices = np.array([_encode_choice(runtime, *pair) for pair in zip(decisions, played, strict=True)])
    ids, among = [decision.id for decision in decisions], _pack_among(runtime, decisions)
    return LearningBatch(rows, ids, choices, revealed, hash_ids(ids), among, rewards, has_truth)


def _require_own_decisions(runtime: Runtime, decisions: Sequence[Decision]) -> None:
    """Raise InputError for decisions of another learner, decisions already learnt, and duplicates."""
    for decision in decisions:
        if not isinstance(decision, Decision):
            raise InputError(f"expected a Decision, got {brief(decision)}")
        if decision.learner != runtime.identity:
            raise InputError(f"decision {brief(decision.id)} was made by another learner")
    ids = [decision.id for decision in decisions]
    if len(set(ids)) < len(ids):
        duplicate = next(identity for position, identity in enumerate(ids) if identity in ids[:position])
        raise InputError(f"decision {brief(duplicate)} is given twice")
    if not runtime.ledger.are_all_learnable(ids):
        for decision in decisions:
            runtime.ledger.refuse_learnt(decision.id, decision.version)


def _resolve_truths(decisions: Sequence[Decision], rights: list[Any], truths: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return `rights`, cleared where a truth is given, and `truths`; refuse contradictory pairs."""
    truths = [None if isinstance(truth, float) and math.isnan(truth) else truth for truth in truths]  # None in a frame
    for decision, right, truth in zip(decisions, rights, truths, strict=True):
        if truth is not None and right is not None and right is not (decision.label == truth):
            raise InputError(
                f"decision {brief(decision.id)} played {brief(decision.label)}: right is {brief(right)}, which contradicts "
                f"the truth {brief(truth)}; leave it None where a truth is given"
            )
    return [right if truth is None else None for right, truth in zip(rights, truths, strict=True)], truths


def _list_answers(answers: Any, count: int) -> list[Any]:
    """Return one answer for each decision; all None if no answers of this kind were given."""
    if answers is None:
        return [None] * count
    is_list = hasattr(answers, "__len__") and not isinstance(answers, str | bytes | Mapping | Set)
    if not is_list:
        raise InputError("decisions and answers must be lists, one answer for each decision")
    if len(answers) != count:
        raise InputError(f"there are {len(answers)} answers for {count} decisions")
    if type(answers) is list and set(map(type, answers)) == {bool}:  # the common case
        return answers
    return [answer.item() if isinstance(answer, np.generic) else answer for answer in answers]
