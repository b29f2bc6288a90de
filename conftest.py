"""Which tests run, and where: the tiers, and who compiles what.

`make test` runs everything but the marker `long`; the page docs/explanation/testing.md has the tiers. Compiling is what costs, and every
process compiles, or at least reads, what it runs: `pytest -n --dist loadgroup` gives all tests of one rule to one worker, and else a file.
"""

from __future__ import annotations

import gc
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
RULE = "the rule "  # what the name of a group begins with that has all tests of one
# What is run in a process of its own, and else only looked through for examples: not without its library.
collect_ignore = [] if importlib.util.find_spec("schemathesis") else ["tests/serve/web/every_operation.py"]
# Groups that take long for the few tests they have come first: a worker that begins with one of them last keeps all others waiting.
FIRST = [
    "kills 0",
    "kills 1",
    "tests/storage/test_hostile_files.py",
    "tests/auto/test_keeping.py",
    "tests/auto_03/test_keeping.py",
    "tests/spaces/test_kernel_space.py",
    "tests/client/test_service.py",
    "tests/engine/test_compile_cache.py",
    "tests/client/test_pages.py",
    "tests/serve/web/test_schemathesis.py",
    "tests/serve/survival/test_clients.py",
    "tests/serve/pages/test_pages.py",
    "tests/serve/web/test_process.py",
    "tests/cli/test_logs.py",
    "tests/serve/survival/test_disk.py",
    "tests/serve/test_service_model.py",
    "tests/auto_03/test_dense.py",
    "tests/auto/test_any_stream.py",
    "tests/offpolicy/test_evaluate.py",
]


WHOLLY_LONG = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.long\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of the longer tier alone where that tier is not run: what they import takes seconds in every worker."""
    if config.option.markexpr != "not long" or not collection_path.match("test_*.py"):
        return None
    return True if WHOLLY_LONG.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_configure(config: pytest.Config) -> None:
    """Make it quicker."""
    # Compilers leave a million objects that stay: looking through them took a twentieth of the time.
    gc.set_threshold(60_000, 20, 20)
    if hasattr(config.option, "loadscopereorder"):  # else xdist begins with the groups of the most tests
        config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say of every test in which group it is, and put the groups in order."""
    groups = dict[pytest.Item, str]()
    for item in items:
        groups[item] = group_of(item)
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(groups[item]))
    sizes = Counter(groups.values())
    turns = {group: turn for turn, group in enumerate(FIRST)}

    def turn_of(item: pytest.Item) -> tuple[int, int, str]:
        group = groups[item]
        first = -1 if group.startswith(RULE) else turns.get(group, len(turns))
        return first, -sizes[group], group

    items.sort(key=turn_of)


def group_of(item: pytest.Item) -> str:
    """What a worker takes at a time: what a test says itself, the tests of one rule over all rules' files, or a file."""
    if mark := item.get_closest_marker("xdist_group"):
        return str(mark.args[0])
    place = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else str(item.path)
    if place.startswith("tests/every_rule/"):
        name = getattr(item, "callspec", None) and item.callspec.params.get("name")  # type: ignore[attr-defined]
        return f"{RULE}{name}" if name else place
    if place.startswith("tests/rules/test_"):
        return f"{RULE}{item.path.stem.removeprefix('test_').replace('_', '-')}"
    return place
