"""Offline evaluation of learners on a log: one pass, four estimates, and reasons not to trust them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.draws import hash_id
from onebit.contract.validation import checked_seed, join_names
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import doubts
from onebit.offpolicy.estimates import (
    Estimate,
    Replay,
    RoundBlock,
    Scores,
    Trust,
    Weights,
    doubly_robust,
    estimate_mean,
    ips,
    score_block,
    snips,
)
from onebit.offpolicy.logged_rounds import (
    REPORT,
    CheckedRound,
    Progress,
    Round,
    check_rounds,
    learn_round,
    locate_error,
    require_bandit_learner,
)
from onebit.offpolicy.rightness import model_for

LARGEST_BLOCK = 10**6  # probabilities held at once

TITLES = {
    "log": "the log itself",
    "ips": "IPS",
    "snips": "self-normalised IPS",
    "doubly_robust": "doubly robust",
    "replay": "replay",
}


class Unit(NamedTuple):
    """The unit of mean rewards: rates in percent if all rewards are 0 or 1, else plain numbers."""

    name: str
    rest: str  # the name of 1 minus the value
    times: float
    digits: int

    def format(self, value: float) -> str:
        """Return a mean reward in this unit."""
        return f"{self.times * value:.{self.digits}f}"

    def format_interval(self, estimate: Estimate) -> str:
        """Return the ends of an interval in this unit."""
        return f"{self.format(estimate.low)} to {self.format(estimate.high)}"


RATES = Unit("right %", "error %", 100.0, 2)
REWARDS = Unit("reward", "cost", 1.0, 4)


@dataclass(frozen=True)
class Evaluation:
    """The estimated performance of a learner on a log; `print` shows a table with warnings below.

    `ips`, `snips`, `doubly_robust` and `weights` are None if the log has no propensities. `log` is what the log itself
    scored, and `present` the evaluation of the learner to compare with, if one was given. `rewarded` says that some
    rewards are neither 0 nor 1: then the estimates are mean rewards, else right rates.
    """

    learner: str
    parameters: dict[str, Any]
    exploration_floor: float
    rounds: int
    learning: bool
    learnt: int  # rounds the learner could learn from
    unanswered: int  # decisions beside the rounds that got no answer
    log: Estimate
    ips: Estimate | None
    snips: Estimate | None
    doubly_robust: Estimate | None
    replay: Estimate
    weights: Weights | None
    warnings: tuple[str, ...]
    present: Evaluation | None = None
    rewarded: bool = False

    @property
    def unit(self) -> Unit:
        return REWARDS if self.rewarded else RATES

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The available estimates, starting with the log's own."""
        possible = (self.log, self.ips, self.snips, self.doubly_robust, self.replay)
        return tuple(estimate for estimate in possible if estimate is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "learner": self.learner,
            "parameters": self.parameters,
            "exploration_floor": self.exploration_floor,
            "rounds": self.rounds,
            "learning": self.learning,
            "rewarded": self.rewarded,
            "learnt": self.learnt,
            "unanswered": self.unanswered,
            "estimates": {estimate.name: estimate.to_dict() for estimate in self.estimates},
            "weights": None if self.weights is None else self.weights._asdict(),
            "warnings": list(self.warnings),
            "present": None if self.present is None else self.present.to_dict(),
        }

    def __str__(self) -> str:
        both = [self] if self.present is None else [self, self.present]
        numbered = list(
            dict.fromkeys(text for side in both for text in side.warnings if text not in side._against_replay)
        )
        how = "learning from it round by round" if self.learning else "as it is, not learning"
        lines = [f"{self.title} on a log of {doubts.counted_rounds(self.rounds)}, {how}"]
        lines += [f"{'':<20} {self.unit.name:>8}  {'95 % interval':^16} {self.unit.rest:>8} {'says as much as':>18}"]
        lines += [self._line(self.log, numbered), *self._lines(numbered)]
        if self.present is not None:
            lines += [f"the present learner, in the same way: {self.present.title}", *self.present._lines(numbered)]
        lines += [f"[{number}] {sentence}" for number, sentence in enumerate(numbered, start=1)]
        if self.present is not None:
            lines.append(
                "Compare the learners with each other, line by line, and not with the log itself, which includes what its own learners "
                "lost by exploring and before they had learnt."
            )
            if self.exploration_floor != self.present.exploration_floor:
                lines[-1] += " Their exploration floors differ, and every line includes the cost of a floor."
        return "\n".join(lines)

    @property
    def title(self) -> str:
        """The learner with its settings, for display."""
        settings = "".join(f", {name}={value}" for name, value in self.parameters.items())
        return f"{self.learner}{settings}, exploration_floor={self.exploration_floor:g}"

    @property
    def _against_replay(self) -> list[str]:
        """The warnings about replay alone; if there are any beside other estimates, replay is not shown."""
        return [] if self.ips is None else [text for text in self.replay.warnings if text not in self.ips.warnings]

    def _lines(self, numbered: list[str]) -> list[str]:
        """Return the lines of the estimates, and the warnings about replay if it is not shown."""
        useless = self._against_replay
        estimates = [estimate for estimate in self.estimates[1:] if not (useless and estimate.name == "replay")]
        return [*(self._line(estimate, numbered) for estimate in estimates), *useless]

    def _line(self, estimate: Estimate, numbered: list[str]) -> str:
        value = error = "unknown"
        if not math.isnan(estimate.value):
            value, error = self.unit.format(estimate.value), self.unit.format(estimate.error)
        size = doubts.counted_rounds(round(estimate.effective))
        marks = "".join(f" [{numbered.index(sentence) + 1}]" for sentence in estimate.warnings)
        interval = self.unit.format_interval(estimate)
        return f"{TITLES[estimate.name]:<20} {value:>8}  {interval:^16} {error:>8} {size:>18}{marks}"


def evaluate(
    learner: Learner,
    rounds: Iterable[Round],
    *,
    present: Learner | None = None,
    seed: int = 0,
    learning: bool = True,
    unanswered: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate how this learner would have scored on a log, without changing the learner.

    A copy goes through the log: in each round its probabilities are scored first, those of the candidates only if the
    round has some, and then it learns from what was shown (with `learning=False` it stays as it was given). Another
    copy, for replay, draws decisions of its own and learns from those that match. `seed` determines these draws. Give a
    learner that has not learnt from these rounds before. `present` is a learner to compare with, say the one in use: it
    goes through the log in the same way, and the table shows both. `unanswered` is the number of decisions beside these
    rounds for which nobody said whether they were right.

    >>> import onebit
    >>> log = [Round(n, [1.0, n % 2], "no" if n % 4 < 2 else "yes", n % 4 in (0, 3), 0.5, [0.5, 0.5]) for n in range(400)]
    >>> found = evaluate(onebit.LinUCB(classes=["no", "yes"]), log)
    >>> found.log.value, found.snips.value > 0.95, found.warnings
    (0.5, True, ())
    """
    learners = {"learner": learner} if present is None else {"learner": learner, "present": present}
    first, *more = _evaluate(learners, rounds, seed, learning, unanswered, progress)
    return replace(first, present=more[0] if more else None)


def evaluate_many(
    learners: Sequence[Learner],
    rounds: Iterable[Round],
    *,
    seed: int = 0,
    learning: bool = True,
    unanswered: int = 0,
    progress: Progress | None = None,
) -> list[Evaluation]:
    """Evaluate several learners in one pass through the log; each result is the same as from `evaluate`."""
    if not learners:
        raise InputError("there are no learners to evaluate")
    named = {f"learner {number}": learner for number, learner in enumerate(learners, start=1)}
    return _evaluate(named, rounds, seed, learning, unanswered, progress)


def _evaluate(
    learners: Mapping[str, Learner],
    rounds: Iterable[Round],
    seed: int,
    learning: bool,
    unanswered: int,
    progress: Progress | None,
) -> list[Evaluation]:
    (first_name, first), *_ = learners.items()
    for name, learner in learners.items():
        require_bandit_learner(learner)
        if learner.classes != first.classes:
            raise InputError(
                f"{name} has the classes {join_names(learner.classes)}, but {first_name} has {join_names(first.classes)}"
            )
    if isinstance(unanswered, bool) or not isinstance(unanswered, int | np.integer) or unanswered < 0:
        raise InputError(f"unanswered is {brief(unanswered)}, but must be a whole number of at least 0")
    walks = [_LogWalk(learner, checked_seed(seed), learning) for learner in learners.values()]
    for checked in check_rounds(first, rounds, progress):
        try:
            for walk in walks:
                walk.add_round(checked)
        except OnebitError as error:
            raise locate_error(checked.number, checked.round, error) from None
    return [walk.evaluation(learner, int(unanswered)) for learner, walk in zip(learners.values(), walks, strict=True)]


class _LogWalk:
    """The copies of a learner that go through a log, and the scores collected on the way."""

    def __init__(self, learner: Learner, seed: int, learning: bool) -> None:
        # The log may come from a learner with the same seed and ids, whose draws the copies must not repeat.
        own_seed = hash_id(f"offpolicy {seed}") >> 1
        self._follower, replaying = copy_learner(learner, own_seed), copy_learner(learner, own_seed)
        self._model = model_for(learner)
        for copy in (self._follower, replaying, self._model):
            copy.runtime.disable_ledger()  # the learner may have learnt the numbers of rounds as ids before
        self._replay = Replay(replaying, learning, own_seed)
        self._learning, self._classes = learning, len(learner.classes)
        self._block_rounds = max(1, min(REPORT, LARGEST_BLOCK // self._classes))
        self._block: list[tuple[Any, ...]] = []  # rounds as in a `RoundBlock`; none if the log has no propensities
        self._parts: list[Scores] = []
        self._trust = Trust()
        self._has_propensities: bool | None = None
        self._answers = doubts.AnswerSums()
        self._shown_counts = doubts.ShownCounts.zeros(self._classes)
        self._learnt = self._choices = self._certain = 0  # choices: rounds with more than one candidate

    def add_round(self, checked: CheckedRound) -> None:
        """Score and learn one more round."""
        round_, propensity = checked.round, checked.propensity
        if self._has_propensities is None:
            self._has_propensities = propensity is not None
        if self._has_propensities != (propensity is not None):
            has, had = ("a", "none") if propensity is not None else ("no", "one")
            raise InputError(
                f"it has {has} propensity, but the rounds before it have {had}: give it in all rounds or in none"
            )
        self._replay.follow(checked)
        is_choice = len(checked.candidates) > 1
        if propensity is not None:
            # The right class may not be a candidate; then ask the model for probabilities among all classes.
            modelled = round_ if round_.complete else round_._replace(among=None)
            offered = np.zeros(self._classes, dtype=np.bool_)
            offered[checked.candidates] = True
            logged = np.full(self._classes, np.nan) if checked.logged is None else checked.logged
            target = [*self._follower.probabilities(round_.x, among=round_.among).values()]
            model = [*self._model.probabilities(round_.x, among=modelled.among).values()]
            self._block.append((target, model, logged, checked.place, checked.reward, propensity, offered))
            if len(self._block) == self._block_rounds:
                self._score_rounds()
            learn_round(self._model, modelled, propensity, checked.number)
            if self._learning:
                self._learnt += learn_round(self._follower, round_, propensity, checked.number)
            self._certain += is_choice and propensity >= 1.0
        else:
            self._shown_counts.add(checked.place, checked.candidates)
        self._choices += is_choice
        self._answers.add(checked.reward)

    def _score_rounds(self) -> None:
        """Score the rounds of the current block."""
        block = RoundBlock(*map(np.array, zip(*self._block, strict=True)))
        self._parts.append(score_block(block, self._trust))
        self._block.clear()

    def evaluation(self, learner: Learner, unanswered: int) -> Evaluation:
        """Return the estimates and the warnings about them."""
        answers, replay = self._answers, self._replay
        rounds = answers.count
        if rounds == 0:
            raise InputError("the log has no rounds to evaluate on")
        weighed: list[Estimate] = []
        certain = 0 < self._choices == self._certain
        caveats = [
            *doubts.on_rounds(rounds),
            *doubts.on_answers(answers, unanswered),
            *doubts.on_choices(self._choices, rounds),
        ]
        weights = None
        if self._has_propensities:
            if self._block:
                self._score_rounds()
            scores = Scores(*map(np.concatenate, zip(*self._parts, strict=True)))
            weights = Weights.of(scores)
            weighed = [ips(scores), snips(scores), doubly_robust(scores)]
            caveats += doubts.on_weights(scores, weights, certain)
            caveats += doubts.on_values(weighed, answers.rewarded)
            if self._learning:
                caveats += doubts.on_learning(learner.runtime.rule.title, self._learnt, rounds)
        else:
            caveats += doubts.on_unknown(self._shown_counts, learner.classes)
        caveats += doubts.on_replay(replay.matches, rounds, replay.missing, certain, self._learning)
        log = estimate_mean("log", answers.rewards, answers.squares, rounds)
        named = {
            estimate.name: estimate._replace(
                warnings=tuple(caveat.sentence for caveat in caveats if estimate.name in caveat.about)
            )
            for estimate in (log, *weighed, replay.estimate())
        }
        return Evaluation(
            learner.runtime.rule.name,
            learner.runtime.parameters,
            learner.runtime.options.exploration_floor,
            rounds,
            self._learning,
            self._learnt,
            unanswered,
            named["log"],
            named.get("ips"),
            named.get("snips"),
            named.get("doubly_robust"),
            named["replay"],
            weights,
            tuple(caveat.sentence for caveat in caveats),
            rewarded=answers.rewarded,
        )
