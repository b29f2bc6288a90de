"""`--candidates`, `--rewards` and `--corrected` of run, compare and sweep: what is printed, what the page says, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import onebit
from onebit.checks.examples import rows
from onebit.errors import InputError
from tests.cli.call import Call

X, Y = rows(60)
NAMES = ["ant", "bee", "cat", "dog", "eel"]
WORTH = np.maximum(0.0, 1.0 - np.abs(Y[:, None] - np.arange(5)[None, :]) / 2.0)


@pytest.fixture
def call(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command in an empty folder, without drawing figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onebit.experiments.report.figures.save_figures", lambda page, folder: [])
    return call


@pytest.fixture
def animals(tmp_path: Path) -> str:
    offers = ["|".join([NAMES[label], NAMES[(label + 2) % 5]]) for label in Y]
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": [NAMES[label] for label in Y], "offer": offers})
    frame.to_csv(tmp_path / "animals.csv", index=False)
    return str(tmp_path / "animals.csv")


@pytest.fixture
def worth(tmp_path: Path) -> str:
    frame = pandas.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], **{f"worth_{name}": WORTH[:, at] for at, name in enumerate(NAMES)}}
    )
    frame.to_csv(tmp_path / "worth.csv", index=False)
    return str(tmp_path / "worth.csv")


def test_run_takes_candidates_rewards_and_corrections(call: Call, animals: str, worth: str) -> None:
    settings = ["--rounds", "200", "--quiet", "--json"]
    code, out, _ = call("run", "bpa", "synsep9", "--candidates", "3", "--corrected", "0.5", *settings)
    said = json.loads(out)
    assert code == 0
    assert said["data"] == "synsep9 (candidates 3, corrected 0.5)"
    assert said["errors"] == onebit.run("bpa", "synsep9", rounds=200, candidates=3, corrected=0.5).errors.tolist()
    assert "rewards" not in said
    code, out, _ = call("run", "bpa", animals, "--candidates", "offer", *settings)
    assert code == 0
    assert json.loads(out)["data"].endswith("animals.csv (candidates offer)")
    code, out, _ = call("run", "bpa", worth, "--rewards", "worth_*", "--runs", "2", *settings)
    said = json.loads(out)
    assert code == 0
    assert said["reward_mean"] == onebit.run("bpa", worth, rewards="worth_*", rounds=200, runs=2).reward
    assert len(said["rewards"]) == len(said["greedy_rewards"]) == 2
    code, out, _ = call("run", "bpa", worth, "--rewards", "worth_*", "--rounds", "100", "--quiet")
    assert code == 0
    assert "  reward  0." in out
    assert "has a mean reward of" in out


def test_compare_and_sweep_show_rewards(call: Call, worth: str, tmp_path: Path) -> None:
    chosen = [worth, "--rewards", "worth_*", "--rounds", "100", "--runs", "2", "--quiet"]
    code, out, _ = call("compare", *chosen, "--learners", "bpa,banditron", "--out", "found")
    assert code == 0
    assert "mean reward, highest first" in " ".join(out.split())
    assert "with a mean reward of" in " ".join(out.split())
    page = (tmp_path / "found" / "page.html").read_text()
    assert "Mean reward so far" in page
    assert "run on threads, not on a GPU" in page
    code, out, _ = call("compare", *chosen, "--learners", "bpa,banditron", "--out", "found", "--json")
    standings = json.loads(out)["data"][0]["standings"]
    assert standings[0]["reward"]["mean"] >= standings[1]["reward"]["mean"]
    code, out, _ = call(
        "sweep", "bpa", *chosen, "--fresh-runs", "2", "--grid", "aggressiveness=0.01,1", "--out", "swept"
    )
    assert code == 0
    assert "the highest of many tuning rewards is too high" in " ".join(out.split())
    assert "highest mean reward" in (tmp_path / "swept" / "page.html").read_text()


def test_a_number_of_candidates_is_for_all_data_and_a_column_for_files(call: Call, animals: str) -> None:
    settings = ["--rounds", "60", "--runs", "1", "--quiet", "--json", "--learners", "bpa", "--out", "found"]
    code, out, _ = call("compare", "synsep9", animals, "--candidates", "2", *settings)
    assert code == 0
    assert [one["stream"]["candidates"] for one in json.loads(out)["data"]] == [2, 2]
    code, out, _ = call("compare", "synsep9", animals, "--candidates", "offer", *settings)
    assert code == 0
    assert [one["stream"].get("candidates") for one in json.loads(out)["data"]] == [None, "offer"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["synsep9", "--candidates", "9"], "candidates is 9, but there are 9 classes"),
        (["synsep9", "--candidates", "0"], "candidates is 0, but must be a whole number of at least 2"),
        (["synsep9", "--candidates", "1"], "candidates is 1, but must be a whole number of at least 2"),
        (["synsep9", "--candidates", "-1"], "candidates is -1, but must be a whole number of at least 2"),
        (["synsep9", "--candidates", "2.5"], "candidates is 2.5, but must be a whole number of at least 2"),
        (["synsep9", "--candidates", "offer"], "candidates is for columns of a table"),
        (["synsep9", "--corrected", "2"], "corrected is 2.0"),
        (["synsep9", "--corrected", "nan"], "corrected is nan"),
        (["synsep9", "--rewards", "a,b"], "rewards is for columns of a table"),
    ],
    ids=str,
)
def test_bad_options_are_one_line_and_exit_code_2(call: Call, options: list[str], words: str) -> None:
    code, out, error = call("run", "bpa", *options, "--quiet")
    assert (code, out) == (2, "")
    assert words in error
    assert len(error.splitlines()) == 1


def test_a_file_is_not_searched_for_a_column_called_like_a_number(call: Call, animals: str) -> None:
    for given in ("-1", "2.5", "0"):
        code, _, error = call("run", "bpa", animals, "--candidates", given, "--quiet")
        assert code == 2
        assert f"candidates is {given}, but must be a whole number of at least 2" in error


def test_a_class_that_gets_more_than_the_learner_is_said_in_one_line(call: Call, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"a": X[:, 0], "worth_x": 0.9, "worth_y": np.arange(60) % 10 / 9.0})
    frame.to_csv(tmp_path / "one.csv", index=False)
    code, out, _ = call("run", "bpa", "one.csv", "--rewards", "worth_*", "--quiet")
    assert code == 0
    assert "\n  but     always naming 'x' has a mean reward of 0.9000, more than the learner\n" in out
    chosen = ["--learners", "bpa,banditron", "--runs", "2", "--out", "found", "--quiet"]
    code, out, _ = call("compare", "one.csv", "--rewards", "worth_*", *chosen)
    assert code == 0
    assert "always naming 'x' has a mean reward of 0.9000, more than every learner." in " ".join(out.split())


def test_theorems_are_not_about_such_streams() -> None:
    for settings in ({"candidates": 3}, {"corrected": 0.1}):
        with pytest.raises(InputError, match="leave out candidates, rewards and corrected"):
            onebit.theory.bounds("perceptron", "synsep9", rounds=50, **settings)
