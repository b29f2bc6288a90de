"""Names that have moved work for one version more, and say what they are called now."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import onebit
from onebit.trials import records

COMPARED = onebit.compare("synsep9", ["perceptron"], rounds=50, runs=1, on="threads")
SWEPT = onebit.sweep("banditron", "synsep9", grid={"exploration": [0.1]}, rounds=50, runs=1, fresh_runs=1, on="threads")
STREAM = onebit.stream("synsep9", rounds=10)


def former_frame() -> Any:
    from onebit.experiments.rows import frame

    return frame


@pytest.mark.parametrize(
    ("former", "now", "named"),
    [
        (lambda: COMPARED.scenes, COMPARED.results, "Comparison.scenes is now Comparison.results"),
        (lambda: COMPARED.effort, COMPARED.cost, "Comparison.effort is now Comparison.cost"),
        (lambda: COMPARED[0].standings, COMPARED[0].summaries, "DataResult.standings is now DataResult.summaries"),
        (
            lambda: COMPARED[0].summaries[0].rows,
            COMPARED[0].summaries[0].records,
            "Summary.rows is now Summary.records",
        ),
        (
            lambda: COMPARED[0].summaries[0].hears_labels,
            COMPARED[0].summaries[0].full_information,
            "Summary.hears_labels is now Summary.full_information",
        ),
        (lambda: SWEPT.standings, SWEPT.summaries, "Sweep.standings is now Sweep.summaries"),
        (lambda: SWEPT.effort, SWEPT.cost, "Sweep.effort is now Sweep.cost"),
        (lambda: STREAM.course, STREAM.schedule, "Stream.course is now Stream.schedule"),
        (former_frame, records.frame, "onebit.experiments.rows.frame is now onebit.trials.records.frame"),
    ],
    ids=lambda given: given.split(" ")[0] if isinstance(given, str) else "",
)
def test_a_former_name_gives_the_same_and_says_the_new_one(former: Callable[[], Any], now: Any, named: str) -> None:
    with pytest.warns(DeprecationWarning, match=re.escape(f"{named};")) as heard:
        assert former() == now

    assert heard[0].filename == __file__, "the caller's line"


def test_a_paper_says_what_it_took_under_both_names() -> None:
    found = onebit.reproduce("hoeven2020", ["figure1"])
    with pytest.warns(DeprecationWarning, match=r"Reproduction\.effort is now Reproduction\.cost"):
        assert found.effort == found.cost


def test_what_never_was_there_is_not_there() -> None:
    from onebit.experiments import rows

    with pytest.raises(AttributeError, match="no attribute 'fame'"):
        _ = rows.fame
