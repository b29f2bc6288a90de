"""A log for the tests of the commands on logs: three tasks with everything that a log may hold, made by the real service."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from onebit.service.requests import Change, DecideRequest, FeedbackRequest, NewTask
from onebit.service.service import Service
from onebit.service.settings import Settings

ROUNDS = 300


def served(folder: Path, work: Callable[[Service], Awaitable[Any]]) -> Any:
    """What some work on a service in a folder gives; the service runs meanwhile."""

    async def run() -> Any:
        service = Service(Settings(data=folder))
        await service.start()
        try:
            return await work(service)
        finally:
            await service.stop()

    return asyncio.run(run())


async def fill(service: Service) -> None:
    """Three tasks: numbers, with answers out of order; dicts, where another system is shown; texts, where nobody answers in time."""
    await service.create(
        NewTask(
            name="places",
            classes=["north", "south", 3],
            learner="banditron",
            seed=7,
            features={"kind": "numbers", "size": 4},  # type: ignore[arg-type]
        )
    )
    chance = random.Random(1)
    asks = [DecideRequest(id=f"round {number}", x=[chance.gauss(0, 1) for _ in range(4)]) for number in range(ROUNDS)]
    for start in range(0, ROUNDS, 100):
        part = asks[start : start + 100]
        decided = await service.decide("places", part, single=False)
        hints = [
            FeedbackRequest(id=ask.id or "", right=one["label"] == truth(ask.x))
            for place, (ask, one) in enumerate(zip(part, decided, strict=True))
            if place % 10
        ]
        await service.feedback("places", hints[::-1], single=False)
        if start == 0:
            await service.change("places", Change(add_classes=["west|east: 50 %"]))
    await service.create(
        NewTask(name="shops", classes=2, learner="bpa", mode="shadow", features={"kind": "dict", "hash_bits": 8})  # type: ignore[arg-type]
    )
    for number in range(20):
        await service.decide(
            "shops", [DecideRequest(id=f"s{number}", x={"a b": 1.0, "c:|%": float(number), "": -0.5, "é\n": 0.0})]
        )
        await service.feedback(
            "shops", [FeedbackRequest(id=f"s{number}", right=number % 3 == 0, shown=number % 2, shown_propensity=0.25)]
        )
    await service.create(
        NewTask(
            name="tickets",
            classes=["ja", "nein"],
            deadline_s=0.2,
            silence="wrong",
            features={"kind": "text", "hash_bits": 8},  # type: ignore[arg-type]
        )
    )
    await service.decide(
        "tickets", [DecideRequest(id=f"t{number}", x=f"Wörter: wörter\n\x01|{number}") for number in range(6)]
    )
    await service.feedback("tickets", [FeedbackRequest(id="t0", right=True)])
    for _ in range(100):
        await asyncio.sleep(0.1)
        if (await service.decision("tickets", "t5"))["right"] is not None:
            break
    assert await service.feedback("tickets", [FeedbackRequest(id="t5", right=True)]) == [{"id": "t5", "status": "late"}]


def truth(x: Any) -> str | int:
    """The right answer to an x of the task `places`."""
    return "north" if x[0] > 0.5 else "south" if x[1] > 0 else 3
