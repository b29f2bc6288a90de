"""All that a learner is, as a manifest of plain values and named arrays: what a file holds, and what a copy is made of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract import calibration
from onebit.contract.rule import LEARNT, NORM, RIGHT, Rule
from onebit.errors import InputError, brief
from onebit.features import MOST_FEATURES, Features
from onebit.frames import Names
from onebit.manifest import is_whole, refuse_manifest
from onebit.options import Options
from onebit.rules import chosen_rules, rule_named
from onebit.runtime import Runtime
from onebit.spaces.layout import ANY, MOST_COUNTED, NUMBERS, ArraySpec, refuse_unlike
from onebit.spaces.routing import ROWS, Routing
from onebit.storage import FORMAT, Arrays, platform_info
from onebit.validation import is_text
from onebit.version import VERSION

_JSON = ArraySpec((ANY,), np.uint8)
# What is no part of the weights.
BESIDE = {
    "memory": ArraySpec((ANY,), NUMBERS),
    "calibration": ArraySpec((calibration.NUMBERS,), NUMBERS),
    "learnt_numbers": ArraySpec((ANY,), np.int64, 0),
    "learnt_strings": _JSON,
    "vocabulary": _JSON,
    "feature_names": _JSON,
}


def state_of(runtime: Runtime) -> tuple[dict[str, Any], Arrays]:
    """Everything that a learner is."""
    with runtime.lock:
        features, ledger, model = runtime.features, runtime.ledger, runtime.model
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "machine": platform_info(),
            "rule": runtime.rule.name,
            "parameters": {name: _plain(value) for name, value in runtime.parameters.items()},
            "classes": list(runtime.classes),
            **({"retired": sorted(runtime.retired)} if runtime.retired else {}),
            **({"rewarded": True} if runtime.rewarded else {}),
            "seed": runtime.seed,
            "bias": runtime.bias,
            **runtime.space_choice.manifest,
            "exploration_floor": runtime.exploration_floor,
            "identity": runtime.identity,
            "planned": model.planned,
            **({} if model.routing is None else {"routing": model.routing._asdict()}),
            "next": runtime.next_id,
            "taught": runtime.taught,
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
            "memory": model.memory.copy(),
            "calibration": model.calibration.copy(),
            "learnt_numbers": np.array(sorted(ledger.above), dtype=np.int64),
            "learnt_strings": _text(list(ledger.strings.items())),
        }
        if features.vocabulary is not None:
            arrays["vocabulary"] = _text(list(features.vocabulary))
            if model.space is not None:
                model.make_room()  # names may have been read of which nothing was learnt yet
        if features.feature_names is not None:
            arrays["feature_names"] = _text(list(features.feature_names))
        return manifest, arrays | model.arrays()


def from_state(manifest: dict[str, Any], arrays: Arrays, rule: Rule | str | None = None) -> Runtime:
    """The learner of a manifest and its arrays, which may be anybody's: a sentence where they do not fit each other.

    `rule` is needed where it learnt by one that onebit does not come with.
    """
    refuse_manifest(manifest)
    rule = _rule_of(manifest, rule)
    for name in manifest["parameters"]:
        if name not in rule.parameters:
            raise InputError(f"the manifest has the parameter {brief(name)}, but {rule.title} has none of that name")
    options = Options(
        bias=manifest["bias"],
        **manifest.get("kernel", {}),
        exploration_floor=manifest["exploration_floor"],
        seed=manifest["seed"],
    )
    runtime = Runtime(rule, manifest["classes"], manifest["parameters"], options)
    features, ledger, model = runtime.features, runtime.ledger, runtime.model
    read = manifest["features"]
    counted = read["hash_bits"] is None and not read["named"]
    routing = _routing_of(manifest) if rule.composite else None
    size, space = read["size"] if counted else None, None if read["named"] or routing else read["space"]
    features.options = (size, space, read["dtype"], read["text"], read["hash_bits"])
    features.reset()
    features.named, features.space = read["named"], read["space"]
    absent = set() if _has_vocabulary(read) else {"vocabulary"}
    absent |= set() if "feature_names" in arrays else {"feature_names"}  # no frame was shown
    beside = {name: one for name, one in BESIDE.items() if name not in absent}
    refuse_unlike({name: arrays[name] for name in BESIDE if name in arrays}, beside)
    if _has_vocabulary(read):
        features.vocabulary = _columns_of("vocabulary", arrays["vocabulary"])
    if "feature_names" in arrays:
        features.feature_names = _feature_names_of(arrays["feature_names"], features)
    runtime.identity = manifest["identity"]
    runtime.rewarded = manifest.get("rewarded", False)
    runtime.retired = _retired_of(manifest, len(runtime.classes))
    runtime.next_id, runtime.taught = manifest["next"], manifest["taught"]
    model.memory = _remembered(arrays["memory"], rule, len(model.memory))
    model.calibration = _calibrated(arrays["calibration"])
    for name in ("moment", "watermark", "first_gap", "forgotten"):
        setattr(ledger, name, manifest["ledger"][name])
    ledger.above = set(arrays["learnt_numbers"].tolist())
    ledger.strings = _strings_of(arrays["learnt_strings"])
    learnt = {name: array for name, array in arrays.items() if name not in BESIDE}
    if learnt or features.hash_bits is not None:
        model.restore(learnt, manifest["planned"])
        model.routing = routing
    return runtime


def _rule_of(manifest: dict[str, Any], rule: Rule | str | None) -> Rule:
    """The rule by which it learnt, which is the one given where one is."""
    if isinstance(rule, str):
        rule = rule_named(rule)
    name = manifest["rule"]
    if rule is None:
        if name not in chosen_rules():  # a file must not have code of a package run
            raise InputError(f"it learnt by the rule {brief(name)}, which onebit does not come with: load(path, rule)")
        return chosen_rules()[name]
    if rule.name != name:
        raise InputError(f"the learner learnt by the rule {brief(name)}, and the one given is {brief(rule.name)}")
    return rule


def _routing_of(manifest: dict[str, Any]) -> Routing | None:
    """What was counted of the rows learnt; None where their form was said, or is not open to choice."""
    if "routing" not in manifest:
        return None
    found, features = Routing(**manifest["routing"]), manifest["features"]
    if features["named"] is not False or features["space"] is None:
        raise InputError("the manifest has the field 'routing', but the form of its features is not open to choice")
    if not (found.rows <= ROWS and found.filled <= found.rows * features["size"]):
        raise InputError(
            f"the field 'routing' of the manifest is {brief(manifest['routing'])}, but must have at most {ROWS} rows, "
            f"and in each at most {features['size']} cells that are filled"
        )
    return found


def _retired_of(manifest: dict[str, Any], classes: int) -> frozenset[int]:
    """The classes that are never played again; two at least are left."""
    found = frozenset(manifest.get("retired", ()))
    if found and (max(found) >= classes or classes - len(found) < 2):
        raise InputError(f"the field 'retired' of the manifest is {brief(sorted(found))}, but two classes must be left")
    return found


def _remembered(memory: NDArray[np.float64], rule: Rule, size: int) -> NDArray[np.float64]:
    """The memory as it was saved."""
    refuse_unlike({"memory": memory}, {"memory": ArraySpec((size,), NUMBERS)})
    _refuse_count(memory, LEARNT, float(MOST_COUNTED))
    if memory[NORM] < 0.0:
        raise InputError(f"the array 'memory' has {memory[NORM]} at {NORM}, but a squared length is not below 0")
    if not 0.0 <= memory[RIGHT] <= memory[LEARNT]:
        raise InputError(
            f"the array 'memory' has {memory[RIGHT]} at {RIGHT}, but must have a sum of rewards from 0 to {memory[LEARNT]:g} there"
        )
    for index, bound in rule.counts:
        _refuse_count(memory, index, memory[bound])
    return memory.copy()


def _calibrated(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is known of how sure to be, as it was saved; compiled code takes it as it is."""
    flaw = calibration.flaw(state)
    if flaw:
        raise InputError(f"the array 'calibration' {flaw}")
    return state.astype(np.float64)


def _refuse_count(memory: NDArray[np.float64], index: int, most: float) -> None:
    """A sentence for what must be a whole number: rules take roots of it, and shares by it."""
    number = float(memory[index])
    if not (0.0 <= number <= most and number.is_integer()):
        raise InputError(
            f"the array 'memory' has {number} at {index}, but must have a whole number from 0 to {most:g} there"
        )


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
        raise InputError(f"the array {brief(name)} is not JSON") from None
    if not isinstance(things, list):
        raise InputError(f"the array {brief(name)} is a JSON {type(things).__name__}, but must be a list")
    return things


def _has_vocabulary(read: dict[str, Any]) -> bool:
    return bool(read["named"]) and read["hash_bits"] is None


def _columns_of(array_name: str, array: NDArray[np.uint8]) -> dict[str, int]:
    """The columns of the names, each of which has one."""
    names = _from_text(array_name, array)
    for name in names:
        if not isinstance(name, str) or not is_text(name):
            raise InputError(f"the array {array_name!r} has {brief(name)} in it, but must have texts")
    found = {name: column for column, name in enumerate(names)}
    if len(found) != len(names) or len(names) > MOST_FEATURES:
        raise InputError(
            f"the array {array_name!r} has {len(names)} names, {len(found)} of them different, but each must be there once"
        )
    return found


def _feature_names_of(array: NDArray[np.uint8], features: Features) -> Names:
    """The names of the columns of a frame, of which there are as many as features."""
    names = tuple(_columns_of("feature_names", array))
    if features.named is not False or len(names) != features.size:
        counted = "none" if features.named is not False else features.size
        raise InputError(f"the array 'feature_names' has {len(names)} names, but the learner has {counted} columns")
    return names


def _strings_of(array: NDArray[np.uint8]) -> dict[str, int]:
    """The learnt ids that are strings, with the moments at which they were learnt."""
    found: dict[str, int] = {}
    for pair in _from_text("learnt_strings", array):
        fits = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and is_whole(pair[1])
        if not fits or not is_text(pair[0]) or pair[0] in found:
            raise InputError(
                f"the array 'learnt_strings' has {brief(pair)} in it, but must have pairs of an id, each once, and a whole number"
            )
        found[pair[0]] = pair[1]
    return found
