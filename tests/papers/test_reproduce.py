"""Reproductions: what a verdict depends on, with a small paper of our own; claims, grids, quick, Markdown, exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused, rows
from onebit.cli import main
from onebit.experiments.report import Curves, HeatMap, Scatter, Section
from onebit.experiments.report.html import page_html
from onebit.experiments.run import run
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.papers import parse_paper
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import Reproduction, Verdict
from tests.papers.conftest import Give

ROUNDS, RUNS = 300, 3


def measured(rule: str, **options: Any) -> MeanEstimate:
    return run(rule, "synsep9", rounds=ROUNDS, runs=RUNS, **options).error_interval


HEAD = f"""
title = "Mine 2026: a paper of our own"
note = "It was never printed."

[[item]]
name = "table1"
title = "Table 1: errors"
kind = "errors"
runs = {RUNS}
rounds = {ROUNDS}
"""
DATA = """
[[item.data]]
name = "SynSep"
source = "synsep9"
why = "The data are known to differ."
"""


def learner(name: str, rule: str, published: float | None = None, more: str = "") -> str:
    said = "" if published is None else f"published = {{ SynSep = {published!r} }}"
    return f'\n[[item.learner]]\nname = "{name}"\nrule = "{rule}"\n{said}\n{more}\n'


def verdict(found: Reproduction, what: str) -> Verdict:
    (one,) = [one for one in found.verdicts if one.what == what]
    return one


# --- published numbers -------------------------------------------------------------------------------------------------


def test_the_verdict_on_a_number_is_that_of_the_whole_interval_and_the_tolerance(give: Give) -> None:
    error = measured("bpa")
    half, tolerance = 100 * (error.high - error.mean), 100 * (error.high - error.mean) + 1.0
    for off, expected in (
        (0.0, "reproduced"),
        (0.9, "reproduced"),
        (-0.9, "reproduced"),
        (1.1, "undecided"),
        (-1.1, "undecided"),
        (tolerance + half - 0.1, "undecided"),
        (-tolerance - half + 0.1, "undecided"),
        (tolerance + half + 0.1, "differs"),
        (-tolerance - half - 0.1, "differs"),
    ):
        give(HEAD + f"tolerance = {tolerance}\n" + DATA + learner("BPA", "bpa", 100 * error.mean + off))
        one = verdict(reproduce("mine2026"), "BPA")
        assert one.verdict == expected
        assert (one.why == "") is (expected == "reproduced"), "what is reproduced needs no explanation"
        assert one.measured == error
        assert f"{100 * error.mean:.2f} ± {100 * (error.high - error.mean):.2f}" == one.said
        assert one.published == f"{100 * error.mean + off:g}"
        assert (one.item, one.data) == ("table1", "SynSep")


def test_a_number_outside_tolerance_and_interval_differs_and_one_inside_the_interval_is_undecided(give: Give) -> None:
    error = measured("banditron")
    half = 100 * (error.high - error.mean)
    assert half > 0.1
    for off, expected in (
        (0.9 * half, "undecided"),
        (-0.9 * half, "undecided"),
        (1.1 * half + 0.01, "differs"),
        (-20 - half, "differs"),
    ):
        give(HEAD + "tolerance = 0.01\n" + DATA + learner("Banditron", "banditron", 100 * error.mean + off))
        one = verdict(reproduce("mine2026"), "Banditron")
        assert one.verdict == expected
        assert one.why == "The data are known to differ."


def test_the_explanation_of_a_learner_comes_before_that_of_the_data(give: Give) -> None:
    give(HEAD + DATA + learner("BPA", "bpa", 0.0, 'why = { SynSep = "Its steps are not given." }'))
    assert verdict(reproduce("mine2026"), "BPA").why == "Its steps are not given."


def test_the_greedy_error_is_measured_where_the_paper_shows_that(give: Give) -> None:
    result = onebit.run("banditron", "synsep9", rounds=ROUNDS, runs=RUNS, exploration=0.5)
    assert result.error - result.greedy_error > 0.03
    more = "set = { exploration = 0.5 }"
    give(HEAD + 'measure = "greedy"\n' + DATA + learner("Banditron", "banditron", 100 * result.greedy_error, more))
    one = verdict(reproduce("mine2026"), "Banditron")
    assert one.measured is not None
    assert one.measured.mean == pytest.approx(result.greedy_error)


def test_options_may_depend_on_the_data(give: Give) -> None:
    more = "set = { aggressiveness = 0.5, exploration = 0.1 }\nset_for = { SynSep = { aggressiveness = 0.01 } }"
    give(HEAD + DATA + learner("BPA", "bpa", None, more))
    one = verdict(reproduce("mine2026"), "BPA")
    assert one.measured == measured("bpa", aggressiveness=0.01, exploration=0.1)


def test_without_a_published_number_it_is_shown(give: Give) -> None:
    give(HEAD + DATA + learner("BPA", "bpa"))
    one = verdict(reproduce("mine2026"), "BPA")
    assert (one.verdict, one.published) == ("no number published", "")
    assert one.measured is not None


def test_missing_data_are_no_failures(give: Give) -> None:
    more = '[[item.data]]\nname = "Lost"\nsource = "nowhere/lost.npz"\n'
    give(HEAD + DATA + more + learner("BPA", "bpa"))
    found = reproduce("mine2026")
    by = {(one.what, one.data): one for one in found.verdicts}
    assert by["BPA", "Lost"].verdict == "missing data"
    assert "lost.npz" in by["BPA", "Lost"].why
    assert by["BPA", "SynSep"].verdict == "no number published"
    assert found.failures == []
    assert found.counts() == {"no number published": 1, "missing data": 1}


def test_what_was_fitted_counts_for_nothing(give: Give) -> None:
    error = measured("bpa")
    data = DATA + 'fitted = "The margin was chosen here."\n'
    two = learner("BPA", "bpa", 100 * error.mean, 'why = { SynSep = "So was the bias." }')
    two += learner("Banditron", "banditron", 99.0) + learner("Perceptron", "perceptron")
    give(HEAD + "tolerance = 40.0\n" + data + two + claim("Perceptron", "Banditron"))
    near, far, none, ordered = reproduce("mine2026").verdicts
    assert (near.verdict, near.why) == ("fitted", "The margin was chosen here. So was the bias.")
    assert (far.verdict, far.why) == ("fitted", "The margin was chosen here.")
    assert none.verdict == "no number published"
    assert ordered.verdict == "reproduced", "the order is not what was fitted"


def test_an_unknown_learner_is_refused(give: Give) -> None:
    give(HEAD + DATA + learner("BPA", "bpaa"))
    assert "'bpa'" in refused(lambda: reproduce("mine2026"))


def test_a_learner_that_fails_is_a_failure(give: Give) -> None:
    give(HEAD + DATA + learner("Gaptron", "gaptron", 10.0, "set = { max_norm = 0.5 }") + learner("BPA", "bpa"))
    found = reproduce("mine2026")
    assert verdict(found, "Gaptron").verdict == "failed"
    assert verdict(found, "Gaptron").measured is None
    assert verdict(found, "BPA").measured is not None
    assert len(found.failures) == RUNS
    assert len(found.to_dict()["failures"]) == RUNS


def long_rows(folder: Path) -> str:
    """A file with a row of which a learner can make nothing; in half as many rounds, shuffled, it comes in some runs."""
    X, y = rows(60)
    X[41] *= 1e25
    np.savez(folder / "long.npz", X=X, y=y)
    return f'[[item.data]]\nname = "SynSep"\nsource = "{folder / "long.npz"}"\norder = "shuffle"\nrounds = 30\n'


def test_a_learner_that_failed_in_some_runs_is_not_judged_by_the_others(give: Give, tmp_path: Path) -> None:
    give(HEAD.replace(f"runs = {RUNS}", "runs = 6") + long_rows(tmp_path) + learner("BPA", "bpa", 60.0))
    found = reproduce("mine2026")
    assert 0 < len(found.failures) < 6
    assert verdict(found, "BPA").verdict == "failed"


# --- claims ------------------------------------------------------------------------------------------------------------


def claim(lower: str, higher: str, more: str = "") -> str:
    return (
        f'\n[[item.claim]]\ntext = "{lower} errs less than {higher}"\nlower = "{lower}"\nhigher = "{higher}"\n{more}\n'
    )


def test_claims_are_judged_run_by_run(give: Give) -> None:
    learners = learner("Perceptron", "perceptron") + learner("Banditron", "banditron")
    learners += learner("Twin", "banditron", more='set = { space = "dense" }')
    why = 'why = { SynSep = "It is told the labels." }'
    claims = claim("Perceptron", "Banditron") + claim("Banditron", "Perceptron", why) + claim("Twin", "Banditron", why)
    give(HEAD + DATA + learners + claims)
    found = reproduce("mine2026")
    right, wrong, same = found.verdicts[-3:]
    assert [one.published for one in (right, wrong, same)] == ["claimed"] * 3
    assert (right.verdict, right.why) == ("reproduced", "")
    assert (wrong.verdict, wrong.why) == ("differs", "It is told the labels.")
    assert same.verdict == "undecided", "a difference of nothing is not below nothing"
    assert same.measured == MeanEstimate(0.0, 0.0, 0.0)
    runs = {name: onebit.run(name, "synsep9", rounds=ROUNDS, runs=RUNS) for name in ("perceptron", "banditron")}
    assert right.measured is not None
    assert right.measured.mean == pytest.approx(float(np.mean(runs["banditron"].errors - runs["perceptron"].errors)))
    assert " against " in right.said


def test_one_run_decides_nothing(give: Give) -> None:
    error = measured("perceptron")
    text = HEAD.replace(f"runs = {RUNS}", "runs = 1") + DATA
    text += learner("Perceptron", "perceptron", 100 * error.mean) + learner("Banditron", "banditron", 1.0)
    give(text + claim("Perceptron", "Banditron") + claim("Banditron", "Perceptron"))
    told = [(one.verdict, one.why) for one in reproduce("mine2026").verdicts]
    assert told == [("undecided", "One run has no interval, and decides nothing.")] * 4


def test_a_claim_may_be_about_some_data(give: Give) -> None:
    more = '[[item.data]]\nname = "Other"\nsource = "synnonsep9"\n'
    two = learner("A", "perceptron") + learner("B", "banditron")
    give(HEAD + DATA + more + two + claim("A", "B", 'data = ["Other"]'))
    assert [one.data for one in reproduce("mine2026").verdicts if one.published == "claimed"] == ["Other"]


OTHER = '[[item.data]]\nname = "Other"\nsource = "synnonsep9"\n'


def test_a_claim_may_be_about_how_much_more_each_errs_than_on_other_data(give: Give) -> None:
    two = learner("A", "perceptron") + learner("B", "banditron")
    since = 'data = ["Other"]\nsince = "SynSep"'
    give(HEAD + DATA + OTHER + two + claim("A", "B", since) + claim("B", "A", since))
    right, wrong = reproduce("mine2026").verdicts[-2:]
    errors = {
        (rule, data): run(rule, data, rounds=ROUNDS, runs=RUNS).errors
        for rule in ("perceptron", "banditron")
        for data in ("synsep9", "synnonsep9")
    }
    rises = [errors[rule, "synnonsep9"] - errors[rule, "synsep9"] for rule in ("perceptron", "banditron")]
    assert right.measured is not None
    assert wrong.measured is not None
    assert right.measured.mean == pytest.approx(float(np.mean(rises[1] - rises[0])))
    assert wrong.measured.mean == -right.measured.mean
    assert (right.data, right.said.startswith("rises by ")) == ("Other", True)
    assert f"{100 * np.mean(rises[0]):.2f}" in right.said


def test_a_claim_since_data_that_are_missing_is_not_judged(give: Give) -> None:
    two = learner("A", "perceptron") + learner("B", "banditron")
    gone = '[[item.data]]\nname = "Gone"\nsource = "rcv1"\n'
    give(HEAD + DATA + gone + two + claim("A", "B", 'data = ["SynSep"]\nsince = "Gone"'))
    one = reproduce("mine2026").verdicts[-1]
    assert (one.data, one.verdict) == (
        "Gone",
        "missing data",
    )  # the data that are missing, of which the page says how to bring them


def test_a_claim_may_be_that_one_errs_so_little_more_at_most(give: Give) -> None:
    two = learner("A", "perceptron") + learner("B", "banditron")
    about = [claim("B", "A", f"within = {points}") for points in (500, 0.1)]
    twins = learner("Twin", "banditron", more='set = { space = "dense" }')
    give(HEAD + DATA + two + twins + "".join(about) + claim("Twin", "B", "within = 0.1"))
    found = reproduce("mine2026").verdicts[-3:]
    assert [one.verdict for one in found] == ["reproduced", "differs", "reproduced"]
    assert found[1].published == "claimed, here within 0.1"


def test_a_claim_since_unknown_data_is_refused() -> None:
    two = learner("A", "perceptron") + learner("B", "banditron")
    with pytest.raises(onebit.OnebitError, match="unknown name 'Othr'"):
        parse_paper("mine2026", HEAD + DATA + OTHER + two + claim("A", "B", 'data = ["Other"]\nsince = "Othr"'))


def test_a_claim_about_a_learner_that_failed_is_not_judged(give: Give) -> None:
    failing = learner("X", "gaptron", more="set = { max_norm = 0.5 }")
    give(HEAD + DATA + learner("BPA", "bpa") + failing + claim("BPA", "X"))
    one = reproduce("mine2026").verdicts[-1]
    assert one.measured is None
    assert (one.verdict, one.why) == ("failed", "X: some of its runs failed")


# --- grids and pictures ------------------------------------------------------------------------------------------------

GRID = f"""
title = "t"
[[item]]
name = "table2"
title = "Table 2"
kind = "grid"
runs = {RUNS}
rounds = {ROUNDS}
tolerance = 2.0
grid = {{ aggressiveness = "0.001..1:log:4" }}
"""


def searched(name: str, rule: str, chosen: str = "", grid: str = "") -> str:
    """A learner of a grid: the setting that was published, and a grid of its own."""
    more = f"chosen = {{ SynSep = {{ {chosen} }} }}\n" if chosen else ""
    more += f"grid = {{ {grid} }}\n" if grid else ""
    return learner(name, rule, more=more + 'why = { SynSep = "They tuned on other data." }')


MORE_RUNS = GRID.replace(f"runs = {RUNS}", "runs = 6")


def test_a_published_setting_is_reproduced_if_it_is_among_the_best(give: Give) -> None:
    errors = {
        value: onebit.run("bpa", "synsep9", rounds=ROUNDS, runs=6, aggressiveness=value).errors
        for value in (0.001, 0.01, 0.1, 0.5, 1.0)
    }
    assert min(errors, key=lambda value: errors[value].mean()) == 1.0
    for chosen, tolerance, expected in (
        (1.0, 2.0, "reproduced"),
        (0.5, 8.0, "reproduced"),
        (0.5, 5.0, "undecided"),
        (0.5, 2.0, "differs"),
        (0.001, 2.0, "differs"),
    ):
        text = MORE_RUNS.replace("tolerance = 2.0", f"tolerance = {tolerance}")
        give(text + DATA + searched("BPA", "bpa", f"aggressiveness = {chosen}"))
        (one,) = reproduce("mine2026").verdicts
        excess = estimate(errors[chosen] - errors[1.0])
        assert one.verdict == expected
        assert (excess.high <= tolerance / 100) is (expected == "reproduced")
        assert (excess.low > tolerance / 100) is (expected == "differs")
        assert one.measured == estimate(errors[chosen])
        assert one.why == ("" if expected == "reproduced" else "They tuned on other data.")
        assert "aggressiveness" in one.published


def test_a_setting_is_vacuous_where_a_parameter_of_it_makes_no_difference(give: Give) -> None:
    learnt = searched("BPA", "bpa", "aggressiveness = 1.0")
    give(MORE_RUNS.replace("tolerance = 2.0", "tolerance = 30.0") + DATA + learnt)
    (one,) = reproduce("mine2026").verdicts
    assert one.verdict == "vacuous", "every setting of the grid is within 30 points of the best"
    assert one.why == "No effect on the grid: aggressiveness (3 of its 3 other values do as well)."
    # How much Banditron explores matters, and how its rows are kept does not: one of two that makes none is enough.
    two = searched(
        "Banditron",
        "banditron",
        'exploration = 0.01, space = "dense"',
        'exploration = [0.01, 0.5], space = ["dense", "sparse"]',
    )
    give(MORE_RUNS + DATA + two)
    (one,) = reproduce("mine2026").verdicts
    assert one.verdict == "vacuous"
    assert one.why == "No effect on the grid: space (1 of its 1 other values do as well)."


def test_a_setting_that_differs_is_not_vacuous(give: Give) -> None:
    two = searched(
        "Banditron",
        "banditron",
        'exploration = 0.5, space = "dense"',
        'exploration = [0.01, 0.5], space = ["dense", "sparse"]',
    )
    give(MORE_RUNS + DATA + two)
    (one,) = reproduce("mine2026").verdicts
    assert (one.verdict, one.why) == ("differs", "They tuned on other data.")


def test_a_published_setting_that_is_not_on_the_grid_is_put_there(give: Give) -> None:
    give(GRID + DATA + searched("BPA", "bpa", "aggressiveness = 0.5"))
    found = reproduce("mine2026")
    assert found.verdicts[0].measured == measured("bpa", aggressiveness=0.5)
    (picture,) = found.results[0].parts
    assert list(picture.x) == [0.001, 0.01, 0.1, 0.5, 1.0]  # type: ignore[union-attr]


def test_a_grid_of_two_has_a_heat_map_and_without_a_published_setting_the_best_is_shown(give: Give) -> None:
    text = GRID.replace('"0.001..1:log:4"', "[0.01, 1.0], exploration = [0.01, 0.1]")
    give(text + DATA + learner("BPA", "bpa"))
    found = reproduce("mine2026")
    (one,) = found.verdicts
    assert one.verdict == "no number published"
    assert "aggressiveness" in one.said
    assert isinstance(found.results[0].parts[0], HeatMap)


MANY = (
    searched(
        "BPA",
        "bpa",
        "aggressiveness = 0.1, exploration = 0.01",
        "aggressiveness = [0.1, 1.0], exploration = [0.01, 0.1]",
    )
    + searched("Banditron", "banditron", grid="exploration = [0.01, 0.1, 0.3]")
    + searched("BPA again", "bpa", "aggressiveness = 0.001")
)


def sections_of(found: Reproduction) -> dict[str, list[Curves | HeatMap]]:
    """The pictures of an item by data set."""
    pictures: dict[str, list[Curves | HeatMap]] = {}
    for section in found.results[0].parts:
        assert isinstance(section, Section)
        pictures[section.title] = [part for part in section.parts if isinstance(part, Curves | HeatMap)]
        assert len(pictures[section.title]) == len(section.parts)
    return pictures


def test_each_learner_of_a_grid_has_its_own_verdict_and_picture(give: Give) -> None:
    give(GRID + DATA + MANY)
    found = reproduce("mine2026")
    assert [verdict.what for verdict in found.verdicts] == ["BPA", "Banditron", "BPA again"]
    two, none, one = found.verdicts
    assert two.published == "aggressiveness=0.1, exploration=0.01"
    assert two.measured == measured("bpa", aggressiveness=0.1, exploration=0.01)
    assert (none.published, none.verdict) == ("", "no number published")
    by = {value: measured("banditron", exploration=value) for value in (0.01, 0.1, 0.3)}
    best = min(by, key=lambda value: by[value].mean)
    assert none.measured == by[best]
    assert none.said.endswith(f" at exploration={best:g}")
    assert one.measured == measured("bpa", aggressiveness=0.001), "without a grid of its own it has the item's"
    assert (one.verdict, one.why) == ("undecided", "They tuned on other data."), "three runs of 300 rounds"


def test_the_pictures_of_several_learners_stand_in_a_section_for_each_data_set(give: Give) -> None:
    more = DATA.replace("SynSep", "Other").replace("synsep9", "synnonsep9")
    give(GRID + DATA + more + MANY)
    found = reproduce("mine2026", quick=True)
    pictures = sections_of(found)
    assert list(pictures) == ["SynSep", "Other"]
    for data, note in (("SynSep", "; published: aggressiveness=0.1, exploration=0.01"), ("Other", "")):
        heat, banditron, bpa = pictures[data]
        assert isinstance(heat, HeatMap)
        assert heat.title == "BPA: Error over aggressiveness and exploration"
        assert heat.note == f"error of one run, %{note}"
        assert isinstance(banditron, Curves)
        assert list(banditron.x) == [0.01, 0.1, 0.3]
        assert banditron.title == "Banditron: How the error depends on exploration"
        assert bpa.title == "BPA again: How the error depends on aggressiveness"
    text = page_html(found.page())
    for words in ("BPA: Error over aggressiveness and exploration", "Banditron: How the error depends on exploration"):
        assert text.count(f"<h4>{words}") == 2


def test_data_missing_from_a_grid_of_several_learners_are_told_for_each(give: Give) -> None:
    give(GRID + '[[item.data]]\nname = "SynSep"\nsource = "lost.npz"\n' + MANY)
    found = reproduce("mine2026")
    assert [one.verdict for one in found.verdicts] == ["missing data"] * 3
    assert found.results[0].parts == []


def test_a_learner_of_a_grid_that_failed_does_not_hide_the_others(give: Give) -> None:
    give(GRID + DATA + searched("X", "gaptron", grid="max_norm = [0.4, 0.5]") + searched("BPA", "bpa"))
    found = reproduce("mine2026")
    assert [one.verdict for one in found.verdicts] == ["failed", "no number published"]
    (picture,) = sections_of(found)["SynSep"]
    assert picture.title.startswith("BPA:")


def test_quick_takes_one_run_of_each_setting_of_a_grid(give: Give, tmp_path: Path) -> None:
    give(GRID + DATA + MANY)
    assert reproduce("mine2026", quick=True, out=tmp_path).results[0].runs == 1
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + 4 + 3 + 4


def test_a_published_setting_of_other_parameters_than_the_grid_is_refused() -> None:
    text = GRID + DATA + searched("BPA", "bpa", "exploration = 0.5")
    told = refused(lambda: parse_paper("mine2026", text))
    for word in ("table2", "BPA", "SynSep", "exploration", "aggressiveness"):
        assert word in told


def test_the_data_of_a_grid_may_be_missing(give: Give) -> None:
    give(GRID + '[[item.data]]\nname = "SynSep"\nsource = "lost.npz"\n' + learner("BPA", "bpa"))
    (one,) = reproduce("mine2026").verdicts
    assert one.verdict == "missing data"
    assert "lost.npz" in one.why


def test_an_unknown_learner_of_a_grid_is_refused(give: Give) -> None:
    give(GRID + DATA + learner("BPA", "bpaa"))
    assert "'bpa'" in refused(lambda: reproduce("mine2026"))


def test_a_scatter_is_drawn(give: Give) -> None:
    text = 'title = "t"\n[[item]]\nname = "figure5"\ntitle = "Figure 5"\nkind = "scatter"\n'
    give(text + '[[item.data]]\nname = "strong"\nsource = "strong2d"\n')
    found = reproduce("mine2026")
    (part,) = found.results[0].parts
    assert isinstance(part, Scatter)
    assert len(part.x) == len(part.labels) > 100
    assert found.verdicts == []
    assert "Figure 5" in page_html(found.page())


# --- runs, items, folders ----------------------------------------------------------------------------------------------


def test_quick_takes_two_runs_of_each(give: Give, tmp_path: Path) -> None:
    give(HEAD.replace(f"runs = {RUNS}", "runs = 9") + DATA + learner("BPA", "bpa"))
    found = reproduce("mine2026", quick=True, out=tmp_path)
    assert found.results[0].runs == 2
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
    give(HEAD.replace(f"runs = {RUNS}", "runs = 1") + DATA + learner("BPA", "bpa"))
    assert reproduce("mine2026", quick=True).results[0].runs == 1, "never more than the paper has"


def test_items_are_chosen_by_name_and_the_rest_is_not_run(give: Give, tmp_path: Path) -> None:
    other = HEAD.split("[[item]]")[1].replace("table1", "table2").replace("Table 1", "Table 2")
    give(HEAD + DATA + learner("BPA", "bpa") + "[[item]]" + other + DATA + learner("P", "perceptron"))
    assert [one.item for one in reproduce("mine2026").verdicts] == ["table1", "table2"]
    assert [one.item for one in reproduce("mine2026", ["table2"]).verdicts] == ["table2"]
    assert "'table2'" in refused(lambda: reproduce("mine2026", ["tabel2"]))


def test_an_item_on_request_is_run_only_if_it_is_named(give: Give) -> None:
    other = HEAD.split("[[item]]")[1].replace("table1", "search").replace("Table 1", "The search")
    give(
        HEAD
        + DATA
        + learner("BPA", "bpa")
        + "[[item]]"
        + other
        + "on_request = true\n"
        + DATA
        + learner("P", "perceptron")
    )
    assert [one.item for one in reproduce("mine2026").verdicts] == ["table1"]
    assert [one.item for one in reproduce("mine2026", ["search"]).verdicts] == ["search"]
    assert [one.item for one in reproduce("mine2026", ["search", "table1"]).verdicts] == ["search", "table1"]


def test_what_two_items_share_is_run_once(give: Give, tmp_path: Path) -> None:
    other = HEAD.split("[[item]]")[1].replace("table1", "figure1").replace("Table 1", "Figure 1")
    give(HEAD + DATA + learner("BPA", "bpa") + "[[item]]" + other + DATA + learner("The same", "bpa"))
    found = reproduce("mine2026", out=tmp_path)
    assert found.verdicts[0].measured == found.verdicts[1].measured
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + RUNS


def test_a_reproduction_goes_on_where_it_was_and_says_how_much_is_ahead(give: Give, tmp_path: Path) -> None:
    give(HEAD + DATA + learner("BPA", "bpa", 10.0) + learner("Banditron", "banditron"))
    ahead: list[int] = []
    done: list[int] = []
    first = reproduce("mine2026", out=tmp_path, began=ahead.append, progress=done.append)
    assert ahead == [2 * RUNS * ROUNDS]
    assert sum(done) == ahead[0]
    before = (tmp_path / "rows.jsonl").read_bytes()
    again = reproduce("mine2026", out=tmp_path)
    assert (tmp_path / "rows.jsonl").read_bytes() == before
    assert [one.to_dict() for one in again.verdicts] == [one.to_dict() for one in first.verdicts]


def test_plain_values_are_json(give: Give) -> None:
    give(HEAD + DATA + learner("BPA", "bpa", 10.0))
    plain = json.loads(json.dumps(reproduce("mine2026").to_dict(), allow_nan=False))
    assert plain["paper"] == "mine2026"
    assert sum(plain["counts"].values()) == len(plain["verdicts"]) == 1


def test_plain_values_of_one_run_are_json_too(give: Give) -> None:
    give(HEAD.replace(f"runs = {RUNS}", "runs = 1") + DATA + learner("BPA", "bpa", 10.0))
    found = reproduce("mine2026")
    assert found.verdicts[0].measured is not None
    assert math.isnan(found.verdicts[0].measured.low)
    json.dumps(found.to_dict(), allow_nan=False)


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_prints_published_measured_and_verdict(
    give: Give, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = measured("bpa")
    give(
        HEAD
        + "tolerance = 40.0\n"
        + DATA
        + learner("BPA", "bpa", round(100 * error.mean, 2))
        + learner("Perceptron", "perceptron", 99.0)
    )
    code = main(["reproduce", "mine2026", "--out", str(tmp_path / "out"), "--markdown", str(tmp_path / "verdicts.md")])
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), "to differ is not a failure"
    assert "\x1b" not in out
    for words in ("Table 1", "published", "measured", "reproduced", "differs", "99"):
        assert words in out
    assert "The data are known to differ." in out
    assert f"{100 * error.mean:.2f}" in out
    assert "1 reproduced, 1 differs" in out
    page = tmp_path / "out" / "page.html"
    assert f"page: {page}" in out
    assert "onebit reproduce mine2026" in page.read_text()
    text = (tmp_path / "verdicts.md").read_text()
    assert "`onebit reproduce mine2026`" in text.split("\n")[2], "the file says by which command it was made"
    assert str(tmp_path) not in text, "and not where"
    for words in ("# What the papers", "## mine2026", "### Table 1: errors", "It was never printed.", "| reproduced |"):
        assert words in text
    assert "| SynSep | Perceptron | 99 |" in text
    assert "differs [1] |" in text
    assert "1. The data are known to differ." in text


def test_the_command_as_json_quick_and_with_items(
    give: Give, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    give(HEAD + DATA + learner("BPA", "bpa", 10.0))
    code = main(["reproduce", "mine2026", "--json", "--quick", "--item", "table1", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    (paper,) = json.loads(out)
    assert paper["paper"] == "mine2026"
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + 2
    assert "onebit reproduce mine2026 --quick --item table1" in (tmp_path / "page.html").read_text()


def test_a_failure_ends_the_command_with_1_and_is_named(
    give: Give, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    give(HEAD + DATA + learner("Gaptron", "gaptron", 10.0, "set = { max_norm = 0.5 }") + learner("BPA", "bpa"))
    code = main(["reproduce", "mine2026", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    assert code == 1
    assert len(err.splitlines()) == 1
    assert "gaptron" in err
    assert "max_norm" in err
    assert "failed" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine2025"], ["'mine2025'", "'mine2026'"]),
        (["mine2026", "--item", "tabel1"], ["'tabel1'", "'table1'"]),
        (["mine2026", "mine2025"], ["'mine2025'"]),
        ([], ["PAPER"]),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_2(
    give: Give, capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    give(HEAD + DATA + learner("BPA", "bpa"))
    code = main(["reproduce", *arguments, "--out", str(tmp_path / "out")])
    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    for word in words:
        assert word in err
    assert not (tmp_path / "out").exists()


def test_a_markdown_file_that_cannot_be_written_is_one_line_and_the_runs_are_kept(
    give: Give, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    give(HEAD + DATA + learner("BPA", "bpa"))
    code = main(["reproduce", "mine2026", "--out", str(tmp_path), "--markdown", str(tmp_path / "no" / "file.md")])
    err = capsys.readouterr().err
    assert (code, len(err.splitlines())) == (2, 1)
    assert "file.md" in err
    assert (tmp_path / "page.html").exists()
