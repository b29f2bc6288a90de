"""Nothing public goes without a word: names, learners, parameters, commands, options, settings, extras."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from docs.extensions.api import public_names
from docs.extensions.formulas import FORMULA
from docs.extensions.learners import learners_page
from docs.extensions.pages import expanded

import onebit
import onebit.client
from onebit import HOMES
from onebit.checks import CHECKS
from onebit.cli import COMMANDS, build_parser
from onebit.cli.serve import OPTIONS, environment_variable
from onebit.client import DecisionReply
from onebit.contract.options import MEANINGS
from onebit.data.preparation import STEPS
from onebit.data.sources import names
from onebit.data.streams import ORDERS
from onebit.experiments.executors import EXECUTORS
from onebit.experiments.trials.records import Record
from onebit.papers import KINDS, PaperItem, paper_names
from onebit.rules import registry
from onebit.service import errors, requests
from onebit.service.store.sqlite.schema import SCHEMA
from onebit.service.tokens import SCOPES
from onebit.spaces.kernels import KERNEL_CODES as KERNELS
from onebit.theory.bound import Holds
from onebit.theory.margins import KINDS as SEPARABILITIES
from onebit.theory.theorems import THEOREMS
from tests.service.site import Site, site_in

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FILES = {path.name: path for path in sorted((ROOT / "docs").rglob("*.md"))}
PAGES = {name: expanded(path.read_text()) for name, path in FILES.items()}
EVERYTHING = "\n".join([README, *PAGES.values()])
CODE = [
    path
    for folder in ("src", "tests", "benchmarks", "examples", "tools", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
ORACLES = [path for path in CODE if path.parent.name == "oracles" and path.name != "__init__.py"]
WRITTEN = [ROOT / "Makefile", *(ROOT / ".ci").glob("*"), *(ROOT / "docs").rglob("*.css"), *CODE]
WRITTEN += [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
for kind in ("md", "toml", "cff", "yaml"):
    WRITTEN += [*ROOT.glob(f"*.{kind}"), *(ROOT / "docs").rglob(f"*.{kind}"), *(ROOT / "src").rglob(f"*.{kind}")]


def commands() -> dict[str, argparse.ArgumentParser]:
    return {name: build_parser(name) for name in COMMANDS}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with site_in(tmp_path) as made:
        yield made


@pytest.mark.parametrize("name", [name for name in dir(onebit) if not name.startswith("_")])
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", EVERYTHING), f"{name} is nowhere in the documentation"
    assert getattr(onebit, name).__doc__


def test_the_public_names_are_what_dir_says() -> None:
    for name in dir(onebit):
        assert hasattr(onebit, name)
    with pytest.raises(AttributeError, match="did you mean 'Banditron'"):
        _ = onebit.Banditon  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", registry())
def test_every_learner_is_on_the_pages_of_the_learners(name: str) -> None:
    rule = registry()[name]
    page = PAGES["learners.md"]
    assert f"`{name}`" in page
    assert f"`{rule.title}`" in page
    assert f"`onebit.{rule.title}`" in PAGES["api.md"]
    for parameter, note in rule.parameters.items():
        assert f"`{parameter}`" in page
        assert note.meaning


def test_the_readme_is_short_and_names_its_picture() -> None:
    assert 600 <= len(README.split()) <= 700
    assert "docs/start/digits.svg" in README
    assert "contextual bandits for classification" in README
    picture = (ROOT / "docs" / "start" / "digits.svg").read_text()
    assert len(picture) < 60_000


@pytest.mark.parametrize("name", [name for name, home in HOMES.items() if home != f"onebit.{name}"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"^\.\. auto\w+:: onebit\.{name}$", PAGES["api.md"], re.MULTILINE)


@pytest.mark.parametrize("module", ["offpolicy", "client", "theory"])
def test_every_name_of_a_module_is_in_the_reference(module: str) -> None:
    for name in public_names(f"onebit.{module}"):
        assert f":: onebit.{module}.{name}\n" in EVERYTHING


@pytest.mark.parametrize("option", MEANINGS)
def test_every_common_option_is_documented(option: str) -> None:
    assert f"`{option}`" in EVERYTHING or f"{option}=" in EVERYTHING


@pytest.mark.parametrize("command", commands())
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    page = PAGES["commands.md"]
    assert f"## onebit {command}\n" in page
    section = page.split(f"## onebit {command}\n")[1].split("\n## ")[0]
    for action in commands()[command]._actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                assert re.search(rf"^\| `{option}[ `]", section, re.MULTILINE), (
                    f"{option} of {command} is not documented"
                )
                assert action.help, f"{option} of {command} says nothing of itself"


@pytest.mark.parametrize("command", commands())
def test_every_command_is_explained(command: str) -> None:
    """Beside the reference, on a page that says what it is for."""
    assert any(f"onebit {command}" in text for name, text in PAGES.items() if name != "commands.md")


def test_every_option_of_bounds_is_on_the_page_on_theory() -> None:
    for action in commands()["bounds"]._actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                assert re.search(rf"`{option}[ `]", PAGES["theory.md"]), f"{option} of bounds is not documented"


@pytest.mark.parametrize("word", [*get_args(Holds), *SEPARABILITIES, *THEOREMS])
def test_every_word_of_theory_is_documented(word: str) -> None:
    assert f"`{word}`" in PAGES["theory.md"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_documented(kernel: str) -> None:
    assert re.search(rf"^\| `{kernel}[:`]", PAGES["kernels.md"], re.MULTILINE)


@pytest.mark.parametrize("name", names())
def test_every_data_set_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGES["data.md"]


@pytest.mark.parametrize("step", STEPS)
def test_every_step_of_a_preparation_is_documented(step: str) -> None:
    assert f"`{step}`" in PAGES["data.md"]


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_is_documented(order: str) -> None:
    assert f"`{order}`" in PAGES["running.md"]


@pytest.mark.parametrize("on", EXECUTORS)
def test_every_executor_is_documented(on: str) -> None:
    assert re.search(rf"--on {on.removesuffix('host:port')}[\w`\n]", PAGES["scale.md"])


@pytest.mark.parametrize("paper", paper_names())
def test_every_paper_is_documented(paper: str) -> None:
    assert f"`{paper}`" in PAGES["reproduce.md"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_item_is_documented(kind: str) -> None:
    assert f"`{kind}`" in PAGES["reproduce.md"]


@pytest.mark.parametrize(
    "key", [field for field in PaperItem.__dataclass_fields__ if field not in ("learners", "claims", "adversaries")]
)
def test_every_key_of_an_item_is_documented(key: str) -> None:
    assert re.search(rf"`item\.{key}`|^    {key} =", PAGES["reproduce.md"], re.MULTILINE)


def test_every_field_of_a_row_is_documented() -> None:
    for field in dataclasses.fields(Record):
        assert f"`{field.name}`" in PAGES["experiments.md"]


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


@pytest.mark.parametrize("name", onebit.client.__all__)
def test_every_name_of_the_client_is_documented(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGES["service.md"])
    assert getattr(onebit.client, name).__doc__


@pytest.mark.parametrize("kind", [onebit.client.Client, onebit.client.TaskHandle])
def test_every_call_of_the_client_is_documented(kind: type) -> None:
    for name in dir(kind):
        if not name.startswith("_") and name != "close":
            assert re.search(rf"`(Client\.)?{name}\(", PAGES["service.md"]), f"{name} is not documented"


@pytest.mark.parametrize("name", OPTIONS)
def test_every_setting_of_the_service_is_documented(name: str) -> None:
    option = OPTIONS[name]
    row = rf"^\| `--{name.replace('_', '-')} {option.metavar}` \| `{environment_variable(name)}` \|"
    assert re.search(row, PAGES["service.md"], re.MULTILINE)


def test_every_route_of_the_service_is_documented(site: Site) -> None:
    for one in site.app.operations:
        assert f"### {one.method} {one.path}\n" in PAGES["http.md"]
        assert f"`{one.method} {one.path}`" in PAGES["service.md"], f"{one.method} {one.path} is not documented"


def test_every_error_of_the_service_is_documented() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RequestError)]
    assert len(kinds) == 16
    for kind in kinds:
        assert f"| {kind.status} | `{kind.code}` |" in PAGES["service.md"]


def test_every_metric_is_documented(site: Site) -> None:
    text = site.ask("GET", "/metrics").text
    names = set(re.findall(r"^# TYPE (onebit_\w+)", text, re.MULTILINE))
    assert len(names) >= 10
    for name in names:
        assert f"| `{name}` |" in PAGES["service.md"]


def test_every_table_and_column_of_the_log_is_documented() -> None:
    words = re.findall(r"^(?:CREATE TABLE| {3}|ALTER TABLE \w+ ADD COLUMN) (\w+)", SCHEMA, re.MULTILINE)
    assert {"changes", "decisions", "feedback", "propensity", "shown_propensity", "token", "owner"} <= set(words)
    for word in words:
        assert f"`{word}`" in PAGES["service.md"], f"{word} is not documented"


@pytest.mark.parametrize(
    "field", [*requests.NewTask.model_fields, *requests.Change.model_fields, *DecisionReply.__dataclass_fields__]
)
def test_every_field_of_a_request_is_documented(field: str) -> None:
    assert f"`{field}`" in PAGES["service.md"]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_is_documented(scope: str) -> None:
    assert f"| `{scope}` |" in PAGES["service.md"]


def anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}


def pointers(path: Path) -> list[tuple[str, str]]:
    """The sections of pages that a source file names."""
    return re.findall(r"\bdocs/([\w/-]+\.md)#([\w-]+)", path.read_text())


@pytest.mark.parametrize("path", ORACLES, ids=lambda path: path.stem)
def test_every_oracle_names_the_section_it_was_written_from(path: Path) -> None:
    assert pointers(path), f"{path.name} does not name the section of a page in docs"


def test_sections_that_the_code_names_are_there() -> None:
    found = [(path, page, anchor) for path in CODE for page, anchor in pointers(path)]
    assert len({path for path, _, _ in found}) >= len(ORACLES)
    for path, page, anchor in found:
        assert (ROOT / "docs" / page).exists(), f"{path.name} names {page}, which is not there"
        assert anchor in anchors(PAGES[Path(page).name]), (
            f"{path.name} names {page}#{anchor}, and there is no such section"
        )


def test_every_rule_has_its_section() -> None:
    found = re.findall(
        r"^- Exactly: \[.+\]\(\.\./explanation/([\w-]+\.md)#?([\w-]*)\)\.$", learners_page(), re.MULTILINE
    )
    assert len(found) == len(registry())
    for page, anchor in found:
        assert not anchor or anchor in anchors(PAGES[page]), f"{page} has no section {anchor}"


def test_formulas_are_whole() -> None:
    for name, page in PAGES.items():
        formulas = [found["display"] or found["inline"] for found in FORMULA.finditer(page)]
        assert (
            page.count("$`") + page.count("```math\n") == page.count("`$") + page.count("```math\n") == len(formulas)
        ), name
        for formula in formulas:
            assert formula.count("{") == formula.count("}"), f"{name}: {formula}"
            assert formula.count(r"\left") - formula.count(r"\leftarrow") == formula.count(r"\right"), (
                f"{name}: {formula}"
            )
            assert formula.count(r"\begin") == formula.count(r"\end"), f"{name}: {formula}"


def test_nothing_points_outside_of_the_repository() -> None:
    data = (
        ROOT / ".ci" / "run"
    )  # which names a folder of data that may be beside the clone on the machine where it runs
    assert {ROOT / "README.md", ROOT / "docs" / "explanation" / "algorithms.md"} <= set(WRITTEN)
    for path in WRITTEN:
        text = path.read_text() if path != data else path.read_text().replace("../shared/data", "")
        if path.suffix == ".py":  # tests hand hostile paths to the service
            outside = re.findall(r"\bshared/[\w-]+\.md\b", text)
        else:
            steps = re.findall(r"(?<![\w./])(?:\.\./)+[\w./-]*", text)
            outside = [step for step in steps if not (path.parent / step).resolve().is_relative_to(ROOT)]
        assert not outside, f"{path.relative_to(ROOT)} points to {outside}"


@pytest.mark.parametrize("page", [*(path.name for path in ROOT.glob("*.md")), *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    path = FILES.get(page, ROOT / page)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", path.read_text()):
        goal = path if not target else (path.parent / target).resolve()
        assert goal.exists(), f"{page} has a link to {target}, which is not there"
        assert goal.is_relative_to(ROOT), f"{page} has a link to {target}, outside of the repository"
        if anchor:
            assert anchor in anchors(expanded(goal.read_text())), anchor


def test_every_page_has_a_name_of_its_own_and_a_place() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(FILES) == len(pages), "two pages of one name"
    placed = {ROOT / "docs" / "index.md"}
    for path in pages:
        for tree in re.findall(r"^```{toctree}\n(.+?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
            placed |= {path.parent / f"{one}.md" for one in re.findall(r"^[\w/-]+$", tree, re.MULTILINE)}
    assert placed == set(pages)
    parts = {path.relative_to(ROOT / "docs").parts[0] for path in pages}
    assert parts == {"index.md", "start", "how-to", "explanation", "reference"}


def test_the_glossary_has_thirty_terms_at_most() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \|$", PAGES["glossary.md"], re.MULTILINE)
    assert 20 <= len(set(terms)) == len(terms) <= 30


def defined_in(body: list[ast.stmt]) -> Iterator[str]:
    """The functions, classes, methods, fields and constants of a module."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef | ast.If):
            yield from defined_in(node.body)
        for target in [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", []):
            if isinstance(target, ast.Name):
                yield target.id


def test_design_names_what_there_is() -> None:
    """Files; and in the instructions whatever looks like a name of the code."""
    files = [path for part in ("src", "tests", "tools", "benchmarks") for path in sorted((ROOT / part).rglob("*.py"))]
    paths = "\n".join(str(path) for path in files)
    for name in set(re.findall(r"[\w/]+\.py\b", PAGES["design.md"])):
        assert name.endswith("NAME.py") or re.search(rf"/{name}$", paths, re.MULTILINE), f"there is no {name}"
    known = {name for path in files for name in defined_in(ast.parse(path.read_text()).body)}
    known |= {*CHECKS, "NAME", "NamedTuple", "on"}
    instructions = re.findall(r"^## How to add .+?(?=^## )", PAGES["design.md"], re.MULTILINE | re.DOTALL)
    assert len(instructions) == 5  # a rule, a space, an executor, a route, a command
    for name in re.findall(r"`(\w+)[(`]", "".join(instructions)):
        assert name in known, f"nothing is called {name}"
    flows = re.findall(r"^## Three flows.+?(?=^## )", PAGES["design.md"], re.MULTILINE | re.DOTALL)
    for name in re.findall(r"[A-Z]\w+\.\w+\b(?!/)", "".join(flows)):
        assert any(has_method(ast.parse(path.read_text()).body, *name.split(".")) for path in files), (
            f"there is no {name}"
        )


def has_method(body: list[ast.stmt], kind: str, method: str) -> bool:
    """Return True if a module has a class with this method."""
    return any(
        isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name == method
        for node in body
        if isinstance(node, ast.ClassDef) and node.name == kind
        for inner in node.body
    )


def test_no_figure_is_pending() -> None:
    assert "PENDING" not in EVERYTHING
