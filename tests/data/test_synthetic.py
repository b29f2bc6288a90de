"""The synthetic streams have the properties they are described by, and files are read or refused with a sentence."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

from onebit.checks.examples import refused
from onebit.data import Dataset, source_of, stream
from onebit.data.sources import GENERATORS
from onebit.data.synthetic import (
    synnonsep9,
    synnonsep10,
    synnonsep10_released,
    synsep9,
    synsep10,
    synsep10_released,
)
from tests.data.reading import read

ROUNDS = 20_000


def share_window(share: float, count: int = ROUNDS) -> float:
    """Five standard deviations of a share among `count` draws."""
    return 5.0 * float(np.sqrt(share * (1.0 - share) / count))


# --- generators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(GENERATORS))
def test_a_stream_has_the_shape_and_classes_it_says(name: str) -> None:
    generator = GENERATORS[name]
    x, y = generator.make(500, 3)
    assert x.shape == (500, generator.features)
    assert x.dtype == np.float32
    assert x.flags.c_contiguous
    assert y.shape == (500,)
    assert y.dtype == np.int64
    assert y.min() >= 0
    assert y.max() < generator.classes
    assert np.isfinite(x).all()
    data = source_of(name).make(50, 3)
    assert data.classes == tuple(range(generator.classes))
    assert data.rows == 50
    assert generator.summary.endswith((".", ":")) or len(generator.summary) > 20


@pytest.mark.parametrize("name", list(GENERATORS))
def test_the_same_seed_gives_the_same_stream_and_another_another(name: str) -> None:
    make = GENERATORS[name].make
    (x, y), (again, labels), (other, _) = make(300, 5), make(300, 5), make(300, 6)
    assert np.array_equal(x, again)
    assert np.array_equal(y, labels)
    assert not np.array_equal(x, other)


@pytest.mark.parametrize("name", list(GENERATORS))
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_short_streams_are_streams(name: str, rounds: int) -> None:
    x, y = GENERATORS[name].make(rounds, 0)
    assert len(x) == len(y) == rounds


def test_synsep10_is_the_argmax_over_its_vectors() -> None:
    x, y = synsep10(2000, 1)
    vectors = np.ones((10, 100))
    for label in range(10):
        vectors[label, label::10] = -1.0
    assert vectors[3, [3, 13, 93]].tolist() == [-1.0, -1.0, -1.0]
    scores = np.array([[float(np.dot(u, row)) for u in vectors] for row in x.astype(np.float64)])
    assert np.array_equal(scores.argmax(axis=1), y)


def test_synsep10_is_uniform_on_the_cube_and_balanced() -> None:
    """20,000 rows, windows of five standard deviations for 13 statistics of a fixed seed: 1 in 130,000 seeds would fail."""
    x, y = synsep10(ROUNDS, 2)
    assert x.min() >= -1.0
    assert x.max() <= 1.0
    count = x.size
    assert abs(float(x.mean(dtype=np.float64))) < 5.0 * np.sqrt(1.0 / 3.0 / count)
    assert abs(float(np.square(x, dtype=np.float64).mean()) - 1.0 / 3.0) < 5.0 * np.sqrt(4.0 / 45.0 / count)
    assert abs(float((x < 0.5).mean()) - 0.75) < share_window(0.75, count)
    for label in range(10):
        assert abs(float((y == label).mean()) - 0.1) < share_window(0.1)


def test_the_released_synsep10_has_two_labels_by_the_sign_of_the_last_coordinate() -> None:
    x, y = synsep10_released(2000, 3)
    assert set(y.tolist()) == {8, 9}
    assert np.array_equal(y, np.where(x[:, 99] > 0.0, 8, 9))
    assert abs(x[:, 99].mean()) < 0.1


@pytest.mark.parametrize(
    ("clean", "noisy", "classes"),
    [(synsep10, synnonsep10, 10), (synsep10_released, synnonsep10_released, 10), (synsep9, synnonsep9, 9)],
)
def test_five_per_cent_of_the_labels_are_drawn_anew(clean: Any, noisy: Any, classes: int) -> None:
    """Of the 5 %, one in K keeps its label: the share that differs is within five standard deviations (1 in 1.7 million)."""
    (x, y), (also_x, labels) = clean(ROUNDS, 4), noisy(ROUNDS, 4)
    assert np.array_equal(x, also_x)
    share = 0.05 * (1.0 - 1.0 / classes)
    differ = y != labels
    assert abs(float(differ.mean()) - share) < share_window(share)
    assert set(labels[differ].tolist()) == set(range(classes))


def test_synsep9_has_the_words_that_were_described() -> None:
    """Undone from the rows alone: the words of a class are those below 120 that ever occur with it."""
    x, y = synsep9(ROUNDS, 5)
    on: NDArray[np.bool_] = x > 0.0
    for label in range(9):
        rows = on[y == label]
        owned = np.flatnonzero(rows[:, :120].any(axis=0))
        assert 20 <= len(owned) <= 40
        assert set(rows[:, :120].sum(axis=1).tolist()) == {len(owned) - 5}
        assert set(rows[:, 120:].sum(axis=1).tolist()) == {20}
    assert len({int(on[y == label, :120].any(axis=0).sum()) for label in range(9)}) > 1
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-6)
    assert len(np.unique(x[0])) == 2, "all words that are on weigh the same"


def test_synsep9_is_balanced_and_its_common_words_are_spread() -> None:
    """20,000 rows, five standard deviations for 9 + 280 shares of a fixed seed: 1 in 6,000 seeds would fail."""
    x, y = synsep9(ROUNDS, 6)
    for label in range(9):
        assert abs(float((y == label).mean()) - 1.0 / 9.0) < share_window(1.0 / 9.0)
    shares = (x[:, 120:] > 0.0).mean(axis=0)
    assert abs(shares - 20.0 / 280.0).max() < share_window(20.0 / 280.0)


def test_synsep9_is_separable_by_its_classes_words() -> None:
    x, y = synsep9(3000, 7)
    owned = np.array([(x[y == label] > 0.0).any(axis=0) for label in range(9)])
    owned[:, 120:] = False
    # A row has all words of its class but five; to be taken for another it would need nearly all of that one's words.
    share = (x > 0.0).astype(float) @ owned.T / owned.sum(axis=1)
    own = share[np.arange(len(y)), y]
    share[np.arange(len(y)), y] = -1.0
    assert (own > share.max(axis=1)).mean() > 0.99


# --- sources -----------------------------------------------------------------------------------------------------------


def test_a_generator_draws_anew_for_every_seed_and_a_file_does_not(tmp_path: Path) -> None:
    drawn = source_of("synsep10")
    assert not drawn.fixed
    assert not np.array_equal(drawn.make(20, 0).X, drawn.make(20, 1).X)
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=[0, 1, 0, 1])
    file = source_of(tmp_path / "d.npz")
    assert file.fixed
    assert file.rounds == 4
    assert file.make(4, 0).X is file.make(4, 1).X
    assert stream(str(tmp_path / "d.npz"), rounds=9).rounds == 9


def test_data_that_is_not_there_is_refused_with_the_nearest() -> None:
    assert "'synsep10'" in refused(lambda: source_of("synsep1"))
    assert "20newsgroups" in refused(lambda: source_of("newsgroups"))
    assert ".npz" in refused(lambda: source_of("mushrooms"))
    assert "no file" in refused(lambda: source_of("mushrooms.npz"))
    assert "labels" in refused(lambda: source_of("synsep10", [0, 1]))
    assert "labels" in refused(lambda: source_of(np.eye(2)))
    assert "labels" in refused(lambda: source_of(None))


@pytest.mark.parametrize("rounds", [0, -1, 2.5, True, "10"])
def test_rounds_that_are_none_are_refused(rounds: Any) -> None:
    assert repr(rounds) in refused(lambda: stream("synsep10", rounds=rounds))


# --- labels ------------------------------------------------------------------------------------------------------------


def labelled(X: Any, y: Any, classes: Any) -> Dataset:
    return source_of(X, y, classes=classes).make(0, 0)


@pytest.mark.parametrize(
    ("y", "classes", "indices"),
    [
        ([3, 1, 3], (1, 3), [1, 0, 1]),
        (["b", "a", "b"], ("a", "b"), [1, 0, 1]),
        ([3.0, 1.0, 3.0], (1, 3), [1, 0, 1]),
        (np.array([3, 1, 3], dtype=np.uint8), (1, 3), [1, 0, 1]),
        (np.array(["b", "a", "b"], dtype=object), ("a", "b"), [1, 0, 1]),
        (np.array([3, 1, 3], dtype=object), (1, 3), [1, 0, 1]),
        ((-1, 1, -1), (-1, 1), [0, 1, 0]),
    ],
)
def test_labels_of_any_name_are_classes_in_order(y: Any, classes: tuple[Any, ...], indices: list[int]) -> None:
    data = labelled(np.eye(3), y, None)
    assert data.classes == classes
    assert [type(name) for name in data.classes] == [type(name) for name in classes]
    assert data.y.tolist() == indices


def test_given_classes_keep_their_order_and_kind() -> None:
    assert labelled(np.eye(2), ["b", "a"], ["b", "c", "a"]).y.tolist() == [0, 2]
    mixed = labelled(np.eye(3), [0, "a", 0], [0, "a"])
    assert mixed.y.tolist() == [0, 1, 0]
    assert mixed.classes == (0, "a")


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([0, 1], "3 rows and 2 labels"),
        ([0, 1, 0, 1], "3 rows and 4 labels"),
        ([0.0, 0.5, 1.0], "y[1] is 0.5"),
        ([0.0, 1.0, np.nan], "y[2] is nan"),
        ([0.0, np.inf, 1.0], "y[1] is inf"),
        ([0.0, 1e300, 1.0], "y[1] is 1e+300"),
        ([0, 0, 0], "1 class"),
        ([], "no rows"),
        (5, "one label for each row"),
        ([[0], [1], [0]], "one label for each row"),
        ([[0], [1, 2], [0]], "label"),
        ([True, False, True], "bool"),
        ([b"a", b"b", b"a"], "labels must be"),
        ([0, None, 1], "None"),
        ([0, 1.5, "a"], "label"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), "datetime"),
        ([1j, 0, 1], "complex"),
    ],
    ids=repr,
)
def test_bad_labels_are_refused_with_their_place(y: Any, words: str) -> None:
    assert words in refused(lambda: labelled(np.eye(3), y, None))


def test_a_label_outside_the_classes_is_refused_with_its_place() -> None:
    assert "y[1] is 'c'" in refused(lambda: labelled(np.eye(3), ["a", "c", "b"], ["a", "b"]))
    assert "y[2] is 7" in refused(lambda: labelled(np.eye(3), [0, 1, 7], range(3)))


@pytest.mark.parametrize("X", [5.0, np.array(5.0), None, len], ids=["number", "array", "none", "function"])
def test_rows_that_are_none_are_refused(X: Any) -> None:
    assert "row" in refused(lambda: labelled(X, [0, 1], None))


# --- files -------------------------------------------------------------------------------------------------------------

DENSE = {"X": np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]]), "y": np.array([0, 1, 0, 1])}
CSR = {
    "data": np.array([1.0, 2.0, 3.0, 4.0]),
    "indices": np.array([0, 1, 0, 1]),
    "indptr": np.arange(5),
    "shape": np.array([4, 2]),
    "y": np.array([0, 1, 0, 1]),
}


def written(folder: Path, parts: dict[str, Any], **changes: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **{name: value for name, value in {**parts, **changes}.items() if value is not None})
    return path


def test_a_dense_file_is_read(tmp_path: Path) -> None:
    data = read(written(tmp_path, DENSE))
    assert np.array_equal(data.X, DENSE["X"])
    assert data.classes == (0, 1)
    assert read(written(tmp_path, DENSE, y=[5, 7, 5, 7])).classes == (5, 7)
    words = read(written(tmp_path, DENSE, y=["no", "yes", "no", "yes"]))
    assert words.classes == ("no", "yes")
    assert words.y.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("parts", [DENSE, CSR], ids=["dense", "csr"])
def test_a_file_with_classes_indexes_them(tmp_path: Path, parts: dict[str, Any]) -> None:
    """Classes that never occur are classes all the same."""
    data = read(written(tmp_path, parts, classes=["ant", "bee", "cat"], y=[2, 0, 2, 0]))
    assert data.classes == ("ant", "bee", "cat")
    assert data.y.tolist() == [2, 0, 2, 0]
    assert read(written(tmp_path, parts, classes=[10, 20])).classes == (10, 20)


def test_a_sparse_file_is_read_and_so_is_what_scipy_writes_with_y_beside_it(tmp_path: Path) -> None:
    data = read(written(tmp_path, CSR))
    back = scipy.sparse.csr_array((data.X.data, data.X.indices, data.X.indptr), shape=data.X.shape)
    assert np.array_equal(back.toarray(), DENSE["X"])
    scipy.sparse.save_npz(tmp_path / "scipy.npz", scipy.sparse.csr_matrix(DENSE["X"]))
    with np.load(tmp_path / "scipy.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    assert read(written(tmp_path, parts, y=[0, 1, 0, 1])).rows == 4


def test_a_file_that_scipy_wrote_in_another_format_is_not_taken_for_csr(tmp_path: Path) -> None:
    """A CSC file has the same parts under the same names; read as CSR it would be other data."""
    scipy.sparse.save_npz(tmp_path / "scipy.npz", scipy.sparse.csc_matrix(np.arange(16.0).reshape(4, 4)))
    with np.load(tmp_path / "scipy.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    assert "csc" in refused(lambda: read(written(tmp_path, parts, y=[0, 1, 0, 1])))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": None}, ["no y", "'X'"]),
        ({"X": None}, ["neither X nor data"]),
        ({"y": [0, 1, 0]}, ["4 rows and 3 labels"]),
        ({"y": [0.5, 1.0, 0.0, 1.0]}, ["y[0]", "0.5"]),
        ({"y": [0.0, 1.0, np.nan, 1.0]}, ["y[2]", "nan"]),
        ({"y": [0, 0, 0, 0]}, ["1 class"]),
        ({"y": [[0], [1], [0], [1]]}, ["(4, 1)"]),
        ({"y": 3}, ["()"]),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0, int)}, ["no rows"]),
        ({"X": np.array(3.0)}, ["X"]),
        ({"classes": ["a"], "y": [0, 0, 0, 0]}, ["1 class", "'a'"]),
        ({"classes": ["a", "a"]}, ["'a'"]),
        ({"classes": [0.5, 1.0]}, ["0.5"]),
        ({"classes": [["a"], ["b"]]}, ["'a'"]),
        ({"classes": ["a", "b"], "y": [0, 1, 2, 1]}, ["y[2]", "2", "2 classes"]),
        ({"classes": ["a", "b"], "y": [0, 1, 0, -1]}, ["y[3]", "-1"]),
        ({"classes": ["a", "b"], "y": [0.0, 1.0, 0.0, 1.0]}, ["whole numbers"]),
        ({"classes": ["a", "b"], "y": ["a", "b", "a", "b"]}, ["whole numbers"]),
        ({"classes": ["a", "b"], "y": [0, 1, 0]}, ["4 rows and 3 labels"]),
        ({"classes": ["a", "b"], "X": np.zeros((0, 2)), "y": np.zeros(0, int)}, ["no rows"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_bad_dense_file_is_refused(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    path = written(tmp_path, DENSE, **changes)
    sentence = refused(lambda: read(path))
    for word in words:
        assert word in sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": None},
        {"indptr": None},
        {"shape": None},
        {"data": None},
        {"shape": np.array(4)},
        {"shape": np.array([4])},
        {"shape": np.array([4, 2, 1])},
        {"shape": np.array([5, 2])},
        {"shape": np.array([4, -2])},
        {"shape": np.array([4, 1])},
        {"shape": np.array(["4", "two"])},
        {"shape": np.array([])},
        {"shape": np.array([4.5, 2.5])},
        {"indices": np.array([0, 0.5, 0, 1])},
        {"indices": np.array(["a"] * 4)},
        {"indices": np.array(0)},
        {"indices": np.array([0, 1, 0])},
        {"indices": np.array([0, 1, 0, -1])},
        {"indices": np.array([0, 1, 0, 2])},
        {"indices": np.zeros((4, 1), int)},
        {"indptr": np.array(4)},
        {"indptr": np.array([0, 4])},
        {"indptr": np.array([0, 3, 2, 3, 4])},
        {"indptr": np.array([0, 1.5, 2, 3, 4])},
        {"indptr": np.array([1, 1, 2, 3, 4])},
        {"indptr": np.array(["a"] * 5)},
        {"indptr": np.zeros((5, 1), int)},
        {"data": np.array(1.0)},
        {"data": np.ones((4, 1))},
        {"data": np.array(["a"] * 4)},
        {"data": np.array([1.0, np.nan, 1.0, 1.0])},
    ],
    ids=lambda changes: str(changes)[:50],
)
def test_a_bad_sparse_file_is_refused_when_it_is_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Some of it is seen when the file is read, the rest when a learner reads the rows: at the latest then, and as a sentence."""
    from onebit.experiments.run import run

    path = written(tmp_path, CSR, **changes)
    assert refused(lambda: run("bpa", path))


@pytest.mark.parametrize(
    ("columns", "expected"), [([1, 1], [[1], [2.0]]), ([1, 0], [[0, 1], [1.0, 1.0]])], ids=["twice", "falling"]
)
def test_columns_of_a_sparse_file_are_put_in_order(tmp_path: Path, columns: list[int], expected: list[Any]) -> None:
    changes = {"indptr": np.array([0, 2, 2, 3, 4]), "indices": np.array([*columns, 0, 1]), "data": np.ones(4)}
    X = source_of(written(tmp_path, CSR, **changes)).make(4, 0).X
    assert [X.indices[: X.indptr[1]].tolist(), X.data[: X.indptr[1]].tolist()] == expected
    assert X.indptr[-1] == len(X.indices) == len(X.data)


def test_a_file_that_is_no_archive_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    whole = written(tmp_path, DENSE).read_bytes()
    contents = {
        "empty": b"",
        "text": b"not an archive at all\n",
        "cut": whole[: len(whole) // 2],
        "altered": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:200] + bytes(40) + whole[240:],
        "pickle": b"\x80\x04K\x05.",
    }
    for what, content in contents.items():
        path.write_bytes(content)
        sentence = refused(lambda: read(path))
        assert str(path) in sentence, what
        assert "allow_pickle" not in sentence, f"{what}: {sentence}"
        assert "unsafe" not in sentence, f"{what}: {sentence}"


def test_what_else_may_bear_the_ending_of_an_archive_is_refused(tmp_path: Path) -> None:
    single = tmp_path / "array.npz"
    with single.open("wb") as file:
        np.save(file, np.eye(3))
    sentence = refused(lambda: read(single))
    assert "context manager" not in sentence, "a sentence for users does not speak of Python's protocols"
    folder = tmp_path / "folder.npz"
    folder.mkdir()
    assert str(folder) in refused(lambda: read(folder))
    plain = tmp_path / "zip.npz"
    with zipfile.ZipFile(plain, "w") as archive:
        archive.writestr("X.npy", "no array")
        archive.writestr("y.npy", "no array")
    assert str(plain) in refused(lambda: read(plain))


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = written(tmp_path, DENSE, X=np.array([[1, None]] * 4, dtype=object))
    assert str(path) in refused(lambda: read(path))
