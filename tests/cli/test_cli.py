"""The command line: what each command prints, and that bad input is one line on stderr, exit code 2, and nothing else."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit import cli
from onebit.checks.examples import rows
from onebit.cli import build_parser, console, main
from onebit.cli.options import parse_count, parse_positive, parse_settings
from onebit.cli.warmup import compile_all
from onebit.rules import registry, rule_named
from onebit.version import VERSION
from tests.cli.call import Call
from tests.slow import slow

SHORT = ["--rounds", "200"]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """What is compiled for the first time says so on stderr; the commands below are to find it done."""
    for name in ("banditron", "bpa", "pab"):
        for space in ("dense", "sparse"):
            main(["run", name, "synsep10", "--rounds", "1", "--set", f"space={space}", "--json"])
    main(["run", "gaptron", "synsep10", "--rounds", "1", "--json"])
    main(["run", "conservative-ova", "synsep10", "--rounds", "1", "--json"])


@pytest.fixture
def file(tmp_path: Path) -> str:
    X, y = rows(60)
    path = tmp_path / "animals.npz"
    np.savez(path, X=X, y=y, classes=["ant", "bee", "cat", "dog", "eel"])
    return str(path)


def another_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    program = "import sys; from onebit.cli import main; sys.exit(main())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        text=True,
        env=environment,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands."""
    return {name: build_parser(name) for name in cli.COMMANDS}


# --- what there is -----------------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert call("--version") == (0, f"onebit {VERSION}\n", "")


def test_every_file_with_a_command_is_one() -> None:
    files = {one.stem for one in Path(cli.__file__).parent.glob("*.py") if "def execute(" in one.read_text()}
    assert {where.partition(":")[0] for where in cli.COMMANDS.values()} == files


def test_without_a_command_there_is_help(call: Call) -> None:
    assert call() == call("--help")


@pytest.mark.parametrize(("word", "imported"), [("--version", []), ("learners", ["onebit.cli.learners"])])
def test_nothing_is_imported_for_other_commands(word: str, imported: list[str]) -> None:
    program = (
        f"import sys; from onebit import cli; cli.main([{word!r}, '--help']); "
        "print(*sorted({f'onebit.cli.{name}' for name in cli.COMMANDS} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, text=True, capture_output=True)
    assert done.stderr.split() == imported


def test_the_version_is_said_without_numpy() -> None:
    program = "import sys; from onebit.cli import main; main(['--version']); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, capture_output=True).returncode == 0


def test_an_option_is_not_cut_short(call: Call) -> None:
    code, _, err = call("learners", "--jso")
    assert (code, err) == (2, "onebit learners: unrecognized arguments: --jso (see onebit learners --help)\n")


def test_help_lists_every_command_with_what_it_does(call: Call) -> None:
    code, out, err = call("--help")
    assert (code, err) == (0, "")
    for name in commands():
        (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3, f"{name} is not explained"
    assert "--version" in out


@pytest.mark.parametrize("command", ["learners", "data", "run", "compare", "sweep", "reproduce", "warmup"])
def test_help_of_every_command_explains_every_option(call: Call, command: str) -> None:
    code, out, err = call(command, "--help")
    assert (code, err) == (0, "")
    for action in commands()[command]._actions:
        assert action.help, action
        for name in action.option_strings or [str(action.metavar)]:
            assert name in out
    assert "--json" in out


def test_help_of_run_names_the_forms_of_files_and_where_data_are_listed(call: Call) -> None:
    _, out, _ = call("run", "--help")
    for part in ("onebit data", ".npz", ".csv", ".parquet", ".svmlight", "--set", "--rounds", "--runs", "--seed"):
        assert part in out


# --- learners ----------------------------------------------------------------------------------------------------------


def test_learners_lists_every_rule_with_every_parameter(call: Call) -> None:
    code, out, err = call("learners")
    assert (code, err) == (0, "")
    for name, rule in registry().items():
        assert f"{name}  (onebit.{rule.title}" in out
        assert rule.summary in out
        for parameter, declared in rule.parameters.items():
            assert f"{parameter} = " in out
            assert declared.range in out
            assert declared.meaning in out


def test_learners_as_json_is_the_same_list(call: Call) -> None:
    code, out, err = call("learners", "--json")
    assert (code, err) == (0, "")
    listed = {one["name"]: one for one in json.loads(out)}
    assert list(listed) == list(registry())
    for name, rule in registry().items():
        assert set(listed[name]) == {"name", "class", "feedback", "paper", "summary", "parameters"}
        assert {one["name"]: one["default"] for one in listed[name]["parameters"]} == rule.defaults
        for one in listed[name]["parameters"]:
            assert set(one) == {"name", "default", "range", "meaning"}
    assert {one["feedback"] for one in listed.values()} == {"bandit", "full information", "bandit or full information"}


# --- run ---------------------------------------------------------------------------------------------------------------

FIELDS = {
    "rule": str,
    "params": dict,
    "data": str,
    "rounds": int,
    "runs": int,
    "error_mean": float,
    "error_sd": float,
    "greedy_error_mean": float,
    "rounds_per_second": float,
}


def test_run_as_json_prints_one_object_with_the_fields_of_the_issue(call: Call) -> None:
    code, out, err = call("run", "banditron", "synsep10", *SHORT, "--runs", "3", "--seed", "5", "--json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert len(out.splitlines()) == 1
    for name, kind in FIELDS.items():
        assert type(printed[name]) is kind, name
    assert printed["rule"] == "banditron"
    assert printed["params"] == {"exploration": 0.05}
    assert (printed["data"], printed["rounds"], printed["runs"]) == ("synsep10", 200, 3)
    assert len(printed["errors"]) == 3
    assert printed["error_mean"] == pytest.approx(float(np.mean(printed["errors"])))
    assert printed["error_sd"] == pytest.approx(float(np.std(printed["errors"], ddof=1)))
    for name in ("error_mean", "error_sd", "greedy_error_mean"):
        assert 0.0 <= printed[name] <= 1.0
    assert printed["rounds_per_second"] > 0.0


def test_run_prints_the_error_for_people(call: Call) -> None:
    code, out, err = call("run", "bpa", "synsep10", *SHORT, "--runs", "2", "--set", "aggressiveness=0.001")
    assert (code, err) == (0, "")
    printed = json.loads(
        call("run", "bpa", "synsep10", *SHORT, "--runs", "2", "--set", "aggressiveness=0.001", "--json")[1]
    )
    assert "bpa on synsep10: 2 x 200 rounds" in out
    assert "aggressiveness 0.001" in out
    assert f"{100 * printed['error_mean']:.2f} %" in out
    assert f"sd {100 * printed['error_sd']:.2f}" in out
    assert f"{100 * printed['greedy_error_mean']:.2f} %" in out


def test_run_equals_the_function_of_the_package(call: Call, file: str) -> None:
    import onebit

    _, out, _ = call("run", "bpa", file, "--rounds", "90", "--runs", "2", "--seed", "3", "--order", "shuffle", "--json")
    result = onebit.run("bpa", file, rounds=90, runs=2, seed=3, order="shuffle")
    printed = json.loads(out)
    assert printed["errors"] == result.errors.tolist()
    assert printed["greedy_errors"] == result.greedy_errors.tolist()
    assert printed["data"] == file


def test_run_takes_the_rows_of_a_file_as_rounds(call: Call, file: str) -> None:
    assert json.loads(call("run", "bpa", file, "--json")[1])["rounds"] == 60
    assert json.loads(call("run", "bpa", file, "--json", "--rounds", "1_000")[1])["rounds"] == 1000
    assert json.loads(call("run", "bpa", file, "--json", "--rounds", "1,000")[1])["rounds"] == 1000


def test_run_reads_a_sparse_file(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "sparse.npz"
    np.savez(path, data=np.ones(4), indices=[0, 1, 0, 1], indptr=range(5), shape=[4, 2], y=["no", "yes"] * 2)
    printed = json.loads(call("run", "bpa", str(path), "--json")[1])
    assert (printed["rounds"], printed["data"]) == (4, str(path))


def test_run_shows_what_was_set_and_what_the_run_itself_supplied(call: Call) -> None:
    _, out, _ = call(
        "run",
        "conservative-ova",
        "synsep10",
        *SHORT,
        "--json",
        "--set",
        "variant=PA-II",
        "--set",
        "guess_if_all_negative=true",
    )
    params = json.loads(out)["params"]
    assert params["variant"] == "PA-II"
    assert params["guess_if_all_negative"] is True
    params = json.loads(call("run", "gaptron", "synsep10", *SHORT, "--json", "--set", "rate=none")[1])["params"]
    assert params["horizon"] == 200


@pytest.mark.parametrize(("option", "value"), [("bias", True), ("dtype", "float64"), ("space", "sparse")])
def test_run_shows_the_common_options_that_were_set(call: Call, option: str, value: Any) -> None:
    """They change the numbers, so a result that does not say so cannot be repeated."""
    _, out, _ = call("run", "bpa", "synsep10", *SHORT, "--json", "--set", f"{option}={json.dumps(value)}")
    assert value in (json.loads(out).get(option), json.loads(out)["params"].get(option))


# --- --set -------------------------------------------------------------------------------------------------------------


def test_settings_read_numbers_words_and_json() -> None:
    given = [
        "a=1",
        "b=.5",
        "c=1e-3",
        "d=true",
        "e=none",
        "f=None",
        "g=null",
        "h=PA-I",
        "i=[[1,-1],[-1,1]]",
        "j=a=b",
        "k=",
        "l=-2",
    ]
    assert parse_settings(given) == {
        "a": 1,
        "b": 0.5,
        "c": 0.001,
        "d": True,
        "e": None,
        "f": None,
        "g": None,
        "h": "PA-I",
        "i": [[1, -1], [-1, 1]],
        "j": "a=b",
        "k": "",
        "l": -2,
    }


@pytest.mark.parametrize("text", ["True", "False", "yes", "no"])
def test_words_for_yes_and_no_are_understood_or_refused(call: Call, text: str) -> None:
    """`bias=no` must not switch the bias on."""
    code, out, _ = call("run", "bpa", "synsep10", *SHORT, "--json", "--set", f"bias={text}")
    with_bias = json.loads(call("run", "bpa", "synsep10", *SHORT, "--json", "--set", "bias=true")[1])
    without = json.loads(call("run", "bpa", "synsep10", *SHORT, "--json")[1])
    assert with_bias["errors"] != without["errors"]
    if code == 0:
        expected = with_bias if text in ("True", "yes") else without
        assert json.loads(out)["errors"] == expected["errors"]


def test_whole_numbers_are_read_with_separators() -> None:
    assert (parse_count("0"), parse_count("1_000"), parse_count("1,000"), parse_positive("7")) == (
        0,
        1000,
        1000,
        7,
    )
    assert parse_count("1e5") == 100_000
    for bad in ("1.5", "1e-3", "", "x", "--1", "nan", "inf"):
        with pytest.raises(argparse.ArgumentTypeError, match="not a whole number"):
            parse_count(bad)
    with pytest.raises(argparse.ArgumentTypeError, match="negative"):
        parse_count("-1")
    with pytest.raises(argparse.ArgumentTypeError, match="at least 1"):
        parse_positive("0")


# --- compare and warmup ------------------------------------------------------------------------------------------------


def test_compare_prints_a_table_sorted_by_error(call: Call, tmp_path: Path) -> None:
    learners = "banditron,bpa,bpa:aggressiveness=0.001"
    arguments = [
        "compare",
        "synsep10",
        "--rounds",
        "3000",
        "--runs",
        "2",
        "--learners",
        learners,
        "--out",
        str(tmp_path),
    ]
    code, out, err = call(*arguments)
    assert (code, err) == (0, "")
    printed = json.loads(call(*arguments, "--json")[1])
    (scene,) = printed["data"]
    errors = [one["error"]["mean"] for one in scene["standings"]]
    assert errors == sorted(errors)
    assert len(errors) == 3
    rows_shown = [line for line in out.splitlines() if line.startswith(" ") and ("banditron" in line or "bpa" in line)]
    assert f"{100 * errors[0]:.2f}" in rows_shown[0]
    assert len(rows_shown) == 3
    assert f"page: {tmp_path / 'page.html'}" in out


def test_compare_of_all_learners_names_every_one(call: Call, file: str, tmp_path: Path) -> None:
    code, out, _ = call("compare", file, "--runs", "1", "--rounds", "30", "--json", "--out", str(tmp_path / "out"))
    assert code == 0
    summaries = json.loads(out)["data"][0]["standings"]
    assert {one["learner"] for one in summaries} == set(registry())
    assert [one["learner"] for one in summaries].count("bpa") == 3, "with defaults, and with small and large steps"


def test_warmup_says_what_was_done(call: Call) -> None:
    code, out, err = call("warmup", "banditron", "bpa")
    assert (code, err) == (0, "")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        f"{name}, {space}" for name in ("banditron", "bpa") for space in ("dense", "sparse")
    ]
    code, out, err = call("warmup", "banditron", "--json")
    assert (code, err) == (0, "")
    for row in json.loads(out):
        assert row["rule"] == "banditron"
        assert row["space"] in ("dense", "sparse")
        assert row["dtype"] == "float32"
        assert row["was_compiled"] is True
        assert row["seconds"] >= 0.0


@slow
def test_warmup_of_several_new_learners_shares_them_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path))
    rules = [rule_named(name) for name in ("passive-aggressive", "perceptron")]
    for ready in (False, True):
        rows = list(compile_all(rules, "float64", processes=2))
        pairs = [(rule.name, space) for rule in rules for space in ("dense", "sparse")]
        assert [(row["rule"], row["space"]) for row in rows] == pairs
        assert {row["was_compiled"] for row in rows} == {ready}
    assert multiprocessing.active_children() == []


# --- bad input ---------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[list[str], list[str]]] = {
    "no such command": (["lerners"], ["'lerners'", "did you mean 'learners'?"]),
    "no rule and no data": (["run"], ["DATA"]),
    "no data": (["run", "bpa"], ["DATA is missing", "'bpa' is a learner"]),
    "unknown option": (["run", "bpa", "synsep10", "--round", "5", "--foo"], ["--foo"]),
    "unknown rule": (["run", "bandtron", "synsep10"], ["'bandtron'", "'banditron'"]),
    "unknown data": (["run", "bpa", "synsep1"], ["'synsep1'", "'synsep10'"]),
    "no file": (["run", "bpa", "nowhere.npz"], ["nowhere.npz"]),
    "a file that is not there": (["run", "bpa", "data.csv"], ["no file data.csv"]),
    "rounds 0": (["run", "bpa", "synsep10", "--rounds", "0"], ["--rounds", "'0'"]),
    "rounds word": (["run", "bpa", "synsep10", "--rounds", "many"], ["--rounds", "'many'"]),
    "rounds negative": (["run", "bpa", "synsep10", "--rounds", "-5"], ["--rounds"]),
    "rounds beyond memory": (
        ["run", "bpa", "synsep10", "--order", "shuffle", "--rounds", "99999999999999"],
        ["99,999,999,999,999 rounds", "GB of memory"],
    ),
    "runs 0": (["run", "bpa", "synsep10", "--runs", "0"], ["--runs", "'0'"]),
    "seed negative": (["run", "bpa", "synsep10", "--seed", "-1"], ["--seed"]),
    "seed too large": (["run", "bpa", "synsep10", "--rounds", "5", "--seed", str(2**63)], ["seed", str(2**63)]),
    "seed word": (["run", "bpa", "synsep10", "--seed", "x"], ["--seed", "'x'"]),
    "set without value": (["run", "bpa", "synsep10", "--set", "exploration"], ["'exploration'", "name=value"]),
    "set without name": (["run", "bpa", "synsep10", "--set", "=1"], ["'=1'"]),
    "set twice": (
        ["run", "bpa", "synsep10", "--set", "exploration=0", "--set", "exploration=0.1"],
        ["exploration", "twice"],
    ),
    "set unknown": (["run", "bpa", "synsep10", *SHORT, "--set", "exploraton=1"], ["'exploraton'", "'exploration'"]),
    "set out of range": (["run", "bpa", "synsep10", *SHORT, "--set", "exploration=2"], ["exploration is 2", "[0, 1)"]),
    "set not a number": (["run", "bpa", "synsep10", *SHORT, "--set", "exploration=nan"], ["exploration is nan"]),
    "set a word": (["run", "bpa", "synsep10", *SHORT, "--set", "exploration=much"], ["exploration", "'much'"]),
    "set nothing": (["run", "bpa", "synsep10", *SHORT, "--set", "exploration="], ["exploration", "''"]),
    "set a huge number": (["run", "bpa", "synsep10", *SHORT, "--set", "exploration=" + "9" * 400], ["exploration"]),
    "set deep json": (["run", "bpa", "synsep10", *SHORT, "--set", "variant=" + "[" * 100_000], ["variant"]),
    "set no such way": (["run", "bpa", "synsep10", *SHORT, "--set", "variant=PA-III"], ["'PA-III'", "PA-II"]),
    "set dtype": (["run", "bpa", "synsep10", *SHORT, "--set", "dtype=float16"], ["'float16'"]),
    "set features": (["run", "bpa", "synsep10", *SHORT, "--set", "features=5"], ["5"]),
    "set text": (["run", "bpa", "synsep10", *SHORT, "--set", "text=true"], ["x is a"]),
    "set runs": (["run", "bpa", "synsep10", *SHORT, "--set", "runs=3"], ["runs"]),
    "set seed": (["run", "bpa", "synsep10", *SHORT, "--set", "seed=3"], ["seed"]),
    "set rounds": (["run", "bpa", "synsep10", *SHORT, "--set", "rounds=3"], ["rounds"]),
    "set shuffle": (["run", "bpa", "synsep10", *SHORT, "--set", "shuffle=true"], ["shuffle"]),
    "set progress": (["run", "bpa", "synsep10", *SHORT, "--set", "progress=1"], ["progress"]),
    "set threads": (["run", "bpa", "synsep10", *SHORT, "--set", "threads=-1"], ["threads"]),
    "set learner": (["run", "bpa", "synsep10", *SHORT, "--set", "learner=bpa"], ["learner"]),
    "set rule": (["run", "bpa", "synsep10", *SHORT, "--set", "rule=bpa"], ["rule"]),
    "set self": (["run", "bpa", "synsep10", *SHORT, "--set", "self=1"], ["self"]),
    "set X": (["run", "bpa", "synsep10", *SHORT, "--set", "X=1"], ["X"]),
    "set y": (["run", "bpa", "synsep10", *SHORT, "--set", "y=1"], ["y"]),
    "set classes": (["run", "bpa", "synsep10", *SHORT, "--set", "classes=5"], ["classes"]),
    "compare nothing": (["compare", "nothing"], ["'nothing'"]),
    "compare unknown": (["compare", "synsep10", "--learners", "banditron,bpp"], ["'bpp'", "'bpa'"]),
    "compare learners without commas": (
        ["compare", "iris", "--learners", "bpa", "banditron"],
        ["'banditron' is a learner", "separated by commas"],
    ),
    "compare nobody": (["compare", "synsep10", "--learners", ","], ["learner"]),
    "compare runs": (["compare", "synsep10", "--runs", "0"], ["--runs"]),
    "warmup unknown": (["warmup", "bandtron"], ["'bandtron'", "'banditron'"]),
    "warmup dtype": (["warmup", "--dtype", "float16"], ["'float16'"]),
    "no such learner": (["learners", "bandtron"], ["'bandtron'", "'banditron'"]),
    "two lines": (["learners", "one\ntwo"], ["one"]),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(call: Call, arguments: list[str], words: list[str]) -> None:
    code, out, err = call(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("onebit")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


FILES: dict[str, dict[str, Any]] = {
    "nan": {"X": [[1.0, 2.0], [3.0, np.nan]], "y": [0, 1]},
    "lengths": {"X": np.eye(3), "y": [0, 1]},
    "one class": {"X": np.eye(2), "y": [0, 0]},
    "labels": {"X": np.eye(2), "y": [0.5, 1.0]},
    "nan labels": {"X": np.eye(2), "y": [np.nan, 1.0]},
    "outside": {"X": np.eye(2), "y": [0, 5], "classes": ["a", "b"]},
    "no rows": {"X": np.zeros((0, 2)), "y": np.zeros(0)},
    "a number": {"X": 5.0, "y": [0, 1]},
    "words": {"X": [["a"], ["b"]], "y": [0, 1]},
    "no y": {"X": np.eye(2)},
    "csr index": {"data": [1.0], "indices": [7], "indptr": [0, 1, 1], "shape": [2, 2], "y": [0, 1]},
    "csr shape": {"data": [1.0], "indices": [0], "indptr": [0, 1, 1], "shape": 2, "y": [0, 1]},
}


@pytest.mark.parametrize("parts", FILES.values(), ids=FILES)
@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.filterwarnings("default")
def test_a_bad_file_is_one_line_on_stderr_and_exit_code_2(
    call: Call, tmp_path: Path, command: str, parts: dict[str, Any]
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, **parts)
    code, out, err = call(*([command, "bpa"] if command == "run" else [command, "--learners", "bpa"]), str(path))
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1, err


def test_a_csr_file_for_a_learner_of_names_is_refused(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, data=[1.0], indices=[0], indptr=[0, 1, 1], shape=[2, 2], y=[0, 1])
    code, out, err = call("run", "bpa", str(path), "--set", "text=true")
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_bad_input_in_a_real_process_leaves_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, X=[[1.0, 2.0], [3.0, 1e300]], y=[0.0, np.nan])
    answer = another_process("run", "bpa", str(path))
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1, answer.stderr


# --- pipes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["learners"], ["learners", "--json"], ["--version"], ["run", "bpa", "synsep10", *SHORT]]
)
def test_a_reader_that_has_gone_is_no_error(arguments: list[str]) -> None:
    """The pipe is closed before anything is written, which `head -1` may or may not manage to do."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = another_process(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert answer.stderr == ""
    assert answer.returncode in (0, 141), "as a program that wrote all, or as one that SIGPIPE ended"


def test_the_first_line_of_the_learners_is_read_through_a_pipe() -> None:
    program = "import sys; from onebit.cli import main; sys.exit(main())"
    answer = subprocess.run(
        f"{sys.executable} -c '{program}' learners | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("arow ")
    assert answer.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["learners", "--json"], ["--version"]])
def test_a_full_disk_is_an_error_and_no_traceback(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        answer = another_process(*arguments, stdout=full)
    assert answer.returncode not in (0, None)
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.splitlines()) == 1, answer.stderr


def test_the_command_of_the_package_is_installed() -> None:
    script = Path(sys.executable).with_name("onebit")
    if not script.exists():
        pytest.skip("the package was not installed with its command")
    answer = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout == f"onebit {VERSION}\n"


@pytest.mark.parametrize(("code", "at_work", "left"), [(130, True, True), (130, False, False), (2, True, False)])
def test_the_program_ends_after_ctrl_c_whatever_a_thread_is_at(
    code: int, at_work: bool, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python would wait at its end for what a thread is at in a library, for seconds."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="onebit-trial" if at_work else "of somebody else", daemon=True)
    thread.start()

    def leave(number: int) -> None:
        raise ZeroDivisionError(number)

    monkeypatch.setattr("onebit.cli.main", lambda: code)
    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(ZeroDivisionError if left else SystemExit, match=str(code)):
        console()
    ended.set()
    thread.join()
