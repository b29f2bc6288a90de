"""Real data are found in their order of places, downloaded in the form that scikit-learn gives them, and refused when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
import scipy.sparse

from onebit.checks.examples import refused
from onebit.data.real import REAL, RINGS, SITES, SOILS, TOPICS, describe_location, fetch, load
from onebit.errors import NetworkError

sklearn_datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is in the extra `experiments`")

HERE = os.environ.get("ONEBIT_DATA", "")
SHIPPED = ["iris", "digits"]
DOWNLOADED = [name for name in REAL if name not in SHIPPED]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no folder of data."""
    monkeypatch.delenv("ONEBIT_DATA", raising=False)
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data"


# --- the form of what scikit-learn's fetchers give, a few rows each -------------------------------------------------------

OPENML: dict[int, tuple[int, list[str]]] = {  # data_id: features, the labels as openml.org has them
    39: (7, ["im", "cp", "pp", "imU", "om", "omL", "imL", "imS"]),
    182: (36, ["1.", "2.", "3.", "4.", "5.", "7."]),
    41082: (256, [str(label) for label in range(1, 11)]),
    554: (784, [str(label) for label in range(10)]),
}


def openml(data_id: int, as_frame: bool, parser: str, data_home: str) -> SimpleNamespace:
    assert not as_frame
    assert parser == "auto"
    (Path(data_home) / "openml").mkdir()
    (Path(data_home) / "openml" / "page").write_bytes(bytes(1000))
    if data_id == 183:
        rings = np.array([7, 8, 29, 1, 14, 15, 21, 22])
        data = np.arange(64.0).reshape(8, 8)
        data[:, 0] = [0, 1, 2, 0, 1, 2, 0, 1]
        names = ["Sex", "Length", "Diameter", "Height", "Whole", "Shucked", "Viscera", "Shell"]
        return SimpleNamespace(
            data=data, target=rings.astype(str).astype(object), feature_names=names, categories={"Sex": ["F", "I", "M"]}
        )
    features, labels = OPENML[data_id]
    data = np.arange(2.0 * len(labels))[:, None] + np.zeros(features)
    return SimpleNamespace(data=data, target=np.array(labels * 2, dtype=object))


def newsgroups(data_home: str, subset: str, shuffle: bool) -> SimpleNamespace:
    assert subset == "all"
    assert not shuffle
    names = sorted(f"group.{number}" for number in range(20))
    texts = [f"From: Someone\n\nThe word a_{number % 20} and 1 rare{number}" for number in range(40)]
    return SimpleNamespace(data=texts, target=np.arange(40) % 20, target_names=names)


def rcv1(data_home: str, subset: str, shuffle: bool) -> SimpleNamespace:
    assert subset == "all"
    assert not shuffle
    names = np.array(["C11", "CCAT", "ECAT", "GCAT", "M14", "MCAT"])
    target = np.array(
        [
            [1, 1, 0, 0, 0, 0],
            [0, 1, 1, 0, 0, 0],  # two of the four
            [0, 0, 0, 0, 1, 1],
            [0, 0, 1, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],  # none of them
            [0, 0, 0, 1, 0, 0],
        ]
    )
    rows = scipy.sparse.csr_matrix(np.arange(18.0).reshape(6, 3) / 20.0)
    return SimpleNamespace(
        data=rows, target=scipy.sparse.csr_matrix(target), target_names=names, sample_id=np.arange(2286, 2292)
    )


@pytest.fixture
def network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fetchers that answer; the list of those that were called."""
    calls: list[str] = []

    def counted(name: str, fetcher: Callable[..., Any]) -> None:
        def answer(**options: Any) -> Any:
            calls.append(name)
            return fetcher(**options)

        monkeypatch.setattr(sklearn_datasets, name, answer)

    counted("fetch_openml", openml)
    counted("fetch_20newsgroups", newsgroups)
    counted("fetch_rcv1", rcv1)
    return calls


@pytest.mark.parametrize("name", DOWNLOADED)
def test_a_download_is_kept_and_read_from_the_cache_the_next_time(cache: Path, network: list[str], name: str) -> None:
    assert describe_location(name) == "to be downloaded"
    data = load(name)
    real = REAL[name]
    assert len(network) == 1
    assert len(data.classes) == real.classes
    assert hasattr(data.X, "indptr") == real.sparse
    if not real.sparse:
        assert data.X.shape[1] == real.features
    assert set(data.y.tolist()) == set(range(real.classes))
    assert [path.name for path in cache.iterdir()] == [f"{name}.npz"], "what scikit-learn left is gone"
    assert describe_location(name) == f"cache: {cache / name}.npz"
    again = load(name)
    assert len(network) == 1
    assert again.classes == data.classes
    assert np.array_equal(again.y, data.y)
    assert fetch(name) == cache / f"{name}.npz"
    assert len(network) == 1


def test_classes_have_the_same_names_and_order_wherever_the_data_come_from(cache: Path, network: list[str]) -> None:
    assert load("ecoli").classes == SITES
    assert load("ecoli").y[:3].tolist() == [1, 0, 7]
    assert load("satimage").classes == tuple(SOILS.values())
    assert load("satimage").y.tolist() == [0, 1, 2, 3, 4, 5] * 2
    for name in ("usps", "mnist", "digits"):
        assert load(name).classes == tuple("0123456789")
    assert load("usps").y.tolist() == list(range(10)) * 2, "there digit 0 is called 1"
    assert load("mnist").y.tolist() == list(range(10)) * 2
    assert load("iris").classes == ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
    assert load("mnist").X.dtype == np.uint8
    assert load("mnist").X[:, 0].tolist() == list(range(20)), "the order of the source"


def test_abalone_has_four_classes_and_three_columns_for_the_sex(cache: Path, network: list[str]) -> None:
    data = load("abalone")
    assert data.classes == ("1-7", "8-14", "15-21", "22-29")
    assert data.y.tolist() == [0, 1, 3, 0, 1, 2, 2, 3], "rings 7 8 29 1 14 15 21 22"
    assert data.X.dtype == np.float32
    # F, I, M there are the codes 0, 1, 2; here the columns are M, F, I
    assert data.X[:3, :3].tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    assert data.X[0, 3:].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_words_are_counted_in_lower_case_if_two_messages_have_them(cache: Path, network: list[str]) -> None:
    data = load("20newsgroups")
    with np.load(cache / "20newsgroups.npz") as archive:
        words = str(archive["vocab"]).split("\n")
    assert {"from", "someone", "the", "word", "and", "1", "a_0", "a_19"} <= set(words)
    assert not any(word.startswith("rare") for word in words)
    assert data.X.shape == (40, len(words))
    first = data.X.indices[: data.X.indptr[1]].tolist()
    assert sorted(words[column] for column in first) == ["1", "a_0", "and", "from", "someone", "the", "word"]


def test_rcv1_keeps_documents_with_one_of_the_four_topics_in_order(cache: Path, network: list[str]) -> None:
    data = load("rcv1")
    assert data.classes == TOPICS
    assert data.y.tolist() == [0, 3, 1, 2]
    back = scipy.sparse.csr_array((data.X.data, data.X.indices, data.X.indptr), shape=data.X.shape).toarray()
    assert np.allclose(back, (np.arange(18.0).reshape(6, 3) / 20.0)[[0, 2, 3, 5]])


def test_what_is_shipped_needs_no_network_and_no_file(cache: Path) -> None:
    for name in SHIPPED:
        data = load(name)
        assert describe_location(name) == "scikit-learn"
        assert data.X.shape == (REAL[name].rows, REAL[name].features)
        assert fetch(name) is None
    assert not cache.exists()


def test_what_is_shipped_is_read_as_scikit_learn_reads_it_without_importing_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = {name: load(name) for name in SHIPPED}
    for name, data in read.items():
        X, y = getattr(sklearn_datasets, f"load_{name}")(return_X_y=True)
        assert np.array_equal(data.X, X.astype(data.X.dtype))
        assert np.array_equal(data.y, y)
    # As where scikit-learn has its tables elsewhere.
    monkeypatch.setattr("onebit.data.real.find_spec", lambda name: None)
    for name, data in read.items():
        again = load(name)
        assert again.X.dtype == data.X.dtype
        assert np.array_equal(again.X, data.X)
        assert np.array_equal(again.y, data.y)
        assert again.classes == data.classes
    code = (
        "import sys; from onebit.data.real import load; load('digits'), load('iris'); print('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


# --- places -------------------------------------------------------------------------------------------------------------


def test_the_users_folder_comes_before_the_cache_and_that_before_scikit_learn(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(folder: Path, value: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "iris.npz", X=np.full((6, 4), value), y=[0, 1, 2] * 2, classes=["a", "b", "c"])

    assert load("iris").rows == 150
    put(cache, 1.0)
    assert load("iris").X[0, 0] == 1.0
    assert describe_location("iris") == f"cache: {cache / 'iris.npz'}"
    put(tmp_path / "mine", 2.0)
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path / "mine"))
    assert load("iris").X[0, 0] == 2.0
    assert describe_location("iris") == f"ONEBIT_DATA: {tmp_path / 'mine' / 'iris.npz'}"
    assert fetch("iris") == tmp_path / "mine" / "iris.npz"


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    for ask in (load, fetch, describe_location):
        assert "did you mean 'mnist'?" in refused(lambda ask=ask: ask("mnst"))  # type: ignore[misc]


# --- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOWNLOADED)
def test_without_a_network_the_sentence_says_what_to_put_where(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def unreachable(**options: Any) -> None:
        raise URLError("Name or service not known")

    for fetcher in ("fetch_openml", "fetch_20newsgroups", "fetch_rcv1"):
        monkeypatch.setattr(sklearn_datasets, fetcher, unreachable)
    for folder in (None, tmp_path / "mine"):
        if folder is not None:
            monkeypatch.setenv("ONEBIT_DATA", str(folder))
        sentence = refused(lambda: load(name))
        for words in (f"{name}.npz", "not on this machine", "(Name or service not known)", "ONEBIT_DATA", str(cache)):
            assert words in sentence
        if folder is not None:
            assert str(folder) in sentence
        assert ("indptr" in sentence) == REAL[name].sparse
        assert ("rings" in sentence) == (name == "abalone")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    "error", [TimeoutError("timed out"), ConnectionResetError(104, "reset"), KeyError("x"), ValueError()]
)
def test_any_failure_of_a_download_is_a_sentence(
    cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(**options: Any) -> None:
        raise error

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fails)
    with pytest.raises(NetworkError, match="could not be downloaded"):
        load("mnist")


def test_a_download_that_is_stopped_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(**options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", stopped)
    with pytest.raises(KeyboardInterrupt):
        load("mnist", lambda what, done, total: None)
    assert list(cache.iterdir()) == []


def test_a_download_of_another_form_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(**options: Any) -> SimpleNamespace:
        return SimpleNamespace(data=np.zeros((2, 5)), target=np.array(["0", "1"], dtype=object))

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", other)
    assert "784 features" in refused(lambda: load("mnist"))
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_a_sentence(
    network: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "taken"))
    assert str(tmp_path / "taken") in refused(lambda: load("ecoli"))


def test_a_download_is_announced_with_its_size(cache: Path, network: list[str]) -> None:
    heard: list[tuple[str, int, int]] = []
    load("mnist", lambda *news: heard.append(news))
    assert heard == [("downloading mnist", 0, REAL["mnist"].size)]


GOOD: dict[str, Any] = {"X": np.zeros((6, 4)), "y": np.array([0, 1, 2] * 2), "classes": np.array(["a", "b", "c"])}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": None}, "neither X nor data"),
        ({"y": None}, "no y"),
        ({"X": np.zeros((6, 5))}, "(6, 5)"),
        ({"X": np.zeros(6)}, "(6,)"),
        ({"X": np.zeros((5, 4))}, "5 rows and 6 labels"),
        ({"classes": np.array(["a", "b", "c", "d"])}, "4 classes"),
        ({"y": np.array([0, 1, 3] * 2)}, "y[2]"),
    ],
    ids=str,
)
def test_a_file_that_is_something_else_is_refused_with_its_name(
    cache: Path, changes: dict[str, Any], words: str
) -> None:
    cache.mkdir(parents=True)
    path = cache / "iris.npz"
    np.savez(path, **{name: part for name, part in {**GOOD, **changes}.items() if part is not None})
    sentence = refused(lambda: load("iris"))
    assert words in sentence
    if "rows and" not in words:
        assert str(path) in sentence


def test_a_sparse_file_is_not_taken_for_dense_data(cache: Path) -> None:
    cache.mkdir(parents=True)
    parts: dict[str, Any] = {
        "data": np.ones(6),
        "indices": np.zeros(6, int),
        "indptr": np.arange(7),
        "shape": np.array([6, 4]),
    }
    np.savez(cache / "iris.npz", **parts, y=GOOD["y"], classes=GOOD["classes"])
    assert "sparse" in refused(lambda: load("iris"))


def test_a_damaged_file_is_refused_with_its_name(cache: Path) -> None:
    cache.mkdir(parents=True)
    np.savez(cache / "iris.npz", **GOOD)
    whole = (cache / "iris.npz").read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2]):
        (cache / "iris.npz").write_bytes(content)
        assert str(cache / "iris.npz") in refused(lambda: load("iris"))


@pytest.mark.parametrize(
    "changes",
    [
        {"rings": None},
        {"X": np.zeros((4, 7))},
        {"X": np.full((4, 8), 3.0)},
        {"rings": [0, 1, 2, 3]},
        {"rings": [1, 30, 2, 3]},
    ],
    ids=["no rings", "columns", "sex", "no ring", "many rings"],
)
def test_an_abalone_file_of_another_form_is_refused(cache: Path, changes: dict[str, Any]) -> None:
    cache.mkdir(parents=True)
    parts = {"X": np.zeros((4, 8)), "y": np.zeros(4, int), "classes": ["a", "b"], "rings": [1, 8, 15, 22], **changes}
    np.savez(cache / "abalone.npz", **{name: part for name, part in parts.items() if part is not None})
    sentence = refused(lambda: load("abalone"))
    assert "is not abalone" in sentence
    assert str(cache / "abalone.npz") in sentence


# --- the files at hand ----------------------------------------------------------------------------------------------------

COUNTS = {
    "iris": [50, 50, 50],
    "ecoli": [143, 77, 2, 2, 35, 20, 5, 52],
    "satimage": [1533, 703, 1358, 626, 707, 1508],
    "usps": [1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821],
    "mnist": [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958],
    "20newsgroups": None,
    "abalone": None,
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_files_at_hand_are_what_is_said_of_them(name: str) -> None:
    if not (Path(HERE) / f"{name}.npz").is_file():
        pytest.skip(f"there is no {name}.npz in a folder named by ONEBIT_DATA")
    data = load(name)
    real = REAL[name]
    assert data.X.shape == (real.rows, real.features)
    assert len(data.classes) == real.classes
    counts = np.bincount(data.y)
    expected = COUNTS[name]
    if expected is not None:
        assert counts.tolist() == expected
    if name == "mnist":
        assert [data.classes[index] for index in data.y[:5]] == list("50419")
        assert np.bincount(data.y[:60_000]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    if name == "20newsgroups":
        assert [int(counts.min()), int(counts.max())] == [628, 999]
        assert len(data.X.data) == 2_971_414
    if name == "abalone":
        with np.load(Path(HERE) / "abalone.npz") as archive:
            rings, sex = archive["rings"], archive["X"][:, 0]
        for index, (low, high) in enumerate(RINGS):
            assert np.array_equal(data.y == index, (rings >= low) & (rings <= high))
        assert np.array_equal(data.X[:, :3].argmax(axis=1), sex)
        assert np.array_equal(data.X[:, :3].sum(axis=1), np.ones(real.rows))
    if name == "satimage":
        assert data.classes == tuple(SOILS.values())
    if name == "ecoli":
        assert data.classes == SITES
