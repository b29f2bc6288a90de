"""Boundaries and bounds are measured by trials: kept in records, shown from records alone, on every executor, and Ctrl-C is heard."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onebit
from onebit.cli import main
from onebit.experiments.executors.gpu import find_obstacle
from onebit.experiments.report import Curves, Regions
from onebit.experiments.run import Stopped
from onebit.experiments.trials import Trial, choose_marks, make_entry
from onebit.experiments.trials.records import FILE, decode_numbers, encode_numbers, read_records
from onebit.learner.learner import Learner
from onebit.papers import bounds as bound_items
from onebit.papers import parse_paper, pictures
from onebit.papers.bounds import BoundsMeasurement
from onebit.papers.pictures import BoundaryMeasurement
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import Reproduction, Status
from onebit.theory.bound import Bound
from onebit.theory.mistakes import bounds
from onebit.theory.rounds import read_rounds
from onebit.theory.setting import Setting
from onebit.theory.theorems import compute_promises
from tests.experiments.executors.cluster.test_executor import PaperExecutor

PAPER = """
title = "Mine 2026: a paper of our own"

[[item]]
name = "figure1"
title = "Figure 1: a boundary"
kind = "boundary"
rounds = 200
[[item.data]]
name = "plane"
source = "weak2d"
[[item.learner]]
name = "Banditron"
rule = "banditron"

[[item]]
name = "theorems"
title = "Bounds"
kind = "bounds"
runs = 2
rounds = 200
[[item.data]]
name = "plane"
source = "weak2d"
[[item.learner]]
name = "Gaptron"
rule = "gaptron"
set = { setting = "full", loss = "smooth" }
"""


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.papers.reproduce.load_paper", lambda name: parse_paper("mine2026", PAPER))
    monkeypatch.setattr("onebit.papers.pictures.ACROSS", 12)


def shown(found: Reproduction) -> tuple[Any, ...]:
    """What a reader sees of it."""
    return repr([part for result in found.results for part in result.parts]), [one.to_dict() for one in found.verdicts]


def refused(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("it trains or measures while it shows")


def test_items_are_kept_as_records_and_shown_from_them_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reproduce("mine2026", out=tmp_path, on="threads")
    kinds = [type(part) for result in first.results for part in result.parts]
    assert kinds == [Regions, Curves]
    records = list(read_records(tmp_path / FILE))
    assert len(records) == 3, "the boundary, and two runs for the bounds"
    assert sorted(sorted(one.measured)[:2] for one in records if one.measured) == [
        ["bounds"],
        ["class", "regions"],
    ]
    for name in ("compute_regions", "compute_promises", "read_rounds"):
        monkeypatch.setattr(bound_items if name == "compute_promises" else pictures, name, refused)
    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", refused)
    again = reproduce("mine2026", out=tmp_path, on="threads")
    assert again.cost.found == 3
    assert shown(again) == shown(first)


def test_bounds_of_a_paper_are_those_of_the_library() -> None:
    found = reproduce("mine2026", ["theorems"], on="threads")
    alone = bounds("gaptron", "weak2d", rounds=200, order="file", runs=2, setting="full", loss="smooth")
    assert [one.said for one in found.verdicts] == [f"{one.mean.mean:,.0f}" for one in alone.rows]
    assert [one.published for one in found.verdicts] == [f"at most {one.bound.value_text}" for one in alone.rows]
    (part,) = found.results[0].parts
    assert isinstance(part, Curves)
    assert part.series == next(one for one in alone.page().parts if isinstance(one, Curves)).series


@pytest.mark.parametrize(
    ("rule", "options"),
    [("gaptron", {"loss": "hinge"}), ("bandit-perceptron", {}), ("passive-aggressive", {})],
)
def test_promises_survive_a_file(rule: str, options: dict[str, Any]) -> None:
    entry, rounds = make_entry(rule, options), read_rounds(onebit.stream("weak2d", rounds=60), 0)
    found = compute_promises(Setting(entry.rule, entry.options, rounds, 2, 0, choose_marks(60)))
    odd = Bound("odd", "", "", np.inf, log_value=-np.inf, left=[np.nan, 1.0], assumptions={"a": np.float64(0.5)})
    found = [*found, odd]
    text = json.dumps(encode_numbers([asdict(bound) for bound in found]), allow_nan=False)
    again = [Bound(**plain) for plain in decode_numbers(json.loads(text))]
    assert repr(again) == repr(found).replace("np.float64(0.5)", "0.5")
    for one, other in zip(again, found, strict=True):
        assert one.line == other.line


def test_a_measurement_is_part_of_what_a_trial_is() -> None:
    entry, streamed = make_entry("banditron"), onebit.stream("weak2d", rounds=50)
    plain = Trial(entry, streamed, 0)
    others = [
        Trial(entry, streamed, 0, measurement=one)
        for one in (
            BoundaryMeasurement("easiest"),
            BoundaryMeasurement("hardest"),
            BoundsMeasurement(1),
        )
    ]
    assert len({plain.identity, *(one.identity for one in others)}) == 4
    assert others[0].identity == Trial(entry, streamed, 0, measurement=BoundaryMeasurement("easiest")).identity


def test_rounds_are_fixed_whatever_the_seed_and_are_what_they_are_of() -> None:
    given = onebit.stream("weak2d", rounds=40, noise=0.2)
    rounds = read_rounds(given, 3)
    fixed = rounds.as_stream()
    for seed in (0, 9):
        assert np.array_equal(fixed.data(seed).X, rounds.X)
        assert np.array_equal(fixed.schedule(fixed.data(seed), seed).labels, rounds.y)
    assert fixed.key == read_rounds(given, 3).as_stream().key != read_rounds(given, 4).as_stream().key
    with pytest.raises(onebit.OnebitError, match="leave out delay and missing"):
        read_rounds(onebit.stream("weak2d", rounds=40, delay="fixed:3"), 0)


class Failing:
    """A measurement that cannot be taken."""

    subject = "its mood"

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "mood"}

    def measure(self, learner: Learner, trial: Trial) -> dict[str, Any]:
        raise onebit.OnebitError("it has none")


def test_a_measurement_that_fails_is_a_run_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_items, "BoundsMeasurement", lambda runs: Failing())
    found = reproduce("mine2026", ["theorems"], on="threads")
    assert [one.verdict for one in found.verdicts] == [Status.FAILED]
    assert [record.why for record in found.failures] == ["it has none"]


# --- on every executor -------------------------------------------------------------------------------------------------


def test_a_cluster_measures_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = reproduce("mine2026", on="threads")
    monkeypatch.setattr("onebit.experiments.runner.make_executor", lambda on, threads: PaperExecutor())
    found = reproduce("mine2026", on="dask")
    assert shown(found) == shown(expected)
    assert found.cost.where == "Paper, 1 pencils on a desk"


def test_a_gpu_leaves_what_is_measured_to_threads() -> None:
    trial = Trial(
        make_entry("banditron"), onebit.stream("weak2d", rounds=50), 0, measurement=BoundaryMeasurement("easiest")
    )
    assert find_obstacle(trial) == "its boundary is measured"
    assert find_obstacle(Trial(trial.entry, trial.stream, 0)) is None


# --- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _heard_by_python() -> Iterator[None]:
    """Ctrl-C is ignored by what was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_when(ready: Callable[[], bool]) -> threading.Thread:
    """Press Ctrl-C as soon as something has happened."""

    def press() -> None:
        while not ready():
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread


@pytest.mark.usefixtures("_heard_by_python")
def test_ctrl_c_in_the_midst_of_a_measurement_keeps_and_shows_what_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(setting: Any) -> Any:
        begun.set()
        ended.wait(60)
        raise onebit.OnebitError("too late")

    monkeypatch.setattr(bound_items, "compute_promises", endless)
    path = tmp_path / FILE
    interrupt_when(lambda: begun.is_set() and path.exists() and len(path.read_text().splitlines()) == 3)
    with pytest.raises(Stopped) as stopped:
        reproduce("mine2026", ["figure1", "theorems"], out=tmp_path, on="threads", threads=2)
    ended.set()
    assert len(list(read_records(path))) == 2, "the boundary, and the run that measures nothing"
    drawn, unfinished = stopped.value.result.results
    assert [type(part) for part in drawn.parts] == [Regions]
    assert [one.why for one in unfinished.verdicts] == ["its runs were not done, or with other code or other data"]
    assert unfinished.verdicts[0].verdict == "not run"


@pytest.mark.usefixtures("_heard_by_python")
def test_ctrl_c_while_the_result_is_read_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = pictures.BoundaryPlan.result, list[int]()

    def pressed(self: Any, collected: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return whole(self, collected)

    monkeypatch.setattr(pictures.BoundaryPlan, "result", pressed)
    with pytest.raises(Stopped) as stopped:
        reproduce("mine2026", ["figure1"], out=tmp_path, on="threads")
    assert [type(part) for part in stopped.value.result.results[0].parts] == [Regions]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_shows_what_there_is_after_ctrl_c(
    form: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(page: Any, folder: Any) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr("onebit.cli.reproduce.load_paper", lambda name: parse_paper("mine2026", PAPER))
    monkeypatch.setattr("onebit.cli.experiment.save_page", stopped)
    arguments = ["reproduce", "mine2026", "--item", "theorems", "--quiet", "--on", "threads", "--out", str(tmp_path)]
    assert main([*arguments, *form]) == 130
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith(f"onebit: stopped; finished runs are kept in {tmp_path}, and ")
    if form:
        assert json.loads(out)[0]["counts"]
    else:
        assert "Gaptron: Lemma 1" in out
