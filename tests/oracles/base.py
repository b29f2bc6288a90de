"""What the slow twins share: scores, ties, the epsilon-greedy draw, the binary passive-aggressive step size, and candidates.

Specification: docs/explanation/algorithms.md#notation, docs/explanation/algorithms.md#exploring, docs/explanation/algorithms.md#ties,
docs/explanation/algorithms.md#passive-aggressive-steps and docs/explanation/algorithms.md#candidates-rewards-and-truths.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Draw = Callable[[int], float]

VARIANTS = ("PA", "PA-I", "PA-II")


@dataclass
class Decided:
    """What a decision leaves behind for the (possibly late) feedback.

    `weight` is the probability of `label` given how ties were broken: the number the papers divide by.
    """

    label: int
    greedy: int
    weight: float = 1.0
    note: float = 0.0
    second_note: float = 0.0


class SlowTwin:
    """What every twin can do with candidates: play a round with fewer classes, and put back what it learns in it.

    `BY_CLASS` names what there is for each class, in order: lists, or arrays with a line for each.
    """

    BY_CLASS: Sequence[str] = ("W",)
    LEARNS_ALONE: ClassVar[bool] = False
    LEARNS_OVER_ALL: ClassVar[bool] = False
    TAKES_REWARDS: ClassVar[bool] = False

    def accompany(self, learner: Any) -> None:
        """Be told which learner it is compared with, to ask it for what no formula says; most twins need not."""

    def only(self, among: Sequence[int]) -> Any:
        """The twin of the candidates alone."""
        part = copy.deepcopy(self)
        for path in self.BY_CLASS:
            lines = look_up(part, path)
            assign(part, path, lines[list(among)] if isinstance(lines, np.ndarray) else [lines[i] for i in among])
        return part

    def put_back(self, part: Any, among: Sequence[int]) -> None:
        """Take over what the candidates have learnt, and all that is not of a class."""
        whole = copy.deepcopy(part)
        for path in self.BY_CLASS:
            lines = look_up(self, path)
            for place, label in enumerate(among):
                lines[label] = look_up(part, path)[place]
            assign(whole, path, lines)
        self.__dict__ = whole.__dict__

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        """One candidate is played whatever the rule; of several, labels are places among them."""
        if len(among) == 1:
            return Decided(among[0], among[0])
        decided: Decided = self.only(among).decide(x, draw)
        return replace(decided, label=among[decided.label], greedy=among[decided.greedy])

    def probabilities_among(self, x: Array, among: Sequence[int], classes: int) -> Array:
        """0 for those that cannot be played."""
        found = np.zeros(classes)
        found[list(among)] = self.only(among).probabilities(x) if len(among) > 1 else 1.0
        return found

    def hear(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        """Learn what was said of a label: `told` is the bit that stands for the reward."""
        if self.LEARNS_OVER_ALL and (not complete or len(among) == 1):
            self.answer(x, decided, told, draw, reward)
        elif len(among) > 1 or self.LEARNS_ALONE:
            self.answer_among(x, decided, told, draw, reward, among, complete)

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        """The step of a round with these candidates."""
        part = self.only(among)
        label, greedy = among.index(decided.label), among.index(decided.greedy)
        known = among.index(told) if told in among else -1
        part.answer(x, replace(decided, label=label, greedy=greedy), known, draw, reward)
        self.put_back(part, among)

    def answer(self, x: Array, decided: Decided, told: int, draw: Draw, reward: float) -> None:
        """The step of a round with all classes, for the reward itself or for the bit."""
        given = (reward,) if self.TAKES_REWARDS else ()
        self.learn(x, decided, told, draw, *given)  # type: ignore[attr-defined]

    def correct(self, x: Array, truth: int, draw: Draw, among: Sequence[int]) -> None:
        """The step for a class that somebody named as right, one of several candidates."""
        part = self.only(among)
        part.teach(x, among.index(truth), draw)
        self.put_back(part, among)


def worth(decided: Decided, told: int, reward: float | None) -> float:
    """The reward of a label: where none is given, 1 for right and 0 for wrong."""
    if reward is not None:
        return reward
    return 1.0 if told == decided.label else 0.0


def look_up(whole: Any, path: str) -> Any:
    """What is called so, perhaps a part of a part."""
    for name in path.split("."):
        whole = whole[int(name)] if name.isdigit() else getattr(whole, name)
    return whole


def assign(whole: Any, path: str, value: Any) -> None:
    """Put something in its place."""
    parent, _, name = path.rpartition(".")
    setattr(look_up(whole, parent) if parent else whole, name, value)


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Refuse a misspelt option, so that a test never compares the wrong thing."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}, expected one of {tuple(allowed)}")
    return value


def dot(w: Array, x: Array) -> float:
    """w.x as a plain loop from left to right, the same order for every row."""
    total = 0.0
    for j in range(len(x)):
        total += float(w[j]) * float(x[j])
    return total


def all_scores(W: Array, x: Array) -> Array:
    """One score per row of W."""
    return np.array([dot(row, x) for row in W], dtype=np.float64)


def squared_norm(x: Array) -> float:
    """n = ||x||^2."""
    return dot(x, x)


def tied_labels(scores: Array) -> list[int]:
    """Labels within 1e-12 (1 + |max|) of the best score, in increasing order."""
    best = float(max(scores))
    limit = best - 1e-12 * (1.0 + abs(best))
    return [r for r in range(len(scores)) if scores[r] >= limit]


def greedy_label(scores: Array, draw: Draw) -> int:
    """Argmax; ties uniformly at random with draw(1)."""
    tied = tied_labels(scores)
    if len(tied) == 1:
        return tied[0]
    return tied[math.floor(draw(1) * len(tied))]


def greedy_distribution(scores: Array) -> Array:
    """The distribution of greedy_label over all draws."""
    tied = tied_labels(scores)
    probabilities = np.zeros(len(scores))
    for r in tied:
        probabilities[r] = 1.0 / len(tied)
    return probabilities


def uniform_label(classes: int, draw: Draw) -> int:
    """A label drawn uniformly with draw(0)."""
    return math.floor(classes * draw(0))


def epsilon_greedy(greedy: int, gamma: float, classes: int, draw: Draw) -> tuple[int, float]:
    """Played label and its probability (given `greedy`): the greedy label, or a uniform one with probability gamma."""
    u = draw(0)
    label = min(classes - 1, math.floor(classes * u / gamma)) if u < gamma else greedy
    weight = gamma / classes
    if label == greedy:
        weight += 1.0 - gamma
    return label, weight


def epsilon_greedy_distribution(greedy: Array, gamma: float) -> Array:
    """Distribution of the played label when `greedy` is the distribution of the greedy label."""
    return (1.0 - gamma) * greedy + gamma / len(greedy)


def best_other(scores: Array, y: int) -> int:
    """Best class other than y, the lowest index among exact ties."""
    best = -1
    for r in range(len(scores)):
        if r != y and (best < 0 or scores[r] > scores[best]):
            best = r
    return best


def binary_pa_size(variant: str, C: float, loss: float, n: float) -> float:
    """The tau of one binary passive-aggressive step: l/n | min(C, l/n) | l/(n + 1/(2C))."""
    if variant == "PA":
        return loss / n
    if variant == "PA-I":
        return min(C, loss / n)
    return loss / (n + 1.0 / (2.0 * C))


def binary_pa_step(W: Array, row: int, x: Array, z: float, variant: str, C: float) -> None:
    """Binary passive-aggressive step on one row towards the sign z, in place."""
    loss = max(0.0, 1.0 - z * dot(W[row], x))
    W[row] += z * binary_pa_size(variant, C, loss, squared_norm(x)) * x


def softmax(scores: Array) -> Array:
    """exp(s_r) / sum exp(s), the maximum subtracted first."""
    best = float(max(scores))
    powers = [math.exp(float(s) - best) for s in scores]
    total = math.fsum(powers)
    return np.array([p / total for p in powers], dtype=np.float64)


def bisect_increasing(f: Callable[[float], float], low: float, high: float) -> float:
    """Where the increasing function f changes sign in [low, high], to the last bit (f may jump)."""
    while True:
        middle = low + (high - low) / 2.0
        if middle <= low or middle >= high:
            return middle
        if f(middle) < 0.0:
            low = middle
        else:
            high = middle
