"""The complete state of a learner, as a manifest of plain values and named arrays, for files and copies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract import calibration
from onebit.contract.options import MAX_FEATURES, Options
from onebit.contract.rule import LEARNT, NORM, RIGHT, Rule
from onebit.contract.validation import is_encodable, is_whole_number
from onebit.errors import InputError, brief
from onebit.features.features import Features
from onebit.features.frames import Names
from onebit.learner.ledger import COUNTS
from onebit.learner.model_file import FORMAT, Arrays, platform_info
from onebit.learner.runtime import Runtime
from onebit.rules import chosen_rules, rule_named
from onebit.spaces.choose import ROWS_TO_SETTLE, KernelChoice, Routing
from onebit.spaces.layout import ANY, LARGEST_COUNT, ArraySpec, refuse_unlike
from onebit.version import VERSION, is_version

# Options are at the top level of a manifest, except for those of the kernel and of the features, which have objects of
# their own; the number and the form of the features there are the actual ones. Absent options have their defaults.
FEATURE_OPTIONS = ("dtype", "text", "hash_bits")
KERNEL_OPTIONS = ("kernel", "max_support")
TOP_LEVEL_OPTIONS = [
    name for name in Options._fields if name not in ("features", "space", *FEATURE_OPTIONS, *KERNEL_OPTIONS)
]

_JSON = ArraySpec((ANY,), np.uint8)
# The arrays that do not belong to the space.
STATE_ARRAYS = {
    "memory": ArraySpec((ANY,), np.float64),
    "calibration": ArraySpec((calibration.NUMBERS,), np.float64),
    "learnt_numbers": ArraySpec((ANY,), np.int64, 0),
    "learnt_strings": _JSON,
    "vocabulary": _JSON,
    "feature_names": _JSON,
}


def dump_state(runtime: Runtime) -> tuple[dict[str, Any], Arrays]:
    """Return the state of a learner as a manifest and arrays."""
    with runtime.lock:
        features, ledger, model = runtime.features, runtime.ledger, runtime.model
        manifest: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "machine": platform_info(),
            "rule": runtime.rule.name,
            "parameters": dict(runtime.parameters),
            "classes": list(runtime.classes),
            **({"retired": sorted(runtime.names.retired)} if runtime.names.retired else {}),
            **({"rewarded": True} if runtime.rewarded else {}),
            **{name: getattr(runtime.options, name) for name in TOP_LEVEL_OPTIONS},
            **_kernel_fields(runtime),
            "identity": runtime.identity,
            "planned": model.planned_heads,
            **({} if model.routing is None else {"routing": model.routing._asdict()}),
            "next": ledger.next_id,
            "taught": runtime.taught_rows,
            "features": {
                "space": features.space,
                "size": features.size,
                "named": features.named,
                **{name: getattr(runtime.options, name) for name in FEATURE_OPTIONS},
            },
            "ledger": {name: getattr(ledger, name) for name in COUNTS},
        }
        arrays: Arrays = {
            "memory": model.memory.copy(),
            "calibration": model.calibration.copy(),
            "learnt_numbers": np.array(sorted(ledger.learnt_above), dtype=np.int64),
            "learnt_strings": _encode_list(list(ledger.strings.items())),
        }
        if features.vocabulary is not None:
            arrays["vocabulary"] = _encode_list(list(features.vocabulary))
            if model.space is not None:
                model.make_room()  # the vocabulary may have names that were never learnt
        if features.feature_names is not None:
            arrays["feature_names"] = _encode_list(list(features.feature_names))
        return manifest, arrays | model.arrays()


def load_state(manifest: dict[str, Any], arrays: Arrays, rule: Rule | str | None = None) -> Runtime:
    """Rebuild a learner from a manifest and arrays, which are validated first: they may be hostile.

    `rule` is needed if the learner used a rule that onebit does not come with.
    """
    require_manifest(manifest)
    rule = _choose_rule(manifest, rule)
    for name in manifest["parameters"]:
        if name not in rule.parameters:
            raise InputError(f"the manifest has the parameter {brief(name)}, which {rule.title} does not have")
    routing, feature_fields = _read_routing(manifest) if rule.composite else None, manifest["features"]
    options = _read_options(manifest, space=None if routing else feature_fields["space"])
    runtime = Runtime(rule, manifest["classes"], manifest["parameters"], options)
    features, ledger, model = runtime.features, runtime.ledger, runtime.model
    features.named, features.space = feature_fields["named"], feature_fields["space"]
    has_vocabulary = feature_fields["named"] and options.hash_bits is None
    absent_names = set() if has_vocabulary else {"vocabulary"}
    absent_names |= set() if "feature_names" in arrays else {"feature_names"}  # no frame has been seen
    specs = {name: spec for name, spec in STATE_ARRAYS.items() if name not in absent_names}
    refuse_unlike({name: arrays[name] for name in STATE_ARRAYS if name in arrays}, specs)
    if has_vocabulary:
        features.vocabulary = _read_columns("vocabulary", arrays["vocabulary"])
    if "feature_names" in arrays:
        features.feature_names = _read_feature_names(arrays["feature_names"], features)
    runtime.identity = manifest["identity"]
    runtime.rewarded = manifest.get("rewarded", False)
    runtime.names.retired = _read_retired(manifest, len(runtime.classes))
    ledger.next_id, runtime.taught_rows = manifest["next"], manifest["taught"]
    model.memory = _check_memory(arrays["memory"], rule, len(model.memory))
    model.calibration = _check_calibration(arrays["calibration"])
    for name in COUNTS:
        setattr(ledger, name, manifest["ledger"][name])
    ledger.learnt_above = set(arrays["learnt_numbers"].tolist())
    ledger.strings = _read_learnt_strings(arrays["learnt_strings"])
    space_arrays = {name: array for name, array in arrays.items() if name not in STATE_ARRAYS}
    if space_arrays or options.hash_bits is not None:
        model.restore(space_arrays, manifest["planned"])
        model.routing = routing
    return runtime


def _kernel_fields(runtime: Runtime) -> dict[str, Any]:
    """Return the kernel options for the manifest, with the chosen budget; empty without a kernel."""
    choice = runtime.space_choice
    if not isinstance(choice, KernelChoice):
        return {}
    return {"kernel": dict(zip(KERNEL_OPTIONS, (choice.text, choice.plan.budget or None), strict=True))}


def _read_options(manifest: dict[str, Any], space: str | None) -> Options:
    """Return the options of a learner, checked; named features leave number and form open."""
    feature_fields = manifest["features"]
    stored = {name: manifest[name] for name in TOP_LEVEL_OPTIONS if name in manifest}
    stored |= {name: feature_fields[name] for name in FEATURE_OPTIONS if name in feature_fields}
    stored |= manifest.get("kernel", {})
    if not feature_fields["named"]:
        stored |= {"features": feature_fields["size"] if stored.get("hash_bits") is None else None, "space": space}
    options = Options(**stored).checked()
    _refuse_contradictions(feature_fields, options)
    return options


def _choose_rule(manifest: dict[str, Any], rule: Rule | str | None) -> Rule:
    """Return the rule that the manifest names, or the given one if it has that name."""
    if isinstance(rule, str):
        rule = rule_named(rule)
    name = manifest["rule"]
    if rule is None:
        if name not in chosen_rules():  # a file must not make onebit import an installed package
            raise InputError(f"the learner has the rule {brief(name)}, which is not part of onebit: pass it to load")
        return chosen_rules()[name]
    if rule.name != name:
        raise InputError(f"the learner has the rule {brief(name)}, but the rule given is {brief(rule.name)}")
    return rule


def _read_routing(manifest: dict[str, Any]) -> Routing | None:
    """Return the counts from which dense or sparse form is chosen; None if the form is fixed."""
    if "routing" not in manifest:
        return None
    routing, features = Routing(**manifest["routing"]), manifest["features"]
    if features["named"] is not False or features["space"] is None:
        raise InputError("the manifest has the field 'routing', but its features are named or of unknown form")
    if not (routing.rows <= ROWS_TO_SETTLE and routing.filled <= routing.rows * features["size"]):
        raise InputError(
            f"the field 'routing' of the manifest is {brief(manifest['routing'])}, but must have at most {ROWS_TO_SETTLE} rows "
            f"with at most {features['size']} filled cells each"
        )
    return routing


def _read_retired(manifest: dict[str, Any], classes: int) -> frozenset[int]:
    """Return the retired classes; at least two others must remain."""
    retired = frozenset(manifest.get("retired", ()))
    if retired and (max(retired) >= classes or classes - len(retired) < 2):
        raise InputError(
            f"the field 'retired' of the manifest is {brief(sorted(retired))}, but must leave two of {classes} classes"
        )
    return retired


def _check_memory(memory: NDArray[np.float64], rule: Rule, size: int) -> NDArray[np.float64]:
    """Return a validated copy of the rule's memory."""
    refuse_unlike({"memory": memory}, {"memory": ArraySpec((size,), np.float64)})
    _refuse_count(memory, LEARNT, float(LARGEST_COUNT))
    if memory[NORM] < 0.0:
        raise InputError(
            f"the array 'memory' has {memory[NORM]} at index {NORM}, but a squared length is never negative"
        )
    if not 0.0 <= memory[RIGHT] <= memory[LEARNT]:
        raise InputError(
            f"the array 'memory' has {memory[RIGHT]} at index {RIGHT}, but a sum of rewards must be from 0 to {memory[LEARNT]:g}"
        )
    for index, bound in rule.composite.counts if rule.composite else ():
        _refuse_count(memory, index, memory[bound])
    return memory.copy()


def _check_calibration(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a validated copy of the calibration state, because compiled code does not check it."""
    flaw = calibration.find_flaw(state)
    if flaw:
        raise InputError(f"the array 'calibration' {flaw}")
    return state.astype(np.float64)


def _refuse_count(memory: NDArray[np.float64], index: int, most: float) -> None:
    """Raise InputError unless a count in the memory is a whole number up to `most`.

    Rules take its square root and divide by it.
    """
    number = float(memory[index])
    if not (0.0 <= number <= most and number.is_integer()):
        raise InputError(
            f"the array 'memory' has {number} at index {index}, but a count must be a whole number from 0 to {most:g}"
        )


def _encode_list(values: list[Any]) -> NDArray[np.uint8]:
    """Encode a list as JSON in a byte array: millions of names are too many for a manifest."""
    return np.frombuffer(json.dumps(values).encode(), dtype=np.uint8).copy()


def _decode_list(name: str, array: NDArray[np.uint8]) -> list[Any]:
    try:
        values = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise InputError(f"the array {brief(name)} is not JSON") from None
    if not isinstance(values, list):
        raise InputError(f"the array {brief(name)} holds a JSON {type(values).__name__}, but must hold a list")
    return values


def _read_columns(array_name: str, array: NDArray[np.uint8]) -> dict[str, int]:
    """Decode a list of unique names; return the column of each."""
    names = _decode_list(array_name, array)
    for name in names:
        if not isinstance(name, str) or not is_encodable(name):
            raise InputError(f"the array {array_name!r} contains {brief(name)}, but must contain only texts")
    columns = {name: column for column, name in enumerate(names)}
    if len(columns) != len(names) or len(names) > MAX_FEATURES:
        raise InputError(
            f"the array {array_name!r} has {len(names)} names, {len(columns)} of them distinct, but all must be distinct"
        )
    return columns


def _read_feature_names(array: NDArray[np.uint8], features: Features) -> Names:
    """Return the column names of the first frame; there must be as many as features."""
    names = tuple(_read_columns("feature_names", array))
    if features.named is not False or len(names) != features.size:
        column_count = "none" if features.named is not False else features.size
        raise InputError(
            f"the array 'feature_names' has {len(names)} names, but the learner has {column_count} columns"
        )
    return names


def _read_learnt_strings(array: NDArray[np.uint8]) -> dict[str, int]:
    """Return the learnt ids that are strings, with the moments at which they were learnt."""
    moments: dict[str, int] = {}
    for pair in _decode_list("learnt_strings", array):
        fits = isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and is_whole_number(pair[1])
        if not fits or not is_encodable(pair[0]) or pair[0] in moments:
            raise InputError(
                f"the array 'learnt_strings' contains {brief(pair)}, but must contain pairs of a distinct id and a whole number"
            )
        moments[pair[0]] = pair[1]
    return moments


# --- checks of a manifest ----------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_encodable(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _make_object_check(*names: str) -> tuple[Check, str]:
    """Return a check for an object with exactly these fields, and its description."""
    return (
        lambda value: isinstance(value, dict) and value.keys() == set(names),
        f"an object of the fields {', '.join(names)}",
    )


_OBJECT: tuple[Check, str] = (lambda value: isinstance(value, dict), "an object")
_TEXT: tuple[Check, str] = (_is_text, "a string")
_WHOLE_NUMBER: tuple[Check, str] = (is_whole_number, "a whole number from 0 to 2^63")
_FLAG: tuple[Check, str] = (_is_flag, "true or false")

# The required fields of a manifest: a check for each, and its description. Unknown fields are ignored; `Options.checked`
# validates the options.
REQUIRED_FIELDS: dict[str, tuple[Check, str]] = {
    "version": (is_version, "a version such as 1.0.0"),
    "machine": _OBJECT,
    "rule": _TEXT,
    "parameters": _OBJECT,
    "classes": (lambda value: isinstance(value, list), "a list of names"),
    "identity": _TEXT,
    "planned": _WHOLE_NUMBER,
    "next": _WHOLE_NUMBER,
    "taught": _WHOLE_NUMBER,
    "features": _OBJECT,
    "features.space": (lambda value: value in (None, "dense", "sparse"), "dense, sparse or null"),
    "features.size": (_or_none(is_whole_number), "a whole number or null"),
    "features.named": (_or_none(_is_flag), "true, false or null"),
    "ledger": _OBJECT,
    **{f"ledger.{name}": _WHOLE_NUMBER for name in COUNTS},
}
# The optional fields.
OPTIONAL_FIELDS: dict[str, tuple[Check, str]] = {
    "retired": (lambda value: isinstance(value, list) and all(map(is_whole_number, value)), "a list of whole numbers"),
    "rewarded": _FLAG,
    "routing": _make_object_check(*Routing._fields),
    "routing.came": (lambda value: value in ("dense", "sparse"), "dense or sparse"),
    "routing.rows": _WHOLE_NUMBER,
    "routing.filled": _WHOLE_NUMBER,
    "kernel": _make_object_check(*KERNEL_OPTIONS),
}


def require_manifest(manifest: dict[str, Any]) -> None:
    """Raise InputError if a field of the manifest is missing or invalid.

    A checksum detects accidents, not attacks.
    """
    for field, (check, description) in REQUIRED_FIELDS.items():
        _require_field(manifest, field, check, description)
    for field, (check, description) in OPTIONAL_FIELDS.items():
        if field.partition(".")[0] in manifest:
            _require_field(manifest, field, check, description)


def _require_field(manifest: dict[str, Any], field: str, check: Check, description: str) -> None:
    value: Any = manifest
    for part in field.split("."):
        if part not in value:
            raise InputError(f"the field {brief(field)} of the manifest is missing: expected {description}")
        value = value[part]
    if not check(value):
        raise InputError(f"the field {brief(field)} of the manifest is {brief(value)}, but must be {description}")


def _refuse_contradictions(features: dict[str, Any], options: Options) -> None:
    """Raise InputError if the fields about features contradict each other.

    Named features are sparse and have no fixed number; columns are counted.
    """
    named, size, bits = features["named"], features["size"], options.hash_bits
    if named:
        fits = features["space"] == "sparse" and (size is None if bits is None else size == 1 << bits)
    else:
        fits = not options.text and bits is None and (size is None) == (named is None)
    if not fits:
        raise InputError(
            f"the field 'features' of the manifest is {brief(features)}: named features must be sparse, with a size only if "
            "hashed; others must have a size, and neither text nor hash_bits"
        )
