"""Offset tree: realizable (no weights) and general (1/2 offset) (Beygelzimer and Langford 2009; Chen et al. 2009).

Specification: docs/explanation/algorithms-first-order.md#offset-tree, with the tree in the shape of a heap: positions 0..K-2 are
internal, the children of position i are 2i+1 (left) and 2i+2 (right), positions K-1..2K-2 are leaves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    dot,
    epsilon_greedy,
    epsilon_greedy_distribution,
    squared_norm,
)


@dataclass
class Leaf:
    """The end of a descent."""

    label: int


@dataclass
class Node:
    """A match between the winners of two subtrees; head number `head` decides it."""

    head: int
    left: Node | Leaf
    right: Node | Leaf


def leaf_position(label: int, classes: int) -> int:
    """Where the leaf of a class sits in the heap."""
    position = 2 * label
    while position < classes - 1:
        position = 2 * position + 1
    return position


def build(classes: int) -> Node | Leaf:
    """The whole tree."""
    label_at = {leaf_position(label, classes): label for label in range(classes)}
    if sorted(label_at) != list(range(classes - 1, 2 * classes - 1)):
        raise AssertionError("every leaf position must hold exactly one class")

    def subtree(position: int) -> Node | Leaf:
        if position >= classes - 1:
            return Leaf(label_at[position])
        return Node(position, subtree(2 * position + 1), subtree(2 * position + 2))

    return subtree(0)


def labels_below(tree: Node | Leaf) -> list[int]:
    """All classes of a subtree, from left to right."""
    if isinstance(tree, Leaf):
        return [tree.label]
    return labels_below(tree.left) + labels_below(tree.right)


def pruned(tree: Node | Leaf, among: Sequence[int]) -> Node | Leaf:
    """The tree of the candidates alone: a node with one branch left is no match, and falls away."""
    if isinstance(tree, Leaf):
        return tree
    sides = [side for side in (tree.left, tree.right) if set(labels_below(side)) & set(among)]
    if len(sides) == 1:
        return pruned(sides[0], among)
    return Node(tree.head, pruned(sides[0], among), pruned(sides[1], among))


def climb(tree: Node | Leaf, label: int) -> list[tuple[Node, int]]:
    """The nodes from the label's leaf up to the root, each with the label's side: -1 left, +1 right."""
    if isinstance(tree, Leaf):
        return []
    if label in labels_below(tree.left):
        return [*climb(tree.left, label), (tree, -1)]
    return [*climb(tree.right, label), (tree, +1)]


class Oracle(SlowTwin):
    """Play the winner of the descent, or explore; on feedback train the nodes above the played label."""

    def __init__(
        self,
        classes: int,
        features: int,
        *,
        kind: str,
        stop: str,
        variant: str,
        aggressiveness: float,
        weighting: str = "weighted",
        exploration: float | None = None,
    ) -> None:
        self.classes = classes
        self.W: Array = np.zeros((classes - 1, features))
        self.tree = build(classes)
        self.kind = check_choice("kind", kind, ("realizable", "general"))
        self.stop = check_choice("stop", stop, ("none", "after", "before", "path"))
        self.weighting = check_choice("weighting", weighting, ("weighted", "costing"))
        self.variant = check_choice("variant", variant, VARIANTS)
        if (self.kind, self.weighting, self.variant) == ("general", "weighted", "PA"):
            raise ValueError("PA has no C that the weights could multiply")
        self.C = aggressiveness
        self.exploration = exploration
        self.learnt = 0

    def epsilon(self) -> float:
        """Today's probability of playing uniformly."""
        if self.exploration is not None:
            return self.exploration
        if self.kind == "general":
            return 0.03
        return min(1.0, 1.0 / math.sqrt(self.learnt + 1))

    def decide(self, x: Array, draw: Draw) -> Decided:
        return self.decide_among(x, draw, range(self.classes))

    def decide_among(self, x: Array, draw: Draw, among: Sequence[int]) -> Decided:
        if len(among) == 1:
            return Decided(among[0], among[0])
        s = all_scores(self.W, x)
        place = pruned(self.tree, among)
        while isinstance(place, Node):
            score = float(s[place.head])
            goes_right = score > 0.0 or (score == 0.0 and draw(2 + place.head) < 0.5)
            place = place.right if goes_right else place.left
        label, weight = epsilon_greedy(among.index(place.label), self.epsilon(), len(among), draw)
        return Decided(label=among[label], greedy=place.label, weight=weight)

    def probabilities(self, x: Array) -> Array:
        return self.probabilities_among(x, range(self.classes), self.classes)

    def probabilities_among(self, x: Array, among: Sequence[int], classes: int) -> Array:
        s = all_scores(self.W, x)
        winner = np.zeros(classes)

        def spread(place: Node | Leaf, mass: float) -> None:
            if isinstance(place, Leaf):
                winner[place.label] += mass
                return
            score = float(s[place.head])
            to_right = 1.0 if score > 0.0 else 0.0 if score < 0.0 else 0.5
            spread(place.left, (1.0 - to_right) * mass)
            spread(place.right, to_right * mass)

        spread(pruned(self.tree, among), 1.0)
        found = np.zeros(classes)
        found[list(among)] = epsilon_greedy_distribution(winner[list(among)], self.epsilon())
        return found

    def learn(self, x: Array, decided: Decided, told: int, draw: Draw) -> None:
        self.answer_among(x, decided, told, draw, 0.0, range(self.classes), True)

    def answer_among(
        self, x: Array, decided: Decided, told: int, draw: Draw, reward: float, among: Sequence[int], complete: bool
    ) -> None:
        if squared_norm(x) == 0.0:
            return
        C = self.C
        accepted = True
        if self.kind == "general":
            if self.weighting == "weighted":
                C *= 1.0 / (2.0 * decided.weight)  # |reward - 1/2| / p
            else:
                lowest = self.epsilon() / len(among)
                accepted = draw(0) < lowest / decided.weight
        if accepted:
            self._climb(x, climb(pruned(self.tree, among), decided.label), told == decided.label, C)
        self.learnt += 1

    def correct(self, x: Array, truth: int, draw: Draw, among: Sequence[int]) -> None:
        for node, side in climb(pruned(self.tree, among), truth):
            binary_pa_step(self.W, node.head, x, float(side), self.variant, self.C)
        self.learnt += 1

    def _climb(self, x: Array, path: list[tuple[Node, int]], right: bool, C: float) -> None:
        for node, side in path:
            lost_before = side * dot(self.W[node.head], x) < 0.0
            target = side if right else -side
            binary_pa_step(self.W, node.head, x, float(target), self.variant, C)
            lost_after = side * dot(self.W[node.head], x) < 0.0
            if self.stop == "before" and lost_before:
                return
            if self.stop == "after" and lost_after:
                return
            if self.stop == "path" and not right and lost_before:
                return
