"""Rules with variances: through every check, and against their slow twins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.every_rule.cases import (
    FAMILIES,
    checks_of,
    equals_its_oracle,
    equals_its_oracle_among,
    errs_less_among_few,
    passes,
    twins_of,
    varied_twins_of,
    walks_as_it_steps,
    walks_of,
)


@checks_of("second order")
def test_check(name: str, options: dict[str, Any], check: str) -> None:
    passes(name, options, check)


@twins_of("second order")
def test_compiled_rule_equals_its_oracle(name: str, options: dict[str, Any], classes: int, late: bool) -> None:
    equals_its_oracle(name, options, classes, late)


@varied_twins_of("second order")
def test_compiled_rule_equals_its_oracle_with_candidates_rewards_and_truths(
    name: str, options: dict[str, Any], late: bool, uncompiled_lessons: None
) -> None:
    equals_its_oracle_among(name, options, late)


@walks_of("second order")
def test_a_walk_with_candidates_rewards_and_corrections_is_stepping_by_hand(name: str, kind: str) -> None:
    walks_as_it_steps(name, kind)


@pytest.mark.parametrize("name", FAMILIES["second order"])
def test_with_few_candidates_less_is_wrong(name: str) -> None:
    errs_less_among_few(name)
