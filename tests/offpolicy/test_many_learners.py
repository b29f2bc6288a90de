"""Many learners on one log: in one walk they find what each finds by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit import rules
from onebit.cli import main
from onebit.offpolicy import evaluate, evaluate_many, read_log
from onebit.offpolicy.log_files import learner_for
from onebit.rules import rule_named
from tests.test_own_rules import BESIDE, RULE

LEARNERS: list[tuple[str, dict[str, Any]]] = [("bpa", {}), ("bpa", {"aggressiveness": 1.0}), ("linucb", {})]
NAMED = "bpa,bpa:aggressiveness=1.0,linucb"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels drawn evenly from three, of which the larger of two numbers, or neither, says which is right."""
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    generator = np.random.default_rng(4)
    with path.open("w") as file:
        file.write("a,b,action,right,propensity\n")
        for a, b in generator.normal(size=(400, 2)):
            shown, truth = generator.integers(3), 2 if max(a, b) < 0 else int(b > a)
            file.write(f"{a:.4f},{b:.4f},{shown},{int(shown == truth)},{1 / 3!r}\n")
    return path


def by_themselves(path: Path) -> list[dict[str, Any]]:
    log = read_log(path, x=["a", "b"])
    made = [learner_for(log, rule_named(name), options, 3) for name, options in LEARNERS]
    return [evaluate(one, log, seed=3).to_dict() for one in made]


def test_many_in_one_walk_are_what_each_is_by_itself(path: Path) -> None:
    seen = list[int]()
    log = read_log(path, x=["a", "b"])
    made = [learner_for(log, rule_named(name), options, 3) for name, options in LEARNERS]
    found = evaluate_many(made, log, seed=3, unanswered=log.unanswered, progress=seen.append)
    assert [one.to_dict() for one in found] == by_themselves(path)
    assert sum(seen) == 400


def test_no_learners_and_other_classes_are_refused() -> None:
    with pytest.raises(onebit.InputError, match="no learners"):
        evaluate_many([], [])
    with pytest.raises(onebit.InputError, match="but learner 1 has"):
        evaluate_many([onebit.BPA(classes=2), onebit.BPA(classes=3)], [])


# --- from the command line ---------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_the_best_first(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", str(path), "--x", "a,b", "--seed", "3", "--learners", NAMED, "--quiet"]
    assert main([*given, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["learners"]
    assert sorted(map(json.dumps, printed)) == sorted(map(json.dumps, json.loads(json.dumps(by_themselves(path)))))
    values = [one["estimates"]["doubly_robust"]["value"] for one in printed]
    assert values == sorted(values, reverse=True)
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "3 learners on a log of 400 rounds" in out
    assert "bpa, aggressiveness=1.0, exploration_floor=0.05" in out


def test_a_rule_of_ones_own_takes_part(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "_added", {})
    (tmp_path / "nudge.py").write_text(RULE.replace("from beside import moved", BESIDE))
    given = ["evaluate", str(path), "--x", "a,b", "--learners", "nudge,bpa", "--rule", f"{tmp_path}/nudge.py:RULE"]
    assert main([*given, "--json", "--quiet"]) == 0
    assert len(json.loads(capsys.readouterr().out)["learners"]) == 2


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--learners", "bpa", "--learner", "bpa"], "give it without --learner and --set"),
        (["--learners", "bpaa"], "did you mean 'bpa'"),
        (["--learners", "bpa:rate=1"], "'rate'"),
    ],
)
def test_bad_input_is_one_line(more: list[str], sentence: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(path), "--x", "a,b", *more]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert sentence in said
    assert main(["evaluate", str(path.parent), "task", "--learners", "bpa"]) == 2
    assert "there is no onebit.db in it" in capsys.readouterr().err
