"""Replay: the rounds in which a learner would have shown the same label, taken for a run of its own.

Li, Chu, Langford and Wang, "Unbiased offline evaluation of contextual-bandit-based news article recommendation algorithms" (WSDM 2011):
where the log showed every label with the same probability, the rounds in which a copy of the learner draws the label that was
shown are what it would have met by itself, and it may learn from them.

A log that prefers some labels shows these too often among the matches. With known propensities a match is therefore kept with the
probability level / propensity only, where `level` is the smallest probability seen so far: then every label of the learner's is
kept equally often, whatever the log preferred, at the price of matches. A uniform log keeps them all. Labels below a hundredth of
an equal share would cost nearly all matches; they count as labels that could not be shown. The same makes rounds with few candidates,
in which a match is likely, no more frequent among those that are kept than they are in the log.
"""

from __future__ import annotations

import numpy as np

from onebit.learner import Learner
from onebit.offpolicy.estimates import Estimate, counted
from onebit.offpolicy.rounds import Checked
from onebit.offpolicy.training import learn_heard

RARE = 0.01  # of an equal share


class Replay:
    """A copy of a learner on its way through a log."""

    def __init__(self, learner: Learner, learning: bool, seed: int) -> None:
        self._learner, self._learning = learner, learning
        self._places = {name: place for place, name in enumerate(learner.classes)}
        self._level = 1.0
        self._chance = np.random.default_rng(seed)
        self.rounds = self.matches = self.impossible = 0
        self.rewards = self._squares = 0.0  # of the matches

    def follow(self, found: Checked) -> None:
        """Meet one more round."""
        one = found.round
        decision = self._learner.decide(one.x, found.number, among=one.among, complete=one.complete)
        self.rounds += 1
        self._lower_level(found)
        if not self._could_show(found, self._places[decision.label]):
            self.impossible += 1
        elif decision.label == one.label and self._keeps(shown_with(found)):
            self.matches += 1
            self.rewards += found.reward
            self._squares += found.reward**2
            if self._learning:
                learn_heard(self._learner, decision, one)

    @property
    def missing(self) -> float:
        """The share of the rounds in which the copy drew a label that the log could not show."""
        return self.impossible / max(1, self.rounds)

    def estimate(self) -> Estimate:
        """The mean reward of the matches."""
        return counted("replay", self.rewards, self._squares, self.matches, self.missing)

    def _lower_level(self, found: Checked) -> None:
        """Before the label is looked at, wherever the whole distribution is known: what is kept must not depend on it."""
        least = RARE / len(found.candidates)
        if found.logged is not None:
            self._level = min(self._level, float(found.logged[found.logged >= least].min()))
        else:
            self._level = min(self._level, max(least, shown_with(found)))

    def _could_show(self, found: Checked, place: int) -> bool:
        if found.logged is not None:
            return bool(found.logged[place] >= RARE / len(found.candidates))
        return shown_with(found) < 1.0 or place == found.place

    def _keeps(self, propensity: float) -> bool:
        return self._chance.random() * propensity < self._level


def shown_with(found: Checked) -> float:
    """The probability with which the label was shown; where nobody knows, each candidate is taken to be as likely."""
    return 1.0 / len(found.candidates) if found.propensity is None else found.propensity
