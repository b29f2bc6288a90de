"""The memory available to this process, and checks before large allocations.

Linux hands out memory that it does not have, and later kills a process that uses it, without a message.
"""

from __future__ import annotations

from pathlib import Path

from onebit.errors import OutOfMemoryError

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
NEGLIGIBLE = 1 << 24  # smaller allocations are not checked: without this much memory nothing works anyway


def available_memory() -> int | None:
    """Return the bytes that this process can still use, by machine and control group; None if unknown."""
    found = [free for free in (_of_machine(), _of_group()) if free is not None]
    return min(found) if found else None


def require_memory(needed: int, what: str, instead: str) -> None:
    """Raise OutOfMemoryError if more bytes are needed than are free; `instead` says what to do."""
    if needed < NEGLIGIBLE:
        return
    free = available_memory()
    if free is not None and needed > free:
        raise OutOfMemoryError(
            f"{what} needs {format_bytes(needed)} of memory, and {format_bytes(free)} are free: {instead}"
        )


def format_bytes(number: int) -> str:
    """Format a number of bytes for people.

    >>> format_bytes(20_800_000_000), format_bytes(613_000_000), format_bytes(1200)
    ('20.8 GB', '613 MB', '0 MB')
    """
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _of_machine() -> int | None:
    for line in _text(MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _of_group() -> int | None:
    """Return the memory left in this process's control group or any above it; None if unlimited."""
    left = []
    for line in _text(GROUP).splitlines():
        if not line.startswith("0::/"):  # version 2 has one line
            continue
        folder = GROUPS / line.removeprefix("0::/")
        for group in (folder, *folder.parents):
            limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
            if limit.isdigit() and used.isdigit():
                left.append(max(0, int(limit) - int(used) + _cached_files(group)))
            if group == GROUPS:
                break
    return min(left) if left else None


def _cached_files(group: Path) -> int:
    """Return the bytes of cached files, which the system reclaims when needed."""
    lines = (line.split() for line in _text(group / "memory.stat").splitlines())
    return sum(int(number) for name, number in lines if name in ("active_file", "inactive_file"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
