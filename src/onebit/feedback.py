"""What was said of decisions, on its way to the loop: checked, and in numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.batches import LearningBatch
from onebit.contract.candidates import Labels, packed
from onebit.contract.draws import word_of, words_of
from onebit.decision import Decision
from onebit.engine.schedule import NO_REWARDS, NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.rows import joined
from onebit.runtime import Runtime
from onebit.validation import ClassName, listed

KINDS = ("bandit", "label")
_MOST = sys.float_info.max


def refuse_other_feedback(runtime: Runtime, feedback: object) -> None:
    """For those who are shown labels and may pass on one bit of each, or all: refuse what is neither, or too little for a rule."""
    if feedback not in KINDS:
        raise InputError(f"feedback is {brief(feedback)}, but must be 'bandit' or 'label'")
    if runtime.needs_labels and feedback == "bandit":
        raise InputError(f"{runtime.rule.title} learns from labels, not from one bit: give feedback='label'")


class Answer(NamedTuple):
    """What was said of a decision, in numbers."""

    revealed: int  # the class that the loop compares with the one played; -1 for some other class
    reward: float | None = None  # what the label was worth, where that is a number
    corrects: bool = False  # whether the class was named to be learnt as such


def parse_answer(
    runtime: Runtime,
    decision: Decision,
    right: bool | None,
    label: ClassName | None,
    reward: float | None,
    truth: ClassName | None,
) -> Answer:
    """Read what was said of a decision. One that is not this learner's to learn, now, is refused."""
    if not isinstance(decision, Decision):
        raise InputError(f"learn takes a Decision, and was given a {type(decision).__name__}")
    if right is not None and label is None and reward is None and truth is None:
        said: object = right
        if said is not True and said is not False and not isinstance(said, np.bool_):
            raise InputError(f"right is {brief(right)}, but must be True or False (bool(...) makes it so)")
        if not right and runtime.model.needs_labels:
            raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not only that it was wrong")
        answer = Answer(runtime.names.index(decision.label) if right else -1)
    elif (right is not None) + (label is not None) + (reward is not None) + (truth is not None) != 1:
        raise InputError("give either right=True or False, or the label, or a reward, or the truth: one of them")
    elif label is not None:
        answer = Answer(_known_class(runtime, decision, "label", label))
    elif truth is not None:
        # Of one candidate a truth says that it was right, and no more.
        alone = decision.among is not None and len(set(decision.among)) == 1
        named = _known_class(runtime, decision, "truth", truth)
        answer = Answer(named, corrects=runtime.corrects and not alone)
    else:
        worth = checked_reward(reward)
        if runtime.needs_labels:
            raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not a reward")
        answer = Answer(runtime.names.index(decision.label) if worth == 1.0 else -1, worth)
    if decision.learner != runtime.identity:
        raise InputError(f"decision {brief(decision.id)} was made by another learner")
    runtime.ledger.refuse_learnt(decision.id, decision.version)
    return answer


def checked_reward(reward: object) -> float:
    """A reward from 0 to 1, or the sentence how others become one."""
    plain = reward.item() if isinstance(reward, np.generic) else reward
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0.0 <= plain <= 1.0:
        raise InputError(
            f"reward is {brief(reward)}, but must be a number from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
        )
    return float(plain)


def _known_class(runtime: Runtime, decision: Decision, name: str, given: ClassName) -> int:
    """The number of a class that was named as right, which must be one of the candidates."""
    number = runtime.names.index(given)
    if decision.among is not None and given not in decision.among and (name == "truth" or runtime.needs_labels):
        raise InputError(
            f"{name} is {brief(given)}, but the candidates of decision {brief(decision.id)} were {listed(decision.among)}"
        )
    return number


def _candidates(runtime: Runtime, decisions: Sequence[Decision]) -> Labels:
    """The candidates of decisions, packed; none where all classes could be played in each."""
    if all(one.among is None for one in decisions):
        return NOTHING
    sets: list[Sequence[int]] = []
    for one in decisions:
        if one.among is not None and not isinstance(one.among, tuple | list):
            raise InputError(
                f"decision {brief(one.id)} has the candidates {brief(one.among)}, but must have a list, or None"
            )
        if one.among is None:
            sets.append(range(len(runtime.classes)))
            continue
        numbers = sorted({runtime.names.index(name) for name in one.among})
        if not {runtime.names.index(one.label), runtime.names.index(one.greedy)} <= set(numbers):
            raise InputError(f"decision {brief(one.id)} has a label that is none of its candidates")
        sets.append(numbers)
    return packed(sets, complete=[one.complete or one.among is None for one in decisions])


def _choice_of(runtime: Runtime, decision: Decision) -> tuple[float, ...]:
    """The numbers of a decision in the columns in which the loop keeps a choice; they may come from outside, and are checked again."""
    label = runtime.names.index(decision.label)
    greedy = label if decision.greedy == decision.label else runtime.names.index(decision.greedy)
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
    return label, greedy, decision.weight, note, second_note, 0.0, raw, confidence, sure


def _require_numbers(decision: Decision) -> None:
    """Refuse a decision whose numbers are none."""
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


def learn_answer(runtime: Runtime, decision: Decision, answer: Answer) -> None:
    """Learn what was said of one decision; where it cannot be learnt, nothing is changed."""
    model, identity = runtime.model, decision.id
    word = identity if type(identity) is int else word_of(identity)
    new, known = model.space is None, runtime.features.known
    try:
        _, row = runtime.features.read(decision.x, grow=True)
        made = _choice_of(runtime, decision)
        among = NOTHING if decision.among is None else _candidates(runtime, [decision])
        rewards = NO_REWARDS if answer.reward is None else np.array([[answer.reward]])
        if answer.corrects:
            rows, label, words = model.rows_of(row), np.array([answer.revealed]), np.array([word], dtype=np.uint64)
            with model.unchanged_if_refused(rows):
                model.correct(rows, label, np.array([made]), words, among)
        else:
            model.learn_row(row, made, word, answer.revealed, among, rewards)
    except OnebitError:
        runtime.forget(new, known)
        raise
    if answer.reward is not None:
        runtime.note_rewards(rewards)
    runtime.record_one(identity)


def parse_answers(
    runtime: Runtime,
    decisions: Sequence[Decision],
    right: Sequence[bool] | NDArray[np.bool_] | None,
    labels: Sequence[ClassName] | NDArray[Any] | None,
    rewards: Sequence[float] | NDArray[Any] | None,
    truths: Sequence[ClassName | None] | NDArray[Any] | None,
) -> LearningBatch | None:
    """Many decisions with what was said of each; None where there are none."""
    given = [one for one in (right, labels, rewards, truths) if one is not None]
    if len(given) != 1 and not (len(given) == 2 and right is not None and truths is not None):
        raise InputError(
            "give either right, labels, rewards or truths, or right and truths: an answer for each decision"
        )
    if not hasattr(decisions, "__len__"):
        raise InputError("decisions and answers must be lists, one answer for each decision")
    rights, names = _answers(right, len(decisions)), _answers(labels, len(decisions))
    numbers, known_truths = _answers(rewards, len(decisions)), _answers(truths, len(decisions))
    if not decisions:
        return None
    answers, parts, choices = [], [], []
    seen: set[int | str] = set()
    for index, decision in enumerate(decisions):
        truth, said = known_truths[index], rights[index]
        if isinstance(truth, float) and math.isnan(truth):  # what a frame makes of None
            truth = None
        if truth is not None and said is not None:
            _refuse_contradiction(decision, said, truth)
            said = None
        answers.append(parse_answer(runtime, decision, said, names[index], numbers[index], truth))
        if decision.id in seen:
            raise InputError(f"decision {brief(decision.id)} is there twice")
        seen.add(decision.id)
        parts.append(runtime.features.read(decision.x, grow=True)[1])
        choices.append(_choice_of(runtime, decision))
    ids = [decision.id for decision in decisions]
    among = _candidates(runtime, decisions)
    revealed = np.array([answer.revealed for answer in answers], dtype=np.int64)
    worth = NO_REWARDS if rewards is None else np.array([[answer.reward] for answer in answers], dtype=np.float64)
    known = NOTHING
    if truths is not None:
        known = np.array([one.revealed if one.corrects else -1 for one in answers], dtype=np.int64)
    rows = joined(parts)
    runtime.model.make_room(rows)
    return LearningBatch(rows, ids, np.array(choices), revealed, words_of(ids), among, worth, known)


def _refuse_contradiction(decision: Decision, right: object, truth: object) -> None:
    """A sentence where right or wrong is said beside a truth that says otherwise."""
    if isinstance(decision, Decision) and right is not (decision.label == truth):
        raise InputError(
            f"decision {brief(decision.id)} is {brief(decision.label)}: right is {brief(right)} beside the truth {brief(truth)}, but "
            "must follow from it, or be None"
        )


def _answers(given: Any, count: int) -> list[Any]:
    """The answers to decisions in their order, whatever a list of them is called; None to each where there are none of this kind."""
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
