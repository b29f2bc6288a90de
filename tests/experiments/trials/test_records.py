"""Result folders: append-only, what is done is not done again, what is cut or failed is; and a row is enough to repeat it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused, rows
from onebit.engine.compile import code_mark
from onebit.experiments.executors import make_executor
from onebit.experiments.trials import Trial, make_entry
from onebit.experiments.trials.records import FILE, HEADER, Record, Records, frame, read_records
from onebit.rules import rule_named
from tests.experiments.executors.helpers import collect

X, Y = rows(60)
SHORT: dict[str, Any] = {"rounds": 120, "runs": 3}


def lines(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder without its head."""
    head, *rest = (folder / FILE).read_text(encoding="utf-8").splitlines()
    assert json.loads(head) == HEADER
    return [json.loads(line) for line in rest]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The rows of the trials that were really run since the test began."""
    seen: list[Record] = []
    add = Records.add

    def counted(self: Records, row: Record) -> None:
        seen.append(row)
        add(self, row)

    monkeypatch.setattr(Records, "add", counted)
    return seen


def compared(folder: Path, *learners: Any, **settings: Any) -> onebit.Comparison:
    return onebit.compare("synsep9", learners, out=folder, **{**SHORT, **settings})


# --- append-only, and not again ----------------------------------------------------------------------------------------


def test_rows_are_appended_and_what_is_there_stays(tmp_path: Path) -> None:
    before = b""
    for learners in (["bpa"], ["bpa", "banditron"], ["banditron"], ["perceptron", "bpa"]):
        compared(tmp_path, *learners)
        after = (tmp_path / FILE).read_bytes()
        assert after.startswith(before)
        assert after.endswith(b"\n")
        before = after
    assert len(lines(tmp_path)) == 9
    assert len({row["id"] for row in lines(tmp_path)}) == 9


def test_what_is_done_is_not_done_again(tmp_path: Path, ran: list[Record]) -> None:
    first = compared(tmp_path, "bpa", "banditron")
    assert len(ran) == 6
    ran.clear()
    again = compared(tmp_path, "banditron", "bpa")
    assert ran == []
    assert first[0].to_dict() == again[0].to_dict()
    more = compared(tmp_path, "bpa", "banditron", runs=5)
    assert sorted((row.learner, row.seed) for row in ran) == [
        ("banditron", 3), ("banditron", 4), ("bpa", 3), ("bpa", 4),
    ]  # fmt: skip
    assert more[0].summaries[0].errors[:3].tolist() == first[0].summaries[0].errors.tolist()


def test_a_folder_gives_what_no_folder_gives(tmp_path: Path) -> None:
    def plain(found: onebit.Comparison) -> list[Any]:
        return [(one.entry.title, one.errors.tolist(), one.curve("greedy").tolist()) for one in found[0].summaries]

    kept = compared(tmp_path, "bpa", "perceptron")
    assert plain(kept) == plain(onebit.compare("synsep9", ["bpa", "perceptron"], **SHORT))
    assert plain(kept) == plain(compared(tmp_path, "bpa", "perceptron")), "as read from the file"


def test_progress_counts_what_is_there_too(tmp_path: Path) -> None:
    for _ in range(2):
        seen: list[int] = []
        compared(tmp_path, "bpa", progress=seen.append)
        assert sum(seen) == 360


def test_compare_sweep_and_reproduce_share_a_folder(tmp_path: Path, ran: list[Record]) -> None:
    compared(tmp_path, ("bpa", {"aggressiveness": 0.01}), runs=2)
    ran.clear()
    onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.01, 1.0]}, out=tmp_path, rounds=120, runs=2, fresh_runs=1)
    tuned = sorted((row.options["aggressiveness"], row.seed) for row in ran if row.seed < 2)
    assert tuned == [(1.0, 0), (1.0, 1)]
    assert len(ran) == 3


# --- failures ----------------------------------------------------------------------------------------------------------


def test_a_failed_row_says_why_and_is_run_again(tmp_path: Path, ran: list[Record]) -> None:
    long = X.copy()
    long[41] *= 1e25
    for turn in range(1, 3):
        said = refused(lambda: onebit.compare((long, Y), ["bpa", "banditron"], runs=2, out=tmp_path))
        assert "every run failed" in said
        assert [("row 41" in row["why"], row["why"] in said) for row in lines(tmp_path)[-4:]] == [(True, True)] * 4
        assert len(ran) == 4 * turn
    row = lines(tmp_path)[0]
    assert (row["error"], row["curve"], row["feedback"]) == (None, None, None)


def test_the_frame_of_a_folder_has_one_line_a_trial(tmp_path: Path) -> None:
    long = X.copy()
    long[41] *= 1e25
    for _ in range(2):
        assert "every run failed" in refused(lambda: onebit.compare((long, Y), ["bpa"], runs=2, out=tmp_path))
    assert len(frame(tmp_path)) == 2


# --- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2, 40, 500])
def test_a_line_that_a_crash_has_cut_is_left_alone_and_its_trial_run_again(
    tmp_path: Path, ran: list[Record], cut: int
) -> None:
    first = compared(tmp_path, "bpa")
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    ran.clear()
    again = compared(tmp_path, "bpa")
    assert again[0].summaries[0].errors.tolist() == first[0].summaries[0].errors.tolist()
    after = path.read_bytes()
    assert after.startswith(whole[:-cut])
    assert after.endswith(b"\n")
    assert len(ran) == (0 if cut == 1 else 1), "all but the end of the line was there, or not"
    ran.clear()
    compared(tmp_path, "bpa")
    assert ran == []
    assert path.read_bytes() == after


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    compared(tmp_path, "bpa")
    assert len(lines(tmp_path)) == 3


def test_noise_in_the_middle_of_the_file_is_skipped(tmp_path: Path, ran: list[Record]) -> None:
    compared(tmp_path, "bpa")
    path = tmp_path / FILE
    head, *rest = path.read_bytes().splitlines(keepends=True)
    rubbish = b'\n\x00\xff\n[1,2]\n"text"\n{"id":5,"why":null}\n{"id":"x"}\nnull\n'
    path.write_bytes(head + rest[0] + rubbish + b"".join(rest[1:]))
    ran.clear()
    compared(tmp_path, "bpa")
    assert ran == []
    assert len(frame(tmp_path)) == 3


def test_a_row_that_lacks_its_curve_is_run_again(tmp_path: Path, ran: list[Record]) -> None:
    compared(tmp_path, "bpa")
    kept = [json.dumps({"id": row["id"], "why": None}) for row in lines(tmp_path)]
    (tmp_path / FILE).write_text("\n".join([json.dumps(HEADER), *kept]) + "\n")
    ran.clear()
    compared(tmp_path, "bpa")
    assert len(ran) == 3


FULL = """
import resource, sys
import onebit
onebit.compare("synsep9", ["bpa"], rounds=120, runs=2, out=sys.argv[1])
size = __import__("os").path.getsize(sys.argv[1] + "/rows.jsonl")
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
try:
    onebit.compare("synsep9", ["bpa"], rounds=120, runs=5, threads=1, out=sys.argv[1])
except onebit.OnebitError as error:
    print(error)
"""


def test_a_full_disk_is_a_sentence_and_what_was_there_is_kept(tmp_path: Path) -> None:
    """A file that may not grow stands for the full disk."""
    answer = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert len(list(read_records(tmp_path / FILE))) == 2
    assert "Traceback" not in answer.stderr, answer.stderr[-300:]
    assert answer.stdout.startswith(f"the results cannot be written to {tmp_path}: ")
    compared(tmp_path, "bpa", runs=5)
    assert len(list(read_records(tmp_path / FILE))) == 5


# --- foreign files, unusable folders -----------------------------------------------------------------------------------

FOREIGN: dict[str, bytes] = {
    "text": b"hello\n",
    "a table": b"a,b\n1,2\n",
    "other json": b'{"some":"thing"}\n',
    "a list": b"[]\n",
    "a number": b"5\n",
    "binary": bytes(range(256)),
    "zeros": bytes(5000),
    "other rows": b'{"onebit":"learner","format":1}\n',
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes, ran: list[Record]) -> None:
    (tmp_path / FILE).write_bytes(content)
    for action in (lambda: compared(tmp_path, "bpa"), lambda: frame(tmp_path)):
        sentence = refused(action)
        assert str(tmp_path / FILE) in sentence
        assert "another folder" in sentence
    assert (tmp_path / FILE).read_bytes() == content
    assert ran == []


@pytest.mark.parametrize(
    "head",
    [
        b'{"onebit":"rows","format":2}\n',
        b'{"onebit":"rows","format":"x"}\n',
        pytest.param(
            b'{"onebit":"rows"}\n',
        ),
    ],
)
def test_a_file_of_another_format_is_refused_and_left_alone(tmp_path: Path, head: bytes) -> None:
    (tmp_path / FILE).write_bytes(head)
    assert "another version" in refused(lambda: compared(tmp_path, "bpa"))
    assert (tmp_path / FILE).read_bytes() == head


def test_a_folder_that_cannot_be_is_refused_before_anything_runs(tmp_path: Path, ran: list[Record]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    for folder in (file, file / "below", tmp_path / "folder"):
        sentence = refused(lambda folder=folder: compared(folder, "bpa"))  # type: ignore[misc]
        assert str(folder) in sentence
        assert "cannot be written" in sentence
    assert file.read_text() == "mine"
    assert ran == []


def test_folders_are_made_where_they_are_missing(tmp_path: Path) -> None:
    compared(tmp_path / "a" / "b", "bpa")
    assert len(lines(tmp_path / "a" / "b")) == 3


def test_a_frame_of_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    assert FILE in refused(lambda: frame(tmp_path))
    assert FILE in refused(lambda: frame(tmp_path / "nowhere"))


# --- what a trial is ---------------------------------------------------------------------------------------------------


def identity(learner: Any = "bpa", options: dict[str, Any] | None = None, seed: int = 0, **settings: Any) -> str:
    return Trial(make_entry(learner, options), onebit.stream("synsep9", **{"rounds": 100, **settings}), seed).identity


def test_a_trial_is_known_by_what_it_is() -> None:
    assert identity() == identity()
    assert identity() == identity(onebit.BPA) == identity(onebit.rules.rule_named("bpa"))
    default = onebit.rules.rule_named("bpa").defaults["exploration"]
    assert identity() == identity(options={"exploration": default})
    assert identity(options={"aggressiveness": 1}) == identity(options={"aggressiveness": 1.0})
    both = {"aggressiveness": 0.1, "exploration": 0.2}
    assert identity(options=both) == identity(options=dict(reversed(both.items())))
    assert identity(delay=0) == identity()


CHANGES: list[dict[str, Any]] = [
    {"learner": "banditron"},
    {"options": {"aggressiveness": 0.3}},
    {"options": {"exploration": 0.3}},
    {"options": {"dtype": "float64"}},
    {"options": {"bias": True}},
    {"seed": 1},
    {"rounds": 101},
    {"prepare": "scale"},
    {"prepare": "scale,unit-norm"},
    {"prepare": "unit-norm,scale"},
    {"noise": 0.1},
    {"missing": 0.1},
    {"drift": "abrupt:0.3"},
    {"drift": "gradual"},
    {"delay": 3},
    {"delay": "geometric:3"},
    {"delay": "heavy-tail:3"},
    {"order": "resample"},
    {"order": "shuffle"},
]


def test_every_change_of_a_trial_makes_it_another() -> None:
    found = [identity(), *(identity(**change) for change in CHANGES)]
    assert len(set(found)) == len(found)


def test_a_trial_is_the_same_in_any_process() -> None:
    program = (
        "import onebit; from onebit.experiments.trials import Trial, make_entry;"
        "streamed = onebit.stream('synsep9', rounds=100, noise=0.1, delay=3);"
        "print(*(Trial(make_entry(name), streamed, 3).identity for name in ('bpa', 'gaptron', 'offset-tree')))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    here = [identity(name, seed=3, noise=0.1, delay=3) for name in ("bpa", "gaptron", "offset-tree")]
    assert found == {" ".join(here) + "\n"}


def test_another_version_or_other_code_makes_it_another(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    with monkeypatch.context() as patched:
        patched.setattr("onebit.experiments.trials.VERSION", "99.0")
        assert identity() != before
    with monkeypatch.context() as patched:
        patched.setattr("onebit.experiments.trials.code_mark", lambda rule: "edited")
        assert identity() != before
    assert identity() == before


def test_arrays_are_known_by_their_content(tmp_path: Path) -> None:
    def of(X: Any, y: Any, **settings: Any) -> str:
        return Trial(make_entry("bpa"), onebit.stream(X, y, **settings), 0).identity

    other = X.copy()
    other[3, 2] += 1e-9
    assert of(X, Y) == of(X.copy(), Y.copy())
    assert len({of(X, Y), of(other, Y), of(X, Y[::-1]), of(X, Y, classes=range(6)), of(X[:50], Y[:50])}) == 5
    dicts = [{"a": 1.0}, {"b": 2.0}]
    assert of(dicts, [0, 1]) != of(dicts[::-1], [0, 1])


def test_a_file_that_was_changed_is_another(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    found = set()
    for turn in range(2):
        np.savez(path, X=X, y=Y)
        os.utime(path, ns=(turn, turn))
        found.add(Trial(make_entry("bpa"), onebit.stream(str(path)), 0).identity)
    assert len(found) == 2


def test_classes_given_with_a_file_make_it_another(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    np.savez(path, X=X, y=Y)
    plain, more = onebit.stream(str(path)), onebit.stream(str(path), classes=range(7))
    assert onebit.run("bpa", plain).error != onebit.run("bpa", more).error
    assert plain.described() != more.described()


def test_rows_do_not_depend_on_the_place_in_the_list(tmp_path: Path, ran: list[Record]) -> None:
    one = compared(tmp_path / "one", "bpa", "banditron", "perceptron")
    other = compared(tmp_path / "other", "perceptron", "bpa", "banditron", threads=1)
    by_id = [{row["id"]: row["error"] for row in lines(tmp_path / name)} for name in ("one", "other")]
    assert by_id[0] == by_id[1]
    assert [s.entry.title for s in one[0].summaries] == [s.entry.title for s in other[0].summaries]


# --- a row is enough ---------------------------------------------------------------------------------------------------


def test_a_row_holds_all_that_is_needed_to_repeat_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "noise": 0.1, "drift": "gradual:0.2..0.6", "delay": "geometric:4", "missing": 0.1, "order": "shuffle",
        "prepare": "unit-norm",
    }  # fmt: skip
    compared(tmp_path, ("bpa", {"aggressiveness": 0.3, "bias": True}), "gaptron", "perceptron", seed=11, **settings)
    assert len(lines(tmp_path)) == 9
    for row in lines(tmp_path):
        streamed = dict(row["stream"])
        result = onebit.run(row["learner"], streamed.pop("data"), seed=row["seed"], **row["options"], **streamed)
        assert result.error == row["error"]
        assert result.greedy_error == row["greedy_error"]
        assert (result.curve.played[0] * result.curve.rounds).round().astype(int).tolist() == row["curve"]["played"]
        assert (result.curve.greedy[0] * result.curve.rounds).round().astype(int).tolist() == row["curve"]["greedy"]
        assert result.params == row["params"]


def test_a_row_of_a_file_holds_all_that_is_needed_to_repeat_it(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    words = ["red", "green"]
    text = "\n".join(
        f"{x[0]:.3f},{words[index % 2]},{x[1]:.3f},t{label}" for index, (x, label) in enumerate(zip(X, Y, strict=True))
    )
    path.write_text(f"a,colour,b,team\n{text}\n")
    onebit.compare(str(path), ["bpa"], label="team", categorical=["colour"], out=tmp_path, runs=2)
    for row in lines(tmp_path):
        streamed = {name: value for name, value in row["stream"].items() if name not in ("size", "modified")}
        result = onebit.run(row["learner"], streamed.pop("data"), seed=row["seed"], **row["options"], **streamed)
        assert result.error == row["error"]


def test_the_parameters_of_a_row_are_all_of_them(tmp_path: Path) -> None:
    """Also those that the rule planned for this run, and those left to their defaults."""
    compared(tmp_path, "gaptron", ("conservative-ova", {"variant": "PA-II", "dtype": "float64"}), runs=1)
    by_name = {row["learner"]: row for row in lines(tmp_path)}
    assert by_name["gaptron"]["params"]["horizon"] == 120
    assert by_name["gaptron"]["options"] == {}
    params = by_name["conservative-ova"]["params"]
    assert (params["variant"], params["dtype"]) == ("PA-II", "float64")
    assert set(onebit.rules.rule_named("conservative-ova").parameters) <= set(params)
    for row in by_name.values():
        assert row["platform"].startswith(f"onebit {onebit.__version__}, Python ")
        assert row["code"]
        assert row["written"].startswith("20")
        assert row["seconds"] > 0
        assert row["on"] == "CPU"
        assert row["feedback"] == "bandit"


def test_numbers_of_numpy_are_written_as_numbers(tmp_path: Path) -> None:
    compared(tmp_path, ("bpa", {"aggressiveness": np.float32(0.5)}), ("bpa", {"exploration": np.float64(0.5)}), runs=1)
    assert sorted(row["options"].popitem() for row in lines(tmp_path)) == [
        ("aggressiveness", 0.5),
        ("exploration", 0.5),
    ]


def test_a_name_that_is_no_text_is_no_traceback(tmp_path: Path) -> None:
    """Linux file names are bytes: one in Latin-1 cannot be read as UTF-8."""
    path = tmp_path / os.fsdecode(b"caf\xe9.npz")
    try:
        np.savez(path, X=X, y=Y)
    except OSError:
        pytest.skip("this file system has names of text only")
    found = onebit.compare(str(path), ["bpa"], runs=1, out=tmp_path / "out")
    assert onebit.compare(str(path), ["bpa"], runs=1, out=tmp_path / "out")[0].to_dict() == found[0].to_dict()


# --- the frame ---------------------------------------------------------------------------------------------------------


def test_a_frame_has_a_line_a_run_and_columns_for_all_that_it_was(tmp_path: Path) -> None:
    found = compared(tmp_path, ("bpa", {"aggressiveness": 0.3}), "banditron", noise=0.1)
    table = frame(tmp_path)
    assert len(table) == 6
    needed = {
        "id", "learner", "options", "seed", "feedback", "why", "error", "greedy_error", "curve", "seconds", "on", "platform", "code",
        "written", "params.aggressiveness", "params.exploration", "stream.data", "stream.rounds", "stream.noise", "stream.order",
    }  # fmt: skip
    assert needed <= set(table.columns)
    assert set(table["stream.data"]) == {"synsep9"}
    assert set(table["stream.noise"]) == {0.1}
    mine = table[table["learner"] == "bpa"].sort_values("seed")
    assert set(mine["params.aggressiveness"]) == {0.3}
    summary = next(one for one in found[0].summaries if one.entry.rule.name == "bpa")
    assert mine["error"].tolist() == summary.errors.tolist()
    assert sorted(found.frame()["id"]) == sorted(table["id"])


# --- collect -----------------------------------------------------------------------------------------------------------


def test_a_trial_that_is_there_twice_is_run_once(ran: list[Record]) -> None:
    trial, twin = (Trial(make_entry("bpa"), onebit.stream("synsep9", rounds=50), 3) for _ in range(2))
    found = collect([trial, twin, trial], Records(None), make_executor(threads=2))
    assert len(ran) == 1
    assert len(found.records_of([trial, twin])) == 2
    assert found.records_of([Trial(make_entry("bpa"), trial.stream, 4)]) == []


def test_a_change_to_the_spaces_of_one_rule_makes_no_run_of_another_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Auto brings spaces of its own, and other rules have the common ones."""

    def other_score(space: Any, rows: Any, row: int, scores: Any) -> float:
        return 0.0

    def marks() -> tuple[str, ...]:
        code_mark.cache_clear()
        return tuple(code_mark(rule_named(name)) for name in ("auto", "bpa", "linucb"))

    before = marks()
    with monkeypatch.context() as patched:
        patched.setattr("onebit.auto.dense.space.score", other_score)
        auto, *others = marks()
    assert auto != before[0]
    assert tuple(others) == before[1:]
    with monkeypatch.context() as patched:
        patched.setattr("onebit.spaces.diagonal_dense.score", other_score)
        _, bpa, linucb = marks()
    assert linucb != before[2]
    assert bpa != before[1]  # any common space
    assert marks() == before
