"""Every learner of the registry, with each of its example option sets, through every check."""

from __future__ import annotations

from typing import Any

import pytest

from onebit.checks import CHECKS
from onebit.learner import Learner, learner_class
from onebit.rules import registry

CASES = [(name, options) for name, rule in registry().items() for options in rule.examples]

# What a learner cannot meet, and why.
EXCEPTIONS: dict[tuple[str, str], str] = {}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)])
def test_check(name: str, options: dict[str, Any], check: str) -> None:
    if (name, check) in EXCEPTIONS:
        pytest.skip(EXCEPTIONS[name, check])
    made = learner_class(registry()[name])

    def factory(**common: Any) -> Learner:
        return made(**{**options, **common})

    CHECKS[check](factory)
