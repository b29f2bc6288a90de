"""The folder of a service belongs to one process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from onebit.errors import OnebitError
from onebit.storage import owned_as_its_folder


class FolderLock:
    """Held while a service runs; the system lets go of it when the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            owned_as_its_folder(self._file, folder)
        except OSError as error:
            raise OnebitError(f"{folder} cannot be used: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise OnebitError(f"another `onebit serve` is using {folder}: one folder, one service") from None
        except OSError as error:
            os.close(self._file)
            raise OnebitError(f"{folder} cannot be locked: {error.strerror or error}") from None

    def release(self) -> None:
        """Let another process have the folder."""
        os.close(self._file)
