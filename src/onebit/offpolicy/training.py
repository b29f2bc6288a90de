"""Training a learner from the log of another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onebit.contract.rule import Rule
from onebit.decision import Decision
from onebit.errors import InputError, OnebitError
from onebit.learner import Learner
from onebit.offpolicy.rounds import Round, checked_rounds, located, refuse_learner

REPORT = 1000  # progress is told after so many rounds

USUAL_FLOOR = 0.05  # what a log needs to be evaluated, and what exploring costs

Progress = Callable[[int], None]  # told how many rounds have been done since the last call


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
