"""The space of `auto` for sparse rows, step by step in plain Python: what holds whatever the rows and the answers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from onebit.auto import FEEDBACK_NUMBERS, LABEL, REWARD, RIGHT
from onebit.auto.sparse import scoring
from onebit.auto.sparse.learning import bound_trusts, forget_all
from onebit.auto.sparse.scoring import raise_chance
from onebit.auto.sparse.space import AutoSparse, absorb, score, write_hopes
from onebit.contract.candidates import ALL_CLASSES
from onebit.spaces.sparse import SparseRows

FEATURES, ROUNDS = 9, 30
Array = np.ndarray[Any, Any]

few = settings(max_examples=25, deadline=None, derandomize=True)


class Stream:
    """Rows of a few values of either sign, labels that were played, and how right they were, of some or of all classes."""

    def __init__(self, seed: int, classes: int) -> None:
        generator = np.random.default_rng(seed)
        self.classes = classes
        sizes = generator.integers(1, FEATURES + 1, ROUNDS)
        self.starts = np.append(0, np.cumsum(sizes))
        self.columns = np.concatenate([np.sort(generator.permutation(FEATURES)[:size]) for size in sizes])
        self.values = generator.normal(size=len(self.columns)) * np.exp(generator.normal(size=len(self.columns)))
        self.labels = generator.integers(0, classes, ROUNDS)
        self.rewards = generator.choice([0.0, 1.0, 0.3], ROUNDS)
        self.right = self.rewards > generator.random(ROUNDS)
        self.about = generator.random((ROUNDS, classes)) < 0.7
        self.about[np.arange(ROUNDS), self.labels] = True
        self.about[np.arange(ROUNDS), (self.labels + 1) % classes] = True

    @property
    def rows(self) -> SparseRows:
        return SparseRows(self.values, self.columns.astype(np.int32), self.starts.astype(np.int64), FEATURES)

    def scaled(self, columns: Array, rows: Array) -> SparseRows:
        values = self.values * columns[self.columns] * np.repeat(rows, np.diff(self.starts))
        return self.rows._replace(values=values)

    def heard(self, row: int, places: Array) -> Array:
        """What was heard of a round, where class i is called places[i]."""
        told = np.zeros(self.classes + FEEDBACK_NUMBERS)
        told[places[self.about[row]]] = 1.0
        told[self.classes + LABEL] = places[self.labels[row]]
        told[self.classes + RIGHT] = self.right[row]
        told[self.classes + REWARD] = self.rewards[row]
        return told


streams = st.builds(Stream, st.integers(0, 2**32 - 1), st.integers(2, 6))


def walked(stream: Stream, rows: SparseRows | None = None, places: Array | None = None) -> tuple[AutoSparse, Array]:
    """The space after all rounds, and what it had said of every row before it learnt from it."""
    space = AutoSparse.empty(stream.classes, FEATURES, np.float64)
    said = np.zeros((ROUNDS, 3 * stream.classes))
    places = np.arange(stream.classes) if places is None else places
    for row in range(ROUNDS):
        assert np.isfinite(score(space, rows or stream.rows, row, said[row]))
        write_hopes(space, said[row], ALL_CLASSES)
        absorb(space, rows or stream.rows, row, stream.heard(row, places), 1.0)
    return space, said


@few
@given(stream=streams)
def test_beliefs_are_probabilities_and_trusts_are_a_regression(stream: Stream) -> None:
    space, said = walked(stream)
    beliefs, hopes, logits = np.split(said, 3, axis=1)
    np.testing.assert_allclose(beliefs.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.log(beliefs[:, :1] / beliefs), logits[:, :1] - logits, atol=1e-6)
    assert (beliefs > 0.0).all()
    assert (hopes >= beliefs * (1.0 - 1e-12)).all()
    assert (hopes <= 1.0).all()
    assert (space.trusts[[scoring.OPINION, scoring.SCORE]] >= 0.0).all()
    assert space.trusts[scoring.COMMON] >= (-scoring.MOST_TRUST if stream.classes == 2 else 0.0)
    assert (space.trusts <= scoring.MOST_TRUST).all()
    np.testing.assert_array_equal(space.doubts, space.doubts.T)
    assert (np.linalg.eigvalsh(space.doubts) > 0.0).all()
    assert sum(one.share for one in space.report().members) == pytest.approx(1.0)


@few
@given(stream=streams, seed=st.integers(0, 99))
def test_scales_of_features_and_rows_change_nothing(stream: Stream, seed: int) -> None:
    """Up to rounding, once every feature was seen in one row, which tells their sizes apart."""
    generator = np.random.default_rng(seed)
    stream.starts = np.append(0, FEATURES + stream.starts)[: ROUNDS + 1]
    stream.columns = np.concatenate([np.arange(FEATURES), stream.columns])[: stream.starts[-1]]
    stream.values = np.concatenate([np.ones(FEATURES), stream.values])[: stream.starts[-1]]
    columns, rows = 10.0 ** generator.uniform(-3, 3, FEATURES), 10.0 ** generator.uniform(-3, 3, ROUNDS)
    plain, scaled = walked(stream)[1], walked(stream, stream.scaled(columns, rows))[1]
    np.testing.assert_allclose(scaled, plain, rtol=1e-6, atol=1e-9)


@few
@given(stream=streams, seed=st.integers(0, 99))
def test_names_of_classes_change_nothing(stream: Stream, seed: int) -> None:
    places = np.random.default_rng(seed).permutation(stream.classes)
    blocks = walked(stream)[1].reshape(ROUNDS, 3, stream.classes)
    renamed = walked(stream, places=places)[1].reshape(ROUNDS, 3, stream.classes)
    np.testing.assert_allclose(renamed[:, :, places], blocks, rtol=1e-7, atol=1e-10)


@few
@given(stream=streams, seed=st.integers(0, 99))
def test_hopes_that_are_not_worked_out_would_not_have_been_the_highest(stream: Stream, seed: int) -> None:
    space, _ = walked(stream)
    generator, said = np.random.default_rng(seed), np.zeros(3 * stream.classes)
    scale = space.trusts[scoring.SCORE] ** 2 * space.facts[scoring.RESIDUALS] / space.facts[scoring.ROUNDS]
    for row in range(5):
        score(space, stream.rows, row, said)
        candidates = np.flatnonzero(generator.random(stream.classes) < 0.6).astype(np.int64)
        write_hopes(space, said, candidates)
        able = candidates if len(candidates) else np.arange(stream.classes)
        total = said[able].sum()
        everything = [raise_chance(said[i] / total, scale * space.class_values[scoring.VARIANCE, i]) for i in able]
        raised_here = said[stream.classes + able] > said[able]
        best = int(np.argmax(everything))
        assert raised_here[best] or everything[best] == pytest.approx(said[able[best]] / total)


@few
@given(stream=streams)
def test_what_is_forgotten_is_as_in_the_beginning_and_features_and_background_are_kept(stream: Stream) -> None:
    space, _ = walked(stream)
    features, background = space.features.copy(), space.facts[[scoring.LENGTHS, scoring.ROWS]]
    forget_all(space)
    fresh = AutoSparse.empty(stream.classes, FEATURES, np.float64)
    assert np.array_equal(space.features, features)
    assert np.array_equal(space.facts[[scoring.LENGTHS, scoring.ROWS]], background)
    fresh.facts[[scoring.LENGTHS, scoring.ROWS]] = background
    for name in ("weights", "constants", "counts", "facts", "trusts", "doubts"):
        assert np.array_equal(getattr(space, name), getattr(fresh, name)), name


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_a_trust_at_its_bound_leaves_the_others_at_what_is_most_likely_there(seed: int) -> None:
    generator = np.random.default_rng(seed)
    root, trusts = generator.normal(size=(3, 3)), np.array([15.0, 15.0, -0.5])
    doubts = root @ root.T + 0.1 * np.eye(3)
    precision = np.linalg.inv(doubts)
    nearest = trusts[:2] - np.linalg.solve(precision[:2, :2], precision[:2, 2]) * (0.0 - trusts[2])
    bound_trusts(trusts, doubts, 0.0)
    np.testing.assert_allclose(trusts, [*np.clip(nearest, 0.0, scoring.MOST_TRUST), 0.0], rtol=1e-6)


@few
@given(stream=streams)
def test_a_class_that_was_never_right_is_neither_rare_nor_common_and_all_rows_that_were_right_are_usual(
    stream: Stream,
) -> None:
    space, _ = walked(stream)
    space.counts[0] = 0.0
    score(space, stream.rows, 3, np.zeros(3 * stream.classes))
    common = space.class_values[scoring.COMMON]
    assert common[0] == 0.0
    assert space.counts @ common == pytest.approx(0.0, abs=1e-9 * (1.0 + space.counts.sum()))
    assert (np.diff(common[1:][np.argsort(space.counts[1:])][(space.counts[1:] == 0.0).sum() :]) >= 0.0).all()


@few
@given(stream=streams, more=st.integers(1, 12))
def test_room_for_more_changes_nothing_of_what_is_known(stream: Stream, more: int) -> None:
    space, _ = walked(stream)
    grown = space.copy_into(AutoSparse.empty(stream.classes + more, FEATURES + more, np.float64))
    before, after = np.zeros(3 * stream.classes), np.zeros(3 * (stream.classes + more))
    for row in range(5):
        score(space, stream.rows, row, before)
        score(grown, stream.rows, row, after)
        logits = after[2 * (stream.classes + more) :]
        np.testing.assert_array_equal(logits[: stream.classes], before[2 * stream.classes :])
        assert not logits[stream.classes :].any()


def test_a_class_far_behind_all_others_is_still_possible() -> None:
    stream = Stream(1, 3)
    space, _ = walked(stream)
    space.trusts[scoring.SCORE] = 1e6  # as no answers could make it
    said = np.zeros(9)
    assert np.isfinite(score(space, stream.rows, 0, said))
    assert (said[:3] > 0.0).all()
    absorb(space, stream.rows, 0, stream.heard(0, np.arange(3)), 1.0)
    assert np.isfinite(space.facts).all()
    assert np.isfinite(space.trusts).all()


def test_what_is_no_number_is_seen() -> None:
    stream = Stream(2, 3)
    for name in ("weights", "constants", "counts", "facts", "trusts"):
        space, _ = walked(stream)
        getattr(space, name).flat[:] = np.nan
        assert np.isnan(score(space, stream.rows, 0, np.zeros(9))), name


def test_raised_is_the_probability_one_deviation_up_and_rises_with_both() -> None:
    for chance in (1e-6, 0.1, 0.5, 0.999):
        for variance in (0.0, 0.3, 4.0, 100.0):
            up = special.expit(special.logit(chance) + np.sqrt(variance))
            np.testing.assert_allclose(raise_chance(chance, variance), up, rtol=1e-9)
    chances, variances = np.linspace(0.0, 1.0, 101), np.linspace(0.0, 2000.0, 101)
    for variance in variances:
        values = [raise_chance(chance, variance) for chance in chances]
        assert (np.diff(values) >= 0.0).all()
        assert values[0] == 0.0
        assert values[-1] == 1.0
    for chance in chances[1:-1]:
        values = [raise_chance(chance, variance) for variance in variances]
        assert values[0] == pytest.approx(chance)
        assert (np.diff(values) >= 0.0).all()
        assert (np.diff(values)[variances[1:] < 800.0] > 0.0).all() or chance > 0.9
        assert all(chance <= value <= 1.0 for value in values)
