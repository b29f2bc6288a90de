"""What was said of decisions, on its way to the loop: checked, and in numbers."""

from __future__ import annotations

import math
import operator
import struct
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.batches import LearningBatch
from onebit.contract.candidates import Labels, packed
from onebit.contract.draws import word_of, words_of
from onebit.decision import Decision, held_form, held_record, held_x
from onebit.engine import stream as engine
from onebit.engine.schedule import NO_REWARDS, NOTHING
from onebit.errors import InputError, OnebitError, brief
from onebit.features import Kept
from onebit.rows import Rows
from onebit.runtime import Runtime
from onebit.spaces.dense import DenseRows
from onebit.stepping import WRONG
from onebit.validation import ClassName, listed

KINDS = ("bandit", "label")
FINITE = (-sys.float_info.max, sys.float_info.max, "a finite number")
SHARE = (0.0, 1.0, "a number from 0 to 1")
# In half the time that NumPy takes to read a tuple.
_put_numbers: Callable[..., None] = struct.Struct(f"{engine.CHOICE_COLUMNS}d").pack_into


def refuse_other_feedback(runtime: Runtime, feedback: object) -> None:
    """For those who are shown labels and may pass on one bit of each, or all: refuse what is neither, or too little for a rule."""
    if feedback not in KINDS:
        raise InputError(f"feedback is {brief(feedback)}, but must be 'bandit' or 'label'")
    if runtime.needs_labels and feedback == "bandit":
        raise InputError(f"{runtime.rule.title} learns from labels, not from one bit: give feedback='label'")


# What was said of a decision, in numbers: the class that the loop compares with, -1 for some other class than the one played; what the label
# was worth, where that is a number; and whether the class was named to be learnt as such.
HeardAnswer = tuple[int, float | None, bool]


def heard_of(
    runtime: Runtime,
    decision: Decision,
    right: bool | None,
    label: ClassName | None,
    reward: float | None,
    truth: ClassName | None,
) -> HeardAnswer:
    """What was said of a decision. One that is not this learner's to learn, now, is refused."""
    heard: HeardAnswer
    if not isinstance(decision, Decision):
        raise InputError(f"learn takes a Decision, and was given a {type(decision).__name__}")
    if right is not None and label is None and reward is None and truth is None:
        said: object = right
        if said is not True and said is not False and not isinstance(said, np.bool_):
            raise InputError(f"right is {brief(right)}, but must be True or False (bool(...) makes it so)")
        if not right and runtime.model.needs_labels:
            raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not only that it was wrong")
        heard = runtime.names.index(decision.label) if right else -1, None, False
    elif (right is not None) + (label is not None) + (reward is not None) + (truth is not None) != 1:
        raise InputError("give either right=True or False, or the label, or a reward, or the truth: one of them")
    elif label is not None:
        heard = _known_class(runtime, decision, "label", label), None, False
    elif truth is not None:
        # Of one candidate a truth says that it was right, and no more.
        alone = decision.among is not None and len(set(decision.among)) == 1
        heard = _known_class(runtime, decision, "truth", truth), None, runtime.corrects and not alone
    else:
        heard = _rewarded(runtime, decision, checked_reward(reward))
    if decision.learner != runtime.identity:
        raise InputError(f"decision {brief(decision.id)} was made by another learner")
    runtime.ledger.refuse_learnt(decision.id, decision.version)
    return heard


def checked_reward(reward: object) -> float:
    """A reward from 0 to 1, or the sentence how others become one."""
    plain = reward.item() if isinstance(reward, np.generic) else reward
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not 0.0 <= plain <= 1.0:
        raise InputError(
            f"reward is {brief(reward)}, but must be a number from 0 to 1: of rewards from a to b, give (reward - a) / (b - a)"
        )
    return float(plain)


def _rewarded(runtime: Runtime, decision: Decision, reward: float) -> HeardAnswer:
    if runtime.needs_labels:
        raise InputError(f"{runtime.rule.title} learns from labels: give label=..., not a reward")
    return runtime.names.index(decision.label) if reward == 1.0 else -1, reward, False


def _known_class(runtime: Runtime, decision: Decision, name: str, given: ClassName) -> int:
    """The number of a class that was named as right, which must be one of the candidates."""
    number = runtime.names.index(given)
    if decision.among is not None and given not in decision.among and (name == "truth" or runtime.needs_labels):
        raise InputError(
            f"{name} is {brief(given)}, but the candidates of decision {brief(decision.id)} were {listed(decision.among)}"
        )
    return number


def among_of(runtime: Runtime, decisions: Sequence[Decision]) -> Labels:
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


def kept_of(runtime: Runtime, decision: Decision) -> Kept:
    """The x of a decision, checked again, since it may have come from outside."""
    x = decision.x
    features = runtime.features
    dense = isinstance(x, np.ndarray) and features.space == "dense"
    if dense and x.dtype == features.dtype and x.shape == (features.size,):  # type: ignore[union-attr]
        return x
    return features.keep(x)


def fill_choice(runtime: Runtime, choice: NDArray[np.float64], decision: Decision) -> None:
    """The choice of a decision as the loop keeps it."""
    label = runtime.names.index(decision.label)
    greedy = label if decision.greedy == decision.label else runtime.names.index(decision.greedy)
    raw, confidence = _number_or_none(decision, "raw", FINITE), _number_or_none(decision, "confidence", SHARE)
    sure = _number_or_none(decision, "sure", SHARE)
    try:
        note, second_note = decision.notes
        # The propensity over ties and the floor is not learnt from.
        _put_numbers(choice, 0, label, greedy, decision.weight, note, second_note, 0.0, raw, confidence, sure)
    except (TypeError, ValueError, struct.error):
        raise InputError(
            f"decision {brief(decision.id)} has the weight {brief(decision.weight)} and the notes {brief(decision.notes)}, but must "
            "have a number and two numbers"
        ) from None
    if not (math.isfinite(note) and math.isfinite(second_note)):
        raise InputError(
            f"decision {brief(decision.id)} has the notes {brief(decision.notes)}, but they must be finite"
        )


def _number_or_none(decision: Decision, name: str, wanted: tuple[float, float, str]) -> float:
    """A field of a decision that need not be there, which is NaN then."""
    found, (least, most, said) = getattr(decision, name), wanted
    if type(found) is float and least <= found <= most:
        return found
    if found is None:
        return math.nan
    number = isinstance(found, float | int | np.floating) and not isinstance(found, bool)
    if not number or not least <= found <= most:
        raise InputError(f"decision {brief(decision.id)} has the {name} {brief(found)}, but must have {said}, or None")
    return float(found)


def own_record(runtime: Runtime, decision: Decision) -> bytes | None:
    """What a decision was made of, where this learner made it, with the classes of now: then the loop takes it back as it is."""
    return held_record(decision) if held_form(decision) is runtime.form else None


def learn_own(runtime: Runtime, decision: Decision, right: object) -> bool:
    """Learn right or wrong of a decision on a dense row as this learner made it, as nearly always; if not, nothing has changed."""
    if type(decision) is not Decision or held_form(decision) is not runtime.form:
        return False
    if right is not True and (right is not False or runtime.model.needs_labels):
        return False
    identity = decision.id
    if held_x(decision) is not None or type(identity) is not int or decision.among is not None:
        return False
    runtime.ledger.refuse_learnt(identity, decision.version)
    if not runtime.model.learn_record(held_record(decision), identity, engine.PLAYED if right else -1):
        return False
    runtime.record_one(identity)
    return True


def learn_one(runtime: Runtime, decision: Decision, heard: HeardAnswer) -> None:
    """Learn what was said of one decision; where it cannot be learnt, nothing is changed."""
    model, (revealed, reward, corrected) = runtime.model, heard
    own, identity = own_record(runtime, decision), decision.id
    word = identity if type(identity) is int else word_of(identity)
    dense = own if held_x(decision) is None else None  # with the row behind the choice
    plain = reward is None and not corrected and decision.among is None
    if dense is not None and plain and model.learn_record(dense, word, revealed):
        runtime.record_one(identity)
        return
    known, memory, calibration = runtime.features.known, model.memory.copy(), model.calibration.copy()
    choice = model.choice if own is None else runtime.form.choice(own)
    try:
        rows: Rows | None
        if dense is not None:
            rows = DenseRows(runtime.form.row(dense)[None])
        else:
            rows = runtime.features.recent_row(decision.x)
        if rows is None:
            rows = runtime.row(kept_of(runtime, decision), grow=True)
        if own is None:
            fill_choice(runtime, choice[0], decision)
        label = WRONG
        if revealed >= 0:
            label = model.one_label
            label[0] = revealed
        among = NOTHING if decision.among is None else among_of(runtime, [decision])
        if corrected:
            model.correct(rows, label, choice, np.array([word], dtype=np.uint64), among)
        else:
            worth = NO_REWARDS
            if reward is not None:
                worth = np.array([[reward]])
                runtime.note_rewards(worth)
            model.step(rows, choice, model.learning, word, labels=label, among=among, rewards=worth)
    except OnebitError:
        runtime.features.forget_after(known)
        model.memory[:], model.calibration[:] = memory, calibration
        raise
    runtime.record_one(identity)


def batch_of(
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
    plain = _own_batch(runtime, decisions, rights) if right is not None and truths is None else None
    if plain is not None:
        return plain
    heard, kept, choices = [], [], []
    blank = np.zeros((1, engine.CHOICE_COLUMNS + len(runtime.classes)))
    seen: set[int | str] = set()
    for index, decision in enumerate(decisions):
        truth, said = known_truths[index], rights[index]
        if isinstance(truth, float) and math.isnan(truth):  # what a frame makes of None
            truth = None
        if truth is not None and said is not None:
            _refuse_contradiction(decision, said, truth)
            said = None
        heard.append(heard_of(runtime, decision, said, names[index], numbers[index], truth))
        if decision.id in seen:
            raise InputError(f"decision {brief(decision.id)} is there twice")
        seen.add(decision.id)
        kept.append(kept_of(runtime, decision))
        own = own_record(runtime, decision)
        choices.append(blank.copy() if own is None else runtime.form.choice(own))
        if own is None:
            fill_choice(runtime, choices[-1][0], decision)
    ids = [decision.id for decision in decisions]
    among = among_of(runtime, decisions)
    revealed = np.array([label for label, _, _ in heard], dtype=np.int64)
    worth = NO_REWARDS if rewards is None else np.array([[reward] for _, reward, _ in heard], dtype=np.float64)
    known = NOTHING
    if truths is not None:
        known = np.array([label if corrected else -1 for label, _, corrected in heard], dtype=np.int64)
    rows = runtime.rows(kept, grow=True)
    return LearningBatch(rows, ids, np.concatenate(choices), revealed, words_of(ids), among, worth, known)


def _own_batch(runtime: Runtime, decisions: Sequence[Decision], rights: list[Any]) -> LearningBatch | None:
    """Decisions on dense rows as this learner made them, each with right or wrong; None where one is not so, or must be refused."""
    if set(map(type, decisions)) != {Decision}:
        return None
    # As they are held, field by field, which reads nothing of a record.
    held = zip(*map(tuple.__iter__, decisions), strict=True)
    ids: Sequence[Any]
    ids, _, _, _, _, forms, rows_apart, _, _, candidates, _, records, _, _, _ = held
    own = all(map(operator.is_, forms, repeat(runtime.form)))
    if not own or set(rows_apart) | set(candidates) != {None}:
        return None
    # Numbers one after the other, as mostly, are quicker to look at as what they are.
    in_turn = range(ids[0], ids[0] + len(ids)) if type(ids[0]) is int else range(0)
    ids = in_turn if ids == tuple(in_turn) else ids
    answered = set(map(type, rights)) == {bool} and (all(rights) or not runtime.needs_labels)
    if not answered or len(set(ids)) < len(ids) or not runtime.ledger.knows_none(ids):
        return None
    cells = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(ids), -1)
    split = 8 * (engine.CHOICE_COLUMNS + len(runtime.classes))
    choices = np.ascontiguousarray(cells[:, :split]).view(np.float64)
    rows = DenseRows(np.ascontiguousarray(cells[:, split:]).view(runtime.features.dtype))
    was_right = np.frombuffer(bytes(rights), dtype=np.bool_)  # in a fifth of the time that NumPy takes to read a list
    revealed = np.where(was_right, choices[:, engine.LABEL], -1.0).astype(np.int64)
    return LearningBatch(rows, ids, choices, revealed, words_of(ids), as_decided=True)


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
