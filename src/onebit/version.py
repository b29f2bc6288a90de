"""The version of this package, without importing anything else."""

VERSION = "0.4.0.dev0"


def release_of(version: str) -> tuple[int, int, int]:
    """The release that a version is, or is on the way to; ValueError where it is none.

    >>> release_of("0.3.0") < release_of("0.4.0.dev0") == release_of("0.4.0")
    True
    """
    first, second, third = (int(part) for part in version.split(".")[:3])
    return first, second, third
