"""RCV1 is read from the files that LYRL2004 distributes, plain or compressed, and from those that scikit-learn has kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from onebit.checks import refused
from onebit.cli import main
from onebit.data.fetchers import TOPICS
from onebit.data.rcv1 import CACHED, QRELS, TERMS, VECTORS
from onebit.data.real import fetch, load, whereabouts

joblib = pytest.importorskip("joblib", reason="scikit-learn is in the extra `experiments`")

# In the form of lyrl2004_vectors_*.dat: a document's number, two spaces, pairs term:weight.
LINES = {
    "train": "2286  864:0.0497399253756197 1523:0.044664135988103 47236:0.9\n2287  1:0.5\n",
    "test_pt0": "26151  11:0.25 12:0.5\n26152  3:1\n",
    "test_pt1": "216111  7:0.125\n",
    "test_pt2": "412012  8:0.125 9:0.25\n",
    "test_pt3": "810597  2:1\n",
}
TOPIC_LINES = """\
E11 2286 1
ECAT 2286 1
CCAT 2287 1
GCAT 2287 1
MCAT 26151 1
C15 26152 1
GCAT 216111 1
CCAT 412012 1
ECAT 810597 1
CCAT 999999 1
"""  # 2287 has two of the four topics, 26152 none, and 999999 no vector
KEPT = {2286: "ECAT", 26151: "MCAT", 216111: "GCAT", 412012: "CCAT", 810597: "ECAT"}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data of one's own, and an empty cache."""
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path / "mine"))
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def put(folder: Path, name: str, text: str, packed: bool = False) -> None:
    content = text.encode()
    (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)


def put_all(folder: Path, packed: bool = False, qrels: str = QRELS[0]) -> None:
    for name, text in zip(VECTORS, LINES.values(), strict=True):
        put(folder, name, text, packed)
    put(folder, qrels, TOPIC_LINES, packed)


def expected() -> scipy.sparse.csr_array:
    """The documents that are kept, read by a few plain lines."""
    found = scipy.sparse.lil_array((len(KEPT), TERMS), dtype=np.float32)
    lines = {int(line.split()[0]): line.split()[1:] for text in LINES.values() for line in text.splitlines()}
    for row, document in enumerate(KEPT):
        for pair in lines[document]:
            term, weight = pair.split(":")
            found[row, int(term) - 1] = np.float32(weight)
    return found.tocsr()


def is_expected() -> bool:
    data = load("rcv1")
    rows = scipy.sparse.csr_array((data.X.data, data.X.indices, data.X.indptr), shape=data.X.shape)
    assert data.classes == TOPICS
    assert [data.classes[label] for label in data.y] == list(KEPT.values())
    return bool((rows != expected()).nnz == 0)


@pytest.mark.parametrize(("packed", "qrels"), [(False, QRELS[0]), (True, QRELS[0]), (True, QRELS[1])])
def test_the_files_of_lyrl2004_are_read_in_the_order_of_time_and_kept(mine: Path, packed: bool, qrels: str) -> None:
    put_all(mine, packed, qrels)
    assert whereabouts("rcv1") == f"ONEBIT_DATA: {mine}, to be converted"
    assert is_expected()
    kept = mine.parent / "cache" / "data" / "rcv1.npz"
    assert whereabouts("rcv1") == f"cache: {kept}"
    with np.load(kept) as archive:
        assert archive["doc_id"].tolist() == list(KEPT)
    for path in mine.iterdir():
        path.unlink()
    assert is_expected(), "read from the cache"


def test_files_in_the_folder_of_the_cache_are_found_too(mine: Path) -> None:
    folder = mine.parent / "cache" / "data"
    folder.mkdir(parents=True)
    put_all(folder)
    assert whereabouts("rcv1") == f"cache: {folder}, to be converted"
    assert fetch("rcv1") == folder / "rcv1.npz"
    assert is_expected()


def test_what_scikit_learn_has_kept_is_read_by_it(mine: Path) -> None:
    """Its four files, written as `fetch_rcv1` writes them: all documents, training part first, topics in alphabetical order."""
    home = mine / "RCV1"
    home.mkdir()
    names = ["C15", "CCAT", "E11", "ECAT", "GCAT", "MCAT"]
    lines = [line.split() for text in LINES.values() for line in text.splitlines()]
    samples = scipy.sparse.lil_array((len(lines), TERMS))
    topics = scipy.sparse.lil_array((len(lines), len(names)), dtype=np.uint8)
    rows = {int(words[0]): row for row, words in enumerate(lines)}
    for row, words in enumerate(lines):
        for term, weight in (pair.split(":") for pair in words[1:]):
            samples[row, int(term) - 1] = float(weight)
    for topic, document, _ in (line.split() for line in TOPIC_LINES.splitlines()):
        if int(document) in rows:
            topics[rows[int(document)], names.index(topic)] = 1
    kept = [samples.tocsr(), np.array(list(rows), dtype=np.uint32), topics.tocsr(), np.array(names, dtype=object)]
    for name, value in zip(CACHED, kept, strict=True):
        joblib.dump(value, home / name)
    assert whereabouts("rcv1") == f"ONEBIT_DATA: {mine}, to be converted"
    assert is_expected()
    (mine.parent / "cache" / "data" / "rcv1.npz").unlink()
    (home / CACHED[2]).write_bytes(b"no pickle")
    assert f"scikit-learn cannot read its RCV1 in {mine}" in refused(lambda: load("rcv1"))
    (home / CACHED[2]).unlink()
    assert f"has no {CACHED[2]}" in refused(lambda: load("rcv1"))


def test_all_files_are_needed_and_those_missing_are_named(mine: Path) -> None:
    put_all(mine)
    (mine / VECTORS[2]).unlink()
    (mine / QRELS[0]).unlink()
    sentence = refused(lambda: load("rcv1"))
    assert f"has no {VECTORS[2]}, {QRELS[0]}" in sentence
    assert VECTORS[0] not in sentence


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (VECTORS[1], "26151  47237:0.5\n", ["line 1 of", VECTORS[1], "term 47237", "1 to 47,236"]),
        (VECTORS[1], "26150  1:1\n26151  0:0.5\n", ["line 2 of", "term 0"]),
        (VECTORS[1], "26151  ab\n", ["line 1 of", VECTORS[1]]),
        (VECTORS[1], "26151  5:inf\n", ["line 1", VECTORS[1]]),
        (VECTORS[1], "", [VECTORS[1], "is empty"]),
        (VECTORS[1], "2286  5:1\n", ["document 2286 occurs twice"]),
        (QRELS[0], "CCAT 2286 1\nCCAT many\n", ["line 2 of", QRELS[0], "'CCAT many'"]),
        (QRELS[0], "C11 2286 1\n", [QRELS[0], "none of the documents", "CCAT"]),
    ],
)
def test_what_is_no_file_of_lyrl2004_is_refused_where_it_is(mine: Path, name: str, text: str, words: list[str]) -> None:
    put_all(mine)
    put(mine, name, text)
    sentence = refused(lambda: load("rcv1"))
    for word in words:
        assert word in sentence
    assert list((mine.parent / "cache" / "data").iterdir()) == []


@pytest.mark.parametrize("name", [VECTORS[3], QRELS[0]])
def test_a_file_that_was_cut_is_refused(mine: Path, name: str) -> None:
    put_all(mine, packed=True)
    path = mine / f"{name}.gz"
    path.write_bytes(path.read_bytes()[:-6])
    assert f"{path} cannot be read" in refused(lambda: load("rcv1"))


def test_the_command_converts_them(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_all(mine, packed=True)
    assert main(["data", "fetch", "rcv1", "--json", "--quiet"]) == 0
    (said,) = json.loads(capsys.readouterr().out)
    assert said == {"name": "rcv1", "where": whereabouts("rcv1"), "fetched": True}


def test_without_them_the_sentence_says_what_to_bring(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**options: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets.fetch_rcv1", unreachable)
    sentence = refused(lambda: load("rcv1"))
    for word in (VECTORS[0], "test_pt3.dat", QRELS[0], ".gz", "RCV1", "rcv1.npz", str(mine)):
        assert word in sentence
