"""A round of a log: what was shown for x, with which probability, and whether it was right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.errors import InputError, OnebitError, brief
from onebit.learner import Learner
from onebit.validation import ClassName, listed

ROUNDING = 1e-6  # what logged probabilities may be off by


class Round(NamedTuple):
    """What was shown for one x, and whether it was right.

    `propensity` is the probability with which `label` was shown, None where nobody knows. `probabilities` are those of all classes,
    in the order of the learner's `classes`, None where only that of the label is known.
    """

    id: int | str
    x: Any
    label: ClassName
    right: bool
    propensity: float | None
    probabilities: Sequence[float] | NDArray[np.float64] | None = None


class Checked(NamedTuple):
    """A round that can be used: its number, from 1 on, the place of its label, and all probabilities where they are known."""

    number: int
    round: Round
    place: int
    propensity: float | None
    logged: NDArray[np.float64] | None


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
    label = one.label.item() if isinstance(one.label, np.generic) else one.label
    place = None if isinstance(label, bool) or not isinstance(label, str | int) else places.get(label)
    if place is None:
        raise InputError(f"there is no class {brief(label)}; the classes are {listed(places)}")
    if not isinstance(one.right, bool | np.bool_):
        raise InputError(f"right is {brief(one.right)}, but must be True or False")
    logged = None if one.probabilities is None else _distribution(one.probabilities, len(places))
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
    return Checked(number, one._replace(label=label, right=bool(one.right)), place, propensity, logged)


def _probability(given: object) -> float:
    number = isinstance(given, int | float | np.floating) and not isinstance(given, bool)
    if not number or not 0.0 < float(given) <= 1.0 + ROUNDING:  # type: ignore[arg-type]
        raise InputError(
            f"the propensity is {brief(given)}, but must be a number above 0 and at most 1, or None if unknown"
        )
    return min(1.0, float(given))  # type: ignore[arg-type]


def _distribution(given: object, classes: int) -> NDArray[np.float64]:
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
    return found
