"""Learning from the log beside the learner that decides: pending revisions, and learners in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from onebit.contract.validation import ClassName
from onebit.errors import OnebitError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from onebit.service.core.statistics import Statistics
from onebit.service.inputs import Inputs
from onebit.service.store.queries import Event, check_events
from onebit.service.store.reader import NO_END, Reader
from onebit.service.store.rows import Expected
from onebit.service.store.snapshots import Packed, Snapshot, pack_snapshot

CHUNK = 1000  # records read and learnt at a time
NEAR = 1000  # records behind the end of the log at which a trained learner takes over


class Revisions:
    """The revisions of a task up to a log position (`horizon`), and whether all of them are learnt."""

    def __init__(self, expected: Expected, horizon: int) -> None:
        self._expected = expected
        self.horizon = horizon
        self.missed_from: int | None = None  # first feedback that was learnt before it was revised

    def hear(self, reader: Reader, upto: int, learnt: int) -> int:
        """Read the revisions up to `upto`, and return their number.

        Those of feedback up to position `learnt` are recorded as missed, since that feedback is already learnt.
        """
        count = 0
        while self.horizon < upto:
            found = reader.revised(self._expected, self.horizon, upto, CHUNK)
            for one in found:
                if one.feedback <= learnt:
                    self.miss(one.feedback)
            count += len(found)
            self.horizon = found[-1].seq if len(found) == CHUNK else upto
        return count

    def miss(self, feedback: int | None) -> None:
        """Record that a revision of this feedback is not in what was learnt; ignore None."""
        if feedback is not None:
            self.missed_from = feedback if self.missed_from is None else min(feedback, self.missed_from)


class Trainee:
    """A learner being trained from the log of other learners, one feedback after another."""

    def __init__(self, learner: Learner, expected: Expected) -> None:
        self.learner = learner
        self.position = 0
        self.done = 0
        self.revisions = Revisions(expected, 0)
        self._expected = expected

    def advance(self, reader: Reader, upto: int, revised: int) -> bool:
        """Learn the next chunk up to `upto`, with revisions up to `revised`; return True if that is reached.

        Classes are added at the rows where they were added originally.
        """
        self.revisions.hear(reader, revised, self.position)
        events, more = reader.events(self._expected, self.position, upto, CHUNK, self.revisions.horizon)
        end = events[-1].seq if more else upto
        changes = reader.changes(self._expected, self.position, end)
        for event in events:
            while changes and changes[0].seq < event.seq:
                self._change(changes.pop(0).detail)
            check_events(self._expected, [event], len(self.learner.classes))
            if event.counts:
                learn_logged(self.learner, self._expected.inputs, event)
        for change in changes:
            self._change(change.detail)
        self.done += len(events)
        self.position = end
        return not more

    def approach(self, reader: Reader, last: Callable[[], int]) -> Iterator[int]:
        """Learn until close to the end of the log; yield the number of feedbacks learnt after each chunk.

        Stop early if rows arrive as fast as they are learnt: then whoever pauses the others learns the rest. Rows that existed at the beginning are always learnt
        here, so that a bad row among them ends the training and not the task.
        """
        end, behind = last(), last()
        while True:
            while self.position < end:
                self.advance(reader, end, end)
                yield self.done
            before, behind, end = behind, last() - end, last()
            if behind <= NEAR or behind > before / 2:
                return

    def _change(self, detail: dict[str, Any]) -> None:
        for name in detail.get("add_classes", []):
            self.learner.add_class(name)

    def packed(self, generation: int, reader: Reader) -> Packed | None:
        """Return the current state for other nodes; None if it lacks a revision or is ahead of the log."""
        mark = reader.mark(self._expected.task, self.position, self.revisions.horizon)
        if mark is None or self.revisions.missed_from is not None:
            return None
        where = (generation, self.position, self.revisions.horizon)
        return pack_snapshot(Snapshot(self.learner, *where, mark, Statistics(len(self.learner.classes))))

    @classmethod
    def from_snapshot(cls, trained: Snapshot, expected: Expected) -> Trainee:
        """Return a learner that another node has trained."""
        made = cls(trained.learner, expected)
        made.position, made.revisions.horizon = trained.position, trained.revised
        return made


def read_first_classes(reader: Reader, expected: Expected) -> list[ClassName]:
    """Return the classes with which a task began, and with which training from its log begins."""
    classes: list[ClassName] = reader.changes(expected, 0, NO_END)[0].detail["classes"]
    return classes


def learn_logged(learner: Learner, inputs: Inputs, event: Event) -> bool:
    """Learn from a decision of another learner; return False if this learner rejects it."""
    label, propensity = event.played
    try:
        x = inputs.stack([event.x])[0]
        found = event.candidates
        among = None if found is None else [learner.classes[place] for place in found]
        decision = learner.from_log(
            x,
            learner.classes[label],
            min(propensity, 1.0),
            event.decision.id,
            among=among,
            complete=bool(event.decision.complete),
        )
        learn_answer(learner, decision, event)
    except OnebitError:
        return False
    return True


def learn_answer(learner: Learner, decision: Decision, event: Event) -> None:
    """Learn the feedback on a decision: the right class, a reward, or right or wrong."""
    if event.truth is not None:
        learner.learn(decision, truth=learner.classes[event.truth])
    elif event.reward is not None:
        learner.learn(decision, reward=event.reward)
    else:
        learner.learn(decision, right=bool(event.right))
