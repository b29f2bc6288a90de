"""Reasons, in plain sentences, not to trust an off-policy estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.candidates import Labels
from onebit.contract.validation import ClassName
from onebit.offpolicy.estimates import RARE, Estimate, Scores, Weights

FEW = 100  # fewer rounds, effective rounds or matches are too few
NEARLY = 0.9  # share of the rounds that counts as nearly all
NOTABLE = 0.01  # share of the learner's probability on labels that could not be shown
DOMINANT = 0.05  # share of all weight that one round may carry, or twice an equal share if rounds are few
UNHEARD = 0.05  # share of the decisions that may lack an answer; some are always pending
ENOUGH = 0.4  # share of the rounds that replay should keep; with two classes it keeps half
UNLIKELY = 4.0  # standard deviations

WEIGHED = ("ips", "snips", "doubly_robust")
MATCHED = ("replay",)
ALL = ("log", *WEIGHED, *MATCHED)


class Caveat(NamedTuple):
    """A warning, and the names of the estimates that it is about."""

    about: tuple[str, ...]
    sentence: str


@dataclass
class AnswerSums:
    """Running sums over the answers in a log."""

    count: int = 0
    rewards: float = 0.0
    squares: float = 0.0
    least: float = 1.0
    most: float = 0.0
    rewarded: bool = False  # True if some reward is neither 0 nor 1

    def add(self, reward: float) -> None:
        self.count += 1
        self.rewards += reward
        self.squares += reward * reward
        self.least, self.most = min(self.least, reward), max(self.most, reward)
        self.rewarded = self.rewarded or 0.0 < reward < 1.0


class ShownCounts(NamedTuple):
    """How often each class was shown, and mean and variance of that if all candidates were equally likely."""

    counts: NDArray[np.float64]
    expected: NDArray[np.float64]
    variance: NDArray[np.float64]

    @classmethod
    def zeros(cls, classes: int) -> ShownCounts:
        return cls(*np.zeros((3, classes)))

    def add(self, place: int, candidates: Labels) -> None:
        equal = 1.0 / len(candidates)
        self.counts[place] += 1.0
        self.expected[candidates] += equal
        self.variance[candidates] += equal * (1.0 - equal)


def on_rounds(rounds: int) -> Iterator[Caveat]:
    """Yield a caveat if there are too few rounds."""
    if rounds < FEW:
        yield Caveat(
            ALL,
            f"There {'is' if rounds == 1 else 'are'} only {counted_rounds(rounds)}: nothing can be said with any precision.",
        )


def on_answers(answers: AnswerSums, unanswered: int) -> Iterator[Caveat]:
    """Yield caveats if many answers are missing, or all are the same.

    People who answer only when they are satisfied say nothing about the others.
    """
    rounds = answers.count
    decisions = rounds + unanswered
    if unanswered > UNHEARD * decisions:
        yield Caveat(
            ALL,
            f"{unanswered:,} of {decisions:,} decisions were answered too late or never: the estimates are about the others "
            "only; give the task a deadline and say what no answer means.",
        )
    if rounds > 1 and answers.least == answers.most:
        if answers.rewarded:
            extreme, opposite = f"{answers.least:g}", "more and less"
        else:
            extreme, opposite = ("right", "wrong") if answers.most else ("wrong", "right")
        yield Caveat(
            ALL,
            f"All {rounds:,} answers say {extreme}: make sure that {opposite} is reported too, or none of this can be trusted.",
        )


def on_choices(choices: int, rounds: int) -> Iterator[Caveat]:
    """Yield a caveat if no round left a choice."""
    if choices == 0:
        yield Caveat(
            ALL,
            f"There was one candidate in each of the {rounds:,} rounds: every learner scores the same on this log.",
        )


def on_weights(scores: Scores, weights: Weights, certain_log: bool) -> Iterator[Caveat]:
    """Yield caveats about weights that make the weighted estimates imprecise."""
    rounds, missing = len(scores.weight), weights.missing
    if certain_log:
        yield Caveat(
            (*WEIGHED, *MATCHED),
            "The log showed every label with probability 1 and never tried another: it says nothing about "
            f"{percent(missing)} of what this learner would have shown.",
        )
    elif missing > NOTABLE:
        yield Caveat(
            WEIGHED,
            f"{percent(missing)} of this learner's probability is on labels that the log could never have shown: they may be all "
            "right or all wrong, and the intervals allow for both.",
        )
    if scores.effective < min(FEW, NEARLY * rounds):
        yield Caveat(
            WEIGHED,
            f"This learner and the log differ so much that {counted_rounds(rounds)} say as much as {scores.effective:.0f} of the "
            f"learner's own; below {FEW}, intervals are rough.",
        )
    if weights.largest_share > max(DOMINANT, 2.0 / rounds) and scores.effective > 0.0:
        yield Caveat(
            WEIGHED,
            f"One round alone carries {percent(weights.largest_share)} of all weight: this learner would have shown its label "
            f"{weights.largest:,.{0 if weights.largest >= FEW else 1}f} times as often as the log.",
        )
    # If the propensities are correct, the mean weight is close to the share that the log could show.
    wanted = 1.0 - missing
    squares = max(float(scores.squares.sum()), float(np.square(scores.weight).sum()))
    deviation = math.sqrt(max(0.0, squares - rounds * wanted * wanted)) / rounds
    if abs(weights.mean - wanted) > UNLIKELY * deviation + 1e-6:
        yield Caveat(
            WEIGHED,
            f"The weights average {weights.mean:.3g}, where {wanted:.3g} is expected: the propensities are not those with which the labels "
            "were drawn, or there are labels that the log could not show.",
        )


def on_values(estimates: Sequence[Estimate], rewarded: bool) -> Iterator[Caveat]:
    """Yield a caveat for each impossible right rate or mean reward."""
    for estimate in estimates:
        if estimate.value < 0.0 or estimate.value > 1.0:
            value = f"mean reward of {estimate.value:.3g}" if rewarded else f"right rate of {percent(estimate.value)}"
            yield Caveat(
                (estimate.name,),
                f"A {value} is impossible: this estimate, and the end of its interval on that side, are not limited "
                f"to 0 to {'1' if rewarded else '100 %'}, and too few rounds support them.",
            )


def on_replay(matches: int, rounds: int, missing: float, certain_log: bool, learning: bool) -> Iterator[Caveat]:
    """Yield a caveat if replay has too few matches."""
    reasons = []
    if missing > NOTABLE and not certain_log:
        reasons.append(
            f"in {percent(missing)} of the rounds this learner drew a label that the log could not show (or did with less than "
            f"{percent(RARE)} of an equal share)"
        )
    if matches < ENOUGH * rounds and (learning or matches < FEW):
        matched = f"only {matches:,} of the {rounds:,} rounds" if matches else "no round"
        loss = ", and from all of them it would have learnt more" if learning and matches else ""
        reasons.append(f"{matched} could be kept as this learner's own{loss}")
    if reasons:
        yield Caveat(MATCHED, f"Replay is of no use here: {'; '.join(reasons)}.")


def on_unknown(shown_counts: ShownCounts, classes: Sequence[ClassName]) -> Iterator[Caveat]:
    """Yield a caveat about unknown propensities."""
    above = shown_counts.counts - shown_counts.expected
    most = int(above.argmax())
    sentence = (
        "The log has no propensities, so only replay is possible, and it assumes that every label was shown with the same "
        "probability, whatever x was."
    )
    if above[most] > UNLIKELY * math.sqrt(shown_counts.variance[most]) + 1e-6:
        share = shown_counts.counts[most] / shown_counts.counts.sum()
        sentence += f" That was not so: {classes[most]!r} was shown in {percent(share)} of the rounds."
    yield Caveat(MATCHED, sentence)


def on_learning(title: str, learnt: int, rounds: int) -> Iterator[Caveat]:
    """Yield a caveat if the rule could not learn from every label."""
    if learnt < rounds:
        yield Caveat(
            WEIGHED,
            f"{title} could learn from {learnt:,} of {counted_rounds(rounds)} only, those whose label it drew itself: in use "
            "it would learn from all.",
        )


def counted_rounds(count: int) -> str:
    """Return the number of rounds with the right noun: "1 round", "2 rounds"."""
    return "1 round" if count == 1 else f"{count:,} rounds"


def percent(share: float) -> str:
    """Return a share as a percentage with three significant digits.

    >>> percent(0.25), percent(0.001), percent(1.0)
    ('25 %', '0.1 %', '100 %')
    """
    return f"{100.0 * share:.3g} %"
