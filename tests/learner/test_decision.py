"""A decision as a value: it survives any journey as JSON, and nothing that was altered on the way can hurt a learner."""

from __future__ import annotations

import copy
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from onebit.checks.examples import refused, state
from onebit.errors import InputError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner

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
    learner = Learner(rule, classes=["no", "yes", "perhaps"], **options, **more)
    learner.learn(learner.decide(x), right=True)
    return learner, learner.decide(x)


def altered(decision: Decision, **fields: Any) -> str:
    return json.dumps({**json.loads(decision.to_json()), **fields})


def assert_unchanged_by(learner: Learner, action: Callable[[], object]) -> str:
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
    here, there = copy_learner(learner), copy_learner(learner)
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


# --- its fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_probabilities_are_those_of_the_classes_that_could_be_played_also_in_copies(form: str) -> None:
    learner, decision = made(form)
    chances = {name: chance for name, chance in learner.probabilities(FORMS[form][1]).items() if chance > 0.0}
    place = Decision._fields.index("probabilities")
    assert type(decision.probabilities) is dict
    assert decision.probabilities == decision[place] == decision._asdict()["probabilities"] == chances
    assert f"probabilities={chances!r}, raw=" in repr(decision)
    assert json.dumps(decision.probabilities) == json.dumps(chances)
    assert decision._replace(weight=0.5).probabilities == chances
    for back in (
        copy.copy(decision),
        copy.deepcopy(decision),
        *(pickle.loads(pickle.dumps(decision, n)) for n in range(6)),
    ):
        assert type(back) is Decision
        assert back == decision
        assert back.probabilities == chances


@pytest.mark.parametrize("form", FORMS)
def test_notes_and_x_are_fields_like_any_other(form: str) -> None:
    decision = made(form)[1]
    for name in ("notes", "x"):
        place = Decision._fields.index(name)
        shown = repr(getattr(decision, name))
        assert repr(decision[place]) == repr(tuple(decision)[place]) == repr(decision._asdict()[name]) == shown
        assert f"{name}={shown}, " in repr(decision)
    assert [type(note) for note in decision.notes] == [float, float]


def test_notes_that_were_altered_to_what_has_no_hash_are_learnt_by_their_fields() -> None:
    learner, decision = made("dense float32")
    there = copy_learner(learner)
    learner.learn_many([decision._replace(notes=[0.0, 0.0])], [True])  # type: ignore[arg-type]
    there.learn(decision, right=True)
    assert state(learner) == state(there)


def test_a_decision_on_a_text_is_made_of_what_json_takes() -> None:
    decision = made("text")[1]
    assert json.loads(json.dumps(decision)) == json.loads(json.dumps(tuple(decision)))


@pytest.mark.parametrize(
    "answer", [{"right": True}, {"right": False}, {"reward": 0.25}, {"truth": "yes"}, {"label": "no"}]
)
@pytest.mark.parametrize(
    "asked", [{}, {"sure": 0.5}, {"among": ["no", "yes"]}, {"among": ["no", "yes"], "complete": True}], ids=str
)
@pytest.mark.parametrize("form", ["dense float32", "sparse float32", "names", "hashed text"])
def test_what_is_learnt_of_a_decision_is_what_is_learnt_of_its_fields(
    form: str, asked: dict[str, Any], answer: dict[str, Any]
) -> None:
    learner, x = made(form)[0], FORMS[form][1]
    decision = learner.decide(x, **asked)
    there = copy_learner(learner)
    learner.learn(decision, **answer)
    there.learn(Decision.from_json(decision.to_json()), **answer)
    assert state(learner) == state(there)
    many = [learner.decide(x, "a", **asked), learner.decide(-x if form == "dense float32" else x, "b", **asked)]
    answers = {name if name == "right" else f"{name}s": [value] * 2 for name, value in answer.items()}
    learner.learn_many(many, **answers)
    there.learn_many([Decision.from_json(one.to_json()) for one in many], **answers)
    assert state(learner) == state(there)


def test_a_decision_that_was_altered_is_learnt_by_its_fields() -> None:
    learner, decision = made("dense float32", "bpa")
    other = learner.decide(-np.asarray(decision.x), decision.id)
    there, as_it_was = copy_learner(learner), copy_learner(learner)
    changed = decision._replace(x=other.x, label="perhaps", greedy="perhaps", weight=0.5)
    learner.learn(changed, right=True)
    there.learn(Decision.from_json(changed.to_json()), right=True)
    as_it_was.learn(decision, right=True)
    assert state(learner) == state(there) != state(as_it_was)


def test_a_decision_is_learnt_after_a_class_came_and_not_by_a_copy_that_has_another_in_its_place() -> None:
    learner = Learner("banditron", classes=["no", "yes"])
    before = learner.decide(ROW)
    there = copy_learner(learner)
    learner.add_class("more")
    there.add_class("less")
    new = next(one for one in (learner.decide(ROW, number) for number in range(1, 1000)) if one.label == "more")
    assert "there is no class 'more'" in assert_unchanged_by(there, lambda: there.learn(new, right=True))
    learner.learn(before, right=True)
    learner.learn(new, right=False)
    assert learner.learnt == 2


def test_an_x_whose_shape_was_altered_is_refused() -> None:
    learner, decision = made("dense float32")
    decision.x.shape = (2, 2)  # type: ignore[union-attr]
    assert "x has shape (2, 2)" in assert_unchanged_by(learner, lambda: learner.learn(decision, right=True))


# As version 1.0 writes them, to the letter; `PROBABILITIES` ends each of them.
WRITTEN = {
    "dense float32": '{"id": 0, "label": "no", "propensity": 0.3333333333333333, "greedy": "no", "weight": 0.9666666666666667, '
    '"notes": [0.0, 0.0], "x": {"values": [0.5, 0.0, -1.0, 0.10000000149011612], "dtype": "float32"}, "version": 0, '
    '"learner": "afc063140d7542568e3cd6f4ff3852ea"',
    "sparse float32": '{"id": 0, "label": "no", "propensity": 0.3333333333333333, "greedy": "no", "weight": 0.9666666666666667, '
    '"notes": [0.0, 0.0], "x": {"size": 4, "columns": [0, 2, 3], "values": [0.5, -1.0, 0.10000000149011612], '
    '"dtype": "float32"}, "version": 0, "learner": "ab2b36e5126e45b4a0b1d40eb5c73f9e"',
    "hashed names": '{"id": 0, "label": "no", "propensity": 0.3333333333333333, "greedy": "no", "weight": 0.9666666666666667, '
    '"notes": [0.0, 0.0], "x": {"names": {"weight": 0.3333333333333333, "gr\\u00f6\\u00dfe": 2.0}}, "version": 0, '
    '"learner": "64c3b5e9c0564a3580c370fecb7a9ca1"',
    "hashed text": '{"id": 0, "label": "no", "propensity": 0.3333333333333333, "greedy": "no", "weight": 0.9666666666666667, '
    '"notes": [0.0, 0.0], "x": {"text": "one two"}, "version": 0, "learner": "d3bacb5fc53a4a91b746e7b08acf2d9a"',
}
PROBABILITIES = ', "probabilities": [["no", 0.3333333333333333], ["yes", 0.3333333333333333], ["perhaps", 0.3333333333333333]], "raw": 0.0}'


@pytest.mark.parametrize("form", WRITTEN)
def test_a_decision_is_written_and_learnt_as_ever(form: str) -> None:
    text = WRITTEN[form] + PROBABILITIES
    read = Decision.from_json(text)
    assert read.to_json() == text
    options, x = FORMS[form]
    learner, other = (Learner("banditron", classes=["no", "yes", "perhaps"], **options) for _ in range(2))
    for one in (learner, other):
        one.runtime.identity = read.learner
    assert learner.decide(x) == read
    other.decide(x)
    learner.learn(read, right=True)
    other.learn(other.decide(x, id=0), right=True)
    assert state(learner) == state(other)


def test_class_names_and_ids_keep_their_kind() -> None:
    learner = Learner("bpa", classes=[1, "1", "ü"])
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
        assert decision != decision._replace(**change), change
    assert decision != 5


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


@pytest.mark.parametrize("name", [name for name in Decision._fields if name not in Decision._field_defaults])
def test_a_missing_field_is_named(name: str) -> None:
    fields = json.loads(made("dense float32")[1].to_json())
    del fields[name]
    assert repr(name) in refused(lambda: Decision.from_json(json.dumps(fields)))


def test_an_unknown_field_is_named() -> None:
    _, decision = made("dense float32")
    assert "'reward'" in refused(lambda: Decision.from_json(altered(decision, reward=1.0)))


NUMBERS: list[Any] = [None, "0.5", True, [0.5], {}, math.nan, math.inf, -math.inf, 10**400, -(10**400)]


FIELDS: dict[str, list[Any]] = {
    "propensity": [*NUMBERS, 0, -0.5, 1.1],
    "weight": [*NUMBERS, 0, -0.5, 1.1],
    "notes": [None, 5, [], [1.0], [1.0, 2.0, 3.0], "ab", {"0": 1}, [1.0, None], *([value, 0.0] for value in NUMBERS)],
    "id": [None, True, 1.0, -1, 2**63, "", [], {}],
    "version": [None, True, 1.0, "1", -1, []],
    "learner": [None, 5, [], {}],
    "label": [None, True, 1.5, [], {}, math.nan],
    "greedy": [None, True, 1.5, [], {}, math.nan],
    "among": [None, 5, "no", [], {}, ["no", "no"], [None], [True], [1.5], [["no"]], [math.nan]],
    "complete": [None, 0, 1, "true", [], {}],
    "probabilities": [
        None,
        5,
        "no",
        {},
        {"no": 1.0},
        [5],
        [["no"]],
        [["no", 0.5, 1]],
        [[None, 0.5]],
        [["no", 0.0]],
        *([["no", value]] for value in NUMBERS),
        [["no", 1.1]],
    ],
    "x": [
        *(None, 5, [], [1.0], "text", {}, {"text": 5}, {"text": None}, {"names": 5}),
        *({"names": {"a": value}} for value in NUMBERS if value is not True),
        *({"values": [value], "dtype": "float32"} for value in NUMBERS if value is not True),
        {"values": 5, "dtype": "float32"},
        {"values": [1e300], "dtype": "float32"},
        {"values": [1e300], "columns": [0], "size": 4, "dtype": "float32"},
        {"values": [[1.0]], "dtype": "float32"},
        {"values": [1.0, [2.0]], "dtype": "float32"},
        {"values": [1.0]},
        {"dtype": "float32"},
        {"values": [1.0], "dtype": "float3"},
        {"values": [1.0], "dtype": "int32"},
        {"values": [1.0], "dtype": "O"},
        {"values": [1.0], "dtype": None},
        {"values": [1.0], "dtype": 7},
        {"values": [1.0], "dtype": "float32", "size": 4},
        {"values": [1.0], "dtype": "float32", "columns": [0]},
        {"values": [1.0], "dtype": "float32", "size": "four", "columns": [0]},
        {"values": [1.0], "dtype": "float32", "size": 4, "columns": 0},
        {"values": [1.0], "dtype": "float32", "size": 4, "columns": [0, 1]},
        {"values": [1.0], "dtype": "float32", "size": 4, "columns": [[0]]},
        {"values": [1.0], "dtype": "float32", "size": 4, "columns": [0.5]},
        {"values": [1.0], "dtype": "float32", "size": 4, "columns": [2**40]},
        {"values": [1.0], "dtype": "float32", "size": -4, "columns": [0]},
    ],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in FIELDS.items() for value in values],
    ids=lambda value: repr(value)[:40],
)
def test_a_field_of_the_wrong_kind_is_refused_by_its_name(name: str, value: Any) -> None:
    """Refused while reading, not at some later time by whatever stumbles over it."""
    _, decision = made("dense float32")
    sentence = refused(lambda: Decision.from_json(altered(decision, **{name: value})))
    assert name in sentence


def test_candidates_come_back_from_json_and_are_learnt_as_they_were() -> None:
    learner, _ = made("dense float32")
    decision = learner.decide(ROW, among=["yes", "no"], complete=True)
    back = Decision.from_json(decision.to_json())
    assert (back.among, back.complete) == (("no", "yes"), True)
    assert back == decision
    for change in ({"among": ("no", "perhaps")}, {"among": None}, {"complete": False}, {"probabilities": {"no": 1.0}}):
        assert decision != decision._replace(**change), change
    here, there = copy_learner(learner), copy_learner(learner)
    here.learn(decision, truth="yes")
    there.learn(back, truth="yes")
    assert state(here) == state(there)


def test_candidates_that_were_altered_are_learnt_or_refused_with_nothing_changed() -> None:
    """Of another learner's classes, without the label, or in another order, which is the same."""
    learner, _ = made("dense float32")
    decision = learner.decide(ROW, among=["yes", "no"])
    others = [name for name in ("no", "yes", "perhaps") if name != decision.label]
    for among in (others, ["yak"], [*decision.among, "yak"], [2], [0, 1]):  # type: ignore[misc]
        text = altered(decision, among=among)
        assert assert_unchanged_by(learner, lambda text=text: learner.learn(Decision.from_json(text), right=True))  # type: ignore[misc]
        assert assert_unchanged_by(learner, lambda text=text: learner.learn_many([Decision.from_json(text)], [True]))  # type: ignore[misc]
    turned, plain = copy_learner(learner), copy_learner(learner)
    turned.learn(Decision.from_json(altered(decision, among=["yes", "no"])), right=False)
    plain.learn(decision, right=False)
    assert state(turned) == state(plain)


# --- what was altered on the way ---------------------------------------------------------------------------------------


def learns_or_refuses(learner: Learner, text: str) -> bool:
    """Whether it was learnt; if not, nothing may have moved. Either way the learner must still work."""
    before = state(learner)
    try:
        learner.learn(Decision.from_json(text), right=True)
    except ValueError as error:
        assert isinstance(error, InputError), error  # noqa: PT017
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
            learn = partial(lambda text: learner.learn(Decision.from_json(text), right=True), altered(decision, x=x))
            sentence = assert_unchanged_by(learner, learn)
            assert str(length) in sentence
            assert "4" in sentence
    learner.learn(decision, right=True)


def test_an_x_that_is_no_number_is_refused_and_nothing_changes() -> None:
    learner, decision = made("dense float32")
    for bad in (math.nan, math.inf, 1e300):
        with np.errstate(over="ignore"):
            spoilt = decision._replace(x=np.array([0.5, bad, 0.0, 0.0], dtype=np.float32))
        assert "1" in assert_unchanged_by(learner, lambda spoilt=spoilt: learner.learn(spoilt, right=True))  # type: ignore[misc]
    named, decision = made("names")
    for bad in (math.nan, math.inf):
        spoilt = decision._replace(x={"a": bad})
        assert "'a'" in assert_unchanged_by(named, lambda spoilt=spoilt: named.learn(spoilt, right=True))  # type: ignore[misc]


ALTERED = """
import json, sys
import numpy as np
from onebit.checks.examples import state
from onebit.learner.decision import Decision
from onebit.errors import InputError
from onebit.learner.learner import Learner, copy_learner

for options, first, altered in json.loads(sys.argv[1]):
    for x in altered:
        learner = Learner("bpa", classes=3, **options)
        learner.learn(learner.decide(first), right=True)
        fields = json.loads(learner.decide(first).to_json())
        fields["x"] = x
        before = state(learner)
        try:
            learner.learn(Decision.from_json(json.dumps(fields)), right=True)
            answer = "accepted" if np.isfinite(learner.weights).all() else "accepted, weights spoilt"
        except Exception as error:
            answer = "refused" if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            answer += "" if state(learner) == before else ", learner changed"
        print(answer, flush=True)
"""


def learnt_elsewhere(cases: list[tuple[dict[str, Any], Any, list[dict[str, Any]]]]) -> list[str]:
    """What becomes of decisions whose x was altered (options of a learner, x of its decision, what stands in for it).

    In a process of its own: some of it may crash.
    """
    command = [sys.executable, "-c", ALTERED, json.dumps(cases)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    said = answer.stdout.splitlines()
    if answer.returncode != 0:
        count = sum(len(altered_x) for _, _, altered_x in cases)
        said += [f"crashed with {answer.returncode}: {answer.stderr[-300:]}"] * (count - len(said))
    return said


def test_altered_columns_never_reach_the_compiled_code() -> None:
    """Columns outside the weights are reads and writes outside the weights."""
    cases: list[tuple[list[Any], list[float]]] = [
        ([-1], [1.0]),
        ([4], [1.0]),
        ([1000], [1.0]),
        ([2, 1], [1.0, 1.0]),
        ([1, 1], [1.0, 1.0]),
        ([0, 1], [1.0]),
        ([0], [1.0, 1.0]),
        ([0.5], [1.0]),
        ([[0]], [1.0]),
    ]
    altered_x = [{"size": 4, "columns": columns, "values": values, "dtype": "float32"} for columns, values in cases]
    spaces = ("dense", "sparse")
    said = learnt_elsewhere([({"features": 4, "space": space}, [1.0, 0.0, 0.0, 1.0], altered_x) for space in spaces])
    expected = [f"{space}, {case}: refused" for space in spaces for case in cases]
    assert [f"{what.partition(': ')[0]}: {one}" for what, one in zip(expected, said, strict=True)] == expected


def test_an_x_of_another_form_is_refused_or_means_the_same() -> None:
    """Whatever stands in for x is learnt as if it had been decided on, or refused; another precision may be either."""
    learners: list[tuple[dict[str, Any], Any, set[str]]] = [
        ({"features": 4, "space": "dense"}, [1.0, 0.0, 0.0, 1.0], {"values"}),
        ({"features": 4, "space": "sparse"}, [1.0, 0.0, 0.0, 1.0], {"values"}),
        ({}, {"weight": 1.0}, {"names"}),
        ({"hash_bits": 2}, {"weight": 1.0}, {"names"}),
        ({"text": True}, "one two", {"names", "text"}),
    ]
    numbers: list[dict[str, Any]] = [
        {"values": [0.5, 0.0, -1.0, 0.1]},
        {"values": [0.5, -1.0], "columns": [0, 2], "size": 4},
    ]
    altered_x: list[dict[str, Any]] = [
        {"text": "one two"},
        {"names": {"weight": 2.0}},
        *({**x, "dtype": dtype} for dtype in ("float32", "float64", "float16") for x in numbers),
    ]
    said = learnt_elsewhere([(options, first, altered_x) for options, first, _ in learners])
    cases = [(options, accepted, x) for options, _, accepted in learners for x in altered_x]
    for (options, accepted, x), answer in zip(cases, said, strict=True):
        possible = {"accepted"} if accepted & set(x) else {"refused"}
        if x.get("dtype") in ("float64", "float16"):
            possible.add("refused")
        assert answer in possible, (options, x)


@pytest.mark.parametrize("label", ["maybe", "YES", 0, 1])
@pytest.mark.parametrize("field", ["label", "greedy"])
def test_an_altered_label_must_be_a_class(field: str, label: Any) -> None:
    learner, decision = made("dense float32")
    text = altered(decision, **{field: label})
    assert repr(label) in assert_unchanged_by(learner, lambda: learner.learn(Decision.from_json(text), right=True))


def test_an_altered_learner_or_learnt_id_is_refused() -> None:
    learner, decision = made("dense float32")
    text = altered(decision, learner="0" * 32)
    assert "another learner" in assert_unchanged_by(
        learner, lambda: learner.learn(Decision.from_json(text), right=True)
    )
    learnt = altered(decision, id=0)
    assert "already" in assert_unchanged_by(learner, lambda: learner.learn(Decision.from_json(learnt), right=True))


def test_a_weight_that_makes_the_step_infinite_leaves_the_weights_finite() -> None:
    """1/P of a weight near 0 is beyond any float: refused, or at the least not written into the weights."""
    for rule in ("banditron", "epabf", "pab"):
        learner, decision = made("dense float32", rule)
        learns_or_refuses(learner, altered(decision, weight=5e-324))
        assert np.isfinite(learner.weights).all(), rule
        assert learner.decide(ROW).label in learner.classes


def test_a_decision_of_a_learner_with_more_classes_is_refused_by_one_with_fewer() -> None:
    learner = Learner("bpa", classes=2, features=1, space="dense", exploration=0.0, variant="PA")
    fewer = copy_learner(learner)
    for _ in range(4):
        learner.learn(learner.decide([1.0]), right=False)
    learner.add_class("new")
    decision = learner.decide([1.0])
    assert decision.label == "new"
    assert "'new'" in assert_unchanged_by(fewer, lambda: fewer.learn(decision, right=True))


@pytest.mark.parametrize("note", [1e308, -1e308])
def test_a_note_out_of_all_proportion_leaves_the_weights_finite(note: float) -> None:
    learner = Learner("newtron", classes=3)
    for number in range(4):
        decision = learner.decide([0.5, -0.25])
        altered = json.loads(decision.to_json()) | {"notes": [note, 0.0], "weight": 1e-9}
        learner.learn(Decision.from_json(json.dumps(altered)), right=number % 2 == 0)
    assert np.isfinite(learner.weights).all()


@pytest.mark.parametrize(
    "change", [{"notes": (math.nan, 0.0)}, {"notes": (0.0, math.inf)}, {"notes": 3}, {"weight": "x"}]
)
def test_notes_and_weights_that_are_no_numbers_are_refused(change: dict[str, Any]) -> None:
    learner = Learner("newtron", classes=3)
    learner.learn(learner.decide([0.5, -0.25]), right=True)
    before, decision = state(learner), learner.decide([0.5, -0.25], id="altered")
    refused(lambda: learner.learn(decision._replace(**change), right=True))
    refused(lambda: learner.learn_many([decision._replace(**change)], [True]))
    assert state(learner) == before


@pytest.mark.parametrize(
    ("column", "value"), [(0, 3.0), (1, math.nan), (2, 0.0), (2, math.nan), (3, math.inf), (4, math.nan)]
)
def test_choices_that_nobody_made_are_refused(column: int, value: float) -> None:
    learner = Learner("newtron", classes=3)
    rows = np.array([[0.5, -0.25], [0.25, 0.5]])
    choices = learner.runtime.decide_rows(rows, ["a", "b"])
    before = state(learner)
    choices[1, column] = value
    refused(lambda: learner.runtime.learn_rows(rows, ["a", "b"], choices, [True, False]))
    assert state(learner) == before


@pytest.mark.parametrize("ids", [np.arange(3), np.array([5, 7, 9]), np.array(["a", "b", "c"])], ids=str)
def test_rows_are_learnt_with_ids_in_an_array(ids: Any) -> None:
    rows, one, other = np.eye(3), Learner("banditron", classes=2), Learner("banditron", classes=2)
    for learner, given in ((one, ids), (other, ids.tolist())):
        choices = learner.runtime.decide_rows(rows, given)
        learner.runtime.learn_rows(rows, given, choices, [True, False, True])
    assert one.learnt == other.learnt == 3
    np.testing.assert_array_equal(one.weights, other.weights)
