"""Vowpal Wabbit's logs: what is read is what VW itself reads, and what onebit cannot take is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.offpolicy import evaluate, read_log, train

CB = [
    "1:0:0.5 | a b",
    "2:1:0.25 'id |user x:2",
    "",
    "| nobody answered",
    "3:1:0.25 |user y |:2 z",
]


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


def test_actions_that_were_never_shown_are_known_where_the_log_names_them(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "log.vw", ["1 2:0:0.5 3 | a", "2:1:0.5 3 1 | b"]))
    assert log.classes == (1, 2, 3)
    assert read_log(written(tmp_path, "one.vw", ["2:0:0.5 | a"]), classes=[1, 2]).classes == (1, 2)


BAD = {
    "1:-1:0.5 | a": "the cost is -1, .* give the costs",
    "1:2:0.5 | a": "the cost is 2, .* give the costs",
    "1:0 | a": "expected one action:cost:probability",
    "1:0:0.5 2:1:0.5 | a": "expected one action:cost:probability",
    "3 | a": "expected action:cost:probability",
    "a:0:0.5 | a": "the action is 'a'",
    "0:0:0.5 | a": "features of their own",
    "shared | a": "features of their own",
    "1:0:0.5 a": "expected a | before",
}


@pytest.mark.parametrize("line", BAD)
def test_what_a_text_log_cannot_be(line: str, tmp_path: Path) -> None:
    path = written(tmp_path, "log.vw", ["1:0:0.5 | a", "2:1:0.5 | b", line])
    with pytest.raises(onebit.InputError, match="line 3 .*" + BAD[line].replace("|", r"\|")):
        read_log(path)


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
