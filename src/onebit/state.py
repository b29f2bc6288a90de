"""All that a learner is, as a manifest of plain values and named arrays: what a file holds, and what a copy is made of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.rule import RIGHT, Rule
from onebit.errors import OnebitError, brief
from onebit.options import Options
from onebit.rules import registry, rule_named
from onebit.runtime import Runtime
from onebit.storage import FORMAT, Arrays, platform_info
from onebit.version import VERSION

BESIDE = ("memory", "learnt_numbers", "learnt_strings", "vocabulary")  # what is no part of the weights


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
            "seed": runtime.seed,
            "bias": runtime.bias,
            **runtime.space_choice.manifest,
            "exploration_floor": runtime.exploration_floor,
            "identity": runtime.identity,
            "planned": model.planned,
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
            "learnt_numbers": np.array(sorted(ledger.above), dtype=np.int64),
            "learnt_strings": _text(list(ledger.strings.items())),
        }
        if features.vocabulary is not None:
            arrays["vocabulary"] = _text(list(features.vocabulary))
        return manifest, arrays | model.arrays()


def from_state(manifest: dict[str, Any], arrays: Arrays, rule: Rule | str | None = None) -> Runtime:
    """The learner of a manifest and its arrays; `rule` is needed where it learnt by one that onebit does not come with."""
    if isinstance(rule, str):
        rule = rule_named(rule)
    if rule is None:
        if manifest["rule"] not in registry():
            raise OnebitError(
                f"it learnt by the rule {brief(manifest['rule'])}, which onebit does not come with: load(path, rule)"
            )
        rule = rule_named(manifest["rule"])
    elif rule.name != manifest["rule"]:
        raise OnebitError(
            f"the learner learnt by the rule {brief(manifest['rule'])}, and the one given is {brief(rule.name)}"
        )
    read = manifest["features"]
    options = Options(
        bias=manifest["bias"],
        dtype=read["dtype"],
        text=read["text"],
        hash_bits=read["hash_bits"],
        **manifest.get("kernel", {}),
        exploration_floor=manifest.get("exploration_floor", 0.0),
        seed=manifest["seed"],
    )
    runtime = Runtime(rule, manifest["classes"], manifest["parameters"], options)
    runtime.identity = manifest["identity"]
    runtime.next_id, runtime.taught = manifest["next"], manifest["taught"]
    features, ledger, model = runtime.features, runtime.ledger, runtime.model
    counted = read["hash_bits"] is None and not read["named"]
    size, space = read["size"] if counted else None, None if read["named"] else read["space"]
    features.options = (size, space, *features.options[2:])
    features.reset()
    features.named, features.space = read["named"], read["space"]
    if "vocabulary" in arrays:
        features.vocabulary = {name: column for column, name in enumerate(_from_text(arrays["vocabulary"]))}
    for name, value in manifest["ledger"].items():
        setattr(ledger, name, value)
    ledger.above = set(arrays["learnt_numbers"].tolist())
    ledger.strings = dict(_from_text(arrays["learnt_strings"]))
    model.memory = _remembered(arrays["memory"], len(model.memory))
    model.planned = manifest.get("planned", 0)
    learnt = {name: array for name, array in arrays.items() if name not in BESIDE}
    if learnt:
        model.restore(learnt)
    return runtime


def _remembered(memory: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """The memory as it was saved; in files from before right answers were counted, their number is not known."""
    return memory.copy() if len(memory) == length else np.insert(memory, RIGHT, np.nan)


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(things: list[Any]) -> NDArray[np.uint8]:
    """JSON as an array of bytes: there may be millions of names, too many for a manifest."""
    return np.frombuffer(json.dumps(things).encode(), dtype=np.uint8).copy()


def _from_text(array: NDArray[np.uint8]) -> list[Any]:
    return list(json.loads(array.tobytes().decode()))
