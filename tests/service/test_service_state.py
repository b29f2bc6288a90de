"""The state is the replay of the log, bit for bit, for every learner that the service can have; and so are the statistics."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from onebit.errors import OnebitError
from onebit.learner.learner import Learner
from onebit.rules import registry
from onebit.service.service import Service
from tests.service.driving import (
    Where,
    ask,
    change,
    crash_image,
    followed,
    hint,
    new_task,
    outcome,
    replayed,
    restarted,
    rows_of,
    run,
    service_in,
    snapshots_in,
    states,
    visible,
    without_snapshots,
)
from tests.slow import slow, tier_of

FEATURES: dict[str, dict[str, Any]] = {
    "numbers": {"kind": "numbers", "size": 4},
    "dict": {"kind": "dict", "hash_bits": 5},
    "text": {"kind": "text", "hash_bits": 5},
}
WORDS = ["one", "two", "three", "four", "zwölf", "😀", "a.b"]


def learns_from_one_bit(rule: str, options: Mapping[str, Any]) -> bool:
    try:
        return not Learner(rule, classes=3, **options).runtime.needs_labels
    except OnebitError:  # some need more than a name
        return False


CASES = [
    (name, dict(options))
    for name, rule in registry().items()
    for options in ({}, *(one for one in rule.examples if one))
    if learns_from_one_bit(name, options)
]
FIRST = list({name: (name, options) for name, options in reversed(CASES)}.values())[::-1]
OTHERS = [case for case in CASES if case not in FIRST]


def x_of(kind: str, chance: random.Random, longest: float, size: int = 4) -> Any:
    """A small x; some are zero, or have names that are there twice in one column. With more numbers they are nearly all 0."""
    if kind == "numbers" and size > 4:
        return [longest * (place in (0, chance.randrange(size))) for place in range(size)]
    if kind == "numbers":
        numbers = [chance.choice((0.0, chance.gauss(0, 1), 1e-8, -0.0)) for _ in range(4)]
        length = sum(one * one for one in numbers) ** 0.5
        return [one * longest / max(length, 1.0) for one in numbers]
    words = chance.choices(WORDS, k=chance.randrange(6))
    if kind == "text":
        return " ".join(words)
    return {word: chance.choice((1.0, -0.25, 0.0, chance.random())) * longest / 6 for word in words}


async def traffic(service: Service, task: str, kind: str, rounds: int, seed: int, size: int = 4) -> None:
    """Batches of any size; answers to any of those before, out of order, and some never."""
    chance = random.Random(f"{task} {seed}")
    waiting: list[tuple[str, Any]] = []
    count = 0
    while count < rounds:
        ids = [f"{seed}-{count + place}" for place in range(chance.choice((1, 1, 1, 2, 3, 20)))]
        count += len(ids)
        asks = [ask(one, x_of(kind, chance, 0.9, size)) for one in ids]
        answers = await service.decide(task, asks, single=False)
        waiting += [(one["id"], one["label"]) for one in answers]
        chance.shuffle(waiting)
        told = [waiting.pop() for _ in range(min(len(waiting), chance.choice((0, 1, 1, 2, 15))))]
        hints = [hint(one, str(label) == chance.choice("012")) for one, label in told]
        await service.feedback(task, hints, single=False)


async def assert_state_is_the_replay(folder: Where, tasks: Mapping[str, dict[str, Any]], rounds: int) -> None:
    """Traffic for tasks (name: what is new), and every way to come to the same state."""
    async with service_in(folder, snapshot_every=25, keep_snapshots=2) as service:
        for name, given in tasks.items():
            await service.create(new_task(name, classes=3, **given))
        for seed in range(2):
            for name, given in tasks.items():
                features = given["features"]
                await traffic(service, name, features["kind"], rounds, seed, features.get("size", 4))
            if seed == 0:
                for name, given in tasks.items():
                    # A matrix of codes has a row for every class, so that there can be no more of them.
                    added = await outcome(service.change(name, change(add_classes=["new"])))
                    assert not isinstance(added, OnebitError) or "coding" in given.get("parameters", {}), added
        found = await states(service)
        before = {name: visible(service.stats(name)) for name in tasks}
        assert all(one["learnt"] > rounds / 4 for one in before.values())
        assert snapshots_in(folder)
        crashed = crash_image(folder)
    for name in tasks:
        assert replayed(folder, name) == found[name], f"{name}: the running service is not the replay of its log"
    for where in (crashed, without_snapshots(crash_image(crashed)), folder):
        async with service_in(where) as service:
            again = await states(service)
            for name in tasks:
                assert again[name] == found[name], f"{name} in {where}"
                assert visible(service.stats(name)) == before[name]


def tasks_of(rule: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A task of each kind, but where a rule wants dense rows."""
    kinds = FEATURES if options.get("matrix") != "full" else {"numbers": FEATURES["numbers"]}
    return {
        kind: {"learner": rule, "parameters": options, "features": features, "exploration_floor": None}
        for kind, features in kinds.items()
    }


@pytest.mark.parametrize(
    ("rule", "options"), [pytest.param(rule, options, id=rule, marks=tier_of(rule)) for rule, options in FIRST]
)
def test_every_rule(where: Where, rule: str, options: dict[str, Any]) -> None:
    """With numbers, dicts and texts; after a stop, after a crash, and from the log alone."""
    run(assert_state_is_the_replay(where, tasks_of(rule, options), 100))


@slow
@pytest.mark.parametrize(("rule", "options"), OTHERS, ids=[f"{rule}-{n}" for n, (rule, _) in enumerate(OTHERS)])
def test_every_rule_with_its_options(where: Where, rule: str, options: dict[str, Any]) -> None:
    run(assert_state_is_the_replay(where, tasks_of(rule, options), 100))


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "banditron", "parameters": {"kernel": "rbf:0.5", "max_support": 20}},
        {"learner": "banditron", "parameters": {"kernel": "polynomial:2", "max_support": 15}},
        {"learner": "soba", "parameters": {"matrix": "full", "bias": True}},
        {"learner": "banditron", "parameters": {"bias": True, "dtype": "float64"}},
    ],
    ids=["merge", "oldest", "full", "bias"],
)
def test_learners_with_a_kernel_or_a_full_matrix(where: Where, options: dict[str, Any]) -> None:
    """What they store depends on the order of everything that came before."""
    run(assert_state_is_the_replay(where, {"numbers": {"features": FEATURES["numbers"], **options}}, 150))


@pytest.mark.parametrize("rule", ["soba", "newtron"])
def test_rows_that_cannot_be_learnt(where: Where, rule: str) -> None:
    """They are left out one by one, in whatever group they come, and counted."""

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(classes=3, features=FEATURES["numbers"], learner=rule))
            chance = random.Random(3)
            known: list[str] = []
            for number in range(400):
                size = chance.choice((1.0, 1e10, 1e18, 1e19))
                one = ask(str(number), [chance.uniform(-1, 1) * size for _ in range(4)])
                if isinstance(await outcome(service.decide("fruit", [one])), list):
                    known.append(str(number))
                if number % 3 == 0 and known:
                    cut = chance.randrange(len(known)) + 1
                    told, known = known[:cut], known[cut:]
                    await service.feedback("fruit", [hint(one, chance.random() < 0.4) for one in told], single=False)
                    await followed(service)  # what is learnt depends on what was decided, and that on what was learnt
            found = await states(service)
            stats = service.stats("fruit")
            assert stats["refused"] > 0
            assert stats["learnt"] > 0
            assert stats["learnt"] + stats["refused"] == stats["feedback"]
        assert replayed(where, "fruit") == found["fruit"]
        async with service_in(without_snapshots(where)) as service:
            assert await states(service) == found
            assert visible(service.stats("fruit")) == visible(stats)

    run(work())


@pytest.mark.parametrize("groups", [1, 7, 1000])
def test_the_size_of_a_chunk_changes_nothing(where: Where, monkeypatch: pytest.MonkeyPatch, groups: int) -> None:
    """However many rows are read at a time, the log gives one state and one statistic."""

    async def work() -> None:
        async with service_in(where, snapshot_every=10**9) as service:
            await service.create(new_task(learner="auto", classes=3, features=FEATURES["numbers"]))
            await traffic(service, "fruit", "numbers", 300, 1)
            await service.change("fruit", change(add_classes=["new"]))
            await traffic(service, "fruit", "numbers", 300, 2)
            found, stats = await states(service), visible(service.stats("fruit"))
        monkeypatch.setattr("onebit.service.core.follower.CHUNK", groups)
        async with service_in(without_snapshots(where)) as service:
            assert await states(service) == found
            assert visible(service.stats("fruit")) == stats

    run(work())


def counted(folder: Where) -> Iterator[tuple[str, int]]:
    """What the statistics must say, from the log."""
    yield "decisions", rows_of(folder, "SELECT count(*) FROM decisions")[0][0]
    yield "feedback", rows_of(folder, "SELECT count(*) FROM feedback WHERE late = 0")[0][0]
    yield "right", rows_of(folder, "SELECT count(*) FROM feedback f WHERE late = 0 AND f.right = 1")[0][0]


def test_statistics_are_those_of_the_log(where: Where) -> None:
    async def work() -> None:
        async with service_in(where, snapshot_every=200) as service:
            await service.create(new_task(classes=3, features=FEATURES["numbers"]))
            for seed in range(4):
                await traffic(service, "fruit", "numbers", 400, seed)
            await followed(service)
            crashed = crash_image(where)
            stats = service.stats("fruit", 100)
            expected = dict(counted(where))
            assert {name: stats[name] for name in expected} == expected
            last = rows_of(where, "SELECT f.right FROM feedback f ORDER BY seq DESC LIMIT 100")
            assert stats["window"]["wrong"] == sum(1 - row[0] for row in last)
            assert stats["window"]["low"] <= stats["window"]["error"] <= stats["window"]["high"]
            played = rows_of(where, "SELECT label, count(*) FROM decisions GROUP BY label ORDER BY label")
            assert [(place, one["played"]) for place, one in enumerate(stats["classes"])] == played
            explored = rows_of(where, "SELECT label != greedy FROM decisions ORDER BY seq DESC LIMIT 100")
            assert stats["exploration"] == {"window": 100, "rate": sum(row[0] for row in explored) / 100}
            assert stats["curve"]["feedback"][-1] == expected["feedback"]
            assert stats["curve"]["error"][-1] == pytest.approx(1 - expected["right"] / expected["feedback"])
            assert len(stats["curve"]["feedback"]) <= 400
            assert sum(stats["delays"]["counts"]) == expected["feedback"]
            assert stats["queue"] == 0
        for folder in (where, crashed, without_snapshots(crash_image(crashed))):
            async with service_in(folder) as service:
                assert visible(service.stats("fruit", 100)) == visible(stats)

    run(work())


def test_restarts_in_the_middle_of_it_all(tmp_path: Path) -> None:
    """A service that is stopped, and one that is killed, again and again, is the one that never was."""

    async def work() -> None:
        async with service_in(tmp_path / "never", snapshot_every=30) as service:
            await service.create(new_task(learner="auto", classes=3, features=FEATURES["numbers"]))
            for seed in range(8):
                await traffic(service, "fruit", "numbers", 60, seed)
                await followed(service)  # decisions depend on what was learnt by then
            never = await states(service)
        folder = tmp_path / "again"
        for seed in range(8):
            async with service_in(folder, snapshot_every=30) as service:
                if seed == 0:
                    await service.create(new_task(learner="auto", classes=3, features=FEATURES["numbers"]))
                await traffic(service, "fruit", "numbers", 60, seed)
                await followed(service)
                crashed = crash_image(folder)
            if seed % 2:
                folder = crashed
        for one in (folder, without_snapshots(crash_image(folder))):
            found = await restarted(one)
            assert found["fruit"] == replayed(one, "fruit")
        assert set(never) == set(found)

    run(work())


def test_names_of_classes_are_any_text(where: Where) -> None:
    names = ["", "a\tb", "😀", " ", "__proto__", "'; --", 0, -(2**53), "é", "e\u0301", string.printable]

    async def work() -> None:
        async with service_in(where) as service:
            await service.create(new_task(classes=names[1:], features=FEATURES["numbers"], exploration_floor=1.0))
            await traffic(service, "fruit", "numbers", 100, 1)
            found = await states(service)
            labels = {one["label"] for one in await service.decisions("fruit", 100)}
            assert labels <= set(names)
            assert len(labels) > 5
        assert replayed(where, "fruit") == found["fruit"]
        async with service_in(where) as service:
            assert service.task("fruit").classes == names[1:]
            assert await states(service) == found

    run(work())
