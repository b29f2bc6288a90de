"""Rules with variances: through every check, and against their slow twins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.every_rule.cases import (
    FAMILIES,
    assert_equals_its_oracle,
    assert_equals_its_oracle_among,
    assert_errs_less_among_few,
    assert_passes,
    assert_walks_as_it_steps,
    checks_of,
    twins_of,
    varied_twins_of,
    walks_of,
)


@checks_of("second order")
def test_check(name: str, options: dict[str, Any], check: str, whole: bool, request: pytest.FixtureRequest) -> None:
    if not whole:
        request.getfixturevalue("uncompiled_lessons")
    assert_passes(name, options, check, whole)


@twins_of("second order")
def test_compiled_rule_equals_its_oracle(name: str, options: dict[str, Any], classes: int, late: bool) -> None:
    assert_equals_its_oracle(name, options, classes, late)


@varied_twins_of("second order")
def test_compiled_rule_equals_its_oracle_with_candidates_rewards_and_truths(
    name: str, options: dict[str, Any], late: bool, uncompiled_lessons: None
) -> None:
    assert_equals_its_oracle_among(name, options, late)


@walks_of("second order")
def test_a_walk_with_candidates_rewards_and_corrections_is_stepping_by_hand(name: str, kind: str) -> None:
    assert_walks_as_it_steps(name, kind)


@pytest.mark.parametrize("name", FAMILIES["second order"])
def test_with_few_candidates_less_is_wrong(name: str) -> None:
    assert_errs_less_among_few(name)
