"""Which tests run, and where: the tiers, and who compiles what.

`make test` runs everything but the marker `long`; the page docs/explanation/testing.md has the tiers. Compiling is what costs, and every
process compiles, or at least reads, what it runs: `pytest -n 2 --dist loadgroup` gives all tests of one rule to one worker, and else a file.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

ROOT = Path(__file__).parent
RULE = "the rule "  # what the name of a group begins with that has all tests of one
OF_A_RULE = re.compile(r"tests/rules/test_(\w+)\.py")
# Longer names first: one may begin as another does.
RULES = sorted(
    (path.stem.removeprefix("test_").replace("_", "-") for path in ROOT.glob("tests/rules/test_*.py")),
    key=len,
    reverse=True,
)
ALONE = "tests/service/survival/test_kill.py::test_killed_again_and_again["  # which workers share
# Groups that take long for the few tests they have come first: a worker that begins with one of them last keeps all others waiting. The
# first of all compiles `auto`, which many others use; then come the rules.
FIRST = [
    "tests/auto/test_keeping.py",
    RULE,
    f"{ALONE}0]",
    f"{ALONE}1]",
    "tests/learner/storage/test_hostile_files.py",
    "tests/spaces/test_kernel_space.py",
    "tests/client/test_service.py",
    "tests/engine/test_compile_cache.py",
    "tests/client/test_pages.py",
    "tests/service/http/test_schemathesis.py",
    "tests/service/survival/test_clients.py",
    "tests/service/pages/test_pages.py",
    "tests/service/http/test_process.py",
    "tests/cli/test_logs.py",
    "tests/service/survival/test_disk.py",
    "tests/service/test_service_model.py",
    "tests/auto/test_any_stream.py",
    "tests/offpolicy/test_evaluate.py",
]


WHOLLY_LONG = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.long\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of the longer tier alone where that tier is not run: what they import takes seconds in every worker."""
    if config.option.markexpr != "not long" or not collection_path.match("test_*.py"):
        return None
    return True if WHOLLY_LONG.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in `src` and `docs`: there are none in the tests, and every worker would look through all of them."""
    collectors = yield
    in_tests = file_path.is_relative_to(ROOT / "tests")
    return [one for one in collectors if not (in_tests and isinstance(one, DoctestModule))]


def pytest_configure(config: pytest.Config) -> None:
    """Make it quicker."""
    # Compilers leave a million objects that stay: looking through them took a twentieth of the time.
    gc.set_threshold(60_000, 20, 20)
    if hasattr(config.option, "loadscopereorder"):  # else xdist begins with the groups of the most tests
        config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)  # there may be no xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out groups. Those of xdist itself are names that it adds to ids, which pytest 9.2 no longer lets it: every test went alone."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group_of
    return scheduler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the groups in order."""
    groups = {item: group_of(item.nodeid) for item in items}
    sizes = Counter(groups.values())
    turns = {group: turn for turn, group in enumerate(FIRST)}

    def turn_of(item: pytest.Item) -> tuple[int, int, str]:
        group = groups[item]
        return turns.get(RULE if group.startswith(RULE) else group, len(turns)), -sizes[group], group

    items.sort(key=turn_of)


def group_of(test: str) -> str:
    """What a worker takes at a time: the tests of one rule over all rules' files, or a file, or a single test that takes as long as one."""
    place, _, name = test.partition("::")
    if test.startswith(ALONE):
        return test
    if place.startswith("tests/every_rule/"):
        case = name.partition("[")[2].replace("]", "-")
        return next((f"{RULE}{rule}" for rule in RULES if case.startswith(f"{rule}-")), place)
    if rule := OF_A_RULE.fullmatch(place):
        return f"{RULE}{rule[1].replace('_', '-')}"
    return place
