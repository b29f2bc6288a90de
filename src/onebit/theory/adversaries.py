"""`onebit.theory.adversary`: lower bounds on mistakes as adversaries that play against a learner.

The bounds are those of the thesis (Prompak 2017, after Beygelzimer et al. 2019). An adversary has M rows of length R that are orthogonal but
for a constant part, so that what is learnt of one says nothing of the next, and so that every labelling of them is separable with the
margin. Each row comes in a block of rounds: one round if the class is revealed after each round (full information), K - 1 rounds if only
right or wrong is told (bandit feedback). With rho = R/margin

    weakly separable     M = floor(rho^2):                 rows R e_j,          w_k = sum of e_j with y_j = k, over sqrt(M)
    strongly separable   M = floor((rho - sqrt(K)/2)^2):   rows (R' e_j, h),    w_k = (margin/R' sum of e_j with y_j = k, -margin/(2 h))

The adaptive adversary answers "wrong" to whatever is played, and the class of a block is one that was not played in it: every round is a
mistake, of any learner with any luck. The oblivious one draws the class of every block beforehand, uniformly, and forces in expectation,
again of any learner, M (1 - 1/K) mistakes with full information and M (K - 1)/2 with bandit feedback. The page on theory has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import Rule
from onebit.contract.validation import MAX_RUNS, ClassName, checked_count, checked_seed
from onebit.data.dataset import Dataset
from onebit.data.sources import Source
from onebit.data.streams import Stream, stream
from onebit.errors import InputError, brief, nearest
from onebit.experiments.run import run
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.experiments.trials import ComparisonEntry, make_entry
from onebit.experiments.trials.shared_data import Tables
from onebit.learner.learner import Learner

FEEDBACKS = ("full", "bandit")
KINDS = ("weak", "strong")
MOST_VALUES = 20_000_000  # most values in all rows together

RUNS = 20
SURE_LEVEL = 0.999


@dataclass(frozen=True)
class Adversary:
    """An adversary with K classes for one kind of feedback; `ratio` is R/margin, with R = 1."""

    feedback: Literal["full", "bandit"]
    kind: Literal["weak", "strong"]
    classes: int
    ratio: float

    def __post_init__(self) -> None:
        for name, value, known in (("feedback", self.feedback, FEEDBACKS), ("kind", self.kind, KINDS)):
            if value not in known:
                raise InputError(f"there is no {name} {brief(value)}; {nearest(str(value), known)}")
        if checked_count("classes", self.classes) < 2:
            raise InputError(f"classes is {self.classes}, but must be at least 2")
        least = 1.0 if self.kind == "weak" else 1.0 + math.sqrt(self.classes) / 2.0
        if not (isinstance(self.ratio, int | float) and least * (1.0 - 1e-12) <= self.ratio < math.inf):
            raise InputError(
                f"ratio is {brief(self.ratio)}, but R/margin must be at least {least:.4g} for an adversary of {self.classes} "
                f"classes that are {self.kind}ly separable"
            )
        if self.blocks * self.features * self.length > MOST_VALUES:
            raise InputError(
                f"with ratio {self.ratio:g} and {self.classes} classes there would be {self.rounds:,} rows of {self.features:,} "
                "values, which is too many: give a smaller ratio"
            )

    @property
    def margin(self) -> float:
        """The margin with which every labelling is separable, for rows of length 1."""
        return 1.0 / self.ratio

    @property
    def blocks(self) -> int:
        """M, the number of distinct rows."""
        room = self.ratio if self.kind == "weak" else self.ratio - math.sqrt(self.classes) / 2.0
        return math.floor(room * room * (1.0 + 1e-12))  # so that (1/0.1)^2 gives 100

    @property
    def length(self) -> int:
        """The number of rounds in a block, in each of which the same row is shown."""
        return 1 if self.feedback == "full" else self.classes - 1

    @property
    def rounds(self) -> int:
        """The number of rounds; the adaptive adversary forces a mistake in each of them."""
        return self.blocks * self.length

    @property
    def features(self) -> int:
        """The number of features of a row."""
        return self.blocks + (self.kind == "strong")

    @property
    def expected(self) -> float:
        """The expected number of mistakes that the oblivious adversary forces at least."""
        return self.blocks * (self.classes - 1) / (self.classes if self.feedback == "full" else 2)

    @property
    def published(self) -> float:
        """The bound in the thesis: floor(rho^2)/2 with full information, else the order K rho^2.

        For bandit feedback the thesis gives no constant.
        """
        squared = self.ratio * self.ratio * (1.0 + 1e-12)
        return math.floor(squared) / 2.0 if self.feedback == "full" else self.classes * squared

    @cached_property
    def _parts(self) -> tuple[float, float]:
        """R' and h of a row, with squares that sum to 1, chosen to make the class vectors shortest."""
        if self.kind == "weak":
            return 1.0, 0.0
        own, constant = math.sqrt(self.blocks), math.sqrt(self.classes) / 2.0
        return math.sqrt(own / (own + constant)), math.sqrt(constant / (own + constant))

    def rows(self) -> NDArray[np.float64]:
        own, constant = self._parts
        rows = own * np.eye(self.blocks)
        return rows if self.kind == "weak" else np.column_stack([rows, np.full(self.blocks, constant)])

    def vectors(self, labels: Sequence[int]) -> NDArray[np.float64]:
        """Return one vector per class; together they separate rows with these labels.

        Their squared lengths sum to 1 at most.
        """
        own = np.asarray(labels)[None, :] == np.arange(self.classes)[:, None]
        if self.kind == "weak":
            return np.asarray(own / math.sqrt(self.blocks), dtype=np.float64)
        part, constant = self._parts
        return np.column_stack([own * (self.margin / part), np.full(self.classes, -self.margin / (2.0 * constant))])

    def certified_margin(self, labels: Sequence[int]) -> float:
        """Recompute the margin of rows with these labels from `vectors`.

        It is at least `margin`, up to rounding.
        """
        vectors, chosen = self.vectors(labels), np.asarray(labels)
        vectors = vectors / max(1.0, float(np.linalg.norm(vectors)))
        scores = self.rows() @ vectors.T
        own = scores[np.arange(self.blocks), chosen]
        scores[np.arange(self.blocks), chosen] = -np.inf
        rivals = scores.max(axis=1)
        return float((own - rivals).min() if self.kind == "weak" else 2.0 * min(own.min(), -rivals.max()))

    # --- oblivious: a stream ------------------------------------------------------------------------------------------------

    def stream(self) -> Stream:
        """Return the rounds of the oblivious adversary as a stream; each seed draws other classes."""
        return stream(Source(f"adversary-{self.feedback}-{self.kind}", False, self.rounds, self._draw, self._describe))

    def _draw(self, total: int, seed: int) -> Dataset:
        labels = np.random.default_rng([23, seed]).integers(self.classes, size=self.blocks)
        block = np.arange(total) // self.length % self.blocks
        return Dataset(self.rows().astype(np.float32)[block], labels[block], tuple(range(self.classes)))

    def _describe(self) -> dict[str, Any]:
        return {"classes": self.classes, "ratio": self.ratio}

    # --- adaptive: answers what is played ----------------------------------------------------------------------------------

    def play(self, learner: Learner) -> Game:
        """Play adaptively against a learner with the classes 0, 1, ... that has learnt nothing."""
        if self.feedback == "bandit" and learner.runtime.needs_labels:
            raise InputError(
                f"{learner.runtime.rule.name} needs full information, but this adversary gives bandit feedback"
            )
        plays, labels = [], []
        for x in self.rows().astype(np.float32):
            tried: list[ClassName] = []
            for _ in range(self.length):
                decision = learner.decide(x)
                tried.append(decision.label)
                if learner.runtime.needs_labels:
                    learner.learn(decision, label=self._untried(tried))
                else:
                    learner.learn(decision, right=False)
            plays.append(tried)
            labels.append(self._untried(tried))
        return Game(plays, labels)

    def _untried(self, tried: Sequence[ClassName]) -> int:
        return next(label for label in range(self.classes) if label not in tried)


@dataclass(frozen=True)
class Game:
    """The labels played in each block, and the class that the adversary chose for it in the end."""

    plays: list[list[ClassName]]
    labels: list[int]

    @property
    def mistakes(self) -> int:
        return sum(label != answer for block, answer in zip(self.plays, self.labels, strict=True) for label in block)


def make_learner(entry: ComparisonEntry, data_stream: Stream, seed: int) -> Learner:
    """Return the learner of a trial before its first round."""
    tables = Tables(data_stream.data(seed))
    return entry.make_learner(data_stream, tables.data, seed, tables.longest_squared)


@dataclass(frozen=True)
class Forced:
    """The mistakes that an adversary forced in each run, and the smallest margin of its labels."""

    adversary: Adversary
    rule: str
    adaptive: tuple[int, ...]
    oblivious: tuple[int, ...]
    margin: float = field(repr=False)

    @property
    def mean(self) -> MeanEstimate:
        """The mean number of mistakes against the oblivious adversary, with its interval."""
        return estimate(np.array(self.oblivious, dtype=np.float64))

    @property
    def held(self) -> bool:
        """True if both lower bounds hold.

        The bound in expectation holds if the 99.9 % interval of the mean reaches up to it: a learner that meets the bound with equality stays below
        it in half of all cases, with this interval in one of 2,000.
        """
        mean = estimate(np.array(self.oblivious, dtype=np.float64), SURE_LEVEL)
        separable = self.margin >= self.adversary.margin * (1.0 - 1e-9)
        highest = mean.mean if math.isnan(mean.high) else mean.high
        certain = min(self.adaptive) == self.adversary.rounds
        return separable and certain and highest >= self.adversary.expected * (1.0 - 1e-9)


def adversary(
    rule: str | Rule,
    *,
    feedback: Literal["full", "bandit"] | None = None,
    kind: Literal["weak", "strong"] = "weak",
    classes: int = 4,
    ratio: float = 4.0,
    runs: int = RUNS,
    seed: int = 0,
    **options: Any,
) -> Forced:
    """Play an adaptive and an oblivious adversary against a learner.

    The adaptive one sees what is played, the oblivious one fixes all classes beforehand. `feedback` chooses the lower bound, by default the one
    for the feedback that the learner gets. `ratio` is R/margin.

    >>> from onebit.theory import adversary
    >>> forced = adversary("banditron", classes=3, ratio=4.0, runs=5)
    >>> forced.adversary.rounds, forced.adaptive, forced.held
    (32, (32, 32, 32, 32, 32), True)
    """
    checked_count("runs", runs, MAX_RUNS)
    first = checked_seed(seed)
    entry = make_entry(rule, options)
    opponent = Adversary(feedback or "full", kind, classes, ratio)
    if feedback is None and not make_learner(entry, opponent.stream(), first).runtime.needs_labels:
        opponent = replace(opponent, feedback="bandit")
    data_stream = opponent.stream()
    games = [opponent.play(make_learner(entry, data_stream, first + number)) for number in range(runs)]
    result = run(entry.rule, data_stream, runs=runs, seed=first, **options)
    return Forced(
        opponent,
        entry.rule.name,
        tuple(game.mistakes for game in games),
        tuple(round(error * opponent.rounds) for error in result.errors.tolist()),
        min(opponent.certified_margin(game.labels) for game in games),
    )
