"""What a rule must be: functions that can be called as the contract says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.rule import CONTRACT, LEARNT, RIGHT, Rule, RuleInput, rules_by_record
from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.rules import registry


class Still(NamedTuple):
    """The record of a rule that never moves."""

    classes: int


def learn(params: Any, given: RuleInput, choice: Any, revealed: int, step: Any) -> float:
    step[:] = 0.0
    return 1.0


def teach(params: Any, given: RuleInput, label: int, step: Any) -> float:
    step[:] = 0.0
    return 1.0


def too_many(params: Any, memory: Any, scores: Any, work: Any) -> Any: ...
def too_few(params: Any) -> Any: ...


@pytest.fixture(autouse=True)
def rules_as_before() -> Iterator[None]:
    yield
    rules_by_record.pop(Still, None)


def rule_with(**functions: Any) -> Rule:
    usual = {"decide": decide_greedy, "learn": learn, "probabilities": greedy_probabilities, "teach": teach}
    return Rule("still", "none", "never moves", Still, **{**usual, **functions})


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [
        (
            "probabilities",
            too_many,
            "probabilities of Still is probabilities(params, memory, scores, work), but must be probabilities(params, given, out)",
        ),
        ("decide", too_few, "decide of Still is decide(params), but must be decide(params, given)"),
    ],
)
def test_a_function_that_the_contract_cannot_call_is_refused(
    name: str, function: Callable[..., Any], sentence: str
) -> None:
    with pytest.raises(OnebitError) as error:
        rule_with(**{name: function})
    assert str(error.value) == sentence
    assert Still not in rules_by_record, "nothing is left of a rule that was refused"


def test_other_names_and_arguments_with_defaults_are_fine() -> None:
    def named_otherwise(record: Any, seen: RuleInput, played: Any, truth: int, move: Any, rate: float = 0.1) -> float:
        return rate

    def of_any_number(*everything: Any) -> float:
        return 1.0

    assert rule_with(learn=named_otherwise, teach=of_any_number).title == "Still"


def test_every_function_has_its_arguments() -> None:
    assert set(CONTRACT) == {"decide", "learn", "probabilities", "teach", "surety", "weigh"}
    assert {arguments[:2] for arguments in CONTRACT.values()} == {("params", "given")}
    now = ("memory", "scores", "sq_norm", "draws", "work", "reward", "candidates", "complete")
    assert RuleInput._fields == now


def test_the_memory_counts_feedbacks_but_no_empty_rows_and_no_lessons() -> None:
    learner = Learner("banditron", classes=2)
    for x in ([1.0, 0.0], [0.0, 0.0], [0.0, 1.0]):
        learner.learn(learner.decide(x), right=True)
    learner.teach([[1.0, 1.0]], [1])
    assert learner.runtime.model.memory[[LEARNT, RIGHT]].tolist() == [2.0, 2.0]


class NoClasses(NamedTuple):
    """A record that does not say how many classes there are."""

    rate: float = 1.0


class NoDefault(NamedTuple):
    """A record with a parameter that nobody need give."""

    classes: int
    rate: float


@pytest.mark.parametrize(
    ("record", "sentence"),
    [(NoClasses, "with a field 'classes'"), (NoDefault, "the field 'rate' of .* needs a default")],
)
def test_a_record_that_cannot_be_filled_is_refused(record: type, sentence: str) -> None:
    with pytest.raises(OnebitError, match=sentence):
        Rule(
            "still",
            "none",
            "never moves",
            record,
            decide=decide_greedy,
            learn=learn,
            probabilities=greedy_probabilities,
        )


def test_a_record_with_a_matrix_is_what_a_covariance_needs() -> None:
    with pytest.raises(OnebitError, match="needs the field 'matrix'"):
        rule_with(second_order=registry()["linucb"].second_order)
