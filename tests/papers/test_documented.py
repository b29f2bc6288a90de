"""docs/explanation/reproduction.md is what this release measures: of its version, with every item and all that the papers state."""

from __future__ import annotations

import re
from pathlib import Path

from onebit.papers import load_paper, paper_names
from onebit.version import VERSION

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "reproduction.md"
WORKING_TITLES = {"0.4.0.dev0": "1.0.0"}  # what releases were called while they were developed
AGAIN = "measure it again: onebit reproduce all --markdown docs/explanation/reproduction.md"


def release(version: str) -> str:
    """The numbers of a version, without what says that it is not out yet."""
    found = re.match(r"\d+(\.\d+)*", version)
    assert found is not None, version
    return WORKING_TITLES.get(version, found.group())


def test_the_page_was_measured_with_this_release() -> None:
    measured = re.findall(r"^Measured with onebit (\S+),", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {release(version) for version in measured} == {release(VERSION)}, AGAIN


def test_the_page_has_every_item_and_all_that_the_papers_state() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in paper_names():
        paper = load_paper(name)
        for item in paper.choose_items([]):
            assert f"\n### {item.title}\n" in text, AGAIN
        for one in paper.results:
            assert f"\n| {one.what} | {one.says} | " in text, AGAIN


def test_nothing_is_to_come() -> None:
    for name in paper_names():
        assert [one.what for one in load_paper(name).results if one.why.startswith("To come")] == []
