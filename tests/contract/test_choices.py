"""Draws, ties, exploration, sampling and sorting: the parts of the contract that every rule leans on.

Statistical tests here are chi-square tests at 1e-6: on fresh seeds a correct implementation would fail each comparison
with probability 1e-6. All seeds are fixed, so in fact they pass always or never.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.contract import choices
from onebit.contract.choices import (
    explored_label,
    explored_propensity,
    greedy_label,
    rival,
    sampled_label,
    share_greedy,
    softmax,
    sort_descending,
    uniform_label,
)
from onebit.contract.draws import (
    DECIDING,
    LEARNING,
    PLAY,
    TAUGHT,
    TEACHING,
    TIE,
    Draws,
    hash_id,
    seed_key,
    splitmix,
    uniform,
)
from onebit.contract.rule import LEARNT, Rule
from tests.rules.steps import Bench, Labels, Vector, decision, draws_of, grid_counts, probabilities_of, surprise, walk

ERROR_RATE = 1e-6
WORD = 2**64
RULES = (
    "bandit_perceptron",
    "banditron",
    "bpa",
    "conservative_ova",
    "epabf",
    "exact_pa",
    "gaptron",
    "offset_tree",
    "pab",
    "passive_aggressive",
    "perceptron",
    "policy_gradient",
)

numbers = st.floats(min_value=-1e3, max_value=1e3, allow_nan=False)
score_lists = st.lists(st.one_of(numbers, st.sampled_from([-1.0, 0.0, 1.0])), min_size=2, max_size=12)


def rule_of(name: str) -> Rule:
    """The rule of one file."""
    rule = importlib.import_module(f"onebit.rules.{name}").RULE
    assert isinstance(rule, Rule)
    return rule


def counted(choose: Callable[[Draws], int], classes: int, many: int, seed: int) -> Labels:
    """How often each label is chosen over many decision ids."""
    counts = np.zeros(classes, dtype=np.int64)
    with np.errstate(over="ignore"):
        for identity in range(many):
            counts[choose(draws_of(identity, seed))] += 1
    return counts


def drawn(many: int, index: int = 0, stream: int = DECIDING, seed: int = 0, first: int = 0) -> Vector:
    """One number for each of many neighbouring ids."""
    key = seed_key(seed)
    with np.errstate(over="ignore"):
        return np.array([uniform(Draws(key, np.uint64(first + i), stream), index) for i in range(many)])


# ---- draws


def mixed(word: int) -> int:
    """The output function of splitmix64, on Python's own integers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % WORD
    return word ^ (word >> 31)


def test_splitmix_gives_the_published_sequence() -> None:
    """The first outputs of splitmix64 from state 1234567, as other implementations list them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    golden = 0x9E3779B97F4A7C15
    with np.errstate(over="ignore"):
        for place, output in enumerate(published):
            assert int(splitmix(np.uint64((1234567 + (place + 1) * golden) % WORD))) == output


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    seed=st.integers(0, WORD - 1),
    identity=st.integers(0, WORD - 1),
    stream=st.sampled_from([DECIDING, LEARNING, TEACHING, TAUGHT]),
    index=st.integers(0, 2**39),
)
def test_a_draw_is_a_function_of_seed_id_stream_and_index(seed: int, identity: int, stream: int, index: int) -> None:
    """Wrapping 64-bit arithmetic gives what unbounded integers modulo 2^64 give, and the number is in [0, 1)."""
    golden = 0x9E3779B97F4A7C15
    key = mixed((seed + golden) % WORD)
    state = mixed((key + golden * identity) % WORD)
    state = mixed((state + golden * (stream * 2**40 + index + 1)) % WORD)
    with np.errstate(over="ignore"):
        number = uniform(Draws(seed_key(seed), hash_id(identity), stream), index)
        again = uniform(Draws(seed_key(seed), hash_id(identity), stream), index)
    assert number == (state >> 11) / 2**53 == again
    assert 0.0 <= number < 1.0


@pytest.mark.parametrize("index", [PLAY, TIE, 2, 1000])
@pytest.mark.parametrize("stream", [DECIDING, LEARNING])
def test_draws_are_uniform(index: int, stream: int) -> None:
    """8 chi-square tests with 64 cells over neighbouring ids, error rate 1e-6 each."""
    counts = np.histogram(drawn(8000, index, stream), bins=64, range=(0.0, 1.0))[0]
    assert surprise(counts, np.full(64, 1 / 64)) > ERROR_RATE


@pytest.mark.parametrize(
    ("name", "shift"),
    [
        ("next id", {"first": 1}),
        ("next index", {"index": 1}),
        ("other stream", {"stream": LEARNING}),
        ("next seed", {"seed": 1}),
        ("id far away", {"first": 1 << 40}),
    ],
)
def test_neighbouring_draws_are_independent(name: str, shift: dict[str, int]) -> None:
    """A chi-square test on a 12 x 12 grid of pairs (draw, its neighbour), error rate 1e-6 for each of 5 kinds."""
    counts = grid_counts(drawn(14400), drawn(14400, **shift), 12)
    assert surprise(counts, np.full(144, 1 / 144)) > ERROR_RATE, name


def test_the_lowest_bits_of_draws_are_uniform() -> None:
    """What is left of a draw after 2^-26 is uniform too: a chi-square test with 64 cells, error rate 1e-6."""
    counts = np.histogram((drawn(8000) * 2.0**26) % 1.0, bins=64, range=(0.0, 1.0))[0]
    assert surprise(counts, np.full(64, 1 / 64)) > ERROR_RATE


def test_string_ids_are_the_same_in_every_process_and_release() -> None:
    """Hashes written down once: Python's own hash changes from process to process, these must not."""
    assert int(hash_id("ticket-7")) == 0xECA4B841B88909CC
    assert int(hash_id("")) == 0xB4B2797457A0A6E4
    assert int(hash_id("größe")) == 0xE99A32C955E1F8F4
    assert int(hash_id(7)) == 7


def test_string_ids_do_not_collide_and_are_uniform() -> None:
    """10,000 names give 10,000 words (a collision among true random words: 3e-12); chi-square at 1e-6 over 64 cells."""
    words = [int(hash_id(f"ticket-{number}")) for number in range(10_000)]
    assert len(set(words)) == len(words)
    counts = np.bincount([word >> 58 for word in words], minlength=64)
    assert surprise(counts, np.full(64, 1 / 64)) > ERROR_RATE


# ---- ties


@settings(derandomize=True, max_examples=200, deadline=None)
@given(scores=score_lists, identity=st.integers(0, 10_000))
def test_the_greedy_label_has_the_highest_score(scores: list[float], identity: int) -> None:
    """Up to rounding, whatever is drawn; and a label that is alone at the top is always the one."""
    vector = np.array(scores)
    with np.errstate(over="ignore"):
        label = greedy_label(vector, len(scores), draws_of(identity))
    top = max(scores)
    assert scores[label] >= top - 1e-12 * (1.0 + abs(top))
    if sum(score > top - 1e-6 for score in scores) == 1:
        assert label == scores.index(top)


@pytest.mark.parametrize(
    "scores",
    [
        [0.0, 0.0],
        [0.0] * 7,
        [2.0, -1.0, 2.0, 2.0, 0.5],
        [1e6, 1e6 * (1 + 1e-15), 3.0],
        [-4.0, -4.0 - 1e-14, -5.0],
    ],
)
def test_ties_are_broken_evenly(scores: list[float]) -> None:
    """Over 6,000 ids the tied labels are taken equally often, the others never. Chi-square at 1e-6."""
    vector, classes = np.array(scores), len(scores)
    shares = np.zeros(classes)
    share_greedy(vector, classes, 0.0, shares)
    tied = np.isclose(vector, vector.max(), rtol=1e-12, atol=1e-12)
    assert np.allclose(shares, tied / tied.sum(), rtol=0, atol=1e-15)
    counts = counted(lambda draws: greedy_label(vector, classes, draws), classes, 6000, seed=3)
    assert surprise(counts, shares) > ERROR_RATE


def test_scores_further_apart_than_rounding_do_not_tie() -> None:
    """1e-9 apart is apart: only the upper label is taken, in all of 300 draws."""
    vector = np.array([1.0, 1.0 + 1e-9, 0.0])
    assert counted(lambda draws: greedy_label(vector, 3, draws), 3, 300, seed=0).tolist() == [0, 300, 0]


@settings(derandomize=True, max_examples=200, deadline=None)
@given(scores=score_lists, data=st.data())
def test_the_rival_is_the_best_of_the_others(scores: list[float], data: st.DataObject) -> None:
    """And the lowest of the tied, so that a step is a function of the state."""
    label = data.draw(st.integers(0, len(scores) - 1))
    others = [score for other, score in enumerate(scores) if other != label]
    found = rival(np.array(scores), len(scores), label)
    assert found != label
    assert scores[found] == max(others)
    assert all(scores[other] < max(others) for other in range(found) if other != label)


# ---- exploring and sampling


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("exploration", [0.0, 0.05, 0.5, 1.0])
def test_exploration_has_the_weights_it_says(classes: int, exploration: float) -> None:
    """6,000 ids against explored_propensity, and that against the paper: chi-square at 1e-6, 12 times."""
    greedy = classes - 1
    weights = np.array([explored_propensity(label, greedy, classes, exploration) for label in range(classes)])
    paper = np.full(classes, exploration / classes)
    paper[greedy] += 1.0 - exploration
    assert np.allclose(weights, paper, rtol=0, atol=1e-15)
    counts = counted(lambda draws: explored_label(greedy, classes, exploration, draws), classes, 6000, seed=5)
    assert surprise(counts, weights) > ERROR_RATE


@pytest.mark.parametrize("classes", [3, 7, 10])
def test_the_last_draw_before_exploration_ends_is_the_last_label(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where K u / gamma rounds up to K the label is still K - 1; the next draw is greedy again, and 0 is label 0."""
    rounded_up = 0
    for exploration in np.random.default_rng(0).uniform(0.001, 1.0, size=200).tolist():
        below = float(np.nextafter(exploration, 0.0))
        rounded_up += int(classes * below / exploration) == classes
        for drawn_number, label in ((below, classes - 1), (exploration, 0), (0.0, 0)):
            monkeypatch.setattr(choices, "uniform", lambda _draws, _index, number=drawn_number: number)
            assert explored_label(0, classes, exploration, draws_of(0)) == label
    assert rounded_up > 0


@settings(derandomize=True, max_examples=200, deadline=None)
@given(scores=score_lists, exploration=st.floats(0.0, 1.0))
def test_shared_exploration_is_the_mean_over_tied_labels(scores: list[float], exploration: float) -> None:
    """The probabilities of the decision are the weights averaged over the ways to break the tie."""
    vector, classes = np.array(scores), len(scores)
    shares, probabilities = np.zeros(classes), np.full(classes, np.nan)
    share_greedy(vector, classes, 0.0, shares)
    share_greedy(vector, classes, exploration, probabilities)
    mean = [
        sum(shares[greedy] * explored_propensity(label, greedy, classes, exploration) for greedy in range(classes))
        for label in range(classes)
    ]
    assert np.allclose(probabilities, mean, rtol=0, atol=1e-12)
    assert abs(probabilities.sum() - 1.0) < 1e-12


@pytest.mark.parametrize(
    "weights", [[1.0], [0.5, 0.5], [0.0, 0.2, 0.0, 0.8], [0.7, 0.1, 0.1, 0.05, 0.05], [0.1] * 10, [0.001, 0.999]]
)
def test_sampled_labels_have_their_probabilities(weights: list[float]) -> None:
    """10,000 ids against the probabilities: chi-square at 1e-6, 6 times; what has probability 0 never happens."""
    vector = np.array(weights)
    counts = counted(lambda draws: sampled_label(vector, len(weights), draws), len(weights), 10_000, seed=7)
    assert surprise(counts, vector) > ERROR_RATE


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_uniform_labels_are_uniform(classes: int) -> None:
    """6,000 ids: chi-square at 1e-6, 3 times."""
    counts = counted(lambda draws: uniform_label(classes, draws), classes, 6000, seed=9)
    assert surprise(counts, np.full(classes, 1 / classes)) > ERROR_RATE


@settings(derandomize=True, max_examples=200, deadline=None)
@given(scores=score_lists, shift=numbers)
def test_softmax(scores: list[float], shift: float) -> None:
    """Sums to one, keeps log ratios, does not feel a shift, and does not overflow at scores of 1000."""
    vector, classes = np.array(scores), len(scores)
    probabilities, moved = np.full(classes, np.nan), np.full(classes, np.nan)
    softmax(vector, classes, probabilities)
    softmax(vector + shift, classes, moved)
    assert abs(probabilities.sum() - 1.0) < 1e-12
    assert np.allclose(probabilities, moved, rtol=1e-9, atol=1e-12)
    large = probabilities > 1e-200
    reference = probabilities.argmax()
    assert np.allclose(
        np.log(probabilities[large]) - np.log(probabilities[reference]), vector[large] - vector[reference], atol=1e-9
    )


# ---- sorting


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    keys=st.lists(st.one_of(st.floats(allow_nan=False), st.sampled_from([0.0, 1.0])), max_size=60),
    tail=st.lists(st.floats(allow_nan=False), max_size=4),
)
def test_sort_descending(keys: list[float], tail: list[float]) -> None:
    """Largest first, each label still beside its key, nothing lost, and what lies beyond the count untouched."""
    count = len(keys)
    sorted_keys = np.array(keys + tail, dtype=np.float64)
    labels = np.arange(count + len(tail), dtype=np.float64)
    sort_descending(sorted_keys, labels, count)
    assert sorted_keys[:count].tolist() == sorted(keys, reverse=True)
    assert sorted(labels[:count].tolist()) == list(range(count))
    assert all(sorted_keys[place] == keys[int(labels[place])] for place in range(count))
    assert sorted_keys[count:].tolist() == tail
    assert labels[count:].tolist() == list(range(count, count + len(tail)))


def test_sort_descending_at_a_thousand_classes() -> None:
    """Long enough that every gap of Shell's method is used."""
    keys = np.random.default_rng(0).normal(size=1000)
    sorted_keys, labels = keys.copy(), np.arange(1000.0)
    sort_descending(sorted_keys, labels, 1000)
    assert np.array_equal(sorted_keys, np.sort(keys)[::-1])
    assert np.array_equal(keys[labels.astype(np.int64)], sorted_keys)


# ---- decide against probabilities, for every rule


@pytest.mark.parametrize("name", RULES)
def test_frequencies_of_decisions_match_probabilities(name: str) -> None:
    """Chi-square at 1e-6 for each rule, each of its examples and two score vectors (one all ties), 1,500 ids."""
    rule = rule_of(name)
    for place, options in enumerate(rule.examples):
        params, memory = rule.settle(4, options)
        memory[LEARNT] = 8  # so that an exploration that falls with time is neither 0 nor 1
        bench = Bench(rule, params, memory)
        generator = np.random.default_rng(place)
        for scores in (np.zeros(bench.heads), 0.4 * generator.normal(size=bench.heads)):
            probabilities = probabilities_of(bench, scores, 0.5)
            assert abs(probabilities.sum() - 1.0) < 1e-12
            assert (probabilities >= 0.0).all()
            counts = np.zeros(4, dtype=np.int64)
            for identity in range(1500):
                counts[decision(bench, scores, 0.5, identity, seed=11).label] += 1
            assert surprise(counts, probabilities) > ERROR_RATE, (name, options, scores, counts, probabilities)


@pytest.mark.parametrize("name", RULES)
def test_a_decision_asked_twice_is_the_same_decision(name: str) -> None:
    """For the same id; and another id changes it at least once in 300 (all labels tie), where the rule draws at all."""
    rule = rule_of(name)
    for options in rule.examples:
        params, memory = rule.settle(3, options)
        bench = Bench(rule, params, memory)
        scores = np.zeros(bench.heads)
        first = [decision(bench, scores, 0.5, identity) for identity in range(300)]
        assert first == [decision(bench, scores, 0.5, identity) for identity in range(300)]
        assert (len({choice.label for choice in first}) == 1) == (probabilities_of(bench, scores, 0.5).max() == 1.0)


@pytest.mark.parametrize("name", RULES)
def test_an_empty_row_is_played_as_all_ties_are(name: str) -> None:
    """x = 0 gives scores 0 and norm 0: no division by it, the same decision and probabilities as for any other norm."""
    rule = rule_of(name)
    for options in rule.examples:
        params, memory = rule.settle(3, options)
        bench = Bench(rule, params, memory)
        scores = np.zeros(bench.heads)
        assert np.array_equal(probabilities_of(bench, scores, 0.0), probabilities_of(bench, scores, 1.0))
        assert all(decision(bench, scores, 0.0, number) == decision(bench, scores, 1.0, number) for number in range(50))


@pytest.mark.parametrize("name", RULES)
def test_two_classes_run(name: str) -> None:
    """K = 2 on two opposite rows: nothing but numbers, both labels are tried, and the greedy label is learnt in 140 rounds."""
    rule = rule_of(name)
    labels = np.random.default_rng(0).integers(0, 2, size=240)
    features = np.where(labels == 0, 1.0, -1.0)[:, None] * np.array([[0.6, -0.8]])
    for options in rule.examples:
        params, memory = rule.settle(2, options)
        walked = walk(Bench(rule, params, memory), features, labels, seed=1)
        assert np.isfinite(walked.weights).all()
        assert set(walked.played.tolist()) == {0, 1}
        assert (walked.greedy[140:] == labels[140:]).mean() > 0.9, (name, options)
