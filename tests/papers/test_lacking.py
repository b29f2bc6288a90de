"""What was not measured is not reproduced, and a folder measured elsewhere is shown without measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import onebit
from onebit.checks.examples import refused
from onebit.cli import main
from onebit.experiments.report.html import page_html
from onebit.papers.reproduce import reproduce
from tests.papers.conftest import Give
from tests.papers.test_reproduce import DATA, HEAD, RUNS, claim, learner

LOST = '[[item.data]]\nname = "Lost set"\nsource = "nowhere/lost.npz"\n'
TWO = learner("BPA", "bpa") + learner("Perceptron", "perceptron")
PICTURE = '[[item]]\nname = "figure5"\ntitle = "Figure 5"\nkind = "{kind}"\nrounds = 50\n'


# --- data that are not there ---------------------------------------------------------------------------------------------


def test_nothing_measured_is_nothing_reproduced(give: Give, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    give(HEAD + LOST + TWO + claim("Perceptron", "BPA"))
    code = main(["reproduce", "mine2026", "--out", str(tmp_path), "--markdown", str(tmp_path / "verdicts.md")])
    out, err = capsys.readouterr()
    assert code == 3
    assert err == "onebit: mine2026: nothing was measured; missing data: nowhere/lost.npz\n"
    top = out.splitlines()[:2]
    assert top[0] == "3 of 3 cells could not be measured (3 missing data): nothing is known about them."
    assert "lost.npz" in top[1], "which data, and how to bring them"
    page = (tmp_path / "page.html").read_text()
    assert "<title>mine2026: nothing was measured" in page
    assert "mine2026 reproduced" not in page
    assert page.index(top[0]) < page.index("Mine 2026: a paper of our own")
    text = (tmp_path / "verdicts.md").read_text()
    assert top[0] in text
    assert "Missing data: `nowhere/lost.npz`" in text


def test_some_cells_that_were_not_measured_are_counted(
    give: Give, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give(HEAD + DATA + LOST + TWO)
    assert main(["reproduce", "mine2026", "--json", "--out", str(tmp_path)]) == 3
    out, err = capsys.readouterr()
    (plain,) = json.loads(out)
    assert plain["title"] == "mine2026: 2 of 4 cells were not measured"
    assert plain["lacking"][0] == "2 of 4 cells could not be measured (2 missing data): nothing is known about them."
    assert err.startswith("onebit: mine2026: 2 of 4 cells were not measured; missing data: ")


def test_a_failure_is_graver_than_missing_data(give: Give, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    give(HEAD + DATA + LOST + learner("Gaptron", "gaptron", more="set = { max_norm = 0.5 }"))
    assert main(["reproduce", "mine2026", "--out", str(tmp_path)]) == 1
    assert "1 missing data" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["scatter", "boundary"])
def test_a_picture_whose_data_are_missing_is_a_cell_too(give: Give, kind: str) -> None:
    give('title = "t"\n' + PICTURE.format(kind=kind) + LOST + (learner("BPA", "bpa") if kind == "boundary" else ""))
    found = reproduce("mine2026")
    (one,) = found.verdicts
    assert (one.data, one.what, one.verdict) == ("Lost set", "the picture", "missing data")
    assert found.title == "mine2026: nothing was measured"


def test_a_picture_that_failed_is_a_cell_too(give: Give) -> None:
    data = '[[item.data]]\nname = "plane"\nsource = "weak2d"\n'
    give(
        'title = "t"\n'
        + PICTURE.format(kind="boundary")
        + data
        + learner("X", "gaptron", more="set = { max_norm = 0.1 }")
    )
    found = reproduce("mine2026", on="threads")
    assert [(one.what, one.verdict) for one in found.verdicts] == [("the picture", "failed")]


def test_what_is_only_drawn_says_so(give: Give, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    give('title = "t"\n' + PICTURE.format(kind="scatter") + '[[item.data]]\nname = "strong"\nsource = "strong2d"\n')
    assert main(["reproduce", "mine2026", "--out", str(tmp_path)]) == 0
    assert "mine2026: nothing to compare; what was drawn is on the page" in capsys.readouterr().out


# --- a folder that was measured elsewhere --------------------------------------------------------------------------------


PLATFORM = "onebit.experiments.trials.records.describe_platform"


def not_here(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("it runs")


def test_a_folder_measured_elsewhere_is_shown_without_runs(
    give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(HEAD + DATA + TWO)
    monkeypatch.setattr(PLATFORM, lambda: "onebit 9.9 on a large machine")
    first = reproduce("mine2026", out=tmp_path, on="threads")
    assert first.measured_with == ["onebit 9.9 on a large machine"]
    monkeypatch.setattr(PLATFORM, lambda: "onebit 9.9 on a small machine")
    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", not_here)
    before = (tmp_path / "rows.jsonl").read_bytes()
    again = reproduce("mine2026", out=tmp_path, measure=False)
    assert [one.to_dict() for one in again.verdicts] == [one.to_dict() for one in first.verdicts]
    assert again.measured_with == ["onebit 9.9 on a large machine"], "not the machine that shows it"
    assert "a large machine" in page_html(again.page())
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_two_machines_that_measured_are_both_named(give: Give, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, text in (("one", HEAD + DATA + learner("BPA", "bpa")), ("two", HEAD + DATA + TWO)):
        give(text)
        monkeypatch.setattr(PLATFORM, lambda machine=machine: f"onebit 9.9 on {machine}")
        found = reproduce("mine2026", out=tmp_path, on="threads")
    assert found.measured_with == ["onebit 9.9 on one", "onebit 9.9 on two"]


def test_what_a_folder_lacks_is_not_run_and_said(
    give: Give, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give(HEAD + DATA + learner("BPA", "bpa"))
    reproduce("mine2026", out=tmp_path, on="threads")
    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", not_here)
    give(HEAD.replace(f"runs = {RUNS}", "runs = 4") + DATA + TWO)
    markdown = tmp_path / "verdicts.md"
    assert main(["reproduce", "mine2026", "--out", str(tmp_path), "--no-runs", "--markdown", str(markdown)]) == 3
    out, err = capsys.readouterr()
    assert "1 of 2 cells could not be measured (1 not run): nothing is known about them." in out
    assert err == "onebit: mine2026: 1 of 2 cells were not measured\n"
    text = markdown.read_text()
    assert "(3 of 4 runs)" in text
    assert "its runs were not done, or with other code or other data" in text
    assert "--no-runs" not in text, "the file says how it is measured"


def test_a_grid_of_which_a_part_was_run_has_no_best(give: Give, tmp_path: Path) -> None:
    text = HEAD.replace('kind = "errors"', 'kind = "grid"\ngrid = { exploration = [0.01, 0.1] }') + DATA
    give(text + learner("Banditron", "banditron"))
    reproduce("mine2026", out=tmp_path, on="threads")
    give(text.replace("[0.01, 0.1]", "[0.01, 0.1, 0.3]") + learner("Banditron", "banditron"))
    (one,) = reproduce("mine2026", out=tmp_path, measure=False).verdicts
    assert (one.verdict, one.measured) == ("not run", None)


@pytest.mark.parametrize("folder", [None, "empty"])
def test_without_results_there_is_nothing_to_show(give: Give, tmp_path: Path, folder: str | None) -> None:
    give(HEAD + DATA + TWO)
    told = refused(lambda: reproduce("mine2026", out=folder and tmp_path / folder, measure=False))
    assert "there are no results" in told
    assert "rows.jsonl" in told
    assert not (tmp_path / "empty").exists()


# --- all that a paper states ---------------------------------------------------------------------------------------------

STATED = """
[[result]]
what = "Theorem 1"
says = "it always wins"
item = "table1"

[[result]]
what = "Theorem 2"
says = "it never loses"
why = "It is the same."
"""


def test_all_that_a_paper_states_is_on_the_page_and_in_the_file(give: Give, tmp_path: Path) -> None:
    give(HEAD + DATA + TWO + STATED)
    found = onebit.reproduce("mine2026")
    text = "\n".join(found.markdown())
    assert "| Theorem 1 | it always wins | Table 1: errors (table1) |" in text
    assert "| Theorem 2 | it never loses | It is the same. |" in text
    page = page_html(found.page())
    for words in ("All that the paper states", "it always wins", "Table 1: errors (table1)", "It is the same."):
        assert words in page


def test_an_item_that_was_not_run_is_said_to_be_so(give: Give) -> None:
    other = HEAD.split("[[item]]")[1].replace("table1", "table2")
    give(HEAD + DATA + TWO + "[[item]]" + other + DATA + TWO + STATED)
    assert "| Table 1: errors (table1, not run here) |" in "\n".join(
        onebit.reproduce("mine2026", ["table2"]).markdown()
    )
