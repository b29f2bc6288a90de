"""The memory of learnt ids against a plain set: nothing is accepted twice, nothing is refused without cause, all of it bounded."""

from __future__ import annotations

import tracemalloc
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onebit.errors import OnebitError
from onebit.learner import ledger as module
from onebit.learner.ledger import Ledger

SMALL = 6  # the limit in most of these tests

numbers = st.integers(0, 40)
strings = st.tuples(
    st.sampled_from("abcdefghijklmnopqrst"), st.integers(0, 30)
)  # an id, and how long ago it was decided
runs = st.tuples(st.integers(0, 40), st.integers(0, 25))


def accepts(ledger: Ledger, identity: int | str, moment: int = 0) -> bool:
    try:
        ledger.refuse_learnt(identity, moment)
    except OnebitError as error:
        assert repr(identity) in str(error)  # noqa: PT017 - whether it is refused is the question
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(attempts=st.lists(numbers, max_size=120), limit=st.integers(2, 9))
def test_numbers_agree_with_a_plain_set(attempts: list[int], limit: int) -> None:
    """A number is accepted exactly once at most, and refused unlearnt only when half the limit of later ones were learnt."""
    ledger, learnt = Ledger(), set[int]()
    with patch.object(module, "LIMIT", limit):
        for number in attempts:
            if accepts(ledger, number):
                assert number not in learnt
                ledger.record(number)
                learnt.add(number)
            elif number not in learnt:
                assert sum(later > number for later in learnt) >= limit // 2
            assert len(ledger.learnt_above) <= limit
            assert ledger.moment == len(learnt)
    for number in learnt:
        assert not accepts(ledger, number)


@settings(max_examples=300, deadline=None)
@given(attempts=st.lists(st.one_of(numbers, strings), max_size=120), limit=st.integers(2, 9))
def test_a_decision_with_a_string_id_is_never_accepted_twice(attempts: list[int | tuple[str, int]], limit: int) -> None:
    """The model keeps every decision (id and moment) for ever; a fresh one is refused only when half the limit came later."""
    ledger, moments, decisions = Ledger(), dict[str, list[int]](), set[tuple[str, int]]()
    with patch.object(module, "LIMIT", limit):
        for attempt in attempts:
            if isinstance(attempt, int):  # numbers in between move the moment on
                if accepts(ledger, attempt):
                    ledger.record(attempt)
                continue
            identity, ago = attempt
            made = max(0, ledger.moment - ago)
            if accepts(ledger, identity, made):
                assert (identity, made) not in decisions
                assert all(learnt <= made for learnt in moments.get(identity, [])), "made before it was learnt"
                ledger.record(identity)
                decisions.add((identity, made))
                moments.setdefault(identity, []).append(ledger.moment)
            elif identity not in moments:
                later = sum(moment > made for known in moments.values() for moment in known)
                assert later >= limit // 2
            assert len(ledger.strings) <= limit


@settings(max_examples=300, deadline=None)
@given(before=st.lists(numbers, unique=True, max_size=30), run=runs, limit=st.integers(2, 9))
def test_a_run_is_its_numbers_one_after_the_other(before: list[int], run: tuple[int, int], limit: int) -> None:
    """After a run its numbers and all learnt before are refused, the next one is not, and the limit holds."""
    whole, single, learnt = Ledger(), Ledger(), set[int]()
    first, count = max(before, default=-1) + 1 + run[0], run[1]
    with patch.object(module, "LIMIT", limit):
        for number in before:
            for ledger in (whole, single):
                if accepts(ledger, number):
                    ledger.record(number)
                    learnt.add(number)
        whole.record_all(range(first, first + count))
        for number in range(first, first + count):
            single.record(number)
    assert whole.moment == single.moment
    assert len(whole.learnt_above) <= limit
    for number in range(first, first + count):
        assert not accepts(whole, number)
    assert accepts(whole, first + count)
    for number in learnt:
        assert not accepts(whole, number)


@settings(max_examples=300, deadline=None)
@given(
    before=st.lists(numbers, unique=True, max_size=30),
    steps=st.lists(st.integers(1, 3), max_size=60),
    size=st.integers(1, 20),
    limit=st.integers(2, 9),
)
def test_numbers_that_rise_may_come_in_parts(before: list[int], steps: list[int], size: int, limit: int) -> None:
    """What is remembered in the end is what would have been, had they come at once."""
    whole, parts = Ledger(), Ledger()
    rising = [max(before, default=-1) + sum(steps[: place + 1]) for place in range(len(steps))]
    with patch.object(module, "LIMIT", limit):
        for ledger in (whole, parts):
            for number in before:
                if accepts(ledger, number):
                    ledger.record(number)
        whole.record_all(rising)
        for first in range(0, max(1, len(rising)), size):
            parts.record_all(rising[first : first + size], more_follow=first + size < len(rising))
    assert vars(parts) == vars(whole)


def test_numbers_in_order_cost_nothing() -> None:
    ledger = Ledger()
    for number in range(1000):
        assert accepts(ledger, number)
        ledger.record(number)
        assert ledger.learnt_above == set()
    assert ledger.watermark == 1000
    ledger.record_all(range(1000, 1500))
    assert (ledger.watermark, ledger.learnt_above) == (1500, set())


def test_feedback_in_pairs_backwards_leaves_nothing_behind() -> None:
    ledger = Ledger()
    for number in range(0, 1000, 2):
        ledger.record(number + 1)
        ledger.record(number)
    assert (ledger.watermark, ledger.learnt_above, ledger.moment) == (1000, set(), 1000)


def test_a_gap_is_stepped_over_only_when_the_limit_is_passed() -> None:
    with patch.object(module, "LIMIT", SMALL):
        ledger = Ledger()
        for number in range(1, SMALL + 1):
            ledger.record(number)
        assert accepts(ledger, 0)
        ledger.record(SMALL + 1)
    with pytest.raises(OnebitError, match=r"decision 0 .*too old"):
        ledger.refuse_learnt(0, 0)


def test_a_number_that_was_surely_learnt_is_not_called_too_old() -> None:
    with patch.object(module, "LIMIT", SMALL):
        ledger = Ledger()
        ledger.record_all(range(10))
        for number in range(11, 12 + SMALL):
            ledger.record(number)
    with pytest.raises(OnebitError, match=r"^decision 3 has already been learnt: only decisions from \d+ on"):
        ledger.refuse_learnt(3, 0)
    with pytest.raises(OnebitError, match=r"^decision 10 has already been learnt, or is too old"):
        ledger.refuse_learnt(10, 0)


def test_strings_and_numbers_that_look_alike_are_different_ids() -> None:
    ledger = Ledger()
    ledger.record("0")
    assert accepts(ledger, 0)
    ledger.record(0)
    assert accepts(ledger, "1")


def test_an_old_decision_with_a_string_id_is_refused_with_both_moments() -> None:
    with patch.object(module, "LIMIT", SMALL):
        ledger = Ledger()
        for place in range(SMALL + 1):
            ledger.record(f"name {place}")
    assert ledger.forgotten > 0
    with pytest.raises(OnebitError, match=rf"'other' is too old: it was made after 0 .* after {ledger.forgotten} "):
        ledger.refuse_learnt("other", 0)
    assert accepts(ledger, "other", ledger.forgotten)


def test_a_long_run_after_a_gap_needs_no_memory_for_each_of_its_rounds() -> None:
    """The rounds of a run are in order: remembering them must not cost more than the limit, not even for a moment."""
    ledger = Ledger()
    ledger.record(1)  # decision 0 never hears anything
    tracemalloc.start()
    try:
        ledger.record_all(range(2, 1_000_002))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not accepts(ledger, 1_000_001)
    assert accepts(ledger, 1_000_002)
    assert peak < 30_000_000, f"{peak / 1e6:.0f} MB for a run of a million rounds"


def test_huge_numbers_are_ids_like_others() -> None:
    ledger = Ledger()
    last = 2**63 - 1
    ledger.record(last)
    assert not accepts(ledger, last)
    assert accepts(ledger, last - 1)
    assert accepts(ledger, 0)
