"""One file for a learner: arrays and a JSON manifest in the safetensors format. No pickle, nothing is executed on loading.

The manifest holds everything that is not an array, and a checksum over all of it and all arrays; a file that was cut or altered
is refused. A checksum is no defence against whoever computes it anew, so whatever is read is compared with what it must be
(`onebit.manifest`, and `wanted` of every space) before anything is allocated or made of it. Writing is atomic: the file is there whole, or as it was before.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import LEARNT, NORM, RIGHT, Rule
from onebit.errors import OnebitError
from onebit.features import MOST_FEATURES, Features
from onebit.learner import Learner, learner_class
from onebit.manifest import is_whole, refuse_manifest, shown
from onebit.names import is_text
from onebit.rules import registry, rule_named
from onebit.spaces.kernel import WHEN_FULL
from onebit.spaces.scaled import filled
from onebit.spaces.support import arrays_of, from_arrays
from onebit.spaces.wanted import ANY, MOST_COUNTED, NUMBERS, Wanted, refuse_unlike
from onebit.version import VERSION

FORMAT = 3  # 1 had no kernels, and 2 no covariances, floors and counts of right answers: both are read
COUNTING_RIGHT = 3  # the format with the counts of right answers
_JSON = Wanted((ANY,), np.uint8)
# What is no part of the weights.
BESIDE = {
    "memory": Wanted((ANY,), NUMBERS),
    "learnt_numbers": Wanted((ANY,), np.int64, 0),
    "learnt_strings": _JSON,
    "vocabulary": _JSON,
}
Arrays = dict[str, NDArray[Any]]


def save(learner: Learner, path: Any) -> None:
    """Write a learner to a file."""
    write(*pack(learner), path)


def write(manifest: dict[str, Any], arrays: Arrays, path: Any) -> None:
    """Write what `pack` gave to a file; what the manifest has beside it is kept with it."""
    import safetensors.numpy

    whole = {**manifest, "checksum": _checksum(manifest, arrays)}
    content = safetensors.numpy.save(arrays, metadata={"onebit": json.dumps(whole)})
    write_atomically(Path(path), content)


def load(path: Any, rule: Rule | str | None = None) -> Learner:
    """The learner that was saved in a file; `rule` is needed where it learnt by a rule of your own."""
    manifest, arrays = read(path)
    with naming(path):
        return unpack(manifest, arrays, rule)


@contextmanager
def naming(path: Any) -> Iterator[None]:
    """Have a refusal name the file that it is about."""
    try:
        yield
    except OnebitError as error:
        raise OnebitError(f"{path} cannot be used: {error}") from None


def read(path: Any) -> tuple[dict[str, Any], Arrays]:
    """The manifest and the arrays of a file, checked."""
    import safetensors
    import safetensors.numpy

    path = Path(path)
    if not path.is_file():
        raise OnebitError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("onebit")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except OSError as error:
        raise OnebitError(f"{path} cannot be read: {error.strerror or error}") from None
    except (safetensors.SafetensorError, TypeError, ValueError, LookupError, AttributeError, MemoryError) as error:
        # All but the first: shapes and dtypes that NumPy does not have.
        raise OnebitError(f"{path} is not a learner, or not all of one: {error}") from None
    if text is None:
        raise OnebitError(f"{path} is not a learner: it has no onebit manifest")
    try:
        manifest = json.loads(text)
        checksum = manifest.pop("checksum")
    except (ValueError, KeyError, AttributeError, TypeError, IndexError, RecursionError):
        raise OnebitError(f"{path} is damaged: its manifest cannot be read") from None
    if is_whole(manifest.get("format"), FORMAT + 1):
        raise OnebitError(f"{path} was written by a newer onebit ({shown(manifest.get('version'))}); this is {VERSION}")
    if not is_whole(manifest.get("format"), 1):
        raise OnebitError(f"{path} is of the format {shown(manifest.get('format'))}, but must be of 1 to {FORMAT}")
    try:
        fits = checksum == _checksum(manifest, arrays)
    except RecursionError:
        raise OnebitError(f"{path} is damaged: its manifest is nested too deeply") from None
    if not fits:
        raise OnebitError(f"{path} is damaged: its content does not fit its checksum")
    with naming(path):
        refuse_manifest(manifest)
    there = manifest["machine"]
    differs = [
        f"{name} {shown(there.get(name))} there, {what} here"
        for name, what in machine().items()
        if there.get(name) != what
    ]
    if differs:
        warnings.warn(
            f"{path} was saved on another machine ({'; '.join(differs)}): going on is equal to rounding, not bit for bit",
            stacklevel=3,
        )
    return manifest, arrays


def pack(learner: Learner) -> tuple[dict[str, Any], Arrays]:
    """Everything that a learner is, as a manifest and arrays."""
    with learner._lock:
        features, ledger = learner._features, learner._ledger
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "machine": machine(),
            "rule": learner.rule.name,
            "parameters": {name: _plain(value) for name, value in learner.parameters.items()},
            "classes": list(learner.classes),
            "seed": learner.seed,
            "bias": learner.bias,
            **_kernel(learner),
            "exploration_floor": learner.exploration_floor,
            "identity": learner.identity,
            "planned": learner._planned,
            "next": learner._next,
            "taught": learner._taught,
            "features": {
                "space": features.space,
                "size": features.size,
                "named": features.named,
                "dtype": str(features.dtype),
                "text": features.text,
                "hash_bits": features.hash_bits,
            },
            "ledger": {
                "moment": ledger.moment,
                "watermark": ledger.watermark,
                "first_gap": ledger.first_gap,
                "forgotten": ledger.forgotten,
            },
        }
        arrays: Arrays = {
            "memory": learner._memory.copy(),
            "learnt_numbers": np.array(sorted(ledger.above), dtype=np.int64),
            "learnt_strings": _text(list(ledger.strings.items())),
        }
        if features.vocabulary is not None:
            arrays["vocabulary"] = _text(list(features.vocabulary))
            if learner._space is not None:
                learner._make_room()  # names may have been read of which nothing was learnt yet
        if learner._space is not None and learner.kernel is not None:
            arrays |= arrays_of(learner._space)
        elif learner._space is not None:
            # Room for names that were seen but never learnt is no part of what was learnt.
            arrays |= learner._space.arrays(None if features.vocabulary is None else features.columns)
        return manifest, arrays


def unpack(manifest: dict[str, Any], arrays: Arrays, rule: Rule | str | None = None) -> Learner:
    """The learner of a manifest and its arrays; a sentence where they do not fit each other."""
    refuse_manifest(manifest)
    rule = _rule_of(manifest, rule)
    for name in manifest["parameters"]:
        if name not in rule.parameters:
            raise OnebitError(f"the manifest has the parameter {shown(name)}, but {rule.title} has none of that name")
    learner = learner_class(rule)(
        manifest["classes"],
        bias=manifest["bias"],
        **manifest.get("kernel", {}),
        exploration_floor=manifest.get("exploration_floor", 0.0),
        seed=manifest["seed"],
        **manifest["parameters"],
    )
    read = manifest["features"]
    counted = read["hash_bits"] is None and not read["named"]
    size, space = read["size"] if counted else None, None if read["named"] else read["space"]
    learner._feature_options = (size, space, read["dtype"], read["text"], read["hash_bits"])
    features = learner._features = Features(*learner._feature_options)
    features.named, features.space = read["named"], read["space"]
    beside = {name: one for name, one in BESIDE.items() if name != "vocabulary" or _has_vocabulary(read)}
    refuse_unlike({name: arrays[name] for name in BESIDE if name in arrays}, beside)
    if _has_vocabulary(read):
        features.vocabulary = _vocabulary_of(arrays["vocabulary"])
    learner.identity = manifest["identity"]
    learner._next, learner._taught = manifest["next"], manifest["taught"]
    learner._memory = _remembered(arrays["memory"], rule, len(learner._memory), manifest["format"])
    ledger = learner._ledger
    for name in ("moment", "watermark", "first_gap", "forgotten"):
        setattr(ledger, name, manifest["ledger"][name])
    ledger.above = set(arrays["learnt_numbers"].tolist())
    ledger.strings = _strings_of(arrays["learnt_strings"])
    own = {name: array for name, array in arrays.items() if name not in BESIDE}
    if own or features.hash_bits is not None:
        _fill(learner, own, manifest.get("planned", 0))
    return learner


def _rule_of(manifest: dict[str, Any], rule: Rule | str | None) -> Rule:
    """The rule by which it learnt, which is the one given where one is."""
    if isinstance(rule, str):
        rule = rule_named(rule)
    name = manifest["rule"]
    if rule is None:
        if name not in registry():
            raise OnebitError(f"it learnt by the rule {shown(name)}, which onebit does not come with: load(path, rule)")
        return rule_named(name)
    if rule.name != name:
        raise OnebitError(f"the learner learnt by the rule {shown(name)}, and the one given is {rule.name!r}")
    return rule


def _fill(learner: Learner, own: Arrays, planned: int) -> None:
    """Give a learner its space, once it is known that the file holds all that the space would ask memory for."""
    features, heads = learner._features, learner.rule.heads(learner._params)
    if features.space is None or features.named is None:
        raise OnebitError(f"there is the array {next(iter(own))[:80]!r}, but no features are known that it could be of")
    if planned > heads:
        raise OnebitError(f"the field 'planned' of the manifest is {planned}, but must be at most {heads}")
    learner._planned = planned
    blueprint = learner._blueprint(heads, features.columns)
    refuse_unlike(own, blueprint.wanted)
    try:
        empty = learner._empty_space(heads, max(1, features.columns))
        learner._space = filled(empty, own) if learner.kernel is None else from_arrays(empty, own)
        learner._prepare_buffers()
    except MemoryError:
        raise OnebitError(f"there is not enough memory for {heads} x {features.columns} weights") from None


def _kernel(learner: Learner) -> dict[str, Any]:
    """What was said of a kernel; nothing where there is none, as in files from before there were kernels."""
    plan = learner._support
    if plan is None:
        return {}
    policy = next(name for name, code in WHEN_FULL.items() if code == plan.when_full)
    return {"kernel": {"kernel": learner.kernel, "max_support": plan.budget or None, "when_full": policy}}


def _remembered(memory: NDArray[np.float64], rule: Rule, places: int, written: int) -> NDArray[np.float64]:
    """The memory as it was saved; in files from before right answers were counted, their number is not known."""
    if written < COUNTING_RIGHT and len(memory) == places - 1:
        memory = np.insert(memory, RIGHT, np.nan)
    refuse_unlike({"memory": memory}, {"memory": Wanted((places,), NUMBERS)})
    _refuse_count(memory, LEARNT, float(MOST_COUNTED))
    if memory[NORM] < 0.0:
        raise OnebitError(f"the array 'memory' has {memory[NORM]} at {NORM}, but a squared length is not below 0")
    if not np.isnan(memory[RIGHT]):
        _refuse_count(memory, RIGHT, memory[LEARNT])
    for place, bound in rule.counts:
        _refuse_count(memory, place, memory[bound])
    return memory.copy()


def _refuse_count(memory: NDArray[np.float64], place: int, most: float) -> None:
    """A sentence for what must be a whole number: rules take roots of it, and shares by it."""
    number = float(memory[place])
    if not (0.0 <= number <= most and number.is_integer()):
        raise OnebitError(
            f"the array 'memory' has {number} at {place}, but must have a whole number from 0 to {most:g} there"
        )


def machine() -> dict[str, str]:
    """What bit-for-bit equality depends on: the kind of CPU and the versions of what computes."""
    import llvmlite
    import llvmlite.binding
    import numba

    return {
        "onebit": VERSION,
        "cpu": f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}",
        "python": ".".join(str(part) for part in sys.version_info[:2]),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of one."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into that takes its place when it is whole; where that fails, the old one stays. A pipe is written as it is.

    The new one has the owner and the mode of the old one. Where there was none and root writes, the owner of the folder gets it.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                yield file
            return
        place = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
        if place.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        temporary = place.with_name(f".{place.name[:50]}.{uuid.uuid4().hex}.part")
        try:
            with temporary.open("xb") as file:
                _owned_as_before(file.fileno(), place)
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(place.parent)
    except OSError as error:
        raise OnebitError(f"{path} cannot be written: {error.strerror or error}") from None


def _owned_as_before(file: int, place: Path) -> None:
    """Give a file that will take the place of another its owner and mode, as far as this process may."""
    try:
        old = place.stat()
    except OSError:
        owned_as_its_folder(file, place.parent)
        return
    if os.name == "posix":
        _give(file, old)
        with suppress(OSError):  # there are file systems without modes
            os.fchmod(file, stat.S_IMODE(old.st_mode) & 0o777)


def owned_as_its_folder(made: Path | int, folder: Path) -> None:
    """What root makes in the folder of another user is that user's: a service must be able to use what is in its folder."""
    if os.name == "posix" and os.geteuid() == 0:
        _give(made, folder.stat())


def _give(made: Path | int, like: os.stat_result) -> None:
    """Give a file or folder to the owner of another, where the system lets this process: not every root may, in a container say."""
    now = os.fstat(made) if isinstance(made, int) else made.lstat()
    if (now.st_uid, now.st_gid) == (like.st_uid, like.st_gid):
        return
    with suppress(OSError):
        if isinstance(made, int):
            os.fchown(made, like.st_uid, like.st_gid)
        else:
            os.lchown(made, like.st_uid, like.st_gid)


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk, too."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _checksum(manifest: dict[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(things: list[Any]) -> NDArray[np.uint8]:
    """JSON as an array of bytes: there may be millions of names, too many for a manifest."""
    return np.frombuffer(json.dumps(things).encode(), dtype=np.uint8).copy()


def _from_text(name: str, array: NDArray[np.uint8]) -> list[Any]:
    try:
        things = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise OnebitError(f"the array {name!r} is not JSON") from None
    if not isinstance(things, list):
        raise OnebitError(f"the array {name!r} is a JSON {type(things).__name__}, but must be a list")
    return things


def _has_vocabulary(read: dict[str, Any]) -> bool:
    return bool(read["named"]) and read["hash_bits"] is None


def _vocabulary_of(array: NDArray[np.uint8]) -> dict[str, int]:
    """The columns of the names, each of which has one."""
    names = _from_text("vocabulary", array)
    for name in names:
        if not isinstance(name, str) or not is_text(name):
            raise OnebitError(f"the array 'vocabulary' has {shown(name)} in it, but must have texts")
    found = {name: column for column, name in enumerate(names)}
    if len(found) != len(names) or len(names) > MOST_FEATURES:
        raise OnebitError(
            f"the array 'vocabulary' has {len(names)} names, {len(found)} of them different, but each must be there once"
        )
    return found


def _strings_of(array: NDArray[np.uint8]) -> dict[str, int]:
    """The learnt ids that are strings, with the moments at which they were learnt."""
    found: dict[str, int] = {}
    for pair in _from_text("learnt_strings", array):
        fits = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and is_whole(pair[1])
        if not fits or not is_text(pair[0]) or pair[0] in found:
            raise OnebitError(
                f"the array 'learnt_strings' has {shown(pair)} in it, but must have pairs of an id, each once, and a whole number"
            )
        found[pair[0]] = pair[1]
    return found
