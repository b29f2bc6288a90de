"""Logged rounds (what was shown for x, its probability and the feedback) and training from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName, join_names
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.classes import Classes
from onebit.learner.decision import Decision
from onebit.learner.feedback import check_reward
from onebit.learner.learner import Learner

ROUNDING = 1e-6  # tolerance for logged probabilities
REPORT = 1000  # rounds between calls of `progress`
USUAL_FLOOR = 0.05  # enough exploration to evaluate a log, at a small cost

Progress = Callable[[int], None]  # called with the number of rounds done since the last call


class Round(NamedTuple):
    """A logged decision for one x, and whether it was right, or its reward.

    `propensity` is the probability with which `label` was shown, None if unknown. `probabilities` are those of all
    classes, in the order of the learner's `classes` or by name, None if only that of the label is known.

    `among` are the candidates, the classes that could be shown, None if all could; `complete` says that the right class
    is known to be one of them. `reward` is a number from 0 to 1 in place of `right`, which is then None; `truth` is the
    class that would have been right, if known, from which `right` follows.
    """

    id: int | str
    x: Any
    label: ClassName
    right: bool | None
    propensity: float | None
    probabilities: Sequence[float] | NDArray[np.float64] | Mapping[Any, float] | None = None
    among: Sequence[ClassName] | None = None
    complete: bool = False
    reward: float | None = None
    truth: ClassName | None = None


class CheckedRound(NamedTuple):
    """A validated round with its number from 1, and its label and candidates as class indices.

    `logged` are the probabilities of all classes, if known. `candidates` are in ascending order, and `reward` is 1 for
    right and 0 for wrong.
    """

    number: int
    round: Round
    place: int
    propensity: float | None
    logged: NDArray[np.float64] | None
    candidates: Labels
    reward: float


def require_bandit_learner(learner: object) -> None:
    """Raise InputError unless this is a Learner that can learn from a log.

    A log says only whether the label shown was right, and some learners need the right class.
    """
    if not isinstance(learner, Learner):
        raise InputError(f"the learner is a {type(learner).__name__}, but must be a Learner")
    if learner.runtime.needs_labels:
        raise InputError(
            f"{learner.runtime.rule.title} learns from full information, but a log says only whether the label shown was right: use a "
            "learner with bandit feedback"
        )


def check_rounds(learner: Learner, rounds: Iterable[Round], progress: Progress | None = None) -> Iterator[CheckedRound]:
    """Yield the validated rounds; raise InputError with the number of one that this learner cannot use.

    `progress` is called after every `REPORT` rounds, and after the last.
    """
    if isinstance(rounds, str | Round) or not isinstance(rounds, Iterable):
        raise InputError(f"rounds is a {type(rounds).__name__}, but must be a list of Round")
    classes, number = Classes(learner.classes), 0
    for number, given in enumerate(rounds, start=1):
        try:
            checked = _check_round(number, given, classes)
        except OnebitError as error:
            raise locate_error(number, given, error) from None
        yield checked
        if progress is not None and number % REPORT == 0:
            progress(REPORT)
    if progress is not None and number % REPORT:
        progress(number % REPORT)


def locate_error(number: int, given: object, error: OnebitError) -> OnebitError:
    """Return the error with the number and id of its round."""
    identity = f" (id {given.id!r})" if isinstance(given, Round) else ""
    return InputError(f"round {number} of the log{identity}: {error}")


def _check_round(number: int, given: Round, classes: Classes) -> CheckedRound:
    if not isinstance(given, Round):
        raise InputError(f"this is a {type(given).__name__}, but must be a Round")
    if not isinstance(given.complete, bool | np.bool_):
        raise InputError(f"complete is {brief(given.complete)}, but must be True or False")
    place = classes.index(given.label)
    label = classes.names[place]
    members = classes.find_candidates(given.among)
    among = None if members is None else tuple(classes.names[member] for member in members)
    candidates = np.arange(len(classes.names)) if members is None else np.array(members)
    if place not in candidates:
        raise InputError(f"{brief(label)} was shown, but the candidates are {join_names(among or ())}")
    validated = _check_feedback(given._replace(label=label), classes, candidates)
    logged = None if given.probabilities is None else _check_probabilities(given.probabilities, classes, candidates)
    if given.propensity is None:
        propensity = None if logged is None else float(logged[place])
    else:
        propensity = _check_propensity(given.propensity)
        if logged is not None and abs(propensity - logged[place]) > ROUNDING:
            raise InputError(
                f"the propensity of {brief(label)} is {propensity:g}, but probabilities says {logged[place]:g}"
            )
    if propensity is not None and propensity <= 0.0:
        raise InputError(f"{brief(label)} was shown, so its probability must be above 0, got {propensity:g}")
    if propensity is not None and len(candidates) == 1 and propensity < 1.0 - ROUNDING:
        raise InputError(f"{brief(label)} was the only candidate, so its probability must be 1, got {propensity:g}")
    reward = float(bool(validated.right)) if validated.reward is None else validated.reward
    checked = validated._replace(among=among, complete=bool(given.complete))
    return CheckedRound(number, checked, place, propensity, logged, candidates, reward)


def _check_feedback(given: Round, classes: Classes, candidates: Labels) -> Round:
    """Return the round with its feedback validated: right or wrong, a reward, or the truth."""
    if given.right is not None and not isinstance(given.right, bool | np.bool_):
        raise InputError(f"right is {brief(given.right)}, but must be True or False")
    if given.reward is not None:
        if given.right is not None or given.truth is not None:
            raise InputError(
                "a reward is given together with right or truth: give one of them, and None for the others"
            )
        return given._replace(reward=check_reward(given.reward))
    if given.truth is None:
        if given.right is None:
            raise InputError("right is None, but must be True or False if there is no reward and no truth")
        return given._replace(right=bool(given.right))
    place = classes.index(given.truth)
    truth = classes.names[place]
    if place not in candidates:
        raise InputError(f"truth is {brief(truth)}, which is not a candidate")
    if given.right is not None and bool(given.right) != (truth == given.label):
        raise InputError(f"truth is {brief(truth)} and {brief(given.label)} was shown, but right is {given.right}")
    return given._replace(right=truth == given.label, truth=truth)


def _check_propensity(given: object) -> float:
    number = isinstance(given, int | float | np.floating) and not isinstance(given, bool)
    if not number or not 0.0 < float(given) <= 1.0 + ROUNDING:  # type: ignore[arg-type]
        raise InputError(
            f"the propensity is {brief(given)}, but must be a number above 0 and at most 1, or None if unknown"
        )
    return min(1.0, float(given))  # type: ignore[arg-type]


def _check_probabilities(given: Any, classes: Classes, candidates: Labels) -> NDArray[np.float64]:
    """Return the probability of every class, 0 for those that could not be shown."""
    count = len(classes.names)
    if isinstance(given, Mapping):
        named = {classes.index(name): chance for name, chance in given.items()}
        given = [named.get(place, 0.0) for place in range(count)]
    try:
        chances = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities must be a list with the probability of every class") from None
    if chances.shape != (count,):
        raise InputError(
            f"probabilities has the shape {chances.shape}, but there are {count} classes: give 0 for one that could not be shown"
        )
    if not ((chances >= 0.0) & (chances <= 1.0 + ROUNDING)).all() or abs(chances.sum() - 1.0) > ROUNDING * count:
        raise InputError(f"probabilities must be from 0 to 1 and add up to 1; they add up to {chances.sum():g}")
    outside = np.delete(chances, candidates)
    if outside.any():
        raise InputError(f"a class that is not a candidate has the probability {outside.max():g}, but must have 0")
    return chances


# --- training ---------------------------------------------------------------------------------------------------------


def usual_floor(rule: Rule) -> float:
    """Return the default exploration floor for a learner whose log is to be evaluated.

    It is 0 if the rule cannot have one.
    """
    return 0.0 if rule.notes_the_label else USUAL_FLOOR


def train(learner: Learner, rounds: Iterable[Round], progress: Progress | None = None) -> int:
    """Train a learner on every round of a log, in order; return the number of rounds learnt.

    Side effect: the learner changes, even if a later round is refused.

    All rounds are learnt with their candidates, except by rules that can learn only from labels that they would have
    played themselves (Newtron): these skip the others. A round that cannot be learnt raises an OnebitError with its
    number, and the rounds before it stay learnt: a log was checked when it was written, so such a round means that the
    learner does not fit the log, which a count would hide.

    >>> import onebit
    >>> learner = onebit.BPA(classes=["no", "yes"])
    >>> train(learner, [Round("a", [1.0, 0.0], "no", True, 0.5), Round("b", [0.0, 1.0], "no", False, 0.5)])
    2
    >>> train(learner, [Round("c", [1.0, 0.0], "maybe", True, 0.5)])
    Traceback (most recent call last):
        ...
    onebit.errors.InputError: round 1 of the log (id 'c'): there is no class 'maybe'; the classes are 'no', 'yes'
    """
    require_bandit_learner(learner)
    learnt = 0
    for checked in check_rounds(learner, rounds, progress):
        try:
            if checked.propensity is None:
                raise InputError("it has no propensity, which learners need to learn from it")
            learnt += learn_round(learner, checked.round, checked.propensity, checked.round.id)
        except OnebitError as error:
            raise locate_error(checked.number, checked.round, error) from None
    return learnt


def learn_round(learner: Learner, round_: Round, propensity: float, identity: int | str) -> bool:
    """Learn from a label that somebody else showed; return False if the rule could not learn from it."""
    # What such a rule stores for learning belongs to its own label.
    if (
        learner.runtime.rule.notes_the_label
        and learner.decide(round_.x, identity, among=round_.among).label != round_.label
    ):
        return False
    decision = learner.from_log(
        round_.x, round_.label, propensity, identity, among=round_.among, complete=round_.complete
    )
    learn_feedback(learner, decision, round_)
    return True


def learn_feedback(learner: Learner, decision: Decision, round_: Round) -> None:
    """Learn the feedback of a round on its label: the truth, the reward, or right and wrong."""
    if round_.truth is not None:
        learner.learn(decision, truth=round_.truth)
    elif round_.reward is not None:
        learner.learn(decision, reward=round_.reward)
    else:
        learner.learn(decision, round_.right)
