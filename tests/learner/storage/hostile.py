"""Files as an attacker would write them: a learner's file with something altered in it, and a right checksum.

`python -m tests.learner.storage.hostile FOLDER FIRST LAST` loads and uses the altered files FIRST to LAST of those that the files in FOLDER give, one after
the other, and says which it is at, so that whoever started it knows what a crash, a hang or a raw error belongs to.
"""

from __future__ import annotations

import copy
import json
import math
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import onebit
from onebit.learner import model_file
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.spaces.sparse import SparseRows
from tests.golden.write import HERE
from tests.slow import SLOW

Random = np.random.Generator
MOST_MEMORY = 6 << 30  # of addresses: what asks for more than a file justifies meets this
MOST_SECONDS = 60  # for one file, compiling included
LONGEST_ROW = 10**5  # a dense x that is made for a learner

ENDLESS = [math.nan, math.inf, -math.inf]
NUMBERS: list[Any] = [
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        127,
        128,
        129,
        2**15,
        2**31 - 1,
        2**31,
        -(2**31),
        2**40,
        2**62,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
    ),
    *(0.5, -0.5, 1e-320, 1e300, -1e300, 1.5e308, 10**400),
    *ENDLESS,
]
VALUES: list[Any] = [
    *NUMBERS,
    *(
        None,
        True,
        False,
        "",
        "x",
        "dense",
        "sparse",
        "float16",
        "\ud800",
        "\x1b[2J",
        "rbf:1",
        "polynomial:20",
        "merge",
        "oldest",
    ),
    *([], [[]], [1, 2], ["a", "b"], {}, {"a": 1}, [None] * 50, "9" * 5000),
]
DTYPES = ["<f8", "<f4", "<f2", "<i8", "<i4", "<u1", "<u8", "?", "<i1"]


# --- the files that are altered -------------------------------------------------------------------------------------------


def text_rows(count: int) -> list[str]:
    """Texts of a few words."""
    return [f"word{number % 4} and word{number % 7} more" for number in range(count)]


def seeds() -> Iterator[tuple[str, Learner]]:
    """A small learner of every space: with kernels and budgets, with matrices of every kind, and `auto`, as it is and as it was."""
    generator = np.random.default_rng(5)
    X = generator.normal(size=(40, 3)) / 4.0
    wide = generator.normal(size=(6, 600)) / 40.0
    made: list[tuple[str, Learner, Any]] = [
        ("dense", Learner("bpa", classes=3, bias=True), X),
        ("sparse", Learner("bpa", classes=3, space="sparse", bias=True, exploration_floor=0.1), X),
        ("text", Learner("linucb", classes=3, text=True), text_rows(10)),
        ("hashed", Learner("bpa", classes=3, text=True, hash_bits=4), text_rows(10)),
        ("pairs", Learner("conservative-ova", classes=4, coding="all-pairs"), X),
        ("coded", Learner("conservative-ova", classes=3, coding=[[1, 1], [-1, 1], [0, -1]]), X),
        ("decaying", Learner("policy-gradient", classes=3, decay=0.5), X),
        ("tree", Learner("offset-tree", classes=3), X),
        ("ball", Learner("gaptron", classes=3, rate=0.5, exploration=0.1, radius=0.5), X),
        ("full", Learner("linucb", classes=3, matrix="full", bias=True), X),
        ("thompson", Learner("thompson", classes=3), X),
        ("joint", Learner("soba", classes=3, matrix="full"), X),
        ("joint-ball", Learner("newtron", classes=3, matrix="full"), X),
        ("newtron", Learner("newtron", classes=3), X),
        ("shared", Learner("second-order-perceptron", classes=3), X),
        ("logistic", Learner("epsilon-greedy", classes=3, model="logistic"), X),
        ("auto", Learner("auto", classes=3), X[:, :2]),
        ("auto-wide", Learner("auto", classes=3), wide),
        ("auto-sparse", Learner("auto", classes=3, text=True), text_rows(10)),
        ("new", Learner("bpa", classes=3), []),
        ("new-text", Learner("bpa", classes=3, text=True), []),
    ]
    options: dict[str, Any] = {"max_support": 5, "rate": 0.5, "exploration": 0.1, "radius": 0.5}
    made += [
        ("kernel", Learner("gaptron", classes=3, kernel="rbf:1", **options), X),
        ("kernel-sparse", Learner("gaptron", classes=3, kernel="polynomial:2", space="sparse", **options), X),
        ("kernel-plain", Learner("bpa", classes=3, kernel="rbf:1", max_support=5), X),
    ]
    made.append(("kernel-text", Learner("bpa", classes=3, kernel="rational", text=True), text_rows(10)))
    for name, learner, rows in made:
        for number, x in enumerate(rows):
            learner.learn(learner.decide(x, id=f"case {number}" if number == 3 else None), label=number % 3)
        yield name, learner


def write_seeds(folder: Path) -> None:
    """Put the files that are altered into a folder: those of all releases, and those of every space."""
    for path in sorted(HERE.glob("*/*.onebit")) + sorted(HERE.glob("*/service/data/snapshots/1/*.onebit")):
        (folder / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
    for name, learner in seeds():
        learner.save(folder / f"{name}.onebit")


# --- how they are altered -------------------------------------------------------------------------------------------------


def pick(random: Random, things: Any) -> Any:
    return things[int(random.integers(len(things)))]


def alter_bytes(random: Random, content: bytes) -> bytes:
    """Bytes that have gone wrong, or a cut."""
    altered = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        altered[int(random.integers(len(altered)))] = int(random.integers(256))
    return bytes(altered[: int(random.integers(len(altered)))] if random.random() < 0.2 else altered)


def alter_header(random: Random, content: bytes) -> bytes:
    """Another dtype, shape or place in the header of the safetensors."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    name = pick(random, [name for name in header if name != "__metadata__"])
    field = pick(random, ["dtype", "shape", "data_offsets"])
    if field == "dtype":
        header[name][field] = pick(random, ["F64", "F32", "BF16", "F8_E4M3", "I64", "U8", "BOOL", "C64", "nonsense", 3])
    else:
        numbers = header[name][field]
        if numbers and random.random() < 0.8:
            numbers[int(random.integers(len(numbers)))] = pick(random, NUMBERS[:19])
        else:
            header[name][field] = pick(random, [[], [0, 2**40], [1] * 70, [2**32, 2**32], "x", None, [-1]])
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def places_in(thing: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in nested objects and lists."""
    entries = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for name, one in entries:
        yield (*before, name)
        yield from places_in(one, (*before, name))


def alter_json(random: Random, thing: Any) -> Any:
    """The same with one place altered, missing, or added."""
    thing = copy.deepcopy(thing)
    places = list(places_in(thing))
    if not places or random.random() < 0.03:
        return pick(random, VALUES)
    place = pick(random, places)
    inside = thing
    for name in place[:-1]:
        inside = inside[name]
    way, old = random.random(), inside[place[-1]]
    if way < 0.1:
        del inside[place[-1]]
    elif way < 0.2 and isinstance(inside, dict):
        inside[pick(random, ["classes", "seed", "self", "record", "x", "kernel"])] = pick(random, VALUES)
    elif way < 0.4 and isinstance(old, int | float) and not isinstance(old, bool) and abs(old) < 2**70:
        inside[place[-1]] = old + pick(random, [-1, 1, 0.5, -0.5, 1000])
    else:
        inside[place[-1]] = pick(random, VALUES)
    return thing


def alter_manifest(random: Random, manifest: Any, arrays: Any) -> tuple[Any, Any]:
    altered = alter_json(random, manifest)
    return (altered if isinstance(altered, dict) else manifest), arrays


def alter_array(random: Random, manifest: Any, arrays: Any) -> tuple[Any, Any]:
    """Another value, shape, dtype or name of an array, or none at all."""
    arrays = dict(arrays)
    name = pick(random, sorted(arrays))
    array, way = arrays[name], random.random()
    if way < 0.6 and array.size:
        array = array.copy()
        for _ in range(pick(random, [1, 1, 1, 2, array.size])):
            place = int(random.integers(array.size))
            number = (
                pick(random, NUMBERS) if random.random() < 0.7 else array.flat[place].item() + pick(random, [-1, 1, 5])
            )
            with np.errstate(all="ignore"):
                if array.dtype.kind == "b":
                    array.flat[place] = not array.flat[place]
                elif array.dtype.kind == "f":
                    array.flat[place] = min(number, 1.7e308)
                else:
                    limits = np.iinfo(array.dtype)
                    whole = 0 if number in ENDLESS else int(number)
                    array.flat[place] = min(max(whole, limits.min), limits.max)
    elif way < 0.7:
        shapes: list[Callable[[], Any]] = [
            lambda: array[:-1],
            lambda: np.concatenate([array, array[-1:]]) if array.ndim else array[None],
            array.T.copy,
            lambda: array[None],
            array.ravel,
            lambda: np.zeros((0, *array.shape[1:]), dtype=array.dtype),
            lambda: np.zeros((), dtype=array.dtype),
            lambda: np.resize(array, (3, *array.shape[1:])),
        ]
        array = pick(random, shapes)()
    elif way < 0.8:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = array.astype(pick(random, DTYPES))
    elif way < 0.9:
        del arrays[name]
        if random.random() < 0.7:
            arrays[pick(random, [*arrays, "weights", "x", "clusters.means", "vocabulary", "scale"])] = array
        return manifest, arrays
    elif name in ("vocabulary", "learnt_strings"):
        try:
            altered = alter_json(random, json.loads(array.tobytes()))
        except ValueError:  # it was altered before
            altered = pick(random, VALUES)
        array = np.frombuffer(json.dumps(altered).encode(), dtype=np.uint8)
    else:
        array = np.frombuffer(random.bytes(array.nbytes), dtype=array.dtype).reshape(array.shape)
    arrays[name] = np.ascontiguousarray(array)
    return manifest, arrays


def content_of(manifest: Any, arrays: Any) -> bytes:
    """A file with a right checksum, whatever is in it."""
    import safetensors.numpy

    whole = {**manifest, "checksum": model_file._compute_checksum(manifest, arrays)}
    return safetensors.numpy.save(arrays, metadata={"onebit": json.dumps(whole)})


def altered(number: int, files: list[Path]) -> tuple[str, bytes]:
    """The altered file of this number, and what it was made of."""
    random = np.random.default_rng([71, number])
    path = files[number % len(files)]
    content, way = path.read_bytes(), random.random()
    if way < 0.05:
        return f"bytes of {path.name}", alter_bytes(random, content)
    if way < 0.12:
        return f"header of {path.name}", alter_header(random, content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        manifest, arrays = model_file.read_file(path)
    for _ in range(pick(random, [1, 1, 1, 2, 3])):
        alter = alter_manifest if random.random() < 0.4 else alter_array
        manifest, arrays = alter(random, manifest, arrays)
        if not arrays:
            break
    return f"content of {path.name}", content_of(manifest, arrays)


# --- what is done with them -----------------------------------------------------------------------------------------------


def rows_for(learner: Learner) -> list[Any]:
    """Rows that a learner reads."""
    if learner.runtime.features.named:
        texts = ["word1 and more", "nothing known", "word2 word3"]
        return texts if learner.runtime.options.text else [{"a": 1.0, "f2": -0.5}, {"b": 0.25}, {"always": 0.1}]
    size = learner.features or 3
    if learner.runtime.features.space == "sparse":
        columns = np.array([0, size - 1], dtype=np.int32)[: min(size, 2)]
        values = [np.full(len(columns), value, dtype=np.float32) for value in (0.25, -0.5, 0.1)]
        return [SparseRows(part, columns, np.array([0, len(columns)]), size) for part in values]
    if size > LONGEST_ROW:
        return []
    return list(np.linspace(-0.5, 0.5, 3 * size).reshape(3, size))


def require_sound(decision: Decision) -> None:
    """Fail on a decision whose numbers are none, or whose probabilities are no distribution."""
    assert decision.probabilities is not None
    assert math.isclose(sum(decision.probabilities.values()), 1.0, abs_tol=1e-6), decision.probabilities
    decision.to_json()


def use(learner: Learner, path: Path) -> None:
    """Everything that a user does with a learner; whatever is refused is refused by a sentence."""

    def hear(x: Any, label: Any) -> None:
        learner.learn(learner.decide(x), label=label)

    def decide(x: Any) -> None:
        require_sound(learner.decide(x))

    def explain(x: Any) -> None:
        json.dumps(learner.explain(x).to_dict(), allow_nan=False)

    steps: list[Callable[[], Any]] = []
    names = list(learner.classes)
    for number, x in enumerate(rows_for(learner)):
        label = names[number % len(names)]
        steps += [
            partial(learner.scores, x),
            partial(learner.probabilities, x),
            partial(decide, x),
            partial(explain, x),
            partial(hear, x, label),
            partial(hear, x, names[-1]),
        ]
    rows = rows_for(learner)
    steps += [
        lambda: learner.learn_many(learner.decide_many(rows), labels=[names[0]] * len(rows)),
        lambda: str(learner.describe()),
        lambda: learner.settings,
        lambda: learner.weights if learner.runtime.options.kernel is None else learner.runtime.support,
        lambda: repr(learner),
        lambda: learner.add_class("one more"),
        *(partial(hear, x, "one more") for x in rows),
        lambda: copy_learner(learner),
        lambda: learner.save(path),
    ]
    if SLOW:  # which compiles once more for every rule
        steps.append(lambda: learner.teach(rows, [names[-1]] * len(rows)))
    for step in steps:
        try:
            step()
        except onebit.OnebitError:
            continue
    used = onebit.load(path)  # what was accepted once is accepted again
    for x in rows:
        try:
            used.decide(x)
        except onebit.OnebitError:
            continue


def main(folder: Path, first: int, last: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files = sorted(folder.glob("*.onebit"))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "altered.onebit"
        loaded = 0
        for number in range(first, last):
            what, content = altered(number, files)
            print(f"at {number} {what}", flush=True)
            path.write_bytes(content)
            signal.alarm(MOST_SECONDS)
            try:
                learner = onebit.load(path)
                loaded += 1
                use(learner, path)
            except onebit.OnebitError as error:
                if str(path) not in str(error):
                    print(f"raw {number} {what}: {json.dumps(f'without the file: {error}')}", flush=True)
            except BaseException:
                print(f"raw {number} {what}: {json.dumps(traceback.format_exc())}", flush=True)
            signal.alarm(0)
    print(f"done {last - first} {loaded}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
