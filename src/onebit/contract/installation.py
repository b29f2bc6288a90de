"""Optional dependencies: their import, and the command that installs what is missing."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

from onebit.errors import MissingExtraError

DEVELOPER_EXTRAS = ("test", "test-all", "docs", "bench")  # extras for developers of onebit


def source_folder() -> Path | None:
    """Return the folder that onebit was installed from, such as a clone; None for an index or archive."""
    root = Path(__file__).resolve().parents[3]
    if (root / "pyproject.toml").is_file() and (root / "src" / "onebit").is_dir():
        return root  # an editable installation, or none
    # Imported here because few processes need them, and they import the modules of mail and networks.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = distribution("onebit").read_text("direct_url.json")
        origin = json.loads(text) if text else {}
        if "dir_info" not in origin:
            return None
        folder = Path(url2pathname(urlsplit(origin["url"]).path))
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):  # no usable direct_url.json
        return None
    return folder if (folder / "pyproject.toml").is_file() else None


def install_command(extra: str) -> str:
    """Return the command that installs an extra: by name, or by path if installed from a clone."""
    folder = source_folder()
    if folder is None:
        return f'pip install "onebit[{extra}]"'
    source = "." if folder == Path.cwd() else str(folder)
    return f'pip install "{source}[{extra}]"'


def require(module: str, purpose: str, extra: str = "experiments") -> Any:
    """Import an optional dependency; raise MissingExtraError with install instructions if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(f"{purpose} needs {module.partition('.')[0]}: {install_command(extra)}") from None


def list_extras() -> dict[str, list[str]]:
    """Return the extras for users, each with its packages; in a clone, read from pyproject.toml."""
    import tomllib
    from importlib.metadata import PackageNotFoundError, requires

    folder = source_folder()
    if folder is not None:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"]
    else:
        extras = {}
        try:
            declared = requires("onebit") or []
        except PackageNotFoundError:
            declared = []
        for requirement in declared:
            extra = re.search(r"""extra == ['"]([\w-]+)""", requirement)
            if extra:
                extras.setdefault(extra[1], []).append(requirement)
    return {
        name: [
            re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
            for requirement in requirements
            if not requirement.startswith("onebit[")
        ]
        for name, requirements in extras.items()
        if name not in DEVELOPER_EXTRAS
    }
