"""What is exported is what is in the log, in all three forms, whatever the names and texts are; and a file is whole or not there."""

from __future__ import annotations

import io
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import onebit
from onebit.cli import main
from onebit.contract.installation import install_command
from onebit.contract.options import Options
from onebit.features.features import Features
from onebit.offpolicy import read_log, train
from onebit.service.maintenance import export
from onebit.service.maintenance.export import escape_name, list_features, write
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.requests import DecideRequest, FeedbackRequest, NewTask
from onebit.service.service import Service
from onebit.service.store.queries import DecisionRecord
from onebit.service.task import TaskInfo
from onebit.spaces.sparse import SparseRows
from tests.cli.call import Call
from tests.service.logs import ROUNDS, fill, served

FORMS = ("ndjson", "parquet", "vw")
TASKS = ("places", "shops", "tickets")

characters = some.characters(exclude_categories=["Cs"])
texts = some.text(characters, max_size=20)
numbers = some.floats(allow_nan=False, allow_infinity=False)
xs = {
    "numbers": some.lists(numbers, min_size=3, max_size=3),
    "dict": some.dictionaries(texts, numbers, max_size=5),
    "text": texts,
}


def task(kind: str, classes: Sequence[str | int]) -> TaskInfo:
    return TaskInfo(
        number=1,
        name="odd",
        created_at=0.0,
        classes=list(classes),
        learner="auto",
        parameters={},
        exploration_floor=0.0,
        seed=0,
        features={"kind": kind} | ({"size": 3} if kind == "numbers" else {"hash_bits": 10}),
        mode="learn",
        deadline_s=None,
        silence="nothing",
        display=None,
        items=None,
    )


@some.composite
def logs(draw: Any) -> tuple[TaskInfo, list[DecisionRecord]]:
    """A task and some rows of it."""
    kind = draw(some.sampled_from(sorted(xs)))
    name = draw(some.sampled_from([texts.filter(bool), some.integers(-(2**53), 2**53), texts | some.integers(0, 9)]))
    classes = draw(some.lists(name, min_size=2, max_size=4, unique_by=str))
    one = some.sampled_from(classes)
    chance = some.floats(0.0, 1.0, exclude_min=True)
    rows = some.builds(
        DecisionRecord,
        seq=some.integers(1, 2**62),
        id=texts.filter(bool),
        time=numbers,
        mode=some.sampled_from(["learn", "shadow", "log-only"]),
        version=some.just("1.5"),
        label=one,
        greedy=one,
        weight=chance,
        notes=some.tuples(numbers, numbers),
        propensity=chance,
        probabilities=some.lists(chance, min_size=2, max_size=len(classes)).map(tuple),
        x=xs[kind],
        right=some.none() | some.booleans(),
        feedback_time=some.none() | numbers,
        late=some.booleans(),
        source=some.sampled_from([None, "caller", "silence"]),
        shown=some.none() | one,
        shown_propensity=some.none() | chance,
    )
    return task(kind, classes), draw(some.lists(rows, max_size=4))


def written(form: str, rows: Sequence[DecisionRecord], about: TaskInfo) -> tuple[int, bytes]:
    file = io.BytesIO()
    count, _ = write(file, form, iter(rows), about)
    return count, file.getvalue()


# --- forms, by themselves ------------------------------------------------------------------------------------------------


@given(logs())
def test_json_lines_give_the_rows_back(log: tuple[TaskInfo, list[DecisionRecord]]) -> None:
    about, rows = log
    count, content = written("ndjson", rows, about)
    lines = content.decode().split("\n")
    assert (lines.pop(), count, len(lines)) == ("", len(rows), len(rows))
    for line, row in zip(lines, rows, strict=True):
        found = json.loads(line)
        found["probabilities"] = tuple(
            found["probabilities"][str(name)] for name in about.classes[: len(row.probabilities)]
        )
        found["notes"] = tuple(found["notes"])
        assert found.pop("unsure") is row.unsure
        assert DecisionRecord(**found) == row


@settings(deadline=None)
@given(logs())
def test_parquet_gives_the_rows_back(log: tuple[TaskInfo, list[DecisionRecord]]) -> None:
    from pyarrow import parquet

    about, rows = log
    count, content = written("parquet", rows, about)
    table = parquet.read_table(io.BytesIO(content))
    said = json.loads(table.schema.metadata[b"onebit"])
    assert (said["task"], said["classes"], said["features"]) == ("odd", about.classes, about.features)
    names = {str(name): name for name in said["classes"]}
    assert (count, table.num_rows) == (len(rows), len(rows))
    for found, row in zip(table.to_pylist(), rows, strict=True):
        for name in ("label", "greedy", "shown"):
            found[name] = None if found[name] is None else names[str(found[name])]
        found["probabilities"], found["notes"] = tuple(found["probabilities"]), tuple(found["notes"])
        found["x"] = dict(found["x"]) if about.inputs.kind == "dict" else found["x"]
        assert found.pop("unsure") is row.unsure
        assert DecisionRecord(**found) == row


@given(logs())
def test_vw_lines_give_back_what_they_can(log: tuple[TaskInfo, list[DecisionRecord]]) -> None:
    about, rows = log
    heard = [row for row in rows if row.right is not None and not row.late]
    count, content = written("vw", rows, about)
    lines = content.decode().split("\n")
    assert (lines.pop(), count, len(lines)) == ("", len(heard), len(heard))
    for line, row in zip(lines, heard, strict=True):
        label, tag, bar, *features = line.split(" ")
        action, cost, chance = label.split(":")
        shown = row.label if row.shown is None else row.shown
        assert (about.classes[int(action) - 1], cost) == (shown, "0" if row.right else "1")
        if row.shown is None:
            assert float(chance) == row.propensity
        else:
            assert float(chance) == (row.shown_propensity or 1.0)
        assert (tag[0], restored(tag[1:]), bar) == ("'", row.id, "|")
        pairs = [feature.split(":") for feature in features if feature]
        assert {restored(name): float(value) for name, value in pairs} == {
            name: value for name, value in list_features(row.x) if value
        }


@pytest.mark.parametrize("form", ["parquet", "vw"])
def test_candidates_rewards_and_truths_are_read_back(form: str, tmp_path: Path) -> None:
    about = task("numbers", ["a", "b", "c"])
    plain = DecisionRecord(
        *(
            1,
            "one",
            0.0,
            "learn",
            "1.0",
            "b",
            "b",
            0.5,
            (0.0, 0.0),
            0.5,
            (0.0, 0.5, 0.5),
            [1.0, 2.0, 3.0],
            True,
            1.0,
            False,
        ),
        *("caller", None, None, None, None, None, None, False, None, None, None),
    )
    rows = [
        replace(plain, among=["b", "c"], complete=True, reward=0.25, right=False),
        replace(plain, id="two", probabilities=(0.25, 0.5, 0.25), right=False, truth="c"),
        replace(plain, id="three", mode="shadow", among=["b", "c"], shown="a", shown_propensity=0.5),
    ]
    path = tmp_path / f"log.{form}"
    path.write_bytes(written(form, rows, about)[1])
    found = list(read_log(path, classes=None if form == "parquet" else [1, 2, 3]))
    names: dict[Any, str | int]
    names = dict(zip([1, 2, 3], about.classes, strict=True)) if form == "vw" else {one: one for one in about.classes}
    assert [names[one.label] for one in found] == ["b", "b", "a"]
    assert [(one.right, one.reward) for one in found] == [(None, 0.25), (False, None), (True, None)]
    assert [one.among and [names[name] for name in one.among] for one in found] == [["b", "c"], None, None]
    if form == "parquet":
        assert [(one.complete, one.truth) for one in found] == [(True, None), (False, "c"), (False, None)]
    learner = onebit.BPA(classes=list(names))
    assert train(learner, [one._replace(id=number) for number, one in enumerate(found)]) == 3


def restored(name: str) -> str:
    return "" if name == "%" else unquote(name, errors="strict")


@given(texts)
def test_an_escaped_name_has_nothing_that_vowpal_wabbit_reads(name: str) -> None:
    found = escape_name(name)
    assert found
    assert not re.search(r"[\s:|\x00-\x1f\x7f]", found)
    assert restored(found) == name


def test_words_have_the_values_that_a_learner_sees() -> None:
    text = "Der der Hund, der HUND beißt 12 Mal"
    reader = Features(Options(dtype="float64", text=True))
    reader.fix_form(text)
    _, row = reader.read(text, grow=True)
    assert isinstance(row, SparseRows)
    columns, values = row.columns, row.values
    assert reader.vocabulary is not None
    of_column = {column: word for word, column in reader.vocabulary.items()}
    assert dict(list_features(text)) == {
        of_column[column]: value for column, value in zip(columns.tolist(), values.tolist(), strict=True)
    }
    assert len(columns) == 5
    assert dict(list_features("")) == {}


def test_parquet_has_types(tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    expected = {
        "numbers": arrow.list_(arrow.float64()),
        "dict": arrow.map_(arrow.string(), arrow.float64()),
        "text": arrow.string(),
    }
    for kind, wanted in expected.items():
        schema = parquet.read_schema(io.BytesIO(written("parquet", [], task(kind, ["a", 1]))[1]))
        assert set(schema.names) == {*DecisionRecord.__dataclass_fields__, "unsure"}
        assert schema.field("x").type.equals(wanted)
        assert schema.field("label").type == arrow.string()
        assert schema.field("right").type == arrow.bool_()
        assert schema.field("probabilities").type == arrow.list_(arrow.float64())
    schema = parquet.read_schema(io.BytesIO(written("parquet", [], task("text", [5, 1]))[1]))
    assert schema.field("shown").type == arrow.int64()


def test_parquet_is_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory is bounded: by rows, and by the numbers in them."""
    from pyarrow import parquet

    row = DecisionRecord(
        seq=1,
        id="a",
        time=0.0,
        mode="learn",
        version="1.0",
        label=0,
        greedy=0,
        weight=1.0,
        notes=(0.0, 0.0),
        propensity=1.0,
        probabilities=(0.5, 0.5),
        x=[1.0] * 3,
        right=None,
        feedback_time=None,
        late=False,
        source=None,
        shown=None,
        shown_propensity=None,
    )
    for rows_of, numbers_of, expected in ((4, 10**6, [4, 4, 2]), (100, 15, [3, 3, 3, 1])):
        monkeypatch.setattr(export, "GROUP_ROWS", rows_of)
        monkeypatch.setattr(export, "GROUP_NUMBERS", numbers_of)
        file = parquet.ParquetFile(io.BytesIO(written("parquet", [row] * 10, task("numbers", [0, 1]))[1]))
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        assert groups == expected


# --- the command ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    served(path, fill)
    return path


@pytest.fixture
def call(capsysbinary: pytest.CaptureFixture[bytes]) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsysbinary.readouterr()
        code = main(list(arguments))
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.mark.parametrize("name", TASKS)
def test_every_decision_is_exported_as_the_service_shows_it(call: Call, folder: Path, name: str) -> None:
    code, out, err = call("export", str(folder), name, "--format", "ndjson")
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]

    async def shown(service: Service) -> list[dict[str, Any]]:
        return (await service.decisions(name, 10_000))[::-1]

    expected = json.loads(json.dumps(served(folder, shown)))
    assert lines == expected
    assert len(lines) == {"places": ROUNDS, "shops": 20, "tickets": 6}[name]
    assert err == f"{name} as ndjson, decisions: {len(lines)}\n"


def test_it_can_be_exported_while_the_service_runs(call: Call, tmp_path: Path) -> None:
    async def both(service: Service) -> None:
        await fill(service)
        for name in TASKS:
            code, out, _ = call("export", str(tmp_path), name, "--format", "ndjson", "--out", "-")
            assert code == 0
            assert len(out.splitlines()) == len(await service.decisions(name, 10_000))

    served(tmp_path, both)


@pytest.mark.parametrize("name", TASKS)
def test_parquet_has_the_same_rows(call: Call, folder: Path, tmp_path: Path, name: str) -> None:
    import pandas

    path = tmp_path / "out.parquet"
    code, out, err = call("export", str(folder), name, "--format", "parquet", "--out", str(path))
    assert (code, err) == (0, "")
    with LogReader(folder) as log:
        rows = list(log.logged(log.task(name)))
    assert out == f"{name} as parquet in {path}, decisions: {len(rows)}\n"
    table = pandas.read_parquet(path)
    assert table["seq"].tolist() == [row.seq for row in rows]
    assert table["propensity"].tolist() == [row.propensity for row in rows]
    assert [one is None for one in table["right"]] == [row.right is None for row in rows]
    assert [list(one) for one in table["probabilities"]] == [list(row.probabilities) for row in rows]


def test_vw_has_what_counts(call: Call, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.vw"
    code, out, err = call("export", str(folder), "places", "--format", "vw", "--out", str(path), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "task": "places",
        "format": "vw",
        "file": str(path),
        "decisions": ROUNDS * 9 // 10,
        "left_out": 0,
        "classes": ["north", "south", 3, "west|east: 50 %"],
    }
    assert len(path.read_text().splitlines()) == ROUNDS * 9 // 10
    code, out, err = call("export", str(folder), "tickets", "--format", "vw")
    lines = out.splitlines()
    assert len(lines) == 6, "silence means wrong, and what came after it does not count"
    assert [line.split(" ")[0].split(":")[1] for line in lines] == ["0", "1", "1", "1", "1", "1"]
    assert lines[5].split(" | ")[1] == f"5:{2**-0.5!r} wörter:{2**-0.5!r}"
    assert err.splitlines()[1] == 'actions from 1 up are the classes ["ja", "nein"]'
    lines = call("export", str(folder), "shops", "--format", "vw")[1].splitlines()
    assert lines[3] == "2:0:0.25 's3 | %:-0.5 a%20b:1.0 c%3A%7C%25:3.0", "what was shown counts, with its propensity"


def test_a_decision_with_one_candidate_is_no_line_of_vowpal_wabbit(call: Call, tmp_path: Path) -> None:
    """An action alone means that all could be shown; and Parquet, where nothing is left out, is read back with named columns."""
    folder, vw, table = tmp_path / "data", tmp_path / "log.vw", tmp_path / "log.parquet"

    async def work(service: Service) -> None:
        features: Any = {"kind": "numbers", "size": 2}
        await service.create(NewTask(name="shops", classes=["a", "b", "c"], learner="banditron", features=features))
        sets: list[list[str | int] | None] = [None, ["b"], ["a", "c"], ["c"]]
        for number, among in enumerate(sets):
            await service.decide("shops", [DecideRequest(id=str(number), x=[1.0, 2.0], among=among)])
            said: dict[str, Any] = {"reward": 0.25} if number % 2 else {"right": True}
            await service.feedback("shops", [FeedbackRequest(id=str(number), **said)])

    served(folder, work)
    code, out, err = call("export", str(folder), "shops", "--format", "vw", "--out", str(vw))
    assert (code, len(err.splitlines())) == (0, 1)
    assert "decisions: 2\n" in out
    assert err == "left out, decisions with a single candidate: 2; vw has no line for them\n"
    assert [one.among for one in read_log(vw, classes=[1, 2, 3])] == [None, (1, 3)]
    out, err = call("export", str(folder), "shops", "--format", "vw", "--out", str(vw), "--json")[1:]
    assert (json.loads(out)["decisions"], json.loads(out)["left_out"], err) == (2, 2, "")
    assert call("export", str(folder), "shops", "--format", "parquet", "--out", str(table))[::2] == (0, "")
    assert [one.among for one in read_log(table)] == [None, ("b",), ("a", "c"), ("c",)]
    told = [(one.right, one.reward) for one in read_log(table)]
    assert told == [(True, None), (None, 0.25), (True, None), (None, 0.25)]
    assert [(one.right, one.reward) for one in read_log(table, x=["x"])] == told
    assert [one.reward for one in read_log(table, right="reward", among="among")] == [0.25, 0.25]
    assert next(iter(read_log(table, right="right"))).among is None


BAD = {
    "no format": (["places"], ["--format"]),
    "no such format": (["places", "--format", "csv"], ["'csv'", "ndjson"]),
    "parquet to stdout": (["places", "--format", "parquet"], ["--out"]),
    "no such task": (["place", "--format", "vw"], ["'place'", "did you mean 'places'"]),
    "no such folder for the file": (["places", "--format", "vw", "--out", "/nowhere/at/all"], ["/nowhere/at/all"]),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(call: Call, folder: Path, arguments: list[str], words: list[str]) -> None:
    code, out, err = call("export", str(folder), *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    for word in words:
        assert word in err


@pytest.mark.parametrize("content", [None, b"", b"no database at all, but long enough to be one" * 100])
def test_a_folder_without_a_log_is_refused(call: Call, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "onebit.db").write_bytes(content)
    code, out, err = call("export", str(tmp_path), "places", "--format", "vw")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert str(tmp_path) in err


def test_a_damaged_log_is_an_error_and_leaves_no_file(call: Call, folder: Path, tmp_path: Path) -> None:
    """Half of the pages are zeroed, the half behind the first, which has the tables."""
    log = tmp_path / "onebit.db"
    with closing(sqlite3.connect(folder / "onebit.db")) as connection:
        connection.execute("VACUUM INTO ?", [str(log)])
    content = bytearray(log.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    log.write_bytes(content)
    path = tmp_path / "out"
    code, out, err = call("export", str(tmp_path), "places", "--format", "ndjson", "--out", str(path))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "cannot be read" in err
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("form", FORMS)
def test_ctrl_c_leaves_no_half_file(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    whole = LogReader.logged

    def stopped(self: LogReader, about: TaskInfo) -> Any:
        for place, row in enumerate(whole(self, about)):
            if place == 50:
                raise KeyboardInterrupt
            yield replace(row, right=True)

    monkeypatch.setattr(LogReader, "logged", stopped)
    path = tmp_path / "out"
    code, out, err = call("export", str(folder), "places", "--format", form, "--out", str(path))
    assert (code, out, err) == (130, "", "onebit: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_a_sentence_says_what_to_install(
    call: Call, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, out, err = call("export", str(folder), "places", "--format", "parquet", "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert install_command("experiments") in err
    assert list(tmp_path.iterdir()) == []


def another_process(program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; {program}; sys.exit(main())", *arguments]
    return subprocess.run(command, check=False, text=True, stderr=subprocess.PIPE, **options)


def test_without_the_packages_of_the_service_a_sentence_says_what_to_install(folder: Path) -> None:
    program = "sys.modules['orjson'] = None; from onebit.cli import main"
    answer = another_process(program, "export", str(folder), "places", "--format", "vw", stdout=subprocess.PIPE)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == f"onebit: the service needs orjson, which is not installed: {install_command('serve')}\n"


def test_a_reader_that_has_gone_is_no_error(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        program = "from onebit.cli import main"
        answer = another_process(program, "export", str(folder), "places", "--format", "ndjson", stdout=writing)
    finally:
        os.close(writing)
    assert (answer.returncode, answer.stderr) in ((0, ""), (0, f"places as ndjson, decisions: {ROUNDS}\n"))
