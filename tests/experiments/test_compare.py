"""Comparisons: every learner on the same streams, sorted by error, differences seed by seed, failures listed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused, rows
from onebit.experiments.compare import AGGRESSIVENESS, usual_entries
from onebit.experiments.report.html import page_html
from onebit.experiments.runner import TrialCollector, describe_causes
from onebit.experiments.statistics import MeanEstimate, estimate
from onebit.rules import registry
from tests.experiments.trials.records import record

X, Y = rows(80)
NAMES = ["ant", "bee", "cat", "dog", "eel"]
LABELS = [NAMES[label] for label in Y]
SHORT: dict[str, Any] = {"rounds": 400, "runs": 3}


def titles(result: Any) -> list[str]:
    return [one.entry.title for one in result.summaries]


# --- the table ---------------------------------------------------------------------------------------------------------


def test_learners_are_sorted_by_error_and_the_best_has_bandit_feedback() -> None:
    found = onebit.compare("synsep9", ["banditron", "perceptron", ("bpa", {"aggressiveness": 1}), "bpa"], **SHORT)
    (result,) = found.results
    errors = [one.error.mean for one in result.summaries]
    assert errors == sorted(errors)
    assert len(set(errors)) == 4
    assert result.summaries[0].entry.title == "perceptron", "with full information it errs least"
    assert result.best is result.summaries[1]
    assert not result.best.full_information
    assert result.summaries[0].full_information
    assert found.failures == []


def test_where_all_are_told_the_labels_the_best_is_one_of_them() -> None:
    (result,) = onebit.compare("synsep9", ["perceptron", "passive-aggressive"], **SHORT).results
    assert result.best is result.summaries[0]


def test_errors_are_those_of_runs() -> None:
    """Paired: every learner has the seeds, the order and the noise that `run` has with them."""
    settings: dict[str, Any] = {
        "order": "shuffle",
        "noise": 0.2,
        "delay": "geometric:3",
        "rounds": 200,
        "runs": 4,
        "seed": 9,
    }
    (result,) = onebit.compare(
        (X, LABELS), ["bpa", "perceptron", ("banditron", {"exploration": 0.3})], **settings
    ).results
    for one in result.summaries:
        alone = onebit.run(one.entry.rule, X, LABELS, **settings, **one.entry.options)
        assert one.errors.tolist() == alone.errors.tolist()
        assert one.error == alone.error_interval
        assert np.array_equal(one.curve("greedy"), alone.curve.greedy)
        assert [row.seed for row in one.records] == [9, 10, 11, 12]


def test_differences_are_taken_run_by_run() -> None:
    (result,) = onebit.compare("synsep9", ["bpa", "banditron", "perceptron"], **SHORT).results
    assert result.best is not None
    for one in result.summaries:
        assert result.difference(one) == estimate(one.errors - result.best.errors)
    assert result.difference(result.best) == MeanEstimate(0.0, 0.0, 0.0)
    assert result.difference(result.summaries[0]).mean < 0.0, "who is told the labels errs less than the best"


def test_the_same_learner_twice_differs_by_exactly_nothing() -> None:
    """The second is another trial (its space is named), run on its own: the same to the last mistake."""
    (result,) = onebit.compare("synsep9", ["banditron", ("banditron", {"space": "dense"})], **SHORT).results
    one, other = result.summaries
    assert one.records[0].id != other.records[0].id
    for summary in (one, other):
        assert result.difference(summary) == MeanEstimate(0.0, 0.0, 0.0)
    default = registry()["banditron"].defaults["exploration"]
    (result,) = onebit.compare("synsep9", ["banditron", ("banditron", {"exploration": default})], **SHORT).results
    assert result.difference(result.summaries[1]) == MeanEstimate(0.0, 0.0, 0.0)


def test_rows_of_files_and_arrays_are_shuffled_and_those_of_generators_drawn() -> None:
    assert onebit.compare((X, Y), ["bpa"], runs=2)[0].stream.order == "shuffle"
    assert onebit.compare((X, Y), ["bpa"], runs=2, order="file")[0].stream.order == "file"
    assert onebit.compare("synsep9", ["bpa"], **SHORT)[0].stream.order == "file"


def test_one_run_has_no_interval() -> None:
    (result,) = onebit.compare("synsep9", ["bpa", "banditron"], rounds=100, runs=1).results
    assert math.isnan(result.summaries[0].error.low)
    assert math.isnan(result.difference(result.summaries[1]).low)


# --- learners and data in any form -------------------------------------------------------------------------------------


def test_learners_may_be_names_classes_rules_and_pairs() -> None:
    forms = [
        "bpa",
        onebit.Banditron,
        registry()["perceptron"],
        (onebit.BPA, {"aggressiveness": 1}),
        ("bpa", {"exploration": 0.5}),
    ]
    (result,) = onebit.compare("synsep9", forms, **SHORT).results
    assert sorted(titles(result)) == ["banditron", "bpa", "bpa, aggressiveness=1", "bpa, exploration=0.5", "perceptron"]
    (by_name,) = onebit.compare("synsep9", iter(["perceptron", "banditron", "bpa"]), **SHORT).results
    for one in by_name.summaries:
        twin = next(each for each in result.summaries if each.entry.title == one.entry.title)
        assert one.errors.tolist() == twin.errors.tolist()


def test_data_may_be_a_list_of_names_pairs_files_and_streams(tmp_path: Path) -> None:
    path = tmp_path / "animals.npz"
    np.savez(path, X=X, y=Y, classes=NAMES)
    own = onebit.stream("synsep9", rounds=150, noise=0.2)
    found = onebit.compare(["synsep9", (X, LABELS), str(path)], ["bpa", "perceptron"], rounds=100, runs=2)
    assert [result.stream.source.name for result in found.results] == ["synsep9", "arrays", str(path)]
    assert all(result.stream.rounds == 100 for result in found.results)
    assert found["synsep9"] is found[0]
    assert found[str(path)] is found[2]
    assert found[1].summaries[0].errors.tolist() == found[2].summaries[0].errors.tolist()
    (result,) = onebit.compare(own, ["bpa"], runs=2).results
    assert result.stream is own
    assert "'iris'" in refused(lambda: found["iris"])


def test_without_learners_all_take_part_and_some_with_small_and_large_steps() -> None:
    entries = usual_entries()
    assert {entry.rule.name for entry in entries} == set(registry())
    assert len({entry.title for entry in entries}) == len(entries)
    for name, rule in registry().items():
        tried = [entry.settings.get("aggressiveness") for entry in entries if entry.rule.name == name]
        capped = "aggressiveness" in rule.parameters and "variant" in rule.parameters
        assert set(tried) == {rule.defaults.get("aggressiveness")} | (set(AGGRESSIVENESS) if capped else set())
    assert {entry.rule.name for entry in entries if entry.options} >= {"bpa", "conservative-ova", "epabf"}


# --- failures ----------------------------------------------------------------------------------------------------------


def test_a_learner_that_does_not_settle_is_listed_and_the_others_stand() -> None:
    with pytest.warns(
        onebit.OnebitWarning, match=r"^2 of 4 runs failed \(pab aggressiveness=1: .* diverges on these data"
    ) as heard:
        found = onebit.compare("synsep10", ["bpa", ("pab", {"aggressiveness": 1})], rounds=9000, runs=2)
    assert heard[0].filename == __file__, "it names the line of whoever compared"
    assert "2 runs failed (pab aggressiveness=1: " in repr(found)
    assert "2 runs failed" in page_html(found.page())
    assert titles(found[0]) == ["bpa"]
    assert [(row.learner, row.seed) for row in found.failures] == [("pab", 0), ("pab", 1)]
    assert all("diverges on these data" in (row.why or "") for row in found.failures)
    html = page_html(found.page())
    assert "Failed" in html
    assert html.index("But 2 runs failed (pab aggressiveness=1: ") < html.index('data-test="curves"'), "said at the top"
    assert found.to_dict()["data"][0]["failures"][0]["learner"] == "pab"


def test_a_learner_that_failed_in_one_run_has_no_place_in_the_table() -> None:
    """Shuffled, and cut after 30 of 60 rows: the row that is too long comes in some runs and not in others."""
    long = X[:60].copy()
    long[41] *= 1e25
    with pytest.warns(onebit.OnebitWarning, match=r"^\d of 6 runs failed \(bpa: "):
        found = onebit.compare((long, Y[:60]), ["bpa"], rounds=30, runs=6)
    assert found.finding == "On arrays no learner was run without a failure."
    assert 0 < len(found.failures) < 6
    assert found[0].summaries == []
    assert found[0].best is None
    assert "Failed" in page_html(found.page())
    assert len(found.frame()) == len(found.failures)


def test_where_every_run_failed_the_cause_is_raised() -> None:
    """Silent before: `best on arrays: none`, an empty table, and the cause in `.failures` alone."""
    texts = ["late goal wins cup", "vote in parliament"] * 10
    with pytest.raises(onebit.InputError, match=r"^every run failed \(bpa, banditron: x is a string"):
        onebit.compare((texts, [0, 1] * 10), ["bpa", "banditron"], runs=2)


def test_causes_that_differ_are_all_said_and_many_are_counted() -> None:
    failed = [record(learner=learner, why=why) for learner, why in (("a", "one"), ("a", "two"), ("b", "one"))]
    assert describe_causes(failed) == "a, b: one"
    said = describe_causes([record(learner=name, why=name * 2) for name in "abcde"])
    assert said == "a: aa; b: bb; c: cc; and 2 more causes"


@pytest.mark.parametrize(
    ("call", "own"),
    [
        (lambda **given: onebit.compare("iris", ["bpa"], **given), {"runs", "on", "rounds", "order", "delay", "label"}),
        (
            lambda **given: onebit.sweep("bpa", "iris", grid={}, **given),
            {"fresh_runs", "grid", "rounds", "delay", "drop"},
        ),
        (
            lambda **given: onebit.run("bpa", "iris", **given),
            {"exploration", "text", "runs", "threads", "rounds", "delay"},
        ),
        (lambda **given: onebit.stream("iris", **given), {"rounds", "order", "noise", "seed", "prepare", "label"}),
    ],
    ids=["compare", "sweep", "run", "stream"],
)
def test_what_is_said_to_be_known_is_all_that_is_known(call: Callable[..., Any], own: set[str]) -> None:
    said = refused(lambda: call(zzzzzzzzzzzzz=1)).partition("known are: ")[2].split(", ")
    assert own <= set(said)
    assert not {"settings", "data_", "options_"} & set(said)


# --- what comes out ----------------------------------------------------------------------------------------------------


def test_plain_values_are_json_and_say_it_all() -> None:
    found = onebit.compare(["synsep9", (X, LABELS)], ["bpa", "perceptron"], rounds=100, runs=2, seed=4)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["runs"], plain["seed"], len(plain["data"])) == (2, 4, 2)
    for result, shown in zip(found.results, plain["data"], strict=True):
        assert shown["data"] == result.stream.name
        assert shown["stream"] == result.stream.described()
        for one, said in zip(result.summaries, shown["standings"], strict=True):
            assert said["learner"] == one.entry.rule.name
            assert said["errors"] == one.errors.tolist()
            assert said["error"] == one.error._asdict()
            assert said["feedback"] == ("full information" if said["learner"] == "perceptron" else "bandit")
            assert said["difference_to_best"]["mean"] == result.difference(one).mean


def test_plain_values_of_one_run_are_json_too() -> None:
    assert json.dumps(onebit.compare("synsep9", ["bpa"], rounds=100, runs=1).to_dict(), allow_nan=False)


def test_the_page_has_a_table_curves_and_how_it_came_about() -> None:
    found = onebit.compare(
        ["synsep9", (X, LABELS)], ["bpa", "perceptron"], rounds=100, runs=3, seed=4, command="onebit compare <b> & c"
    )
    html = page_html(found.page())
    assert "onebit compare &lt;b&gt; &amp; c" in html
    for words in ("3 runs of 100 rounds", "seeds 4 to 6", "run by run", "Student", "perceptron", "bandit feedback"):
        assert words in html
    assert html.count('data-test="curves"') == 2
    assert not re.search(r"(src|href)=.(https?:)?//", html), "nothing is fetched from elsewhere"
    for result in found.results:
        for one in result.summaries:
            assert f"{100 * one.error.mean:.2f}" in html


def test_a_page_says_where_orders_are_the_same_in_every_run() -> None:
    words = "intervals show only the randomness of the learners"
    same = onebit.compare((X, Y), ["bpa"], runs=2, order="file").page()
    mixed = onebit.compare((X, Y), ["bpa"], runs=2).page()
    assert words.replace("'", "&#x27;") in page_html(same)
    assert words.replace("'", "&#x27;") not in page_html(mixed)


def test_a_comparison_is_plotted() -> None:
    import matplotlib.pyplot as plt

    found = onebit.compare(["synsep9", (X, Y)], ["bpa", "perceptron"], rounds=100, runs=2)
    for figure in (found.plot(), found.plot(1, "greedy", logarithmic=True), found.plot("synsep9")):
        assert figure.axes[0].get_lines()
        plt.close(figure)


# --- bad input ---------------------------------------------------------------------------------------------------------

BAD: list[tuple[str, dict[str, Any], list[str]]] = [
    ("unknown learner", {"learners": ["bandtron"]}, ["'bandtron'", "'banditron'"]),
    ("unknown data", {"data": "synsep1"}, ["'synsep1'", "'synsep10'"]),
    ("unknown parameter", {"learners": [("bpa", {"aggresiveness": 1})]}, ["'aggresiveness'", "'aggressiveness'"]),
    ("parameter out of range", {"learners": [("bpa", {"exploration": 2})]}, ["exploration is 2"]),
    ("twice", {"learners": ["bpa", "banditron", "bpa"]}, ["'bpa'", "twice"]),
    ("twice with options", {"learners": [("bpa", {"exploration": 0.1}), ("bpa", {"exploration": 0.1})]}, ["twice"]),
    ("none", {"learners": []}, ["at least one learner"]),
    ("no data", {"data": []}, ["at least one data set"]),
    ("no labels", {"data": X}, ["labels"]),
    ("learner", {"learners": [onebit.Learner("bpa", classes=5)]}, ["from scratch"]),
    ("learner of no kind", {"learners": [5]}, ["5"]),
    ("runs", {"runs": 0}, ["runs is 0"]),
    ("seed", {"seed": -1}, ["seed is -1"]),
    ("rounds", {"rounds": 0}, ["rounds is 0"]),
    ("noise", {"noise": 3}, ["noise is 3"]),
    ("order", {"order": "shufle"}, ["'shufle'", "'shuffle'"]),
]


@pytest.mark.parametrize(("given", "words"), [one[1:] for one in BAD], ids=[one[0] for one in BAD])
def test_bad_input_is_refused_before_anything_is_written(
    tmp_path: Path, given: dict[str, Any], words: list[str]
) -> None:
    out = tmp_path / "out"
    arguments: dict[str, Any] = {"data": "synsep9", "learners": ["bpa"], "rounds": 50, "runs": 1, **given}
    sentence = refused(lambda: onebit.compare(arguments.pop("data"), arguments.pop("learners"), out=out, **arguments))
    for word in words:
        assert word in sentence
    assert not out.exists()


def test_a_stream_in_a_comparison_brings_its_own() -> None:
    streamed = onebit.stream("synsep9", rounds=50)
    assert "its own rounds" in refused(lambda: onebit.compare([streamed], ["bpa"], rounds=60))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            {"threads": -1},
        ),
        pytest.param({"threads": 0}),
        pytest.param({"threads": 1.5}),
    ],
    ids=str,
)
def test_a_number_of_threads_that_is_none_is_refused(given: dict[str, Any]) -> None:
    assert "threads" in refused(lambda: onebit.compare("synsep9", ["bpa"], rounds=50, runs=1, **given))


def test_a_single_name_is_no_list_of_letters() -> None:
    assert titles(onebit.compare("synsep9", "bpa", rounds=50, runs=1)[0]) == ["bpa"]


def test_parameters_that_differ_little_are_two_learners() -> None:
    pair = [("bpa", {"aggressiveness": 0.1234567}), ("bpa", {"aggressiveness": 0.1234568})]
    assert len(onebit.compare("synsep9", pair, rounds=50, runs=1)[0].summaries) == 2


@pytest.mark.parametrize("options", [{"dtype": "float16"}, {"bias": 5}, {"space": "hilbert"}], ids=str)
def test_options_of_any_learner_are_checked_before_anything_runs(tmp_path: Path, options: dict[str, Any]) -> None:
    (name,) = options
    assert name in refused(lambda: onebit.compare("synsep9", [("bpa", options)], rounds=50, runs=1, out=tmp_path))


# --- stopped -------------------------------------------------------------------------------------------------------------


def test_a_comparison_that_was_stopped_has_the_page_of_the_whole_and_calls_nothing_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has not run is said to be that; the whole one, later, takes the place of its page."""
    learners = ["banditron", "bpa"]

    collect = TrialCollector.collect

    def stopped_after_the_first(self: TrialCollector, trials: Any) -> None:
        collect(self, [one for one in trials if one.stream.name == "synsep9" and one.entry.rule.name == "bpa"])
        raise KeyboardInterrupt

    def compared() -> Any:
        return onebit.compare(["synsep9", "synnonsep9"], learners, rounds=300, runs=2, out=tmp_path)

    with monkeypatch.context() as patched:
        patched.setattr(TrialCollector, "collect", stopped_after_the_first)
        with pytest.raises(onebit.Stopped) as stopped:
            compared()
    partly = stopped.value.result
    assert "On synnonsep9 no learner has run to the end." in partly.finding
    first = partly.save()
    assert "failed" not in first.read_text()
    assert "not run" in first.read_text()
    assert compared().save() == first
    assert "not run" not in first.read_text()
