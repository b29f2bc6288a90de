"""Margins are those known by hand, by construction, by brute force and by another formulation; what has none is told so, and why.

Nothing here is left to chance: every draw has a fixed seed, so that a test that passes once passes always.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onebit.checks.examples import refused
from onebit.contract.installation import install_command
from onebit.data import plane, source_of
from onebit.spaces.kernels import Kernel
from onebit.theory import Margin, margin
from onebit.theory.programs import minimise_on_simplex

pytest.importorskip("clarabel", reason="clarabel is in the extra `theory`")

Numbers = NDArray[np.float64]
GROUPS = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
XOR = [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]], [0, 0, 1, 1]
HERE = os.environ.get("ONEBIT_DATA", "")


def strong_value(X: Numbers, y: NDArray[np.int64], w: Numbers) -> float:
    """The margin of some vectors by the definition of strong separability, in plain loops."""
    sides = [
        2.0 * (x @ w[i]) * (1.0 if i == label else -1.0) for x, label in zip(X, y, strict=True) for i in range(len(w))
    ]
    return float(min(sides) / math.sqrt(np.square(w).sum()))


def weak_value(X: Numbers, y: NDArray[np.int64], w: Numbers) -> float:
    """The same for weak separability."""
    leads = [x @ (w[label] - w[i]) for x, label in zip(X, y, strict=True) for i in range(len(w)) if i != label]
    return float(min(leads) / math.sqrt(np.square(w).sum()))


VALUES = {"strong": strong_value, "weak": weak_value}


def separable_rows(seed: int, rows: int, columns: int, classes: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Rows of which the best class of a random classifier leads clearly; the first rows have all classes."""
    generator = np.random.default_rng([41, seed])
    w = generator.normal(size=(classes, columns))
    X = np.concatenate([w, generator.normal(size=(40 * rows, columns))])
    scores = X @ w.T
    leads = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
    kept = np.flatnonzero(leads > 0.3)[:rows]
    return X[kept], scores[kept].argmax(axis=1)


def assert_certain(found: Margin, value: float, relative: float = 1e-6) -> None:
    """What was found is this margin, proved from both sides."""
    assert found.separable
    assert found.certified
    assert found.margin == pytest.approx(value, rel=relative)
    assert found.upper == pytest.approx(value, rel=relative)
    assert found.slack >= -1e-6 * value


# --- by hand -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_two_points_and_a_square(kind: str) -> None:
    assert_certain(margin([[0.0, 1.0], [1.0, 0.0]], ["up", "right"], kind=kind), 1.0)
    square = margin([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], [0, 0, 1, 1], kind=kind)
    assert_certain(square, math.sqrt(2.0))
    assert pytest.approx(math.sqrt(2.0)) == square.R
    assert square.vectors is not None
    assert square.vectors == pytest.approx(np.array([[1.0, 0.0], [-1.0, 0.0]]) / math.sqrt(2.0), abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_corners_of_a_simplex(classes: int) -> None:
    corners, labels = np.eye(classes), range(classes)
    assert_certain(margin(corners, labels, kind="strong"), 2.0 / classes)
    assert_certain(margin(corners, labels, kind="weak"), 1.0 / math.sqrt(classes - 1))


def test_with_a_bias_a_line_need_not_pass_the_origin() -> None:
    X, y = [[1.0], [3.0]], [0, 1]
    assert not margin(X, y, kind="weak").separable
    # The origin is 1 / sqrt 5 from the segment between (1, 1) and -(3, 1), and two classes share the length.
    found = margin(X, y, kind="weak", bias=True)
    assert_certain(found, math.sqrt(2.0 / 5.0))
    assert pytest.approx(math.sqrt(10.0)) == found.R


def test_groups_by_hand() -> None:
    line = margin([[0.0], [3.0], [1.0]], ["a", "c", "b"], kind="group", groups=[["c", "a", "b"]])
    assert_certain(line, 0.5)
    assert line.groups in ((("a", "b", "c"),), (("c", "b", "a"),))  # in the order along the vector
    assert line.between is None
    assert line.within is not None
    assert sorted(line.thresholds[0] / line.within[0, 0]) == pytest.approx([0.5, 2.0], abs=1e-6)
    X = [[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [-1.0, 1.0]]
    assert_certain(
        margin(X, [0, 1, 2, 3], kind="group", groups=[[0, 1], [2, 3]]), 1.0 / math.sqrt(8.0)
    )  # both share the length
    assert_certain(margin(X[:3], [0, 1, 2], kind="group", groups=[[0, 1], [2]]), 0.5)
    assert_certain(margin(X, [0, 0, 1, 1], kind="group", groups=[[0], [1]]), math.sqrt(2.0))  # of single classes: weak


def test_classes_that_interleave_are_not_in_order() -> None:
    """Any two rows of A at 0 and 2 and B at 1 differ by 1, but no threshold parts A from B."""
    found = margin([[0.0], [2.0], [1.0]], ["A", "A", "B"], kind="group", groups=[["A", "B"]])
    assert not found.separable


# --- by construction, and by brute force ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [20, 2_000, 100_000])
def test_sets_in_the_plane_have_the_margin_they_are_made_with(rounds: int) -> None:
    made: list[tuple[str, Callable[[int, int], Any], Numbers]] = [
        ("strong", plane.strong2d, plane.strong2d_vectors()),
        ("weak", plane.weak2d, plane.weak2d_vectors()),
    ]
    for kind, make, vectors in made:
        X, y = make(rounds, 1)
        found = margin(X, y, kind=kind, classes=[0, 1, 2])
        assert found.certified
        assert found.margin >= 0.1 * (1.0 - 1e-7)
        assert found.R <= 1.0
        some = np.unique(np.concatenate([np.arange(20), np.linspace(0, rounds - 1, 500).astype(int)]))
        value = VALUES[kind]
        assert value(X[some].astype(np.float64), y[some], np.asarray(found.vectors)) >= found.margin * (1.0 - 1e-7)
        if rounds == 20:
            assert value(X.astype(np.float64), y, vectors) <= found.upper
    if rounds == 100_000:  # the more rows, the nearer
        assert found.margin < 0.1001


@pytest.mark.parametrize(
    ("name", "made", "groups"),
    [
        ("group2d", plane.group2d_vectors(), GROUPS),
        ("group2d-radial", plane.group2d_radial_vectors(), GROUPS),
        ("group2d-unequal", plane.group2d_unequal_vectors(), [[0, 1, 2], [3, 4, 5, 6], [7]]),
    ],
)
def test_group_sets_have_the_margin_they_are_made_with(
    name: str, made: plane.GroupVectors, groups: list[list[int]]
) -> None:
    found = margin(name, kind="group", groups=groups, rounds=3_000, seed=2)
    assert found.certified
    assert 0.02 * (1.0 - 1e-7) <= found.margin < 0.03
    assert [set(group) for group in found.groups] == [set(group) for group in groups]
    data = source_of(name).make(3_000, 2)
    X, y = data.X.astype(np.float64), data.y
    assert found.between is not None
    assert found.within is not None
    assert np.square(found.between).sum() <= 1.0 + 1e-9
    assert np.square(found.within).sum() <= 1.0 + 1e-9
    leads = X @ found.between.T
    for place, group in enumerate(found.groups):
        mine = np.isin(y, group)
        assert (
            leads[mine, place] >= np.delete(leads[mine], place, axis=1).max(axis=1) + found.margin * (1 - 1e-7)
        ).all()
        parts = [X[y == one] @ found.within[place] for one in group]
        for before, after in itertools.combinations(parts, 2):
            assert before.max() + 2.0 * found.margin * (1 - 1e-7) <= after.min()
        for (before, after), threshold in zip(itertools.pairwise(parts), found.thresholds[place], strict=True):
            assert before.max() < threshold < after.min()
    own = np.array([next(place for place, group in enumerate(groups) if one in group) for one in y])
    rooms = [weak_value(X, own, made.between)]
    for place, cuts in enumerate(made.thresholds):
        rooms += [float(np.abs(X[own == place] @ made.within[place] - cut).min()) for cut in cuts]
    assert 0.02 * (1.0 - 1e-7) <= min(rooms) <= found.upper


def test_no_angle_has_a_larger_margin_than_was_found_in_the_plane() -> None:
    """Within one group of the plane all that can be chosen is an angle and an order: both are tried one by one."""
    angles = np.linspace(0.0, 2.0 * np.pi, 40_001)
    turns = np.stack([np.cos(angles), np.sin(angles)])
    for seed, first, classes in ((0, 0, 2), (1, 0, 3), (2, 3, 4)):
        X, y = plane.group2d_unequal(120, seed, margin=0.04)
        mine = (y >= first) & (y < first + classes)
        X, y = X[mine], y[mine] - first
        parts = [X[y == one].astype(np.float64) @ turns for one in range(classes)]
        best = 0.0
        for order in itertools.permutations(range(classes)):
            gaps = [parts[b].min(axis=0) - parts[a].max(axis=0) for a, b in itertools.pairwise(order)]
            best = max(best, 0.5 * float(np.min(gaps, axis=0).max()))
        found = margin(X, y, kind="group", groups=[range(classes)])
        assert best <= found.upper
        assert_certain(found, best, relative=2e-3)  # half a step between two angles


# --- by another formulation ----------------------------------------------------------------------------------------------


def by_cvxpy(X: Numbers, y: NDArray[np.int64], classes: int, kind: str) -> float:
    """The definition as it stands: maximise gamma, with the squared lengths at most 1."""
    cvxpy: Any = pytest.importorskip("cvxpy")
    w, gamma = cvxpy.Variable((classes, X.shape[1])), cvxpy.Variable()
    rules = [cvxpy.sum_squares(w) <= 1]
    for x, label in zip(X, y, strict=True):
        for other in range(classes):
            if kind == "strong":
                rules.append((w[other] @ x) * (1 if other == label else -1) >= gamma / 2)
            elif other != label:
                rules.append((w[label] - w[other]) @ x >= gamma)
    return float(cvxpy.Problem(cvxpy.Maximize(gamma), rules).solve(solver=cvxpy.CLARABEL))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["strong", "weak"])
@pytest.mark.parametrize(("seed", "columns", "classes"), [(0, 2, 2), (1, 5, 3), (2, 12, 4), (3, 30, 5)])
def test_another_formulation_gives_the_same(kind: str, seed: int, columns: int, classes: int) -> None:
    X, y = separable_rows(seed, 25, columns, classes)
    expected = by_cvxpy(X, y, classes, kind)
    found = margin(X, y, kind=kind, classes=range(classes))
    if expected > 1e-5:
        assert_certain(found, expected, relative=1e-5)
        assert VALUES[kind](X, y, np.asarray(found.vectors)) == pytest.approx(found.margin, rel=1e-9)
    else:
        assert not found.separable
    assert (kind, found.separable) != ("weak", False)  # these rows are made to be weakly separable


def test_the_program_meets_its_conditions() -> None:
    """At the nearest point every constraint is at least the multiplier, and those that carry weight are equal to it."""
    generator = np.random.default_rng(42)
    for count, columns in ((3, 2), (30, 5), (60, 100)):
        a = generator.normal(size=(count, columns)) + 0.5
        side = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)[:, None]
        for cuts in (np.zeros((count, 0)), -side):
            gram = (a * side) @ (a * side).T if cuts.size else a @ a.T
            alpha, multipliers = minimise_on_simplex(gram, cuts, 1.0)
            assert alpha.sum() == pytest.approx(1.0)
            assert alpha.min() >= 0.0
            assert np.abs(cuts.T @ alpha).max(initial=0.0) < 1e-12
            above = gram @ alpha - cuts @ multipliers[1:] - multipliers[0]
            assert above.min() > -1e-8
            assert above @ alpha == pytest.approx(0.0, abs=1e-8)


# --- laws ----------------------------------------------------------------------------------------------------------------

numbers = st.integers(0, 10_000)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(numbers, st.floats(0.01, 100.0), st.sampled_from(["strong", "weak"]))
def test_a_margin_grows_with_the_rows(seed: int, factor: float, kind: str) -> None:
    X, y = separable_rows(seed, 15, 8, 3)
    found, scaled = (margin(rows, y, kind=kind, classes=3) for rows in (X, factor * X))
    assert scaled.separable == found.separable
    assert scaled.margin == pytest.approx(factor * found.margin, rel=1e-6)
    assert pytest.approx(factor * found.R) == scaled.R


@settings(max_examples=15, deadline=None, derandomize=True)
@given(numbers, st.sampled_from(["strong", "weak"]))
def test_another_row_never_helps_and_the_same_row_changes_nothing(seed: int, kind: str) -> None:
    X, y = separable_rows(seed, 15, 8, 3)
    whole = margin(X, y, kind=kind, classes=3).margin
    assert margin(X[:-1], y[:-1], kind=kind, classes=3).margin >= whole * (1.0 - 1e-6)
    again = margin(np.concatenate([X, X[:4]])[::-1], np.concatenate([y, y[:4]])[::-1], kind=kind, classes=3)
    assert again.margin == pytest.approx(whole, rel=1e-6)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(numbers)
def test_strong_implies_weak_and_for_two_classes_they_are_one(seed: int) -> None:
    X, y = separable_rows(seed, 15, 8, 3)
    strong, weak = (margin(X, y, kind=kind, classes=3) for kind in ("strong", "weak"))
    assert weak.margin >= strong.margin * (1.0 - 1e-6)
    two = y < 2
    strong, weak = (margin(X[two], y[two], kind=kind, classes=2) for kind in ("strong", "weak"))
    assert weak.margin == pytest.approx(strong.margin, rel=1e-6)


def test_sparse_rows_have_the_margin_of_dense_ones() -> None:
    X, y = separable_rows(5, 60, 12, 4)
    X[np.abs(X) < 0.4] = 0.0
    for kind, bias in itertools.product(("strong", "weak"), (False, True)):
        dense = margin(X, y, kind=kind, bias=bias)
        sparse = margin(scipy.sparse.csr_matrix(X), y, kind=kind, bias=bias)
        assert sparse.separable == dense.separable
        assert sparse.margin == pytest.approx(dense.margin, rel=1e-6)
        assert pytest.approx(dense.R) == sparse.R
        assert [row for row, _ in sparse.worst[:3]] == [row for row, _ in dense.worst[:3]]


# --- no margin -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_xor_has_no_margin(kind: str) -> None:
    found = margin(*XOR, kind=kind)
    assert not found.separable
    assert found.certified
    assert found.margin == 0.0
    assert found.upper < 1e-6
    assert found.vectors is None
    assert [(row, round(slack, 6)) for row, slack in found.worst] == [(0, -1.0), (1, -1.0), (2, -1.0), (3, -1.0)]


@pytest.mark.parametrize("kind", ["strong", "weak"])
@pytest.mark.parametrize("flipped", [7, 150])
def test_a_row_with_a_wrong_label_is_found(kind: str, flipped: int) -> None:
    X, y = plane.strong2d(300, 4)
    y[flipped] = (y[flipped] + 1) % 3
    found = margin(X, y, kind=kind)
    assert not found.separable
    assert found.worst[0][0] == flipped
    assert found.worst[0][1] < -1.0
    assert len(found.worst) <= 10
    assert [slack for _, slack in found.worst] == sorted(slack for _, slack in found.worst)


@pytest.mark.parametrize("change", [1, 3])
def test_a_wrong_label_within_a_group_or_between_groups_is_found(change: int) -> None:
    X, y = plane.group2d(600, 4, margin=0.04)
    flipped = int(np.flatnonzero(y == 0)[3])
    y[flipped] = change
    found = margin(X, y, kind="group", groups=GROUPS)
    assert not found.separable
    assert found.certified
    assert found.worst[0][0] == flipped


def test_noise_has_no_margin_and_rows_of_zeros_are_in_the_way() -> None:
    generator = np.random.default_rng(43)
    X, y = generator.normal(size=(400, 3)), generator.integers(0, 3, size=400)
    assert not margin(X, y, kind="weak").separable
    found = margin([[1.0], [-1.0], [0.0]], [0, 1, 0], kind="weak")
    assert not found.separable
    assert found.worst[0][0] == 2
    assert not margin([[0.0], [0.0]], [0, 1]).separable


def test_a_class_without_rows_counts() -> None:
    X, y = [[1.0, 0.0], [-1.0, 0.0]], ["a", "b"]
    for kind in ("strong", "weak"):
        assert_certain(margin(X, y, kind=kind, classes=["a", "b"]), math.sqrt(2.0))
    assert_certain(margin(X, y, kind="weak", classes=["a", "b", "c"]), math.sqrt(0.5))  # the vector of c is 0
    assert not margin(X, y, kind="strong", classes=["a", "b", "c"]).separable  # it cannot be below 0 for x and for -x
    grouped = margin(X, y, kind="group", classes=["a", "b", "c"], groups=[["b", "c", "a"]])
    assert_certain(grouped, 1.0)  # but it needs no place in an order
    assert set(grouped.groups[0]) == {"a", "b", "c"}


# --- in a kernel's space -------------------------------------------------------------------------------------------------


def test_kernels_separate_xor_with_the_margin_computed_by_hand() -> None:
    for kind in ("strong", "weak"):
        # The only feature that helps is sqrt 2 x_1 x_2; the row of the matrix of the rbf gives (1 - e^-2) / 2.
        assert_certain(margin(*XOR, kind=kind, kernel="polynomial:2"), 2.0)
        assert_certain(margin(*XOR, kind=kind, kernel="rbf:0.5"), math.sqrt(0.5) * (1.0 - math.exp(-2.0)))
    assert margin(*XOR, kernel="rbf").kernel == "rbf:0.5"


def test_plain_kernels_are_the_plain_space() -> None:
    X, y = separable_rows(6, 40, 4, 3)
    for kind in ("strong", "weak"):
        for kernel, bias in (("linear", False), ("polynomial:1", True)):
            kernelised, plain = margin(X, y, kind=kind, kernel=kernel), margin(X, y, kind=kind, bias=bias)
            assert kernelised.separable == plain.separable
            assert kernelised.margin == pytest.approx(plain.margin, rel=1e-5)
            assert pytest.approx(plain.R) == kernelised.R


@pytest.mark.parametrize("kernel", ["rational", "polynomial:6", "rbf:10"])
def test_a_kernel_separates_group2d_with_the_vectors_it_gives(kernel: str) -> None:
    X, y = plane.group2d(300, 5, margin=0.04)
    assert not margin(X, y, kind="weak").separable
    found = margin(X, y, kind="strong", kernel=kernel)
    assert found.separable
    assert found.certified
    assert found.support is not None
    assert found.vectors is not None
    k = Kernel.read(kernel).matrix(X, X)
    assert pytest.approx(math.sqrt(k.diagonal().max())) == found.R
    scores = k[:, found.support] @ found.vectors.T
    squares = np.einsum("is,st,it", found.vectors, k[np.ix_(found.support, found.support)], found.vectors)
    own = np.arange(9) == y[:, None]
    assert squares <= 1.0 + 1e-5
    assert 2.0 * np.where(own, scores, -scores).min() >= found.margin * (1.0 - 1e-5)


def test_groups_in_a_kernels_space() -> None:
    X, y = plane.group2d(150, 5, margin=0.04)
    found, plain = (margin(X, y, kind="group", groups=GROUPS, kernel=kernel) for kernel in ("polynomial:1", "linear"))
    assert found.certified
    assert found.between is not None
    assert found.within is not None
    assert found.between.shape == found.within.shape == (3, len(np.asarray(found.support)))
    assert found.margin >= plain.margin * (1.0 - 1e-6)  # a constant feature never harms


# --- data, and what cannot be read ---------------------------------------------------------------------------------------


def test_rows_are_sampled_by_the_seed_and_keep_their_numbers() -> None:
    X, y = plane.strong2d(400, 4)
    y[[10, 333]] = (y[[10, 333]] + 1) % 3
    for rows in (X, scipy.sparse.csr_matrix(X), X.tolist()):
        found = margin(rows, y, rounds=399, seed=1)
        assert found.rows == 399
        assert {found.worst[0][0], found.worst[1][0]} == {10, 333}
    assert repr(margin(X, y, rounds=50, seed=1)) == repr(margin(X, y, rounds=50, seed=1))
    assert margin(X, y, rounds=1_000).rows == 400
    assert margin("strong2d", rounds=60, seed=3).margin == margin(*plane.strong2d(60, 3)).margin


def test_bad_input_is_refused_with_a_sentence() -> None:
    X, y = plane.group2d(60, 0)
    cases: dict[str, dict[str, Any]] = {
        "did you mean 'strong'": {"kind": "stong"},
        "kind is 'strong', but groups are needed for the kind 'group'": {"groups": GROUPS},
        "kind is 'group', but groups are needed for the kind 'group'": {"kind": "group"},
        "missing: 7, 8": {"kind": "group", "groups": [[0, 1, 2], [3, 4, 5], [6]]},
        "has the class 2 twice": {"kind": "group", "groups": [[0, 1, 2], [2, 3, 4, 5], [6, 7, 8]]},
        "has 9, which is not a class": {"kind": "group", "groups": [*GROUPS, [9]]},
        "an empty group": {"kind": "group", "groups": [*GROUPS, []]},
        "must be lists of classes": {"kind": "group", "groups": "0,1"},
        "group 1 has 6 classes, but may have at most 5": {"kind": "group", "groups": [range(6), range(6, 9)]},
        "rounds is 0": {"rounds": 0},
        "seed is -1": {"seed": -1},
        "did you mean 'rational'": {"kernel": "ratonal"},
    }
    for sentence, options in cases.items():
        assert sentence in refused(lambda options=options: margin(X, y, classes=range(9), **options))  # type: ignore[misc]
    assert "row 1 has length 2; the rational kernel" in refused(
        lambda: margin([[0.5], [-2.0]], [0, 1], kernel="rational")
    )
    assert "at most 3,000: use a sample, with rounds=3000" in refused(lambda: margin("group2d", kernel="rational"))
    assert "row 1, column 0 of X is nan" in refused(lambda: margin([[0.5], [math.nan]], [0, 1]))
    assert "scale the rows" in refused(lambda: margin([[1e200], [1.0]], [0, 1]))
    assert "scale the rows" in refused(lambda: margin([[1e90], [1.0]], [0, 1], kernel="polynomial:20"))
    assert "nothing to separate" in refused(
        lambda: margin([[1.0]], ["a"], classes=["a", "b"], kind="group", groups=[["a", "b"]])
    )
    assert "a source brings its own" in refused(lambda: margin(source_of("weak2d"), y))


def test_what_is_not_settled_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = separable_rows(7, 2_000, 20, 3)
    whole = margin(X, y, kind="weak")
    assert whole.certified
    monkeypatch.setattr("onebit.theory.programs._MOST_ITERATIONS", 7)
    found = margin(X, y, kind="weak")
    assert not found.certified
    assert found.margin <= whole.margin <= found.upper
    monkeypatch.setattr("onebit.theory.programs._MOST_ITERATIONS", 2)
    assert "cannot tell whether there is a margin: with" in refused(lambda: margin(X, y, kind="weak"))


def test_a_large_table_is_looked_at_two_classes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = plane.weak2d(300, 6)
    wrong = y.copy()
    wrong[5] = (y[5] + 1) % 3
    before = margin(X, y, kind="weak"), margin(X, wrong, kind="weak")
    monkeypatch.setattr("onebit.theory.programs._LARGE_TABLE_ROWS", 10)
    heard: list[str] = []
    after = margin(X, y, kind="weak"), margin(X, wrong, kind="weak", told=heard.append)
    assert repr(after[0]) == repr(before[0])
    assert np.array_equal(np.asarray(after[0].vectors), np.asarray(before[0].vectors))
    assert not after[1].separable
    assert after[1].certified
    assert after[1].worst == before[1].worst
    assert after[1].worst[0][0] == 5
    assert heard
    assert all("constraints: the margin is at most" in said for said in heard)


def test_without_the_solver_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clarabel", None)
    assert install_command("theory") in refused(lambda: margin(*XOR))


@pytest.mark.skipif(not (Path(HERE) / "usps.npz").is_file() or not HERE, reason="there is no usps.npz in ONEBIT_DATA")
def test_real_data() -> None:
    found = margin("usps", kind="weak", rounds=2_000, seed=1)
    assert found.certified
    assert found.separable
    assert found.classes == tuple("0123456789")


def test_a_file_is_read_and_prepared(tmp_path: Path) -> None:
    X, y = plane.strong2d(50, 0)
    np.savez(tmp_path / "caps.npz", X=X, y=y)
    found = margin(tmp_path / "caps.npz", kernel="rational", bias=True, prepare="unit-norm")
    assert found.kernel == "rational"
