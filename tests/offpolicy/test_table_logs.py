"""Logs as tables with named columns: CSV and Parquet give the same rounds, and what cannot be one is refused with its row."""

from __future__ import annotations

import datetime
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet

import onebit
from onebit.offpolicy import Log, evaluate, read_log, train
from onebit.offpolicy import table_logs as tables

TABLE: dict[str, list[Any]] = {
    "who": ["a", "b", "c", "d"],
    "age": [1.5, 2.0, 3.0, 4.0],
    "member": [True, False, True, True],
    "city": ["Rome", "Oslo", "Rome", "Bern"],
    "note": ["late goal", "new law", "cup final", ""],
    "shown": ["sport", "news", "sport", "news"],
    "clicked": [1, 0, 1, None],
    "chance": [0.5, 0.25, 0.75, 0.5],
}
NAMES: dict[str, Any] = {"action": "shown", "right": "clicked", "propensity": "chance", "id": "who"}


def csv_of(table: dict[str, list[Any]]) -> str:
    rows = [",".join("" if one is None else str(one) for one in cells) for cells in zip(*table.values(), strict=True)]
    return "\n".join([",".join(table), *rows]) + "\n"


def written(folder: Path, form: str, table: dict[str, list[Any]]) -> Path:
    path = folder / f"log{form}"
    if form == ".parquet":
        parquet.write_table(arrow.table(table), path)
    elif form == ".csv.gz":
        path.write_bytes(gzip.compress(csv_of(table).encode()))
    else:
        path.write_text(csv_of(table).replace(",", "\t") if form == ".tsv" else csv_of(table))
    return path


def plain(log: Log) -> list[tuple[Any, ...]]:
    return [(one.id, one.x.tolist() if isinstance(one.x, np.ndarray) else one.x, *one[2:6]) for one in log]


FORMS = [".csv", ".tsv", ".csv.gz", ".parquet"]


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_an_array(form: str, tmp_path: Path) -> None:
    log = read_log(written(tmp_path, form, TABLE), x=["age", "member"], **NAMES)
    assert (log.classes, len(log), log.unanswered, log.text) == (("news", "sport"), 3, 1, False)
    assert plain(log) == [
        ("a", [1.5, 1.0], "sport", True, 0.5, None),
        ("b", [2.0, 0.0], "news", False, 0.25, None),
        ("c", [3.0, 1.0], "sport", True, 0.75, None),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_categories_make_a_dict_and_a_text_is_one(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form, {**TABLE, "note": ["late goal", "new law", "cup final", "rain"]})
    assert [one.x for one in read_log(path, x=["age", "city"], **NAMES)] == [
        {"age": 1.5, "city=Rome": 1.0},
        {"age": 2.0, "city=Oslo": 1.0},
        {"age": 3.0, "city=Rome": 1.0},
    ]
    log = read_log(path, text="note", **NAMES)
    assert log.text
    assert [one.x for one in log] == ["late goal", "new law", "cup final"]


@pytest.mark.parametrize("form", FORMS)
def test_usual_names_need_not_be_said(form: str, tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {"x": [0.5, 1.0], "action": [3, 7], "reward": [0, 1], "pscore": [0.5, 0.5]}
    log = read_log(written(tmp_path, form, table))
    assert log.classes == (3, 7)
    assert plain(log) == [(1, [0.5], 3, False, 0.5, None), (2, [1.0], 7, True, 0.5, None)]
    assert read_log(written(tmp_path, form, table), classes=[7, 3, 1]).classes == (7, 3, 1)


@pytest.mark.parametrize("form", FORMS)
def test_rewards_candidates_and_truths(form: str, tmp_path: Path) -> None:
    more: dict[str, list[Any]] = {
        "offered": ["sport|news", "news|art", '["sport"]', "news"],
        "said": [None, "art", None, None],
    }
    path = written(tmp_path, form, {**TABLE, **more, "clicked": [1, None, 0.25, None]})
    log = read_log(path, x=["age"], among="offered", truth="said", complete=True, **NAMES)
    assert (log.classes, len(log), log.unanswered) == (("art", "news", "sport"), 3, 1)
    assert [one[2:4] + one[6:] for one in log] == [
        ("sport", True, ("sport", "news"), True, None, None),
        ("news", None, ("news", "art"), True, None, "art"),
        ("sport", None, ("sport",), True, 0.25, None),
    ]
    learner = onebit.BPA(classes=log.classes)
    with pytest.raises(
        onebit.InputError, match=r"round 3 .*'sport' was the only candidate, so its probability must be 1, got 0\.75"
    ):
        train(learner, log)
    assert learner.learnt == 2


@pytest.mark.parametrize("form", FORMS)
def test_costs_and_other_scales_become_rewards(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form, {**TABLE, "clicked": [5, 4, 0, None]})
    stars = read_log(path, x=["age"], costs=(5, 0), **NAMES)
    assert [(one.right, one.reward) for one in stars] == [(True, None), (None, pytest.approx(0.8)), (False, None)]
    costs = read_log(path, x=["age"], costs=(0, 5), **NAMES)
    assert [(one.right, one.reward) for one in costs] == [(False, None), (None, pytest.approx(0.2)), (True, None)]


@pytest.mark.parametrize("form", FORMS)
def test_a_reward_counts_where_there_is_one_beside_right(form: str, tmp_path: Path) -> None:
    answers: dict[str, list[Any]] = {"right": [True, False, False, None], "reward": [None, 0.25, 1, 0.5]}
    path = written(tmp_path, form, {**TABLE, **answers})
    given = {**NAMES, "x": ["age"]}
    log = read_log(path, **{**given, "right": None})
    assert [(one.right, one.reward) for one in log] == [(True, None), (None, 0.25), (True, None), (None, 0.5)]
    rewards = read_log(path, **{**given, "right": "reward"})
    assert [(one.right, one.reward) for one in rewards] == [(None, 0.25), (True, None), (None, 0.5)]
    assert rewards.unanswered == 1
    assert [one.right for one in read_log(path, **{**given, "right": "right"})] == [True, False, False]


@pytest.mark.parametrize("form", FORMS)
def test_where_no_candidates_are_named_all_are(form: str, tmp_path: Path) -> None:
    path = written(tmp_path, form, {**TABLE, "clicked": [1, 0, 1, 0], "among": ["news|sport", None, "sport|art", None]})
    assert [one.among for one in read_log(path, x=["age"], **NAMES)] == [
        ("news", "sport"),
        None,
        ("sport", "art"),
        None,
    ]


def test_a_bad_answer_far_down_is_found_in_its_row(tmp_path: Path) -> None:
    """Beyond the block by which Arrow tells numbers from words."""
    rows = "\n".join(f"{'x' * 400},{one % 2},{'no' if one == 4999 else 0.5},0.5" for one in range(6000))
    path = tmp_path / "log.csv"
    path.write_text(f"x,action,reward,pscore\n{rows}\n")
    with pytest.raises(onebit.InputError, match=r"row 5000 of .*: reward is 'no', but must be true or false"):
        read_log(path)


def test_numbers_are_candidates_in_lists_and_in_cells(tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {"x": [0.5, 1.0], "action": [3, 7], "right": [0, 1], "among": [[3, 7], [7]]}
    assert [one.among for one in read_log(written(tmp_path, ".parquet", table), classes=[1, 3, 7])] == [(3, 7), (7,)]
    table["among"] = ["3", "7|3"]
    for form in FORMS:
        assert [one.among for one in read_log(written(tmp_path, form, table), classes=[1, 3, 7])] == [(3,), (7, 3)]


def test_semicolons_part_cells_and_commas_decimals_as_in_other_tables(tmp_path: Path) -> None:
    """The same reader as that of streams finds the separator."""
    path = tmp_path / "log.csv"
    path.write_text("x;action;right;p\n1,5;a;1;0,5\n2,5;b;0,25;0,75\n")
    assert plain(read_log(path, propensity="p")) == [
        (1, [1.5], "a", True, 0.5, None),
        (2, [2.5], "b", None, 0.75, None),
    ]
    path.write_text("x|action|right\n1.5|a|1\n2.5|b|0\n")
    assert [one.label for one in read_log(path)] == ["a", "b"]


def test_without_propensities_there_is_replay_alone(tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {"x": [0.5, 1.0] * 20, "label": ["a", "b"] * 20, "right": [True, False] * 20}
    log = read_log(written(tmp_path, ".parquet", table))
    assert next(iter(log)).propensity is None
    assert evaluate(onebit.BPA(classes=log.classes), log).ips is None


def test_lists_and_maps_of_parquet_are_a_whole_x(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    beside = {"action": ["a", "b"], "right": [True, False], "propensity": [0.5, 0.5]}
    parquet.write_table(arrow.table({"x": [[1.0, 2.0], [3.0, 4.0]], **beside}), path)
    assert [one.x for one in read_log(path)] == [[1.0, 2.0], [3.0, 4.0]]
    maps = arrow.array([[("u", 1.0)], [("v", 2.0), ("w", 3.0)]], arrow.map_(arrow.string(), arrow.float64()))
    parquet.write_table(arrow.table({"x": maps, **beside}), path)
    assert [one.x for one in read_log(path)] == [{"u": 1.0}, {"v": 2.0, "w": 3.0}]


def test_batches_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"x": list(range(100)), "action": [n % 3 for n in range(100)], "right": [n % 2 for n in range(100)]}
    path = written(tmp_path, ".parquet", table)
    whole = plain(read_log(path))
    monkeypatch.setattr(tables, "BATCH", 7)
    assert plain(read_log(path)) == whole
    assert len(whole) == 100


REFUSED: dict[str, tuple[dict[str, list[Any]], dict[str, Any]]] = {
    "there is no column 'ages' .* did you mean 'age'": ({}, {"x": ["ages"]}),
    "no column 'x': give the column": ({}, {}),
    "there is no column 'q' .*, given as right": ({}, {"x": ["age"], "right": "q"}),
    "'shown' .* must not see": ({}, {"x": ["shown"]}),
    "x and text were both given": ({}, {"x": ["age"], "text": "note"}),
    "must be a list of columns": ({}, {"x": "age"}),
    "'age' of .* holds no text": ({}, {"text": "age"}),
    "row 2 .*clicked is 1.5, .*from 0 to 1: for rewards from a to b give --costs=b,a": (
        {"clicked": [1, 1.5, 1, 1]},
        {"x": ["age"]},
    ),
    "row 2 .*clicked is -0.5, .*from 0 to 1": ({"clicked": [1, -0.5, 1, 1]}, {"x": ["age"]}),
    "row 2 .*clicked is inf, .*from 0 to 1": ({"clicked": [1, math.inf, 1, 1]}, {"x": ["age"]}),
    "row 2 .*the cost is 7, but must be from 5 \\(right\\)": (
        {"clicked": [1, 7, 1, 1]},
        {"x": ["age"], "costs": (5, 0)},
    ),
    "row 3 .*clicked is 'often', but must be true or false": ({"clicked": ["1", "0.5", "often", "0"]}, {"x": ["age"]}),
    "row 3 .*clicked is '1_0', but must be": ({"clicked": ["1", "0.5", "1_0", "0"]}, {"x": ["age"]}),
    "row 2 .*clicked is 50.0, .*from 0 to 1": ({"clicked": ["true", "50", "often", "0"]}, {"x": ["age"]}),
    "row 3 .*chance is 'half', but must be a number above 0": ({"chance": ["0.5", "1", "half", "1"]}, {"x": ["age"]}),
    "the columns right and reward: give the one that holds the costs": (
        {"right": [1, 0, 1, 0], "reward": [5, 0, 3, 0]},
        {"x": ["age"], "right": None, "costs": (5, 0)},
    ),
    "'reward' .* must not see": ({"right": [1] * 4, "reward": [1] * 4}, {"x": ["reward"], "right": None}),
    "row 1 .*not a JSON list": ({"offered": ["[news"] * 4}, {"x": ["age"], "among": "offered"}),
    "row 1 .*the column 'offered' lists no candidate": (
        {"offered": ["|"] * 4},
        {"x": ["age"], "among": "offered"},
    ),
    "there is no column 'cands' .*, given as among": ({}, {"x": ["age"], "among": "cands"}),
    "'right_one' .* must not see": ({"right_one": ["news"] * 4}, {"x": ["right_one"], "truth": "right_one"}),
    "complete is 3": ({}, {"x": ["age"], "complete": 3}),
    "row 1 .*clicked is 'yes'": ({"clicked": ["yes", "no", "no", "no"]}, {"x": ["age"]}),
    "row 3 .*age is missing": ({"age": [1.0, 2.0, None, 4.0]}, {"x": ["age"]}),
    "row 3 .*city is missing": ({"city": ["a", "b", None, "c"]}, {"x": ["age", "city"]}),
    "row 1 .*chance is missing": ({"chance": [None, 0.5, 0.5, 0.5]}, {"x": ["age"]}),
    "row 2 .*shown is missing": ({"shown": ["a", None, "b", "c"]}, {"x": ["age"]}),
    "shows 'a' in every round": ({"shown": ["a"] * 4}, {"x": ["age"]}),
    "no decision with an answer": ({"clicked": [None] * 4}, {"x": ["age"]}),
    "'day' of .* holds ": ({"day": [datetime.date(2026, 1, 1)] * 4}, {"x": ["day"]}),
}


@pytest.mark.parametrize("form", [".csv", ".parquet"])
@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_a_log(sentence: str, form: str, tmp_path: Path) -> None:
    changed, given = REFUSED[sentence]
    with pytest.raises(onebit.InputError, match=sentence):
        list(read_log(written(tmp_path, form, {**TABLE, **changed}), **{**NAMES, **given}))


@pytest.mark.parametrize(
    "about", [b"{", b"{}", b'{"classes": 3, "features": {}}', b'{"classes": ["a", "b"], "features": {"kind": "text"}}']
)
def test_tables_that_only_say_that_they_were_exported(about: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    parquet.write_table(arrow.table({"x": [1.0], "label": ["a"]}).replace_schema_metadata({b"onebit": about}), path)
    with pytest.raises(onebit.InputError, match="name the columns"):
        read_log(path)


@pytest.mark.parametrize("shown", [[0.5, 1.0], [True, False], [[1], [2]]])
def test_actions_are_numbers_or_texts(shown: list[Any], tmp_path: Path) -> None:
    path = written(tmp_path, ".parquet", {"x": [1.0, 2.0], "action": shown, "right": [1, 0]})
    with pytest.raises(onebit.InputError, match=r"row 1 .*action is .*, but actions are whole numbers or texts"):
        read_log(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(onebit.InputError, match="is not a log by its ending"):
        read_log(tmp_path / "log.txt")
    with pytest.raises(
        onebit.InputError, match="is a folder, but must be a file, or a folder that `onebit archive` has"
    ):
        read_log(tmp_path)
    with pytest.raises(onebit.InputError, match="there is no file"):
        read_log(tmp_path / "log.csv")
    for name in ("log.csv", "log.parquet", "log.csv.gz"):
        (tmp_path / name).write_bytes(b"" if name == "log.csv" else b"nothing of the kind")
        with pytest.raises(onebit.InputError, match=r"cannot be read|is damaged|is empty"):
            read_log(tmp_path / name)
    (tmp_path / "ragged.csv").write_text("x,action,right\n1,a,1\n2,b\n")
    with pytest.raises(onebit.InputError, match=r"row 2 \(line 3 of the file\) .* has 2 cells, but the header has 3"):
        read_log(tmp_path / "ragged.csv")
    rows = "\n".join(f"{'x' if row == 5000 else row},a,{row % 2}" for row in range(6000))
    (tmp_path / "words.csv").write_text(f"x,action,right\n{rows}\n")
    with pytest.raises(onebit.InputError, match=r"row 5001 of .*: x is 'x', but must be a number"):
        list(read_log(tmp_path / "words.csv", classes=["a", "b"]))
    (tmp_path / "log.vw").write_text("1:0:1 | a\n")
    with pytest.raises(onebit.InputError, match=r"action was given with .* names a column"):
        read_log(tmp_path / "log.vw", action="a")
