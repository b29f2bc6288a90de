"""What the runs of an experiment took, in numbers and in words."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

import onebit
from onebit.experiments.trials.cost import NOTHING, Cost, Resource, duration, in_words, kind_of, quantity, together
from onebit.experiments.trials.trial import Trial, entry_of

GPU, THREADS = (Resource("GPU"),), (Resource("2 threads"),)


def why(*reasons: str) -> tuple[Resource, ...]:
    return (THREADS[0]._replace(reasons=reasons),)


def test_two_costs_are_added() -> None:
    one, other = Cost(THREADS, 100, 1.5, 3), Cost(THREADS, 10, 0.5, 4)
    assert one + other == Cost(THREADS, 110, 2.0, 7)
    assert one + NOTHING == NOTHING + one == one
    assert one + Cost(GPU, 10, 0.5, 0) == Cost(THREADS + GPU, 110, 2.0, 3)
    assert one + Cost(GPU, found=5) == Cost(THREADS, 100, 1.5, 8), "nothing was run there"


@pytest.mark.parametrize(
    ("some", "said"),
    [
        ([GPU, GPU], "GPU"),
        ([GPU, THREADS], "GPU and 2 threads"),
        ([GPU, why("few rounds")], "GPU and 2 threads (few rounds)"),
        ([GPU, GPU + why("few rounds")], "GPU and 2 threads (few rounds)"),
        ([GPU + why("a", "b"), GPU + why("b", "c"), GPU], "GPU and 2 threads (a; b; c)"),
        ([THREADS, why("a")], "2 threads (a)"),
        ([(), ()], ""),
    ],
)
def test_resources_are_said_once(some: list[tuple[Resource, ...]], said: str) -> None:
    assert in_words(together(*some)) == said


def test_a_name_may_hold_what_stands_between_names() -> None:
    """They were taken apart by their text once."""
    odd = (Resource("2 threads, X (R) 5 and more", ("a; b",)),)
    assert together(odd, odd) == odd


def test_trials_of_a_kind_differ_in_numbers_alone() -> None:
    streamed = onebit.stream("synsep9", rounds=120)

    def kind(name: str, seed: int = 0, rounds: int = 120, **options: Any) -> Hashable:
        return kind_of(Trial(entry_of(name, options), onebit.stream("synsep9", rounds=rounds), seed))

    assert streamed.key == onebit.stream("synsep9", rounds=120).key
    one = kind("conservative-ova")
    assert one == kind("conservative-ova", seed=1, aggressiveness=0.3, bias=False, coding="one-vs-all")
    others = [
        kind("conservative-ova", coding="all-pairs"), kind("conservative-ova", bias=True), kind("conservative-ova", rounds=99),
        kind("bpa"), kind("bpa", variant="PA"), kind("policy-gradient"), kind("policy-gradient", baseline=True),
    ]  # fmt: skip
    assert len({one, *others}) == 8


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (NOTHING, ""),
        (Cost(THREADS), ""),
        (Cost(THREADS, found=1), "no new runs; 1 run was there already"),
        (Cost(THREADS, found=1200), "no new runs; 1,200 runs were there already"),
        (Cost(THREADS, 300_000, 20.0), "2 threads: 300,000 rounds in 20 s, 15,000 rounds a second"),
        (Cost(GPU, 10**10, 5.0), "GPU: 10,000,000,000 rounds in 5 s, 2 billion rounds a second"),
        (
            Cost(GPU, 10**10, 5.0, 7),
            "GPU: 10,000,000,000 rounds in 5 s, 2 billion rounds a second; 7 runs were there already",
        ),
    ],
)
def test_a_cost_is_said(cost: Cost, said: str) -> None:
    assert cost.said == said


def test_a_cost_that_no_clock_has_seen_is_said() -> None:
    assert Cost(THREADS, 2, 0.0).said.startswith("2 threads: 2 rounds in 0.001 s, ")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0.001 s"), (0.0004, "0.001 s"), (0.0123, "0.01 s"), (0.12, "0.1 s"), (1.0, "1 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (99.4, "99 s"), (101, "1.7 minutes"), (600, "10 minutes"), (5940, "99 minutes"), (6000, "1.7 hours"),
        (86_400, "24 hours"), (180_000, "2.1 days"), (8_640_000, "100 days"), (864_000_000, "10,000 days"),
    ],
)  # fmt: skip
def test_durations_are_for_people(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"), (7, "7"), (999, "999"), (12_345, "12,300"), (999_400, "999,000"), (1_000_000, "1 million"),
        (9_940_000, "9.9 million"), (123_456_789, "123 million"), (1_840_000_000, "1.8 billion"), (2.5e12, "2,500 billion"),
    ],
)  # fmt: skip
def test_quantities_are_for_people(number: float, said: str) -> None:
    assert quantity(number) == said


def test_a_cost_is_plain_values() -> None:
    assert Cost(THREADS, 100, 1.5, 3).to_dict() == {
        "where": "2 threads", "rounds": 100, "seconds": 1.5, "found": 3,
    }  # fmt: skip
