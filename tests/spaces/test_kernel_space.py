"""Learners with a kernel: against the linear learners that they equal, against a slow twin, and through everything a learner does."""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit
from onebit.checks.examples import NAMES, refused, state
from onebit.checks.examples import rows as unit_rows
from onebit.cli import main
from onebit.experiments.run import run
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.rules import registry
from onebit.spaces.choose import KernelChoice
from onebit.spaces.kernel import BLOCK_ROWS
from onebit.spaces.kernels import Kernel
from tests.every_rule.around_rules import CHECKS
from tests.every_rule.cases import chosen_among
from tests.learner.learners import assert_unchanged_by
from tests.oracles.draws import draws
from tests.oracles.kernel import Twin
from tests.slow import ON_DEMAND

Array = np.ndarray[Any, Any]
CLASSES, FEATURES = 4, 3
FIRST_ORDER = {name: rule for name, rule in registry().items() if rule.second_order is None and not rule.composite}
EXAMPLES = [(name, options) for name, rule in FIRST_ORDER.items() for options in rule.examples]
# Each takes seconds to be compiled with a kernel. The first move single heads, scale all weights, and have heads that are no classes: `make test` has these. The
# last take steps of a kind that the others take.
DISTINCT = ("banditron", "gaptron", "offset-tree")
ALIKE = ("pab", "passive-aggressive", "perceptron", "policy-gradient")


def marks_of(name: str) -> Sequence[pytest.MarkDecorator]:
    return () if name in DISTINCT else ON_DEMAND if name in ALIKE else (pytest.mark.long,)


examples = pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, id=f"{name}-{number}", marks=marks_of(name))
        for number, (name, options) in enumerate(EXAMPLES)
    ],
)
GAPTRON = {"rate": 0.6, "exploration": 0.2, "radius": 0.4}  # so small a ball that nearly every step is scaled back


def stream(count: int, seed: int = 0, width: int = FEATURES, zeros: bool = True) -> tuple[Array, Array]:
    """Noisy rows around class centres, shorter than 1; every sixth has been there before, and some are 0."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(CLASSES, width))
    y = generator.integers(0, CLASSES, size=count)
    X = centres[y] + 0.8 * generator.normal(size=(count, width))
    X *= (np.minimum(1.0, 0.98 / np.linalg.norm(X, axis=1)) * generator.uniform(0.7, 1.0, count))[:, None]
    X[5::6] = X[: len(X[5::6])]
    if zeros:
        X[7::40] = 0.0
    return X, y


def learner_with(name: str, kernel: str | None, **options: Any) -> Learner:
    common = {"features": FEATURES, "space": "dense", "dtype": "float64", "seed": 5}
    return Learner(name, classes=CLASSES, kernel=kernel, **{**common, **options})


def hear(learner: Learner, decision: Decision, label: int) -> None:
    if learner.runtime.needs_labels:
        learner.learn(decision, label=label)
    else:
        learner.learn(decision, right=bool(decision.label == label))


def learnt(learner: Learner, X: Array, y: Array) -> Learner:
    for x, label in zip(X, y.tolist(), strict=True):
        hear(learner, learner.decide(x), label)
    return learner


def stored_rows(learner: Learner) -> Array:
    """What a learner has stored, as a matrix."""
    rows = learner.runtime.support.rows
    if isinstance(rows, dict):
        parts = (rows["entries"], rows["columns"], rows["starts"])
        return np.asarray(
            scipy.sparse.csr_array(parts, shape=(len(learner.runtime.support), learner.features)).toarray()
        )
    return np.asarray(rows)


def summed_norm(learner: Learner) -> float:
    """||W||^2, from every pair of stored rows."""
    rows, coefficients = (
        stored_rows(learner).astype(np.float64),
        learner.runtime.support.coefficients.astype(np.float64),
    )
    assert learner.runtime.options.kernel is not None
    return float(np.sum(coefficients.T @ coefficients * Kernel.read(learner.runtime.options.kernel).matrix(rows, rows)))


def assert_same_steps(first: Learner, second: Learner, X: Any, Z: Any, y: Array, atol: float = 1e-9) -> None:
    """Two learners, one on X and one on Z, decide the same in every round, and have the same scores."""
    for row, label in enumerate(y.tolist()):
        one, other = first.decide(X[row]), second.decide(Z[row])
        assert (one.label, one.greedy) == (other.label, other.greedy), f"round {row}"
        np.testing.assert_allclose(one.propensity, other.propensity, atol=atol, err_msg=f"round {row}")
        np.testing.assert_allclose(first.scores(X[row]), second.scores(Z[row]), rtol=atol, atol=atol, err_msg=f"{row}")
        hear(first, one, label)
        hear(second, other, label)
    if first.runtime.rule.keeps_norm:
        np.testing.assert_allclose(first.runtime.model.memory[0], second.runtime.model.memory[0], rtol=1e-9, atol=1e-12)


def squares(X: Array) -> Array:
    """The features of the polynomial kernel of degree 2."""
    pairs = [
        np.sqrt(2.0 if a < b else 1.0) * X[:, a] * X[:, b] for a in range(X.shape[1]) for b in range(a, X.shape[1])
    ]
    return np.column_stack([np.ones(len(X)), np.sqrt(2.0) * X, *pairs])


# --- equal to linear learners ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@examples
def test_linear_kernel_is_the_linear_learner(name: str, options: dict[str, Any], bias: bool) -> None:
    # With a bias the score of x = 0 is a sum that cancels, and whether it is 0 exactly is rounding.
    X, y = stream(90, seed=1, zeros=not bias)
    by_kernel = learner_with(name, "linear", bias=bias, **options)
    assert_same_steps(by_kernel, learner_with(name, None, bias=bias, **options), X, X, y)
    assert 0 < len(by_kernel.runtime.support) <= 90


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@examples
def test_polynomial_kernel_is_the_linear_learner_on_products(name: str, options: dict[str, Any], bias: bool) -> None:
    X, y = stream(90, seed=2, zeros=not bias)
    products = squares(np.column_stack([X, np.ones(90)]) if bias else X)
    by_kernel = learner_with(name, "polynomial:2", bias=bias, **options)
    by_hand = learner_with(name, None, features=products.shape[1], **options)
    assert_same_steps(by_kernel, by_hand, X, products, y)


def test_more_rows_than_several_blocks_of_lanes() -> None:
    X, y = stream(1000, seed=3)
    by_kernel = learner_with("banditron", "polynomial:2", max_support=None)
    assert_same_steps(by_kernel, learner_with("banditron", None, features=10), X, squares(X), y)
    assert len(by_kernel.runtime.support) > 5 * BLOCK_ROWS
    assert by_kernel.runtime.support.gone == 0
    distinct = np.unique(by_kernel.runtime.support.rows, axis=0)
    assert len(distinct) == len(by_kernel.runtime.support), "a row is stored twice"


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *(("banditron", kernel) for kernel in ("linear", "rbf:0.7", "polynomial:2", "rational")),
        *(("gaptron", kernel) for kernel in ("rbf:0.7", "polynomial:2")),
    ],
)
def test_sparse_rows_are_dense_rows(name: str, kernel: str) -> None:
    X, y = stream(300, seed=4, width=12)
    X[np.abs(X) < 0.15] = 0.0
    options = {"features": 12, **(GAPTRON if name == "gaptron" else {})}
    for limits in ({}, {"max_support": 7}, {"max_support": 130}):
        dense = learner_with(name, kernel, **options, **limits)
        sparse = learner_with(name, kernel, **{**options, "space": "sparse"}, **limits)
        assert_same_steps(dense, sparse, X, scipy.sparse.csr_array(X), y)
        assert dense.runtime.support.gone == sparse.runtime.support.gone
        np.testing.assert_allclose(stored_rows(dense), stored_rows(sparse), rtol=1e-15)
        np.testing.assert_allclose(
            dense.runtime.support.coefficients, sparse.runtime.support.coefficients, rtol=1e-7, atol=1e-9
        )


@pytest.mark.parametrize("kernel", ["polynomial:3", "rational"])
def test_sparse_rows_may_be_decided_any_number_of_times(kernel: str) -> None:
    learner = learner_with("banditron", kernel, space="sparse")
    learner.learn(learner.decide([0.1, 0.0, 0.5]), right=True)
    first = learner.scores([0.1, 0.0, 0.5])
    for _ in range(20):
        assert np.array_equal(learner.scores([0.1, 0.0, 0.5]), first)


# --- against the slow twin ------------------------------------------------------------------------------------------------

RULES: dict[str, dict[str, Any]] = {
    "bpa": {"aggressiveness": 0.7},
    "banditron": {"exploration": 0.2},
    "bandit-perceptron": {},
    "gaptron": GAPTRON,
    "epabf": {"update": "others", "exploration": 0.3, "aggressiveness": 0.5},
    "offset-tree": {"kind": "general", "aggressiveness": 0.4},
}


def twin_of(name: str, kernel: str, options: dict[str, Any], budget: int | None) -> Twin:
    module = importlib.import_module(f"tests.oracles.{name.replace('-', '_')}")
    given = {**registry()[name].defaults, **options}
    radius = given.get("radius")
    if radius is not None:
        given["radius"] = None
    return Twin(module.Oracle(CLASSES, 1, **given), kernel, budget, radius)


def compare_stored(learner: Learner, twin: Twin, where: str) -> None:
    """The same rows with the same coefficients, in whatever order, and the same norm."""
    support = learner.runtime.support
    assert (len(support), support.gone) == (len(twin.rows), twin.gone), where
    order = sorted(range(len(support)), key=lambda place: support.rows[place].tolist())
    other = sorted(range(len(twin.rows)), key=lambda place: twin.rows[place])
    assert support.rows[order].tolist() == [twin.rows[place] for place in other], where
    expected = np.array([twin.coefficients[place] for place in other]).reshape(len(other), twin.heads)
    np.testing.assert_allclose(support.coefficients.T[order], expected, rtol=1e-7, atol=1e-9, err_msg=where)


def assert_equals_twin(
    name: str,
    kernel: str,
    X: Array,
    y: Array,
    budget: int | None = None,
    options: dict[str, Any] | None = None,
    late: bool = False,
) -> tuple[Learner, Twin]:
    options = RULES[name] if options is None else options
    learner = learner_with(name, kernel, features=X.shape[1], max_support=budget, **options)
    twin = twin_of(name, kernel, options, budget)
    order = np.random.default_rng(3)
    waiting: list[tuple[Decision, Any, int]] = []
    for row in range(len(X)):
        decision, decided = learner.decide(X[row]), twin.decide(X[row], draws(5, row, 0))
        where = f"round {row}"
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), where
        np.testing.assert_allclose(decision.weight, decided.weight, rtol=1e-9, err_msg=where)
        np.testing.assert_allclose(learner.scores(X[row]), twin.scores(X[row]), rtol=1e-9, atol=1e-9, err_msg=where)
        chances = list(learner.probabilities(X[row]).values())
        np.testing.assert_allclose(chances, twin.probabilities(X[row]), atol=1e-9, err_msg=where)
        waiting.append((decision, decided, row))
        while waiting and (not late or len(waiting) > 6):
            then, known, told = waiting.pop(int(order.integers(len(waiting))) if late else 0)
            hear(learner, then, int(y[told]))
            twin.learn(X[told], known, int(y[told]) if known.label == y[told] else -1, draws(5, told, 1))
            compare_stored(learner, twin, where)
            if learner.runtime.rule.keeps_norm:
                np.testing.assert_allclose(
                    learner.runtime.model.memory[0], twin.squared_norm(), atol=1e-9, err_msg=where
                )
    return learner, twin


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("kernel", ["rbf:0.7", "rational"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in RULES])
def test_kernel_learner_equals_its_twin(name: str, kernel: str, late: bool) -> None:
    X, y = stream(90, seed=6)
    _, twin = assert_equals_twin(name, kernel, X, y, late=late)
    assert len(twin.rows) > 5
    if name == "gaptron":
        assert twin.shrunk < 1e-3, "the ball must have been met many times"


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks_of(name)) for name in RULES])
def test_kernel_learner_equals_its_twin_with_candidates_and_rewards(name: str) -> None:
    X, y = stream(90, seed=6)
    learner = learner_with(name, "rbf:0.7", features=X.shape[1], max_support=None, **RULES[name])
    twin, generator = twin_of(name, "rbf:0.7", RULES[name], None), np.random.default_rng(4)
    for row in range(len(X)):
        where, among = f"round {row}", chosen_among(generator, CLASSES, None)
        decision = learner.decide(X[row], among=among)
        decided = twin.decide_among(X[row], draws(5, row, 0), among)
        assert (decision.label, decision.greedy) == (decided.label, decided.greedy), where
        np.testing.assert_allclose(decision.weight, decided.weight, rtol=1e-9, err_msg=where)
        reward = float(decided.label == y[row]) if row % 2 else float(generator.random())
        learner.learn(decision, reward=reward)
        told = decided.label if draws(5, row, 5)(0) < reward else -1
        twin.hear(X[row], decided, told, draws(5, row, 1), reward, among, len(among) == CLASSES)
        compare_stored(learner, twin, where)
        if learner.runtime.rule.keeps_norm:
            np.testing.assert_allclose(learner.runtime.model.memory[0], twin.squared_norm(), atol=1e-9, err_msg=where)
    assert len(twin.rows) > 5


@pytest.mark.parametrize("budget", [1, 2, 7])
@pytest.mark.parametrize("name", [*DISTINCT, pytest.param("bpa", marks=pytest.mark.long)])
def test_budgets_are_kept_as_documented(name: str, budget: int) -> None:
    X, y = stream(90, seed=7)
    learner, _ = assert_equals_twin(name, "rbf:0.7", X, y, budget)
    assert len(learner.runtime.support) == budget
    assert learner.runtime.support.gone > 5


@pytest.mark.parametrize("budget", [127, 128, 129])
def test_budgets_about_a_block(budget: int) -> None:
    X, y = stream(200, seed=8)
    learner, _ = assert_equals_twin("banditron", "rational", X, y, budget)
    assert learner.runtime.support.gone > 5


@pytest.mark.parametrize("budget", [300, 1])
def test_norm_is_that_of_the_stored_rows(budget: int) -> None:
    """Through steps of the budget, and through scales so small that they are multiplied into the coefficients."""
    X, y = stream(1500, seed=9)
    # With full information, Gaptron with the logistic loss stores in every round.
    options = {"setting": "full", "loss": "logistic", "rate": 0.5, "radius": 1.5}
    learner = learner_with("gaptron", "rbf:0.7", max_support=budget, **options)
    for row, label in enumerate(y.tolist()):
        hear(learner, learner.decide(X[row]), label)
        if row % 50 == 0 or row > 1480:
            assert learner.runtime.model.memory[0] == pytest.approx(summed_norm(learner), abs=1e-9), row
    assert len(learner.runtime.support) == budget
    assert learner.runtime.support.gone > 100


GRID = st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rounds=st.lists(st.tuples(GRID, GRID, GRID, st.integers(0, CLASSES - 1)), min_size=1, max_size=25),
    kernel=st.sampled_from(["linear", "polynomial:2", "rational", "rbf:0.7", "rbf:200"]),
)
def test_any_stream_of_rows_that_come_again(rounds: list[tuple[float, float, float, int]], kernel: str) -> None:
    """Rows of a small grid: many are equal, many are 0, many scores tie. There is no budget, since what it merges would tie as well."""
    table = np.array(rounds)
    assert_equals_twin("banditron", kernel, table[:, :3], table[:, 3].astype(int))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    rounds=st.lists(st.tuples(GRID, GRID, GRID, st.integers(0, CLASSES - 1)), min_size=1, max_size=25),
    budget=st.integers(1, 5),
)
def test_merging_keeps_the_norm_and_the_budget(rounds: list[tuple[float, float, float, int]], budget: int) -> None:
    table = np.array(rounds)
    learner = learner_with("gaptron", "rbf:0.7", max_support=budget, **GAPTRON)
    learnt(learner, table[:, :3], table[:, 3].astype(int))
    assert len(learner.runtime.support) <= budget
    assert learner.runtime.model.memory[0] == pytest.approx(summed_norm(learner), abs=1e-9)
    assert learner.runtime.model.memory[0] <= GAPTRON["radius"] ** 2 + 1e-9


# --- what is stored -------------------------------------------------------------------------------------------------------


def test_how_many_rows_are_kept_where_nothing_is_said() -> None:
    for name, rule in FIRST_ORDER.items():
        plan = Learner(name, classes=3, kernel="rbf", **rule.examples[0]).runtime.space_choice
        assert isinstance(plan, KernelChoice)
        assert plan.plan.budget == (0 if name == "bandit-perceptron" else 2000), name
        unlimited = Learner(name, classes=3, kernel="rbf", max_support=None, **rule.examples[0]).runtime.space_choice
        assert isinstance(unlimited, KernelChoice)
        assert unlimited.plan.budget == 0


def merged(kernel: str, X: Array, **options: Any) -> int:
    """How many rows are stored of rows that all come three times, in turns."""
    learner = learner_with("banditron", kernel, exploration=0.3, **options)
    for x in np.tile(X, (3, 1)):
        learner.learn(learner.decide(x), right=True)
    return len(learner.runtime.support)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["linear", "rbf:0.7", "rational", "polynomial:4"])
def test_rows_that_come_again_are_stored_once(kernel: str, space: str, dtype: str) -> None:
    X = np.random.default_rng(2).normal(size=(30, FEATURES))
    X *= (0.9 if kernel == "rational" else 1.7) / np.linalg.norm(X, axis=1)[:, None]
    assert merged(kernel, X, space=space, dtype=dtype) == 30


def test_long_rows_that_come_again_are_stored_once() -> None:
    X = 1e5 * np.random.default_rng(2).normal(size=(30, 20))  # salaries, say
    assert merged("rbf:0.5", X, features=20) == 30


@pytest.mark.parametrize("kernel", ["linear", "rbf:0.7", "rational", "polynomial:3"])
def test_rows_that_differ_in_the_last_bit_are_two(kernel: str) -> None:
    x = np.array([0.3, -0.1, 0.5])
    near = np.array([0.3, -0.1, np.nextafter(0.5, 1.0)])
    longer = np.array([0.6, -0.2, 0.1])
    learner = learner_with("banditron", kernel, exploration=0.3)
    for row in (x, near, longer, x, near, longer):
        learner.learn(learner.decide(row), right=True)
    assert sorted(learner.runtime.support.rows.tolist()) == sorted([x.tolist(), near.tolist(), longer.tolist()])


def test_zeros_of_either_sign_are_one() -> None:
    learner = learner_with("banditron", "rbf:0.7", exploration=0.3)
    for row in ([0.0, 0.5, 0.1], [-0.0, 0.5, 0.1], [0.0, 0.0, 0.0], [0.0, -0.0, 0.0]):
        learner.learn(learner.decide(row), right=True)
    assert len(learner.runtime.support) == 2


@pytest.mark.parametrize("kernel", ["linear", "rbf:0.7", "rational", "polynomial:2"])
def test_a_row_of_zeros_is_learnt_where_the_kernel_sees_it(kernel: str) -> None:
    learner = learner_with("banditron", kernel, exploration=0.3)
    decision = learner.decide(np.zeros(FEATURES))
    learner.learn(decision, right=True)
    if kernel == "linear":
        assert len(learner.runtime.support) == 0
        assert learner.scores([0.1, 0.2, 0.3]).tolist() == [0.0] * CLASSES
    else:
        assert len(learner.runtime.support) == 1
        assert learner.best(np.zeros(FEATURES)) == decision.label


def test_steps_of_nothing_are_not_stored() -> None:
    """A step that is 0, or below the rounding of the scores; what is stored stays as it is."""
    learner = learner_with("bpa", "rbf:0.7", variant="PA", exploration=0.1)
    learner.learn(learner.decide([0.1, 0.2, 0.3]), right=True)  # the score is 1 now: no loss
    before = learner.runtime.support.coefficients.tolist()
    learner.learn(learner.decide([0.1, 0.2, 0.3 + 1e-9]), right=True)
    assert len(learner.runtime.support) == 1
    assert learner.runtime.support.coefficients.tolist() == before
    small = learner_with("bpa", "rbf:0.7", variant="PA-I", aggressiveness=1e-13)
    small.learn(small.decide([0.1, 0.2, 0.3]), right=True)
    assert len(small.runtime.support) == 0


def test_the_support_is_a_copy_of_what_was_given() -> None:
    X, y = stream(200, seed=11)
    learner = learnt(learner_with("banditron", "rational"), X, y)
    support = learner.runtime.support
    known = {tuple(x) for x in X.tolist()}
    assert all(tuple(row) in known for row in support.rows.tolist())
    x = X[3]
    values = Kernel.read("rational").matrix(support.rows, x[None])[:, 0]
    np.testing.assert_allclose(learner.scores(x), support.coefficients @ values, atol=1e-10)
    before = state(learner)
    support.rows[:] = 7.0
    support.coefficients[:] = 7.0
    assert state(learner) == before


def test_float32_is_near_to_float64() -> None:
    """Also after thousands of steps, in which the norm is followed and never summed afresh."""
    X, y = stream(5000, seed=12)
    options = {"setting": "full", "loss": "logistic", "rate": 0.5, "radius": 1.5, "max_support": 60}
    learner = learnt(learner_with("gaptron", "rbf:0.7", dtype="float32", **options), X, y)
    assert learner.runtime.support.gone > 1000
    assert learner.runtime.model.memory[0] == pytest.approx(summed_norm(learner), rel=1e-3)
    single, double = (
        learnt(learner_with("banditron", "rational", dtype=d), X[:150], y[:150]) for d in ("float32", "float64")
    )
    np.testing.assert_allclose(single.scores(X[0]), double.scores(X[0]), rtol=1e-4, atol=1e-3)


# --- what every learner does ----------------------------------------------------------------------------------------------

NO_WEIGHTS = "compares weights of features, which a kernel has not; tested above with rows and coefficients"
# What a learner with a kernel cannot meet, and why.
CANNOT = {
    "column_order": NO_WEIGHTS,
    "sizes": NO_WEIGHTS,
    "bias": NO_WEIGHTS,
    "zero_vector": "k(0, 0) is not 0, so x = 0 is learnt from",
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kernel", ["rbf:0.5", "polynomial:2"])
def test_check(kernel: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if check in CANNOT:
        pytest.skip(CANNOT[check])
    # Checks compare the weights of two learners: here those are the coefficients.
    monkeypatch.setattr(Learner, "weights", property(lambda self: self.runtime.support.coefficients))
    budget = {"max_support": 50} if check == "memory_is_bounded" else {}
    CHECKS[check](lambda **options: onebit.Banditron(**{"exploration": 0.1, "kernel": kernel, **budget, **options}))


@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_stop_save_load_go_on_with_a_full_support(space: str, tmp_path: Path) -> None:
    """All is bit for bit as if never stopped."""
    X, y = stream(300, seed=13)
    learner = learner_with("gaptron", "rbf:0.7", space=space, max_support=19, **GAPTRON)
    learnt(learner, X[:150], y[:150])
    learner.save(tmp_path / "learner.onebit")
    loaded, cloned = onebit.load(tmp_path / "learner.onebit"), copy_learner(learner)
    for other in (loaded, cloned):
        assert state(other) == state(learner)
    for one in (learner, loaded, cloned):
        learnt(one, X[150:], y[150:])
    assert state(learner) == state(loaded) == state(cloned)
    assert learner.runtime.support.gone > 5


def test_more_than_one_block_is_saved(tmp_path: Path) -> None:
    X, y = stream(700, seed=14)
    learner = learnt(learner_with("banditron", "rational"), X[:400], y[:400])
    assert len(learner.runtime.support) > 2 * BLOCK_ROWS
    learner.save(tmp_path / "learner.onebit")
    loaded = onebit.load(tmp_path / "learner.onebit")
    assert state(learnt(learner, X[400:], y[400:])) == state(learnt(loaded, X[400:], y[400:]))


def test_gamma_is_the_same_after_loading(tmp_path: Path) -> None:
    learner = Learner("banditron", classes=2, kernel="rbf:0.5", dtype="float64")
    for number in range(6):
        learner.learn(learner.decide({f"word {number}": 1.0, "each": 0.5}), right=True)
    learner.save(tmp_path / "learner.onebit")
    x = {"each": 1.0, "word 2": 0.5}
    assert onebit.load(tmp_path / "learner.onebit").scores(x).tolist() == learner.scores(x).tolist()


def test_names_grow_in_number_so_their_gamma_must_be_given() -> None:
    assert "rbf:0.5" in refused(lambda: Learner("banditron", classes=2, kernel="rbf").decide({"word": 1.0}))
    assert "rbf:0.5" in refused(lambda: Learner("banditron", classes=2, kernel="rbf", text=True).decide("a word"))


def test_run_is_steps_through_several_blocks() -> None:
    X, y = stream(600, seed=15)
    learner = learner_with("banditron", "rational", max_support=300)
    result = run(learner, X, y.tolist(), order="file", calibrate=True)
    by_hand = learnt(copy_learner(learner), X, y)
    assert by_hand.runtime.support.gone > 50
    result.learner.runtime.identity = by_hand.runtime.identity
    assert state(result.learner) == state(by_hand)
    late = run(learner, X, y.tolist(), order="file", delay=30)
    assert late.learner.learnt == 570
    values = Kernel.read("rational").matrix(late.learner.runtime.support.rows, X[:1])[:, 0]
    np.testing.assert_allclose(
        late.learner.scores(X[0]), late.learner.runtime.support.coefficients @ values, atol=1e-10
    )


@pytest.mark.parametrize("budget", [None, 40])
def test_a_new_class_has_no_coefficients(budget: int | None) -> None:
    X, y = stream(200, seed=16)
    learner = learnt(learner_with("banditron", "rational", max_support=budget), X, y)
    before, scores, early = learner.runtime.support, learner.scores(X[0]), learner.decide(X[1])
    learner.add_class("new")
    assert np.array_equal(learner.runtime.support.coefficients[:CLASSES], before.coefficients)
    assert not learner.runtime.support.coefficients[CLASSES].any()
    assert np.array_equal(learner.scores(X[0]), [*scores, 0.0])
    learner.learn(early, right=False)
    for x in X[:60]:
        learner.learn(learner.decide(x), label="new")
    assert learner.runtime.support.coefficients[CLASSES].any()
    values = Kernel.read("rational").matrix(learner.runtime.support.rows, X[:1])[:, 0]
    np.testing.assert_allclose(learner.scores(X[0]), learner.runtime.support.coefficients @ values, atol=1e-10)


def test_named_features_as_they_come_are_columns() -> None:
    """A vocabulary that grows with nearly every row, and rows stored before it did."""
    X, y = stream(150, seed=17, width=40)
    X[np.abs(X) < 0.2] = 0.0
    dicts = [{f"name {column:02d}": float(x[column]) for column in np.flatnonzero(x)} for x in X]
    options = {"features": None, "space": None}
    named = learner_with("banditron", "rbf:0.7", **options)
    assert_same_steps(learner_with("banditron", "rbf:0.7", features=40), named, X, dicts, y)
    assert len(named.runtime.support) > 50
    hashed = learner_with("banditron", "rbf:0.7", hash_bits=16, **options)
    assert_same_steps(learner_with("banditron", "rbf:0.7", features=40), hashed, X, dicts, y)


def test_texts_with_words_never_seen() -> None:
    learner = Learner("banditron", classes=["sport", "tech"], kernel="rbf:0.5", text=True, exploration=0.1)
    texts = [
        ("late goal wins the cup", "sport"),
        ("a faster chip", "tech"),
        ("goal in the cup", "sport"),
        ("a chip", "tech"),
    ]
    for text, label in texts * 15:
        learner.learn(learner.decide(text), label=label)
    before = state(learner)
    new = "the goal nobody saw"
    apart = [2.0 - 2.0 * common / np.sqrt(4 * words) for words, common in ((5, 2), (3, 0), (4, 2), (2, 0))]
    expected = learner.runtime.support.coefficients @ np.exp(-0.5 * np.array(apart))
    np.testing.assert_allclose(learner.scores(new), expected, rtol=1e-5)
    assert all(learner.best(text) == label for text, label in texts)
    assert state(learner) == before


def test_threads_lose_nothing_while_the_support_grows() -> None:
    X, _ = stream(800, seed=18)
    learner = learner_with("banditron", "rational", max_support=None)
    start = threading.Barrier(4)

    def work(thread: int) -> None:
        start.wait()
        for x in X[thread::4]:
            decision = learner.decide(x)
            learner.learn(decision, right=decision.label == 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert learner.learnt == 800
    support = learner.runtime.support
    assert len(support) == len(np.unique(support.rows, axis=0)) > BLOCK_ROWS
    values = Kernel.read("rational").matrix(support.rows, X[:1])[:, 0]
    np.testing.assert_allclose(learner.scores(X[0]), support.coefficients @ values, atol=1e-10)


# --- what is refused ------------------------------------------------------------------------------------------------------


def too_long() -> Array:
    """A row for which the kernel of degree 20 is a number, and the step that it asks for is none."""
    return np.array([0.0, 0.0, np.sqrt(1.3e15)])


@pytest.mark.parametrize("stored", [20, BLOCK_ROWS - 10])
def test_a_refused_batch_changes_nothing_though_arrays_grew(stored: int) -> None:
    X = np.random.default_rng(3).normal(size=(2 * BLOCK_ROWS, FEATURES)) / 3.0
    learner = learner_with("banditron", "polynomial:20", exploration=0.3, max_support=None)
    learnt(learner, X[:stored], np.zeros(stored, dtype=int))
    decisions = [*learner.decide_many(X[stored:]), learner.decide(too_long())]
    sentence = assert_unchanged_by(learner, lambda: learner.learn_many(decisions, right=[True] * len(decisions)))
    assert sentence.startswith(f"row {len(decisions) - 1}: ")
    learner.learn_many(decisions[:-1], right=[True] * (len(decisions) - 1))
    assert len(learner.runtime.support) == 2 * BLOCK_ROWS
    taught = learner_with("banditron", "polynomial:20", exploration=0.3, max_support=None)
    labels = np.random.default_rng(4).integers(0, CLASSES, len(X)).tolist()
    taught.teach(X[:stored], labels[:stored])
    table = np.vstack([X, too_long()])
    once = copy_learner(taught)
    once.teach(X, labels)
    assert len(once.runtime.support) > BLOCK_ROWS, "the arrays must have grown on the way"
    wrong = next(label for label in range(CLASSES) if label != once.best(too_long()))
    assert assert_unchanged_by(taught, lambda: taught.teach(table, [*labels, wrong])).startswith(
        f"row {2 * BLOCK_ROWS}: "
    )
    taught.teach(X, labels)
    assert state(taught) == state(once)


def test_rows_too_long_for_the_rational_kernel() -> None:
    X, y = unit_rows(30)
    learner = onebit.Banditron(classes=NAMES, kernel="rational", features=6, space="dense")
    learner.learn_many(learner.decide_many(X), labels=[NAMES[label] for label in y])
    long = 1.2 * X[0]
    table = np.stack([X[1], long])
    words = "x has length 1.2, but the rational kernel takes at most 1: prepare the rows (unit-norm, unit-ball)"
    decision = learner.decide(X[2])._replace(x=long.astype(np.float32))
    refusals: dict[str, Callable[[], object]] = {
        "": lambda: learner.decide(long),
        "row 1: ": lambda: learner.decide_many(table),
        "row 1:  ": lambda: learner.teach(table, NAMES[:2]),
        " ": lambda: learner.learn(decision, right=True),
        "row 0: ": lambda: learner.learn_many([decision], right=[True]),
        "row 1:": lambda: run(learner, table, NAMES[:2], order="file"),
    }
    for where, action in refusals.items():
        sentence = assert_unchanged_by(learner, action)
        assert words in sentence
        assert sentence.startswith(where.strip())
    assert learner.decide(X[3]).label in NAMES


@pytest.mark.parametrize("kernel", ["linear", "polynomial:2", "rbf:0.5"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("known", [False, True], ids=["fresh", "trained"])
def test_numbers_that_are_none_are_refused(kernel: str, bad: float, known: bool) -> None:
    learner = learner_with("banditron", kernel, exploration=0.3)
    if known:
        learner.learn(learner.decide([0.1, 0.2, 0.3]), right=True)
    sentence = refused(lambda: learner.decide([0.1, bad, 0.3]))
    assert "feature 1 of x" in sentence
    assert str(bad) in sentence


def test_rows_without_a_length_are_refused() -> None:
    learner = learner_with("banditron", "rbf:0.7", exploration=0.3)
    assert "length" in refused(lambda: learner.decide([1e200, 0.0, 1.0]))


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("kernel", ["linear", "polynomial:2", "rational"])
def test_longest_row_that_gaptron_was_told_of(kernel: str, bias: bool) -> None:
    """By the kernel, max_norm is sqrt(k(x, x)); a sentence about a longer one must name the number that was too large."""
    if bias and kernel == "rational":
        pytest.skip("the rational kernel takes no bias")
    longest = {"linear": 1.0, "polynomial:2": 2.0, "rational": np.sqrt(2.0)}[kernel]
    options = {"rate": 0.1, "exploration": 0.1, "bias": bias}
    learner = learner_with("gaptron", kernel, max_norm=longest, **options)
    if kernel == "linear":
        learner.decide([0.0, 1.0, 0.0])  # as the linear learner, whose bias does not count
    short = learner_with("gaptron", kernel, max_norm=0.9 * longest, **options)
    assert "takes at most" in (sentence := refused(lambda: short.decide([0.0, 1.0, 0.0])))
    assert f"{0.9 * longest:g}" in sentence


def test_options_that_cannot_be() -> None:
    def sentence(**options: Any) -> str:
        return refused(lambda: onebit.Banditron(classes=3, **options))

    assert "did you mean 'rational'" in sentence(kernel="rationel")
    for wrong in (0, -1, 1.5, True, "few", float("nan")):
        assert sentence(kernel="rbf", max_support=wrong).startswith(
            f"max_support is {wrong!r}, but must be a whole number"
        )
    for alone in ({"max_support": 10}, {"max_support": None}):
        assert "needs a kernel: give `kernel` as well" in sentence(**alone)
    assert "takes no bias" in sentence(kernel="rational", bias=True)


@pytest.mark.parametrize("options", [{"max_support": 2**63}, {"max_support": np.ones(2)}])
def test_stranger_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(onebit.OnebitError):
        onebit.Banditron(classes=3, kernel="rbf", **options).decide([1.0, 2.0])


def test_weights_and_support_are_not_for_everyone() -> None:
    with_kernel = learner_with("banditron", "rbf:0.7")
    assert "learner.runtime.support" in refused(lambda: with_kernel.weights)
    assert len(with_kernel.runtime.support) == 0
    assert "learner.weights" in refused(lambda: learner_with("banditron", None).runtime.support)
    assert "has not seen any x yet" in refused(lambda: onebit.Banditron(classes=2, kernel="rbf").runtime.support)


def test_kernels_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    def call(*settings: str) -> tuple[int, str]:
        set_to = list(itertools.chain.from_iterable(("--set", one) for one in settings))
        code = main(["run", "gaptron", "group2d", "--rounds", "300", "--quiet", *set_to])
        out, err = capsys.readouterr()
        return code, out + err

    for kernel in ("rbf", "rational", "polynomial:2", "linear"):
        code, text = call(f"kernel={kernel}", "max_support=50")
        assert code == 0, text
        assert f"kernel {kernel}" in text
    for wrong, words in (
        ("kernel=rbff", "did you mean 'rbf'"),
        ("kernel=rbf:0", "gamma must be a number above 0"),
        ("max_support=50", "needs a kernel: give `kernel` as well"),
    ):
        code, text = call(wrong)
        assert (code, words in text) == (2, True), text
        assert "Traceback" not in text
