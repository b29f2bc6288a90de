"""Making a learner: every option and parameter out of its range is refused with its value."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.checks.examples import refused
from onebit.contract.options import MEANINGS, Options
from onebit.contract.parameters import Flag, OneOf, Real
from onebit.contract.steps import Variant
from onebit.learner.learner import Learner, learner_class
from onebit.rules import registry
from tests.learner.learners import NAMES, X, assert_unchanged_by, fresh, trained

# --- making one -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        1,
        0,
        -3,
        [],
        ["only"],
        [7],
        True,
        "abc",
        None,
        2.5,
        ["a", "a"],
        [1, 1],
        ["a", 1.5],
        ["a", None],
        [True, False],
        [["a"]],
    ],
    ids=repr,
)
def test_classes_that_are_none_are_refused(classes: Any) -> None:
    sentence = refused(lambda: Learner("bpa", classes=classes))
    assert "class" in sentence


def test_a_refused_number_of_classes_is_named() -> None:
    assert "-3" in refused(lambda: Learner("bpa", classes=-3))
    # Their names alone ended the process, without a word.
    assert "10,000,000,000,000 classes needs 2,500,000.0 GB" in refused(lambda: Learner("bpa", classes=10**13))
    assert "'a'" in refused(lambda: Learner("bpa", classes=["a", "b", "a"]))
    assert "1.5" in refused(lambda: Learner("bpa", classes=["a", 1.5]))  # type: ignore[list-item]


def test_classes_may_be_any_iterable_of_names() -> None:
    for classes in (("a", "b"), {"a": 1, "b": 2}, (name for name in "ab"), np.array(["a", "b"])):
        assert Learner("bpa", classes=classes).classes == ("a", "b")
    assert Learner("bpa", classes=np.arange(3, 5)).classes == (3, 4)
    assert Learner("bpa", classes=np.int64(3)).classes == (0, 1, 2)  # type: ignore[arg-type]
    assert Learner("bpa", classes=[1, "1"]).classes == (1, "1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "float16"}, "'float16'"),
        ({"dtype": "int8"}, "'int8'"),
        ({"dtype": None}, "None"),
        ({"space": "kernel"}, "'kernel'"),
        ({"space": 3}, "3"),
        ({"features": 0}, "0"),
        ({"features": -2}, "-2"),
        ({"features": 2.5}, "2.5"),
        ({"features": True}, "True"),
        ({"features": "6"}, "'6'"),
        ({"hash_bits": 0}, "0"),
        ({"hash_bits": 31}, "31"),
        ({"hash_bits": 2.0}, "2.0"),
        ({"hash_bits": True}, "True"),
        ({"seed": -1}, "-1"),
        ({"seed": 1.0}, "1.0"),
        ({"seed": True}, "True"),
        ({"seed": 2**63}, str(2**63)),
        ({"seed": None}, "None"),
        ({"seed": "0"}, "'0'"),
        ({"bias": "no"}, "'no'"),
        ({"bias": 2}, "2"),
        ({"text": "no"}, "'no'"),
        ({"text": True, "features": 5}, "text"),
        ({"text": True, "space": "dense"}, "text"),
        ({"hash_bits": 5, "space": "dense"}, "hash_bits"),
    ],
    ids=repr,
)
def test_a_common_option_out_of_range_is_refused_with_its_value(options: dict[str, Any], words: str) -> None:
    sentence = refused(lambda: Learner("bpa", classes=NAMES, **options))
    assert words in sentence
    assert next(iter(options)) in sentence


def test_an_option_is_declared_once() -> None:
    """Every learner class takes what `Options` and its rule declare, with these defaults, and documents it."""
    for rule in registry().values():
        made = learner_class(rule)
        shown = inspect.signature(made).parameters
        defaults = {**Options._field_defaults, **rule.defaults}
        assert {option: shown[option].default for option in defaults} == defaults
        assert shown.keys() == {"classes", *defaults}
        assert all(f"    {option}: {meaning}" in (made.__doc__ or "") for option, meaning in MEANINGS.items())
        assert all(f"    {option}: " in (made.__doc__ or "") for option in shown)
    assert Options().checked() == Options()
    assert list(MEANINGS) == ["classes", *Options._fields]


def test_numpy_whole_numbers_are_taken_wherever_whole_numbers_are() -> None:
    learner = Learner("bpa", classes=3, features=np.int64(6), seed=np.int64(7))
    assert learner.runtime.seed == 7
    assert learner.decide(X[0]).label in (0, 1, 2)
    assert Learner("bpa", classes=3, hash_bits=np.int64(4)).features == 16


@pytest.mark.parametrize("rule", ["bandtron", "", 5, None])
def test_a_rule_that_is_none_is_refused(rule: Any) -> None:
    assert repr(rule) in refused(lambda: Learner(rule, classes=NAMES))


def outside(interval: str) -> list[float]:
    """Numbers that an interval leaves out: beyond both ends, the ends themselves where they are open, and no numbers."""
    low, high = (float(part) for part in interval[1:-1].split(","))
    found = [math.nan, -math.inf, math.inf, low - 1.0, math.nextafter(low, -math.inf)]
    if interval[0] == "(":
        found.append(low)
    if math.isfinite(high):
        found += [high + 1.0, math.nextafter(high, math.inf)]
        if interval[-1] == ")":
            found.append(high)
    return found


REALS = [
    (rule, name, parameter)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, Real)
]
NAMED = [
    (rule, name, parameter)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, OneOf)
]
FLAGS = [
    (rule, name)
    for rule, known in registry().items()
    for name, parameter in known.parameters.items()
    if isinstance(parameter, Flag)
]


def test_every_kind_of_parameter_is_tried() -> None:
    tried = {(rule, name) for rule, name, _ in [*REALS, *NAMED]} | set(FLAGS)
    assert tried == {(rule, name) for rule, known in registry().items() for name in known.parameters}
    assert all((REALS, NAMED, FLAGS))


@pytest.mark.parametrize(("rule", "name", "parameter"), REALS)
def test_a_number_outside_its_range_is_refused_with_name_value_and_range(rule: str, name: str, parameter: Real) -> None:
    for value in outside(parameter.interval):
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence == f"{name} is {value}, but must be in {parameter.interval}"
    wrong: list[Any] = ["0.1", True, [0.1], 1j, np.array([0.1]), *([] if parameter.optional else [None])]
    for value in wrong:
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence.startswith(f"{name} is {value!r}, but must be a number in {parameter.interval}")


def test_a_whole_number_too_large_for_a_float_is_refused() -> None:
    for rule, name, _ in REALS:
        assert name in refused(lambda rule=rule, name=name: fresh(rule, **{name: 10**400}))  # type: ignore[misc]


@pytest.mark.parametrize(("rule", "name", "parameter"), REALS)
def test_a_closed_end_of_a_range_is_taken(rule: str, name: str, parameter: Real) -> None:
    low, high = (float(part) for part in parameter.interval[1:-1].split(","))
    inside = math.nextafter(low, math.inf) if math.isinf(high) else 0.5 * (low + high)
    ends = [low] * (parameter.interval[0] == "[") + [high] * (parameter.interval[-1] == "]")
    for value in [inside, np.float32(0.25 * high) if math.isfinite(high) else 2, *ends]:
        assert fresh(rule, **{name: value}).settings[name] == value


@pytest.mark.parametrize(("rule", "name", "parameter"), NAMED)
def test_a_way_that_is_not_there_is_refused_with_all_that_are(rule: str, name: str, parameter: OneOf) -> None:
    for value in ("nonsense", "", 7, 1.0, True):
        sentence = refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]
        assert sentence.startswith(f"{name} is {value!r}, but must be one")
        assert all(way in sentence for way in parameter.names)
    for value in parameter.names:
        assert Learner(rule, classes=NAMES, **{**_settled(rule), name: value}).settings[name] == value


def _settled(rule: str) -> dict[str, Any]:
    return {"rate": 0.1, "exploration": 0.1} if rule == "gaptron" else {}


@pytest.mark.parametrize(("rule", "name"), FLAGS)
def test_a_flag_is_true_or_false(rule: str, name: str) -> None:
    wrong: list[Any] = ["yes", "", 2, None, [], 0.5, np.array([1, 0])]
    for value in wrong:
        assert f"{name} is {value!r}" in refused(lambda value=value: fresh(rule, **{name: value}))  # type: ignore[misc]


@pytest.mark.parametrize("rule", registry())
def test_an_unknown_parameter_is_refused_and_the_nearest_is_named(rule: str) -> None:
    for name in registry()[rule].parameters:
        misspelt = name + name[-1]
        sentence = refused(lambda misspelt=misspelt: fresh(rule, **{misspelt: 1}))  # type: ignore[misc]
        assert f"{misspelt!r}; did you mean {name!r}?" in sentence


@pytest.mark.parametrize(("misspelt", "meant"), [("feature", "features"), ("sed", "seed"), ("hashbits", "hash_bits")])
def test_a_misspelt_common_option_is_recognised_too(misspelt: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in refused(lambda: fresh("banditron", **{misspelt: 1}))


def test_parameters_that_do_not_fit_together_are_refused() -> None:
    bad: list[tuple[str, Callable[[], object]]] = [
        ("horizon and radius and max_norm", lambda: Learner("gaptron", classes=NAMES)),
        ("max_norm", lambda: Learner("gaptron", classes=NAMES, setting="full")),
        ("rate times decay", lambda: Learner("policy-gradient", classes=NAMES, rate=0.5, decay=2.0)),
        (
            "guess_if_all_negative",
            lambda: Learner("conservative-ova", classes=5, coding="all-pairs", guess_if_all_negative=True),
        ),
        ("2 rows, but there are 5", lambda: Learner("conservative-ova", classes=5, coding=[[1, -1], [-1, 1]])),
        ("-1, 0 and 1", lambda: Learner("conservative-ova", classes=2, coding=[[1, 2], [-1, 1]])),
        ("coding", lambda: Learner("conservative-ova", classes=2, coding=[[1], [-1, 1]])),
        ("coding", lambda: Learner("conservative-ova", classes=2, coding=[[], []])),
    ]
    for words, action in bad:
        assert words in refused(action)


@pytest.mark.parametrize(
    "options",
    [
        {"variant": Variant.PA_II},
        {"aggressiveness": Fraction(1, 3)},
        {"aggressiveness": np.float32(0.3)},
        {"aggressiveness": np.int64(2)},
    ],
    ids=repr,
)
def test_a_parameter_of_any_kind_that_is_taken_is_saved_and_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    learner = Learner("bpa", classes=3, **options)
    learner.learn(learner.decide(X[0]), right=True)
    learner.save(tmp_path / "learner.onebit")
    loaded = onebit.load(tmp_path / "learner.onebit")
    for x in X[:10]:
        loaded.learn(loaded.decide(x), right=False)
        learner.learn(learner.decide(x), right=False)
    assert np.array_equal(loaded.weights, learner.weights)
    assert loaded.settings == learner.settings


def test_a_class_name_that_is_no_text_is_refused() -> None:
    """It could be neither saved nor sent."""
    assert "\\ud800" in refused(lambda: Learner("bpa", classes=["half \ud800 a character", "b"]))
    learner = trained("bpa")
    assert_unchanged_by(learner, lambda: learner.add_class("half \ud800 a character"))
