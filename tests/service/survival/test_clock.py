"""Clocks that go back, jump, or are behind the log: times in the log never go back, and deadlines are kept."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from onebit.service.store.clock import EARLIEST_TIME, Clock
from tests.service.driving import (
    crash_image,
    decided,
    followed,
    heard,
    new_task,
    replayed,
    rows_of,
    run,
    service_in,
    states,
    until,
    until_silence,
    visible,
)

pytestmark = pytest.mark.long

TIMES = """
SELECT time FROM (SELECT seq, time FROM changes UNION ALL SELECT seq, time FROM decisions UNION ALL SELECT seq, time FROM feedback)
ORDER BY seq
"""


class Wall:
    """The clock on the wall, which anybody may set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = time.time
        monkeypatch.setattr("time.time", lambda: real() + self.ahead)
        monkeypatch.setattr("time.time_ns", lambda: int((real() + self.ahead) * 1e9))


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return Wall(monkeypatch)


def test_a_clock_that_is_set_while_it_runs(tmp_path: Path, wall: Wall) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=3600.0, silence="wrong"))
            for turn, ahead in enumerate((0.0, -86_400.0, 86_400.0, -1e9, 5.0)):
                wall.ahead = ahead
                for number in range(5):
                    await decided(service, f"{turn}-{number}")
                    assert await heard(service, f"{turn}-{number}") == "accepted"
            await followed(service)
            stats = service.stats("fruit")
            assert stats["rates"]["decisions_per_s"] >= 0
            assert sum(stats["delays"]["counts"]) == 25
            assert stats["delays"]["counts"][-1] == 0  # nobody waited for a week
        times = [row[0] for row in rows_of(tmp_path, TIMES)]
        assert times == sorted(times)
        assert times[-1] - times[0] < 3600

    run(work())


@pytest.mark.parametrize("back", [10.0, 86_400.0, 1e8])
def test_a_clock_that_is_behind_the_log_at_the_start(
    tmp_path: Path, wall: Wall, caplog: pytest.LogCaptureFixture, back: float
) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=5.0, silence="wrong"))
            await decided(service, "before")
            assert await heard(service, "before") == "accepted"
            await decided(service, "waits")
            stats = visible(service.stats("fruit"))
            await followed(service)
            crashed = crash_image(tmp_path)
        wall.ahead = -back
        for folder in (tmp_path, crashed):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "onebit.service"):
                async with service_in(folder) as service:
                    assert [record.__dict__["event"] for record in caplog.records] == ["clock-behind"]
                    assert (
                        await heard(service, "waits") == "accepted"
                    )  # it is not past its deadline, nor for ever before it
                    await decided(service, "after")
                    assert await heard(service, "after") == "accepted"
                    found = await states(service)
                    assert service.stats("fruit")["decisions"] == 3
                    assert stats["decisions"] <= 2
            times = [row[0] for row in rows_of(folder, TIMES)]
            went_back = back == 86_400.0  # neither a little, nor to a time at which there was no onebit
            assert (times == sorted(times)) is not went_back
            assert replayed(folder, "fruit") == found["fruit"]

    run(work())


def test_deadlines_pass_also_where_the_clock_is_behind(tmp_path: Path, wall: Wall) -> None:
    async def work() -> None:
        wall.ahead = 1e6
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=0.2, silence="wrong"))
            await decided(service, "a")
        wall.ahead = 0.0
        async with service_in(tmp_path) as service:
            await decided(service, "b")
            await until_silence(service, "b")
            assert (await service.decision("fruit", "a"))["source"] == "silence"

    run(work())


def test_a_long_time_between_two_starts_counts(tmp_path: Path, wall: Wall) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=3600.0, silence="right"))
            await decided(service, "a")
        wall.ahead = 7200.0
        async with service_in(tmp_path) as service:
            assert await heard(service, "a", False) == "late"
            await until_silence(service, "a")

    run(work())


YEAR = 365 * 86_400.0


def test_a_start_with_the_clock_a_year_ahead_dates_no_later_start(
    tmp_path: Path, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        wall.ahead = YEAR
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=0.5, silence="wrong"))
            await decided(service, "ahead")
            assert service.readiness(lambda _: True)["warnings"] == []
            wall.ahead = 0.0  # it is set right, and the service goes on as it began, and says so
            await decided(service, "still ahead")
            assert "31536000 s ahead of the clock of this machine" in service.readiness(lambda _: True)["warnings"][0]
            assert service.clock.ahead == pytest.approx(YEAR, abs=600)
        for number in range(2):  # the second finds the change a year ahead and decisions that are not
            caplog.clear()
            with caplog.at_level(logging.WARNING, "onebit.service"):
                async with service_in(tmp_path) as service:
                    assert service.readiness(lambda _: True)["warnings"] == []
                    assert abs(service.clock.ahead) < 60
                    await decided(service, f"now {number}")
                    assert abs((await service.decision("fruit", f"now {number}"))["time"] - time.time()) < 600
                    # Deadlines pass, those of before among them.
                    await until_silence(service, f"now {number}")
                    assert (await service.decision("fruit", "ahead"))["source"] == "silence"
                    assert (await service.decision("fruit", "still ahead"))["source"] == "silence"
                    await followed(service)
                    await until(lambda: sum(service.stats("fruit")["rates"]["decisions"]) > 0)
                    found = await states(service)
            assert [record.__dict__["event"] for record in caplog.records] == ["clock-behind"] * (number == 0)
        assert replayed(tmp_path, "fruit") == found["fruit"]

    run(work())


def test_feedback_to_a_decision_from_ahead_is_in_time_and_then_late(tmp_path: Path, wall: Wall) -> None:
    async def work() -> None:
        wall.ahead = YEAR
        async with service_in(tmp_path) as service:
            await service.create(new_task(deadline_s=1000.0, silence="nothing"))
            await decided(service, "a")
            await decided(service, "b")
        wall.ahead = 0.0
        async with service_in(tmp_path) as service:
            assert await heard(service, "a") == "accepted"
            service.clock._offset += 1001.0  # as much later
            assert await heard(service, "b") == "late"

    run(work())


def test_a_clock_from_before_this_program_is_not_believed(tmp_path: Path, wall: Wall) -> None:
    async def work() -> None:
        async with service_in(tmp_path) as service:
            await service.create(new_task())
        wall.ahead = -time.time()
        async with service_in(tmp_path) as service:
            await decided(service, "a")
            assert "says 1970-01-01, which is wrong" in service.readiness(lambda _: True)["warnings"][0]
        times = [row[0] for row in rows_of(tmp_path, TIMES)]
        assert times == sorted(times)

    run(work())


def test_the_clock_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, steady = [1000.0], [50.0]
    monkeypatch.setattr("time.time", lambda: wall[0])
    monkeypatch.setattr("time.monotonic", lambda: steady[0])
    clock = Clock(2000.0, 7)
    assert (clock.behind, clock.now()) == (1000.0, 2000.0)
    assert (clock.date_row(7, 3000.0), clock.date_row(7, 1500.0), clock.date_row(8, 3000.0)) == (2000.0, 1500.0, 3000.0)
    wall[0] = 0.0
    steady[0] = 51.5
    assert clock.now() == 2001.5
    assert Clock(-5.0).behind == 0.0
    assert Clock().now() == 0.0
    wall[0] = EARLIEST_TIME + 1000.0
    for ahead, begins in ((-100.0, 0.0), (50.0, 50.0), (61.0, 0.0), (YEAR, 0.0)):
        clock = Clock(wall[0] + ahead)
        assert clock.now() == pytest.approx(wall[0] + begins)
        assert clock.ahead == pytest.approx(begins)
        assert clock.trouble is None
