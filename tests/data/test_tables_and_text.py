"""Tables as people have them: text, categories, dates and ids, other separators, JSON lines, Excel, frames."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import warnings
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused
from onebit.cli import main
from onebit.data.columns import MOST_CATEGORIES
from onebit.data.reading import Kind, guess_kind_of_texts
from onebit.errors import OnebitWarning
from onebit.features.named import list_words
from tests.data.reading import read
from tests.frames import every_frame

arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra `experiments`")
pd = pytest.importorskip("pandas", reason="pandas is in the extra `experiments`")

SUBJECTS = {
    "billing": ["my last invoice is wrong", "please refund the second payment", "charged twice for one invoice"],
    "support": ["cannot log in since yesterday", "the app crashes at the start", "password reset does not arrive"],
}
COUNT = 120


def tickets(count: int = COUNT) -> dict[str, list[Any]]:
    """A table with every kind of column."""
    generator = np.random.default_rng(0)
    teams = [("billing", "support")[one] for one in generator.integers(0, 2, size=count)]
    return {
        "ticket_id": list(range(1000, 1000 + count)),
        "opened": [f"2024-03-{1 + row % 28:02d}" for row in range(count)],
        "subject": [f"{SUBJECTS[team][row % 3]}, order {row}" for row, team in enumerate(teams)],
        "product": [("shop", "app", "web")[row % 3] for row in range(count)],
        "length": [float(row % 7) for row in range(count)],
        "team": teams,
    }


def written(folder: Path, table: dict[str, list[Any]], name: str = "tickets.csv", separator: str = ",") -> Path:
    path = folder / name
    lines = [list(table), *zip(*table.values(), strict=True)]
    quoted = [[f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in line] for line in lines]
    path.write_text("\n".join(separator.join(line) for line in quoted) + "\n")
    return path


def quietly(path: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OnebitWarning)
        return read(path, **settings)


def assert_same(one: Any, other: Any) -> None:
    assert one.classes == other.classes
    assert one.y.tolist() == other.y.tolist()
    parts = ("data", "indices", "indptr") if hasattr(one.X, "indptr") else ()
    assert one.X.shape == other.X.shape
    for part in parts:
        assert getattr(one.X, part).tolist() == getattr(other.X, part).tolist()
    if not parts:
        assert one.X.tolist() == other.X.tolist()


# --- what columns are taken for ------------------------------------------------------------------------------------------


def test_columns_are_what_they_look_like_and_a_line_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, tickets())
    with pytest.warns(OnebitWarning) as said:
        data = read(path, label="team")
    line = str(said[0].message)
    assert len(said) == 1
    assert "\n" not in line
    assert "'subject' is read as text" in line
    assert "'product' is read as categories" in line
    assert "'opened' is left out (dates)" in line
    assert "'ticket_id' is left out (ids)" in line
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spoken = read(path, label="team", text=["subject"], categorical=["product"], drop=["ticket_id", "opened"])
    assert_same(data, spoken)


def test_text_is_its_set_of_words_scaled_to_length_one(tmp_path: Path) -> None:
    table = tickets()
    data = read(written(tmp_path, {name: table[name] for name in ("subject", "team")}), label="team", text=["subject"])
    words = [list_words(text) for text in table["subject"]]
    assert data.X.shape == (COUNT, len(set().union(*words)))
    for row in range(COUNT):
        part = slice(data.X.indptr[row], data.X.indptr[row + 1])
        assert np.allclose(data.X.data[part], 1 / np.sqrt(len(words[row])))
        assert len(data.X.data[part]) == len(words[row])
        assert (np.diff(data.X.indices[part]) > 0).all()
    columns = [set(data.X.indices[data.X.indptr[row] : data.X.indptr[row + 1]].tolist()) for row in range(COUNT)]
    for one, other in ((0, 1), (3, 40), (17, 99)):
        assert len(columns[one] & columns[other]) == len(set(words[one]) & set(words[other]))


def test_numbers_categories_and_text_stand_side_by_side(tmp_path: Path) -> None:
    table = tickets()
    data = quietly(written(tmp_path, table), label="team")
    words = set().union(*(list_words(text) for text in table["subject"]))
    assert data.X.shape[1] == 1 + 3 + len(words)
    first = [
        dict(zip(data.X.indices[a:b].tolist(), data.X.data[a:b].tolist(), strict=True)).get(0, 0.0)
        for a, b in zip(data.X.indptr[:-1], data.X.indptr[1:], strict=True)
    ]
    assert first == table["length"]


def test_dates_and_ids_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    table = {name: values for name, values in tickets().items() if name in ("ticket_id", "opened", "team")}
    path = written(tmp_path, table)
    data = read(path, label="team", numeric=["ticket_id", "opened"])
    days = [(date.fromisoformat(one) - date(1970, 1, 1)).days for one in table["opened"]]
    assert data.X.tolist() == [list(map(float, row)) for row in zip(table["ticket_id"], days, strict=True)]
    assert read(path, label="team", categorical=["opened"], drop=["ticket_id"]).X.shape == (COUNT, 28)
    sentence = refused(lambda: read(path, label="team"))
    for word in ("left out", "'ticket_id' (ids)", "'opened' (dates)", "numeric"):
        assert word in sentence


@pytest.mark.parametrize(
    ("name", "texts", "kind"),
    [
        ("colour", ["red", "blue"] * 20, Kind.CATEGORY),
        ("country", ["United States", "France", "Bosnia and Herzegovina"] * 20, Kind.CATEGORY),
        ("body", ["I cannot log in since the update", "My bill is wrong once more"], Kind.TEXT),
        ("title", [f"order {row} late" for row in range(30)], Kind.TEXT),
        ("mail", [f"user{row}@example.org" for row in range(30)], Kind.ID),
        ("user_id", ["u1", "u2", "u1", "u2"], Kind.ID),
        ("paid", ["u1", "u2", "u1", "u2"], Kind.CATEGORY),
        ("key", ["00000000-0000-0000-0000-000000000007"] * 3, Kind.ID),
        ("when", ["31/12/2024", "01/01/2025 10:00"], Kind.DATE),
        ("size", ["1", "2", "x"], Kind.NUMBER),
    ],
)
def test_what_texts_look_like(name: str, texts: list[str], kind: Kind) -> None:
    assert guess_kind_of_texts(name, texts, True) is kind


def test_a_number_written_wrong_is_refused_and_not_taken_for_a_category(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,x\n2,y\noops,x\n4,y\n")
    sentence = refused(lambda: read(path))
    assert "'oops' in row 3 (line 4 of the file)" in sentence


def test_more_than_a_thousand_categories_are_hashed_wherever_they_are_found(tmp_path: Path) -> None:
    count = 70_000  # the first blocks have few
    towns = [f"town {row if row > 50_000 else 0}x" for row in range(count)]
    path = tmp_path / "t.csv"
    path.write_text("town,n,label\n" + "".join(f"{town},{row % 5},{row % 2}\n" for row, town in enumerate(towns)))
    with pytest.warns(OnebitWarning, match="the many values of 'town' are hashed"):
        data = read(path, categorical=["town"])
    assert data.rows == count
    assert MOST_CATEGORIES < data.X.shape[1] <= 1 + len(set(towns))
    assert data.y.tolist() == [row % 2 for row in range(count)]


@pytest.mark.parametrize("limit", ["", "1"], ids=["held", "mapped"])
def test_categories_that_become_too_many_late_in_a_file_are_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The file is read again from the start, and what was read of it before leaves no trace."""
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ONEBIT_LARGE_FILE", limit)
    early, late = 200_000, MOST_CATEGORIES + 100
    towns = [f"town {row % 10 if row < early else row}" for row in range(early + late)]
    rows = [f"{town},{number % 3},{number % 2}" for number, town in enumerate(towns)]
    path = tmp_path / "towns.csv"
    path.write_text("\n".join(["town,size,label", *rows, ""]))
    with pytest.warns(OnebitWarning, match="the many values of 'town' are hashed"):
        data = read(path, categorical=["town"])
    assert data.y.tolist() == [row % 2 for row in range(early + late)]
    assert data.X.shape[0] == len(towns) == len(data.X.indptr) - 1
    assert MOST_CATEGORIES < data.X.shape[1] <= 1 + len(set(towns))
    assert (
        data.X.indptr[-1]
        == len(data.X.data)
        == len(data.X.indices)
        == sum(1 + (row % 3 > 0) for row in range(len(towns)))
    )
    path.write_text("\n".join(["town,size,label", *rows, "elsewhere,1,2", ""]))
    assert "and nowhere else" in refused(lambda: read(path, categorical=["town"]))


def test_a_large_file_gives_what_a_small_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, tickets(5000))
    small = quietly(path, label="team")
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ONEBIT_LARGE_FILE", "1000")
    for _ in range(2):  # converted, and then found
        with pytest.warns(OnebitWarning, match="'subject' is read as text"):
            large = read(path, label="team")
        assert isinstance(large.X.data, np.memmap)
        assert_same(small, large)


# --- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"], ids=["comma", "semicolon", "tab", "bar"])
def test_the_separator_is_found(tmp_path: Path, separator: str) -> None:
    assert_same(
        quietly(written(tmp_path, tickets(), "t.csv", separator), label="team"),
        quietly(written(tmp_path, tickets(), "u.csv"), label="team"),
    )


def test_numbers_with_decimal_commas_are_numbers_between_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;label\n1,5;2;x\n-3,25;4;y\n5;6;x\n7;8;y\n")
    assert read(path).X.tolist() == [[1.5, 2.0], [-3.25, 4.0], [5.0, 6.0], [7.0, 8.0]]


def json_lines(table: dict[str, list[Any]]) -> str:
    rows = zip(*table.values(), strict=True)
    return "".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_json_lines_are_a_table(tmp_path: Path, name: str) -> None:
    content = json_lines(tickets()).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert_same(quietly(tmp_path / name, label="team"), quietly(written(tmp_path, tickets()), label="team"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("[1]\n", ["line 1", "object"]),
        ('{"a": 1, "label": 0}\n{"a": \n', ["line 2", "not JSON"]),
        ('{"a": 1, "label": 0}\n{"label": 1}\n', ["'a'", "no value", "row 2"]),
        ('{"a": 1, "label": 0}\n{"a": "x", "label": 1}\n{"a": 1, "label": 1}\n', ["'a'", "'x'", "row 2 (line 2"]),
        ('{"a": [1], "label": 0}\n', ["'a'", "line 1", "single"]),
        ('{"a": 1e999, "label": 0}\n{"a": 2, "label": 1}\n', ["'a'", "infinite"]),
    ],
)
def test_bad_json_lines_are_refused_with_their_place(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    sentence = refused(lambda: quietly(path))
    for word in [*words, str(path)]:
        assert word in sentence


def test_a_sheet_of_excel_is_a_table(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is in the extra `excel`")
    table = tickets()
    book = openpyxl.Workbook()
    book.active.append(list(table))
    for row in zip(*table.values(), strict=True):
        book.active.append([datetime.fromisoformat(cell) if cell == row[1] else cell for cell in row])
    book.save(tmp_path / "t.xlsx")
    expected = quietly(written(tmp_path, table), label="team")
    with pytest.warns(OnebitWarning, match=r"'opened' is left out \(dates\)"):
        assert_same(read(tmp_path / "t.xlsx", label="team"), expected)
    settings = {"label": "team", "numeric": ["opened"], "drop": ["ticket_id", "subject", "product"]}
    assert_same(read(tmp_path / "t.xlsx", **settings), read(written(tmp_path, table), **settings))  # type: ignore[arg-type]
    (tmp_path / "no.xlsx").write_text("a,b\n")
    assert "Excel" in refused(lambda: read(tmp_path / "no.xlsx"))


@every_frame
def test_a_frame_is_read_as_a_file_is(tmp_path: Path, frame: Any) -> None:
    table = tickets()
    expected = quietly(written(tmp_path, table), label="team")
    with pytest.warns(OnebitWarning, match="in the frame 'subject' is read as text"):
        found = onebit.stream(frame(table), label="team").data(0)
    assert_same(found, expected)
    rows = frame({name: values for name, values in table.items() if name != "team"})
    settings: dict[str, Any] = {"text": ["subject"], "categorical": ["product"], "drop": ["ticket_id", "opened"]}
    assert_same(onebit.stream(rows, table["team"], **settings).data(0), expected)
    assert "given twice" in refused(lambda: onebit.stream(frame(table), table["team"], label="team"))
    assert "120 rows and 3 labels" in refused(lambda: onebit.stream(rows, ["a", "b", "a"], **settings))


def test_a_parquet_file_is_read_as_a_csv_file_is(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(tickets()), tmp_path / "t.parquet")
    assert_same(quietly(tmp_path / "t.parquet", label="team"), quietly(written(tmp_path, tickets()), label="team"))


# --- from the command line and in Python ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["run", "bpa"], ["compare"], ["sweep", "bpa"]], ids=lambda words: words[0])
def test_commands_take_tickets(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, tickets())
    more = {
        "run": [],
        "compare": ["--learners", "bpa,perceptron", "--runs", "2"],
        "sweep": ["--grid", "aggressiveness=0.1,1", "--runs", "2", "--fresh-runs", "2"],
    }[command[0]]
    assert main([*command, str(path), "--label", "team", "--rounds", "400", "--quiet", *more]) == 0
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if "read as text" in line]
    assert len(lines) == 1
    assert lines[0].startswith("onebit: in tickets.csv 'subject' is read as text")
    spoken = ["--text", "subject", "--categorical", "product", "--drop", "ticket_id,opened"]
    assert main([*command, str(path), "--label", "team", "--rounds", "400", "--quiet", *spoken, *more]) == 0
    assert "read as" not in capsys.readouterr().err
    assert main([*command, str(path), "--label", "team", "--text", "subjcet", "--quiet", *more]) == 2
    assert "did you mean 'subject'?" in capsys.readouterr().err


def test_a_run_learns_from_the_text(tmp_path: Path) -> None:
    path = written(tmp_path, tickets())
    settings: dict[str, Any] = {"label": "team", "drop": ["ticket_id", "opened", "length", "product"], "rounds": 2000}
    result = onebit.run("bpa", path, text=["subject"], **settings)
    assert result.error < 0.15
    found = onebit.compare(path, ["bpa"], text=["subject"], runs=2, **settings)
    assert found[0].summaries[0].error.mean < 0.15
    swept = onebit.sweep(
        "bpa", path, grid={"aggressiveness": [0.1, 1.0]}, text=["subject"], runs=2, fresh_runs=2, **settings
    )
    assert swept.best is not None


TEXTS = tickets()["subject"]
TEAMS = tickets()["team"]


def test_rows_that_are_texts_are_said_to_be_such_everywhere() -> None:
    by_hand = onebit.run("bpa", TEXTS, TEAMS, text=True)
    assert by_hand.learner.best(TEXTS[0]) in ("billing", "support")
    assert by_hand.params["text"] is True
    found = onebit.compare((TEXTS, TEAMS), ["bpa", "perceptron"], text=True, runs=1)
    assert not found.failures
    bpa = next(one for one in found[0].summaries if one.entry.rule.name == "bpa")
    assert bpa.error.mean == by_hand.error
    stream = onebit.stream(TEXTS, TEAMS, text=True)
    assert onebit.run("bpa", stream).error == by_hand.error == onebit.run("bpa", stream, text=True).error
    swept = onebit.sweep("bpa", TEXTS, TEAMS, grid={"aggressiveness": [0.1, 1.0]}, text=True, runs=1, fresh_runs=1)
    assert not swept.failures
    for texts in (pd.Series(TEXTS), np.array(TEXTS), tuple(TEXTS)):
        assert onebit.run("bpa", texts, TEAMS, text=True).error == by_hand.error


@pytest.mark.long
def test_texts_may_be_a_series_of_polars() -> None:
    texts = pytest.importorskip("polars", reason="polars is in the extra `test-all`").Series(TEXTS)
    assert onebit.run("bpa", texts, TEAMS, text=True).error == onebit.run("bpa", TEXTS, TEAMS, text=True).error


def test_every_learner_takes_rows_that_are_texts() -> None:
    found = onebit.compare((TEXTS[:40], TEAMS[:40]), text=True, runs=1)
    assert not found.failures


def test_what_text_cannot_mean_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, tickets())
    assert "names columns" in refused(lambda: onebit.run("bpa", path, label="team", text=True))
    assert "must be a text" in refused(lambda: onebit.stream([[1.0], [2.0]], [0, 1], text=True))
    assert "has none" in refused(lambda: onebit.stream("synsep10", text=["a"]))
    assert "has none" in refused(lambda: onebit.stream("synsep10", text=True))
    assert "have no named columns" in refused(lambda: onebit.stream([[1.0], [2.0]], [0, 1], text=["a"]))
    assert "list of columns" in refused(lambda: onebit.stream(path, label="team", text="subject"))
    assert "listed twice" in refused(lambda: onebit.stream(path, label="team", text=["subject"], drop=["subject"]))


def test_openpyxl_is_asked_for_where_it_is_missing(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"")
    program = (
        "import sys; sys.modules['openpyxl'] = None\n"
        "from onebit.cli import main; sys.exit(main(['run', 'bpa', sys.argv[1]]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t.xlsx")], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert "openpyxl" in answer.stderr
    assert "excel" in answer.stderr
