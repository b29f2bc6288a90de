"""Where this onebit was installed from, so that a message about a missing extra says what works there."""

from __future__ import annotations

import json
import re
from pathlib import Path

DEVELOPERS = ("test", "test-all", "docs", "bench")  # extras that are not for users


def source_folder() -> Path | None:
    """The folder that it was installed from, a clone say; None where it came from an index or an archive."""
    beside = Path(__file__).resolve().parents[3]
    if (beside / "pyproject.toml").is_file() and (beside / "src" / "onebit").is_dir():
        return beside  # editable, or not installed at all
    # Imported where they are needed, as few processes need them: they bring the modules of mail and of networks.
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = distribution("onebit").read_text("direct_url.json")
        known = json.loads(text) if text else {}
        if "dir_info" not in known:
            return None
        folder = Path(url2pathname(urlsplit(known["url"]).path))
    except (PackageNotFoundError, OSError, ValueError, KeyError, TypeError):  # whoever installed it left no such note
        return None
    return folder if (folder / "pyproject.toml").is_file() else None


def install_command(extra: str, upgrade: bool = False) -> str:
    """The command that installs an extra: by name where onebit came from an index, from the clone where it came from one."""
    folder = source_folder()
    if folder is None:
        return f'pip install {"--upgrade " if upgrade else ""}"onebit[{extra}]"'
    here = "." if folder == Path.cwd() else str(folder)
    return f'pip install {"--upgrade " if upgrade else ""}"{here}[{extra}]"'


def list_extras() -> dict[str, list[str]]:
    """The extras that users may install, each with the packages that it brings; in a clone as its pyproject.toml has them."""
    import tomllib
    from importlib.metadata import PackageNotFoundError, requires

    folder = source_folder()
    if folder is not None:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = project["optional-dependencies"]
    else:
        wanted = {}
        try:
            named = requires("onebit") or []
        except PackageNotFoundError:
            named = []
        for one in named:
            extra = re.search(r"""extra == ['"]([\w-]+)""", one)
            if extra:
                wanted.setdefault(extra[1], []).append(one)
    return {
        name: [re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in some if not one.startswith("onebit[")]
        for name, some in wanted.items()
        if name not in DEVELOPERS
    }
