"""Sweeps: grids as people write them, the choice on tuning streams and its error on fresh ones, pictures, going on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import onebit
from onebit.checks.examples import refused, rows
from onebit.experiments.drawing import draw_sweep
from onebit.experiments.grid import MOST_SETTINGS, Grid, parse_axis, parse_value
from onebit.experiments.report import Curves, HeatMap
from onebit.experiments.report.html import page_html
from onebit.experiments.sweep import FRESH_SEED_OFFSET, Sweep
from onebit.experiments.trials.records import FILE

X, Y = rows(60)
SHORT: dict[str, Any] = {"rounds": 300, "runs": 2, "fresh_runs": 3}

# --- the grid as it is written -----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 9999),
    st.integers(-6, 3),
    st.integers(1, 9999),
    st.integers(-6, 3),
    st.integers(2, 30),
    st.sampled_from(["log", "linear"]),
)
def test_ranges_rise_from_end_to_end(first: int, tens: int, last: int, last_tens: int, count: int, shape: str) -> None:
    """Ends of four digits, far enough apart that so many values of four digits fit between them."""
    low, high = sorted((float(f"{first}e{tens}"), float(f"{last}e{last_tens}")))
    assume(high > low * (1 + count / 100))
    values = parse_axis("rate", f"{low!r}..{high!r}:{shape}:{count}")
    assert len(values) == count
    assert (values[0], values[-1]) == (low, high)
    steps = np.diff(values)
    assert (steps > 0).all()
    if shape == "linear":
        assert np.allclose(steps, (high - low) / (count - 1), atol=1.1e-3 * high)
    else:
        assert np.allclose(np.diff(np.log(values)), np.log(high / low) / (count - 1), atol=2.1e-3)


@pytest.mark.parametrize("text", ["0.00012345..1:log:3", "12345..99999:linear:3"])
def test_the_ends_of_a_range_are_as_they_are_given(text: str) -> None:
    low, high = (float(end) for end in text.partition(":")[0].split(".."))
    values = parse_axis("rate", text)
    assert (values[0], values[-1]) == (low, high)


def test_a_narrow_range_is_a_range() -> None:
    assert len(parse_axis("rate", "0.12341..0.12349:linear:4")) == 4


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.001..0.1:log:3", [0.001, 0.01, 0.1]),
        ("1..3:linear:3", [1.0, 2.0, 3.0]),
        ("-1..1:linear:3", [-1.0, 0.0, 1.0]),
        ("1e-3..1e-1:log:2", [0.001, 0.1]),
        ("PA,PA-I", ["PA", "PA-I"]),
        ("0.1,1,none", [0.1, 1, None]),
        ("true,false", [True, False]),
        (".5", [0.5]),
        ([0.1, 0.2], [0.1, 0.2]),
        ((1, 2), [1, 2]),
        (np.array([0.5, 1.0]), [0.5, 1.0]),
        (0.3, [0.3]),
    ],
    ids=str,
)
def test_values_are_read_as_people_write_them(text: object, values: list[Any]) -> None:
    assert parse_axis("rate", text) == values


@pytest.mark.parametrize(
    "text",
    [
        "0.1..1", "0.1..1:log", "0.1..1:log:", "0.1..1:log:x", "0.1..1:logarithmic:3", "0.1..1:log:3:4", "..:log:3",
        "0..1:log:3", "-1..1:log:3", "1..0.1:log:3", "1..1:linear:3", "0.1..1:log:1", "0.1..1:log:0", "0.1..1:log:-3",
        "0.1..inf:log:3", "nan..1:linear:3", "0.1..0.2..0.3:linear:3", "0.1..1:log:1.5", "0.1..1:log:100001",
        "", ",", "1,", "1,,2", "1,1", "0.1,0.10", [], [1, 1],
    ],
    ids=str,
)  # fmt: skip
def test_grids_that_cannot_be_read_are_refused(text: object) -> None:
    assert "grid of rate" in refused(lambda: parse_axis("rate", text))


def test_values_are_json_where_they_can_be() -> None:
    assert [parse_value(text) for text in ("1", "1.5", ".5", "None", "null", "true", "PA-I", "[1,2]", "1e-3")] == [
        1, 1.5, 0.5, None, None, True, "PA-I", [1, 2], 0.001,
    ]  # fmt: skip


def test_a_grid_is_all_combinations() -> None:
    grid = Grid("bpa", {"exploration": "0.1,0.2", "aggressiveness": [1, 2, 3]}, {"variant": "PA-II"})
    assert list(grid.points) == [(0.1, 1), (0.1, 2), (0.1, 3), (0.2, 1), (0.2, 2), (0.2, 3)]
    for entry, (exploration, aggressiveness) in zip(grid.entries, grid.points, strict=True):
        assert entry.options == {"variant": "PA-II", "exploration": exploration, "aggressiveness": aggressiveness}


BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("out of range", {"grid": {"exploration": [0.1, 2.0]}}, ["exploration is 2.0"]),
    ("range that leaves its interval", {"grid": {"exploration": "0.5..1.5:linear:3"}}, ["exploration is 1.0"]),
    ("zero", {"grid": {"aggressiveness": "0,1"}}, ["aggressiveness is 0"]),
    ("word", {"grid": {"variant": "PA,PA-III"}}, ["'PA-III'", "PA-II"]),
    ("unknown parameter", {"grid": {"explortion": "0.1"}}, ["'explortion'", "'exploration'"]),
    ("unknown option", {"options": {"explortion": 0.1}}, ["'explortion'", "'exploration'"]),
    ("option out of range", {"options": {"exploration": 7}}, ["exploration is 7"]),
    ("empty", {"grid": {}}, ["grid is empty"]),
    ("no values", {"grid": {"exploration": ""}}, ["grid of exploration"]),
    ("twice", {"grid": {"exploration": "0.1,0.1"}}, ["each value once"]),
    ("set and swept", {"grid": {"exploration": "0.1,0.2"}, "options": {"exploration": 0.3}}, ["exploration", "0.3"]),
    (
        "too large",
        {"grid": {"exploration": "0.001..0.5:linear:400", "aggressiveness": "1..2:linear:400"}},
        ["160,000", f"{MOST_SETTINGS:,}"],
    ),
    ("unknown learner", {"learner": "bandtron"}, ["'bandtron'", "'banditron'"]),
    ("a learner", {"learner": onebit.Learner("bpa", classes=9)}, ["from scratch"]),
    ("unknown data", {"X": "synsep1"}, ["'synsep1'", "'synsep10'"]),
    ("runs", {"runs": 0}, ["runs is 0"]),
    ("fresh runs", {"fresh_runs": 0}, ["fresh_runs is 0"]),
    ("seed", {"seed": -3}, ["seed is -3"]),
]


@pytest.mark.parametrize(("bad", "words"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_bad_input_is_refused_before_anything_runs(tmp_path: Path, bad: dict[str, Any], words: list[str]) -> None:
    arguments: dict[str, Any] = {"learner": "bpa", "X": "synsep9", "grid": {"aggressiveness": [0.1, 1]}, **bad}
    sentence = refused(lambda: onebit.sweep(**arguments, out=tmp_path / "out"))
    for word in words:
        assert word in sentence
    assert not (tmp_path / "out").exists()


def test_the_seed_is_no_parameter_to_sweep() -> None:
    assert "seed" in refused(lambda: onebit.sweep("bpa", "synsep9", grid={"seed": [1, 2]}, **SHORT))


def test_a_number_of_threads_that_is_none_is_refused() -> None:
    assert "threads" in refused(
        lambda: onebit.sweep("bpa", "synsep9", grid={"exploration": [0.1]}, threads=-1, **SHORT)
    )


# --- the choice --------------------------------------------------------------------------------------------------------


def swept(**changes: Any) -> Sweep:
    arguments = {"learner": "bpa", "X": "synsep9", "grid": {"aggressiveness": "0.001..1:log:4"}, **SHORT, **changes}
    found: Sweep = onebit.sweep(**arguments)
    return found


def seeds_of(summary: Any) -> list[int]:
    return [row.seed for row in summary.records]


def test_the_lowest_tuning_error_is_chosen_and_run_on_fresh_streams() -> None:
    found = swept(seed=5)
    assert found.chosen is not None
    assert found.fresh is not None
    tuned = found.summaries[found.chosen]
    errors = [one.error.mean for one in found.summaries if one is not None]
    assert len(errors) == 4
    assert tuned is not None
    assert tuned.error.mean == min(errors)
    assert found.best == {"aggressiveness": found.grid.points[found.chosen][0]}
    assert [seeds_of(one) for one in found.summaries] == [[5, 6]] * 4
    assert seeds_of(found.fresh) == [5 + FRESH_SEED_OFFSET, 6 + FRESH_SEED_OFFSET, 7 + FRESH_SEED_OFFSET]
    assert set(seeds_of(found.fresh)).isdisjoint(seeds_of(tuned))
    assert found.best is not None
    again = onebit.run("bpa", "synsep9", rounds=300, runs=3, seed=5 + FRESH_SEED_OFFSET, **found.best)
    assert found.fresh.errors.tolist() == again.errors.tolist()
    assert found.fresh.error == again.error_interval


def test_the_tuning_error_is_that_of_runs_and_other_options_stay() -> None:
    found = swept(options={"exploration": 0.2, "dtype": "float64"}, noise=0.1)
    for one, (aggressiveness,) in zip(found.summaries, found.grid.points, strict=True):
        assert one is not None
        result = onebit.run(
            "bpa",
            "synsep9",
            rounds=300,
            runs=2,
            noise=0.1,
            exploration=0.2,
            dtype="float64",
            aggressiveness=aggressiveness,
        )
        assert one.errors.tolist() == result.errors.tolist()


def test_of_equal_settings_the_first_is_chosen() -> None:
    """Without exploration drawn, and with steps that are capped far above what they need, the cap changes nothing."""
    found = swept(learner="perceptron", grid={"space": ["dense"]})
    assert found.chosen == 0
    found = swept(grid={"aggressiveness": [1e6, 1e7, 1e8]})
    errors = [one.error.mean for one in found.summaries if one is not None]
    assert errors[0] == errors[1] == errors[2]
    assert found.chosen == 0


def test_arrays_and_streams_are_swept_too() -> None:
    assert swept(X=X, y=Y).stream.order == "shuffle"
    streamed = onebit.stream("synsep9", rounds=100)
    arguments = {name: value for name, value in SHORT.items() if name != "rounds"}
    assert onebit.sweep("bpa", streamed, grid={"exploration": [0.1]}, **arguments).stream is streamed


def test_the_page_says_how_the_choice_was_made() -> None:
    found = swept(seed=5, command="onebit sweep bpa synsep9 --grid aggressiveness=0.001..1:log:4")
    html = page_html(found.page())
    assert "onebit sweep bpa synsep9 --grid aggressiveness=0.001..1:log:4" in html
    for words in (
        "4 settings",
        "2 tuning runs",
        "3 fresh streams",
        f"seeds from {5 + FRESH_SEED_OFFSET}",
        "newly drawn rows",
        "Chosen:",
    ):
        assert words in html
    assert found.fresh is not None
    assert f"{100 * found.fresh.error.mean:.2f}" in html
    assert "new orders of the same rows" in page_html(swept(X=X, y=Y).page())
    assert "order of the file" in page_html(swept(X=X, y=Y, order="file").page())


def test_a_choice_on_the_edge_is_said_to_be_one() -> None:
    words = "edge of the grid for aggressiveness"
    edge = swept(grid={"aggressiveness": [0.0001, 0.001, 1.0]})
    assert edge.best == {"aggressiveness": 1.0}
    assert words in page_html(edge.page())
    middle = swept(grid={"aggressiveness": [0.0001, 1.0, 1e9]})
    assert middle.best == {"aggressiveness": 1.0}, "1e9 is as good, and comes later"
    assert words not in page_html(middle.page())
    assert words not in page_html(swept(grid={"aggressiveness": [0.0001, 1.0]}).page()), "two values are all edge"
    assert "edge" not in page_html(swept(learner="bpa", grid={"variant": ["PA", "PA-I", "PA-II"]}).page())


# --- pictures ----------------------------------------------------------------------------------------------------------


def test_one_parameter_has_a_sensitivity_curve() -> None:
    found = swept(grid={"aggressiveness": [1.0, 0.001, 0.1]})
    picture = draw_sweep(found)
    assert isinstance(picture, Curves)
    assert list(picture.x) == [0.001, 0.1, 1.0], "in order, however they were given"
    assert picture.logarithmic
    played = picture.series[0].measures["played"]
    by_value = {point[0]: one for point, one in zip(found.grid.points, found.summaries, strict=True)}
    for position, value in enumerate(picture.x):
        one = by_value[value]
        assert one is not None
        assert played.mean[position] == pytest.approx(100 * one.error.mean)
        assert played.low is not None
        assert played.low[position] == pytest.approx(max(0.0, 100 * one.error.low))
    narrow = draw_sweep(swept(grid={"exploration": [0.1, 0.2, 0.3]}))
    assert isinstance(narrow, Curves)
    assert not narrow.logarithmic


def test_two_parameters_have_a_heat_map() -> None:
    found = swept(grid={"exploration": [0.01, 0.1], "aggressiveness": [0.001, 0.1, 1.0]})
    picture = draw_sweep(found)
    assert isinstance(picture, HeatMap)
    assert (picture.y_name, picture.x_name) == ("exploration", "aggressiveness")
    assert (list(picture.y_values), list(picture.x_values)) == ([0.01, 0.1], [0.001, 0.1, 1.0])
    for row, exploration in enumerate(picture.y_values):
        for column, aggressiveness in enumerate(picture.x_values):
            one = found.summaries[list(found.grid.points).index((exploration, aggressiveness))]
            assert one is not None
            assert picture.values[row][column] == pytest.approx(100 * one.error.mean)
    assert picture.best is not None
    row, column = picture.best
    assert found.best == {"exploration": picture.y_values[row], "aggressiveness": picture.x_values[column]}
    assert picture.values[row][column] == min(value for line in picture.values for value in line if value is not None)


def test_words_have_an_axis_too() -> None:
    found = swept(grid={"variant": ["PA", "PA-I", "PA-II"]})
    picture = draw_sweep(found)
    assert isinstance(picture, HeatMap)
    assert list(picture.y_values) == ["PA", "PA-I", "PA-II"]
    both = draw_sweep(swept(grid={"variant": ["PA", "PA-II"], "aggressiveness": [0.1, 1.0, 2.0]}))
    assert isinstance(both, HeatMap)
    assert (list(both.y_values), list(both.x_values)) == (["PA", "PA-II"], [0.1, 1.0, 2.0])
    assert "PA-II" in page_html(found.page())


def test_of_three_parameters_the_third_is_as_chosen() -> None:
    found = swept(grid={"variant": ["PA-I"], "exploration": [0.01, 0.1, 0.5], "aggressiveness": [0.01, 1.0]})
    picture = draw_sweep(found)
    assert isinstance(picture, HeatMap)
    assert {picture.x_name, picture.y_name} == {"exploration", "aggressiveness"}
    assert "variant=PA-I as chosen" in picture.note


def test_a_sweep_is_plotted() -> None:
    import matplotlib.pyplot as plt

    for grid in ({"exploration": [0.1, 0.2]}, {"exploration": [0.1, 0.2], "aggressiveness": [0.1, 1.0]}):
        figure = swept(grid=grid).plot()
        assert figure.axes
        plt.close(figure)


def test_plain_values_are_json_and_say_it_all() -> None:
    found = swept(seed=2)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["learner"] == "bpa"
    assert plain["best"] == found.best
    assert plain["grid"] == found.grid.axes
    assert len(plain["settings"]) == 4
    assert plain["fresh"]["errors"] == found.fresh.errors.tolist() if found.fresh else False
    assert min(one["error"]["mean"] for one in plain["settings"]) == plain["tuning_error"]["mean"]
    assert len(found.frame()) == 4 * 2 + 3


def test_plain_values_of_one_run_are_json_too() -> None:
    assert json.dumps(swept(runs=1).to_dict(), allow_nan=False)


# --- failures and going on ---------------------------------------------------------------------------------------------


def test_a_setting_that_failed_is_not_chosen_and_is_listed() -> None:
    with pytest.warns(
        onebit.OnebitWarning, match=r"^2 of 5 runs failed \(pab aggressiveness=1: .* diverges on these data"
    ):
        found = onebit.sweep(
            "pab", "synsep10", grid={"aggressiveness": [0.001, 1.0]}, rounds=9000, runs=2, fresh_runs=1
        )
    assert "2 runs failed (pab aggressiveness=1: " in repr(found)
    assert "But 2 runs failed" in page_html(found.page())
    assert found.summaries[1] is None
    assert found.best == {"aggressiveness": 0.001}
    assert [row.options for row in found.failures] == [{"aggressiveness": 1.0}] * 2
    html = page_html(found.page())
    assert "diverges on these data" in html
    assert found.to_dict()["settings"][1]["error"] is None
    assert len(found.to_dict()["failures"]) == 2


def test_where_all_fail_the_cause_is_raised() -> None:
    long = X.copy()
    long[41] *= 1e25
    with pytest.raises(onebit.InputError, match=r"^every run failed \(\w+ aggressiveness=.*: row 41"):
        swept(X=long, y=Y, rounds=60)


def test_where_each_setting_failed_once_nothing_is_chosen() -> None:
    """Shuffled, and cut after 30 of 60 rows: the row that is too long comes in some runs and not in others."""
    long = X[:60].copy()
    long[41] *= 1e25
    with pytest.warns(onebit.OnebitWarning, match="runs failed"):
        found = swept(X=long, y=Y[:60], rounds=30, runs=6)
    assert (found.best, found.chosen, found.fresh) == (None, None, None)
    assert "Failed" in page_html(found.page())
    assert found.to_dict()["best"] is None


def test_a_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = swept(out=tmp_path / "whole").to_dict()
    path = tmp_path / "whole" / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 8 + 3
    for kept in (1, 4, 9, 11):
        folder = tmp_path / str(kept)
        folder.mkdir()
        (folder / FILE).write_bytes(b"".join(lines[:kept]) + lines[kept][:50])
        found = swept(out=folder).to_dict()
        for one in (found, whole):
            if one["fresh"]:
                one["fresh"]["rounds_per_second"] = None
            one["effort"] = None
        assert found == whole
        assert (folder / FILE).read_bytes().startswith(b"".join(lines[:kept]))
        assert len((folder / FILE).read_bytes().splitlines()) == len(lines) + 1, "the cut line is still there"


def test_a_wider_grid_runs_only_what_is_new(tmp_path: Path) -> None:
    swept(out=tmp_path, grid={"aggressiveness": [0.1, 1.0]})
    before = (tmp_path / FILE).read_bytes()
    swept(out=tmp_path, grid={"aggressiveness": [0.01, 1.0, 0.1]})
    after = (tmp_path / FILE).read_bytes()
    assert after.startswith(before)
    added = [json.loads(line) for line in after[len(before) :].splitlines()]
    assert {row["options"]["aggressiveness"] for row in added if row["seed"] < FRESH_SEED_OFFSET} == {0.01}


def test_a_grid_that_is_no_dict_is_refused() -> None:
    with pytest.raises(
        onebit.InputError, match=r"^grid is \[1\], but must be a dict from the name of each parameter to its values"
    ):
        onebit.sweep("bpa", "synsep9", grid=[1])  # type: ignore[arg-type]


def test_after_ctrl_c_the_runs_that_are_done_are_in_its_result() -> None:
    rounds: list[int] = []

    def progress(count: int) -> None:
        rounds.append(count)
        if sum(rounds) > 8 * SHORT["rounds"]:  # the first rounds of the setting chosen
            raise KeyboardInterrupt

    with pytest.raises(onebit.Stopped) as stopped:
        swept(progress=progress)
    assert stopped.value.result is not None
    assert len(stopped.value.result.frame()) == 8
