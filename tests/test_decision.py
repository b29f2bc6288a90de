"""A decision as a value: it survives any journey as JSON, and nothing that was altered on the way can hurt a learner."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.checks import refused, state
from onebit.decision import Decision
from onebit.learner import Learner

ROW = np.array([0.5, 0.0, -1.0, 0.1])
FORMS: dict[str, tuple[dict[str, Any], Any]] = {
    "dense float32": ({}, ROW),
    "dense float64": ({"dtype": "float64"}, ROW / 3.0),
    "sparse float32": ({}, scipy.sparse.csr_array(ROW[None])),
    "sparse float64": ({"dtype": "float64"}, scipy.sparse.csr_array(ROW[None] / 3.0)),
    "sparse of zeros": ({"space": "sparse"}, np.zeros(4)),
    "names": ({}, {"weight": 1.0 / 3.0, "größe": 2.0, 'quote " and \\ and \n': -1e-300, "": 4.0}),
    "no names": ({"space": "sparse"}, {}),
    "hashed names": ({"hash_bits": 4}, {"weight": 1.0 / 3.0, "größe": 2.0}),
    "text": ({"text": True}, 'A "text" with \\ and \n and ünïcödé and 語'),
    "empty text": ({"text": True}, ""),
    "hashed text": ({"text": True, "hash_bits": 4}, "one two"),
}


def made(form: str, rule: str = "banditron", **more: Any) -> tuple[Learner, Decision]:
    options, x = FORMS[form]
    learner = Learner(rule, ["no", "yes", "perhaps"], **options, **more)
    learner.learn(learner.decide(x), right=True)
    return learner, learner.decide(x)


def altered(decision: Decision, **fields: Any) -> str:
    return json.dumps({**json.loads(decision.to_json()), **fields})


def unchanged_by(learner: Learner, action: Callable[[], object]) -> str:
    before = state(learner)
    sentence = refused(action)
    assert state(learner) == before, f"changed by what was refused: {sentence}"
    return sentence


# --- the journey -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_decision_comes_back_from_json_as_it_was(form: str) -> None:
    learner, decision = made(form)
    back = Decision.from_json(decision.to_json())
    assert back == decision
    assert hash(back) == hash(decision)
    assert back.to_json() == decision.to_json()
    assert type(back.x) is type(decision.x)
    assert Decision.from_json(decision.to_json().encode()) == decision
    assert "\n" not in decision.to_json()
    here, there = learner.clone(), learner.clone()
    here.learn(decision, right=True)
    there.learn(back, right=True)
    assert state(here) == state(there)


@pytest.mark.parametrize("form", FORMS)
def test_a_decision_comes_back_from_json_that_another_system_wrote_anew(form: str) -> None:
    """Other order of fields, escaped characters, spaces: what a database makes of JSON."""
    decision = made(form)[1]
    fields = json.loads(decision.to_json())
    rewritten = json.dumps(dict(reversed(fields.items())), ensure_ascii=True, indent=3)
    assert Decision.from_json(rewritten) == decision


@pytest.mark.parametrize("rule", ["banditron", "gaptron", "policy-gradient", "bandit-perceptron", "offset-tree"])
def test_every_field_of_a_decision_survives(rule: str) -> None:
    options = {"rate": 0.1, "exploration": 0.3, "loss": "logistic"} if rule == "gaptron" else {}
    _, decision = made("dense float32", rule, **options)
    back = Decision.from_json(decision.to_json())
    for name in ("id", "label", "propensity", "greedy", "weight", "notes", "version", "learner"):
        assert getattr(back, name) == getattr(decision, name), name
        assert type(getattr(back, name)) is type(getattr(decision, name)), name
    assert np.array_equal(back.x, decision.x)  # type: ignore[arg-type]


def test_class_names_and_ids_keep_their_kind() -> None:
    learner = Learner("bpa", [1, "1", "ü"])
    for identity in (5, "5", "ticket/ü 語", 2**63 - 1):
        decision = learner.decide([1.0], id=identity)
        back = Decision.from_json(decision.to_json())
        assert (back.id, back.label) == (identity, decision.label)
        assert type(back.id) is type(identity)
        assert type(back.label) is type(decision.label)


def test_decisions_that_differ_in_anything_are_not_equal() -> None:
    _, decision = made("dense float32")
    assert decision == decision._replace()
    for change in (
        {"id": 77},
        {"label": "other"},
        {"propensity": 0.123},
        {"notes": (0.0, 1.0)},
        {"x": np.array([0.5, 0.0, -1.0, 0.2], dtype=np.float32)},
        {"x": ROW},
        {"version": 99},
        {"learner": "another"},
    ):
        assert decision != decision._replace(**change), change  # type: ignore[arg-type]
    assert decision != 5
    assert decision != tuple(decision)


def test_a_decision_is_a_key_of_a_dict() -> None:
    learner, decision = made("dense float32")
    waiting = {decision: "order 66"}
    assert waiting[Decision.from_json(decision.to_json())] == "order 66"
    assert learner.decide(ROW) not in waiting


# --- what is not a decision --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", "5", '"decision"', "{}", "NaN", b"\xff\xfe", b"", "[" * 200_000, None, 5, ["{}"], {}],
    ids=lambda text: repr(text)[:16],
)
def test_what_is_no_json_object_is_refused(text: Any) -> None:
    assert "decision" in refused(lambda: Decision.from_json(text))


@pytest.mark.parametrize("name", Decision._fields)
def test_a_missing_field_is_named(name: str) -> None:
    fields = json.loads(made("dense float32")[1].to_json())
    del fields[name]
    assert repr(name) in refused(lambda: Decision.from_json(json.dumps(fields)))


def test_an_unknown_field_is_named() -> None:
    _, decision = made("dense float32")
    assert "'reward'" in refused(lambda: Decision.from_json(altered(decision, reward=1.0)))


NUMBERS: list[Any] = [None, "0.5", True, [0.5], {}, math.nan, math.inf, -math.inf, 10**400, -(10**400)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("propensity", value) for value in [*NUMBERS, 0, -0.5, 1.1]),
        *(("weight", value) for value in [*NUMBERS, 0, -0.5, 1.1]),
        *(("notes", value) for value in [None, 5, [], [1.0], [1.0, 2.0, 3.0], "ab", {"0": 1}, [1.0, None]]),
        *(("notes", [value, 0.0]) for value in NUMBERS),
        *(("id", value) for value in [None, True, 1.0, -1, 2**63, "", [], {}]),
        *(("version", value) for value in [None, True, 1.0, "1", -1, []]),
        *(("learner", value) for value in [None, 5, [], {}]),
        *(("label", value) for value in [None, True, 1.5, [], {}, math.nan]),
        *(("greedy", value) for value in [None, True, 1.5, [], {}, math.nan]),
        *(("x", value) for value in [None, 5, [], [1.0], "text", {}, {"text": 5}, {"text": None}, {"names": 5}]),
        *(("x", {"names": {"a": value}}) for value in NUMBERS),
        *(("x", {"values": [value], "dtype": "float32"}) for value in NUMBERS),
        ("x", {"values": 5, "dtype": "float32"}),
        ("x", {"values": [[1.0]], "dtype": "float32"}),
        ("x", {"values": [1.0, [2.0]], "dtype": "float32"}),
        ("x", {"values": [1.0]}),
        ("x", {"dtype": "float32"}),
        ("x", {"values": [1.0], "dtype": "float3"}),
        ("x", {"values": [1.0], "dtype": "int32"}),
        ("x", {"values": [1.0], "dtype": "O"}),
        ("x", {"values": [1.0], "dtype": None}),
        ("x", {"values": [1.0], "dtype": 7}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4}),
        ("x", {"values": [1.0], "dtype": "float32", "columns": [0]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": "four", "columns": [0]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4, "columns": 0}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4, "columns": [0, 1]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4, "columns": [[0]]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4, "columns": [0.5]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": 4, "columns": [2**40]}),
        ("x", {"values": [1.0], "dtype": "float32", "size": -4, "columns": [0]}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_field_of_the_wrong_kind_is_refused_by_its_name(name: str, value: Any) -> None:
    """Refused while reading, not at some later time by whatever stumbles over it."""
    _, decision = made("dense float32")
    sentence = refused(lambda: Decision.from_json(altered(decision, **{name: value})))
    assert name in sentence


# --- what was altered on the way ---------------------------------------------------------------------------------------


def learns_or_refuses(learner: Learner, text: str) -> bool:
    """Whether it was learnt; if not, nothing may have moved. Either way the learner must still work."""
    before = state(learner)
    try:
        learner.learn(Decision.from_json(text), right=True)
    except ValueError as error:
        assert type(error).__name__ == "OnebitError", error  # noqa: PT017
        assert state(learner) == before
        return False
    assert np.isfinite(learner.weights).all()
    return True


@pytest.mark.parametrize("form", ["dense float32", "sparse float32"])
def test_an_x_of_another_length_is_refused_and_nothing_changes(form: str) -> None:
    learner, decision = made(form)
    for length in (0, 1, 3, 5, 400):
        for sparse in (False, True):
            x: dict[str, Any] = {"values": [1.0] * length, "dtype": "float32"}
            if sparse:
                x |= {"size": length, "columns": list(range(length))}
            text = altered(decision, x=x)
            sentence = unchanged_by(learner, lambda text=text: learner.learn(Decision.from_json(text), right=True))  # type: ignore[misc]
            assert str(length) in sentence
            assert "4" in sentence
    learner.learn(decision, right=True)


@pytest.mark.parametrize("form", ["dense float32", "sparse float32", "names", "hashed names", "text"])
def test_an_x_of_another_form_is_refused_or_means_the_same(form: str) -> None:
    """Whatever stands in for x, the learner learns it as if it had been decided on, or refuses it."""
    others: list[dict[str, Any]] = [
        {"text": "one two"},
        {"names": {"weight": 2.0}},
        {"values": [0.5, 0.0, -1.0, 0.1], "dtype": "float32"},
        {"values": [0.5, 0.0, -1.0, 0.1], "dtype": "float64"},
    ]
    for x in others:
        learner, decision = made(form)
        numbered = "values" in x
        expected = form.startswith(("dense", "sparse")) if numbered else form == "text" or (
            "names" in x and form in ("names", "hashed names")
        )
        assert learns_or_refuses(learner, altered(decision, x=x)) == expected, x


def test_an_x_that_is_no_number_is_refused_and_nothing_changes() -> None:
    learner, decision = made("dense float32")
    for bad in (math.nan, math.inf, 1e300):
        with np.errstate(over="ignore"):
            spoilt = decision._replace(x=np.array([0.5, bad, 0.0, 0.0], dtype=np.float32))
        assert "1" in unchanged_by(learner, lambda spoilt=spoilt: learner.learn(spoilt, right=True))  # type: ignore[misc]
    named, decision = made("names")
    for bad in (math.nan, math.inf):
        spoilt = decision._replace(x={"a": bad})
        assert "'a'" in unchanged_by(named, lambda spoilt=spoilt: named.learn(spoilt, right=True))  # type: ignore[misc]


COLUMNS = """
import json, sys
import numpy as np
from onebit.checks import refused, state
from onebit.decision import Decision
from onebit.learner import Learner

for space in ("sparse", "dense"):
    for columns, values, dtype in json.loads(sys.argv[1]):
        learner = Learner("bpa", 3, features=4, space=space)
        learner.learn(learner.decide([1.0, 0.0, 0.0, 1.0]), right=True)
        fields = json.loads(learner.decide([1.0, 0.0, 0.0, 1.0]).to_json())
        fields["x"] = {"size": 4, "columns": columns, "values": values, "dtype": dtype}
        before = state(learner)
        try:
            learner.learn(Decision.from_json(json.dumps(fields)), right=True)
            print(space, columns, values, dtype, "was accepted", flush=True)
        except Exception as error:
            if type(error).__name__ != "OnebitError":
                print(space, columns, values, dtype, "raised", type(error).__name__, error, flush=True)
            if state(learner) != before:
                print(space, columns, values, dtype, "was refused and changed the learner", flush=True)
"""


def test_altered_columns_never_reach_the_compiled_code() -> None:
    """Columns outside the weights are writes outside the weights; so in a process of its own, which must live."""
    cases = [
        ([-1], [1.0], "float32"),
        ([4], [1.0], "float32"),
        ([1000], [1.0], "float32"),
        ([2, 1], [1.0, 1.0], "float32"),
        ([1, 1], [1.0, 1.0], "float32"),
        ([0, 1], [1.0], "float32"),
        ([0], [1.0, 1.0], "float32"),
        ([0.5], [1.0], "float32"),
        ([[0]], [1.0], "float32"),
    ]
    answer = subprocess.run(
        [sys.executable, "-c", COLUMNS, json.dumps(cases)], capture_output=True, text=True, check=False
    )
    assert answer.stdout == ""
    assert answer.returncode == 0, answer.stderr[-500:]


def test_another_precision_is_read_as_such() -> None:
    """A decision whose values came back in float64 or float16 is learnt like the one that was made, in either space."""
    program = COLUMNS.replace('print(space, columns, values, dtype, "was accepted", flush=True)', "pass")
    cases = [([0, 3], [1.0, 1.0], dtype) for dtype in ("float64", "float16", "float32")]
    answer = subprocess.run(
        [sys.executable, "-c", program, json.dumps(cases)], capture_output=True, text=True, check=False
    )
    assert answer.stdout == ""
    assert answer.returncode == 0, answer.stderr[-500:]


@pytest.mark.parametrize("label", ["maybe", "YES", 0, 1])
@pytest.mark.parametrize("field", ["label", "greedy"])
def test_an_altered_label_must_be_a_class(field: str, label: Any) -> None:
    learner, decision = made("dense float32")
    text = altered(decision, **{field: label})
    assert repr(label) in unchanged_by(learner, lambda: learner.learn(Decision.from_json(text), right=True))


def test_an_altered_learner_or_learnt_id_is_refused() -> None:
    learner, decision = made("dense float32")
    text = altered(decision, learner="0" * 32)
    assert "another learner" in unchanged_by(learner, lambda: learner.learn(Decision.from_json(text), right=True))
    learnt = altered(decision, id=0)
    assert "already" in unchanged_by(learner, lambda: learner.learn(Decision.from_json(learnt), right=True))


def test_a_weight_that_makes_the_step_infinite_leaves_the_weights_finite() -> None:
    """1/P of a weight near 0 is beyond any float: refused, or at the least not written into the weights."""
    for rule in ("banditron", "epabf", "pab"):
        learner, decision = made("dense float32", rule)
        assert decision.label == decision.greedy or rule
        learns_or_refuses(learner, altered(decision, weight=5e-324))
        assert np.isfinite(learner.weights).all(), rule
        assert learner.decide(ROW).label in learner.classes


def test_a_decision_of_a_learner_with_more_classes_is_refused_by_one_with_fewer() -> None:
    learner = Learner("bpa", 2, features=1, space="dense", exploration=0.0, variant="PA")
    fewer = learner.clone()
    for _ in range(4):
        learner.learn(learner.decide([1.0]), right=False)
    learner.add_class("new")
    decision = learner.decide([1.0])
    assert decision.label == "new"
    assert "'new'" in unchanged_by(fewer, lambda: fewer.learn(decision, right=True))
