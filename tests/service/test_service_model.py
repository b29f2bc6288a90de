"""The service against a model of a few dictionaries: whatever is asked of it in whatever order, both say the same.

Hypothesis makes up the requests, stops, crashes and looks. Examples are derandomised, so that a run is like the one before.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onebit.service.errors import RequestError
from onebit.service.requests import Change, FeedbackRequest
from onebit.service.service import Service
from onebit.service.settings import Settings
from tests.service.driving import (
    PATIENCE_S,
    ask,
    crash_image,
    new_task,
    replayed,
    rows_of,
    states,
    visible,
    without_snapshots,
)
from tests.slow import SLOW

NAMES = st.sampled_from(["fruit", "nuts"])
IDS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
XS = st.sampled_from([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
CLASSES = st.sampled_from(["a", "b", "c", "d", "e"])
MODES = st.sampled_from(["learn", "shadow", "log-only"])


@dataclass
class Task:
    """What the model knows of a task."""

    classes: list[str]
    mode: str
    decided: dict[str, tuple[list[float], str, dict[str, Any]]] = field(default_factory=dict)  # x, mode, answer
    heard: dict[str, tuple[bool | None, str | None]] = field(default_factory=dict)


class Machine(RuleBasedStateMachine):
    """A service, and the model beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self._scratch.name) / "data"
        self.runner = asyncio.Runner()
        self.model: dict[str, Task] = {}
        self.rows = 0

    @initialize()
    def start(self) -> None:
        self.service = Service(Settings(data=self.folder, snapshot_every=5))
        self.do(self.service.start())

    def do(self, work: Any) -> Any:
        return self.runner.run(asyncio.wait_for(work, PATIENCE_S))

    def refused(self, work: Any) -> int:
        """The status of what some work is refused with; 200 where it is done."""
        try:
            self.last = self.do(work)
        except RequestError as error:
            return error.status
        return 200

    @rule(name=NAMES, count=st.integers(2, 3), mode=MODES)
    def create(self, name: str, count: int, mode: str) -> None:
        classes = ["a", "b", "c"][:count]
        expected = 409 if name in self.model else 200
        assert self.refused(self.service.create(new_task(name, classes=classes, mode=mode))) == expected
        if expected == 200:
            self.model[name] = Task(classes, mode)
            self.rows += 1

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        expected = 200 if name in self.model else 404
        assert self.refused(self.service.delete(name)) == expected
        if expected == 200:
            del self.model[name]
            self.rows += 1

    @rule(name=NAMES, mode=MODES)
    def change_mode(self, name: str, mode: str) -> None:
        expected = 200 if name in self.model else 404
        assert self.refused(self.service.change(name, Change(mode=mode))) == expected  # type: ignore[arg-type]
        if expected == 200:
            self.model[name].mode = mode
            self.rows += 1

    @rule(name=NAMES, added=st.lists(CLASSES, min_size=1, max_size=2))
    def add_classes(self, name: str, added: list[str]) -> None:
        task = self.model.get(name)
        wanted = [] if task is None else [*task.classes, *added]
        expected = 404 if task is None else 422 if len(set(wanted)) < len(wanted) else 200
        assert self.refused(self.service.change(name, Change(add_classes=added))) == expected  # type: ignore[arg-type]
        if task is not None and expected == 200:
            task.classes = wanted
            self.rows += 1

    @rule(name=NAMES, asked=st.lists(st.tuples(IDS, XS), min_size=1, max_size=4), single=st.booleans())
    def decide(self, name: str, asked: list[tuple[str, list[float]]], single: bool) -> None:
        asked = asked[:1] if single else asked
        task = self.model.get(name)
        status = self.refused(self.service.decide(name, [ask(*one) for one in asked], single=single))
        if task is None:
            assert status == 404
            return
        known = {identity: x for identity, (x, _, _) in task.decided.items()}
        if any(known.setdefault(identity, x) != x for identity, x in asked):
            assert status == 409
            return
        assert status == 200
        assert [one["id"] for one in self.last] == [identity for identity, _ in asked]
        for (identity, x), answer in zip(asked, self.last, strict=True):
            if identity in task.decided:
                assert answer == task.decided[identity][2]
                continue
            assert answer["label"] in task.classes
            assert list(answer["probabilities"]) == task.classes
            assert answer["probabilities"][answer["label"]] == answer["propensity"]
            task.decided[identity] = (x, task.mode, answer)
            self.rows += 1

    @rule(
        name=NAMES,
        told=st.lists(st.tuples(IDS, st.booleans(), st.none() | CLASSES), min_size=1, max_size=4),
        single=st.booleans(),
    )
    def hear(self, name: str, told: list[tuple[str, bool, str | None]], single: bool) -> None:
        told = told[:1] if single else told
        task = self.model.get(name)
        hints = [FeedbackRequest(id=identity, right=right, shown=shown) for identity, right, shown in told]
        status = self.refused(self.service.feedback(name, hints, single=single))
        if task is None:
            assert status == 404
            return
        for identity, _, shown in told:
            wrong = shown is not None and shown not in task.classes
            known = task.decided.get(identity)
            if wrong or (known is not None and (known[1] == "shadow") != (shown is not None)):
                assert status == 422
                return
        expected = []
        for identity, right, shown in told:
            if identity not in task.decided:
                expected.append("unknown")
            elif identity not in task.heard:
                expected.append("accepted")
                task.heard[identity] = (right, shown)
                self.rows += 1
            else:
                expected.append("duplicate" if task.heard[identity][0] is right else "conflict")
        if single and expected[0] in ("unknown", "conflict"):
            assert status == {"unknown": 404, "conflict": 409}[expected[0]]
            return
        assert [one["status"] for one in self.last] == expected

    @rule(name=NAMES, identity=IDS, right=st.none() | st.booleans(), shown=st.none() | CLASSES)
    def think_again(self, name: str, identity: str, right: bool | None, shown: str | None) -> None:
        """Revise, or withdraw where nothing is said."""
        task = self.model.get(name)
        shown = None if right is None else shown
        told = FeedbackRequest(id=identity, right=right, shown=shown, revise=right is not None, withdraw=right is None)
        status = self.refused(self.service.feedback(name, [told]))
        if task is None or (identity not in task.decided and (shown is None or shown in task.classes)):
            assert status == 404
            return
        shadow = task.decided[identity][1] == "shadow" if identity in task.decided else False
        if right is not None and (shadow != (shown is not None) or (shown is not None and shown not in task.classes)):
            assert status == 422
            return
        before, now = task.heard.get(identity), (right, shown)
        if before is None and right is None:
            assert status == 409
            return
        assert status == 200
        first = "withdrawn" if right is None else "revised" if before else "accepted"
        assert self.last[0]["status"] == ("duplicate" if before == now else first)
        task.heard[identity] = now
        self.rows += before != now

    @rule()
    def restart(self) -> None:
        self.do(self.service.stop())
        self.start()

    @rule()
    def crash(self) -> None:
        """Go on with a copy of what is on disk, as if this process had been killed."""
        folder = crash_image(self.folder)
        self.do(self.service.stop())
        self.folder = folder
        self.start()

    @precondition(lambda self: self.model)
    @rule()
    def compare(self) -> None:
        """The state is the replay of the log, and that of a service which begins with the log alone."""
        found = self.do(states(self.service))
        assert set(found) == set(self.model)
        stats = {name: visible(self.service.stats(name)) for name in self.model}
        for name, state in found.items():
            assert replayed(self.folder, name) == state
        folder = without_snapshots(crash_image(self.folder))
        self.do(self.service.stop())
        self.folder = folder
        self.start()
        assert self.do(states(self.service)) == found
        assert {name: visible(self.service.stats(name)) for name in self.model} == stats

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "service"):
            return
        assert self.service.failing is None
        assert set(self.service.task_names()) == set(self.model)
        for name, task in self.model.items():
            shown = self.service.task(name)
            assert (shown.classes, shown.mode) == (task.classes, task.mode)
            logged = {one["id"]: one for one in self.do(self.service.decisions(name, 100))}
            assert set(logged) == set(task.decided)
            for identity, (x, mode, answer) in task.decided.items():
                one = logged[identity]
                assert (one["x"], one["mode"]) == (x, mode)
                assert {key: one[key] for key in answer} == answer
                assert (one["right"], one["shown"]) == task.heard.get(identity, (None, None))
        counted = sum(
            rows_of(self.folder, f"SELECT count(*) FROM {table}")[0][0]
            for table in ("changes", "decisions", "feedback", "revisions")
        )
        assert counted == self.rows

    def teardown(self) -> None:
        if hasattr(self, "service"):
            self.do(self.service.stop())
        self.runner.close()
        self._scratch.cleanup()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60 if SLOW else 25,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
