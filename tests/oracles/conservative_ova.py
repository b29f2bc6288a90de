"""Conservative OVA reduction with passive-aggressive learners and output codes (Chen et al. 2009).

Specification: docs/explanation/algorithms-first-order.md#conservative-ova. The coding matrix is built explicitly and decoded literally.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import (
    VARIANTS,
    Array,
    Decided,
    Draw,
    SlowTwin,
    all_scores,
    binary_pa_step,
    check_choice,
    greedy_distribution,
    greedy_label,
    squared_norm,
    uniform_label,
)

Coding = str | Sequence[Sequence[int]]


def coding_matrix(coding: Coding, classes: int) -> list[list[int]]:
    """M(r, s) in {-1, 0, +1}: what class r asks of column s."""
    if isinstance(coding, str):
        check_choice("coding", coding, ("one-vs-all", "all-pairs"))
        if coding == "one-vs-all":
            return [[1 if s == r else -1 for s in range(classes)] for r in range(classes)]
        M = [[0] * (classes * (classes - 1) // 2) for _ in range(classes)]
        for j in range(classes):
            for i in range(j):
                s = j * (j - 1) // 2 + i
                M[i][s] = 1
                M[j][s] = -1
        return M
    M = [[int(entry) for entry in row] for row in coding]
    if len(M) != classes or len({len(row) for row in M}) != 1:
        raise ValueError("the coding needs one row of the same length per class")
    if any(entry not in (-1, 0, 1) for row in M for entry in row):
        raise ValueError("the coding may hold only -1, 0 and 1")
    return M


def loss_distance(code: Sequence[int], f: Array) -> float:
    """d_L = sum_s L(M(r,s) f_s) with the hinge L(z) = [1 - z]_+, columns in increasing order."""
    total = 0.0
    for s in range(len(code)):
        total += max(0.0, 1.0 - code[s] * float(f[s]))
    return total


def hamming_distance(code: Sequence[int], f: Array) -> float:
    """d_H = sum_s (1 - sign(M(r,s) f_s)) / 2 with sign(0) = 0, columns in increasing order."""
    total = 0.0
    for s in range(len(code)):
        z = code[s] * float(f[s])
        sign = 1.0 if z > 0.0 else -1.0 if z < 0.0 else 0.0
        total += (1.0 - sign) / 2.0
    return total


def columns_after_wrong(M: Sequence[Sequence[int]], label: int, possible: Sequence[int], wrong: str) -> dict[int, int]:
    """The columns that "not `label`, but one of the possible" teaches, each with its target sign."""
    if wrong == "played":  # Algorithm 1 of the paper; the coding is one-vs-all
        return {label: -1}
    targets: dict[int, int] = {}
    for s in range(len(M[0])):
        entries = [M[r][s] for r in possible if r != label]
        if wrong == "lenient":
            entries = [entry for entry in entries if entry != 0]
        if len(set(entries)) == 1 and entries[0] != 0:
            targets[s] = entries[0]
    return targets


class Oracle(SlowTwin):
    """One binary passive-aggressive learner per column; learn only what the feedback determines."""

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        variant: str,
        aggressiveness: float,
        coding: Coding,
        decoding: str,
        wrong: str,
        guess_if_all_negative: bool,
    ) -> None:
        self.classes = classes
        self.M = coding_matrix(coding, classes)
        self.W: Array = np.zeros((len(self.M[0]), features))
        self.variant = check_choice("variant", variant, VARIANTS)
        self.C = aggressiveness
        self.decoding = check_choice("decoding", decoding, ("loss", "hamming"))
        self.wrong = check_choice("wrong", wrong, ("strict", "lenient", "played"))
        self.coding = coding
        self.guessing = guess_if_all_negative and isinstance(coding, str) and coding == "one-vs-all"

    def columns(self, among: Sequence[int]) -> list[int]:
        """The columns of a round: those of the candidates, of the pairs of them, or all of a matrix."""
        if self.coding == "one-vs-all":
            return list(among)
        every = range(len(self.M[0]))
        if self.coding == "all-pairs":
            return [s for s in every if sum(self.M[r][s] != 0 for r in among) == 2]
        return list(every)

    def class_scores(self, f: Array, among: Sequence[int]) -> Array:
        """Minus the distance of every candidate's code to the outputs."""
        distance = loss_distance if self.decoding == "loss" else hamming_distance
        columns = self.columns(among)
        return np.array([-distance([self.M[r][s] for s in columns], f[columns]) for r in among], dtype=np.float64)

    def _guesses(self, f: Array, among: Sequence[int]) -> bool:
        return self.guessing and all(f[s] < 0.0 for s in self.columns(among))

    def decide(self, x: Array, draw: Draw) -> Decided:
        return self.decide_among(x, draw, range(self.classes))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        f = all_scores(self.W, x)
        if len(among) == 1:
            return Decided(among[0], among[0])
        greedy = among[greedy_label(self.class_scores(f, among), draw)]
        if self._guesses(f, among):
            return Decided(label=among[uniform_label(len(among), draw)], greedy=greedy, weight=1.0 / len(among))
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        return self.probabilities_among(x, range(self.classes), self.classes)

    def probabilities_among(self, x: Array, among: Sequence[int], classes: int) -> Array:
        f, found = all_scores(self.W, x), np.zeros(classes)
        guesses = self._guesses(f, among)
        found[list(among)] = 1.0 / len(among) if guesses else greedy_distribution(self.class_scores(f, among))
        return found

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        self.answer_among(x, decided, told, draw, 0.0, range(self.classes), True)

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        if told == decided.label:
            self._step(x, dict(enumerate(self.M[told])), among)
        else:
            possible = among if complete else range(self.classes)
            self._step(x, columns_after_wrong(self.M, decided.label, possible, self.wrong), among)

    def correct(self, x: Array, truth: int, draw: Draw, among: Sequence[int]) -> None:
        self._step(x, dict(enumerate(self.M[truth])), among)

    def _step(self, x: Array, targets: dict[int, int], among: Sequence[int]) -> None:
        for s in self.columns(among):
            if targets.get(s, 0) != 0 and squared_norm(x) > 0.0:
                binary_pa_step(self.W, s, x, float(targets[s]), self.variant, self.C)
