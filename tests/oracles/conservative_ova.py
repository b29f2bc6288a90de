"""Conservative OVA reduction with passive-aggressive learners and output codes (Chen et al. 2009).

Specification: docs/algorithms-first-order.md#conservative-ova. The coding matrix is built explicitly and decoded literally.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import (
    VARIANTS,
    Array,
    Decided,
    Draw,
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


def columns_after_wrong(M: Sequence[Sequence[int]], label: int, wrong: str) -> dict[int, int]:
    """The columns that "not `label`" teaches, each with its target sign."""
    if wrong == "played":  # Algorithm 1 of the paper; the coding is one-vs-all
        return {label: -1}
    targets: dict[int, int] = {}
    for s in range(len(M[0])):
        entries = [M[r][s] for r in range(len(M)) if r != label]
        if wrong == "lenient":
            entries = [entry for entry in entries if entry != 0]
        if len(set(entries)) == 1 and entries[0] != 0:
            targets[s] = entries[0]
    return targets


class Oracle:
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
        self.guessing = guess_if_all_negative and isinstance(coding, str) and coding == "one-vs-all"

    def class_scores(self, f: Array) -> Array:
        """Minus the distance of every class's code to the outputs."""
        distance = loss_distance if self.decoding == "loss" else hamming_distance
        return np.array([-distance(code, f) for code in self.M], dtype=np.float64)

    def _guesses(self, f: Array) -> bool:
        return self.guessing and all(value < 0.0 for value in f)

    def decide(self, x: Array, draw: Draw) -> Decided:
        f = all_scores(self.W, x)
        greedy = greedy_label(self.class_scores(f), draw)
        if self._guesses(f):
            return Decided(label=uniform_label(self.classes, draw), greedy=greedy, weight=1.0 / self.classes)
        return Decided(label=greedy, greedy=greedy)

    def probabilities(self, x: Array) -> Array:
        f = all_scores(self.W, x)
        if self._guesses(f):
            return np.full(self.classes, 1.0 / self.classes)
        return greedy_distribution(self.class_scores(f))

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        if squared_norm(x) == 0.0:
            return
        if told == decided.label:
            targets = {s: z for s, z in enumerate(self.M[decided.label]) if z != 0}
        else:
            targets = columns_after_wrong(self.M, decided.label, self.wrong)
        for s, z in targets.items():
            binary_pa_step(self.W, s, x, float(z), self.variant, self.C)
