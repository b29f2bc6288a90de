"""Streams with candidates, rewards and corrections: what is drawn, what is read, what is refused, however they are cut."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from onebit.contract.candidates import candidates_at, is_complete_at
from onebit.data import streams, synthetic
from onebit.data.candidate_sets import CandidateSets, ListedCandidates, candidate_draws
from onebit.data.dataset import most_rewarded
from onebit.data.streams import Stream, stream
from onebit.engine.schedule import Schedule
from onebit.errors import InputError

X = np.random.default_rng(0).normal(size=(103, 3)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 6, 103)
R = np.random.default_rng(2).random((103, 4)).round(1)
LISTS = [sorted({int(label), int(label + 1 + row % 3) % 6, int(label + 4) % 6}) for row, label in enumerate(Y)]


def assert_refused(words: str, given: Any, **settings: Any) -> None:
    with pytest.raises(InputError, match=words):
        stream(given, **settings)


def sets_of(schedule: Schedule) -> list[list[int]]:
    assert all(is_complete_at(schedule.among, at) for at in range(len(schedule.labels)))
    return [candidates_at(schedule.among, at).tolist() for at in range(len(schedule.labels))]


# --- drawn candidates --------------------------------------------------------------------------------------------------


def test_drawn_candidates_have_the_label_and_the_others_alike_often() -> None:
    labels = np.zeros(20_000, dtype=np.int64)
    sets = candidate_draws(3, 6, 7)(labels)
    assert sets.sizes.tolist() == [3] * 20_000
    rows = sets.members.reshape(-1, 3)
    assert (np.diff(rows, axis=1) > 0).all()
    assert (rows[:, 0] == 0).all()
    pairs = Counter(map(tuple, rows[:, 1:].tolist()))
    assert len(pairs) == 10, "all pairs of the five others"
    expected = 20_000 / 10
    # The 99.9 % point of chi-square with 9 degrees of freedom.
    assert sum((count - expected) ** 2 / expected for count in pairs.values()) < 27.9


def test_drawn_candidates_are_around_every_label() -> None:
    labels = np.arange(600) % 5
    sets = candidate_draws(4, 5, 0)(labels)
    assert len(sets.without_label(labels)) == 0
    assert {len(set(row)) for row in sets.members.reshape(-1, 4).tolist()} == {4}


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "changes": {"noise": 0.2, "drift": "abrupt:0.4"},
    "late": {"delay": "geometric:9", "missing": 0.2},
    "very late": {"delay": 150},
    "corrected": {"corrected": 0.25, "delay": 3},
}


@pytest.mark.parametrize("source", ["arrays", "listed", "rewards", "synsep9"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ["file", "shuffle", "resample"])
def test_a_stream_in_pieces_has_the_same_candidates(
    source: str, way: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**WAYS[way], "rounds": 301, "order": order}
    if source in ("listed", "rewards"):
        settings = {name: value for name, value in settings.items() if name not in ("noise", "drift")}
    made = {
        "arrays": lambda: stream(X, Y, candidates=3, **settings),
        "listed": lambda: stream(X, Y, candidates=LISTS, **settings),
        "rewards": lambda: stream(X, rewards=R, candidates=2, **settings),
        "synsep9": lambda: stream("synsep9", candidates=4, **settings),
    }[source]()
    data = made.data(5)
    whole = made.schedule(data, 5)
    assert not CandidateSets.from_packed(whole.among).without_label(whole.labels).size
    monkeypatch.setattr(synthetic, "PIECE_VALUES", 4_000)
    monkeypatch.setattr(streams, "PIECE_ROUNDS", 50)
    wanted = list(zip(whole.labels.tolist(), sets_of(whole), strict=True))
    found: dict[int, Any] = {}
    pieces = list(made.pieces(5))
    assert len(pieces) > 1
    for piece, schedule in pieces:
        assert schedule.corrections == whole.corrections == settings.get("corrected", 0.0)
        assert np.array_equal(schedule.rewards, np.zeros((0, 0)) if piece.rewards is None else piece.rewards)
        for number, one in zip(
            schedule.numbers.tolist(), zip(schedule.labels.tolist(), sets_of(schedule), strict=True), strict=True
        ):
            assert found.setdefault(number, one) == one, "a round that waits keeps its candidates"
    assert [found[number] for number in range(301)] == wanted


def test_candidates_leave_everything_else_of_a_stream_as_it_was() -> None:
    ways: list[dict[str, Any]] = [{}, {"candidates": 3, "corrected": 0.5}]
    plain, offered = (
        made.schedule(made.data(3), 3) for made in (stream(X, Y, noise=0.1, drift="gradual", **more) for more in ways)
    )
    assert np.array_equal(plain.labels, offered.labels)
    assert np.array_equal(plain.order, offered.order)
    assert len(plain.among) == 0
    assert plain.rewards.shape == (0, 0)


def test_identities_change_where_something_is_said_and_only_there() -> None:
    plain = stream(X, Y)
    assert set(plain.described()) & {"candidates", "corrected", "rewards"} == set()
    keys = {
        stream(X, Y, **more).key
        for more in (
            {},
            {"candidates": 3},
            {"candidates": 4},
            {"corrected": 0.1},
            {"candidates": LISTS},
            {"candidates": [*LISTS[:-1], range(6)]},
        )
    }
    assert len(keys) == 6
    assert stream(X, rewards=R).key != stream(X, rewards=R / 2).key
    assert stream(X, Y, candidates=3, corrected=0.1).name == "arrays (candidates 3, corrected 0.1)"
    assert stream(X, Y, candidates=LISTS).name == "arrays (candidates listed)"


# --- stepping ----------------------------------------------------------------------------------------------------------


def test_rounds_and_events_bring_candidates_and_rewards() -> None:
    made = stream(X, rewards=R, classes=["a", "b", "c", "d"], candidates=2, rounds=20, order="file")
    for row, (x, right) in enumerate(made):
        assert np.array_equal(x, X[row])
        best = ["a", "b", "c", "d"][int(R[row].argmax())]
        assert right.among is not None
        assert best in right.among
        assert len(right.among) == 2
        for name, worth in zip("abcd", R[row], strict=True):
            assert right.reward(name) == worth
            assert right(name) == (worth == R[row].max())
            assert right.given_for(name) == {"reward": worth}
    decided = [value for what, _, value in made.events() if what == "decide"]
    assert [one.among for one in decided] == [right.among for _, right in made]
    plain = next(iter(stream(X, Y, rounds=1, order="file"))).right
    assert plain.among is None
    assert plain.given_for(int(Y[0])) == {"right": True}


# --- listed candidates -------------------------------------------------------------------------------------------------

NAMES = ["new york", "rome", "oslo"]
CELLS = [["rome", "oslo"], ["new york", "rome"], ["oslo"], ["rome", "new york", "oslo"]]
CITIES = ["rome", "new york", "oslo", "oslo"]
WRITTEN = {
    "bars": ["|".join(cell) for cell in CELLS],
    "json": [json.dumps(cell) for cell in CELLS],
}


def table(tmp_path: Path, cells: list[str], labels: list[Any] = CITIES) -> Path:
    path = tmp_path / "offers.csv"
    frame = pandas.DataFrame({"height": range(len(cells)), "city": labels, "offer": cells})
    frame.to_csv(path, index=False)
    return path


def assert_cities(made: Stream) -> None:
    data = made.data(0)
    assert data.candidates is not None
    assert data.names in (("height",), None)
    place = {name: data.classes.index(name) for name in NAMES}
    wanted = [sorted(place[name] for name in cell) for cell in CELLS]
    schedule = made.schedule(data, 0)
    assert sets_of(schedule) == wanted


@pytest.mark.parametrize("form", WRITTEN)
def test_a_column_of_a_table_lists_candidates(form: str, tmp_path: Path) -> None:
    path = table(tmp_path, WRITTEN[form])
    assert_cities(stream(path, label="city", candidates="offer", classes=NAMES, order="file"))


@pytest.mark.parametrize("classes", [None, ["New York", "Paris, TX", "New", "[x]", "a|b"]])
def test_names_may_have_spaces_commas_and_in_a_json_list_bars(
    classes: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file is converted."""
    cells = ["New York", "Paris, TX", "New York|New", '["a|b", "New"]', '["a|b"]', "New"] * 2
    labels = ["New York", "Paris, TX", "New", "a|b", "a|b", "New"] * 2
    wanted = [["New York"], ["Paris, TX"], ["New York", "New"], ["a|b", "New"], ["a|b"], ["New"]] * 2
    if classes is not None:
        cells, labels, wanted = [*cells, '["[x]"]'], [*labels, "[x]"], [*wanted, ["[x]"]]
    path = table(tmp_path, cells, labels)
    frame = pandas.read_csv(path)
    frame.to_json(tmp_path / "o.jsonl", orient="records", lines=True)
    settings: dict[str, Any] = {"candidates": "offer", "label": "city", "classes": classes, "order": "file"}
    made = [stream(given, **settings) for given in (path, frame, tmp_path / "o.jsonl")]
    made.append(stream(frame[["height"]], labels, candidates=cells, classes=classes, order="file"))
    monkeypatch.setenv("ONEBIT_LARGE_FILE", "1")
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    made.append(stream(path, **settings))
    for one in made:
        data = one.data(0)
        found = sets_of(one.schedule(data, 0))
        assert [{data.classes[number] for number in members} for members in found] == [set(names) for names in wanted]


def test_the_place_of_a_row_is_looked_for_only_to_refuse_it() -> None:
    """A file of text is gone through from its start for it."""
    asked: list[int] = []

    def place(row: int) -> str:
        asked.append(row)
        return f"row {row}"

    listed = ListedCandidates("it", place)
    listed.read(["a|b", "a"], 0)
    assert asked == []
    with pytest.raises(InputError, match="it in row 3 lists no candidate"):
        listed.read(["a", ""], 2)
    assert asked == [3]


def test_classes_of_rewards_are_known_to_cells(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"height": [1.0, 2.0], "w_New York": [0.1, 0.2], "w_Rome": [1.0, 0.0]})
    frame["offer"] = ["New York", "New York|Rome"]
    frame.to_csv(tmp_path / "w.csv", index=False)
    made = stream(tmp_path / "w.csv", rewards="w_*", candidates="offer", order="file")
    assert sets_of(made.schedule(made.data(0), 0)) == [[0], [0, 1]]


def test_a_column_of_numbers_names_classes_that_are_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, ["1|2", "2|3", "3", "1|2|3"], [1, 2, 3, 1])
    made = stream(path, label="city", candidates="offer", classes=[1, 2, 3], order="file")
    assert sets_of(made.schedule(made.data(0), 0)) == [[0, 1], [1, 2], [2], [0, 1, 2]]


def test_json_lines_parquet_and_frames_list_candidates(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"height": [1.0, 2.0, 3.0, 4.0], "city": CITIES, "offer": CELLS})
    frame.to_json(tmp_path / "offers.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "offers.parquet")
    settings: dict[str, Any] = {"label": "city", "candidates": "offer", "classes": NAMES, "order": "file"}
    for given in (tmp_path / "offers.jsonl", tmp_path / "offers.parquet", frame):
        assert_cities(stream(given, **settings))
    assert_cities(stream(frame[["height"]], CITIES, classes=NAMES, candidates=CELLS, order="file"))


def test_an_array_of_an_archive_lists_candidates(tmp_path: Path) -> None:
    matrix = np.array([[name in cell for name in NAMES] for cell in CELLS])
    rows = np.arange(4.0)[:, None]
    np.savez(tmp_path / "a.npz", X=rows, y=[NAMES.index(city) for city in CITIES], classes=NAMES, offer=matrix)
    np.savez(tmp_path / "b.npz", X=rows, y=CITIES, offer=WRITTEN["bars"])
    assert_cities(stream(tmp_path / "a.npz", candidates="offer", order="file"))
    assert_cities(stream(tmp_path / "b.npz", candidates="offer", classes=NAMES, order="file"))


def test_a_large_file_is_converted_with_its_candidates_and_rewards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEBIT_LARGE_FILE", "1")
    monkeypatch.setenv("ONEBIT_CACHE", str(tmp_path / "cache"))
    path = table(tmp_path, WRITTEN["bars"])
    for _ in range(2):
        assert_cities(stream(path, label="city", candidates="offer", classes=NAMES, order="file"))
    frame = pandas.DataFrame({"height": X[:, 0], **{f"worth_{name}": R[:, at] for at, name in enumerate("abcd")}})
    frame.to_csv(tmp_path / "worth.csv", index=False)
    data = stream(tmp_path / "worth.csv", rewards="worth_*").data(0)
    assert data.rewards is not None
    assert np.array_equal(data.rewards, R)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["rome|oslo", "", "oslo", "rome"], r"'offer' of .* in row 2 \(line 3 of the file\) lists no candidate"),
        (["rome|oslo", "new york|", "oslo", "rome"], r"lacks the label 'oslo' in row 4"),
        (
            ["rome|paris", "new york|", "oslo", "oslo"],
            r"has 'paris' in row 1 .* but the classes are .*'oslo'.* separated by \|, or a JSON list",
        ),
        (["rome|rome", "new york|", "oslo", "oslo"], r"names 'rome' twice in row 1"),
        (["[1.5]", "new york|", "oslo", "oslo"], r"in row 1 .* has 1\.5, .* names of classes"),
        (["[rome", "new york|", "oslo", "oslo"], r"in row 1 .* not a JSON list"),
    ],
)
def test_bad_cells_are_refused_with_their_row(cells: list[str], words: str, tmp_path: Path) -> None:
    path = table(tmp_path, cells)
    with pytest.raises(InputError, match=words):
        stream(path, label="city", candidates="offer", classes=NAMES)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"candidates": 6}, "candidates is 6, but there are 6 classes"),
        ({"candidates": 1}, "candidates is 1, but must be a whole number of at least 2"),
        ({"candidates": 0}, "candidates is 0, but must be a whole number of at least 2"),
        ({"candidates": -1}, "candidates is -1, but must be a whole number of at least 2"),
        ({"candidates": True}, "candidates is True, but must be a whole number"),
        ({"candidates": 2.5}, "candidates is 2.5, but must be a whole number"),
        ({"candidates": "offer"}, "candidates is for columns of a table"),
        ({"candidates": LISTS[:-1]}, "103 rows and 102 sets"),
        ({"candidates": [[], *LISTS[1:]]}, "candidates in row 0 lists no candidate"),
        ({"candidates": [{"a": 1}, *LISTS[1:]]}, "candidates in row 0 is {'a': 1}"),
        ({"candidates": np.ones((103, 5), dtype=bool)}, "5 boolean columns, .* 6 classes"),
        ({"candidates": LISTS, "noise": 0.1}, "noise changes labels.*listed candidates"),
        ({"candidates": LISTS, "drift": "abrupt"}, "drift changes labels"),
        ({"corrected": 1.5}, r"corrected is 1.5, but must be in \[0, 1\]"),
        ({"corrected": float("nan")}, "corrected is nan"),
        ({"corrected": True}, "corrected is True"),
        ({"rewards": R}, "y and rewards were both given"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_with_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        stream(X, Y, **settings)


def test_what_is_not_for_named_data_is_refused() -> None:
    assert_refused("given as column names", "synsep9", rewards=R)
    assert_refused("is for columns of a table", "synsep9", candidates="offer")
    assert_refused("there are 9 classes", "synsep9", candidates=9)
    assert_refused("brings its own candidates", stream("synsep9"), candidates=3)
    assert_refused("brings its own corrected", stream("synsep9"), corrected=0.5)


# --- rewards -----------------------------------------------------------------------------------------------------------


def test_the_label_is_the_class_that_is_worth_most_the_first_of_equals() -> None:
    data = stream(X, rewards=R).data(0)
    assert data.classes == (0, 1, 2, 3)
    assert np.array_equal(data.y, [row.tolist().index(row.max()) for row in R])
    sets = CandidateSets(np.array([1, 2, 0, 3, 2]), np.array([0, 2, 4, 5]))
    worth = np.array([[1.0, 0.3, 0.3, 0.0], [0.1, 0.9, 0.9, 0.1], [0.4, 0.5, 0.0, 1.0]])
    assert most_rewarded(worth, sets).tolist() == [1, 0, 2]


def test_rewards_and_listed_candidates_go_together() -> None:
    offers = [[row % 4, (row + 1) % 4] for row in range(103)]
    made = stream(X, rewards=R, candidates=offers, order="file")
    labels = made.schedule(made.data(0), 0).labels
    for row, label in enumerate(labels.tolist()):
        assert R[row, label] == max(R[row, offer] for offer in offers[row])
        assert label in offers[row]


def test_rewards_are_read_from_tables_and_archives(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"height": X[:, 0].astype(float), **{f"worth_{name}": R[:, at] for at, name in enumerate("abcd")}}
    )
    frame.to_csv(tmp_path / "w.csv", index=False)
    frame.to_parquet(tmp_path / "w.parquet")
    frame.to_json(tmp_path / "w.jsonl", orient="records", lines=True)
    for given in (tmp_path / "w.csv", tmp_path / "w.parquet", tmp_path / "w.jsonl", frame):
        data = stream(given, rewards="worth_*").data(0)
        assert data.classes == ("a", "b", "c", "d")
        assert np.array_equal(data.rewards, R)  # type: ignore[arg-type]
        assert np.array_equal(data.y, R.argmax(axis=1))
        assert data.X.shape == (103, 1)
        turned = stream(given, rewards=["worth_b", "worth_a"], drop=["worth_c", "worth_d"]).data(0)
        assert turned.classes == ("worth_b", "worth_a")
        assert np.array_equal(turned.rewards, R[:, [1, 0]])  # type: ignore[arg-type]
        assert stream(given, rewards="worth_*", classes=["d", "c", "b", "a"]).data(0).classes == ("d", "c", "b", "a")
    np.savez(tmp_path / "w.npz", X=X, rewards=R, classes=list("abcd"))
    np.savez(tmp_path / "v.npz", X=X, worth=R)
    assert stream(tmp_path / "w.npz").data(0).classes == ("a", "b", "c", "d")
    assert np.array_equal(stream(tmp_path / "v.npz", rewards="worth").data(0).rewards, R)  # type: ignore[arg-type]
    beside = frame[["worth_a", "worth_b"]].rename(columns={"worth_a": "a", "worth_b": "b"})
    assert stream(X, rewards=beside).data(0).classes == ("a", "b")


def test_a_file_of_before_with_an_array_called_rewards_is_read_as_before(tmp_path: Path) -> None:
    np.savez(tmp_path / "old.npz", X=X, y=Y, rewards=R)
    made = stream(tmp_path / "old.npz")
    assert not made.source.rewards
    assert np.array_equal(made.data(0).y, Y)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan, np.inf])
def test_rewards_out_of_range_are_refused_with_row_and_class(bad: float, tmp_path: Path) -> None:
    rewards = R.copy()
    rewards[3, 1] = bad
    with pytest.raises(InputError, match=r"rewards of 'b' in row 3 is .*from 0 to 1: scale them"):
        stream(X, rewards=rewards, classes=list("abcd"))
    np.savez(tmp_path / "w.npz", X=X, rewards=rewards)
    with pytest.raises(InputError, match=r"rewards of .*w.npz of 1 in row 3 is"):
        stream(tmp_path / "w.npz")
    if np.isnan(bad):
        return  # a table has no such value: the cell is empty
    pandas.DataFrame({"height": X[:, 0], "a": rewards[:, 0], "b": rewards[:, 1]}).to_csv(
        tmp_path / "w.csv", index=False
    )
    with pytest.raises(InputError, match=r"the column 'b' of .*w.csv in row 4 \(line 5 of the file\) is .*scale them"):
        stream(tmp_path / "w.csv", rewards=["a", "b"])


@pytest.mark.parametrize("bad", ["x", "50%", "0,5"])
def test_rewards_that_are_no_numbers_are_refused_with_row_and_class(bad: str, tmp_path: Path) -> None:
    frame = pandas.DataFrame({"height": X[:4, 0], "worth_a": R[:4, 0], "worth_b": ["0.5", "0.1", bad, "1"]})
    frame.to_csv(tmp_path / "w.csv", index=False)
    cells = [
        {**row, "worth_b": float(row["worth_b"]) if at != 2 else bad} for at, row in enumerate(frame.to_dict("records"))
    ]
    (tmp_path / "w.jsonl").write_text("\n".join(map(json.dumps, cells)))
    words = rf"'worth_b' of .* is '{bad}' in row 3 \(line .\D*\), but the reward of 'b' must be a number from 0 to 1, such as 0\.5"
    assert_refused(words.replace("line .", "line 4"), tmp_path / "w.csv", rewards="worth_*")
    assert_refused(words.replace("line .", "line 3"), tmp_path / "w.jsonl", rewards="worth_*")
    assert_refused("the reward of 'b' must be a number .* without text", frame, rewards="worth_*")
    beside = frame[["worth_a", "worth_b"]].rename(columns={"worth_a": "a", "worth_b": "b"})
    for rewards, name in ((beside, "'b'"), (beside.to_numpy(), "1"), (beside.to_numpy().tolist(), "1")):
        assert_refused(
            f"rewards of {name} in row 2 is '{bad}', but must be a number from 0 to 1", X[:4], rewards=rewards
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rewards": R[:, 0]}, r"rewards has shape \(103,\)"),
        ({"rewards": R[:-1]}, "there are 103 rows and rewards for 102"),
        ({"rewards": R, "classes": ["a", "b"]}, "rewards has 4 columns, but there are 2 classes"),
        ({"rewards": [["x"]]}, "rewards of 0 in row 0 is 'x', but must be a number from 0 to 1"),
        ({"rewards": [[0.5], [0.5, 0.5]]}, "must be a matrix of numbers"),
        ({"rewards": 3}, "rewards has shape"),
        ({"rewards": R, "noise": 0.2}, "noise changes labels, so it cannot be combined with rewards"),
        ({"rewards": R, "candidates": 4}, "there are 4 classes"),
        ({"rewards": ["a", "b"]}, "rewards names the column 'a', but the columns of X have no names: give a matrix"),
        ({"rewards": "worth"}, "rewards names the column 'worth', but the columns of X have no names: give a matrix"),
        ({"label": "city"}, "label names the column 'city', but the columns of X have no names: give y"),
        ({}, "rows were given without labels"),
    ],
    ids=str,
)
def test_bad_rewards_are_refused_with_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        stream(X, **settings)


def test_bad_reward_columns_are_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    pandas.DataFrame({"height": [1.0, 2.0], "label": [0, 1], "w_a": [0.1, 0.2], "w_b": [1.0, 0.0]}).to_csv(
        path, index=False
    )
    assert_refused("has the column 'label' beside rewards", path, rewards="w_*")
    assert_refused("given twice", path, rewards="w_*", label="label")
    assert_refused("no column of .* matches 'v_", path, rewards="v_*", drop=["label"])
    assert_refused("there is no column 'w_x'", path, rewards=["w_a", "w_x"], drop=["label"])
    assert_refused("there is 1 class", path, rewards=["w_a"], drop=["label"])
    assert_refused("'w_a' of .* twice", path, rewards=["w_a", "w_*"], drop=["label"])
    assert_refused(
        "'w_a' of .* holds a reward, so it cannot be listed as drop", path, rewards="w_*", drop=["label", "w_a"]
    )
    assert_refused("but the given classes are 'a', 'c'", path, rewards="w_*", classes=["a", "c"], drop=["label"])
    assert_refused("there is no column 'w_c'", path, candidates="w_c")
    assert_refused("'label' of .* holds the label, so it cannot ", path, candidates="label")
    assert_refused(
        "'w_b' of .* holds a reward, so it cannot be listed as candidates",
        path,
        rewards="w_*",
        candidates="w_b",
        drop=["label"],
    )
    assert stream(path, rewards="w_*", drop=["label"]).data(0).classes == ("a", "b")
    np.savez(tmp_path / "w.npz", X=X, y=Y, worth=R)
    assert_refused("has a y, but labels follow from rewards", tmp_path / "w.npz", rewards="worth")
    assert_refused("has a y", tmp_path / "w.npz", rewards="values")
    assert_refused("y of .* holds the label, so it cannot ", tmp_path / "w.npz", candidates="y")
    np.savez(tmp_path / "v.npz", X=X, rewards=R[:-1])
    assert_refused("there are 103 rows and rewards for 102", tmp_path / "v.npz")
    assert_refused(
        "rewards of .* holds rewards, so it cannot hold candidates", tmp_path / "v.npz", candidates="rewards"
    )
    assert_refused("has no array 'offer'", tmp_path / "w.npz", candidates="offer")


def test_what_rows_are_like_speaks_of_candidates_and_rewards() -> None:
    assert stream(X, Y, candidates=3).about.endswith("shuffled; 3 candidates in each round")
    assert stream(X, Y, candidates=[[label] for label in Y]).about.endswith("; 1 candidate in each round")
    assert "3 to 6 candidates" in stream(X, Y, candidates=[*LISTS[:-1], range(6)]).about
    best = R.mean(axis=0)
    assert stream(X, rewards=R).about.endswith(f"always naming {best.argmax()} has a mean reward of {best.max():.3f}")


def test_memory_is_asked_for_with_the_candidates() -> None:
    plain, offered = stream("synsep9", rounds=1000), stream("synsep9", rounds=1000, candidates=5)
    assert offered.whole_bytes - plain.whole_bytes >= 1000 * 8 * 6
    late, both = (stream("synsep9", rounds=1000, delay=100, **more) for more in ({}, {"candidates": 5}))  # type: ignore[arg-type]
    assert both.least_bytes > late.least_bytes
