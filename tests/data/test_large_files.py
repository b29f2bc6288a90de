"""Files over the limit are converted once and mapped from the cache; what comes out is what the memory would have held."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from functools import cache as cache_of
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from onebit.checks.examples import refused
from onebit.data import large, source_of
from onebit.data.dataset import Csr, Dataset
from tests.data.reading import read

arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra `experiments`")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("sklearn", reason="scikit-learn is in the extra `experiments`")

ROWS = 60_000  # more than a block of each format


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ONEBIT_LARGE_FILE", "1")
    return tmp_path / "cache" / "data"


def made(folder: Path, name: str) -> Path:
    """A file of each format."""
    path = folder / name
    path.write_bytes(content_of(name))
    return path


@cache_of
def content_of(name: str) -> bytes:
    """Labels and categories that appear in no order."""
    generator = np.random.default_rng(5)
    values = generator.normal(size=(ROWS, 4)).astype(np.float32).round(3)
    labels = np.array(["late", "b", "a"])[np.minimum(generator.integers(0, 3, size=ROWS), np.arange(ROWS) // 10_000)]
    kinds = np.array(["z", "m", "k", "10", "9"])[generator.integers(0, 5, size=ROWS)]
    if "csv" in name:
        lines = (
            ",".join([*map(repr, row), kind, label]) + "\n"
            for row, kind, label in zip(values.tolist(), kinds, labels, strict=True)
        )
        text = "p,q,r,s,kind,label\n" + "".join(lines)
        return gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
    if name.endswith("parquet"):
        columns = {**dict(zip("pqrs", values.T, strict=True)), "kind": kinds, "label": labels}
        file = io.BytesIO()
        parquet.write_table(arrow.table(columns), file, row_group_size=7_000)
        return file.getvalue()
    lines = (
        f"{number % 3} {1 + number % 7}:{row[0]!r} {20 + number % 50}:{row[1]!r} 900:{'1' * 100}e-100\n"
        for number, row in enumerate(values.tolist())
    )
    return "".join(lines).encode()


class Format(NamedTuple):
    name: str
    options: dict[str, Any]


FORMATS = [
    Format("t.csv", {"categorical": ["kind"]}),
    Format("t.csv.gz", {"categorical": ["kind"]}),
    Format("t.parquet", {"categorical": ["kind"]}),
    Format("t.svm", {}),
]
NAMES = [one.name for one in FORMATS]


def arrays(data: Dataset) -> dict[str, Any]:
    if isinstance(data.X, Csr):
        return {"data": data.X.data, "indices": data.X.indices, "indptr": data.X.indptr, "y": data.y}
    return {"X": data.X, "y": data.y}


@pytest.mark.parametrize(("name", "options"), FORMATS, ids=NAMES)
def test_a_mapped_file_is_the_same_as_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    path = made(tmp_path, name)
    mapped = read(path, **options)
    monkeypatch.delenv("ONEBIT_LARGE_FILE")
    held = read(path, **options)
    assert held.classes == mapped.classes
    assert held.X.shape == mapped.X.shape
    assert held.rows == mapped.rows == ROWS
    for part, other in zip(arrays(mapped).values(), arrays(held).values(), strict=True):
        assert isinstance(part, np.memmap)
        assert not isinstance(other, np.memmap)
        assert not part.flags.writeable
        assert part.flags.c_contiguous
        assert part.dtype == other.dtype
        assert np.array_equal(part, other)


@pytest.mark.parametrize(("name", "options"), FORMATS, ids=NAMES)
def test_a_file_is_converted_once_and_anew_when_it_has_changed(
    tmp_path: Path, cache: Path, name: str, options: dict[str, Any]
) -> None:
    path = made(tmp_path, name)
    heard: list[str] = []

    def listen(what: str, done: int, total: int) -> None:
        assert 0 < done <= total
        heard.append(what)

    first = read(path, progress=listen, **options)
    assert heard
    heard.clear()
    assert np.array_equal(read(path, progress=listen, **options).y, first.y)
    assert not heard, "the second time nothing is converted"
    before = folders(cache)
    os.utime(path, ns=(1, 1))
    again = read(path, progress=listen, **options)
    assert heard
    assert again.classes == first.classes
    assert len(folders(cache)) == 1, "the conversion of the file's former self is gone"
    assert folders(cache) != before
    assert first.y[0] == again.y[0], "who has the former one mapped keeps it"


def folders(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.is_dir()]


def test_another_label_other_categories_or_classes_are_another_conversion(tmp_path: Path, cache: Path) -> None:
    path = made(tmp_path, "t.parquet")
    by_label = read(path, categorical=["kind"])
    by_kind = read(path, label="kind", categorical=["label"])
    assert by_label.classes == ("a", "b", "late")
    assert by_kind.classes == ("10", "9", "k", "m", "z")
    more = read(path, categorical=["kind"], classes=["late", "b", "a", "new"])
    assert more.classes == ("late", "b", "a", "new")
    assert len(folders(cache)) == 3


class Stop(Exception):
    pass


@pytest.mark.parametrize("kind", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize(("name", "options"), FORMATS, ids=NAMES)
def test_a_conversion_that_is_stopped_leaves_nothing(
    tmp_path: Path, cache: Path, name: str, options: dict[str, Any], kind: type[BaseException]
) -> None:
    path = made(tmp_path, name)
    calls = []

    def stop(*news: object) -> None:
        calls.append(news)
        raise kind

    with pytest.raises(kind):
        read(path, progress=stop, **options)
    assert len(calls) == 1
    assert folders(cache) == []
    assert read(path, **options).rows == ROWS


def test_a_file_that_is_refused_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,x\n2,y\n1,x\nfoo,y\n")
    assert "'foo' in row 4 (line 5 of the file)" in refused(lambda: read(path))
    path.write_text("a,label\n1,x\n2,y\n1,x\n")
    assert "once" in refused(lambda: read(path))
    assert folders(cache) == []


def test_what_a_killed_process_left_is_removed_and_not_believed(tmp_path: Path, cache: Path) -> None:
    path = made(tmp_path, "t.csv")
    program = (
        "import os, sys; from onebit.data import source_of\n"
        "source_of(sys.argv[1], categorical=['kind'], progress=lambda *news: os._exit(9))"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert ended.returncode == 9
    assert len(folders(cache)) == 1, "it was killed in the middle"
    assert read(path, categorical=["kind"]).rows == ROWS
    assert len(folders(cache)) == 1
    assert not folders(cache)[0].endswith(".part")


def test_several_processes_that_ask_at_once_get_the_same(tmp_path: Path, cache: Path) -> None:
    path = made(tmp_path, "t.csv")
    program = (
        "import sys; from onebit.data import source_of\n"
        "heard = []; source = source_of(sys.argv[1], categorical=['kind'], progress=lambda *news: heard.append(1))\n"
        "data = source.make(0, 0)\n"
        "print(data.rows, int(data.y.sum()), float(data.X.sum()), bool(heard))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = [process.communicate()[0].split() for process in running]
    assert {tuple(answer[:3]) for answer in answers} == {tuple(answers[0][:3])}
    assert sorted(answer[3] for answer in answers) == ["False", "False", "True"], "one converts, the others wait"
    assert len(folders(cache)) == 1


def test_a_full_disk_is_a_sentence(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "t.csv")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    sentence = refused(lambda: read(path, categorical=["kind"]))
    assert "not enough space" in sentence
    assert str(cache) in sentence
    assert str(path) in sentence
    assert "ONEBIT_CACHE" in sentence
    assert folders(cache) == []


def test_a_cache_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "taken"))
    assert str(tmp_path / "taken") in refused(lambda: read(made(tmp_path, "t.svm")))


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "t.svm")
    for bad in ("2 GB", "-1", "1e9", "²"):
        monkeypatch.setenv("ONEBIT_LARGE_FILE", bad)
        assert repr(bad) in refused(lambda: read(path))


def test_the_limit_is_on_the_size_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "t.svm")
    size = path.stat().st_size
    for limit, expected in ((size - 1, True), (size, False)):
        monkeypatch.setenv("ONEBIT_LARGE_FILE", str(limit))
        assert large.is_large(path) is expected
    monkeypatch.delenv("ONEBIT_LARGE_FILE")
    assert not large.is_large(path)


def test_the_cache_is_made_of_plain_arrays_and_facts(tmp_path: Path, cache: Path) -> None:
    read(made(tmp_path, "t.csv"), categorical=["kind"])
    folder = cache / folders(cache)[0]
    assert sorted(path.name for path in folder.iterdir()) == ["X.npy", "facts.json", "y.npy"]
    assert np.load(folder / "X.npy").shape == (ROWS, 9)
    assert json.loads((folder / "facts.json").read_text())["classes"] == ["a", "b", "late"]


def test_rows_that_a_user_has_mapped_are_prepared_each_by_itself(tmp_path: Path) -> None:
    """Nothing is written beside the user's files, and files of one folder are told apart."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, largest in (("a", 2.0), ("b", 4.0)):
        np.save(folder / f"{name}.npy", np.array([[1.0, largest], [0.0, 1.0]]))
        rows = np.load(folder / f"{name}.npy", mmap_mode="r")
        data = source_of(rows, [0, 1], prepare="scale").make(2, 0)
        assert data.X.tolist() == [[1.0 / largest, 1.0], [0.0, 1.0 / largest]]
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_prepared_rows_of_a_conversion_are_kept_beside_it(tmp_path: Path, cache: Path) -> None:
    path = made(tmp_path, "t.svm")
    first, again = (source_of(path, prepare="unit-norm").make(0, 0).X for _ in range(2))
    assert isinstance(first.data, np.memmap)
    assert np.array_equal(first.data, again.data)
    assert len(folders(cache)) == 2


@pytest.mark.parametrize("kind", ["refused", "full"])
def test_a_preparation_that_fails_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = made(tmp_path, "t.svm")
    converted = read(path)
    if kind == "full":
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
        sentence = refused(lambda: source_of(path, prepare="unit-norm"))
        assert "not enough space" in sentence
        assert "for the prepared rows" in sentence
    else:
        assert "not take sparse rows" in refused(lambda: source_of(path, prepare="scale,standard"))
    assert len(folders(cache)) == 1
    assert read(path).rows == converted.rows


def test_prepared_rows_that_cannot_be_written_are_refused(tmp_path: Path, cache: Path) -> None:
    path = made(tmp_path, "t.svm")
    read(path)
    (lock,) = (file for file in cache.iterdir() if not file.is_dir())
    lock.unlink()
    lock.mkdir()  # no file can be opened there
    sentence = refused(lambda: source_of(path, prepare="unit-norm"))
    assert f"{cache} cannot be written for the prepared rows" in sentence
    assert "ONEBIT_CACHE" in sentence
