"""Report what this machine has: versions, the cache, a GPU and installed extras.

Look here first if something does not work, and include the output when you ask a question. Examples:

    onebit doctor
    onebit doctor --json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onebit.contract.installation import install_command, list_extras, source_folder
from onebit.version import VERSION

_COMPILERS = {
    "known Numba": "a known Numba, by ways of onebit's own",
    "plain Numba": "plain Numba: this version is not known to onebit, so compiling takes several times as long",
}
ALWAYS = ("numpy", "numba", "llvmlite", "safetensors", "rich", "platformdirs")


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit doctor`."""
    command.add_argument("--json", action="store_true", help="print it as JSON")


def execute(chosen: argparse.Namespace) -> None:
    """Look, and print what was found."""
    found = examined()
    if chosen.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for name, lines in _lines(found).items():
        for number, line in enumerate(lines):
            print(f"{name if number == 0 else '':<9} {line}")


def examined() -> dict[str, Any]:
    """All that there is to say, as plain values."""
    from onebit.engine.fingerprint import knows_numba
    from onebit.engine.gpu import device
    from onebit.engine.processes import cores
    from onebit.experiments.executors.threads import processor

    folder = source_folder()
    trouble = device.trouble()
    return {
        "onebit": VERSION,
        "installed_from": None if folder is None else str(folder),
        "python": platform.python_version(),
        "machine": f"{processor()}, {cores()} cores, {sys.platform}",
        "packages": {name: _version(name) for name in ALWAYS},
        "extras": {extra: {name: _version(name) for name in names} for extra, names in list_extras().items()},
        "compiler": "known Numba" if knows_numba() else "plain Numba",
        "cache": _cache(),
        "gpu": {"usable": trouble is None, "name": None if trouble else _gpu_name(), "why_not": trouble},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cache() -> dict[str, Any]:
    from onebit.engine.code_cache import root

    folder = root()
    near = next((one for one in (folder, *folder.parents) if one.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=near):
            writable = True
    except OSError:
        writable = False
    sizes = [(Path(parent) / name).lstat().st_size for parent, _, names in os.walk(folder) for name in names]
    return {"folder": str(folder), "bytes": sum(sizes), "writable": writable}


def _gpu_name() -> str:
    from onebit.engine.gpu import device

    name = device.cuda().get_current_device().name
    return name.decode() if isinstance(name, bytes) else str(name)


def _lines(found: dict[str, Any]) -> dict[str, list[str]]:
    where = f", from {found['installed_from']}" if found["installed_from"] else ""
    cache, gpu = found["cache"], found["gpu"]
    state = f"{cache['bytes'] / 1e6:,.0f} MB" if cache["writable"] else "cannot be written: every process compiles anew"
    return {
        "onebit": [f"{found['onebit']}{where}"],
        "Python": [f"{found['python']}; {found['machine']}"],
        "packages": [", ".join(f"{name} {known or 'is missing'}" for name, known in found["packages"].items())],
        "extras": [f"{extra}: {_extra_line(extra, names)}" for extra, names in found["extras"].items()],
        "compiler": [_COMPILERS[found["compiler"]]],
        "cache": [f"{cache['folder']}: {state}"],
        "GPU": [gpu["name"] if gpu["usable"] else gpu["why_not"]],
    }


def _extra_line(extra: str, names: dict[str, str | None]) -> str:
    lacking = [name for name, known in names.items() if known is None]
    if lacking:
        return f"{', '.join(lacking)} missing: {install_command(extra)}"
    return ", ".join(f"{name} {known}" for name, known in names.items())
