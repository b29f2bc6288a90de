"""Nothing public goes without a word: names, learners, parameters, commands, options, settings, extras."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path

import pytest
from docs.hooks import learners_page

import onebit
from onebit.cli import parser
from onebit.data.sources import GENERATORS
from onebit.learner import Learner
from onebit.rules import registry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
EVERYTHING = "\n".join([README, *PAGES.values(), learners_page()])


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)


@pytest.mark.parametrize("name", [name for name in dir(onebit) if not name.startswith("_")])
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", EVERYTHING), f"{name} is nowhere in the documentation"
    assert getattr(onebit, name).__doc__


def test_the_public_names_are_what_dir_says() -> None:
    for name in dir(onebit):
        assert hasattr(onebit, name)
    with pytest.raises(AttributeError, match="did you mean 'Banditron'"):
        _ = onebit.Banditon


@pytest.mark.parametrize("name", registry())
def test_every_learner_is_in_the_readme_and_on_its_page(name: str) -> None:
    rule = registry()[name]
    assert f"`{name}`" in README
    assert f"`{rule.title}`" in README
    page = learners_page()
    assert f"`{name}`" in page
    for parameter, note in rule.parameters.items():
        assert f"`{parameter}`" in page
        assert note.meaning


@pytest.mark.parametrize("option", Learner.common)
def test_every_common_option_is_documented(option: str) -> None:
    assert f"`{option}`" in EVERYTHING or f"{option}=" in EVERYTHING


@pytest.mark.parametrize("command", commands())
def test_every_command_and_option_is_documented(command: str) -> None:
    assert f"onebit {command}" in EVERYTHING
    for action in commands()[command]._actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                assert option in PAGES["running.md"] + README, f"{option} of {command} is not documented"


@pytest.mark.parametrize("name", GENERATORS)
def test_every_data_set_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGES["running.md"]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    for requirement in wanted:
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(rf"\b{name}\b", PAGES["dependencies.md"], re.IGNORECASE), f"{name} has no reason"


def test_every_setting_from_the_environment_is_documented() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    settings = set(re.findall(r"environ(?:\.get\(|\[)\"(ONEBIT_\w+)\"", sources))
    assert settings
    for setting in settings:
        assert setting in EVERYTHING


def test_no_figure_is_pending() -> None:
    assert "PENDING" not in EVERYTHING
