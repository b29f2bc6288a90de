"""`onebit evaluate` and `onebit replay` on logs in files: the same as in Python, and bad input is one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import onebit
from onebit.cli import main
from onebit.offpolicy import evaluate, read_log, train
from tests.cli.call import Call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same 400 rounds as a file of each kind: three labels drawn evenly, of which the word of the context is right."""
    path = tmp_path_factory.mktemp("logs")
    generator = np.random.default_rng(5)
    truth, shown = generator.integers(1, 4, size=(2, 400)).tolist()
    third = 1 / 3
    with (path / "log.vw").open("w") as file:
        file.writelines(f"{a}:{int(a != t)}:{third!r} | is{t}\n" for a, t in zip(shown, truth, strict=True))
    with (path / "clicks.vw").open("w") as file:
        file.writelines(f"{a}:{-float(a == t)}:{third!r} | is{t}\n" for a, t in zip(shown, truth, strict=True))
    with (path / "log.csv").open("w") as file:
        file.write("word,what,ok,p\n")
        file.writelines(f"is{t},{a},{int(a == t)},{third!r}\n" for a, t in zip(shown, truth, strict=True))
    with (path / "stars.csv").open("w") as file:
        file.write("word;what;stars;p;offered\n")
        for a, t in zip(shown, truth, strict=True):
            other = a % 3 + 1
            file.write(f"is{t};{a};{5 if a == t else 2};0,5;{a}|{other}\n")
    main(["replay", str(path / "log.vw"), "--learner", "linucb", "--quiet"])  # which compiles, and says so
    main(["evaluate", str(path / "log.csv"), *COLUMNS, "--learner", "linucb", "--quiet"])
    return path


COLUMNS = ["--text", "word", "--action", "what", "--right", "ok", "--propensity", "p"]
GIVEN = {"log.vw": [], "clicks.vw": ["--costs=-1,0"], "log.csv": COLUMNS}


@pytest.mark.parametrize("name", GIVEN)
def test_evaluate_finds_the_same_in_every_kind_of_file(call: Call, folder: Path, name: str) -> None:
    path = str(folder / name)
    code, out, err = call("evaluate", path, *GIVEN[name], "--learner", "linucb", "--seed", "3", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert printed["log"] == path
    log = read_log(folder / "log.vw")
    by_hand = evaluate(onebit.LinUCB(classes=[1, 2, 3], exploration_floor=0.05, seed=3), log, seed=3)
    assert by_hand.doubly_robust is not None
    assert printed["estimates"]["doubly_robust"]["value"] == pytest.approx(by_hand.doubly_robust.value, abs=1e-6)
    assert by_hand.doubly_robust.value > 0.8
    code, out, err = call("evaluate", path, *GIVEN[name], "--learner", "linucb")
    assert (code, err) == (0, "")
    assert "linucb, exploration_floor=0.05 on a log of 400 rounds" in out


def test_replay_is_training_by_hand(call: Call, folder: Path, tmp_path: Path) -> None:
    path, saved = folder / "clicks.vw", tmp_path / "trained.onebit"
    given = ["--costs=-1,0", "--learner", "linucb", "--out", str(saved)]
    code, out, err = call("replay", str(path), *given)
    assert (code, err) == (0, "")
    assert f"linucb on {path}: learnt from 400 of 400 rounds" in out
    by_hand = onebit.LinUCB(classes=[1, 2, 3], exploration_floor=0.05)
    train(by_hand, read_log(path, costs=(-1, 0)))
    assert np.array_equal(onebit.load(saved).weights, by_hand.weights)
    printed = json.loads(call("replay", str(path), *given, "--json")[1])
    assert (printed["log"], printed["learnt"], printed["file"]) == (str(path), 400, str(saved))


def test_stars_among_candidates_are_mean_rewards(call: Call, folder: Path) -> None:
    path = folder / "stars.csv"
    given = ["--text", "word", "--action", "what", "--right", "stars", "--propensity", "p", "--among", "offered"]
    code, out, err = call("evaluate", str(path), *given, "--costs=5,0", "--learner", "linucb", "--json")
    assert (code, err) == (0, "")
    names = {"text": "word", "action": "what", "right": "stars", "propensity": "p", "among": "offered"}
    log = read_log(path, costs=(5, 0), **names)  # type: ignore[arg-type]
    assert log.classes == (1, 2, 3)
    learner = onebit.LinUCB(classes=[1, 2, 3], text=True, exploration_floor=0.05)
    found = evaluate(learner, log)
    assert json.loads(out) == {"log": str(path), **found.to_dict()}
    assert found.rewarded
    assert found.log.value == pytest.approx(np.mean([1.0 if one.right else 0.4 for one in log]))
    code, out, err = call("evaluate", str(path), *given, "--costs=5,0", "--learners", "linucb,linucb:width=2")
    assert (code, err) == (0, "")
    assert f"2 learners on a log of 400 rounds, with a mean reward of {found.log.value:.4f}" in out
    assert "  reward " in out
    code, out, err = call("replay", str(path), *given, "--costs=5,0", "--learner", "linucb", "--complete")
    assert (code, err) == (0, "")
    assert "learnt from 400 of 400 rounds" in out


BAD = {
    "a task": (["log.vw", "news"], "has no tasks"),
    "no task": (["."], "TASK is missing"),
    "no such file": (["other.vw"], "there is no file"),
    "no such folder": (["other", "news"], "other is not a folder of `onebit serve`: it does not exist"),
    "neither file nor folder": (
        ["other"],
        "there is no other: name a log file, or the folder of a service and one of its tasks",
    ),
    "another kind": (["log.txt"], "there is no log.txt"),
    "costs that are not said": (["clicks.vw"], "the cost is -1"),
    "costs that are none": (["log.vw", "--costs=1"], "must be two numbers"),
    "no such column": (["log.csv", "--text", "wrd"], "did you mean 'word'"),
    "columns of a folder": ([".", "news", "--x", "a"], "is the folder of a service"),
    "columns of lines": (["log.vw", "--right", "a"], "names a column"),
    "no such learner": (["log.vw", "--learner", "bandtron"], "'banditron'"),
    "a learner that needs labels": (["log.vw", "--learner", "perceptron"], "learns from labels"),
    "no such parameter": (["log.vw", "--learner", "bpa", "--set", "exploraton=1"], "'exploration'"),
    "other classes": (["log.vw", "--classes", "1,2"], "there is no class 3"),
    "classes of a file that has others": (["clicks.vw", "--costs=-1,0", "--classes", "a,b"], "there is no class 3"),
    "candidates of a folder": ([".", "news", "--complete"], "is the folder of a service"),
    "candidates of lines": (["log.vw", "--among", "a"], "names a column"),
    "no such candidates": (
        ["stars.csv", *COLUMNS[:4], "--right", "stars", "--among", "ofered"],
        "did you mean 'offered'",
    ),
    "stars that are not scaled": (["stars.csv", *COLUMNS[:4], "--right", "stars"], "give --costs=b,a"),
}


@pytest.mark.parametrize("command", ["replay", "evaluate"])
@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(folder)
    code, out, err = call(command, *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert words in err
