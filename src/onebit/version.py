"""The version of this package, and what older ones called things, without importing anything else."""

import re

VERSION = "1.0.0rc1"
# By the version that gave the name of a rule to another one: what the former is called since. It is kept for what was written before. 0.4.0 was the
# working title of 1.0.0: files of its development say so.
RENAMED_RULES = {"0.4.0": {"auto": "auto-0.3"}}


_NUMBERS = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)((a|b|rc)[0-9]+)?(\.dev[0-9]+)?")


def release_of(version: str) -> tuple[int, int, int]:
    """The release that a version is, or is on the way to; ValueError where it is none.

    >>> release_of("0.3.0") < release_of("0.4.0.dev0") == release_of("0.4.0") < release_of("1.0.0rc1")
    True
    """
    found = _NUMBERS.fullmatch(version)
    if found is None:
        raise ValueError(f"{version[:40]!r} is not a version")
    first, second, third = map(int, found.group(1, 2, 3))
    return first, second, third


def written_rule(name: str, version: str) -> str:
    """What the rule is called now that a version of onebit wrote down by this name.

    >>> written_rule("auto", "0.3.0"), written_rule("auto", "0.4.0"), written_rule("bpa", "0.3.0")
    ('auto-0.3', 'auto', 'bpa')
    """
    for changed in sorted(RENAMED_RULES, key=release_of):
        if release_of(version) < release_of(changed):
            name = RENAMED_RULES[changed].get(name, name)
    return name
