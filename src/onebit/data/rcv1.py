"""RCV1-v2 from files that somebody has: those that LYRL2004 distributes, or those that scikit-learn has kept.

LYRL2004 (Lewis, Yang, Rose and Li 2004, Online Appendices 8 and 13) are five files of vectors, a line being a document's number and
pairs term:weight with terms from 1, and one of topics, a line being a topic, a document's number and 1. Each may be compressed by
gzip. The training part stands first, as in scikit-learn, so that the documents come in the order of time.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.blocks import opened
from onebit.data.fetchers import TOPICS, Parts, one_topic, rcv1
from onebit.data.svmlight import Svmlight
from onebit.errors import InputError, brief

TERMS = 47_236
VECTORS = tuple(f"lyrl2004_vectors_{part}.dat" for part in ("train", "test_pt0", "test_pt1", "test_pt2", "test_pt3"))
QRELS = ("rcv1-v2.topics.qrels", "rcv1v2.topics.qrels")  # as LYRL2004 calls it, and as scikit-learn does
CACHED = ("samples_py3.pkl", "sample_id_py3.pkl", "sample_topics_py3.pkl", "topics_names_py3.pkl")

BRING = (
    f"the files of LYRL2004 ({VECTORS[0]}, {VECTORS[1]} to {VECTORS[-1].removeprefix('lyrl2004_vectors_')}, and {QRELS[0]}; "
    "each may end in .gz), or the folder RCV1 of scikit-learn's data"
)


@dataclass(frozen=True)
class Rcv1Files:
    """Files of RCV1-v2 in a folder, not yet in the form of a data set."""

    folder: Path
    read: Callable[[Path], Parts]


def files_in(folder: Path) -> Rcv1Files | None:
    """The files of RCV1-v2 in a folder: some of LYRL2004, or scikit-learn's; None where there are neither."""
    if any(_present(folder, name) for name in (*VECTORS, *QRELS)):
        return Rcv1Files(folder, _from_lyrl2004)
    if (folder / "RCV1" / CACHED[0]).is_file():
        return Rcv1Files(folder, _from_scikit_learn)
    return None


def _present(folder: Path, name: str) -> Path | None:
    """A file, plain or compressed."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _from_scikit_learn(folder: Path) -> Parts:
    missing = [name for name in CACHED if not (folder / "RCV1" / name).is_file()]
    if missing:
        raise InputError(
            f"{folder / 'RCV1'} has no {', '.join(missing)}: all that scikit-learn has kept of RCV1 is needed"
        )
    try:
        return rcv1(folder, download=False)
    except Exception as error:  # an unpickler fails in many ways
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"scikit-learn cannot read its RCV1 in {folder}: {said}") from None


def _from_lyrl2004(folder: Path) -> Parts:
    found = [_present(folder, name) for name in VECTORS]
    qrels = next((path for path in (_present(folder, name) for name in QRELS) if path is not None), None)
    missing = [name for name, path in zip(VECTORS, found, strict=True) if path is None]
    missing += [QRELS[0]] if qrels is None else []
    if missing or qrels is None:
        raise InputError(f"{folder} has no {', '.join(missing)}: all files of LYRL2004 are needed, each may end in .gz")
    parts = [_vectors(path) for path in found if path is not None]
    documents = np.concatenate([numbers for _, numbers in parts])
    unequal, counts = np.unique(documents, return_counts=True)
    if len(unequal) < len(documents):
        raise InputError(f"document {unequal[counts > 1][0]} occurs twice in the vectors of LYRL2004 in {folder}")
    import scipy.sparse

    vectors = scipy.sparse.vstack([matrix for matrix, _ in parts], format="csr")
    return one_topic(vectors, _topics(qrels, documents), documents)


def _vectors(path: Path) -> tuple[Any, NDArray[np.int64]]:
    """The vectors of a file, and their documents' numbers."""
    import scipy.sparse

    file = Svmlight(path, None)
    data, indices, lengths, numbers = [], [], [], []
    for first, block, labels, _ in file.matrices():
        outside = (block.indices < 1) | (block.indices > TERMS)
        if outside.any():
            entry = int(np.flatnonzero(outside)[0])
            row = first + int(np.searchsorted(block.indptr, entry, side="right")) - 1
            raise InputError(
                f"{file.place(row)} of {path} has the term {block.indices[entry]}, but those of RCV1-v2 are 1 to {TERMS:,}"
            )
        data.append(block.data)
        indices.append(block.indices - 1)
        lengths.append(np.diff(block.indptr))
        numbers.append(labels.astype(np.int64))
    if not data:
        raise InputError(f"{path} is empty, but must have a line for each document")
    ends = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    parts = np.concatenate(data), np.concatenate(indices), ends
    return scipy.sparse.csr_array(parts, shape=(len(ends) - 1, TERMS)), np.concatenate(numbers)


def _topics(path: Path, documents: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Which of the four top topics each of the documents has."""
    found = np.zeros((len(documents), len(TOPICS)), dtype=np.uint8)
    places = {document: place for place, document in enumerate(documents.tolist())}
    columns = {topic.encode(): column for column, topic in enumerate(TOPICS)}
    try:
        with opened(path) as (file, _):
            for number, line in enumerate(file, 1):
                words = line.split()
                if not words:
                    continue
                if len(words) != 3 or not words[1].isdigit():
                    shown = brief(line[:60].decode(errors="replace").strip())
                    raise InputError(
                        f"line {number} of {path} is {shown}, but must be a topic, a document's number and 1"
                    )
                column, place = columns.get(words[0]), places.get(int(words[1]))
                if column is not None and place is not None:
                    found[place, column] = 1
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not found.any():
        raise InputError(f"{path} gives none of the documents one of the topics {', '.join(TOPICS)}")
    return found
