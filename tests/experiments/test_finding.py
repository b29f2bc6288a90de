"""What a comparison found, in sentences, and what a notebook shows of results, comparisons, sweeps and learners."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import rows
from onebit.experiments.compare import Comparison, DataResult, describe_finding
from onebit.experiments.report.html import page_html
from onebit.experiments.run import describe_constant
from onebit.experiments.statistics import Summary
from onebit.experiments.trials import make_entry
from tests.experiments.trials.records import record

X, Y = rows(60)


def summary(name: str, *errors: float, **options: Any) -> Summary:
    """Runs with these errors."""
    curve = {"rounds": np.array([1, 9]), "played": np.array([1, 2]), "greedy": np.array([1, 2])}
    entry = make_entry(name, options)
    feedback = "full information" if name in ("perceptron", "arow") else "bandit"
    given = {"learner": name, "feedback": feedback, "greedy_error": 0.1, "curve": curve, "stream": {"rounds": 9}}
    return Summary(entry, [record(**given, seed=seed, error=error) for seed, error in enumerate(errors)])


def on(data: str, *summaries: Summary) -> DataResult:
    return DataResult(onebit.stream(data, rounds=9), sorted(summaries, key=lambda one: one.error.mean), [])


CLEAR = on("iris", summary("auto", 0.1, 0.11, 0.1), summary("bpa", 0.5, 0.52, 0.51), summary("arow", 0.02, 0.01, 0.02))
CLOSE = on("digits", summary("thompson", 0.1, 0.2, 0.3), summary("auto", 0.2, 0.2, 0.25), summary("bpa", 0.9, 0.9, 0.9))
ALSO_CLEAR = on("synsep9", summary("auto", 0.1, 0.11, 0.1), summary("bpa", 0.5, 0.52, 0.51))


def test_one_data_set_names_the_best_and_whether_another_may_be_as_good() -> None:
    assert (
        describe_finding([CLEAR])
        == "`auto` is best on iris, with an error of 10.33 ± 1.43 %; it can be distinguished from every other with 3 runs."
    )
    assert describe_finding([CLOSE]).endswith("; `auto` cannot be distinguished from it with 3 runs.")
    assert [one.entry.title for one in CLOSE.rivals] == ["auto"]


def test_several_data_sets_are_counted() -> None:
    said = describe_finding([CLEAR, ALSO_CLEAR, CLOSE])
    assert said == (
        "`auto` is best on 2 of 3: iris and synsep9; `thompson` on digits. On digits `auto` cannot be distinguished from it with 3 runs."
    )


def test_one_run_and_no_run_are_said() -> None:
    single = on("iris", summary("auto", 0.1), summary("bpa", 0.2))
    assert describe_finding([single]) == (
        "`auto` is best on iris, with an error of 10.00 %. One run has no interval: more runs would say how sure this is."
    )
    stopped = on("digits")
    failed = dataclasses.replace(stopped, failures=[record(why="it does not settle")])
    best = "`auto` is best on 1 of 2: iris."
    assert describe_finding([CLEAR, failed]) == f"{best} On digits no learner was run without a failure."
    assert describe_finding([CLEAR, stopped]) == f"{best} On digits no learner has run to the end."


def test_a_rival_may_be_far_outside_of_the_interval_of_the_best() -> None:
    """The test is one of pairs: with 2 runs one that varies much cannot be told from the best, however far its mean is."""
    far = on("iris", summary("auto", 0.1, 0.1), summary("bpa", 0.4, 0.9))
    assert far.summaries[0].error.high < far.summaries[1].error.mean
    assert describe_finding([far]).endswith("; `bpa` cannot be distinguished from it with 2 runs.")


def test_nothing_is_said_of_others_where_none_has_the_same_feedback() -> None:
    alone = on("iris", summary("auto", 0.1, 0.2), summary("perceptron", 0.3, 0.4))
    assert describe_finding([alone]).startswith("`auto` is best on iris, with an error of ")
    assert "told" not in describe_finding([alone])


def test_where_naming_one_class_gets_more_than_every_learner_it_is_said() -> None:
    worth = np.zeros((60, 3))
    worth[:, 1], worth[::10, 2] = 0.9, 1.0
    settings: dict[str, Any] = {"rewards": worth, "classes": ["a", "b", "c"]}
    said = "always naming 'b' has a mean reward of 0.9000, more than"
    found = onebit.compare(X, ["bpa", "banditron"], runs=2, **settings)
    assert found.finding.endswith(f" On arrays {said} every learner.")
    assert onebit.run("bpa", X, **settings).caveat == f"{said} the learner"
    first = onebit.stream(X, rounds=1, order="file", **settings)
    assert describe_constant(first, 0.5) == "always naming 'c' has a mean reward of 1.0000", (
        "of the rows that are played"
    )
    offered = onebit.run("bpa", X, candidates=2, **settings)
    assert "always" not in offered.caveat, "one class cannot always be named"
    assert "always" not in onebit.run("bpa", X, rewards=np.eye(5)[Y], rounds=600).caveat


def test_who_has_full_information_is_no_rival() -> None:
    assert on("iris", summary("auto", 0.1, 0.2), summary("perceptron", 0.1, 0.2)).rivals == []


def test_a_setting_of_a_rival_is_no_learner_of_its_own() -> None:
    """Without colours and backticks it read "bpa, bpa, aggressiveness=0.1 cannot be distinguished"."""
    near = [summary("bpa", 0.11, 0.3), summary("bpa", 0.12, 0.3, aggressiveness=0.1)]
    said = describe_finding([on("iris", summary("auto", 0.1, 0.3), *near)])
    assert said.endswith("; `bpa` and `bpa` (aggressiveness=0.1) cannot be distinguished from it with 2 runs.")


def test_many_rivals_are_counted() -> None:
    names = ["auto", "bpa", "banditron", "thompson", "linucb", "softmax"]
    said = describe_finding([on("iris", *(summary(name, 0.1 + place / 99, 0.3) for place, name in enumerate(names)))])
    assert said.endswith(
        "`bpa`, `banditron`, `thompson`, `linucb` and 1 more cannot be distinguished from it with 2 runs."
    )


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return onebit.compare(["synsep9", (X, Y)], ["bpa", "banditron", "perceptron"], rounds=100, runs=2)


def test_the_page_begins_with_the_finding_and_the_chart_and_marks_the_best(compared: Comparison) -> None:
    html = page_html(compared.page())
    places = [html.index(one) for one in (" is best on ", 'data-test="curves"', "Errors on ", "saw the same rows")]
    assert places == sorted(places)
    assert html.count('class="badge good best"') == 2 * 2 + 2, "error and difference on each, and in the table of all"
    alone = page_html(dataclasses.replace(compared, results=compared.results[:1]).page())
    assert alone.count('class="badge good best"') == 2
    assert "All data at a glance" not in alone


def test_the_page_of_a_sweep_says_first_what_was_chosen_and_marks_it() -> None:
    found = onebit.sweep("bpa", "synsep9", grid={"aggressiveness": [0.1, 1.0]}, rounds=60, runs=2, fresh_runs=2)
    html = page_html(found.page())
    assert html.index("Chosen: ") < html.index("tuning runs of")
    assert html.count('class="badge good best"') == 1


def shown(value: Any) -> str:
    html: str = value._repr_html_()
    assert "<script" not in html
    assert "<button" not in html
    return html


def test_notebooks_show_learners() -> None:
    learner = onebit.run("bpa", X, Y, runs=2).learner
    assert f"{learner.learnt:,} feedbacks learnt" in shown(learner)


def test_names_in_notebooks_are_text_and_never_markup() -> None:
    learner = onebit.BPA(classes=["<b>", "other"])
    assert "<b>BPA" in shown(learner)


def test_the_best_of_many_rows_is_the_best_of_each_and_nothing_is_decided() -> None:
    for learner in (onebit.BPA(classes=5), onebit.Auto(classes=5), onebit.BPA(classes=5, text=True)):
        given: Any = [f"word{label} and more" for label in Y] if learner.runtime.features.named else X
        for x, label in zip(given, Y, strict=True):
            decision = learner.decide(x)
            learner.learn(decision, bool(decision.label == label))
        before, free = learner.to_bytes(), learner.runtime.ledger.next_id
        assert learner.best_many(given) == [learner.best(x) for x in given]
        assert learner.best_many([]) == []
        assert (learner.to_bytes(), learner.runtime.ledger.next_id) == (before, free)
    with pytest.raises(onebit.InputError):
        onebit.BPA(classes=2).best_many(3.0)
