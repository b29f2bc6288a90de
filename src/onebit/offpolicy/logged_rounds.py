"""A round of a log: what was shown for x, among what, with which probability, and what came of it; and training a learner from rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName, join_names
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.decision import Decision
from onebit.learner.feedback import check_reward
from onebit.learner.learner import Learner

ROUNDING = 1e-6  # what logged probabilities may be off by
REPORT = 1000  # progress is told after so many rounds
USUAL_FLOOR = 0.05  # what a log needs to be evaluated, and what exploring costs

Progress = Callable[[int], None]  # told how many rounds have been done since the last call


class Round(NamedTuple):
    """What was shown for one x, and whether it was right, or what it was worth.

    `propensity` is the probability with which `label` was shown, None where nobody knows. `probabilities` are those of all classes,
    in the order of the learner's `classes` or by their names, None where only that of the label is known.

    `among` are the candidates, the classes that could be shown, None where all could; `complete` says that the right class is known to be
    one of them. `reward` is a number from 0 to 1 in the place of `right`, which is then None; `truth` is the class that would have been
    right, where somebody said it, from which `right` follows.
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


class Checked(NamedTuple):
    """A round that can be used: its number, from 1 on, the place of its label, and all probabilities where they are known.

    `candidates` are the places of the classes that could be shown, in rising order, and `reward` is 1 for right and 0 for wrong.
    """

    number: int
    round: Round
    place: int
    propensity: float | None
    logged: NDArray[np.float64] | None
    candidates: Labels
    reward: float


def refuse_learner(learner: object) -> None:
    """A log says only whether the label shown was right."""
    if not isinstance(learner, Learner):
        raise InputError(f"the learner is a {type(learner).__name__}, but must be a Learner")
    if learner.runtime.needs_labels:
        raise InputError(
            f"{learner.runtime.rule.title} learns from full information, and a log says only whether the label shown was right: take a "
            "learner with bandit feedback"
        )


def checked_rounds(learner: Learner, rounds: Iterable[Round]) -> Iterator[Checked]:
    """Round after round; the first that this learner cannot use is refused with its number."""
    if isinstance(rounds, str | Round) or not isinstance(rounds, Iterable):
        raise InputError(f"rounds is a {type(rounds).__name__}, but must be a list of Round")
    places = {name: place for place, name in enumerate(learner.classes)}
    for number, one in enumerate(rounds, start=1):
        try:
            found = _checked(number, one, places)
        except OnebitError as error:
            raise located(number, one, error) from None
        yield found


def located(number: int, one: object, error: OnebitError) -> OnebitError:
    """The same refusal with the round in which it was."""
    identity = f" (id {one.id!r})" if isinstance(one, Round) else ""
    return InputError(f"round {number} of the log{identity}: {error}")


def _checked(number: int, one: Round, places: dict[ClassName, int]) -> Checked:
    if not isinstance(one, Round):
        raise InputError(f"this is a {type(one).__name__}, but must be a Round")
    label, place = _known(one.label, places)
    among, candidates = _candidates(one, places)
    if place not in candidates:
        raise InputError(f"{brief(label)} was shown, which is none of the candidates {join_names(among or ())}")
    heard = _heard(one, label, places, candidates)
    logged = None if one.probabilities is None else _distribution(one.probabilities, places, candidates)
    if one.propensity is None:
        propensity = None if logged is None else float(logged[place])
    else:
        propensity = _probability(one.propensity)
        if logged is not None and abs(propensity - logged[place]) > ROUNDING:
            raise InputError(
                f"the propensity of {brief(label)} is {propensity:g}, but its place in probabilities says {logged[place]:g}"
            )
    if propensity is not None and propensity <= 0.0:
        raise InputError(f"{brief(label)} was shown, and yet its probability is {propensity:g}: it must be above 0")
    if propensity is not None and len(candidates) == 1 and propensity < 1.0 - ROUNDING:
        raise InputError(
            f"{brief(label)} was the only candidate, and yet its probability is {propensity:g}: it must be 1"
        )
    given = heard._replace(label=label, among=among, complete=bool(one.complete))
    reward = float(bool(heard.right)) if heard.reward is None else heard.reward
    return Checked(number, given, place, propensity, logged, candidates, reward)


def _known(given: Any, places: Mapping[ClassName, int]) -> tuple[ClassName, int]:
    """The name of a class, and its place."""
    name = given.item() if isinstance(given, np.generic) else given
    place = None if isinstance(name, bool) or not isinstance(name, str | int) else places.get(name)
    if place is None:
        raise InputError(f"there is no class {brief(name)}; the classes are {join_names(places)}")
    return name, place


def _candidates(one: Round, places: Mapping[ClassName, int]) -> tuple[tuple[ClassName, ...] | None, Labels]:
    """The names of the candidates, None for all classes, and their places."""
    if not isinstance(one.complete, bool | np.bool_):
        raise InputError(f"complete is {brief(one.complete)}, but must be True or False")
    everything = np.arange(len(places))
    if one.among is None:
        return None, everything
    if isinstance(one.among, str | bytes | Mapping) or not isinstance(one.among, Iterable):
        raise InputError(f"among is {brief(one.among)}, but must be a list of classes")
    found = dict(_known(name, places) for name in one.among)
    if not found:
        raise InputError("among is empty, but must have one class at least")
    if len(found) == len(places):
        return None, everything
    return tuple(found), np.array(sorted(found.values()))


def _heard(one: Round, label: ClassName, places: Mapping[ClassName, int], candidates: Labels) -> Round:
    """The round with what was said, checked: whether it was right, or a reward; and the truth, where that was said."""
    if one.right is not None and not isinstance(one.right, bool | np.bool_):
        raise InputError(f"right is {brief(one.right)}, but must be True or False")
    if one.reward is not None:
        if one.right is not None or one.truth is not None:
            raise InputError(
                "a reward is given, and right or truth beside it: give one of them, and None for the others"
            )
        return one._replace(reward=check_reward(one.reward))
    if one.truth is None:
        if one.right is None:
            raise InputError("right is None, but must be True or False, or else there must be a reward or a truth")
        return one._replace(right=bool(one.right))
    truth, place = _known(one.truth, places)
    if place not in candidates:
        raise InputError(f"truth is {brief(truth)}, which is none of the candidates")
    if one.right is not None and bool(one.right) != (truth == label):
        raise InputError(f"truth is {brief(truth)} and {brief(label)} was shown, and yet right is {one.right}")
    return one._replace(right=truth == label, truth=truth)


def _probability(given: object) -> float:
    number = isinstance(given, int | float | np.floating) and not isinstance(given, bool)
    if not number or not 0.0 < float(given) <= 1.0 + ROUNDING:  # type: ignore[arg-type]
        raise InputError(
            f"the propensity is {brief(given)}, but must be a number above 0 and at most 1, or None if unknown"
        )
    return min(1.0, float(given))  # type: ignore[arg-type]


def _distribution(given: Any, places: Mapping[ClassName, int], candidates: Labels) -> NDArray[np.float64]:
    """The probability of every class, which is 0 for those that could not be shown."""
    classes = len(places)
    if isinstance(given, Mapping):
        named = {_known(name, places)[1]: chance for name, chance in given.items()}
        given = [named.get(place, 0.0) for place in range(classes)]
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("probabilities must be a list with the probability of every class") from None
    if found.shape != (classes,):
        raise InputError(
            f"probabilities has the shape {found.shape}, but there are {classes} classes: give 0 for one that could not be shown"
        )
    if not ((found >= 0.0) & (found <= 1.0 + ROUNDING)).all() or abs(found.sum() - 1.0) > ROUNDING * classes:
        raise InputError(f"probabilities must be from 0 to 1 and add up to 1; they add up to {found.sum():g}")
    outside = np.delete(found, candidates)
    if outside.any():
        raise InputError(
            f"a class that is none of the candidates has the probability {outside.max():g}, but must have 0"
        )
    return found


# --- training -------------------------------------------------------------------------------------------------------


def usual_floor(rule: Rule) -> float:
    """The exploration floor of a learner whose log is to be of use: the usual one where the rule can have it."""
    return 0.0 if rule.notes_the_label else USUAL_FLOOR


def train(learner: Learner, rounds: Iterable[Round], progress: Progress | None = None) -> int:
    """Train a learner on every round of a log, in order, each with its candidates; returns the number of rounds learnt.

    Side effect: the learner changes, also if a later round is refused.

    That is all of them, but for rules that can learn only from labels that they would have played themselves (Newtron): these pass
    over the others. A round that cannot be learnt raises an OnebitError with its number, and what came before it stays learnt: a log
    was checked when it was written, so such a round means that the learner does not fit the log, which a count would hide.

    >>> import onebit
    >>> learner = onebit.BPA(classes=["no", "yes"])
    >>> train(learner, [Round("a", [1.0, 0.0], "no", True, 0.5), Round("b", [0.0, 1.0], "no", False, 0.5)])
    2
    >>> train(learner, [Round("c", [1.0, 0.0], "maybe", True, 0.5)])
    Traceback (most recent call last):
        ...
    onebit.errors.InputError: round 1 of the log (id 'c'): there is no class 'maybe'; the classes are 'no', 'yes'
    """
    refuse_learner(learner)
    learnt = pending = 0
    for found in checked_rounds(learner, rounds):
        one = found.round
        try:
            if found.propensity is None:
                raise InputError(
                    "nobody knows with which probability its label was shown, and learners need that to learn"
                )
            learnt += learn_shown(learner, one, found.propensity, one.id)
        except OnebitError as error:
            raise located(found.number, one, error) from None
        pending += 1
        if progress is not None and pending == REPORT:
            progress(pending)
            pending = 0
    if progress is not None and pending:
        progress(pending)
    return learnt


def learn_shown(learner: Learner, one: Round, propensity: float, identity: int | str) -> bool:
    """Learn from a label that somebody else showed; whether this learner could."""
    # What such a rule keeps for learning belongs to its own label.
    if learner.runtime.rule.notes_the_label and learner.decide(one.x, identity, among=one.among).label != one.label:
        return False
    decision = learner.from_log(one.x, one.label, propensity, identity, among=one.among, complete=one.complete)
    learn_heard(learner, decision, one)
    return True


def learn_heard(learner: Learner, decision: Decision, one: Round) -> None:
    """Learn what a round says of its label: the truth, the reward, or the bit."""
    if one.truth is not None:
        learner.learn(decision, truth=one.truth)
    elif one.reward is not None:
        learner.learn(decision, reward=one.reward)
    else:
        learner.learn(decision, one.right)
