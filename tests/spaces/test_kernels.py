"""The kernels by themselves: their formulas, their names, and what makes each of them a kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onebit.checks.examples import refused
from onebit.engine.overloads import ANY_ORDER_FLAGS
from onebit.spaces.kernels import Kernel, apply_kernel, exponential, self_value
from tests.oracles.kernel import kernel_value

Array = np.ndarray[Any, Any]
KERNELS = [
    "linear",
    "polynomial:1",
    "polynomial:2",
    "polynomial:7",
    "rational",
    "rbf:0.5",
    "rbf:30",
]


def table(count: int, width: int = 4, longest: float = 1.0, seed: int = 0) -> Array:
    """Rows of many lengths up to `longest`, the first of them 0."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(count, width))
    X *= (longest * generator.random(count) / np.linalg.norm(X, axis=1))[:, None]
    X[0] = 0.0
    return X


def by_formula(kernel: str, A: Array, B: Array) -> Array:
    return np.array([[kernel_value(kernel, a, b) for b in B.tolist()] for a in A.tolist()])


# --- values -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_matrix_is_the_formula(kernel: str) -> None:
    longest = 1.0 if kernel == "rational" else 3.0
    A, B = table(13, longest=longest), table(9, longest=longest, seed=1)
    np.testing.assert_allclose(Kernel.read(kernel).matrix(A, B), by_formula(kernel, A, B), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS)
def test_dot_products_become_the_formula(kernel: str) -> None:
    """What the compiled loop does with the dot products of one row."""
    longest = 1.0 if kernel == "rational" else 3.0
    A, x = table(20, longest=longest), table(2, longest=longest, seed=1)[1]
    code, number = Kernel.read(kernel)
    dots = A @ x
    apply_kernel(code, number, float(x @ x), dots, np.square(A).sum(axis=1), 17)
    np.testing.assert_allclose(dots[:17], by_formula(kernel, A[:17], x[None])[:, 0], rtol=1e-12, atol=1e-14)
    assert np.array_equal(dots[17:], (A @ x)[17:]), "values beyond the count must stay as they are"


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_of_a_row_with_itself(kernel: str) -> None:
    X = table(12, longest=1.0 if kernel == "rational" else 3.0)
    read = Kernel.read(kernel)
    expected = [kernel_value(kernel, x, x) for x in X.tolist()]
    norms = np.square(X).sum(axis=1)
    np.testing.assert_allclose(read.self_values(norms), expected, rtol=1e-12)
    np.testing.assert_allclose([self_value(*read, norm) for norm in norms.tolist()], expected, rtol=1e-12)


def test_rows_that_the_rational_kernel_does_not_take() -> None:
    lengths = np.array([0.0, 0.9, 1.0, 1.0 + 1e-7, 1.001, 30.0])
    taken = np.isfinite(Kernel.read("rational").self_values(lengths**2))
    assert taken.tolist() == [True, True, True, True, False, False]
    for pair in (([[2.0]], [[0.5]]), ([[0.5]], [[2.0]])):
        assert "length 1" in refused(lambda pair=pair: Kernel.read("rational").matrix(*pair))  # type: ignore[misc]


def compiled_exponential() -> Callable[[float], float]:
    numba = pytest.importorskip("numba")
    inner = numba.njit(fastmath=ANY_ORDER_FLAGS)(exponential)

    def several(values: Array) -> None:
        for place in range(values.shape[0]):
            values[place] = inner(values[place])

    loop = numba.njit(fastmath=ANY_ORDER_FLAGS)(several)

    def one(y: float) -> float:
        values = np.full(8, y)
        loop(values)
        assert len(set(values.tolist())) == 1
        return float(values[0])

    return one


@pytest.mark.parametrize("compiled", [False, True])
def test_exponential_to_twelve_digits(compiled: bool) -> None:
    function = compiled_exponential() if compiled else exponential
    edges = [0.0, 5e-324, 1e-300, 1e-16, 1e-9, 1.0, math.log(2.0), 59.999999, 60.0]
    for y in [*edges, *np.linspace(0.0, 60.0, 4001).tolist(), *np.random.default_rng(0).uniform(0, 60, 2000).tolist()]:
        assert function(y) == pytest.approx(math.exp(-y), rel=1e-12, abs=0.0), y
    assert function(0.0) == 1.0


def test_exponential_falls() -> None:
    """A nearer row never counts less, but for rounding."""
    values = [exponential(y) for y in np.linspace(0.0, 60.0, 3000).tolist()]
    assert all(after < before for before, after in itertools.pairwise(values))


# --- what makes them kernels ----------------------------------------------------------------------------------------------

SHORT = arrays(np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-0.57, 0.57))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(X=SHORT, kernel=st.sampled_from(KERNELS))
def test_matrix_is_symmetric_and_positive_semidefinite(X: Array, kernel: str) -> None:
    K = Kernel.read(kernel).matrix(X, X)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * len(X) * max(1.0, np.abs(K).max())


def rational_features(x: Array, degree: int) -> Array:
    """The features of the rational kernel in two dimensions: 2^(-j/2) times the monomials of degree j, each by its binomial."""
    found = [
        math.sqrt(math.comb(j, power) / 2.0**j) * x[0] ** power * x[1] ** (j - power)
        for j in range(degree + 1)
        for power in range(j + 1)
    ]
    return np.array(found)


def test_rational_kernel_is_the_dot_product_of_its_features() -> None:
    X = table(30, width=2, longest=0.9, seed=3)
    X[1] = [0.9, 0.0]
    X[2] = [-0.9 / math.sqrt(2.0), 0.9 / math.sqrt(2.0)]
    features = np.array([rational_features(x, 40) for x in X])
    np.testing.assert_allclose(features @ features.T, Kernel.read("rational").matrix(X, X), atol=1e-12, rtol=0.0)
    cut = np.array([rational_features(x, 10) for x in X])
    assert np.abs(cut @ cut.T - Kernel.read("rational").matrix(X, X)).max() > 1e-6, "ten degrees are not enough"


# --- names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("linear", "linear"),
        ("rational", "rational"),
        ("polynomial", "polynomial:3"),
        ("polynomial:1", "polynomial:1"),
        ("polynomial:20", "polynomial:20"),
        ("rbf:2", "rbf:2"),
        ("rbf:1e-3", "rbf:0.001"),
    ],
)
def test_names_are_read_and_shown(text: str, shown: str) -> None:
    kernel = Kernel.read(text)
    assert str(kernel) == shown
    assert Kernel.read(str(kernel)) == kernel


def test_gamma_where_none_is_given_is_one_over_the_features() -> None:
    assert Kernel.read("rbf", 8) == Kernel.read("rbf:0.125")
    assert Kernel.read("rbf:3", 8).number == 3.0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(gamma=st.floats(1e-9, 9e11))
def test_any_gamma_survives_being_written(gamma: float) -> None:
    kernel = Kernel.read(f"rbf:{gamma!r}")
    assert kernel.number == gamma
    assert Kernel.read(str(kernel)) == kernel


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rbff", "did you mean 'rbf'"),
        ("RBF", "did you mean 'rbf'"),
        ("polinomial:2", "did you mean 'polynomial'"),
        ("", "known are: linear, polynomial, rational, rbf"),
        ("gaussian process", "known are"),
        (3, "kernel is 3"),
        (True, "kernel is True"),
        (["rbf"], "kernel is ['rbf']"),
        ("linear:2", "takes no number"),
        ("rational:", "takes no number"),
        ("rational:2", "takes no number"),
        ("polynomial:", "a whole number from 1 to 20"),
        ("polynomial:0", "a whole number from 1 to 20"),
        ("polynomial:-1", "a whole number from 1 to 20"),
        ("polynomial:1.5", "a whole number from 1 to 20"),
        ("polynomial:21", "a whole number from 1 to 20"),
        ("polynomial:two", "a whole number from 1 to 20"),
        ("polynomial:inf", "a whole number from 1 to 20"),
        ("rbf:", "must be a number above 0"),
        ("rbf:0", "must be a number above 0"),
        ("rbf:-0.5", "must be a number above 0"),
        ("rbf:1e-400", "must be a number above 0"),
        ("rbf:nan", "must be a number above 0"),
        ("rbf:inf", "must be a number above 0"),
        ("rbf:half", "must be a number above 0"),
        ("rbf:1:2", "must be a number above 0"),
    ],
)
def test_what_names_no_kernel_is_refused(text: Any, words: str) -> None:
    sentence = refused(lambda: Kernel.read(text))
    assert sentence.startswith(f"kernel is {text!r}")
    assert words in sentence
