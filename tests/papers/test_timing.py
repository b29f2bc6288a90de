"""Times are measured by trials, kept in their records, and fitted by power laws; no test depends on how fast this machine is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.experiments.executors.gpu import find_obstacle
from onebit.experiments.report import Curves
from onebit.experiments.trials import Trial
from onebit.experiments.trials.records import FILE, read_records
from onebit.papers import parse_paper
from onebit.papers.reproduce import reproduce
from onebit.papers.timing import Size, TimeMeasurement, draw_rows, fit_power_law
from onebit.papers.verdicts import Reproduction, Status

PAPER = """
title = "Mine 2026: a paper of our own"

[[item]]
name = "time"
title = "Time"
kind = "time"
runs = 2
[item.scale]
rounds = [50, 25, 100]
classes = [3, 6]
features = [4, 8]
[[item.learner]]
name = "OVA"
rule = "conservative-ova"
"""


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onebit.papers.reproduce.load_paper", lambda name: parse_paper("mine2026", PAPER))


def given_times(monkeypatch: pytest.MonkeyPatch, seconds: Any) -> None:
    """Let a trial take as long as a function of its rounds, classes, features and seed says."""

    def measure(self: TimeMeasurement, learner: Any, trial: Trial) -> dict[str, Any]:
        stream = trial.stream.described()
        return {"seconds": [seconds(stream["rounds"], stream["classes"], stream["features"], trial.seed), 9.0, 9.0]}

    monkeypatch.setattr(TimeMeasurement, "measure", measure)


def said(found: Reproduction) -> list[tuple[str, str, str]]:
    return [(one.what.split(": ")[1], one.published, one.verdict) for one in found.verdicts]


def test_times_are_kept_and_shown_from_records_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reproduce("mine2026", out=tmp_path, on="threads")
    records = list(read_records(tmp_path / FILE))
    assert len(records) == 2 * 5, "the base is of all three scales, and is run once"
    for record in records:
        assert len(record.measured["seconds"]) == 3
        assert all(second >= 0.0 for second in record.measured["seconds"])
    assert [type(part) for part in first.results[0].parts] == [Curves] * 3

    def refused(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("it measures while it shows")

    monkeypatch.setattr("onebit.papers.timing.run_trials", refused)
    monkeypatch.setattr("onebit.experiments.executors.threads.run_trials", refused)
    again = reproduce("mine2026", out=tmp_path, on="threads")
    assert again.cost.found == 10
    assert [one.to_dict() for one in again.verdicts] == [one.to_dict() for one in first.verdicts]


def test_exponents_are_found_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    given_times(monkeypatch, lambda rounds, classes, features, seed: 1e-6 * rounds * classes**0.8 * features**1.5)
    found = reproduce("mine2026", on="threads")
    assert said(found) == [
        ("exponent of T", "1", Status.REPRODUCED),
        ("exponent of K", "at most 1", Status.REPRODUCED),
        ("exponent of d", "at most 1", Status.DIFFERS),
    ]
    assert [one.said.split()[0] for one in found.verdicts] == ["1.000", "0.800", "1.500"]
    assert [one.data for one in found.verdicts] == ["K = 3, d = 4", "T = 50, d = 4", "T = 50, K = 3"]
    curves = found.results[0].parts[0]
    assert isinstance(curves, Curves)
    assert curves.x == [25.0, 50.0, 100.0]
    measured, fitted = (series.measures["time"].mean for series in curves.series)
    assert measured == pytest.approx(fitted)


def test_time_that_does_not_grow_with_the_rounds_is_not_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    given_times(monkeypatch, lambda rounds, classes, features, seed: 1e-3 * (1.0 + 3.0 * seed))
    assert said(reproduce("mine2026", on="threads"))[0][2] in (Status.DIFFERS, Status.UNDECIDED)
    given_times(monkeypatch, lambda rounds, classes, features, seed: 1e-3)
    assert said(reproduce("mine2026", on="threads"))[0][2] == Status.DIFFERS


def test_a_measurement_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import onebit

    def fails(self: TimeMeasurement, learner: Any, trial: Trial) -> dict[str, Any]:
        raise onebit.OnebitError("no clock")

    monkeypatch.setattr(TimeMeasurement, "measure", fails)
    found = reproduce("mine2026", on="threads")
    assert {verdict for _, _, verdict in said(found)} == {Status.FAILED}
    assert found.results[0].parts == []


def test_power_laws_are_fitted_with_an_interval() -> None:
    generator = np.random.default_rng(0)
    values = [10.0, 20.0, 40.0, 80.0]
    hits = 0
    for _ in range(200):
        times = 0.3 * np.array(values) ** 1.2 * np.exp(0.1 * generator.normal(size=(3, 4)))
        found, constant = fit_power_law(values, times)
        hits += found.low <= 1.2 <= found.high
        assert 0.15 < constant < 0.6
        assert math.isclose(found.mean - found.low, found.high - found.mean)
    assert 180 <= hits <= 199, "95 % of 200, within five standard deviations"


def test_rows_are_drawn_from_the_seed_and_time_is_taken_on_threads() -> None:
    data, other = (draw_rows(Size(200, 3, 50), 200, seed) for seed in (0, 1))
    assert data.X.shape == (200, 50)
    assert set(data.y.tolist()) == {0, 1, 2}
    assert not np.array_equal(data.X, other.X)
    assert np.linalg.norm(data.X, axis=1).mean() == pytest.approx(1.0, abs=0.05)
    from onebit.papers.plans import PaperStreams
    from onebit.papers.timing import TimePlan

    (item,) = parse_paper("mine2026", PAPER).items
    trials = TimePlan(item, PaperStreams(None), quick=False).trials()
    assert find_obstacle(trials[0]) == "its time is measured"
