"""Names that have moved work for one version more, and say what they are called now."""

from __future__ import annotations

import re
from typing import Any

import pytest

import onebit
from onebit.trials import records


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What has names that have moved."""
    swept = {"grid": {"exploration": [0.1]}, "rounds": 50, "runs": 1, "fresh_runs": 1, "on": "threads"}
    compared = onebit.compare("synsep9", ["perceptron"], rounds=50, runs=1, on="threads")
    return {
        "Comparison": compared,
        "DataResult": compared[0],
        "Summary": compared[0].summaries[0],
        "Sweep": onebit.sweep("banditron", "synsep9", **swept),  # type: ignore[arg-type]
        "Stream": onebit.stream("synsep9", rounds=10),
    }


@pytest.mark.parametrize(
    ("of", "former", "now"),
    [
        ("Comparison", "scenes", "results"),
        ("Comparison", "effort", "cost"),
        ("DataResult", "standings", "summaries"),
        ("Summary", "rows", "records"),
        ("Summary", "hears_labels", "full_information"),
        ("Sweep", "standings", "summaries"),
        ("Sweep", "effort", "cost"),
        ("Stream", "course", "schedule"),
    ],
)
def test_a_former_name_gives_the_same_and_says_the_new_one(
    found: dict[str, Any], of: str, former: str, now: str
) -> None:
    named = re.escape(f"{of}.{former} is now {of}.{now};")
    with pytest.warns(DeprecationWarning, match=named) as heard:
        assert getattr(found[of], former) == getattr(found[of], now)
    assert heard[0].filename == __file__, "the caller's line"


def test_a_function_that_has_moved_is_the_same_and_says_where_it_is() -> None:
    named = re.escape("onebit.experiments.rows.frame is now onebit.trials.records.frame;")
    with pytest.warns(DeprecationWarning, match=named) as heard:
        from onebit.experiments.rows import frame
    assert frame is records.frame
    assert heard[0].filename == __file__, "the caller's line"


def test_a_paper_says_what_it_took_under_both_names() -> None:
    found = onebit.reproduce("hoeven2020", ["figure1"])
    with pytest.warns(DeprecationWarning, match=r"Reproduction\.effort is now Reproduction\.cost"):
        assert found.effort == found.cost


def test_what_never_was_there_is_not_there() -> None:
    from onebit.experiments import rows

    with pytest.raises(AttributeError, match="no attribute 'fame'"):
        _ = rows.fame
