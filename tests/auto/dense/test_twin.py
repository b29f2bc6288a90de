"""Auto on dense rows against its slow twin, round by round: what is played, what members believe, have lost and are bounded by.

Twin and product agree until rounding makes another class the best: where the best two hopes differ by less than `NEAR_TIE`, the twin takes what the product
has played and goes on. The more rounds that happens in, the less a comparison says: more than `MOST_TIES` of them fail it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onebit.auto.dense import scoring
from onebit.auto.dense.mixture import BASED, MISTAKES, ROUNDS
from onebit.auto.dense.scoring import SQUARED_SLOPES, TRUST
from onebit.auto.dense.views import COSINE
from onebit.learner.learner import Learner
from tests.auto.streams import Array, gaussians
from tests.every_rule.cases import SEED, assert_equals_its_oracle_among, chosen_among
from tests.oracles.auto import LINEAR, MEMBERS, Oracle
from tests.oracles.base import Decided
from tests.oracles.draws import draws

FEW = 24  # waves, where their number is of no account: everything that is done with them takes the square of it
NEAR_TIE = {"float64": 1e-8, "float32": 1e-3}
MOST_TIES = 0.01  # of all rounds
CLOSE = {"float64": 1e-7, "float32": 1e-3}  # beliefs; losses and bounds are to be as close, of what they are or of one


class Pair:
    """A learner and its twin, which are asked and told the same."""

    def __init__(
        self, classes: int, features: int, monkeypatch: pytest.MonkeyPatch, dtype: str = "float64", waves: int = FEW
    ) -> None:
        monkeypatch.setattr(scoring, "MOST_WAVES", waves)
        self.learner = Learner("auto", classes=classes, features=features, space="dense", dtype=dtype, seed=SEED)
        self.oracle = Oracle(classes, features, SEED, np.dtype(dtype).type)
        self.oracle.accompany(self.learner)
        self.dtype, self.rounds, self.ties = dtype, 0, 0
        self.slept: set[str] = set()

    @property
    def space(self) -> Any:
        return self.learner.runtime.model.space

    def decide(self, x: Array, among: list[int] | None = None, complete: bool = False) -> tuple[Any, Decided]:
        """What both play, and what their members believe."""
        oracle, classes = self.oracle, range(self.oracle.K)
        decision = self.learner.decide(x, among=among, complete=complete)
        where, among = f"round {self.rounds}", list(classes) if among is None else among
        decided = oracle.decide_among(x, draws(SEED, self.rounds, 0), among)
        self.rounds += 1
        label, greedy = int(decision.label), int(decision.greedy)
        if (label, greedy) != (decided.label, decided.greedy):
            of_few = oracle.among(x, among)
            belief, hope = (dict(zip(among, worths, strict=True)) for worths in of_few)
            assert hope[label] > hope[decided.label] - NEAR_TIE[self.dtype], where
            assert belief[greedy] > belief[decided.greedy] - NEAR_TIE[self.dtype], where
            decided.label, decided.greedy = label, greedy
            self.ties += 1
        elif len(among) > 1:
            np.testing.assert_allclose(decision.notes[0], decided.note, atol=CLOSE[self.dtype], err_msg=where)
        if len(among) > 1:
            mixture = self.space.mixture
            assert [MEMBERS[place] for place in np.flatnonzero(mixture.awake)] == list(oracle.p), where
            beliefs = mixture.beliefs.reshape(len(MEMBERS), -1)[mixture.awake == 1]
            np.testing.assert_allclose(beliefs, list(oracle.p.values()), atol=CLOSE[self.dtype], err_msg=where)
            assert oracle.p, where
            self.slept |= set(oracle.there) - set(oracle.p)
        return decision, decided

    def told(self, x: Array, decision: Any, decided: Decided, right: bool) -> None:
        """Both hear a bit."""
        self.learner.learn(decision, right=right)
        said = decided.label if right else -1
        self.oracle.hear(x, decided, said, draws(SEED, 0, 1), float(right), range(self.oracle.K), True)
        self.compare()

    def compare(self) -> None:
        """What is remembered of members and rows."""
        oracle, space, where = self.oracle, self.space, f"round {self.rounds}"
        places = [MEMBERS.index(member) for member in oracle.there]
        mixture, near = space.mixture, CLOSE[self.dtype]
        assert mixture.strides[places].tolist() == list(oracle.stride.values()), where
        assert mixture.facts[ROUNDS] == oracle.rounds, where
        np.testing.assert_allclose(mixture.facts[MISTAKES], oracle.mistakes, rtol=1e-12, err_msg=where)
        for found, expected in (
            (mixture.losses[places], list(oracle.loss.values())),
            (mixture.rates[places], list(oracle.rate.values())),
            (space.linear.bounds[[LINEAR.index(m) for m in oracle.linear]], [one.B for one in oracle.linear.values()]),
            (space.progress[[TRUST, SQUARED_SLOPES]], [oracle.trust, oracle.slopes]),
            (space.shaped.trusts, [oracle.shaped.logarithms, oracle.shaped.gradients]),
            (space.clusters.means, oracle.clusters.m),
            (space.statistics.scales, [oracle.columns.mean, oracle.columns.inverse]),
        ):
            np.testing.assert_allclose(found, expected, rtol=near, atol=near, err_msg=where)
        assert space.basis.generation[0] == oracle.basis.generation, where
        vectors = oracle.basis.now.vectors
        np.testing.assert_allclose(
            space.basis.vectors, vectors, atol=near * (1e-9 + np.abs(vectors).max()), err_msg=where
        )

    def assert_agree_on_a_walk(self, X: Array, y: Array, late: bool = False) -> None:
        """One bit about each row; late ones come out of order, after up to nine rounds."""
        waiting: list[tuple[Any, Decided, int]] = []
        order = np.random.default_rng(3)
        for row in range(len(y)):
            waiting.append((*self.decide(X[row]), row))
            while waiting and (not late or len(waiting) > 8):
                decision, decided, then = waiting.pop(int(order.integers(len(waiting))) if late else 0)
                self.told(X[then], decision, decided, bool(decided.label == y[then]))
        self.assert_agree()

    def assert_agree(self) -> None:
        near = 10.0 * CLOSE[self.dtype]
        np.testing.assert_allclose(self.learner.weights, self.oracle.W, rtol=near, atol=near)
        assert self.learner.describe().restarts == self.oracle.change.restarts
        assert self.ties <= MOST_TIES * self.rounds, f"{self.ties} near-ties in {self.rounds} rounds"


def test_waves_are_cosines() -> None:
    """Those of the product are polynomials of the angle, in turns, at most half a turn from 0; the twin takes these."""
    turns = np.linspace(-0.5, 0.5, 10_001)
    found = np.polynomial.polynomial.polyval(turns**2, COSINE)
    np.testing.assert_allclose(found, np.cos(2.0 * math.pi * turns), atol=1e-6)


@pytest.mark.parametrize(
    ("classes", "features", "spread", "late"),
    [(2, 3, 0.5, False), (3, 5, 1.0, True), (5, 8, 0.6, False)],
    ids=["2 classes", "3 classes, late", "5 classes"],
)
def test_twin_through_two_bases(
    classes: int, features: int, spread: float, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Components of 64 rows and of 256, each with the rows kept learnt again."""
    pair = Pair(classes, features, monkeypatch)
    pair.assert_agree_on_a_walk(*gaussians(290, classes, features, spread, seed=1), late)
    assert pair.oracle.basis.generation == 2
    assert not pair.oracle.pending


def test_twin_with_as_many_waves_as_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    Pair(3, 4, monkeypatch, waves=400).assert_agree_on_a_walk(*gaussians(110, 3, 4, 1.0, seed=2))


def test_twin_with_constant_columns_and_rows_of_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with columns of which few have nearly all variance, so that components are those of standardised ones."""
    X, y = gaussians(120, 3, 24, 0.7, seed=3)
    X[:, 1] *= 100.0
    X[:, 0] = 5.0
    X[::2, 2] = X[1::2, 2] = 0.0
    X[::13] = 0.0
    pair = Pair(3, 24, monkeypatch)
    pair.assert_agree_on_a_walk(X, y)
    assert pair.oracle.standard


def test_twin_on_rows_of_any_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = gaussians(120, 3, 6, 1.5, seed=3)
    generator = np.random.default_rng(3)
    X = X.astype(np.float64) * 10.0 ** generator.uniform(-3, 3, (len(X), 1)) * 10.0 ** generator.uniform(-3, 3, 6)
    X[::31] = 0.0
    pair = Pair(3, 6, monkeypatch)
    pair.assert_agree_on_a_walk(X, y)
    assert pair.oracle.scales.divides


@pytest.mark.parametrize(
    ("classes", "features", "rounds"),
    [
        pytest.param(2, 140, 100, id="full"),
        pytest.param(5, 450, 90, id="diagonal"),
        pytest.param(60, 20, 90, id="without waves"),
        pytest.param(2, 150, 290, id="iterations"),
    ],
)
def test_twin_with_other_members(classes: int, features: int, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 128 columns: waves of components. Diagonal covariances; and more than 50 classes."""
    X, y = gaussians(rounds, classes, features, 0.4, seed=2)
    X[:, 0], X[::31] = 5.0, 0.0
    pair = Pair(classes, features, monkeypatch)
    pair.assert_agree_on_a_walk(X, y)
    assert pair.oracle.basis.generation == (2 if rounds > 256 else 1)
    based = {MEMBERS[place] for place in np.flatnonzero(pair.space.mixture.kinds == BASED)}
    assert ("waved" in based) == (features == 450)
    assert ("corrected" in based) == (classes < 60)


@pytest.mark.parametrize("features", [3, 24], ids=["columns alike", "one column with nearly all variance"])
def test_twin_through_a_restart(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is right for a while. The components in use, and what waves are of, stay until there are 64 rows again."""
    X, y = gaussians(340, 3, features, 2.5 if features == 3 else 1.0, seed=1)
    X[:, 0] *= 1.0 if features == 3 else 100.0
    y[200:250] = -1
    pair = Pair(3, features, monkeypatch, waves=8)
    pair.assert_agree_on_a_walk(X, y)
    assert pair.oracle.standard == (features == 24)
    assert pair.oracle.change.restarts >= 1, "the stream is there to force one"
    assert pair.oracle.basis.generation == 2


def test_twin_with_candidates_rewards_and_truths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MOST_WAVES", FEW)
    assert_equals_its_oracle_among("auto", {}, True)


def test_twin_where_it_is_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that nobody asked for, between those that are played; sets that may lack the right class, and rewards."""
    X, y = gaussians(150, 5, 4, 1.0, seed=4)
    pair, generator = Pair(5, 4, monkeypatch), np.random.default_rng(4)
    for x, label in zip(X, y, strict=True):
        if generator.random() < 0.3:
            pair.learner.teach(x[None], [int(label)])
            pair.oracle.teach(x, int(label), draws(SEED, 0, 6))
            pair.compare()
            continue
        complete = bool(generator.random() < 0.5)
        among = chosen_among(generator, 5, int(label) if complete else None)
        row, (decision, decided) = pair.rounds, pair.decide(x, among, complete)
        reward = float(generator.choice([0.0, 0.2, 0.7, 1.0]))
        pair.learner.learn(decision, reward=reward)
        said = decided.label if draws(SEED, row, 5)(0) < reward else -1
        pair.oracle.hear(x, decided, said, draws(SEED, row, 1), reward, among, complete or len(among) == 5)
        pair.compare()
    pair.assert_agree()


def test_twin_where_members_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes that differ in their length alone, of which the direction says nothing."""
    generator = np.random.default_rng(5)
    y = generator.integers(0, 2, 1090)
    X = generator.normal(size=(1090, 3))
    X *= ((1.0 + 2.0 * y) / np.linalg.norm(X, axis=1))[:, None]
    pair = Pair(2, 3, monkeypatch, waves=8)
    pair.assert_agree_on_a_walk(X, y)
    assert "directed" in pair.slept
    assert pair.oracle.stride["directed"] > 1
    assert pair.oracle.basis.generation == 3


@pytest.mark.parametrize(("classes", "features"), [(3, 5), (5, 450)], ids=["full", "diagonal"])
def test_twin_in_single_precision(classes: int, features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As learners are by default."""
    X, y = gaussians(290 if features == 5 else 90, classes, features, 0.8 if features == 5 else 0.3, seed=6)
    Pair(classes, features, monkeypatch, dtype="float32").assert_agree_on_a_walk(X, y)
