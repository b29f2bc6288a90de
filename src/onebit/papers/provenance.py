"""Which machines ran the runs of a result folder, with which versions: a folder is measured in one place, and may be shown in another."""

from __future__ import annotations

import json
from pathlib import Path

from onebit.errors import InputError
from onebit.experiments.pages import facts

FILE = "measured.json"


def measured_here() -> str:
    """The versions and the machine that this runs on."""
    about = facts(None)
    return f"{about['versions']} on {about['machine']}"


def measured_with(folder: Path | None, ran: bool) -> list[str]:
    """Which versions and machines the runs of a folder are of; where some ran now, those here are kept beside them."""
    if folder is None:
        return [measured_here()]
    path = folder / FILE
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{path}, which says what measured these results, cannot be read: {error}") from None
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise InputError(f"{path} must be a list of texts that say what measured these results")
    if ran and measured_here() not in known:
        known.append(measured_here())
        try:
            path.write_text(json.dumps(known, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the results cannot be written to {folder}: {error.strerror or error}") from None
    return known or ["an earlier version of onebit, on a machine that was not noted"]
