"""How each real data set is got from scikit-learn: the arrays of its file; `home` is where downloads are kept meanwhile.

Classes have the names and the order of the files that ONEBIT_DATA is made for, so that it does not matter where a data set was
found.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.data.files import require

Parts = dict[str, NDArray[Any]]

SEXES = ("M", "F", "I")
SITES = ("cp", "im", "imS", "imL", "imU", "om", "omL", "pp")
SOILS = {
    1: "red soil",
    2: "cotton crop",
    3: "grey soil",
    4: "damp grey soil",
    5: "soil with vegetation stubble",
    7: "very damp grey soil",
}
DIGITS = tuple("0123456789")
IRISES = ("Iris-setosa", "Iris-versicolor", "Iris-virginica")
TOPICS = ("CCAT", "ECAT", "GCAT", "MCAT")


def iris(home: Path) -> Parts:
    """Fisher's iris flowers, shipped by scikit-learn."""
    table = _shipped("iris.csv", header=1)
    if table is None:
        require("sklearn", "iris")
        from sklearn.datasets import load_iris

        X, y = load_iris(return_X_y=True)
    else:
        X, y = table[:, :-1], table[:, -1]
    return {"X": X.astype(np.float32), "y": y.astype(np.int64), "classes": np.array(IRISES)}


def digits(home: Path) -> Parts:
    """The digits shipped by scikit-learn."""
    table = _shipped("digits.csv.gz")
    if table is None:
        require("sklearn", "digits")
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        X, y = table[:, :-1], table[:, -1]
    return {"X": X.astype(np.uint8), "y": y.astype(np.int64), "classes": np.array(DIGITS)}


def _shipped(file: str, header: int = 0) -> NDArray[np.float64] | None:
    """A table that lies in scikit-learn's folder; None where it does not. Importing scikit-learn takes longer than a run over its data."""
    package = find_spec("sklearn")
    for folder in (package and package.submodule_search_locations) or ():
        path = Path(folder) / "datasets" / "data" / file
        if path.is_file():
            with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
                return np.loadtxt(lines, delimiter=",", skiprows=header)
    return None


def _openml(identity: int, home: Path) -> Any:
    """A data set of openml.org by its number there, which stands for one version of it."""
    from sklearn.datasets import fetch_openml

    require("pandas", "reading data of openml.org")
    return fetch_openml(data_id=identity, as_frame=False, parser="auto", data_home=str(home))


def ecoli(home: Path) -> Parts:
    """Sites of proteins, number 39 at openml.org."""
    bunch = _openml(39, home)
    return _indexed(bunch.data.astype(np.float32), [str(label) for label in bunch.target], SITES)


def abalone(home: Path) -> Parts:
    """Abalone shells, number 183 at openml.org; the first column is the sex, as an index of SEXES."""
    bunch = _openml(183, home)
    sex = next(index for index, name in enumerate(bunch.feature_names) if name.lower() == "sex")
    names = [str(name) for name in bunch.categories[bunch.feature_names[sex]]]
    X = bunch.data.astype(np.float32)
    codes = np.array([SEXES.index(names[int(code)]) for code in X[:, sex]], dtype=np.float32)
    rings = np.array([int(float(label)) for label in bunch.target], dtype=np.int16)
    values, y = np.unique(rings, return_inverse=True)
    return {
        "X": np.column_stack([codes, np.delete(X, sex, axis=1)]),
        "y": y.astype(np.int16),
        "classes": np.array([str(value) for value in values]),
        "rings": rings,
    }


def satimage(home: Path) -> Parts:
    """The Landsat image, number 182 at openml.org."""
    bunch = _openml(182, home)
    soils = [SOILS[int(float(label))] for label in bunch.target]
    return _indexed(bunch.data.astype(np.uint8), soils, tuple(SOILS.values()))


def usps(home: Path) -> Parts:
    """Digits of post codes, number 41082 at openml.org."""
    bunch = _openml(41082, home)  # there the digits 0 to 9 are called 1 to 10
    return _indexed(bunch.data.astype(np.float32), [str(int(float(label)) - 1) for label in bunch.target], DIGITS)


def mnist(home: Path) -> Parts:
    """MNIST, number 554 at openml.org: the training part, then the test part."""
    bunch = _openml(554, home)
    return _indexed(bunch.data.astype(np.uint8), [str(label) for label in bunch.target], DIGITS)


def newsgroups(home: Path) -> Parts:
    """All messages of the 20 newsgroups, nothing removed, as counts of the words that occur in two or more."""
    from sklearn.datasets import fetch_20newsgroups
    from sklearn.feature_extraction.text import CountVectorizer

    bunch = fetch_20newsgroups(data_home=str(home), subset="all", shuffle=False)
    counter = CountVectorizer(lowercase=True, token_pattern=r"(?u)\w+", min_df=2)
    counts = counter.fit_transform(bunch.data)
    counts.sort_indices()
    return {
        **_csr(counts, np.uint16),
        "y": bunch.target.astype(np.int16),
        "classes": np.array(bunch.target_names),
        "vocab": np.array("\n".join(counter.get_feature_names_out())),
    }


def rcv1(home: Path, download: bool = True) -> Parts:
    """The documents of RCV1-v2 with exactly one of the four top topics; without `download` from what was kept in `home`."""
    from sklearn.datasets import fetch_rcv1

    bunch = fetch_rcv1(data_home=str(home), subset="all", shuffle=False, download_if_missing=download)
    names = [str(name) for name in bunch.target_names]
    topics = bunch.target[:, [names.index(topic) for topic in TOPICS]].toarray()
    return one_topic(bunch.data, topics, np.asarray(bunch.sample_id))


def one_topic(vectors: Any, topics: NDArray[Any], documents: NDArray[Any]) -> Parts:
    """Of documents as sparse rows those with exactly one of the four topics, a column for each of which says whether they have it."""
    single = np.flatnonzero(topics.sum(axis=1) == 1)
    return {
        **_csr(vectors[single], np.float32),
        "y": topics[single].argmax(axis=1).astype(np.int16),
        "classes": np.array(TOPICS),
        "doc_id": documents[single].astype(np.int32),
    }


def _indexed(X: NDArray[Any], labels: list[str], classes: tuple[str, ...]) -> Parts:
    y = np.array([classes.index(label) for label in labels], dtype=np.int16)
    return {"X": X, "y": y, "classes": np.array(classes)}


def _csr(matrix: Any, dtype: type) -> Parts:
    return {
        "data": matrix.data.astype(dtype),
        "indices": matrix.indices.astype(np.int32),
        "indptr": matrix.indptr.astype(np.int64),
        "shape": np.array(matrix.shape, dtype=np.int64),
    }
