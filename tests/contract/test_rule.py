"""What a rule must be: functions that can be called as the contract says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.contract.rule import CONTRACT, LEARNT, RIGHT, Rule, RuleInput, known
from onebit.errors import OnebitError
from onebit.learner import Learner
from onebit.rules import registry
from onebit.version import VERSION, release_of


class Still(NamedTuple):
    """The record of a rule that never moves."""

    classes: int


def learn(params: Any, given: RuleInput, choice: Any, revealed: int, step: Any) -> float:
    step[:] = 0.0
    return 1.0


def teach(params: Any, given: RuleInput, label: int, step: Any) -> float:
    step[:] = 0.0
    return 1.0


def old_decide(params: Any, memory: Any, scores: Any, norm: float, draws: Any, work: Any) -> Any: ...
def old_learn(  # noqa: PLR0917
    params: Any, memory: Any, scores: Any, norm: float, choice: Any, told: int, draws: Any, work: Any, coefficients: Any
) -> Any: ...
def old_probabilities(params: Any, memory: Any, scores: Any, norm: float, work: Any, chances: Any) -> Any: ...
def old_teach(
    params: Any, memory: Any, scores: Any, norm: float, label: int, draws: Any, work: Any, coefficients: Any
) -> Any: ...
def half_new(params: Any, given: Any, choice: Any, told: int, coefficients: Any) -> Any: ...
def too_few(params: Any) -> Any: ...


@pytest.fixture(autouse=True)
def rules_as_before() -> Iterator[None]:
    yield
    known.pop(Still, None)


def rule_with(**functions: Any) -> Rule:
    usual = {"decide": decide_greedy, "learn": learn, "probabilities": greedy_probabilities, "teach": teach}
    return Rule("still", "none", "never moves", Still, **{**usual, **functions})


IN_GIVEN = "memory is now given.memory, scores is now given.scores, norm is now given.sq_norm"


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [
        (
            "decide",
            old_decide,
            "decide of Still is decide(params, memory, scores, norm, draws, work), but must be decide(params, given): "
            f"{IN_GIVEN}, draws is now given.draws, work is now given.work",
        ),
        (
            "learn",
            old_learn,
            "learn of Still is learn(params, memory, scores, norm, choice, told, draws, work, coefficients), but must be "
            f"learn(params, given, choice, revealed, step): {IN_GIVEN}, draws is now given.draws, work is now given.work, "
            "told is now revealed, coefficients is now step",
        ),
        (
            "probabilities",
            old_probabilities,
            "probabilities of Still is probabilities(params, memory, scores, norm, work, chances), but must be "
            f"probabilities(params, given, out): {IN_GIVEN}, work is now given.work, chances is now out",
        ),
        (
            "teach",
            old_teach,
            "teach of Still is teach(params, memory, scores, norm, label, draws, work, coefficients), but must be "
            f"teach(params, given, label, step): {IN_GIVEN}, draws is now given.draws, work is now given.work, "
            "coefficients is now step",
        ),
        (
            "learn",
            half_new,
            "learn of Still is learn(params, given, choice, told, coefficients), but must be learn(params, given, choice, "
            "revealed, step): told is now revealed, coefficients is now step",
        ),
        ("decide", too_few, "decide of Still is decide(params), but must be decide(params, given)"),
    ],
)
def test_a_rule_for_the_former_contract_is_refused(name: str, function: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(OnebitError) as error:
        rule_with(**{name: function})
    assert str(error.value) == sentence
    assert Still not in known, "nothing is left of a rule that was refused"


FORMER_RULE = """
from typing import Annotated, NamedTuple
import onebit
from onebit.contract.choices import explored_label, explored_weight, fill, greedy_label, share_greedy
from onebit.contract.order import Covariance, Matrices, Order
from onebit.contract.parameters import Real
from onebit.contract.rule import Choice

class Nudge(NamedTuple):
    classes: int
    exploration: Annotated[float, Real("(0, 1)", "the probability of exploring")] = 0.1
    matrix: Matrices = Covariance.DIAGONAL

def decide(params, memory, scores, norm, draws, work):
    greedy = greedy_label(scores, params.classes, draws)
    label = explored_label(greedy, params.classes, params.exploration, draws)
    return Choice(label, greedy, explored_weight(label, greedy, params.classes, params.exploration), 0.0, 0.0)

def learn(params, memory, scores, norm, choice, told, draws, work, coefficients):
    fill(coefficients, 2 * params.classes, 0.0)
    coefficients[choice.label] = 0.1 if told == choice.label else -0.1
    return 1.0

def probabilities(params, memory, scores, norm, work, chances):
    share_greedy(scores, params.classes, params.exploration, chances)

def order(params):
    return Order(start=1.0)

onebit.Rule("nudge", "none", "moves", Nudge, decide, learn, probabilities, second_order=order)
"""


def test_a_whole_file_written_for_the_former_contract_gets_to_the_sentence() -> None:
    """What it imports has moved, and warns; the sentence is what stops it."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(OnebitError, match=r"must be decide\(params, given\)"):
            exec(FORMER_RULE, {"__name__": "nudge"})
    assert {one.category for one in seen} == {DeprecationWarning}
    assert {str(one.message) for one in seen} == {
        "explored_weight is now explored_propensity",
        "onebit.contract.order.Covariance is now onebit.contract.covariance.Covariance",
        "onebit.contract.order.Matrices is now onebit.contract.covariance.Matrices",
        "onebit.contract.order.Order is now onebit.contract.covariance.Order",
    }


def test_the_flag_of_the_former_contract_is_refused() -> None:
    with pytest.raises(OnebitError, match="Still gives full, which is now full_information"):
        rule_with(full=True)


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


@pytest.mark.parametrize(
    ("version", "meant"),
    [
        ("0.1.0", {"a": "first", "b": "old"}),
        ("0.3.0", {"a": "second", "b": "old"}),
        ("0.4.0.dev0", {"b": "old"}),
        ("0.10.0", {}),
    ],
)
def test_options_mean_what_they_meant_to_a_version(version: str, meant: dict[str, object]) -> None:
    """From the oldest change on, whatever their order; what was given stays, and 0.10 comes after 0.4."""
    rule = rule_with(
        migrations={
            "0.9.0": lambda given: {"b": "old", **given},
            "0.4.0": lambda given: {"a": "second", **given},
            "0.3.0": lambda given: {"a": "first", **given},
        }
    )
    assert rule.migrated({}, version) == meant
    assert rule.migrated({"a": "given", "b": "too"}, version) == {"a": "given", "b": "too"}


def test_migrated_options_can_be_given() -> None:
    """Whatever an older version was given of its own examples, this one takes."""
    for rule in registry().values():
        for options in rule.examples:
            rule.settle(3, rule.migrated(options, "0.1.0"))
        for release in rule.migrations:
            assert release_of(release) <= release_of(VERSION)


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
