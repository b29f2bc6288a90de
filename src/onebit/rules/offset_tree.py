"""The offset tree: a tournament of K - 1 binary learners, trained along the played path.

Beygelzimer and Langford, "The Offset Tree for Learning with Partial Labels", KDD 2009, as used by Chen et al. 2009 (from
memory: not compared with the original text, and the climb is our reading of it).

    descend from the root; each node sends x left or right by the sign of its score; play the leaf, or explore
    climb from the played leaf: each node on the way takes a binary step towards the played side if right, the other if wrong

    realizable  weight 1, exploration min(1, t^-1/2) with t the feedbacks learnt
    general     weight 1/(2P) for the 1/2 offset, constant exploration: `weighted` multiplies C by it, and so is for PA-I and
                PA-II, which have a C; `costing` accepts the feedback with probability P_min/P and then takes a unit step

How far the climb goes is not clear from the texts and decides results, so the readings are named (`stop`): none (to the root),
before / after (until a node that sent / after its step sends x away from the played side), path (as before when wrong, to the
root when right). None of them matches both published numbers. The tree has the shape of a heap, so that a class can be added:
it splits one leaf. Where only some classes can be played, the descent takes no branch without a candidate, and a node with one branch left
learns nothing. Time O(K d) as all node scores are computed, memory O(K d).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, NamedTuple

from onebit.contract.candidates import NO_NARROWING, class_at, count_playable, place_of
from onebit.contract.choices import explored_label, explored_propensity, fill
from onebit.contract.draws import OWN, PLAY, uniform
from onebit.contract.parameters import OneOf, Real
from onebit.contract.rule import LEARNT, Choice, Contrast, Rule, RuleInput, Vector
from onebit.contract.steps import Variant, binary_step
from onebit.errors import InputError

GENERAL_EXPLORATION = 0.03  # the best of those tried for the weighted general tree on four of six streams


class TreeKind(IntEnum):
    """The assumption about the data: realizable if some tree is always right."""

    REALIZABLE = 0
    GENERAL = 1


class Stop(IntEnum):
    """The node at which the climb from the played leaf stops."""

    NONE = 0
    AFTER = 1
    BEFORE = 2
    PATH = 3


class Weighting(IntEnum):
    """How the general tree uses the importance weight."""

    WEIGHTED = 0
    COSTING = 1


class OffsetTree(NamedTuple):
    classes: int
    kind: Annotated[int, OneOf(TreeKind, "unit weights, or the 1/2 offset with importance weights")] = (
        TreeKind.REALIZABLE
    )
    stop: Annotated[int, OneOf(Stop, "where the climb from the played leaf ends")] = Stop.PATH
    weighting: Annotated[int, OneOf(Weighting, "how the general tree uses its weights")] = Weighting.WEIGHTED
    variant: Annotated[int, OneOf(Variant, "how the aggressiveness limits a step")] = Variant.PA_I
    aggressiveness: Annotated[float, Real("(0, inf)", "C, the largest step of PA-I, the damping of PA-II")] = 0.01
    exploration: Annotated[
        float, Real("(0, 1]", "the probability of exploring; if not given, t^-1/2 (realizable) or 0.03 (general)", True)
    ] = math.nan


def prepare(params: OffsetTree, options: Mapping[str, object]) -> tuple[OffsetTree, tuple[float, ...]]:
    """Raise InputError if the variant has no C to be multiplied by the tree's importance weights."""
    weighted = params.kind == TreeKind.GENERAL and params.weighting == Weighting.WEIGHTED
    if weighted and params.variant == Variant.PA:
        raise InputError(
            "the general tree multiplies C by its importance weights, but the variant PA has no C: give variant PA-I or PA-II, or "
            "weighting=costing; kind=realizable with an exploration has no weights"
        )
    return params, ()


def heads(params: OffsetTree) -> int:
    """Return the number of weight vectors, one for each inner node."""
    return params.classes - 1


def leaf_of(label: int, classes: int) -> int:
    """Return the leaf of a class, as a node of the heap.

    A class comes in at node 2 label, and moves to the left child when its leaf is split.
    """
    node = 2 * label
    while node < classes - 1:
        node = 2 * node + 1
    return node


def label_at(node: int) -> int:
    """Return the class at a leaf, going up while the node is a left child."""
    while node % 2 == 1:
        node = (node - 1) // 2
    return node // 2


def side_of(node: int) -> float:
    """Return +1 for a right child, -1 for a left one."""
    return 1.0 if node % 2 == 0 else -1.0


def leads_to_candidate(given: RuleInput, node: int, classes: int) -> bool:
    """Return True if a class that can be played is at or below a node."""
    if given.candidates.shape[0] == 0:
        return True
    for index in range(given.candidates.shape[0]):
        below = leaf_of(int(given.candidates[index]), classes)
        while below > node:
            below = (below - 1) // 2
        if below == node:
            return True
    return False


def sibling_of(node: int) -> int:
    """Return the other child of the same parent."""
    return node + 1 if node % 2 == 1 else node - 1


def exploration_now(params: OffsetTree, memory: Vector) -> float:
    """Return the probability of exploring in this round."""
    if not math.isnan(params.exploration):
        return params.exploration
    if params.kind == TreeKind.REALIZABLE:
        return min(1.0, 1.0 / math.sqrt(memory[LEARNT] + 1.0))
    return GENERAL_EXPLORATION


def decide(params: OffsetTree, given: RuleInput) -> Choice:
    """Play the label that wins the descent, or explore."""
    node = 0
    while node < params.classes - 1:
        to_the_right = given.scores[node] > 0.0
        if given.scores[node] == 0.0:
            to_the_right = uniform(given.draws, OWN + node) < 0.5
        node = 2 * node + (2 if to_the_right else 1)
        if not leads_to_candidate(given, node, params.classes):
            node = sibling_of(node)
    greedy = label_at(node)
    if given.candidates.shape[0] > 0:
        greedy = place_of(given.candidates, greedy)
    exploration, count = exploration_now(params, given.memory), count_playable(given, params.classes)
    label = explored_label(greedy, count, exploration, given.draws)
    return Choice(label, greedy, explored_propensity(label, greedy, count, exploration), 0.0, 0.0)


def learn(params: OffsetTree, given: RuleInput, choice: Choice, revealed: int, step: Vector) -> float:
    """Climb from the played leaf, with one binary step for each node."""
    scores = given.scores
    fill(step, params.classes - 1, 0.0)
    right = revealed == choice.label
    aggressiveness = params.aggressiveness
    if params.kind == TreeKind.GENERAL:
        if params.weighting == Weighting.WEIGHTED:
            aggressiveness *= 0.5 / choice.propensity
        else:
            possible = count_playable(given, params.classes) * choice.propensity
            if uniform(given.draws, PLAY) >= exploration_now(params, given.memory) / possible:
                return 1.0
    node = leaf_of(class_at(given, choice.label), params.classes)
    while node > 0:
        side, has_choice = side_of(node), leads_to_candidate(given, sibling_of(node), params.classes)
        node = (node - 1) // 2
        if not has_choice:
            continue
        target = side if right else -side
        step[node] = binary_step(params.variant, aggressiveness, scores[node], target, given.sq_norm)
        lost_before = side * scores[node] < 0.0
        lost_after = side * (scores[node] + step[node] * given.sq_norm) < 0.0
        if lost_before and (params.stop == Stop.BEFORE or (params.stop == Stop.PATH and not right)):
            break
        if lost_after and params.stop == Stop.AFTER:
            break
    return 1.0


def probabilities(params: OffsetTree, given: RuleInput, out: Vector) -> None:
    """Write the probabilities: the tree's, halved at nodes without a preference, mixed with exploration."""
    exploration, count = exploration_now(params, given.memory), count_playable(given, params.classes)
    for label in range(count):
        chance = 1.0
        node = leaf_of(class_at(given, label), params.classes)
        while node > 0:
            side, has_choice = side_of(node), leads_to_candidate(given, sibling_of(node), params.classes)
            node = (node - 1) // 2
            if not has_choice:
                continue
            if given.scores[node] == 0.0:
                chance *= 0.5
            elif side * given.scores[node] < 0.0:
                chance = 0.0
        out[label] = (1.0 - exploration) * chance + exploration / count


def teach(params: OffsetTree, given: RuleInput, label: int, step: Vector) -> float:
    """Teach every node on the path of the known label on which side it is."""
    fill(step, params.classes - 1, 0.0)
    node = leaf_of(class_at(given, label), params.classes)
    while node > 0:
        side, has_choice = side_of(node), leads_to_candidate(given, sibling_of(node), params.classes)
        node = (node - 1) // 2
        if has_choice:
            step[node] = binary_step(params.variant, params.aggressiveness, given.scores[node], side, given.sq_norm)
    return 1.0


def surety(params: OffsetTree, given: RuleInput, label: int) -> float:
    """Return the smallest margin on the path to the label's leaf, over nodes with a choice; else 0."""
    least, node = math.inf, leaf_of(class_at(given, label), params.classes)
    while node > 0:
        side, has_choice = side_of(node), leads_to_candidate(given, sibling_of(node), params.classes)
        node = (node - 1) // 2
        if has_choice:
            least = min(least, side * given.scores[node])
    return least if least < math.inf else 0.0


def contrast(params: OffsetTree, memory: Vector, label: int, rival: int) -> Contrast:
    """Return the score of the node where the paths to both classes part, towards the first class."""
    node, rival_node, side = leaf_of(label, params.classes), leaf_of(rival, params.classes), 0.0
    while node != rival_node:
        if node > rival_node:  # then `node` is not an ancestor of `rival_node`
            node, side = (node - 1) // 2, side_of(node)
        else:
            rival_node = (rival_node - 1) // 2
    return ((node, side),)


RULE = Rule(
    name="offset-tree",
    paper="Beygelzimer and Langford 2009",
    summary="A tournament of binary learners, trained along the played path",
    record=OffsetTree,
    decide=decide,
    learn=learn,
    probabilities=probabilities,
    teach=teach,
    surety=surety,
    heads=heads,
    prepare=prepare,
    contrast=contrast,
    narrowing=NO_NARROWING,
    examples=(
        {},
        {"kind": "general", "variant": "PA-II", "aggressiveness": 0.1},
        {"kind": "general", "weighting": "costing", "exploration": 0.3, "stop": "none", "aggressiveness": 0.1},
        {"stop": "before", "variant": "PA-II"},
        {"stop": "after", "aggressiveness": 1.0},
    ),
)
