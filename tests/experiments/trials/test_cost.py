"""What the runs of an experiment took, in numbers and in words."""

from __future__ import annotations

import pytest

from onebit.experiments.trials.cost import Cost, format_duration, format_quantity

GPU, THREADS = "GPU", "2 threads"


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (Cost(), ""),
        (Cost(THREADS), ""),
        (Cost(THREADS, found=1), "no new runs; 1 run existed already"),
        (Cost(THREADS, found=1200), "no new runs; 1,200 runs existed already"),
        (Cost(THREADS, 300_000, 20.0), "2 threads: 300,000 rounds in 20 s, 15,000 rounds a second"),
        (Cost(GPU, 10**10, 5.0), "GPU: 10,000,000,000 rounds in 5 s, 2 billion rounds a second"),
        (
            Cost(GPU, 10**10, 5.0, 7),
            "GPU: 10,000,000,000 rounds in 5 s, 2 billion rounds a second; 7 runs existed already",
        ),
    ],
)
def test_a_cost_is_said(cost: Cost, said: str) -> None:
    assert cost.text == said


def test_a_cost_that_no_clock_has_seen_is_said() -> None:
    assert Cost(THREADS, 2, 0.0).text.startswith("2 threads: 2 rounds in 0.001 s, ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0.001 s"), (0.0004, "0.001 s"), (0.0123, "0.01 s"), (0.12, "0.1 s"), (1.0, "1 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (99.4, "99 s"), (101, "1.7 minutes"), (600, "10 minutes"), (5940, "99 minutes"), (6000, "1.7 hours"),
        (86_400, "24 hours"), (180_000, "2.1 days"), (8_640_000, "100 days"), (864_000_000, "10,000 days"),
    ],
)  # fmt: skip
def test_durations_are_for_people(seconds: float, said: str) -> None:
    assert format_duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"), (7, "7"), (999, "999"), (12_345, "12,300"), (999_400, "999,000"), (1_000_000, "1 million"),
        (9_940_000, "9.9 million"), (123_456_789, "123 million"), (1_840_000_000, "1.8 billion"), (2.5e12, "2,500 billion"),
    ],
)  # fmt: skip
def test_quantities_are_for_people(number: float, said: str) -> None:
    assert format_quantity(number) == said


def test_a_cost_is_plain_values() -> None:
    assert Cost(THREADS, 100, 1.5, 3).to_dict() == {
        "where": "2 threads", "rounds": 100, "seconds": 1.5, "found": 3,
    }  # fmt: skip
