"""Why a class: parts that sum up to its lead, by the names that x itself has."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pytest

import onebit
from onebit.checks.examples import play, refused, rows
from onebit.contract.belief import class_contrast, evaluate_contrast
from onebit.contract.exploration import decide_greedy, greedy_probabilities
from onebit.features.named import hash_name
from onebit.learner.inspection import Explanation
from onebit.learner.learner import Learner
from onebit.rules import registry
from onebit.rules.offset_tree import leaf_of
from tests.slow import tier_of

CLASSES = ["ant", "bee", "cat", "dog", "eel"]
X, Y = rows(60, seed=2)
WIDTH = X.shape[1]
LINEAR = [name for name, rule in registry().items() if not rule.composite and name != "offset-tree"]
SECOND = [name for name in LINEAR if registry()[name].second_order is not None]


def trained(name: str, *, sparse: bool = False, **options: Any) -> Learner:
    given = {**registry()[name].examples[0], **options}
    learner = Learner(name, classes=CLASSES, features=WIDTH, space="sparse" if sparse else "dense", **given)
    play(learner, X, Y)
    return learner


def assert_adds_up(found: Explanation, lead: float, near: float = 1e-4) -> None:
    parts = sum(part.contribution for part in found.parts)
    assert parts + found.rest + found.constant == pytest.approx(found.lead)
    assert {type(one) for one in (found.lead, found.constant, found.rest, *(part.value for part in found.parts))} == {
        float
    }
    assert found.lead == pytest.approx(lead, rel=near, abs=near)


def assert_is_difference(learner: Learner, x: Any) -> None:
    """With one head a class: of any label, over the best of the others."""
    scores = dict(zip(learner.classes, learner.scores(x).tolist(), strict=True))
    assert learner.explain(x).label == learner.best(x)
    for label in learner.classes:
        found = learner.explain(x, label=label, top=3)
        others = {name: score for name, score in scores.items() if name != label}
        assert others[found.rival] == max(others.values())
        assert_adds_up(found, scores[label] - scores[found.rival])


@pytest.mark.parametrize(
    ("name", "sparse"),
    [
        *(pytest.param(name, False, id=f"{name}-dense") for name in LINEAR),
        *(pytest.param(name, True, id=f"{name}-sparse", marks=tier_of(name)) for name in LINEAR),
    ],
)
def test_the_parts_sum_up_to_the_difference_of_scores(name: str, sparse: bool) -> None:
    matrix = {"matrix": "diagonal"} if name in SECOND else {}
    learner = trained(name, sparse=sparse, bias=name != "bandit-perceptron", **matrix)
    for x in X[:3]:
        assert_is_difference(learner, x)
    assert_is_difference(learner, np.zeros(WIDTH))


@pytest.mark.parametrize("name", [name for name in SECOND if name != "confidit"])
def test_the_parts_sum_up_with_full_matrices(name: str) -> None:
    learner = trained(name, matrix="full", bias=True)
    assert_is_difference(learner, X[0])


def test_all_pairs_are_explained_by_the_learner_of_the_pair() -> None:
    learner = trained("conservative-ova", coding="all-pairs", aggressiveness=0.1)
    for x in X[:5]:
        scores, found = learner.scores(x), learner.explain(x)
        one, other = sorted((CLASSES.index(str(found.label)), CLASSES.index(str(found.rival))))
        pair = scores[other * (other - 1) // 2 + one]
        assert_adds_up(found, pair if CLASSES[one] == found.label else -pair)


def test_a_tree_is_explained_by_the_node_where_the_ways_part() -> None:
    learner = trained("offset-tree", aggressiveness=1.0)
    for x in X[:10]:
        scores, found = learner.scores(x), learner.explain(x)
        above: list[list[int]] = []
        for name in (found.label, found.rival):
            node = leaf_of(CLASSES.index(str(name)), len(CLASSES))
            above.append([node])
            while node > 0:
                node = (node - 1) // 2
                above[-1].append(node)
        parting = next(node for node in above[0] if node in above[1])
        assert found.lead >= 0.0
        assert_adds_up(found, abs(scores[parting]))
        # No node on the way was closer, and the rival wins what is on the other side of it.
        assert abs(scores[parting]) == min(abs(scores[node]) for node in above[0][1:])
        node = above[1][above[1].index(parting) - 1]
        while node < len(CLASSES) - 1:
            node = 2 * node + (2 if scores[node] > 0.0 else 1)
        assert node == above[1][0]


# --- candidates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["auto", "bpa", "offset-tree"])
def test_only_classes_that_can_be_played_are_compared(name: str) -> None:
    learner = trained(name)
    for x in X[:5]:
        among = [one for one in CLASSES if one != learner.explain(x).rival]
        found = learner.explain(x, among=among)
        assert found.label == learner.best(x, among=among)
        assert found.rival in among
        gone = next(one for one in CLASSES if one != found.label)
        assert learner.explain(x, label=gone, among=[gone, found.label]).rival == found.label
    learner.remove_class("ant")
    for x in X[:5]:
        assert "ant" not in (learner.explain(x).label, learner.explain(x).rival)
        assert learner.explain(x, label="ant").label == "ant"  # never played again, but what is known of it stays


@pytest.mark.parametrize(
    ("among", "label", "sentence"),
    [
        ([], None, "must have at least one"),
        (["fly"], None, "there is no class"),
        ("ant", None, "must be a list of classes"),
        (["ant"], None, "only one candidate"),
        (["ant", "bee"], "cat", "the label is 'cat', but must be one of the candidates"),
    ],
)
def test_candidates_that_leave_nothing_to_compare_are_refused(among: Any, label: Any, sentence: str) -> None:
    assert sentence in refused(lambda: trained("bpa").explain(X[0], label=label, among=among))


# --- names ---------------------------------------------------------------------------------------------------------------


def test_columns_of_a_frame_are_called_by_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"height": [1.0, 0.0], "width": [0.0, 2.0]})
    learner = onebit.BPA(classes=["low", "high"], aggressiveness=1.0)
    for row in (0, 1):
        learner.learn(learner.decide(frame.iloc[row]), label=("high", "low")[row])
    assert {part.names for part in learner.explain(frame.iloc[0]).parts} <= {("height",), ("width",)}
    swapped = frame[["width", "height"]].iloc[0]
    assert learner.explain(swapped) == learner.explain(frame.iloc[0])
    assert learner.explain([3.0, 1.0]).parts[0].names[0] in ("height", "width")


@pytest.mark.parametrize("options", [{}, {"hash_bits": 18}], ids=["vocabulary", "hashed"])
@pytest.mark.parametrize("name", ["auto", "bpa", "linucb"])
def test_words_are_called_by_themselves(name: str, options: dict[str, Any]) -> None:
    learner = Learner(name, classes=["sport", "tech"], text=True, **options)
    for text, truth in [("late goal wins", "sport"), ("a new chip", "tech")] * 8:
        learner.learn(learner.decide(text), label=truth)
    found = learner.explain("The CHIP, the chip! A goal?", label="tech")
    said = {part.names: part.contribution for part in found.parts}
    assert set(said) == {("a",), ("chip",), ("goal",)}  # "the" was never learnt, and says nothing
    assert said["chip",] > 0.0 > said["goal",]
    learner.scores("The CHIP, the chip! A goal?")  # leaves all that there is of them in the buffer
    model, contrast = learner.runtime.model, learner.runtime.rule.contrast or class_contrast
    between = contrast(model.params, model.memory, 1, 0)
    assert between is not None
    assert_adds_up(found, evaluate_contrast(between, model.buffers[0]))


def test_names_that_share_a_column_speak_together_and_it_is_said() -> None:
    learner = onebit.BPA(classes=["no", "yes"], hash_bits=2)
    names = ["a", "b", "c", "d", "e"]
    learner.learn(learner.decide(dict.fromkeys(names, 1.0)), right=True)
    found = learner.explain({**dict.fromkeys(names, 1.0), "a": 3.0})
    shared: dict[int, list[str]] = {}
    for name in names:
        shared.setdefault(hash_name(name, 4), []).append(name)
    assert {part.names for part in found.parts} == {tuple(one) for one in shared.values()}
    (with_a,) = [part for part in found.parts if "a" in part.names]
    assert with_a.value == pytest.approx(len(with_a.names) + 2.0)
    together = next(part for part in found.parts if len(part.names) > 1)
    assert str(together) == f"{' + '.join(together.names)}, which share a column"  # type: ignore[arg-type]
    assert str(together) in str(found)


def test_columns_without_names_are_called_by_their_numbers() -> None:
    assert all(isinstance(part.names[0], int) for part in trained("bpa").explain(X[0]).parts)
    sparse = trained("bpa", sparse=True)
    x = np.zeros(WIDTH)
    x[[1, 4]] = 1.0
    assert {part.names for part in sparse.explain(x).parts} == {(1,), (4,)}


# --- the value -----------------------------------------------------------------------------------------------------------


def test_the_largest_parts_come_first_and_the_rest_is_summed() -> None:
    learner = trained("linucb")
    whole, cut = learner.explain(X[0], top=None), learner.explain(X[0], top=2)
    sizes = [abs(part.contribution) for part in whole.parts]
    assert sizes == sorted(sizes, reverse=True)
    assert (whole.left_out, whole.rest) == (0, 0.0)
    assert cut.parts == whole.parts[:2]
    assert cut.left_out == len(whole.parts) - 2
    assert cut.rest == pytest.approx(sum(part.contribution for part in whole.parts[2:]))


def test_an_explanation_in_words_in_plain_values_and_as_html() -> None:
    learner = onebit.BPA(classes=["<b>", "yes"])
    learner.learn(learner.decide({"<i>": 1.0, "b": 0.5, "c": 0.25}), label="yes")
    learner.learn(learner.decide({"<i>": 1.0, "b": 0.5, "c": 0.25}), label="yes")
    found = learner.explain({"<i>": 1.0, "b": 0.5, "c": 0.25}, label="yes", top=1)
    said = found.to_dict()
    assert json.loads(json.dumps(said)) == said
    assert said["parts"] == [{"names": ["<i>"], "value": 1.0, "contribution": found.parts[0].contribution}]
    lines = str(found).splitlines()
    assert lines[0].startswith("'yes' rather than '<b>': ahead by ")
    assert lines[1].endswith("  <i>")
    assert lines[2].endswith("  2 more features")
    page = found._repr_html_()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert "&lt;b&gt;" in page
    assert str(learner.explain({"<i>": 1.0, "b": 0.5, "c": 0.25}, label="<b>")).startswith(
        "'<b>' rather than 'yes': behind by "
    )


def test_where_nothing_is_known_nothing_speaks() -> None:
    learner = onebit.BPA(classes=["a", "b"], text=True)
    for text in ("", "never heard of"):
        found = learner.explain(text)
        assert (found.lead, found.parts, found.constant, found.rest, found.left_out) == (0.0, (), 0.0, 0.0, 0)
        assert str(found).endswith("even; nothing in x speaks for either")


def test_to_explain_changes_nothing() -> None:
    for learner in (trained("auto"), trained("auto", sparse=True), trained("bpa")):
        before, number = learner.to_bytes(), learner.runtime.ledger.next_id
        learner.explain(X[0])
        assert (learner.to_bytes(), learner.runtime.ledger.next_id) == (before, number)
    texts = onebit.Auto(classes=2, text=True)
    texts.learn(texts.decide("some words"), right=True)
    before = texts.to_bytes()
    texts.explain("other words, of which nothing is kept")
    assert texts.to_bytes() == before


# --- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [0, -1, True, 1.5, "3", float("nan"), [1]])
def test_a_number_of_parts_that_is_none_is_refused(top: Any) -> None:
    assert refused(lambda: trained("bpa").explain(X[0], top=top)).startswith("top is ")


@pytest.mark.parametrize("label", ["fly", 0, True, 2.5, ["ant"]])
def test_a_class_that_is_none_is_refused(label: Any) -> None:
    assert "there is no class" in refused(lambda: trained("bpa").explain(X[0], label=label))


@pytest.mark.parametrize("x", [[float("nan")] * WIDTH, [1.0], {"a": 1.0}, "text", None, [["a"] * WIDTH]])
def test_an_x_that_cannot_be_read_is_refused_and_changes_nothing(x: Any) -> None:
    learner = trained("auto")
    before = learner.to_bytes()
    refused(lambda: learner.explain(x))
    refused(lambda: learner.beliefs(x))
    assert learner.to_bytes() == before


def test_where_no_feature_has_a_weight_it_is_refused() -> None:
    assert "has a kernel" in refused(lambda: trained("banditron", kernel="rbf:0.5").explain(X[0]))
    codes = (np.eye(5) * 2.0 - 1.0).tolist()
    learner = Learner("conservative-ova", classes=CLASSES, coding=codes)
    before = learner.features
    assert "does not choose a class by a weighted sum of scores" in refused(lambda: learner.explain(X[0]))
    assert learner.features == before


class TwoHeads(NamedTuple):
    """A rule of one's own with other heads than one a class, which says nothing of what they mean."""

    classes: int


def no_step(params: TwoHeads, given: Any, choice: Any, revealed: int, step: Any) -> float:
    step[:] = 0.0
    return 1.0


def test_a_rule_with_other_heads_that_says_nothing_of_them_is_refused() -> None:
    rule = onebit.Rule(
        "two-heads", "none", "none", TwoHeads, decide_greedy, no_step, greedy_probabilities, heads=lambda params: 7
    )
    assert "does not choose a class by a weighted sum of scores" in refused(
        lambda: Learner(rule, classes=5).explain(X[0])
    )


# --- beliefs ---------------------------------------------------------------------------------------------------------------


def test_beliefs_are_by_class_and_refused_where_there_are_none() -> None:
    learner = trained("auto")
    found = learner.beliefs(X[0])
    assert tuple(found) == learner.classes
    assert sum(found.values()) == pytest.approx(1.0)
    assert max(found, key=lambda name: found[name]) == learner.best(X[0])
    assert "has scores but no beliefs" in refused(lambda: trained("bpa").beliefs(X[0]))
