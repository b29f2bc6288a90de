"""What another learner would have scored on a log: one walk through it, four estimates, and what speaks against them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onebit.contract.draws import hash_id
from onebit.contract.validation import checked_seed, join_names
from onebit.errors import InputError, OnebitError, brief
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import doubts
from onebit.offpolicy.doubts import Caveat
from onebit.offpolicy.estimates import (
    Estimate,
    Replay,
    RoundBlock,
    Scores,
    Trust,
    counted,
    doubly_robust,
    effective_rounds,
    ips,
    joined,
    scored,
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

LARGEST_BLOCK = 10**6  # probabilities that are held at once

TITLES = {
    "log": "the log itself",
    "ips": "IPS",
    "snips": "self-normalised IPS",
    "doubly_robust": "doubly robust",
    "replay": "replay",
}


class Unit(NamedTuple):
    """How mean rewards are written: rates in percent where all are 0 or 1, else the numbers themselves."""

    name: str
    rest: str  # what is short of 1
    times: float
    digits: int

    def shown(self, value: float) -> str:
        """A mean reward in this unit."""
        return f"{self.times * value:.{self.digits}f}"

    def interval(self, one: Estimate) -> str:
        """The ends of its interval."""
        return f"{self.shown(one.low)} to {self.shown(one.high)}"


RATES = Unit("right %", "error %", 100.0, 2)
REWARDS = Unit("reward", "cost", 1.0, 4)


class Weights(NamedTuple):
    """How the learner's probabilities compare to the log's."""

    effective: float  # (sum w)^2 / sum w^2
    largest: float
    largest_share: float  # of the sum of all
    mean: float  # about 1 - missing, if propensities are what they say
    missing: float  # the share of the learner's probability on labels that the log could not show, as far as known


@dataclass(frozen=True)
class Evaluation:
    """What a learner would have scored on a log; `print` shows it as a table, with the warnings below.

    `ips`, `snips`, `doubly_robust` and `weights` are None where the log has no propensities. `log` is what the log itself scored,
    and `present` the evaluation of the learner to compare with, where one was given. `rewarded` says that some rewards are neither 0 nor 1: then
    the estimates are mean rewards, else right rates.
    """

    learner: str
    parameters: dict[str, Any]
    exploration_floor: float
    rounds: int
    learning: bool
    learnt: int  # rounds of the log that the learner could learn from
    unanswered: int  # decisions beside the rounds, of which nobody said whether they were right
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
        """How its estimates are written."""
        return REWARDS if self.rewarded else RATES

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """Those that there are, the log's own first."""
        found = (self.log, self.ips, self.snips, self.doubly_robust, self.replay)
        return tuple(one for one in found if one is not None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return {
            "learner": self.learner,
            "parameters": self.parameters,
            "exploration_floor": self.exploration_floor,
            "rounds": self.rounds,
            "learning": self.learning,
            "rewarded": self.rewarded,
            "learnt": self.learnt,
            "unanswered": self.unanswered,
            "estimates": {one.name: one.to_dict() for one in self.estimates},
            "weights": None if self.weights is None else self.weights._asdict(),
            "warnings": list(self.warnings),
            "present": None if self.present is None else self.present.to_dict(),
        }

    def __str__(self) -> str:
        both = [self] if self.present is None else [self, self.present]
        numbered = list(
            dict.fromkeys(sentence for one in both for sentence in one.warnings if sentence not in one._against_replay)
        )
        how = "learning from it round by round" if self.learning else "as it is, not learning"
        lines = [f"{self.title} on a log of {doubts.counted_rounds(self.rounds)}, {how}", _head(self.unit)]
        lines += [_line(self.log, self.unit, numbered), *self._lines(numbered)]
        if self.present is not None:
            lines += [f"the present learner, in the same way: {self.present.title}", *self.present._lines(numbered)]
        lines += [f"[{number}] {sentence}" for number, sentence in enumerate(numbered, start=1)]
        if self.present is not None:
            lines.append(_how_to_compare(self, self.present))
        return "\n".join(lines)

    @property
    def title(self) -> str:
        """The learner with its settings, for people."""
        settings = "".join(f", {name}={value}" for name, value in self.parameters.items())
        return f"{self.learner}{settings}, exploration_floor={self.exploration_floor:g}"

    @property
    def _against_replay(self) -> list[str]:
        """What speaks against replay alone, where there are other estimates: then these are shown, and it is not."""
        return [] if self.ips is None else [one for one in self.replay.warnings if one not in self.ips.warnings]

    def _lines(self, numbered: list[str]) -> list[str]:
        """What is said of the learner, a line each."""
        useless = self._against_replay
        return [
            *(_line(one, self.unit, numbered) for one in self.estimates[1:] if not (useless and one.name == "replay")),
            *useless,
        ]


def _how_to_compare(one: Evaluation, other: Evaluation) -> str:
    floors = (
        ""
        if one.exploration_floor == other.exploration_floor
        else " Their exploration floors differ, and what a floor costs is in every line."
    )
    return (
        "Compare the learners with each other, line by line, and not with the log itself, which holds what its own learners lost "
        f"by exploring and before they had learnt.{floors}"
    )


def _head(unit: Unit) -> str:
    return f"{'':<20} {unit.name:>8}  {'95 % interval':^16} {unit.rest:>8} {'says as much as':>18}"


def _line(one: Estimate, unit: Unit, numbered: list[str]) -> str:
    known = one.value == one.value
    value, rest = (unit.shown(one.value), unit.shown(one.error)) if known else ("unknown", "unknown")
    says = doubts.counted_rounds(round(one.effective))
    marks = "".join(f" [{numbered.index(sentence) + 1}]" for sentence in one.warnings)
    return f"{TITLES[one.name]:<20} {value:>8}  {unit.interval(one):^16} {rest:>8} {says:>18}{marks}"


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
    """What this learner would have scored on a log. The learner itself does not change.

    A copy goes through the log: in each round it is first asked for its probabilities, only of the candidates if the round has some, which are scored, and then learns from what was shown (with `learning=False` it stays as it was given). Another copy, for replay, draws decisions of its own and learns from those
    that match. `seed` decides these draws. Give a learner that has not learnt from these rounds before.
    `present` is a learner to compare with, say the one in use: it goes through the log in the same way, and the table has both.
    `unanswered` is how many decisions there were beside these rounds, of which nobody said whether they were right.

    >>> import onebit
    >>> log = [Round(n, [1.0, n % 2], "no" if n % 4 < 2 else "yes", n % 4 in (0, 3), 0.5, [0.5, 0.5]) for n in range(400)]
    >>> found = evaluate(onebit.LinUCB(classes=["no", "yes"]), log)
    >>> found.log.value, found.snips.value > 0.95, found.warnings
    (0.5, True, ())
    """
    compared = [learner] if present is None else [learner, present]
    for one in compared:
        require_bandit_learner(one)
        if one.classes != learner.classes:
            raise InputError(
                f"present has the classes {join_names(one.classes)}, but learner has {join_names(learner.classes)}"
            )
    first, *other = evaluate_many(
        compared, rounds, seed=seed, learning=learning, unanswered=unanswered, progress=progress
    )
    return replace(first, present=other[0] if other else None)


def evaluate_many(
    learners: Sequence[Learner],
    rounds: Iterable[Round],
    *,
    seed: int = 0,
    learning: bool = True,
    unanswered: int = 0,
    progress: Progress | None = None,
) -> list[Evaluation]:
    """`evaluate` for several learners in one pass through the log; each result is the same as on its own."""
    if not learners:
        raise InputError("there are no learners to evaluate")
    first = learners[0]
    for one in learners:
        require_bandit_learner(one)
        if one.classes != first.classes:
            raise InputError(
                f"one learner has the classes {join_names(one.classes)}, but another has {join_names(first.classes)}"
            )
    if isinstance(unanswered, bool) or not isinstance(unanswered, int | np.integer) or unanswered < 0:
        raise InputError(f"unanswered is {brief(unanswered)}, but must be a whole number of at least 0")
    walks = [_Walk(one, checked_seed(seed), learning) for one in learners]
    for found in check_rounds(first, rounds):
        try:
            done = max([walk.meet(found) for walk in walks])
        except OnebitError as error:
            raise locate_error(found.number, found.round, error) from None
        if done and progress is not None:
            progress(done)
    done = max([walk.close_block() for walk in walks])
    if done and progress is not None:
        progress(done)
    return [walk.evaluation(one, int(unanswered)) for one, walk in zip(learners, walks, strict=True)]


class _Walk:
    """The copies of a learner on their way through a log, and what they said."""

    def __init__(self, learner: Learner, seed: int, learning: bool) -> None:
        # The log may come from a learner with the same seed and ids, and the copies must not draw what it drew.
        own_seed = hash_id(f"offpolicy {seed}") >> 1
        self._follower, self._model, copy = (
            copy_learner(learner, own_seed),
            model_for(learner),
            copy_learner(learner, own_seed),
        )
        for one in (self._follower, self._model, copy):
            one.runtime.disable_ledger()  # rounds are counted here, and the learner may have learnt such numbers before
        self._replay = Replay(copy, learning, own_seed)
        self._learning = learning
        self._classes = len(learner.classes)
        self._unknown = np.full(self._classes, np.nan)
        self._room = max(1, min(REPORT, LARGEST_BLOCK // self._classes))
        self._open: list[tuple[Any, ...]] = []
        self._parts: list[Scores] = []
        self._trust = Trust()
        self._known: bool | None = None  # whether the log has propensities
        self._heard = doubts.Answers()
        self._shown = doubts.Shown.none(self._classes)
        self._learnt = self._choices = self._certain = 0  # choices: rounds with more than one candidate

    def meet(self, found: CheckedRound) -> int:
        """Score and learn one more round; where it fills a block, how many rounds that had."""
        one, propensity = found.round, found.propensity
        if self._known is None:
            self._known = propensity is not None
        if self._known != (propensity is not None):
            has, had = ("a", "no") if propensity is not None else ("no", "a")
            raise InputError(f"it has {has} propensity, and the rounds before it had {had}: give it in all, or in none")
        self._replay.follow(found)
        choice = len(found.candidates) > 1
        if propensity is not None:
            # What is right may be none of the candidates: then the model is asked for their chances among all classes.
            modelled = one if one.complete else one._replace(among=None)
            target = list(self._follower.probabilities(one.x, among=one.among).values())
            predicted = list(self._model.probabilities(one.x, among=modelled.among).values())
            logged = self._unknown if found.logged is None else found.logged
            offered = np.zeros(self._classes, dtype=np.bool_)
            offered[found.candidates] = True
            self._open.append((target, predicted, logged, found.place, found.reward, propensity, offered))
            learn_round(self._model, modelled, propensity, found.number)
            if self._learning:
                self._learnt += learn_round(self._follower, one, propensity, found.number)
            self._certain += choice and propensity >= 1.0
        else:
            self._open.append(())
            self._shown.add(found.place, found.candidates)
        self._choices += choice
        self._heard.add(found.reward)
        return self.close_block() if len(self._open) == self._room else 0

    def close_block(self) -> int:
        """Score the rounds that wait for it; how many they were."""
        count = len(self._open)
        if count and self._known:
            target, model, logged, places, reward, propensity, offered = zip(*self._open, strict=True)
            block = RoundBlock(
                np.array(target),
                np.array(model),
                np.array(logged),
                np.array(places, dtype=np.int64),
                np.array(reward),
                np.array(propensity),
                np.array(offered),
            )
            self._parts.append(scored(block, self._trust))
        self._open.clear()
        return count

    def evaluation(self, learner: Learner, unanswered: int) -> Evaluation:
        """What came of it."""
        heard, replay = self._heard, self._replay
        rounds = heard.count
        if rounds == 0:
            raise InputError("the log has no rounds, so it says nothing")
        weighed: list[Estimate] = []
        certain = 0 < self._choices == self._certain
        found = [
            *doubts.on_rounds(rounds),
            *doubts.on_answers(heard, unanswered),
            *doubts.on_choices(self._choices, rounds),
        ]
        weights = None
        if self._known:
            scores = joined(self._parts)
            weights = _weights(scores)
            weighed = [ips(scores), snips(scores), doubly_robust(scores)]
            found += doubts.on_weights(scores, certain)
            found += doubts.on_values(weighed, heard.rewarded)
            if self._learning:
                found += doubts.on_learning(learner.runtime.rule.title, self._learnt, rounds)
        else:
            found += doubts.on_unknown(self._shown, learner.classes)
        found += doubts.on_replay(replay.matches, rounds, replay.missing, certain, self._learning)
        log = counted("log", heard.rewards, heard.squares, rounds)
        named = {one.name: _doubted(one, found) for one in (log, *weighed, replay.estimate())}
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
            tuple(doubt.sentence for doubt in found),
            rewarded=heard.rewarded,
        )


def _doubted(one: Estimate, found: Sequence[Caveat]) -> Estimate:
    return one._replace(warnings=tuple(doubt.sentence for doubt in found if one.name in doubt.about))


def _weights(scores: Scores) -> Weights:
    total, largest = float(scores.weight.sum()), float(scores.weight.max())
    return Weights(
        effective_rounds(scores.weight),
        largest,
        largest / total if total > 0.0 else 0.0,
        float(scores.weight.mean()),
        float(scores.missing.mean()),
    )
