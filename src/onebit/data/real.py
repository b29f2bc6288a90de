"""Published data sets by name, from `ONEBIT_DATA`, the user's cache or scikit-learn, or downloaded.

A file is NAME.npz with `X` (or `data`, `indices`, `indptr` and `shape`), `y` and `classes`; downloads are cached in
that form. Values are as in the source: unscaled, and in its order, which is often sorted by class. Classes have the
names and order of the files that ONEBIT_DATA is meant for, so that it does not matter where a data set was found.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.installation import require
from onebit.data.dataset import Dataset
from onebit.data.file_blocks import FileProgress
from onebit.data.large import data_folder
from onebit.data.user_files import dataset_from_arrays, load_arrays
from onebit.errors import InputError, NetworkError, OnebitError, brief, nearest

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


def get_shipped(name: str, file: str, header: int, dtype: type, classes: tuple[str, ...], home: Path) -> Parts:
    """Return a data set that scikit-learn ships, read from its folder if possible.

    Importing scikit-learn would take longer than a run over its data.
    """
    package = find_spec("sklearn")
    folders = (package and package.submodule_search_locations) or ()
    path = next((path for folder in folders if (path := Path(folder) / "datasets" / "data" / file).is_file()), None)
    if path is None:
        require("sklearn", name)
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        table = np.loadtxt(path, delimiter=",", skiprows=header)  # unpacked if its name ends in .gz
        X, y = table[:, :-1], table[:, -1]
    return {"X": X.astype(dtype), "y": y.astype(np.int64), "classes": np.array(classes)}


get_iris = partial(get_shipped, "iris", "iris.csv", 1, np.float32, IRISES)  # Fisher's iris flowers
get_digits = partial(get_shipped, "digits", "digits.csv.gz", 0, np.uint8, DIGITS)


def _openml(identity: int, home: Path) -> Any:
    """Fetch a data set of openml.org by its ID, which stands for one version of it."""
    from sklearn.datasets import fetch_openml

    require("pandas", "reading data of openml.org")
    return fetch_openml(data_id=identity, as_frame=False, parser="auto", data_home=str(home))


def get_openml(
    identity: int, dtype: type, classes: tuple[str, ...], class_of: Callable[[Any], str], home: Path
) -> Parts:
    """Return a data set of openml.org; `class_of` gives the class of a label there."""
    bunch = _openml(identity, home)
    y = np.array([classes.index(class_of(label)) for label in bunch.target], dtype=np.int16)
    return {"X": bunch.data.astype(dtype), "y": y, "classes": np.array(classes)}


get_ecoli = partial(get_openml, 39, np.float32, SITES, str)
get_satimage = partial(get_openml, 182, np.uint8, tuple(SOILS.values()), lambda label: SOILS[int(float(label))])
# Its digits 0 to 9 are called 1 to 10 there.
get_usps = partial(get_openml, 41082, np.float32, DIGITS, lambda label: str(int(float(label)) - 1))
get_mnist = partial(get_openml, 554, np.uint8, DIGITS, str)  # the training part, then the test part


def get_abalone(home: Path) -> Parts:
    """Return the abalone shells, data set 183 of openml.org.

    The first column is the sex, as an index of SEXES.
    """
    bunch = _openml(183, home)
    sex = next(index for index, name in enumerate(bunch.feature_names) if name.lower() == "sex")
    names = [str(name) for name in bunch.categories[bunch.feature_names[sex]]]
    X = bunch.data.astype(np.float32)
    codes = np.array([SEXES.index(names[int(code)]) for code in X[:, sex]], dtype=np.float32)
    rings = np.array([int(float(label)) for label in bunch.target], dtype=np.int16)
    return {"X": np.column_stack([codes, np.delete(X, sex, axis=1)]), "rings": rings}


def get_newsgroups(home: Path) -> Parts:
    """Return all messages of the 20 newsgroups, nothing removed, as word counts.

    Only words that occur in two or more messages are counted.
    """
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


def get_rcv1(home: Path) -> Parts:
    """Return the documents of RCV1-v2 that have exactly one of the four top topics."""
    from sklearn.datasets import fetch_rcv1

    bunch = fetch_rcv1(data_home=str(home), subset="all", shuffle=False)
    names = [str(name) for name in bunch.target_names]
    topics = bunch.target[:, [names.index(topic) for topic in TOPICS]].toarray()
    single = np.flatnonzero(topics.sum(axis=1) == 1)
    return {
        **_csr(bunch.data[single], np.float32),
        "y": topics[single].argmax(axis=1).astype(np.int16),
        "classes": np.array(TOPICS),
        "doc_id": np.asarray(bunch.sample_id)[single].astype(np.int32),
    }


def _csr(matrix: Any, dtype: type) -> Parts:
    return {
        "data": matrix.data.astype(dtype),
        "indices": matrix.indices.astype(np.int32),
        "indptr": matrix.indptr.astype(np.int64),
        "shape": np.array(matrix.shape, dtype=np.int64),
    }


RINGS = ((1, 7), (8, 14), (15, 21), (22, 29))  # the classes of abalone, after Arora and Manwani 2020


@dataclass(frozen=True)
class RealDataset:
    """A published data set: its size and the function that obtains it.

    `hint` is the preparation that papers usually apply.
    """

    rows: int
    features: int
    classes: int
    summary: str
    get: Callable[[Path], Parts]
    hint: str = ""
    sparse: bool = False
    shipped: bool = False  # with scikit-learn, so nothing is downloaded
    size: int = 0  # approximate bytes of the download


REAL = {
    "iris": RealDataset(150, 4, 3, "Fisher's iris flowers, measured in cm", get_iris, shipped=True),
    "digits": RealDataset(1797, 64, 10, "handwritten digits, 8 x 8 pixels, 0 to 16", get_digits, "scale", shipped=True),
    "ecoli": RealDataset(336, 7, 8, "where a protein of E. coli sits in the cell", get_ecoli, size=20_000),
    "abalone": RealDataset(
        4177,
        10,
        4,
        "abalone shells: sex and measurements; rings 1-7, 8-14, 15-21, 22-29",
        get_abalone,
        size=200_000,
    ),
    "satimage": RealDataset(
        6435, 36, 6, "soil by Landsat: 3 x 3 pixels in four bands, 0 to 255", get_satimage, size=800_000
    ),
    "usps": RealDataset(
        9298, 256, 10, "handwritten digits of US post codes, 16 x 16 pixels, -1 to 1", get_usps, size=5_000_000
    ),
    "mnist": RealDataset(
        70_000, 784, 10, "handwritten digits, 28 x 28 pixels, 0 to 255", get_mnist, "scale", size=16_000_000
    ),
    "20newsgroups": RealDataset(
        18_846, 75_916, 20, "Usenet messages as counts of words", get_newsgroups, "binary", True, size=36_000_000
    ),
    "rcv1": RealDataset(
        665_265,
        47_236,
        4,
        "Reuters news, one of four top topics, tf-idf of length one",
        get_rcv1,
        "",
        True,
        size=650_000_000,
    ),
}


# --- locating data sets -----------------------------------------------------------------------------------------------


def load(name: str, progress: FileProgress | None = None) -> Dataset:
    """Return a data set from the first place that has it; download and cache it if none has.

    >>> load("digits").classes[:3] if describe_location("digits") == "scikit-learn" else ("0", "1", "2")
    ('0', '1', '2')
    """
    real, path = find_dataset(name), fetch(name, progress)
    return _check_dataset(name, real.get(Path()) if path is None else load_arrays(path), path)


def fetch(name: str, progress: FileProgress | None = None) -> Path | None:
    """Download a data set into the cache unless it is available.

    Return its file, or None if scikit-learn ships it.
    """
    real = find_dataset(name)
    path = _find_file(name)
    return path if path is not None or real.shipped else _download(name, progress)


def describe_location(name: str) -> str:
    """Describe where a data set is: a file in ONEBIT_DATA or the cache, scikit-learn, or to be downloaded."""
    real = find_dataset(name)
    path = _find_file(name)
    if path is not None:
        place = "cache" if path.parent == data_folder() else "ONEBIT_DATA"
        return f"{place}: {path}"
    return "scikit-learn" if real.shipped else "to be downloaded"


def user_folder() -> Path | None:
    """Return the user's data folder, named by `ONEBIT_DATA`; None if it is not set."""
    folder = os.environ.get("ONEBIT_DATA")
    return Path(folder) if folder else None


def find_dataset(name: str) -> RealDataset:
    """Return the catalogue entry of a data set; raise InputError with the closest match if unknown."""
    if name not in REAL:
        raise InputError(f"there is no data {brief(name)}; {nearest(name, REAL)}")
    return REAL[name]


def _find_file(name: str) -> Path | None:
    places = [folder / f"{name}.npz" for folder in (user_folder(), data_folder()) if folder is not None]
    return next((path for path in places if path.is_file()), None)


def _check_dataset(name: str, parts: Parts, path: Path | None) -> Dataset:
    """Return the data set made of these arrays; raise InputError if it does not match the catalogue.

    A file that the user put there may contain anything.
    """
    real = REAL[name]
    source = path or Path(f"{name}.npz")
    if name == "abalone":
        parts = _group_rings(parts, source)
    data = dataset_from_arrays(parts, source)
    shape: tuple[int, ...] = getattr(data.X, "shape", ())
    # The number of columns of sparse data depends on how words were counted.
    has_expected_shape = (
        len(shape) == 2 and (real.sparse or shape[1] == real.features) and real.sparse == hasattr(data.X, "indptr")
    )
    if not has_expected_shape or len(data.classes) != real.classes:
        form = "sparse" if hasattr(data.X, "indptr") else "dense"
        raise InputError(
            f"{source} is not {name}: it is {form} with shape {tuple(shape)} and {len(data.classes)} classes, but "
            f"{name} is {'sparse' if real.sparse else 'dense'} with {real.features} features and {real.classes} classes"
        )
    return data


def _group_rings(parts: Parts, path: Path) -> Parts:
    """Return abalone as in the EPABF paper: rings in four intervals, the sex as three 0/1 columns."""
    X, rings = parts.get("X"), parts.get("rings")
    if X is None or rings is None or X.ndim != 2 or X.shape[1] != 8 or rings.shape != X.shape[:1]:
        raise InputError(f"{path} is not abalone: it must have X with 8 columns, the sex first, and rings for each row")
    sex = X[:, 0]
    upper = np.array([last for _, last in RINGS])
    if not np.isin(sex, range(len(SEXES))).all() or rings.min() < RINGS[0][0] or rings.max() > RINGS[-1][1]:
        raise InputError(f"{path} is not abalone: the first column must be 0, 1 or 2, and rings from 1 to 29")
    one_hot = sex[:, None] == np.arange(len(SEXES))
    return {
        "X": np.ascontiguousarray(np.column_stack([one_hot, X[:, 1:]]), dtype=np.float32),
        "y": np.searchsorted(upper, rings),
        "classes": np.array([f"{first}-{last}" for first, last in RINGS]),
    }


# --- downloads --------------------------------------------------------------------------------------------------------


def _download(name: str, progress: FileProgress | None) -> Path:
    """Download a data set and move it into the cache once it is complete."""
    real = REAL[name]
    require("sklearn", name)
    folder = data_folder()
    if progress is not None:  # scikit-learn does not report progress
        progress(f"downloading {name}", 0, real.size)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}-") as home:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of each attempt; the last error is reported below
                    parts = real.get(Path(home))
            except OnebitError:
                raise
            except Exception as error:  # a server, a proxy and a parser fail in many ways
                raise _download_error(name, error) from None
            _check_dataset(name, parts, None)
            file = Path(home) / f"{name}.npz"
            np.savez_compressed(file, **parts)  # type: ignore[arg-type]
            return file.replace(folder / f"{name}.npz")
    except OnebitError:  # includes NetworkError, which is an OSError too
        raise
    except OSError as error:
        raise InputError(f"{name} cannot be saved in {folder}: {error.strerror or error}") from None


def _download_error(name: str, error: Exception) -> NetworkError:
    reason = " ".join(str(getattr(error, "reason", "") or error).split()) or type(error).__name__
    own_folder = user_folder()
    folder = f"{own_folder}, the folder named by ONEBIT_DATA" if own_folder else "the folder named by ONEBIT_DATA"
    arrays = "data, indices, indptr, shape" if REAL[name].sparse else "X"
    arrays += ", rings" if name == "abalone" else ", y, classes"
    return NetworkError(
        f"{name} is not on this machine and could not be downloaded ({reason}): put {name}.npz with the arrays {arrays} "
        f"into {folder}, or into {data_folder()}"
    )
