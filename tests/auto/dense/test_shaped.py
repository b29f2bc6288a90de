"""Classes that are normal distributions on principal components: against a twin, and in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from onebit.auto.dense import basis as bases
from onebit.auto.dense import shaped_factors
from onebit.auto.dense.basis import READY, Basis, count_components, do_work, keep_row, write_components
from onebit.auto.dense.shaped import clear_shaped, forget_shaped, learn_shaped, score_shaped
from onebit.auto.dense.shaped_factors import POSITION, SCRATCH, Shaped, needs_shared_factor
from tests.auto.streams import Array
from tests.oracles.auto_shaped import SlowShaped

Fixture = pytest.MonkeyPatch


def normals(rows: int, classes: int, components: int, seed: int) -> tuple[Array, Array]:
    """Classes with shapes of their own, the last of which never comes; a component that is constant, and rows that are far out."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes - 1, size=rows)
    means, shapes = (
        generator.normal(size=(classes, components)),
        generator.normal(size=(classes, components, components)),
    )
    shapes /= np.sqrt(components)
    z = np.array([means[label] + shapes[label] @ generator.normal(size=components) for label in labels])
    z[:, components // 2] = 0.0
    z[::17] *= 30.0
    return z, labels


class Pair:
    """Shaped clusters and their twin, which hear the same."""

    def __init__(self, heads: int, components: int, dtype: type, shared: bool = False) -> None:
        self.fast = Shaped.empty(heads, components, dtype, shared)
        self.slow = SlowShaped(heads, components, dtype, shared)
        self.scores, self.variances = np.zeros(3 * heads), np.zeros(3 * heads)

    def round(self, z: Array, label: int, generator: np.random.Generator) -> None:
        """Scores that agree, and one bit about the class thought best, or any."""
        heads = self.slow.heads
        z = z.astype(self.slow.dtype)
        about = np.ones(heads) if generator.random() < 0.7 else (generator.random(heads) < 0.7).astype(np.float64)
        about[label] = 1.0
        self.scores[:], self.variances[:] = np.nan, np.nan
        score_shaped(self.fast, z, self.scores, self.variances, about)
        scores, variances = self.slow.score(z, about)
        near = 1e-7 if self.slow.dtype is np.float64 else 2e-3
        np.testing.assert_allclose(self.scores.reshape(3, heads), scores, rtol=near, atol=near)
        np.testing.assert_allclose(self.variances.reshape(3, heads), variances, rtol=near, atol=near)
        beliefs = softmax(np.where(about > 0.0, scores, -np.inf), axis=1)
        played = int(np.argmax(beliefs[2])) if generator.random() < 0.6 else label
        found = label if played == label or heads == 2 else -1
        learn_shaped(self.fast, z, played, played == label, beliefs.ravel(), found)
        self.slow.learn(z, played, played == label, beliefs, found)
        np.testing.assert_allclose(self.fast.trusts, [self.slow.logarithms, self.slow.gradients], rtol=1e-2, atol=1e-4)
        self.slow.logarithms, self.slow.gradients = self.fast.trusts[0].copy(), self.fast.trusts[1].copy()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("heads", "components", "shared"), [(4, 11, False), (2, 3, False), (5, 26, False), (4, 11, True)]
)
def test_scores_agree_with_the_twin(heads: int, components: int, shared: bool, dtype: type) -> None:
    pair, generator = Pair(heads, components, dtype, shared), np.random.default_rng(1)
    for z, label in zip(*normals(60, max(3, heads), components, seed=2), strict=True):
        pair.round(z, int(label), generator)
    assert (pair.fast.counts[:2] > 3).all()
    clear_shaped(pair.fast)
    pair.slow.begin()
    for z, label in zip(*normals(12, max(3, heads), components, seed=3), strict=True):
        pair.round(z, int(label), generator)


def told(shaped: Shaped, rows: Array, labels: Array) -> None:
    """Every row is one of a class that was right."""
    heads = len(shaped.counts)
    scores, variances = np.zeros(3 * heads), np.zeros(3 * heads)
    for z, label in zip(rows.astype(shaped.places.dtype), labels, strict=True):
        score_shaped(shaped, z, scores, variances, np.ones(heads))
        learn_shaped(shaped, z, int(label), True, softmax(scores.reshape(3, heads), axis=1).ravel(), int(label))


def scored(shaped: Shaped, rows: Array) -> Array:
    heads, found = len(shaped.counts), []
    for z in rows.astype(shaped.places.dtype):
        scores = np.zeros(6 * heads)
        score_shaped(shaped, z, scores[: 3 * heads], scores[3 * heads :], np.ones(heads))
        found.append(scores)
    return np.array(found)


def test_what_is_not_known_is_alike_for_all_classes() -> None:
    z, _ = normals(5, 3, 6, seed=1)
    shaped = Shaped.empty(3, 6, np.float64, False)
    np.testing.assert_array_equal(scored(shaped, z), 0.0)
    told(shaped, z[:1], np.array([1]))
    np.testing.assert_array_equal(scored(shaped, z), 0.0)  # one row has no variance


def test_constant_components_do_not_favour_any_class() -> None:
    """As if they were not there, however unequal the classes: 0.3's clusters favoured those that were often right."""
    z, labels = normals(80, 3, 6, seed=4)
    labels = np.where(np.arange(80) % 10 == 0, 1, 0)
    wide = np.concatenate([z, np.zeros((80, 6))], axis=1)
    alone, among = Shaped.empty(3, 12, np.float64, False), Shaped.empty(3, 12, np.float64, False)
    told(alone, wide, labels)
    wide[:, 9] = 1e-9 * np.arange(80)
    told(among, wide, labels)
    np.testing.assert_allclose(scored(among, wide), scored(alone, wide), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_factors_taken_one_in_a_round_become_those_taken_at_once(shared: bool, monkeypatch: Fixture) -> None:
    """The work is done in pieces while rows are learnt; scores stay finite, and at the end of a turn nothing is stale but by those rows."""
    z, labels = normals(200, 6, 9, seed=5)
    whole, cut = Shaped.empty(6, 9, np.float64, shared), Shaped.empty(6, 9, np.float64, shared)
    told(whole, z, labels)
    monkeypatch.setattr(shaped_factors, "PIECE_MULTIPLICATIONS", 1)
    turns = []
    for row in range(len(z)):
        told(cut, z[row : row + 1], labels[row : row + 1])
        turns.append(int(cut.facts[POSITION]))
    assert {1, 2, 3, 4, 5, 6} & set(turns) == {2, 3, 4, 5, 6}  # a place a round
    np.testing.assert_allclose(cut.within, whole.within, rtol=0.3, atol=0.3)
    away, usual = scored(cut, z[-20:]) - scored(whole, z[-20:]), abs(scored(whole, z[-20:])).mean()
    assert abs(away).mean() < 0.1 * usual


@pytest.mark.parametrize("shared", [False, True])
def test_new_classes_are_as_those_that_were_never_right(shared: bool) -> None:
    z, labels = normals(60, 4, 7, seed=6)
    shaped = Shaped.empty(4, 7, np.float32, shared)
    told(shaped, z[:40], labels[:40])
    grown = shaped.copy_into(Shaped.empty(9, 7, np.float32, shared))
    before, after = (scored(one, z[40:]).reshape(20, 6, -1) for one in (shaped, grown))
    np.testing.assert_array_equal(after[:, :, :4], before)
    np.testing.assert_array_equal(after[:, :, 4:], np.repeat(before[:, :, 3:], 5, axis=2))
    room = Shaped.empty(9, 7, np.float32, shared)
    told(room, z[:40], labels[:40])
    for name, array in grown._asdict().items():
        assert array.shape == getattr(room, name).shape, name
    told(grown, z[40:], labels[40:] + 5)
    assert (grown.counts[5:8] > 0).all()


@pytest.mark.parametrize("shared", [False, True])
def test_nothing_is_left_after_a_restart(shared: bool) -> None:
    z, labels = normals(60, 4, 7, seed=7)
    shaped, fresh = Shaped.empty(4, 7, np.float64, shared), Shaped.empty(4, 7, np.float64, shared)
    told(shaped, z[:33], labels[:33])
    forget_shaped(shaped)
    for one in (shaped, fresh):
        told(one, z[33:], labels[33:])
    np.testing.assert_array_equal(scored(shaped, z), scored(fresh, z))
    np.testing.assert_array_equal(shaped.trusts, fresh.trusts)


def test_scoring_changes_nothing_that_is_remembered() -> None:
    z, labels = normals(40, 4, 7, seed=8)
    shaped = Shaped.empty(4, 7, np.float64, False)
    told(shaped, z, labels)
    before = {name: array.copy() for name, array in shaped._asdict().items() if name not in SCRATCH}
    scored(shaped, 3.0 * z)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(shaped, name), array, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_far_out_are_drawn_nearer_in_scoring_and_learning(dtype: type) -> None:
    z, labels = normals(60, 4, 7, seed=9)
    z[:, 0] += 0.1
    far, near = Shaped.empty(4, 7, dtype, False), Shaped.empty(4, 7, dtype, False)
    told(near, z, labels)
    out = np.arange(60) % 17 == 0  # those that are 30 times as far out as usual
    told(far, np.where(out[:, None], 1e25 * z, z), labels)
    np.testing.assert_allclose(scored(far, z), scored(near, z), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(scored(near, 1e25 * z), scored(near, 1e3 * z), rtol=1e-3, atol=1e-3)


def test_many_classes_share_a_factor() -> None:
    assert not needs_shared_factor(128, 64)
    assert needs_shared_factor(129, 64)
    assert not needs_shared_factor(1000, 10)


def test_digits_are_told_apart_in_one_pass(monkeypatch: Fixture) -> None:
    """Components of the first rows, and one bit a round: most of the later rows are right."""
    from sklearn.datasets import load_digits

    monkeypatch.setattr(bases, "MOST_COMPONENTS", 8)
    monkeypatch.setattr(bases, "STAGES", (64,))
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))[:300]
    X, y = X[order].astype(np.float32), y[order]
    basis, shaped = Basis.empty(64, np.float32), Shaped.empty(10, count_components(64), np.float32, False)
    z, scores, variances, about, right = np.zeros(8, np.float32), np.zeros(30), np.zeros(30), np.ones(10), []

    def learn(x: Array, label: int, correct: bool) -> None:
        learn_shaped(
            shaped, z, label, correct, softmax(scores.reshape(3, 10), axis=1).ravel(), label if correct else -1
        )

    def score(x: Array) -> None:
        write_components(basis, x, z)
        score_shaped(shaped, z, scores, variances, about)

    for x, truth in zip(X, y, strict=True):
        score(x)
        label = int(np.argmax(scores[20:] + np.sqrt(variances[20:])))
        right.append(label == truth)
        learn(x, label, right[-1])
        keep_row(basis, x, label, right[-1], 1.0)
        if do_work(basis) == READY:
            clear_shaped(shaped)
            for row, (heard, correct, _) in zip(basis.rows[: len(right)], basis.heard, strict=False):
                score(row)
                learn(row, int(heard), correct > 0.0)
    assert np.mean(right[-100:]) > 0.75
