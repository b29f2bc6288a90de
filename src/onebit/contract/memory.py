"""The memory available to this process, and checks before large allocations.

Linux grants more memory than it has, and later kills the process that uses it, without a message.
"""

from __future__ import annotations

from pathlib import Path

from onebit.errors import OutOfMemoryError

MEMINFO = Path("/proc/meminfo")
CGROUP_FILE = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")
NEGLIGIBLE = 1 << 24  # smaller allocations are not checked: without this much memory nothing works anyway


def available_memory() -> int | None:
    """Return the bytes that this process can still use, by machine and control group; None if unknown."""
    limits = [limit for limit in (_machine_memory(), _group_memory()) if limit is not None]
    return min(limits) if limits else None


def require_memory(needed: int, purpose: str, advice: str) -> None:
    """Raise OutOfMemoryError if more bytes are needed than are free; `advice` says what to do."""
    if needed < NEGLIGIBLE:
        return
    free = available_memory()
    if free is not None and needed > free:
        raise OutOfMemoryError(
            f"{purpose} needs {format_bytes(needed)} of memory, but only {format_bytes(free)} is free: {advice}"
        )


def format_bytes(number: int) -> str:
    """Format a number of bytes for people.

    >>> format_bytes(20_800_000_000), format_bytes(613_000_000), format_bytes(1200)
    ('20.8 GB', '613 MB', '0 MB')
    """
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _machine_memory() -> int | None:
    """Return the memory that Linux calls available; None on other systems."""
    for line in _read_text(MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _group_memory() -> int | None:
    """Return the memory left to this process by its control group and those above; None if unlimited."""
    limits = []
    for line in _read_text(CGROUP_FILE).splitlines():
        if not line.startswith("0::/"):  # version 2 has one line
            continue
        folder = CGROUP_ROOT / line.removeprefix("0::/")
        for group in (folder, *folder.parents):
            limit, used = _read_text(group / "memory.max").strip(), _read_text(group / "memory.current").strip()
            if limit.isdigit() and used.isdigit():
                limits.append(max(0, int(limit) - int(used) + _count_cached_bytes(group)))
            if group == CGROUP_ROOT:
                break
    return min(limits) if limits else None


def _count_cached_bytes(group: Path) -> int:
    """Return the bytes of cached files, which the system reclaims when needed."""
    lines = (line.split() for line in _read_text(group / "memory.stat").splitlines())
    return sum(int(number) for name, number in lines if name in ("active_file", "inactive_file"))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
