"""CSV, Parquet and svmlight files give the rows that were written, or are refused with a sentence that says where."""

from __future__ import annotations

import bz2
import csv
import gzip
import sys
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.checks.examples import refused
from onebit.contract.installation import install_command
from onebit.data.delimited import BLOCK
from onebit.data.user_files import ENDINGS, is_data_file
from onebit.errors import OnebitWarning
from tests.data.reading import read

arrow = pytest.importorskip("pyarrow", reason="pyarrow is in the extra `experiments`")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("sklearn", reason="scikit-learn is in the extra `experiments`")

TABLE = "a,b,label\n1,2.5,x\n-3,4e1,y\n5,.5,x\n7,8,y\n"
SVM = "1 1:2 3:4\n-1 2:1.5\n1 1:2 # said in passing\n-1\n"


def written(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def as_parquet(folder: Path, name: str = "table.parquet", **columns: Any) -> Path:
    parquet.write_table(arrow.table(columns), folder / name)
    return folder / name


# --- CSV ---------------------------------------------------------------------------------------------------------------


def test_a_csv_file_is_read(tmp_path: Path) -> None:
    data = read(written(tmp_path, TABLE))
    assert data.X.tolist() == [[1.0, 2.5], [-3.0, 40.0], [5.0, 0.5], [7.0, 8.0]]
    assert data.X.dtype == np.float32
    assert data.X.flags.c_contiguous
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.y.dtype == np.int64
    assert data.classes == ("x", "y")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", TABLE.encode()),
        ("T.CSV", TABLE.encode()),
        ("t.csv", b"\xef\xbb\xbf" + TABLE.encode()),
        ("t.csv", TABLE.replace("\n", "\r\n").encode()),
        ("t.csv", TABLE.replace("\n", "\n\n").encode()),
        ("t.csv", TABLE.rstrip("\n").encode()),
        ("t.csv", TABLE.replace("x", '"x"').replace("2.5", '"2.5"').encode()),
        ("t.csv", TABLE.replace(",2.5", ", 2.5 ").encode()),
        ("t.csv.gz", gzip.compress(TABLE.encode())),
        ("t.tsv", TABLE.replace(",", "\t").encode()),
        ("t.tsv.gz", gzip.compress(TABLE.replace(",", "\t").encode())),
    ],
    ids=["plain", "capitals", "mark", "windows", "blank", "unended", "quoted", "spaces", "gz", "tsv", "tsv.gz"],
)
def test_ways_to_write_the_same_table(tmp_path: Path, name: str, content: bytes) -> None:
    data = read(written(tmp_path, content, name))
    assert data.X.tolist() == [[1.0, 2.5], [-3.0, 40.0], [5.0, 0.5], [7.0, 8.0]]
    assert data.classes == ("x", "y")
    assert data.y.tolist() == [0, 1, 0, 1]


def test_a_label_may_have_commas_quotes_and_line_ends(tmp_path: Path) -> None:
    text = 'a,label\n1,"x, or\n""y"""\n2,z\n3,"x, or\n""y"""\n4,z\n'
    assert read(written(tmp_path, text)).classes == ('x, or\n"y"', "z")


@pytest.mark.parametrize(
    ("labels", "classes", "y"),
    [
        (["10", "9", "10", "9"], (9, 10), [1, 0, 1, 0]),
        (["1.0", "1", "2", "2.0"], (1, 2), [0, 0, 1, 1]),
        (["-1", "+1", "-1", "1e0"], (-1, 1), [0, 1, 0, 1]),
        (["1", "a", "1", "a"], ("1", "a"), [0, 1, 0, 1]),
        (["1.5", "a", "1.5", "a"], ("1.5", "a"), [0, 1, 0, 1]),
        (["NA", "b", "NA", "b"], ("NA", "b"), [0, 1, 0, 1]),
        (["true", "false", "true", "false"], ("false", "true"), [1, 0, 1, 0]),
        (["9007199254740993", "1", "1", "9007199254740993"], (1, 9007199254740993), [1, 0, 0, 1]),
    ],
    ids=str,
)
def test_labels_are_whole_numbers_where_all_are_and_strings_otherwise(
    tmp_path: Path, labels: list[str], classes: tuple[Any, ...], y: list[int]
) -> None:
    text = "a,label\n" + "".join(f"1,{label}\n" for label in labels)
    data = read(written(tmp_path, text))
    assert data.classes == classes
    assert [type(name) for name in data.classes] == [type(name) for name in classes]
    assert data.y.tolist() == y


def test_given_classes_keep_their_order_and_may_be_more_than_occur(tmp_path: Path) -> None:
    data = read(written(tmp_path, TABLE), classes=["z", "y", "x"])
    assert data.classes == ("z", "y", "x")
    assert data.y.tolist() == [2, 1, 2, 1]
    numbers = written(tmp_path, "a,label\n1,3\n2,4\n", "numbers.csv")
    assert read(numbers, classes=[4, 3]).y.tolist() == [1, 0]
    assert read(numbers, classes=["4", "3"]).classes == ("4", "3"), "texts are taken as they are where classes say so"


@pytest.mark.parametrize("name", ["label", "y", "class", "target", "Class"])
def test_the_label_column_is_found_by_its_usual_names(tmp_path: Path, name: str) -> None:
    data = read(written(tmp_path, f"a,{name},b\n1,p,2\n3,q,4\n5,p,6\n7,q,8\n"))
    assert data.X.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]


def test_any_column_may_be_the_label(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a,label\n1,2\n3,4\n1,6\n3,8\n"), label="a")
    assert data.classes == (1, 3)
    assert data.X.tolist() == [[2.0], [4.0], [6.0], [8.0]]


def test_true_and_false_are_one_and_zero(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a,label\ntrue,x\nFalse,y\nTRUE,x\nfalse,y\n"))
    assert data.X.tolist() == [[1.0], [0.0], [1.0], [0.0]]


def test_a_column_whose_fractions_come_late_is_read_all_the_same(tmp_path: Path) -> None:
    """Arrow guesses types by the first block of a megabyte; whole numbers there do not bind the rest."""
    rows = 200_000
    text = "a,label\n" + "".join(f"{index % 5},{index % 2}\n" for index in range(rows)) + "0.25,0\n"
    data = read(written(tmp_path, text))
    assert data.X.shape == (rows + 1, 1)
    assert data.X[-1, 0] == 0.25
    assert data.X[:10, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] * 2


def test_lines_longer_than_a_block_are_read(tmp_path: Path) -> None:
    columns = 40_000
    head = ",".join(f"column{index}" for index in range(columns))
    text = f"{head},label\n" + "".join(
        f"{','.join(['1.2500000000000000000000000000'] * columns)},{label}\n" for label in "abab"
    )
    data = read(written(tmp_path, text))
    assert len(text) // 5 > BLOCK
    assert data.X.shape == (4, columns)
    assert (data.X == 1.25).all()


def test_categories_become_one_column_for_each_value_in_order_and_in_place(tmp_path: Path) -> None:
    text = "a,colour,size,label\n1,red,10,x\n2,blue,9,y\n3,red,9,x\n4,green,10,y\n"
    data = read(written(tmp_path, text), categorical=["colour", "size"])
    # a; blue, green, red; 9, 10
    assert data.X.tolist() == [
        [1.0, 0.0, 0.0, 1.0, 0.0, 1.0],
        [2.0, 1.0, 0.0, 0.0, 1.0, 0.0],
        [3.0, 0.0, 0.0, 1.0, 1.0, 0.0],
        [4.0, 0.0, 1.0, 0.0, 0.0, 1.0],
    ]
    table = as_parquet(
        tmp_path, a=[1, 2, 3, 4], colour=["red", "blue", "red", "green"], size=[10, 9, 9, 10], label=list("xyxy")
    )
    assert read(table, categorical=["size", "colour"]).X.tolist() == data.X.tolist()


def test_a_thousand_categories_are_enough(tmp_path: Path) -> None:
    few = "a,label\n" + "".join(f"v{index},{index % 2}\n" for index in range(1000))
    assert read(written(tmp_path, few), categorical=["a"]).X.shape == (1000, 1000)
    with pytest.warns(OnebitWarning, match="the many values of 'a' are hashed"):
        data = read(written(tmp_path, few + "more,0\n"), categorical=["a"])
    assert data.X.shape == (1001, len(np.unique(data.X.indices)))
    assert data.X.shape[1] >= 999  # few meet
    assert data.X.data.tolist() == [1.0] * 1001
    assert data.y.tolist() == [*[0, 1] * 500, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b,label\n1,2,x\n3,foo,y\n", ["'b'", "'foo'", "row 2 (line 3 of the file)", "categorical"]),
        ("a,b,label\n1,2,x\n\n\n3,foo,y\n", ["'b'", "row 2 (line 5 of the file)"]),
        ("a,b,label\n1,true,x\n3,4,y\n", ["'b'", "'true'"]),
        ("a,b,label\n1,1_000,x\n3,4,y\n", ["'b'", "'1_000'"]),
        ("a,b,label\n1,2,x\n3,,y\n", ["'b'", "no value", "row 2 (line 3 of the file)"]),
        ("a,b,label\n1,2,x\n3,NaN,y\n", ["'b'", "no value", "row 2 (line 3 of the file)"]),
        ("a,b,label\n1,,x\n3,foo,y\n", ["'b'", "no value", "row 1 (line 2 of the file)"]),
        ("a,b,label\n1,\u0661,x\n3,4,y\n", ["'b'", "'\u0661'", "row 1 (line 2 of the file)"]),
        ("a,b,label\n1,2,x\n3,null,y\n", ["'b'", "no value", "row 2 (line 3 of the file)"]),
        ("a,b,label\n1,2,\n3,4,y\n", ["'label'", "no value", "row 1 (line 2 of the file)"]),
        ("a,b,label\n1,2,x\n3,inf,y\n", ["'b'", "infinite", "row 2 (line 3 of the file)"]),
        ("a,b,label\n1,2,x\n3,-1e300,y\n", ["'b'", "too large", "row 2 (line 3 of the file)"]),
        ("a,b,label\n1,2,x\n3,4\n", ["row 2 (line 3 of the file)", "2 cells", "header has 3"]),
        ("a,b,label\n1,2,x\n3,4,5,6\n", ["row 2 (line 3 of the file)", "4 cells", "header has 3"]),
        (b"a,b,label\n1,2,x\n3,4,\xff\n", ["line 3", "UTF-8"]),
        (b"a,\xff,label\n1,2,x\n", ["line 1", "UTF-8"]),
        ('a,b,label\n1,2,x\n3,"4,y\n', ["line 3"]),
        ("", ["empty", "header"]),
        ("\n\n", ["empty", "header"]),
        ("a,b,label\n", ["no rows"]),
        ("a,b,label", ["no rows"]),
        ("a,a,label\n1,2,x\n", ["two columns", "'a'"]),
        (",a,label\n0,2,x\n", ["column 1", "no name"]),
        ("label\nx\ny\n", ["no features, only the label", "'label'"]),
        ("a,b\n1,2\n", ["which column", "'a', 'b'"]),
        ("a,y,class\n1,2,3\n", ["which column", "'y' or 'class'"]),
        ("a,label\n1,x\n2,x\n", ["'x'", "every row", "at least 2"]),
        ("a,label\n1,1\n2,1.5\n3,1\n", ["1.5", "row 2 (line 3 of the file)", "whole numbers or strings"]),
        ("a,label\n1,x\n2,y\n3,x\n", ["'y'", "row 2 (line 3 of the file)", "once", "classes"]),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, str | bytes) else None,
)
def test_a_bad_csv_file_is_refused_with_its_place(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    path = written(tmp_path, text)
    sentence = refused(lambda: read(path))
    for word in [*words, str(path)]:
        assert word in sentence
    assert "\n" not in sentence


def test_the_place_of_a_fault_far_down_is_right(tmp_path: Path) -> None:
    rows = 150_000
    lines = [f"{index},0.123456789,{index % 2}\n" for index in range(rows)]
    lines[140_000] = "1,oops,0\n"
    sentence = refused(lambda: read(written(tmp_path, "a,b,label\n" + "".join(lines))))
    assert "'oops' in row 140001 (line 140002 of the file)" in sentence
    lines[140_000] = "1,,0\n"
    sentence = refused(lambda: read(written(tmp_path, "a,b,label\n" + "".join(lines))))
    assert "no value in row 140001 (line 140002 of the file)" in sentence


def test_unknown_columns_are_refused_with_the_nearest(tmp_path: Path) -> None:
    path = written(tmp_path, TABLE)
    sentence = refused(lambda: read(path, label="lable"))
    assert "'lable'" in sentence
    assert "did you mean 'label'?" in sentence
    assert "'a', 'b', 'label'" in sentence
    assert "did you mean 'b'?" in refused(lambda: read(path, categorical=["B"]))
    assert "holds the label" in refused(lambda: read(path, categorical=["label"]))
    assert "list" in refused(lambda: read(path, categorical="a"))


def test_a_label_outside_the_classes_is_refused_with_its_place(tmp_path: Path) -> None:
    sentence = refused(lambda: read(written(tmp_path, TABLE), classes=["x", "z"]))
    assert "'y' in row 2 (line 3 of the file)" in sentence
    assert "'x', 'z'" in sentence


def test_a_label_seen_once_is_accepted_where_the_classes_are_given(tmp_path: Path) -> None:
    assert read(written(tmp_path, "a,label\n1,x\n2,y\n3,x\n"), classes=["x", "y"]).y.tolist() == [0, 1, 0]


def test_a_label_column_with_too_many_values_is_none(tmp_path: Path) -> None:
    text = "a,label\n" + "".join(f"1,{index}\n" for index in range(100_001))
    assert "is it the label?" in refused(lambda: read(written(tmp_path, text)))


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(TABLE.encode() * 100)
    for content in (packed[: len(packed) // 2], b"no archive"):
        for name in ("t.csv.gz", "t.svm.gz"):
            path = written(tmp_path, content, name)
            assert str(path) in refused(partial(read, path))


# --- Parquet -----------------------------------------------------------------------------------------------------------


def test_a_parquet_file_is_read_whatever_its_types_are(tmp_path: Path) -> None:
    from decimal import Decimal

    path = as_parquet(
        tmp_path,
        whole=arrow.array([1, 2, 3, 4], arrow.int16()),
        half=arrow.array([0.5, 1.5, 2.5, 3.5], arrow.float32()),
        truth=arrow.array([True, False, True, True]),
        exact=arrow.array([Decimal("1.25")] * 4),
        few=arrow.array([7, 8, 7, 8]).dictionary_encode(),
        label=arrow.array(["b", "a", "b", "a"]).dictionary_encode(),
    )
    data = read(path)
    assert data.X.dtype == np.float32
    assert data.X.tolist() == [
        [1.0, 0.5, 1.0, 1.25, 7.0],
        [2.0, 1.5, 0.0, 1.25, 8.0],
        [3.0, 2.5, 1.0, 1.25, 7.0],
        [4.0, 3.5, 1.0, 1.25, 8.0],
    ]
    assert data.classes == ("a", "b")
    assert data.y.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([3.0, 1.0, 3.0, 1.0], (1, 3)), ([3, 1, 3, 1], (1, 3)), (["3", "1", "3", "1"], ("1", "3"))],
    ids=str,
)
def test_labels_of_a_parquet_file_keep_their_type(tmp_path: Path, labels: list[Any], classes: tuple[Any, ...]) -> None:
    data = read(as_parquet(tmp_path, a=[1, 2, 3, 4], label=labels))
    assert data.classes == classes
    assert [type(name) for name in data.classes] == [type(name) for name in classes]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [[1.0], [2.0]], "label": [0, 1]}, ["'a'", "[1.0]", "row 1"]),
        ({"a": [None, None], "label": [0, 1]}, ["'a'", "no value", "row 1"]),
        ({"a": [1.0, None], "label": [0, 1]}, ["'a'", "no value", "row 2"]),
        ({"a": [1.0, float("nan")], "label": [0, 1]}, ["'a'", "no value", "row 2"]),
        ({"a": [1.0, float("-inf")], "label": [0, 1]}, ["'a'", "infinite", "row 2"]),
        ({"a": [1.0, 2.0], "label": [0, None]}, ["'label'", "no value", "row 2"]),
        ({"a": [1.0, 2.0], "label": ["x", ""]}, ["'label'", "no value", "row 2"]),
        ({"a": [1.0, 2.0], "label": [0.0, 0.5]}, ["'label'", "0.5", "row 2", "whole numbers or strings"]),
        ({"a": [1.0, 2.0], "label": [True, False]}, ["'label'", "bool", "whole numbers or strings"]),
        ({"a": [1.0, 2.0], "label": [[0], [1]]}, ["'label'", "list", "whole numbers or strings"]),
        ({"a": [1.0, 2.0, 3.0], "label": [0, 1, 1]}, ["0 in row 1", "once"]),
        ({"a": [1.0, 2.0], "label": [1, 1]}, ["every row", "at least 2"]),
        ({"a": [], "label": []}, ["no rows"]),
        ({"a": [1.0, 2.0], "b": [0, 1]}, ["which column"]),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else None,
)
def test_a_bad_parquet_file_is_refused_with_its_place(
    tmp_path: Path, columns: dict[str, Any], words: list[str]
) -> None:
    if not columns["a"]:
        columns = {name: arrow.array([], arrow.float64()) for name in columns}
    path = as_parquet(tmp_path, **columns)
    sentence = refused(lambda: read(path))
    for word in [*words, str(path)]:
        assert word in sentence


def test_categories_that_are_lists_are_refused(tmp_path: Path) -> None:
    path = as_parquet(tmp_path, a=[[1], [2]], label=[0, 1])
    assert "'a'" in refused(lambda: read(path, categorical=["a"]))


def test_dates_may_be_categories(tmp_path: Path) -> None:
    path = as_parquet(tmp_path, a=[date(2020, 1, 2), date(2020, 1, 1)] * 2, label=[0, 1, 0, 1])
    assert read(path, categorical=["a"]).X.tolist() == [[0.0, 1.0], [1.0, 0.0]] * 2


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    whole = as_parquet(tmp_path, a=np.arange(2000.0), label=np.arange(2000) % 2).read_bytes()
    middle = whole[:100] + bytes(3000) + whole[3100:]
    for content in (b"", b"no table", whole[: len(whole) // 2], whole[:-1], middle):
        path = written(tmp_path, content, "bad.parquet")
        assert str(path) in refused(partial(read, path))


# --- svmlight ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.svmlight", SVM.encode()),
        ("t.libsvm", SVM.encode()),
        ("t.svm", b"# a comment\n\n" + SVM.encode()),
        ("t.svm.gz", gzip.compress(SVM.encode())),
        ("t.libsvm.bz2", bz2.compress(SVM.encode())),
    ],
    ids=["svmlight", "libsvm", "comments", "gz", "bz2"],
)
def test_an_svmlight_file_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    data = read(written(tmp_path, content, name))
    assert data.X.shape == (4, 3)
    assert data.X.data.tolist() == [2.0, 4.0, 1.5, 2.0]
    assert data.X.indices.tolist() == [0, 2, 1, 0]
    assert data.X.indptr.tolist() == [0, 2, 3, 4, 4]
    assert [part.dtype for part in (data.X.data, data.X.indices, data.X.indptr)] == [np.float32, np.int32, np.int64]
    assert data.classes == (-1, 1)
    assert data.y.tolist() == [1, 0, 1, 0]


def test_columns_of_an_svmlight_file_are_counted_from_0_where_0_occurs(tmp_path: Path) -> None:
    data = read(written(tmp_path, "1 0:2 3:4\n2 1:1\n1 2:1\n2 1:1\n", "t.svm"))
    assert data.X.shape == (4, 4)
    assert data.X.indices.tolist() == [0, 3, 1, 2, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 1:2\n2 1:x\n", ["line 2", "'2 1:x'"]),
        ("1 1:2\n\n# aside\n2 1\n", ["line 4", "'2 1'"]),
        ("1 1:2\n2 3:1 2:1\n", ["line 2", "sorted"]),
        ("1 1:2\n2 3:1 3:1\n", ["line 2", "unique"]),
        ("1 1:2\n2 -3:1\n", ["line 2", "-3"]),
        ("1 1:2\n2 99999999999:1\n", ["line 2"]),
        ("1 1:2\nyes 3:1\n", ["line 2", "yes"]),
        ("1 1:2\n1,2 3:1\n", ["line 2", "1,2"]),
        ("1 1:2\n\xe9 3:1\n", ["line 2"]),
        ("1 1:2\n2 " + "1:1 " * 500 + "\n", ["line 2", "..."]),
        ("1 1:2\n2 7:nan\n", ["line 2", "column 7", "missing"]),
        ("1 1:2\n2 7:inf\n", ["line 2", "column 7", "infinite"]),
        ("1 1:2\n2 7:1e300\n", ["line 2", "column 7", "too large"]),
        ("1 1:2\n1.5 7:1\n", ["line 2", "1.5", "whole numbers"]),
        ("1 1:2\nnan 7:1\n", ["line 2", "nan", "whole numbers"]),
        ("1 1:2\n1 1:2\n# aside\n3 7:1\n", ["line 4", "3", "once"]),
        ("1 1:2\n1 7:1\n", ["every row", "at least 2"]),
        ("1\n2\n1\n2\n", ["no values"]),
        ("", ["no rows"]),
        ("# nothing\n", ["no rows"]),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, str) else None,
)
def test_a_bad_svmlight_file_is_refused_with_its_line(tmp_path: Path, text: str, words: list[str]) -> None:
    path = written(tmp_path, text, "t.svm")
    sentence = refused(lambda: read(path))
    for word in [*words, str(path)]:
        assert word in sentence
    assert len(sentence) < 400


def test_a_bad_line_beyond_the_first_block_is_found(tmp_path: Path) -> None:
    lines = [f"{index % 2} {' '.join(f'{column}:0.123456' for column in range(1, 60))}\n" for index in range(10_000)]
    lines[9_000] = "1 2:3 oops\n"
    sentence = refused(lambda: read(written(tmp_path, "".join(lines), "t.svm")))
    assert "line 9001 " in sentence
    assert "'1 2:3 oops'" in sentence


# --- any file ----------------------------------------------------------------------------------------------------------


def test_a_file_with_an_unknown_ending_or_none_at_all_is_refused(tmp_path: Path) -> None:
    sentence = refused(lambda: read(written(tmp_path, TABLE, "table.ods")))
    assert "table.ods" in sentence
    for ending in (".npz", ".csv", ".parquet", ".svmlight"):
        assert ending in sentence
        assert is_data_file(f"some{ending}")
        assert ending in ENDINGS
    assert not is_data_file("mnist")
    assert "no file" in refused(lambda: read(tmp_path / "absent.csv"))
    assert "no file" in refused(lambda: read(tmp_path / "absent.npz"))


def test_columns_are_not_named_where_there_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=[0, 1, 0, 1])
    assert "label was given" in refused(lambda: read(tmp_path / "d.npz", label="y"))
    assert "categorical was given" in refused(lambda: read(written(tmp_path, SVM, "t.svm"), categorical=["a"]))


def test_an_archive_is_read_by_its_ending_and_a_label_seen_once_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, X=np.eye(4), y=[0, 1, 0, 1])
    assert read(path).classes == (0, 1)
    np.savez(path, X=np.eye(4), y=[0, 1, 0, 2])
    sentence = refused(lambda: read(path))
    assert "y[1]" in sentence
    assert "once" in sentence
    assert read(path, classes=[2, 1, 0]).y.tolist() == [2, 1, 2, 0]
    np.savez(path, X=np.eye(4), y=[0, 1, 0, 2], classes=["a", "b", "c"])
    assert read(path).classes == ("a", "b", "c")
    assert "its own" in refused(lambda: read(path, classes=["a", "b", "c"]))


@pytest.mark.parametrize(("name", "module"), [("t.csv", "pyarrow"), ("t.parquet", "pyarrow"), ("t.svm", "sklearn")])
def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    sentence = refused(lambda: read(written(tmp_path, TABLE, name)))
    assert module in sentence
    assert install_command("experiments") in sentence


def test_progress_is_told_in_bytes_of_the_file(tmp_path: Path) -> None:
    for path in (
        written(tmp_path, TABLE),
        written(tmp_path, gzip.compress(TABLE.encode()), "t.csv.gz"),
        written(tmp_path, SVM, "t.svm"),
        as_parquet(tmp_path, a=[1, 2, 3, 4], label=[0, 1, 0, 1]),
    ):
        heard: list[tuple[str, int, int]] = []
        read(path, progress=lambda *news: heard.append(news))  # noqa: B023
        assert heard
        what, done, total = heard[-1]
        assert path.name in what
        assert 0 < done <= total == path.stat().st_size


FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


@settings(max_examples=40, deadline=None)
@given(
    table=st.integers(1, 4).flatmap(
        lambda width: st.lists(st.lists(FINITE, min_size=width, max_size=width), min_size=2, max_size=12)
    ),
    names=st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=5),
            st.integers(-9, 9).map(str),
        ),
        min_size=2,
        max_size=4,
        unique=True,
    ),
)
def test_a_table_comes_back_from_csv_and_from_parquet_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[float]], names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("tables")
    X = np.array(table, dtype=np.float32)
    labels = [names[row % len(names)] for row in range(len(X))]
    known = sorted(names)
    columns = [f"column {index}" for index in range(X.shape[1])]
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "label"])
        writer.writerows([*map(repr, row), label] for row, label in zip(X.tolist(), labels, strict=True))
    parquet.write_table(
        arrow.table({**dict(zip(columns, X.T, strict=True)), "label": labels}), folder / "table.parquet"
    )
    for name in ("table.csv", "table.parquet"):
        data = read(folder / name, classes=known)
        assert np.array_equal(data.X, X)
        assert data.classes == tuple(known)
        assert [known[index] for index in data.y] == labels
