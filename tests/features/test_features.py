"""Every form that x may take, and every way in which one can be wrong: arrays, CSR, names, hashes, text."""

from __future__ import annotations

import math
import subprocess
import sys
import uuid
from collections import Counter, UserDict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.checks.examples import refused, rows, state
from onebit.errors import OnebitError
from onebit.features.named import hash_name
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner

WIDTH = 6
X, Y = rows(30)
X[X < 0.0] = 0.0  # so that there is something to leave out


def learner_of(**options: Any) -> Learner:
    return Learner("bpa", classes=3, **{"exploration": 0.1, "aggressiveness": 0.5, **options})


def assert_unchanged_by(learner: Learner, action: Callable[[], object]) -> str:
    before = state(learner)
    sentence = refused(action)
    assert state(learner) == before, f"changed by what was refused: {sentence}"
    return sentence


def taught(learner: Learner, forms: Any) -> Learner:
    for form, label in zip(forms, Y, strict=True):
        learner.learn(learner.decide(form), right=bool(label % 2))
    return learner


def csr(columns: list[int], values: list[float], width: int = WIDTH, starts: Any = None) -> Any:
    """A CSR matrix by its attributes, as SciPy names them, with nothing checked."""
    indptr = np.array([0, len(columns)] if starts is None else starts)
    return SimpleNamespace(
        data=np.array(values), indices=np.array(columns, dtype=np.int64), indptr=indptr, shape=(len(indptr) - 1, width)
    )


# --- arrays ------------------------------------------------------------------------------------------------------------


def test_arrays_of_every_kind_of_number_are_read() -> None:
    whole = np.array([0, 1, 2, 0, 3, 1])
    learner = taught(learner_of(features=WIDTH), X)
    expected = learner.scores(whole)
    for kind in ("int8", "uint16", "int64", "float16", "float32", "float64", "longdouble", ">f4", ">i8"):
        assert np.array_equal(learner.scores(whole.astype(kind)), expected), kind
    assert np.array_equal(learner.scores(tuple(whole.tolist())), expected)
    truth = np.array([True, False, True, True, False, False])
    assert np.array_equal(learner.scores(truth), learner.scores(truth.astype(float)))


def test_tables_in_every_memory_order_are_read() -> None:
    plain = taught(learner_of(), X)
    expected = plain.decide_many(X, ids=range(30))
    wide = np.zeros((60, 12))
    wide[::2, ::2] = X
    for form in (np.asfortranarray(X), wide[::2, ::2], X.tolist(), X[::-1].copy()[::-1], X.astype(">f8"), list(X)):
        assert plain.decide_many(form, ids=range(30)) == expected


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize(
    "bad",
    [
        None,
        "text",
        3.0,
        [],
        [1.0] * 5,
        [1.0] * 7,
        [[1.0] * 5],
        np.ones((6, 1)),
        np.ones((2, 6)),
        np.ones((1, 1, 6)),
        ["a"] * 6,
        [1.0, None, 2.0, 3.0, 4.0, 5.0],
        np.full(6, 1j),
        np.full(6, "2020-01-01", dtype="datetime64[D]"),
        [[1.0], [2.0, 3.0]],
        {"a": 1.0},
        np.array(2.0),
        len,
    ],
    ids=lambda bad: str(bad)[:24].replace("\n", " "),
)
def test_what_is_not_a_row_of_that_many_numbers_is_refused(bad: Any, space: str) -> None:
    learner = taught(learner_of(space=space), X)
    for action in (learner.decide, learner.probabilities, learner.best, learner.scores):
        sentence = assert_unchanged_by(learner, lambda action=action: action(bad))  # type: ignore[misc]
        assert sentence.startswith("x ")


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_finite_number_is_refused_with_its_place(bad: float, space: str) -> None:
    learner = taught(learner_of(space=space), X)
    x = X[0].copy()
    x[4] = bad
    sentence = assert_unchanged_by(learner, lambda: learner.decide(x))
    assert str(bad) in sentence
    assert "4" in sentence
    sentence = assert_unchanged_by(learner, lambda: learner.decide_many(np.stack([X[1], X[2], x])))
    assert "row 2, column 4" in sentence
    assert str(bad) in sentence


@pytest.mark.parametrize("shape", [(6,), (2, 5), (2, 7), (2, 6, 1)])
def test_a_table_of_another_shape_is_refused_with_that_shape(shape: tuple[int, ...]) -> None:
    learner = taught(learner_of(), X)
    sentence = assert_unchanged_by(learner, lambda: learner.decide_many(np.ones(shape)))
    assert str(shape) in sentence
    assert "6" in sentence


def test_a_decision_cannot_be_spoilt_through_its_x() -> None:
    dense, sparse, named = learner_of(), learner_of(space="sparse"), learner_of()
    decision = dense.decide(X[0])
    assert isinstance(decision.x, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        decision.x[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        dense.decide_many(X)[3].x[0] = 1.0  # type: ignore[index]
    given = scipy.sparse.csr_array(X[:1])
    kept = sparse.decide(given)
    before = kept.to_json()
    given.data[:] = 1e6
    given.indices[:] = 0
    assert kept.to_json() == before
    entries = {"a": 1.0}
    kept = named.decide(entries)
    before = kept.to_json()
    entries["a"] = 1e6
    assert kept.to_json() == before


# --- CSR ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["csr_matrix", "csr_array", "csc_matrix", "csc_array", "coo_array", "lil_array", "dok_array"]
)
def test_every_sparse_format_of_scipy_is_read_as_csr(kind: str) -> None:
    make = getattr(scipy.sparse, kind)
    reference = taught(learner_of(), (csr(np.flatnonzero(x).tolist(), x[x != 0].tolist()) for x in X))
    learner = taught(learner_of(), (make(X[row : row + 1]) for row in range(30)))
    assert np.array_equal(learner.weights, reference.weights)
    assert learner.decide_many(make(X), ids=range(30)) == [
        learner.decide(make(X[row : row + 1]), id=row) for row in range(30)
    ]


def test_a_one_dimensional_csr_array_is_a_row() -> None:
    row = scipy.sparse.csr_array(X[0])
    if row.ndim != 1:
        pytest.skip("this SciPy has no one-dimensional csr_array")
    learner = taught(learner_of(), (scipy.sparse.csr_array(x) for x in X))
    assert learner.features == WIDTH
    assert np.array_equal(learner.scores(row), learner.scores(scipy.sparse.csr_array(X[:1])))
    assert np.array_equal(learner.scores(scipy.sparse.coo_array(X[0])), learner.scores(row))


def test_a_list_of_sparse_rows_is_a_table_or_refused() -> None:
    """Rows that are good one by one are good together; at the least the learner must not take their number for features."""
    learner = learner_of()
    table: Any = [scipy.sparse.csr_array(X[row : row + 1]) for row in range(4)]
    try:
        decisions = learner.decide_many(table)
    except OnebitError:
        assert learner.decide(table[0]).label in (0, 1, 2)
    else:
        assert decisions == [learner.decide(row, id=place) for place, row in enumerate(table)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (csr([-1], [1.0]), ["row 0", "-1", "0 to 5"]),
        (csr([0, 6], [1.0, 1.0]), ["row 0", "6", "0 to 5"]),
        (csr([0, 2**40], [1.0, 1.0]), [str(2**40), "0 to 5"]),
        (csr([0, 3], [1.0, math.nan]), ["row 0", "column 3", "nan"]),
        (csr([0, 3], [1.0, -math.inf]), ["row 0", "column 3", "-inf"]),
        (csr([0, 3], [1.0, 1.0], starts=[0, 1]), ["indptr"]),
        (csr([0, 3], [1.0, 1.0], starts=[1, 2]), ["indptr"]),
        (csr([0, 3], [1.0, 1.0], starts=[0, 3]), ["indptr"]),
        (csr([0, 3], [1.0]), ["indptr"]),
        (csr([0, 3], ["a", "b"]), ["dtype"]),  # type: ignore[list-item]
        (csr([0, 3], [1j, 1.0]), ["complex"]),  # type: ignore[list-item]
        (csr([0, 3], [1.0, 1.0], width=7), ["7", "6"]),
        (csr([0, 3], [1.0, 1.0], starts=[0, 1, 2]), ["2 rows"]),
        (csr([0, 3], [1.0, 1.0], starts=[0]), ["row"]),
    ],
    ids=lambda given: "" if isinstance(given, list) else f"{given.indices} {given.data} {given.indptr} {given.shape}",
)
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_a_bad_csr_row_is_refused_with_the_place(given: Any, words: list[str], space: str) -> None:
    learner = taught(learner_of(space=space), X)
    sentence = assert_unchanged_by(learner, lambda: learner.decide(given))
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (csr([0, 1, 3, -2], [1.0] * 4, starts=[0, 2, 4]), ["row 1", "-2"]),
        (csr([0, 1, 3, 9], [1.0] * 4, starts=[0, 2, 2, 4]), ["row 2", "9"]),
        (csr([0, 1, 3, 4], [1.0, 1.0, math.nan, 1.0], starts=[0, 2, 2, 4]), ["row 2", "column 3", "nan"]),
        (csr([0, 1, 3, 4], [1.0] * 4, starts=[0, 3, 2, 4]), ["indptr"]),
        (csr([0, 1, 3, 4], [1.0] * 4, starts=[0, 5, 4]), ["indptr"]),
    ],
)
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_a_bad_row_of_a_csr_table_is_refused_with_its_row(given: Any, words: list[str], space: str) -> None:
    learner = taught(learner_of(space=space), X)
    for action in (
        lambda: learner.decide_many(given),
        lambda: learner.teach(given, [0] * (len(given.indptr) - 1)),
    ):
        sentence = assert_unchanged_by(learner, action)
        for word in words:
            assert word in sentence


@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_columns_that_do_not_rise_are_sorted_and_values_of_one_column_summed(space: str) -> None:
    """What SciPy leaves after `A @ B` is the same matrix."""
    mixed = csr([3, 1, 0, 5, 2, 5, 4], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], starts=[0, 2, 2, 6, 7])
    sorted_ = csr([1, 3, 0, 2, 5, 4], [2.0, 1.0, 3.0, 5.0, 10.0, 7.0], starts=[0, 2, 2, 5, 6])
    one, other = (taught(learner_of(space=space), X) for _ in range(2))
    one.teach(mixed, [0, 1, 2, 0])
    other.teach(sorted_, [0, 1, 2, 0])
    assert one.weights.tolist() == other.weights.tolist()
    row = csr([3, 1, 3], [200, 2, 100])
    row.data = row.data.astype(np.uint8)  # their sum must not run over
    kept = one.decide(row).x
    values = np.zeros(6)
    values[[1, 3]] = 2.0, 300.0
    assert one.decide(values).x.tolist() == kept.tolist() if space == "dense" else kept.values.tolist() == [2.0, 300.0]  # type: ignore[union-attr]
    assert "row 0, column 3" in assert_unchanged_by(one, lambda: one.decide(csr([3, 3], [3e38, 3e38])))


def test_a_product_of_scipy_is_taken_as_it_is() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    generator = np.random.default_rng(0)
    left, right = (sparse.random_array((40, 40), density=0.2, rng=generator, format="csr") for _ in range(2))
    product = left @ right
    assert not product.has_sorted_indices
    tidy = product.copy()
    tidy.sort_indices()
    labels = generator.integers(0, 3, size=40)
    one, other = learner_of(), learner_of()
    one.teach(product, labels)
    other.teach(tidy, labels)
    assert one.weights.tolist() == other.weights.tolist()


@pytest.mark.parametrize("space", ["dense", "sparse"])
@pytest.mark.parametrize("form", [np.array, list], ids=["array", "list"])
def test_a_matrix_of_one_row_is_a_row(space: str, form: Any) -> None:
    learner = taught(learner_of(space=space), X)
    row = [0.5, 0.0, 1.0, 0.0, -2.0, 0.25]
    assert learner.decide(form([row]), 7) == learner.decide(np.array(row), 7)
    assert "decide_many" in assert_unchanged_by(learner, lambda: learner.decide(form([row, row])))


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_fractions_are_no_indices(part: str) -> None:
    """A column 1.5, or a cut at 1.5, is a mistake somewhere, not column 1."""
    learner = taught(learner_of(space="sparse"), X)
    given = csr([0, 1, 3, 4], [1.0] * 4, starts=[0, 2, 4])
    setattr(given, part, getattr(given, part) + np.array([0.0] + [0.5] * (len(getattr(given, part)) - 2) + [0.0]))
    assert_unchanged_by(learner, lambda: learner.decide_many(given))


def test_rows_that_end_where_the_next_begins_lower_are_in_order() -> None:
    """Indices must rise within a row only: falling from one row to the next, and empty rows in between, are fine."""
    table = csr([4, 5, 0, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0], starts=[0, 0, 2, 2, 4, 5, 5])
    learner = learner_of()
    decisions = learner.decide_many(table)
    assert [one.x.columns.tolist() for one in decisions] == [[], [4, 5], [], [0, 1], [0], []]  # type: ignore[union-attr]
    spread = learner_of(space="dense").decide_many(table)
    assert [np.asarray(one.x).tolist() for one in spread][3] == [3.0, 4.0, 0.0, 0.0, 0.0, 0.0]


def test_zeros_that_are_stored_are_zeros() -> None:
    learner = taught(learner_of(space="sparse"), X)
    with_zeros = csr([0, 2, 3], [1.0, 0.0, 2.0])
    assert np.array_equal(learner.scores(with_zeros), learner.scores(csr([0, 3], [1.0, 2.0])))


# --- dense learners given sparse rows, and the reverse -----------------------------------------------------------------


def test_each_space_reads_the_rows_of_the_other() -> None:
    for space in ("dense", "sparse"):
        one = taught(learner_of(space=space), X)
        other = taught(learner_of(space=space), (scipy.sparse.csr_array(X[row : row + 1]) for row in range(30)))
        assert np.array_equal(one.weights, other.weights)
        for table in (X, scipy.sparse.csr_array(X), scipy.sparse.csc_array(X), X.tolist()):
            assert one.decide_many(table, ids=range(30)) == [one.decide(x, id=row) for row, x in enumerate(X)]
        taught_dense, taught_sparse = copy_learner(one), copy_learner(one)
        taught_dense.teach(X, Y % 3)
        taught_sparse.teach(scipy.sparse.csr_array(X), Y % 3)
        assert np.array_equal(taught_dense.weights, taught_sparse.weights)


def test_a_kept_row_costs_its_non_zeros() -> None:
    learner = learner_of(features=50_000, space="sparse")
    x = np.zeros(50_000)
    x[[7, 40_000]] = 1.0
    assert len(learner.decide(x).to_json()) < 600


# --- names -------------------------------------------------------------------------------------------------------------


def named(x: Any) -> dict[str, float]:
    return {f"f{column}": value for column, value in enumerate(x.tolist()) if value}


@pytest.mark.parametrize("kind", [dict, UserDict, MappingProxyType, Counter])
@pytest.mark.parametrize("first", [True, False], ids=["as the first x", "later"])
def test_every_mapping_is_read_like_a_dict(kind: Any, first: bool) -> None:
    learner = learner_of()
    if not first:
        learner.decide({"b": 1.0})
    assert learner.decide(kind({"a": 1, "b": 2})).x == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    "value", [2, 2.0, True, np.float32(2), np.int8(2), np.float64(2), Fraction(2), np.True_], ids=repr
)
def test_every_kind_of_number_is_a_value(value: Any) -> None:
    assert learner_of().decide({"a": value}).x == {"a": float(value)}


@pytest.mark.parametrize(
    "bad",
    [
        {1: 1.0},
        {None: 1.0},
        {("a", 1): 1.0},
        {b"a": 1.0},
        {"a": None},
        {"a": "1"},
        {"a": [1.0]},
        {"a": 1j},
        {"a": math.nan},
        {"a": -math.inf},
        {"a": np.float64("nan")},
        {"a": 10**400},
        {"a": Decimal("NaN")},
        {"half \ud800 a character": 1.0},
    ],
    ids=lambda bad: ascii(bad)[:24],
)
@pytest.mark.parametrize("options", [{}, {"hash_bits": 6}, {"text": True}], ids=repr)
def test_a_bad_name_or_value_is_refused(bad: Any, options: dict[str, Any]) -> None:
    learner = learner_of(**options)
    learner.learn(learner.decide({"good": 1.0}), right=True)
    sentence = assert_unchanged_by(learner, lambda: learner.decide({"good": 1.0, **bad}))
    assert "feature" in sentence
    assert_unchanged_by(learner, lambda: learner.decide_many([{"good": 1.0}, bad]))
    assert_unchanged_by(learner, lambda: learner.teach([{"fine": 1.0}, bad], [0, 1]))


def test_deciding_does_not_grow_the_vocabulary_and_learning_does() -> None:
    learner = learner_of()
    learner.decide({"never": 1.0, "heard": 1.0})
    learner.decide_many([{"of": 1.0}, {"these": 1.0}])
    learner.probabilities({"names": 1.0})
    learner.best({"names": 1.0})
    learner.scores({"names": 1.0})
    assert learner.features == 0
    assert learner.weights.shape == (3, 0)
    decision = learner.decide({"b": 1.0, "a": 1.0})
    before = state(learner)
    learner.decide({"c": 1.0}, id="c")
    assert state(learner) == before
    learner.learn(decision, right=True)
    assert learner.features == 2
    learner.learn(learner.decide({"a": 1.0, "c": 1.0}), right=False)
    assert learner.features == 3
    learner.teach([{"d": 1.0}], [0])
    assert learner.features == 4
    assert learner.weights.shape == (3, 4)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("options", [{}, {"hash_bits": 4}], ids=repr)
def test_a_value_too_large_for_the_weights_is_refused_by_its_name(options: dict[str, Any]) -> None:
    learner = learner_of(**options)
    learner.learn(learner.decide({"known": 1.0}), right=True)
    sentence = assert_unchanged_by(learner, lambda: learner.decide({"known": 1.0, "large": 1e300}))
    assert "'large'" in sentence
    assert "1e+300" in sentence


def test_a_name_never_learnt_adds_nothing_to_a_score() -> None:
    learner = taught(learner_of(), [named(x) for x in X])
    known = named(X[0])
    strange = {**known, "aaa": 100.0, "zzz": -100.0}
    assert np.array_equal(learner.scores(strange), learner.scores(known))
    assert [one.label for one in learner.decide_many([strange] * 20, ids=range(20))] == [
        learner.decide(known, id=identity).label for identity in range(20)
    ]


def test_a_name_never_learnt_counts_in_the_length() -> None:
    learner = Learner("gaptron", classes=3, rate=0.1, exploration=0.1, max_norm=1.0)
    learner.learn(learner.decide({"a": 0.5}), right=True)
    assert "length 5" in assert_unchanged_by(learner, lambda: learner.decide({"a": 3.0, "new": 4.0}))


def test_a_step_on_a_new_name_is_as_long_as_on_a_known_one() -> None:
    """PA without a bound makes the played score exactly 1 whichever of the names were known before."""
    learner = Learner("bpa", classes=2, variant="PA", exploration=0.0, dtype="float64")
    learner.learn(learner.decide({"a": 1.0}), right=True)
    x = {"a": 1.0, "new": 2.0, "newer": 2.0}
    decision = learner.decide(x)
    learner.learn(decision, right=False)
    assert learner.scores(x)[learner.classes.index(decision.label)] == pytest.approx(-1.0)


def test_names_refused_while_learning_or_taught_do_not_enter_the_vocabulary() -> None:
    learner = Learner("gaptron", classes=3, rate=0.1, exploration=0.1, max_norm=1.0)
    learner.learn(learner.decide({"a": 0.5}), right=True)
    decision = learner.decide({"b": 0.5})
    long = decision._replace(x={"c": 9.0})
    assert_unchanged_by(learner, lambda: learner.learn(long, right=True))
    assert_unchanged_by(learner, lambda: learner.learn_many([decision, long._replace(id="other")], right=[True, True]))
    assert_unchanged_by(learner, lambda: learner.teach([{"d": 0.5}, {"e": 9.0}], [0, 1]))
    learner.learn(decision, right=True)


def test_a_table_of_dicts_is_its_rows() -> None:
    learner = taught(learner_of(bias=True), [named(x) for x in X])
    table = [named(x) for x in X]
    assert learner.decide_many(table, ids=range(30)) == [learner.decide(x, id=row) for row, x in enumerate(table)]
    assert learner.decide_many(tuple(table), ids=range(30))[3] == learner.decide(table[3], id=3)


def test_a_vocabulary_that_grows_by_thousands_keeps_every_weight() -> None:
    """Each name is learnt once, by a step of known size; growing must neither lose nor mix them, with and without bias."""
    for bias in (False, True):
        learner = Learner("bpa", classes=2, exploration=0.0, variant="PA", bias=bias, dtype="float64")
        for number in range(3000):
            name = f"name {number}"
            decision = learner.decide({name: 1.0})
            learner.learn(decision, right=True)
            assert learner.scores({name: 1.0})[decision.label] == pytest.approx(1.0)  # type: ignore[index]
        assert learner.features == 3000
        assert learner.weights.shape == (2, 3000 + bias)


def test_an_empty_dict_is_x_of_nothing() -> None:
    for bias in (False, True):
        learner = learner_of(bias=bias)
        learner.learn(learner.decide({}), right=True)
        assert learner.learnt == 1
        assert bool(learner.weights.any()) == bias


# --- hashing -----------------------------------------------------------------------------------------------------------


def test_hashed_columns_are_the_same_in_another_process() -> None:
    names = ["a", "word", "ärger", "", "語", "a" * 1000]
    program = "import sys; from onebit.features.named import hash_name; print([hash_name(name, 1 << 20) for name in eval(sys.argv[1])])"
    answer = subprocess.run(
        [sys.executable, "-c", program, repr(names)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7"},
    )
    assert answer.stdout.strip() == str([hash_name(name, 1 << 20) for name in names])


def test_hashed_columns_never_change_from_release_to_release() -> None:
    """Saved learners depend on these; these numbers are those of the first release."""
    assert [hash_name(name, 1 << 16) for name in ("a", "word", "f1")] == [63552, 42058, 24929]


def test_hashed_columns_are_spread_evenly() -> None:
    """Chi-squared with 63 degrees of freedom: beyond 120 with probability 2e-5, were it random; the names are fixed."""
    counts = np.bincount([hash_name(f"name {number}", 64) for number in range(6400)], minlength=64)
    assert float(((counts - 100.0) ** 2 / 100.0).sum()) < 120.0


def test_names_in_one_column_are_summed() -> None:
    first = next(f"n{i}" for i in range(1000) if hash_name(f"n{i}", 4) == 2)
    second = next(f"m{i}" for i in range(1000) if hash_name(f"m{i}", 4) == 2)
    learner = learner_of(hash_bits=2)
    learner.learn(learner.decide({first: 1.0}), right=True)
    assert np.array_equal(learner.scores({first: 1.0, second: 2.0}), learner.scores({first: 3.0}))
    assert not learner.scores({first: 1.0, second: -1.0}).any()
    assert np.flatnonzero(learner.weights.any(axis=0)).tolist() == [2]


def test_a_hashing_learner_has_all_its_columns_from_the_start_and_no_vocabulary() -> None:
    learner = learner_of(hash_bits=5, bias=True)
    assert learner.features == 32
    learner.learn(learner.decide({f"n{i}": 1.0 for i in range(200)}), right=True)
    assert learner.features == 32
    assert learner.weights.shape == (3, 33)


# --- text --------------------------------------------------------------------------------------------------------------


def test_a_text_is_the_set_of_its_words_at_length_one() -> None:
    learner = learner_of(text=True)
    learner.learn(learner.decide("The cat, the CAT -- and 2 dogs!"), right=True)
    words = {"the", "cat", "and", "2", "dogs"}
    assert learner.features == 5
    as_names = dict.fromkeys(words, 1.0 / math.sqrt(5.0))
    assert np.array_equal(learner.scores("dogs and the cat: 2"), learner.scores(as_names))
    assert learner.scores("cat").any()
    assert not learner.scores("bird").any()


def test_a_text_has_length_one_however_many_words() -> None:
    learner = Learner("gaptron", classes=2, rate=0.1, exploration=0.1, max_norm=1.0, text=True, dtype="float64")
    for count in (1, 3, 7, 1000):
        assert learner.decide(" ".join(f"w{i}" for i in range(count))).label in (0, 1)
    short = Learner("gaptron", classes=2, rate=0.1, exploration=0.1, max_norm=0.99, text=True)
    assert "length 1," in refused(lambda: short.decide("a b c"))


@pytest.mark.parametrize("text", ["", "   \n\t", "--- !!! ...", "\u2003"])
def test_a_text_without_words_is_x_of_nothing(text: str) -> None:
    learner = learner_of(text=True)
    learner.learn(learner.decide(text), right=True)
    assert learner.learnt == 1
    assert not learner.weights.any()
    assert learner.decide(text).x == text


def test_words_of_every_language_are_words() -> None:
    learner = learner_of(text=True)
    learner.learn(learner.decide("Ärger übel 語 снег naïve_name"), right=True)
    assert learner.features == 5
    assert np.array_equal(learner.scores("ÄRGER"), learner.scores("ärger"))


def test_a_text_learner_hashes_where_it_is_told_to() -> None:
    learner = learner_of(text=True, hash_bits=4)
    learner.learn(learner.decide("one two"), right=True)
    assert learner.features == 16
    assert np.array_equal(learner.scores("one"), learner.scores({"one": 1.0}))


def test_a_table_of_texts_is_its_texts_and_one_text_is_no_table() -> None:
    learner = learner_of(text=True)
    texts = ["one two", "two three", ""]
    assert learner.decide_many(texts, ids=range(3)) == [learner.decide(text, id=row) for row, text in enumerate(texts)]
    assert_unchanged_by(learner, lambda: learner.decide_many("one two"))
    assert_unchanged_by(learner, lambda: learner.teach("abc", [0, 1, 2]))


# --- one learner, one form ---------------------------------------------------------------------------------------------

FORMS: dict[str, Any] = {
    "array": X[0],
    "list": X[0].tolist(),
    "csr": scipy.sparse.csr_array(X[:1]),
    "dict": {"a": 1.0},
    "text": "one two",
}


@pytest.mark.parametrize("second", FORMS)
@pytest.mark.parametrize("first", FORMS)
def test_numbered_and_named_features_do_not_mix(first: str, second: str) -> None:
    """Arrays and CSR go together, dicts and texts go together (where texts are asked for), and nothing else does."""
    numbered = {"array", "list", "csr"}
    learner = learner_of(text=first == "text")
    learner.learn(learner.decide(FORMS[first]), right=True)
    if (first in numbered) == (second in numbered) and (second != "text" or first == "text"):
        assert learner.decide(FORMS[second]).label in (0, 1, 2)
        return
    sentence = assert_unchanged_by(learner, lambda: learner.decide(FORMS[second]))
    assert sentence.startswith("x is a ")
    assert "takes" in sentence


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (None, "x is None, but"),
        (5, "x is 5, but must be one row or a matrix of rows"),
        ({"a"}, "x is {'a'}, but must be one row or a matrix of rows"),
        (b"ab", "x is b'ab', but must be one row or a matrix of rows"),
        ([1.0, "a"], "x has 'a' as feature 1, but must contain only numbers"),
        ([1.0, None], "x has None as feature 1, but must contain only numbers"),
        ([1.0, 2j], "x has 2j as feature 1, but must contain only numbers"),
    ],
    ids=str,
)
def test_what_is_no_row_is_shown_as_it_is(x: Any, words: str) -> None:
    """They were said to have a shape, or a dtype, which are words for arrays."""
    assert refused(lambda: learner_of().decide(x)).startswith(words)


def test_what_is_no_text_is_said_with_its_article() -> None:
    for x, words in ((None, "x is None, but"), (5, "x is an int, but"), (["a"], "x is a list, but")):
        assert refused(lambda given=x: learner_of(text=True).decide(given)).startswith(words)  # type: ignore[misc]


def test_a_text_without_the_option_is_told_of_it() -> None:
    assert "text=True" in refused(lambda: learner_of().decide("one two"))
    learner = learner_of()
    learner.decide({"a": 1.0})
    assert "text=True" in refused(lambda: learner.decide("one two"))


def test_a_learner_with_a_number_of_features_takes_no_names() -> None:
    for options in ({"features": 6}, {"features": 6, "space": "sparse"}, {"space": "dense"}):
        learner = learner_of(**options)
        assert "arrays" in refused(lambda learner=learner: learner.decide({"a": 1.0}))  # type: ignore[misc]
        assert learner.decide(X[0]).label in (0, 1, 2)


def test_a_sparse_learner_whose_first_x_is_a_dict_takes_names() -> None:
    learner = learner_of(space="sparse")
    assert learner.decide({"a": 1.0}).x == {"a": 1.0}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.int32(70), 70),
        (np.uint64(70), 70),
        (np.str_("seven"), "seven"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
    ids=["int32", "uint64", "str_", "uuid"],
)
def test_ids_may_be_scalars_of_numpy_and_uuids(given: Any, kept: int | str) -> None:
    learner = taught(learner_of(), X)
    decision = learner.decide(X[0], given)
    assert decision.id == kept
    assert type(decision.id) is type(kept)
    assert learner.decide(X[0], kept) == decision == learner.decide_many(X[:1], [given])[0]
    assert Decision.from_json(decision.to_json()) == decision
    learner.learn(decision, right=True)


@pytest.mark.parametrize("given", [np.bool_(True), np.float64(1.0), np.bytes_(b"a"), np.datetime64("2020-01-01")])
def test_other_scalars_are_no_ids(given: Any) -> None:
    learner = taught(learner_of(), X)
    assert "id" in assert_unchanged_by(learner, lambda: learner.decide(X[0], given))
