"""Rounds by hand: a step of a rule in score space, all labels it might have played, a whole stream in plain Python."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from onebit.contract.draws import DECIDING, LEARNING, Draws, hash_id, seed_key
from onebit.contract.rule import LEARNT, NORM, Choice, Rule, RuleInput, rules_by_record

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]

WRONG = -1  # what is revealed to a rule when all it may know is that it was wrong


@dataclass(frozen=True)
class Bench:
    """A rule with its parameters settled, ready to be called as plain Python."""

    rule: Rule
    params: Any
    memory: Vector

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.params.classes)

    @property
    def heads(self) -> int:
        """The number of weight vectors."""
        return int(self.rule.heads(self.params))

    def scratch(self) -> Matrix:
        """The `work` of the contract, undefined on entry: here not a number, so that a rule that reads it is caught."""
        return np.full((2, max(self.heads, self.classes)), np.nan)

    def given(self, scores: Vector, sq_norm: float, draws: Draws, right: bool = False) -> RuleInput:
        """What the rule is given in a round; where it learns, with a reward of 1 for a label that was right."""
        return RuleInput(self.memory, scores, sq_norm, draws, self.scratch(), float(right))


class Step(NamedTuple):
    """What `learn` asks for: W <- scale * W + coefficients (x) x."""

    scale: float
    coefficients: Vector


@cache
def settled(rule_name: str, classes: int, options: tuple[tuple[str, Hashable], ...]) -> tuple[Any, Vector]:
    """What `settle` gives, remembered: the tests ask for the same few benches again and again."""
    return next(rule for rule in rules_by_record.values() if rule.name == rule_name).settle(classes, dict(options))


def bench_of(rule: Rule, classes: int, **options: object) -> Bench:
    """A rule settled with these options, with a memory of its own."""
    try:
        params, memory = settled(rule.name, classes, tuple(options.items()))
    except TypeError:  # a coding matrix cannot be a key
        params, memory = rule.settle(classes, options)
    return Bench(rule, params, memory.copy())


@cache
def cached_key(seed: int) -> np.uint64:
    """The key of a seed, remembered."""
    return seed_key(seed)


def draws_of(identity: int, seed: int = 0, stream: int = DECIDING) -> Draws:
    """The random numbers of one decision."""
    return Draws(cached_key(seed), hash_id(identity), stream)


def decision(bench: Bench, scores: Vector, norm: float, identity: int = 0, seed: int = 0) -> Choice:
    """What the rule decides for these scores."""
    with np.errstate(over="ignore"):
        return bench.rule.decide(bench.params, bench.given(scores, norm, draws_of(identity, seed)))


def probabilities_of(bench: Bench, scores: Vector, norm: float) -> Vector:
    """The probabilities with which the rule plays each label."""
    filled = np.full(bench.classes, np.nan)
    bench.rule.probabilities(bench.params, bench.given(scores, norm, draws_of(0)), filled)
    return filled


def learnt(bench: Bench, scores: Vector, norm: float, choice: Choice, revealed: int, identity: int = 0) -> Step:
    """The step for a decision; the memory of the bench is left as it was."""
    coefficients = np.full(bench.heads, np.nan)
    before = scores.copy()
    with np.errstate(over="ignore"):
        own, right = replace(bench, memory=bench.memory.copy()), revealed == choice.label
        given = own.given(scores, norm, draws_of(identity, stream=LEARNING), right)
        scale = bench.rule.learn(bench.params, given, choice, revealed, coefficients)
    assert np.isfinite(coefficients).all(), "a step is filled with numbers"
    assert np.array_equal(before, scores), "a step leaves the scores alone"
    return Step(float(scale), coefficients)


def step(
    bench: Bench, scores: Vector, norm: float, label: int, revealed: int, greedy: int = 0, propensity: float = 1.0
) -> Step:
    """The step after `label` was played with this propensity while `greedy` was the greedy label."""
    return learnt(bench, scores, norm, Choice(label, greedy, propensity, 0.0, 0.0), revealed)


def taught(bench: Bench, scores: Vector, norm: float, label: int) -> Step:
    """The step of the same family when the label is known."""
    teach = bench.rule.teach
    assert teach is not None
    coefficients = np.full(bench.heads, np.nan)
    with np.errstate(over="ignore"):
        given = replace(bench, memory=bench.memory.copy()).given(scores, norm, draws_of(0))
        scale = teach(bench.params, given, label, coefficients)
    assert np.isfinite(coefficients).all(), "a step is filled with numbers"
    return Step(float(scale), coefficients)


def revealed_to(played: int, truth: int) -> int:
    """What bandit feedback reveals."""
    return truth if played == truth else WRONG


def enumerated(classes: int, greedy: int, exploration: float) -> Iterator[tuple[int, float]]:
    """Every label that may be played once the greedy one is fixed, with its probability."""
    for label in range(classes):
        yield label, (1.0 - exploration) * (label == greedy) + exploration / classes


def expected(bench: Bench, scores: Vector, norm: float, greedy: int, truth: int, exploration: float) -> Vector:
    """The mean of the step over everything that might have been played."""
    mean = np.zeros(bench.heads)
    for label, chance in enumerated(bench.classes, greedy, exploration):
        taken = step(bench, scores, norm, label, revealed_to(label, truth), greedy, chance)
        assert taken.scale == 1.0
        mean += chance * taken.coefficients
    return mean


def expected_square(bench: Bench, scores: Vector, norm: float, greedy: int, truth: int, exploration: float) -> float:
    """The mean of the squared length of the step, ||c (x) x||^2 = norm ||c||^2."""
    mean = 0.0
    for label, chance in enumerated(bench.classes, greedy, exploration):
        taken = step(bench, scores, norm, label, revealed_to(label, truth), greedy, chance).coefficients
        mean += chance * norm * float(taken @ taken)
    return mean


def unit(classes: int, label: int) -> Vector:
    """The unit vector of a class."""
    vector = np.zeros(classes)
    vector[label] = 1.0
    return vector


def shuffled(vector: Vector, order: Sequence[int]) -> Vector:
    """The vector in which the entry of class r has moved to class order[r]."""
    moved = np.empty_like(vector)
    moved[np.asarray(order)] = vector
    return moved


@dataclass(frozen=True)
class Walk:
    """A stream that was walked through in plain Python."""

    played: Labels
    greedy: Labels
    notes: Vector
    scores: Matrix
    coefficients: Matrix
    lengths: Vector  # ||W|| after each round
    weights: Matrix  # W at the end


def walk(bench: Bench, features: Matrix, labels: Labels, seed: int = 0) -> Walk:
    """Decide and learn row by row, with a dense W kept by the plainest arithmetic there is."""
    rounds = len(labels)
    weights = np.zeros((bench.heads, features.shape[1]))
    memory = bench.memory.copy()
    played, greedy = np.zeros(rounds, dtype=np.int64), np.zeros(rounds, dtype=np.int64)
    notes, lengths = np.zeros(rounds), np.zeros(rounds)
    all_scores, all_coefficients = np.zeros((rounds, bench.heads)), np.zeros((rounds, bench.heads))
    full = bench.rule.has_full_information(bench.params)
    with np.errstate(over="ignore"):
        for t, (row, truth) in enumerate(zip(features, labels, strict=True)):
            scores = (weights * row).sum(axis=1)
            norm = float((row * row).sum())
            before = memory.copy()
            own = replace(bench, memory=memory)
            choice = bench.rule.decide(bench.params, own.given(scores, norm, draws_of(t, seed)))
            assert np.array_equal(before, memory), "a decision changes nothing"
            revealed = int(truth) if full else revealed_to(choice.label, int(truth))
            coefficients = np.full(bench.heads, np.nan)
            given = own.given(scores, norm, draws_of(t, seed, LEARNING), revealed == choice.label)
            scale = bench.rule.learn(bench.params, given, choice, revealed, coefficients)
            weights = scale * weights + np.outer(coefficients, row)
            memory[NORM] = float((weights * weights).sum())
            memory[LEARNT] += 1
            played[t], greedy[t], notes[t] = choice.label, choice.greedy, choice.note
            all_scores[t], all_coefficients[t], lengths[t] = scores, coefficients, np.sqrt(memory[NORM])
    return Walk(played, greedy, notes, all_scores, all_coefficients, lengths, weights)


def surprise(counts: Labels, probabilities: Vector) -> float:
    """The p-value of the chi-square test of counts against probabilities; 0 if the impossible happened."""
    possible = probabilities > 0.0
    if counts[~possible].any():
        return 0.0
    if possible.sum() == 1:
        return 1.0
    expectation = probabilities[possible] * counts.sum()
    return float(stats.chisquare(counts[possible], expectation * counts.sum() / expectation.sum()).pvalue)


def grid_counts(values: Vector, others: Vector, cells: int) -> Labels:
    """How often the pairs (value, other), both in [0, 1), fall into each cell of a square grid."""
    counted, _, _ = np.histogram2d(values, others, bins=cells, range=((0.0, 1.0), (0.0, 1.0)))
    return counted.astype(np.int64).ravel()


def assert_scaling_changes_no_decision(rule: Rule) -> None:
    """From W = 0, with factors that are powers of two, so that rounding scales too."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(300, 6))
    labels = generator.integers(0, 4, size=300)
    bench = bench_of(rule, 4)
    plain = walk(bench, features, labels)
    assert len(set(plain.played.tolist())) == 4
    for factor in (1 / 64, 1024.0):
        scaled = walk(bench, factor * features, labels)
        assert np.array_equal(plain.played, scaled.played)
        assert np.array_equal(plain.greedy, scaled.greedy)
        assert np.allclose(scaled.weights, factor * plain.weights, rtol=1e-12)


def assert_renaming_renames_the_step(rule: Rule) -> None:
    """On 100 random decisions."""
    generator = np.random.default_rng(2)
    bench = bench_of(rule, 6)
    for _ in range(100):
        order = generator.permutation(6).tolist()
        scores = generator.normal(size=6)
        label, greedy, truth = (int(number) for number in generator.integers(0, 6, size=3))
        revealed = truth if rule.full_information else revealed_to(label, truth)
        moved = order[revealed] if revealed != WRONG else WRONG
        taken = step(bench, scores, 2.0, label, revealed, greedy, 0.3).coefficients
        renamed = step(bench, shuffled(scores, order), 2.0, order[label], moved, order[greedy], 0.3).coefficients
        assert np.array_equal(shuffled(taken, order), renamed)
