"""Frames of pandas, polars and Arrow are read alike, and a learner knows their columns by their names."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused
from onebit.learner.state import dump_state, load_state
from tests.frames import every_frame

pd = pytest.importorskip("pandas", reason="pandas is in the extra `experiments`")
pa = pytest.importorskip("pyarrow", reason="pyarrow is in the extra `experiments`")

COLUMNS = {"height": [1.0, 2.0, 3.0, 4.0], "wide": [True, False, True, False], "count": [4, 3, 2, 1]}
VALUES = np.array([[1.0, 1.0, 4.0], [2.0, 0.0, 3.0], [3.0, 1.0, 2.0], [4.0, 0.0, 1.0]])
LABELS = ["a", "b", "a", "b"]


def learner_of(**options: Any) -> onebit.Learner:
    return onebit.BPA(classes=["a", "b"], **options)


def turned(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: columns[name] for name in ("count", "height", "wide")}


@every_frame
@pytest.mark.parametrize("space", ["dense", "sparse"])
def test_frames_of_mixed_columns_are_their_numbers(frame: Callable[..., Any], space: str) -> None:
    one, other = learner_of(space=space), learner_of(space=space)
    one.teach(frame(COLUMNS), LABELS)
    other.teach(VALUES, LABELS)
    assert one.weights.tolist() == other.weights.tolist()
    decided = zip(one.decide_many(frame(COLUMNS)), other.decide_many(VALUES), strict=True)
    assert all(mine.label == theirs.label for mine, theirs in decided)


@every_frame
def test_columns_in_another_order_are_put_in_order(frame: Callable[..., Any]) -> None:
    learner = learner_of()
    learner.teach(frame(COLUMNS), LABELS)
    assert learner.runtime.features.feature_names == ("height", "wide", "count")
    weights = learner.weights
    decisions = learner.decide_many(frame(turned(COLUMNS)))
    assert [np.asarray(one.x).tolist() for one in decisions] == VALUES.tolist()
    one_row = frame({name: values[1:2] for name, values in turned(COLUMNS).items()})
    assert np.asarray(learner.decide(one_row).x).tolist() == VALUES[1].tolist()
    assert learner.scores(one_row).tolist() == learner.scores(VALUES[1]).tolist()
    again = learner_of()
    again.teach(frame(COLUMNS), LABELS)
    again.teach(frame(turned(COLUMNS)), LABELS)
    learner.teach(frame(COLUMNS), LABELS)
    assert again.weights.tolist() == learner.weights.tolist() != weights.tolist()


@every_frame
def test_other_columns_are_refused_by_name(frame: Callable[..., Any]) -> None:
    learner = learner_of()
    learner.teach(frame(COLUMNS), LABELS)
    other = {"weight" if name == "height" else name: values for name, values in COLUMNS.items()}
    for action in (lambda: learner.decide_many(frame(other)), lambda: learner.teach(frame(other), LABELS)):
        sentence = refused(action)
        assert "'height' is missing" in sentence
        assert "'weight' is unknown" in sentence
    fewer = frame({name: values for name, values in COLUMNS.items() if name != "wide"})
    assert "'wide' is missing" in refused(lambda: learner.decide_many(fewer))
    assert learner.decide_many(VALUES)  # arrays go by position, as they always did


def test_a_row_of_a_pandas_frame_has_its_names_too() -> None:
    learner = learner_of()
    learner.teach(pd.DataFrame(COLUMNS), LABELS)
    row = pd.DataFrame(turned(COLUMNS)).astype(float).iloc[2]
    assert np.asarray(learner.decide(row).x).tolist() == VALUES[2].tolist()
    assert "'wide' is missing" in refused(lambda: learner.decide(row.drop("wide")))
    assert np.asarray(learner.decide(pd.Series([1.0, 2.0, 3.0])).x).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("way", ["file", "bytes", "copy", "pickle"])
def test_names_are_kept_with_the_learner(way: str, tmp_path: Path) -> None:
    learner = learner_of()
    learner.teach(pd.DataFrame(COLUMNS), LABELS)
    if way == "file":
        learner.save(tmp_path / "learner")
        again = onebit.load(tmp_path / "learner")
    elif way == "bytes":
        again = onebit.Learner.from_bytes(learner.to_bytes())
    else:
        again = copy.deepcopy(learner) if way == "copy" else pickle.loads(pickle.dumps(learner))
    assert again.runtime.features.feature_names == ("height", "wide", "count")
    assert np.asarray(again.decide_many(pd.DataFrame(turned(COLUMNS)))[0].x).tolist() == VALUES[0].tolist()


def test_names_that_do_not_fit_are_refused_in_a_file() -> None:
    learner = learner_of()
    learner.teach(pd.DataFrame(COLUMNS), LABELS)
    manifest, arrays = dump_state(learner.runtime)
    for names, words in ((b'["a"]', "1 names"), (b'["a", "a", "b"]', "2 of them"), (b'["a", "b", 3]', "texts")):
        bad = {**arrays, "feature_names": np.frombuffer(names, dtype=np.uint8)}
        assert words in refused(partial(load_state, manifest, bad))


def test_names_of_what_is_refused_are_forgotten() -> None:
    learner = learner_of()
    refused(lambda: learner.decide_many(pd.DataFrame({"a": [1.0], "b": [np.nan]})))
    assert learner.runtime.features.feature_names is None
    learner.teach(VALUES, LABELS)
    refused(lambda: learner.decide(pd.DataFrame({"a": [1.0], "b": [1e300], "c": [0.0]})))
    assert learner.runtime.features.feature_names is None
    learner.decide_many(pd.DataFrame(VALUES, columns=list("abc")))  # the first frame of a learner that knew arrays
    assert learner.runtime.features.feature_names == ("a", "b", "c")


def test_numbers_are_no_names() -> None:
    learner = learner_of()
    learner.teach(pd.DataFrame(VALUES), LABELS)
    assert learner.runtime.features.feature_names is None
    learner.decide_many(pd.DataFrame(VALUES)[[2, 1, 0]])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1.0, 2.0], "b": ["x", "y"]}, ["'b'", "'x'", "text", "categorical"]),
        ({"a": [1.0, None]}, ["'a'", "no value", "row 1"]),
        ({"a": [None, 3]}, ["'a'", "no value", "row 0"]),
    ],
    ids=["text", "missing", "whole"],
)
@every_frame
def test_columns_without_numbers_are_refused_by_name(
    frame: Callable[..., Any], columns: dict[str, Any], words: list[str]
) -> None:
    sentence = refused(lambda: learner_of().decide_many(frame(columns)))
    assert all(word in sentence for word in words)


def test_the_cell_that_is_no_number_is_named() -> None:
    """A row with a text in it was said to be 1.0, its first number, and a gap to be in a row that the user does not have."""
    learner = learner_of()
    frame = pd.DataFrame({"height": [1.0, 2.0], "colour": [3.0, "red"]})
    row = frame.iloc[1]
    assert refused(lambda: learner.decide(row)).startswith("'colour' of x is 'red', but must be a number")
    assert (
        refused(lambda: learner.decide(row.to_numpy()))
        == "x has 'red' as feature 1 (dtype object), but must contain only numbers"
    )
    assert (
        refused(lambda: learner.decide(pd.Series([1.0, None]))) == "feature 1 of x has no value, but must be a number"
    )
    sentence = refused(lambda: learner.decide_many(frame))
    assert sentence.startswith("column 'colour' of X, row 1, is 'red', but must be a number")
    assert refused(lambda: learner.decide_many(frame.to_numpy())).startswith(
        "x has 'red' as feature 1 in row 1 (dtype object), but"
    )
    gap = pd.DataFrame({"height": [1.0, 2.0], "colour": [3.0, None]})
    assert refused(lambda: learner.decide(gap.iloc[1])) == "'colour' of x has no value, but must be a number"
    assert (
        refused(lambda: learner.decide_many(gap)) == "column 'colour' of X, row 1, has no value, but must be a number"
    )


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    assert "two columns of x are named 'a'" in refused(lambda: learner_of().decide_many(twice))


@every_frame
def test_a_learner_of_dicts_or_texts_does_not_take_the_names_of_columns_for_rows(frame: Callable[..., Any]) -> None:
    for learner in (learner_of(text=True), learner_of(hash_bits=4)):
        assert "table of columns" in refused(partial(learner.decide_many, frame(COLUMNS)))
        assert "table of columns" in refused(partial(learner.teach, frame(COLUMNS), LABELS))


def test_dicts_are_what_they_were() -> None:
    learner = learner_of()
    learner.teach([{"a": 1.0, "b": 2.0}, {"b": 1.0}], ["a", "b"])
    assert learner.runtime.features.feature_names is None
    assert learner.scores({"b": 2.0, "a": 1.0}).tolist() == learner.scores({"a": 1.0, "b": 2.0}).tolist()


# --- streams -----------------------------------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(120, 3))
TRUTH = np.where(ROWS[:, 0] > ROWS[:, 1], "a", "b")


def table_of(order: str = "xyz") -> dict[str, Any]:
    return {name: ROWS[:, "xyz".index(name)] for name in order}


@every_frame
def test_a_run_on_a_frame_is_that_on_its_numbers_and_its_learner_knows_the_names(frame: Callable[..., Any]) -> None:
    result = onebit.run("bpa", frame(table_of()), TRUTH)
    assert result.errors.tolist() == onebit.run("bpa", ROWS, TRUTH).errors.tolist()
    assert result.learner.runtime.features.feature_names == ("x", "y", "z")
    learner = result.learner
    again = onebit.run(learner, frame(table_of("zyx")), TRUTH)
    assert again.errors.tolist() == onebit.run(learner, frame(table_of()), TRUTH).errors.tolist()
    other = {"w" if name == "x" else name: values for name, values in table_of().items()}
    assert "'x' is missing" in refused(lambda: onebit.run(learner, frame(other), TRUTH))


def test_names_stay_with_prepared_columns_where_these_stay() -> None:
    learner = onebit.run("bpa", pd.DataFrame(table_of()), TRUTH, prepare="standard").learner
    assert learner.runtime.features.feature_names == ("x", "y", "z")
    assert (
        onebit.run("bpa", pd.DataFrame(table_of()), TRUTH, prepare="bias").learner.runtime.features.feature_names
        is None
    )


def test_a_stream_of_a_sparse_product_has_its_columns_in_order() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    mixed = sparse.csr_array((ROWS.ravel(), np.tile([2, 0, 1], 120), np.arange(0, 361, 3)), shape=(120, 3))
    tidy = sparse.csr_array(mixed.toarray())
    for learner in ("bpa", "perceptron"):
        expected = onebit.run(learner, tidy, TRUTH).errors.tolist()
        assert onebit.run(learner, mixed, TRUTH).errors.tolist() == expected
        assert onebit.run(learner, sparse.coo_array(mixed), TRUTH).errors.tolist() == expected
    columns = [round_.x.columns.tolist() for round_ in onebit.stream(mixed, TRUTH)]
    assert columns == [[0, 1, 2]] * 120


def test_narwhals_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(onebit.MissingExtraError, match="narwhals"):
        learner_of().decide_many(pd.DataFrame(COLUMNS))
    assert learner_of().decide_many(VALUES)
