"""Drift alarms: a function of the log, in the statistics and the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onebit.errors import InputError
from onebit.service.core.drift import KEPT, DriftDetector
from onebit.service.service import Service
from tests.service.driving import Where, ask, followed, hint, new_task, run, service_in
from tests.service.site import site_in

QUIET, LOUD = 0.05, 0.6  # errors before and after a change


def heard(errors: list[tuple[int, float]], seed: int = 0) -> np.ndarray[Any, Any]:
    """What so many feedbacks each are worth, of which such a share is wrong."""
    draws = np.random.default_rng(seed)
    return np.concatenate([(draws.random(count) >= error).astype(float) for count, error in errors])


def detector_of(worths: np.ndarray[Any, Any], classes: int = 3) -> DriftDetector:
    made = DriftDetector()
    for number, worth in enumerate(worths.tolist(), start=1):
        made.add(2 * number, 100.0 + number, worth, classes, number)
    return made


def test_a_change_raises_one_alarm() -> None:
    made = detector_of(heard([(2000, QUIET), (1000, LOUD)]))
    assert made.count == 1
    (alarm,) = made.alarms
    assert 2000 < alarm.feedback < 2200
    assert (alarm.seq, alarm.time) == (2 * alarm.feedback, 100.0 + alarm.feedback)
    assert 1900 < alarm.feedback - alarm.since < 2010  # about where the error rose
    assert QUIET < alarm.usual < 0.15
    assert 0.4 < alarm.error < 0.8


@pytest.mark.parametrize("error", [0.02, 0.3, 0.6])
def test_no_change_raises_none(error: float) -> None:
    assert detector_of(heard([(30_000, error)])).count == 0


def test_rewards_are_heard_too() -> None:
    made = detector_of(np.concatenate([np.full(2000, 0.9), np.full(1000, 0.2)]))
    assert made.count == 1
    assert 2000 < made.alarms[0].feedback < 2200


def test_a_snapshot_makes_no_difference() -> None:
    worths = heard([(2000, QUIET), (300, LOUD), (2000, QUIET), (300, LOUD)])
    whole = detector_of(worths)
    assert whole.count >= 2
    made = DriftDetector()
    for number, worth in enumerate(worths.tolist(), start=1):
        if number % 37 == 0:
            made = DriftDetector.from_dict(made.to_dict())
        made.add(2 * number, 100.0 + number, worth, 3, number)
    assert made.to_dict() == whole.to_dict()


def test_only_the_last_alarms_are_kept() -> None:
    made = detector_of(heard([(400, 0.0), (120, 1.0)] * (KEPT + 5)), classes=2)
    assert made.count > KEPT
    assert len(made.alarms) == KEPT
    assert DriftDetector.from_dict(made.to_dict()).to_dict() == made.to_dict()


GOOD = detector_of(heard([(2000, QUIET), (1000, LOUD)])).to_dict()


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory": [1.0]},
        {"memory": [float("nan")] * 7},
        {"memory": [0.0] * 7},
        {"memory": ["a"] * 7},
        {"since": -1},
        {"wrong": 0.5},
        {"count": 2},
        {"alarms": [[1, 2, 3]]},
        {"alarms": [["1", 2.0, 3, 4, 0.1, 0.2]]},
        {"alarms": [[1, float("nan"), 3, 4, 0.1, 0.2]]},
    ],
)
def test_what_could_not_have_been_heard_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="invalid drift statistics"):
        DriftDetector.from_dict({**GOOD, **wrong})


async def drifted(service: Service, name: str = "fruit") -> None:
    """A task of which everything is right, and then nothing."""
    await service.create(new_task(name))
    for start, right in ((0, True), (500, True), (1000, False)):
        ids = [f"{number}" for number in range(start, start + 500)]
        await service.decide(name, [ask(one) for one in ids], single=False)
        await service.feedback(name, [hint(one, right) for one in ids], single=False)
    await followed(service)


def test_a_restart_has_the_same_alarms(where: Where) -> None:
    async def work() -> None:
        async with service_in(where) as service:
            await drifted(service)
            stats = service.stats("fruit")["drift"]
            assert stats["count"] == len(stats["alarms"]) == 1
        async with service_in(where) as service:
            assert service.stats("fruit")["drift"] == stats

    run(work())


def test_metrics_and_statistics_have_it(tmp_path: Path) -> None:
    with site_in(tmp_path) as site:
        site._runner.run(drifted(site.service))
        assert 'onebit_drift_alarms_total{task="fruit"} 1.0' in site.ask("GET", "/metrics").text
        (alarm,) = site.ask("GET", "/v1/tasks/fruit/stats").json()["drift"]["alarms"]
        assert set(alarm) == {"seq", "time", "feedback", "since", "usual", "error"}
        assert (1000 < alarm["feedback"] < 1500, alarm["error"]) == (True, 1.0)
