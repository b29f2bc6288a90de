"""Real data sets by name, found in the folder `ONEBIT_DATA`, in the user's cache, in scikit-learn, or downloaded by it.

A file is NAME.npz with `X` (or `data`, `indices`, `indptr` and `shape`), `y` and `classes`; what is downloaded is kept in the
cache in that form, and so is RCV1 from the files that it is distributed as (`onebit.data.rcv1`). Values are as the source has them: unscaled, in the source's order, which is often sorted by class.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onebit.data import fetchers, rcv1
from onebit.data.blocks import FileProgress
from onebit.data.fetchers import SEXES, Parts
from onebit.data.files import arrays_of, dataset_of, require
from onebit.data.paths import cached_data, own_data
from onebit.data.tables import Dataset
from onebit.errors import InputError, NetworkError, OnebitError, brief, nearest

RINGS = ((1, 7), (8, 14), (15, 21), (22, 29))  # the classes of abalone, after Arora and Manwani 2020
_EVERY_S = 0.2  # how often the growth of a download is looked at


@dataclass(frozen=True)
class RealDataset:
    """A data set that others have published: its size, and how it is got. `hint` is the papers' usual preparation."""

    rows: int
    features: int
    classes: int
    summary: str
    get: Callable[[Path], Parts]
    hint: str = ""
    sparse: bool = False
    shipped: bool = False  # with scikit-learn: nothing is downloaded
    size: int = 0  # bytes of the download, or so


REAL = {
    "iris": RealDataset(150, 4, 3, "Fisher's iris flowers, measured in cm", fetchers.iris, shipped=True),
    "digits": RealDataset(
        1797, 64, 10, "handwritten digits, 8 x 8 pixels, 0 to 16", fetchers.digits, "scale", shipped=True
    ),
    "ecoli": RealDataset(336, 7, 8, "where a protein of E. coli sits in the cell", fetchers.ecoli, size=20_000),
    "abalone": RealDataset(
        4177,
        10,
        4,
        "abalone shells: sex and measurements; rings 1-7, 8-14, 15-21, 22-29",
        fetchers.abalone,
        size=200_000,
    ),
    "satimage": RealDataset(
        6435, 36, 6, "soil by Landsat: 3 x 3 pixels in four bands, 0 to 255", fetchers.satimage, size=800_000
    ),
    "usps": RealDataset(
        9298, 256, 10, "handwritten digits of US post codes, 16 x 16 pixels, -1 to 1", fetchers.usps, size=5_000_000
    ),
    "mnist": RealDataset(
        70_000, 784, 10, "handwritten digits, 28 x 28 pixels, 0 to 255", fetchers.mnist, "scale", size=16_000_000
    ),
    "20newsgroups": RealDataset(
        18_846, 75_916, 20, "Usenet messages as counts of words", fetchers.newsgroups, "binary", True, size=36_000_000
    ),
    "rcv1": RealDataset(
        665_265,
        47_236,
        4,
        "Reuters news, one of four top topics, tf-idf of length one",
        fetchers.rcv1,
        "",
        True,
        size=650_000_000,
    ),
}


# --- where each is ------------------------------------------------------------------------------------------------------


def load(name: str, progress: FileProgress | None = None) -> Dataset:
    """The rows of a data set, from the first place that has it; downloaded and kept where none has.

    >>> load("digits").classes[:3] if whereabouts("digits") == "scikit-learn" else ("0", "1", "2")
    ('0', '1', '2')
    """
    real = named(name)
    path = _found(name)
    if path is None and real.shipped:
        return _checked(name, real.get(Path()), None)
    if path is None:
        path = _obtained(name, progress)
    return _checked(name, arrays_of(path), path)


def fetch(name: str, progress: FileProgress | None = None) -> Path | None:
    """Download a data set into the cache unless it is found already; its file, or None where scikit-learn ships it."""
    real = named(name)
    path = _found(name)
    return path if path is not None or real.shipped else _obtained(name, progress)


def whereabouts(name: str) -> str:
    """Where a data set is found: a file in ONEBIT_DATA or in the cache, in scikit-learn, or nowhere yet."""
    real = named(name)
    path = _found(name)
    if path is not None:
        return f"{_place(path.parent)}: {path}"
    raw = _distributed(name)
    if raw is not None:
        return f"{_place(raw.folder)}: {raw.folder}, to be converted"
    return "scikit-learn" if real.shipped else "to be downloaded"


def named(name: str) -> RealDataset:
    """The entry of the catalogue; an unknown name is refused with the nearest."""
    if name not in REAL:
        raise InputError(f"there is no data {brief(name)}; {nearest(name, REAL)}")
    return REAL[name]


def _folders() -> list[Path]:
    return [folder for folder in (own_data(), cached_data()) if folder is not None]


def _place(folder: Path) -> str:
    return "cache" if folder == cached_data() else "ONEBIT_DATA"


def _found(name: str) -> Path | None:
    places = [folder / f"{name}.npz" for folder in _folders()]
    return next((path for path in places if path.is_file()), None)


def _distributed(name: str) -> rcv1.Rcv1Files | None:
    """The files that a data set is distributed as, where they are here; of RCV1 alone we know them."""
    found = map(rcv1.files_in, _folders() if name == "rcv1" else [])
    return next((files for files in found if files is not None), None)


def _checked(name: str, parts: Parts, path: Path | None) -> Dataset:
    """The data, if they are what the catalogue says: a file that others put there may be anything."""
    real = REAL[name]
    source = path or Path(f"{name}.npz")
    if name == "abalone":
        parts = _in_four_classes(parts, source)
    data = dataset_of(parts, source)
    shape: tuple[int, ...] = getattr(data.X, "shape", ())
    # The columns of a text depend on how its words were counted.
    fits = len(shape) == 2 and (real.sparse or shape[1] == real.features) and real.sparse == hasattr(data.X, "indptr")
    if not fits or len(data.classes) != real.classes:
        form = "sparse" if hasattr(data.X, "indptr") else "dense"
        raise InputError(
            f"{source} is not {name}: it is {form} with shape {tuple(shape)} and {len(data.classes)} classes, but "
            f"{name} is {'sparse' if real.sparse else 'dense'} with {real.features} features and {real.classes} classes"
        )
    return data


def _in_four_classes(parts: Parts, path: Path) -> Parts:
    """Abalone as in the EPABF paper: four intervals of rings, the sex one 0/1 column for each of three."""
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


# --- downloads and conversions -------------------------------------------------------------------------------------------


def _obtained(name: str, progress: FileProgress | None) -> Path:
    """Convert a data set from the files it is distributed as, or download it, and keep it in the cache once it is whole."""
    real = REAL[name]
    require("sklearn", name)
    folder = cached_data()
    raw = _distributed(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}-") as home:
            if raw is not None:
                parts = raw.read(raw.folder)
            else:
                with _growth(Path(home), name, real.size, progress):
                    parts = _got(name, real, Path(home))
            _checked(name, parts, None if raw is None else raw.folder)
            whole = Path(home) / f"{name}.npz"
            np.savez_compressed(whole, **parts)  # type: ignore[arg-type]
            return whole.replace(folder / f"{name}.npz")
    except OnebitError:  # that it could not be downloaded is an OSError too
        raise
    except OSError as error:
        raise InputError(f"{name} cannot be kept in {folder}: {error.strerror or error}") from None


def _got(name: str, real: RealDataset, home: Path) -> Parts:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns of each attempt; the last one is told below
            return real.get(home)
    except OnebitError:
        raise
    except Exception as error:  # a server, a proxy and a parser fail in many ways
        reason = " ".join(str(getattr(error, "reason", "") or error).split()) or type(error).__name__
        own = own_data()
        named_folder = f"{own}, the folder named by ONEBIT_DATA" if own else "the folder named by ONEBIT_DATA"
        parts = "data, indices, indptr, shape" if real.sparse else "X"
        parts += ", y, classes" + (", rings" if name == "abalone" else "")
        bring = f"{name}.npz with the arrays {parts}" + (f", or {rcv1.BRING}," if name == "rcv1" else "")
        raise NetworkError(
            f"{name} is not on this machine and could not be downloaded ({reason}): put {bring} "
            f"into {named_folder}, or into {cached_data()}"
        ) from None


@contextmanager
def _growth(home: Path, name: str, total: int, progress: FileProgress | None) -> Iterator[None]:
    """Report how much has arrived: scikit-learn says nothing, but the files that it writes grow."""
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY_S):
            progress(f"downloading {name}", min(_bytes_in(home), total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    progress(f"downloading {name}", total, total)


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                total += (Path(parent) / file).stat().st_size
            except OSError:  # renamed or removed since
                continue
    return total
