"""Each step does what its line says, in blocks of any size, on dense and sparse rows, in memory and on disk."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from onebit.checks.examples import refused
from onebit.contract.options import Options
from onebit.data import row_blocks as blocks
from onebit.data.dataset import Csr
from onebit.data.file_blocks import FileStore
from onebit.data.preparation import STEPS, parse_steps, prepare_rows
from onebit.features.features import Features
from onebit.spaces.kernels import Kernel

Matrix = NDArray[Any]


def counts(rows: int = 60, width: int = 12, seed: int = 0) -> Matrix:
    """Counts as of words: most are 0, one row and one column are empty, one column is everywhere."""
    table = np.random.default_rng(seed).poisson(0.5, size=(rows, width)).astype(np.int64)
    table[4] = 0
    table[:, 3] = 0
    table[:, 7] = 2
    return table


def csr(table: Matrix) -> Csr:
    matrix = scipy.sparse.csr_matrix(table)
    return Csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape)


def dense(rows: Any) -> Matrix:
    """Rows of any form as a matrix."""
    if hasattr(rows, "indptr"):
        return np.asarray(scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape).toarray())
    return np.asarray(rows)


def tf_idf(table: Matrix) -> Matrix:
    result = np.zeros(table.shape)
    for row, column in zip(*np.nonzero(table), strict=True):
        containing = np.count_nonzero(table[:, column])
        result[row, column] = (1 + np.log(table[row, column])) * np.log(len(table) / containing)
    return result


def unit(table: Matrix) -> Matrix:
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(lengths == 0, 1, lengths))


def standard(table: Matrix) -> Matrix:
    spread = table.std(axis=0)
    return np.asarray(np.where(np.ptp(table, axis=0) > 0, (table - table.mean(axis=0)) / np.maximum(spread, 1e-300), 0))


FORMULAS: dict[str, Callable[[Matrix], Matrix]] = {
    "scale": lambda table: table / np.abs(table).max(),
    "standard": standard,
    "unit-norm": unit,
    "binary": lambda table: (table != 0).astype(float),
    "tf-idf": tf_idf,
    "rare:0.4": lambda table: table[:, np.count_nonzero(table, axis=0) <= 0.4 * len(table)],
    "bias": lambda table: np.hstack([table, np.ones((len(table), 1))]),
    "unit-ball": lambda table: table / np.linalg.norm(table, axis=1).max(),
}
MAPS = ("fourier",)  # to the features of a kernel: tested by their dot products, below
CHAINS = [("tf-idf", "unit-norm"), ("rare:0.4", "binary", "unit-norm", "bias"), ("scale", "bias", "unit-norm")]
SPARSE: list[tuple[str, ...]] = [*((step,) for step in FORMULAS if step != "standard"), *CHAINS]


def test_every_step_has_a_formula_here() -> None:
    assert [name.partition(":")[0] for name in STEPS] == [*(step.partition(":")[0] for step in FORMULAS), *MAPS]


@pytest.mark.parametrize("steps", [("standard",), *SPARSE], ids=",".join)
def test_steps_follow_their_formulas_in_order(steps: tuple[str, ...]) -> None:
    table = counts()
    expected = table.astype(np.float64)
    for step in steps:
        expected = FORMULAS[step](expected)
    result = prepare_rows(table, steps)
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert result.shape == expected.shape
    assert np.abs(result - expected).max() < 1e-6
    assert np.abs(expected).max() > 0.5


@pytest.mark.parametrize("steps", SPARSE, ids=",".join)
def test_sparse_rows_are_prepared_like_dense_ones(steps: tuple[str, ...]) -> None:
    table = counts()
    expected = prepare_rows(table, steps)
    for kind in (csr, scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.csc_matrix):
        given = kind(table)
        result = prepare_rows(given, steps)
        assert type(result) is (scipy.sparse.csr_matrix if kind is scipy.sparse.csc_matrix else type(given))
        assert result.data.dtype == np.float32
        assert tuple(result.shape) == expected.shape
        assert np.abs(dense(result) - expected).max() < 1e-6
        Features(Options(features=result.shape[1], space="sparse")).read_table(result)  # what a run reads


@pytest.mark.parametrize("steps", SPARSE, ids=",".join)
def test_stored_zeros_count_for_nothing(steps: tuple[str, ...]) -> None:
    table = counts()
    everywhere = Csr(
        table.ravel(), np.tile(np.arange(12), 60), np.arange(0, 60 * 12 + 1, 12), table.shape
    )  # all 720 values stored
    assert np.abs(dense(prepare_rows(everywhere, steps)) - prepare_rows(table, steps)).max() < 1e-6


@pytest.mark.parametrize(("rows", "values"), [(1, 4_000_000), (7, 4_000_000), (60, 1), (60, 30), (59, 4_000_000)])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, rows: int, values: int) -> None:
    table = counts()
    whole = {steps: prepare_rows(table, steps) for steps in [("standard",), *SPARSE]}
    monkeypatch.setattr(blocks, "BLOCK_ROWS", rows)
    monkeypatch.setattr(blocks, "BLOCK_VALUES", values)
    for steps, expected in whole.items():
        assert np.abs(prepare_rows(table, steps) - expected).max() < 1e-6
        if steps != ("standard",):
            assert np.abs(dense(prepare_rows(csr(table), steps)) - expected).max() < 1e-6


@pytest.mark.parametrize("steps", SPARSE, ids=",".join)
def test_files_hold_what_memory_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...]) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 13)
    table = counts()
    result = prepare_rows(table, steps, files(tmp_path / "dense"))
    assert isinstance(result, np.memmap)
    assert np.array_equal(result, prepare_rows(table, steps))
    assert np.array_equal(np.load(tmp_path / "dense" / "X.npy"), result)
    mapped, expected = prepare_rows(csr(table), steps, files(tmp_path / "sparse")), prepare_rows(csr(table), steps)
    for name in ("data", "indices", "indptr"):
        assert isinstance(getattr(mapped, name), np.memmap)
        assert np.array_equal(getattr(mapped, name), getattr(expected, name))
        assert getattr(mapped, name).dtype == getattr(expected, name).dtype
    assert sorted(path.name for path in (tmp_path / "sparse").iterdir()) == ["data.npy", "indices.npy", "indptr.npy"]
    matrix = scipy.sparse.csr_matrix(table)
    assert (dense(prepare_rows(matrix, steps, files(tmp_path / "scipy"))) == dense(expected)).all()


def files(folder: Path) -> FileStore:
    folder.mkdir()
    return FileStore(folder, "for the prepared rows")


def test_rows_without_a_stored_value_have_files_too(tmp_path: Path) -> None:
    empty = csr(np.zeros((3, 4)))
    zeros = prepare_rows(empty, "scale,unit-norm,tf-idf", files(tmp_path / "zeros"))
    assert dense(zeros).tolist() == [[0.0] * 4] * 3
    assert dense(prepare_rows(empty, "bias", files(tmp_path / "bias"))).tolist() == [[0.0] * 4 + [1.0]] * 3


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.int32, np.float16, np.float32, np.float64])
def test_any_kind_of_number_is_taken(dtype: Any) -> None:
    table = counts().astype(dtype)
    expected = prepare_rows(table.astype(np.float64), "scale,unit-norm")
    assert np.array_equal(prepare_rows(table, "scale,unit-norm"), expected)
    assert np.array_equal(prepare_rows(np.asfortranarray(table), "scale,unit-norm"), expected)
    assert np.array_equal(prepare_rows(table.tolist(), "scale,unit-norm"), expected)


def test_the_input_is_unchanged() -> None:
    table = counts().astype(np.float32)
    matrix, ours = scipy.sparse.csr_matrix(table), csr(table)
    for steps in [("standard",), *SPARSE]:
        prepare_rows(table, steps)
        if steps != ("standard",):
            prepare_rows(matrix, steps)
            prepare_rows(ours, steps)
        assert np.array_equal(table, counts())
        assert np.array_equal(matrix.toarray(), counts())
        assert np.array_equal(dense(ours), counts())


@pytest.mark.parametrize("X", [counts(), ["a text"], [{"a": 1.0}], csr(counts())], ids=["array", "text", "dict", "csr"])
def test_without_steps_rows_of_any_form_are_given_back(X: Any) -> None:
    for nothing in (None, "", (), [""]):
        assert prepare_rows(X, nothing) is X


# --- single steps --------------------------------------------------------------------------------------------------------


def test_tf_idf_is_scikit_learns_without_its_one() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is in the extra experiments")
    table = scipy.sparse.csr_matrix(np.delete(counts(), 3, axis=1))  # without the empty column, where it divides by 0
    theirs = text.TfidfTransformer(sublinear_tf=True, smooth_idf=False, norm=None).fit_transform(table).toarray()
    logarithms = table.toarray().astype(float)
    logarithms[logarithms > 0] = 1 + np.log(logarithms[logarithms > 0])
    assert np.abs(dense(prepare_rows(table, "tf-idf")) - (theirs - logarithms)).max() < 1e-6


def test_standard_is_scikit_learns() -> None:
    scaler = pytest.importorskip("sklearn.preprocessing", reason="scikit-learn is in the extra experiments")
    table = np.random.default_rng(1).normal(1e6, [1, 10, 1000], size=(500, 3))
    assert np.abs(prepare_rows(table, "standard") - scaler.StandardScaler().fit_transform(table)).max() < 1e-5


def test_standard_keeps_small_differences_between_large_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 3)
    times = 1.7e9 + np.arange(50.0)[:, None]
    assert np.abs(prepare_rows(times, "standard") - standard(np.arange(50.0)[:, None])).max() < 1e-5


def test_standard_of_a_constant_column_is_zero_whatever_its_mean_rounds_to() -> None:
    table = np.full((1000, 2), 0.1)
    table[0, 1] = 0.2
    result = prepare_rows(table, "standard")
    assert (result[:, 0] == 0).all()
    assert result[0, 1] > 10


def test_scale_makes_the_largest_value_one() -> None:
    digits = np.array([[0, 16], [8, 4]], dtype=np.uint8)
    assert prepare_rows(digits, "scale").tolist() == [[0.0, 1.0], [0.5, 0.25]]
    assert prepare_rows(np.array([[-4.0, 2.0]]), "scale").tolist() == [[-1.0, 0.5]]
    assert prepare_rows(np.zeros((2, 2)), "scale").tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_rare_counts_exactly() -> None:
    table = np.zeros((100, 3))
    table[:29, 0] = table[:30, 1] = table[:28, 2] = 1
    assert prepare_rows(table, "rare:0.29").sum(axis=0).tolist() == [29.0, 28.0]  # 0.29 * 100 < 29 in floating point


finite = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-(2.0**60), 2.0**60, width=32, allow_subnormal=False),
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(table=finite, step=st.sampled_from(["unit-norm", "binary", "scale"]))
def test_a_second_time_changes_nothing(table: Matrix, step: str) -> None:
    once = prepare_rows(table, step)
    twice = prepare_rows(once, step)
    assert np.abs(twice - once).max() <= (2e-7 if step == "unit-norm" else 0.0)
    sparse = prepare_rows(csr(table), step)
    assert np.abs(dense(sparse) - once).max() <= 2e-7


@settings(max_examples=100, deadline=None, derandomize=True)
@given(table=finite)
def test_rows_have_length_one_or_zero(table: Matrix) -> None:
    lengths = np.linalg.norm(prepare_rows(table, "unit-norm").astype(np.float64), axis=1)
    zero = (table == 0).all(axis=1)
    assert np.abs(lengths - ~zero).max() < 1e-6


# --- what is written, and what is refused ----------------------------------------------------------------------------------


def test_steps_have_one_spelling() -> None:
    assert parse_steps("scale,unit-norm") == parse_steps(["scale", "unit-norm"]) == parse_steps(" scale , unit-norm ")
    assert parse_steps("rare:.01") == parse_steps(["rare:1e-2"]) == ("rare:0.01",)
    assert parse_steps("rare:1") == parse_steps("rare:1.0") == ("rare:1",)
    assert parse_steps(parse_steps("rare:0.000012,bias")) == parse_steps("rare:0.000012,bias")
    assert parse_steps(None) == parse_steps("") == parse_steps(" ") == parse_steps([]) == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("unitnorm", "did you mean 'unit-norm'?"),
        ("idf", "did you mean 'tf-idf'?"),
        ("scale,,bias", "empty step"),
        ("scale,", "empty step"),
        ("scale,bias,scale", "scale twice"),
        ("rare:0.1,rare:0.2", "rare twice"),
        ("rare", "as in rare:0.01"),
        ("rare:1%", "as in rare:0.01"),
        ("rare:0", "above 0 and at most 1"),
        ("rare:1.5", "above 0 and at most 1"),
        ("rare:nan", "above 0 and at most 1"),
        ("scale:255", "takes none"),
        ([3], "must be a string"),
        (3, "must be a string"),
    ],
)
def test_what_is_no_step_is_refused(given: Any, words: str) -> None:
    assert words in refused(lambda: parse_steps(given))
    assert words in refused(lambda: prepare_rows(counts(), given))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_a_number_that_cannot_be_used_is_refused_with_its_place(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 9)
    table = counts().astype(np.float64)
    table[31, 5] = value
    for X in (table, csr(table)):
        sentence = refused(partial(prepare_rows, X, "binary"))
        assert "row 31, column 5" in sentence
        assert ("float32" if value == 1e39 else "finite") in sentence


def test_tf_idf_takes_counts_only() -> None:
    table = counts().astype(np.float64)
    assert "before tf-idf, which takes counts" in refused(lambda: prepare_rows(table, "scale,tf-idf"))
    table[20, 1] = -1
    sentence = refused(lambda: prepare_rows(csr(table), "tf-idf"))
    assert "row 20, column 1" in sentence
    assert "is -1 before" in sentence


@pytest.mark.parametrize(
    ("X", "steps", "words"),
    [
        (csr(counts()), "standard", "not take sparse rows"),
        (np.ones((5, 2)), "rare:0.5", "leaves no column"),
        ([{"a": 1.0}], "scale", "dicts or texts"),
        (["a text"], "bias", "dicts or texts"),
        ([[1.0], [1.0, 2.0]], "scale", "differ in length"),
        (np.array([["a"]]), "scale", "dtype <U1"),
        (np.ones(3), "scale", "shape (3,)"),
        (np.ones((0, 3)), "scale", "at least one of each"),
        (scipy.sparse.csr_matrix((3, 0)), "scale", "at least one of each"),
        ("synsep10", "scale", "must be a matrix or a list of rows"),
        (
            Csr(np.ones(2), np.array([0, 1]), np.array([0, 1]), (1, 3)),
            "scale",
            "indptr of a sparse matrix of 1 rows must have",
        ),
        (Csr(np.ones(2), np.array([0, 3]), np.array([0, 2]), (1, 3)), "scale", "row 0 has column index 3"),
        (Csr(np.ones(2), np.array([0.0, 1.0]), np.array([0, 2]), (1, 3)), "scale", "whole numbers"),
    ],
)
def test_what_cannot_be_prepared_is_refused(X: Any, steps: str, words: str) -> None:
    assert words in refused(lambda: prepare_rows(X, steps))


# --- features of kernels -------------------------------------------------------------------------------------------------


def in_the_ball(rows: int = 80, width: int = 2, seed: int = 0) -> Matrix:
    return np.asarray(0.9 * prepare_rows(np.random.default_rng(seed).normal(size=(rows, width)), "unit-ball"))


def test_fourier_features_multiply_to_the_rbf_kernel_nearly() -> None:
    """The error of one of the 3,240 products is normal with a deviation of at most 1 / sqrt(20,000): 6 of them, 1e-5 in all."""
    rows = in_the_ball(width=5)
    features = prepare_rows(rows, "fourier:20000:0.7").astype(np.float64)
    assert np.abs(features @ features.T - Kernel.read("rbf:0.7").matrix(rows, rows)).max() < 6 / math.sqrt(20_000)
    assert np.array_equal(prepare_rows(rows[7:8], "fourier:50:2"), prepare_rows(rows, "fourier:50:2")[7:8])


@pytest.mark.parametrize(
    "step",
    [
        "fourier",
        "fourier:0:1",
        "fourier:5",
        "fourier:5:0",
        "fourier:x:1",
        "fourier:99999:1",
    ],
)
def test_maps_need_numbers_that_make_sense(step: str) -> None:
    assert repr(step) in refused(lambda: parse_steps(step))


def test_maps_are_for_dense_rows() -> None:
    assert "sparse" in refused(lambda: prepare_rows(csr(counts()), "fourier:10:1"))
