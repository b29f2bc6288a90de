"""Writes the golden files of a release: `python -m tests.golden.write`. Run it once a release; never rewrite an older folder."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import onebit
from onebit.contract.rule import Rule
from onebit.learner.learner import Learner
from onebit.rules import registry
from onebit.service.requests import DecideRequest, FeedbackRequest, NewTask, NumbersFeatures, TextFeatures
from onebit.service.service import Service
from onebit.service.settings import Settings
from onebit.service.store.sqlite.schema import FILE
from tests.golden import every_row, going_on
from tests.golden.going_on import CLASSES

HERE = Path(__file__).parent


def rows() -> Any:
    """Twelve rows that are exact in any precision, so that no machine reads them otherwise."""
    return np.array([[(row * 7 + column * 3) % 8 - 3 for column in range(4)] for row in range(12)]) / 8.0


def form(rule: Rule) -> dict[str, Any]:
    """A bias, where a rule takes one; sparse rows elsewhere, of which less is kept."""
    return {"space": "sparse"} if rule.composite else {"bias": True}


def learners() -> dict[str, Learner]:
    """One learner a rule, and one for each way of reading x, all having learnt a little."""
    made = {
        name: Learner(name, classes=CLASSES, seed=3, **form(rule), **rule.examples[0])
        for name, rule in registry().items()
    }
    for number, x in enumerate(rows()):
        for learner in made.values():
            learner.learn(learner.decide(x), label=CLASSES[number % 3])
    words = Learner("bpa", classes=CLASSES, text=True, seed=4)
    hashed = Learner("bpa", classes=CLASSES, hash_bits=6, seed=4)
    for number in range(6):
        words.learn(words.decide(f"word{number % 4} and more"), right=number % 2 == 0)
        hashed.learn(hashed.decide({f"f{number}": 1.0, "always": -0.5}, id=f"case {number}"), right=number % 2 == 0)
    return {**made, "text": words, "hashed": hashed}


def expected(learner: Learner) -> dict[str, Any]:
    """What a loaded learner must say."""
    examples: list[Any] = rows()[:3].tolist()
    if learner.runtime.features.named:
        examples = ["word1 more", "nothing known"] if learner.runtime.options.text else [{"always": 1.0}, {"f2": 2.0}]
    decisions = [learner.decide(x, id=1000 + number) for number, x in enumerate(examples)]
    return {
        "learnt": learner.learnt,
        "scores": [learner.scores(x).tolist() for x in examples],
        "labels": [decision.label for decision in decisions],
        "propensities": [decision.propensity for decision in decisions],
    }


async def serve(folder: Path) -> None:
    """A folder of the service as a kill would leave it: a snapshot, and rows after it; and what it answered."""
    data = folder / "running"
    service = Service(Settings(data=data, snapshot_every=40))
    await service.start()
    numbers = NumbersFeatures(kind="numbers", size=4)
    text = TextFeatures(kind="text", hash_bits=6)
    await service.create(NewTask(name="numbers", classes=list(CLASSES), learner="bpa", features=numbers, seed=5))
    await service.create(NewTask(name="words", classes=list(CLASSES), learner="linucb", features=text, seed=6))
    answers: dict[str, Any] = {}
    for number in range(60):
        row = rows()[number % 12].tolist()
        asked = [("numbers", row), ("words", f"word{number % 4} and more")]
        for task, x in asked:
            answer = (await service.decide(task, [DecideRequest(id=f"{task}-{number}", x=x)]))[0]
            await service.feedback(
                task, [FeedbackRequest(id=answer["id"], right=answer["label"] == CLASSES[number % 3])]
            )
            answers[answer["id"]] = {"task": task, "x": x, "answer": answer}
    while any(service.stats(task)["queue"] for task in service.task_names()):
        await asyncio.sleep(0.01)
    stats = {task: service.stats(task) for task in service.task_names()}
    shutil.copytree(data / "snapshots", folder / "data" / "snapshots")
    await service.stop()
    shutil.copy(data / FILE, folder / "data")
    shutil.rmtree(data)
    counts = {
        task: {name: one[name] for name in ("learnt", "decisions", "feedback", "right")} for task, one in stats.items()
    }
    (folder / "expected.json").write_text(json.dumps({"answers": answers, "counts": counts}, indent=1) + "\n")


if __name__ == "__main__":
    folder = HERE / onebit.__version__
    folder.mkdir()
    (folder / "service").mkdir()
    asyncio.run(serve(folder / "service"))
    for name, learner in learners().items():
        learner.save(folder / f"{name}.onebit")
    answers = {name: expected(learner) for name, learner in learners().items()}
    (folder / "expected.json").write_text(json.dumps(answers, indent=1) + "\n")
    going_on.write(folder)
    every_row.write(folder / "every_row")
