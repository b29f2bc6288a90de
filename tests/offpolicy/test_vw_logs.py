"""Vowpal Wabbit's logs: what is read is what VW itself reads, and what onebit cannot take is refused with its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.offpolicy import evaluate, read_log, train
from tests.data.test_vw_text import hashed

CB = [
    "1:0:0.5 | a b",
    "2:1:0.25 'id |user x:2",
    "",
    "| nobody answered",
    "3:1:0.25 |user y |:2 z",
]


def event(context: dict[str, Any], action: int = 1, cost: float = -1.0, **more: Any) -> str:
    chances = [0.8, 0.2]
    found = {
        "_label_cost": cost,
        "_label_probability": chances[action - 1],
        "_label_Action": action,
        "_labelIndex": action - 1,
        "o": [{"v": -cost, "EventId": "e"}],
        "EventId": "e",
        "a": [action, 3 - action],
        "c": {**context, "_multi": [{}, {}]},
        "p": [chances[action - 1], chances[2 - action]],
        "VWState": {"m": "N/A"},
    }
    return json.dumps({**found, **more})


def written(folder: Path, name: str, lines: list[str]) -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.long
def test_a_text_log_is_what_vw_reads(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "log.vw", CB))
    assert (log.classes, len(log), log.unanswered) == ((1, 2, 3), 3, 1)
    rounds = list(log)
    assert [(one.id, one.label, one.right, one.propensity) for one in rounds] == [
        (1, 1, True, 0.5),
        (2, 2, False, 0.25),
        (5, 3, False, 0.25),
    ]
    assert rounds[1].x == {"user^x": 2.0}
    vw = pytest.importorskip("vowpalwabbit").Workspace("--cb 3 --quiet --noconstant")
    lines = [line for line in CB if line and not line.startswith("|")]
    for one, line in zip(rounds, lines, strict=True):
        theirs = vw.parse(line)
        assert theirs.get_cbandits_num_costs() == 1
        assert theirs.get_cbandits_class(0) == one.label
        assert theirs.get_cbandits_cost(0) == (0.0 if one.right else 1.0)
        assert theirs.get_cbandits_probability(0) == one.propensity
    vw.finish()


CONTEXTS: list[dict[str, Any]] = [
    {"GUser": {"id": "a", "age": 2.5, "new": True, "old": False, "none": None}},
    {"a": 1, "b": "x y", "c": "p:q|r"},
    {"v": [1, 0, 2.5]},
    {"N": {"v": [1, 2], "M": {"a": 1, "12": 3}}},
    {"N": [{"a": 1}, {"b": 2, "a": 3}]},
    {"N": {"_text": "hello world x"}, "_text": "hi there"},
    {"N": {"1": "2", "x": "1", "e": ""}, "_tag": "t", "_hidden": {"a": 1}},
    {},
]


@pytest.mark.long
@pytest.mark.parametrize("context", CONTEXTS, ids=str)
def test_the_context_of_an_event_is_what_vw_reads(context: dict[str, Any], tmp_path: Path) -> None:
    line = event(context)
    (ours,) = read_log(written(tmp_path, "log.dsjson", [line]), costs=(-1, 0))
    vw = pytest.importorskip("vowpalwabbit").Workspace("--dsjson --cb_explore_adf --quiet --noconstant")
    shared, first, *_ = vw.parse(line)
    found: Counter[int] = Counter()
    for place, value in shared.iter_features():
        found[place & (2**18 - 1)] += value
    assert dict(found) == pytest.approx({hashed(name): value for name, value in ours.x.items()})
    assert (ours.label, ours.right, ours.propensity) == (1, True, 0.8)
    assert list(ours.probabilities or ()) == [0.8, 0.2]
    assert first.get_cbandits_cost(0) == -1.0
    assert first.get_cbandits_probability(0) == pytest.approx(ours.propensity)
    vw.finish()


def test_what_is_no_decision_or_has_no_answer(tmp_path: Path) -> None:
    unanswered = json.loads(event({"a": 1}))
    del unanswered["_label_cost"]
    lines = [
        event({"a": 1}, cost=0.0),
        json.dumps({"EventId": "late", "RewardValue": 1.0}),
        json.dumps(unanswered),
        event({"a": 1}, action=2, _skipLearn=True),
        event({"a": 1}, action=2),
    ]
    log = read_log(written(tmp_path, "log.dsjson", lines), costs=(-1, 0))
    assert (len(log), log.unanswered, log.classes) == (2, 2, (1, 2))
    assert [(one.label, one.right, list(one.probabilities or ())) for one in log] == [
        (1, False, [0.8, 0.2]),
        (2, True, [0.8, 0.2]),
    ]


def test_actions_that_were_never_shown_are_known_where_the_log_names_them(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "log.vw", ["1 2:0:0.5 3 | a", "2:1:0.5 3 1 | b"]))
    assert log.classes == (1, 2, 3)
    assert read_log(written(tmp_path, "one.vw", ["2:0:0.5 | a"]), classes=[1, 2]).classes == (1, 2)


BAD = {
    "1:-1:0.5 | a": "the cost is -1, .* say what they cost",
    "1:2:0.5 | a": "the cost is 2, .* say what they cost",
    "1:0 | a": "must be one action:cost:probability",
    "1:0:0.5 2:1:0.5 | a": "must be one action:cost:probability",
    "3 | a": "has no action:cost:probability",
    "a:0:0.5 | a": "the action is 'a'",
    "0:0:0.5 | a": "features of their own",
    "shared | a": "features of their own",
    "1:0:0.5 a": "no |",
}


@pytest.mark.parametrize("line", BAD)
def test_what_a_text_log_cannot_be(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, "log.vw", ["1:0:0.5 | a", "2:1:0.5 | b", line])
    with pytest.raises(onebit.InputError, match="line 3 .*" + BAD[line].replace("|", r"\|")):
        read_log(path)


BAD_EVENTS = {
    event({"a": 1}, cost=3): "say what they cost",
    event({"a": 1}).replace('"_multi": [{}, {}]', '"_multi": [{"b": 1}, {}]'): "features of their own",
    event({"a": 1}, a=[1, 2, 3], p=[0.5, 0.25, 0.25]): "_multi has 2",
    event({"a": 1}, a=[1, 5]): "ids of all actions",
    event({"a": 1}, p=[1.0]): "same length",
    event({"a": 1}, _label_Action=0): "_label_Action is 0",
    event({"a": 1}, _label_Action=3): "there are 2 actions",
    event({"a": 1}, _label_cost="free"): "_label_cost is 'free'",
    event({"a": 1}, _outcomes=[]): "several slots",
    event({"a": 1}, _label_ca={}): "points of a line",
    event({"a": 1}, pdrop=0.5): "pdrop is 0.5",
    event({"a": 1}, c=[]): "no context",
    event({"a": ["x"]}): "the list 'a'",
    event({"a": 1}, c={"_multi": 5}): "_multi is 5",
    event({"a": 1}, _label_cost=10**400): "the cost is inf",
    "[" * 200_000: "nested too deeply",
    event({"a": json.loads('{"b":' * 60 + "1" + "}" * 60)}): "nested too deeply",
    "[1]": "must be a JSON object",
    "{": "no JSON",
}


@pytest.mark.parametrize("line", BAD_EVENTS)
def test_what_an_event_cannot_be(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, "log.dsjson", [event({"a": 1}), event({"a": 1}, action=2), line])
    with pytest.raises(onebit.InputError, match=f"line 3 .*{BAD_EVENTS[line]}"):
        list(read_log(path, costs=(-1, 0)))


@pytest.mark.parametrize("line", BAD_EVENTS)
def test_the_first_event_cannot_be_it_either(line: str, tmp_path: Path) -> None:
    with pytest.raises(onebit.InputError, match="line 1 "):
        list(read_log(written(tmp_path, "log.dsjson", [line, event({"a": 1}, action=2)]), costs=(-1, 0)))


def test_more_candidates_in_one_round_than_in_another(tmp_path: Path) -> None:
    three = event({}, a=[1, 2, 3], p=[0.5, 0.25, 0.25]).replace("[{}, {}]", "[{}, {}, {}]")
    with pytest.raises(
        onebit.InputError, match=r"line 2 .*before there were 2 actions, and here are 3: .* _tag of each"
    ):
        read_log(written(tmp_path, "log.dsjson", [event({}), three]), costs=(-1, 0))


def tagged(action: int, tags: list[str], cost: float, **more: Any) -> str:
    chances = [1.0 / len(tags)] * len(tags)
    named = json.loads(event({"u": 1}, 1, cost, a=list(range(1, len(tags) + 1)), p=chances, **more))
    named["c"]["_multi"] = [{"_tag": tag} for tag in tags]
    return json.dumps(named | {"_label_Action": action, "_label_probability": chances[0]})


def test_tags_say_which_actions_there_were(tmp_path: Path) -> None:
    lines = [tagged(2, ["art", "sport"], -1.0), tagged(1, ["sport", "news", "art"], -0.25), tagged(1, ["news"], 0.0)]
    log = read_log(written(tmp_path, "log.dsjson", lines), costs=(-1, 0), complete=True)
    assert log.classes == ("art", "news", "sport")
    first, second, third = log
    assert (first.label, first.right, first.among, first.probabilities) == (
        "sport",
        True,
        ("art", "sport"),
        [0.5, 0.0, 0.5],
    )
    assert (second.label, second.right, second.reward, second.among) == ("sport", None, 0.25, None)
    assert (third.label, third.right, third.among, third.complete) == ("news", False, ("news",), True)
    assert evaluate(onebit.BPA(classes=log.classes), log).rounds == 3
    same = read_log(
        written(tmp_path, "same.dsjson", [tagged(1, ["a", "b"], 0.0), tagged(2, ["a", "b"], -1.0)]), costs=(-1, 0)
    )
    assert (same.classes, [one.label for one in same]) == ((1, 2), [1, 2])  # places in one list, as ever
    for bad in (["a", "a"], ["a", ""]):
        with pytest.raises(onebit.InputError, match=r"line 2 .*the tags of its actions are .* one of its own"):
            read_log(written(tmp_path, "bad.dsjson", [tagged(1, ["a", "b"], 0.0), tagged(1, bad, 0.0)]), costs=(-1, 0))


def test_a_line_may_list_what_could_be_shown(tmp_path: Path) -> None:
    lines = ["1:0:0.5 3 | a", "2 3:0.25:0.5 1 | b", "2:1:1 | c"]
    log = read_log(written(tmp_path, "log.vw", lines))
    assert log.classes == (1, 2, 3)
    assert [(one.label, one.right, one.reward, one.among) for one in log] == [
        (1, True, None, (1, 3)),
        (3, None, 0.75, None),
        (2, False, None, None),
    ]
    assert [one.among for one in read_log(written(tmp_path, "log.vw", lines), classes=[1, 2, 3, 4])] == [
        (1, 3),
        (1, 2, 3),
        None,
    ]
    with pytest.raises(onebit.InputError, match=r"round 1 of the log .*there is no class 3"):
        train(onebit.BPA(classes=[1, 2]), read_log(written(tmp_path, "log.vw", lines), classes=[1, 2]))


@pytest.mark.parametrize("costs", [(0, 0), (1,), "ab", 3, (0, float("inf")), (float("nan"), 1)])
def test_costs_are_two_numbers(costs: Any, tmp_path: Path) -> None:
    with pytest.raises(onebit.InputError, match=r"costs is .* two numbers"):
        read_log(written(tmp_path, "log.vw", CB), costs=costs)


def test_a_log_of_vw_evaluates_and_trains(tmp_path: Path) -> None:
    """Labels drawn evenly from three, and the namespace says which is right: a learner comes close to never erring."""
    generator = np.random.default_rng(3)
    truth, shown = generator.integers(1, 4, size=(2, 900))
    lines = [
        f"{a}:{int(a != t)}:{1 / 3!r} |f is{t} | noise:{n:.2f}"
        for a, t, n in zip(shown, truth, generator.normal(size=900), strict=True)
    ]
    log = read_log(written(tmp_path, "log.vw", lines))
    found = evaluate(onebit.LinUCB(classes=log.classes), log, unanswered=log.unanswered)
    assert found.rounds == 900
    assert found.doubly_robust is not None
    assert found.doubly_robust.value > 0.85
    learner = onebit.LinUCB(classes=log.classes)
    assert train(learner, log) == 900
    assert learner.best({"f^is2": 1.0}) == 2
