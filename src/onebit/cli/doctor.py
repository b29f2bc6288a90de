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
    "known Numba": "a known Numba, with onebit's shortcuts",
    "plain Numba": "plain Numba: this version is not known to onebit, so compiling takes several times as long",
}
ALWAYS = ("numpy", "numba", "llvmlite", "safetensors", "rich", "platformdirs")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add nothing: this command has only the common options."""


def execute(args: argparse.Namespace) -> None:
    """Examine the machine and print the report."""
    report = examine_machine()
    if args.json:
        # Not by `print_json`: the dependencies of `terminal` may be broken.
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for name, lines in _format_report(report).items():
        for number, line in enumerate(lines):
            print(f"{name if number == 0 else '':<9} {line}")


def examine_machine() -> dict[str, Any]:
    """Return the versions, extras, compiler, cache and GPU of this machine as plain values."""
    from onebit.engine.fingerprint import knows_numba
    from onebit.engine.gpu import device
    from onebit.engine.processes import cores
    from onebit.experiments.trials.cost import processor

    folder = source_folder()
    trouble = device.find_problem()
    return {
        "onebit": VERSION,
        "installed_from": None if folder is None else str(folder),
        "python": platform.python_version(),
        "machine": f"{processor()}, {cores()} cores, {sys.platform}",
        "packages": {name: _find_version(name) for name in ALWAYS},
        "extras": {extra: {name: _find_version(name) for name in names} for extra, names in list_extras().items()},
        "compiler": "known Numba" if knows_numba() else "plain Numba",
        "cache": _describe_cache(),
        "gpu": {"usable": trouble is None, "name": None if trouble else device.device_name(), "why_not": trouble},
    }


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _describe_cache() -> dict[str, Any]:
    """Return the folder of compiled code, its size, and whether it can be written."""
    from onebit.engine.code_cache import root

    folder = root()
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            writable = True
    except OSError:
        writable = False
    sizes = [(Path(parent) / name).lstat().st_size for parent, _, names in os.walk(folder) for name in names]
    return {"folder": str(folder), "bytes": sum(sizes), "writable": writable}


def _format_report(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return the report as lines of text, by heading."""
    where = f", from {report['installed_from']}" if report["installed_from"] else ""
    cache, gpu = report["cache"], report["gpu"]
    state = f"{cache['bytes'] / 1e6:,.0f} MB" if cache["writable"] else "cannot be written: every process compiles anew"
    return {
        "onebit": [f"{report['onebit']}{where}"],
        "Python": [f"{report['python']}; {report['machine']}"],
        "packages": [", ".join(f"{name} {version or 'is missing'}" for name, version in report["packages"].items())],
        "extras": [f"{extra}: {_describe_extra(extra, versions)}" for extra, versions in report["extras"].items()],
        "compiler": [_COMPILERS[report["compiler"]]],
        "cache": [f"{cache['folder']}: {state}"],
        "GPU": [gpu["name"] if gpu["usable"] else gpu["why_not"]],
    }


def _describe_extra(extra: str, versions: dict[str, str | None]) -> str:
    """Describe an extra: the versions of its packages, or how to install those that are missing."""
    absent = [name for name, version in versions.items() if version is None]
    if absent:
        return f"{', '.join(absent)} missing: {install_command(extra)}"
    return ", ".join(f"{name} {version}" for name, version in versions.items())
