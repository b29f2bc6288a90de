"""Teaching a task's learner the events of its log: decisions of its own in batches, those of other learners one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from onebit.contract.candidates import pack_candidates
from onebit.errors import OnebitError
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from onebit.service.core.replicas import Replicas
from onebit.service.inputs import Inputs
from onebit.service.store.queries import Event


def teach_events(replicas: Replicas, inputs: Inputs, events: Sequence[Event]) -> int:
    """Teach events in order; return how many the learner rejected."""
    if len(events) == 1:
        return replicas.teach(_build_lesson(replicas, inputs, events, _is_own(replicas, events[0])))
    rejected = 0
    for (own, _), run in groupby(events, lambda event: (_is_own(replicas, event), event.candidates is None)):
        rejected += replicas.teach(_build_lesson(replicas, inputs, list(run), own))
    return rejected


def _is_own(replicas: Replicas, event: Event) -> bool:
    """Return True if the decision was made by this learner and its notes fit the label that was played."""
    if event.decision.generation != replicas.generation:
        return False
    return event.shown in (None, event.decision.label) or not replicas.resting.runtime.rule.notes_the_label


def _build_lesson(replicas: Replicas, inputs: Inputs, events: Sequence[Event], own: bool) -> Callable[[Learner], int]:
    """Return a function that teaches these events to a learner and returns how many were rejected."""
    if not own:
        return lambda learner: _count_rejected(_read_logged, learner, inputs, events)
    if len(events) == 1 and replicas.copies == 1:  # with two copies a batch is faster, since x is read once
        return lambda learner: _count_rejected(_read_own, learner, inputs, events)
    rows = inputs.stack([event.x for event in events])
    ids = [event.decision.id for event in events]
    choices = np.array([_build_choice(event) for event in events], dtype=np.float64)  # None becomes NaN
    right = np.array([event.right for event in events], dtype=bool)
    sets = [candidates for event in events if (candidates := event.candidates) is not None]
    among = pack_candidates(sets, [bool(event.decision.complete) for event in events]) if sets else None
    graded = any(event.reward is not None for event in events)
    rewards = [event.worth for event in events] if graded else None
    truths = np.array([-1 if event.truth is None else event.truth for event in events], dtype=np.int64)
    batch = replicas.resting.runtime.read_batch(
        rows, ids, choices, right, among=among, rewards=rewards, truths=truths if (truths >= 0).any() else None
    )

    def teach(learner: Learner) -> int:
        try:
            learner.runtime.learn_batch(batch)
        except OnebitError:  # one event was rejected, so none of the batch was learnt: learn the others one by one
            return _count_rejected(_read_own, learner, inputs, events)
        return 0

    return teach


def _count_rejected(
    read: Callable[[Learner, Any, Event], Decision], learner: Learner, inputs: Inputs, events: Sequence[Event]
) -> int:
    """Learn events one by one, each on its decision as `read` returns it; return how many were rejected."""
    rejected = 0
    for event in events:
        (x,) = inputs.stack([event.x])
        try:
            decision = read(learner, x, event)
            if event.truth is not None:
                learner.learn(decision, truth=learner.classes[event.truth])
            elif event.reward is not None:
                learner.learn(decision, reward=event.reward)
            else:
                learner.learn(decision, right=bool(event.right))
        except OnebitError:
            rejected += 1
    return rejected


def _read_logged(learner: Learner, x: Any, event: Event) -> Decision:
    """Return a decision of another learner, as if this learner had made it with the same propensity."""
    label, propensity = event.played
    return learner.from_log(
        x,
        learner.classes[label],
        min(propensity, 1.0),
        event.decision.id,
        among=_name_candidates(learner, event),
        complete=bool(event.decision.complete),
    )


def _read_own(learner: Learner, x: Any, event: Event) -> Decision:
    """Return a decision of this learner; learning from it is much faster than from a batch of one."""
    label, greedy, weight, note, second_note, propensity, *surety = _build_choice(event)
    classes, runtime = learner.classes, learner.runtime
    return Decision(
        *(event.decision.id, classes[label], propensity, classes[greedy], weight, (note, second_note), x),
        *(runtime.ledger.moment, runtime.identity, _name_candidates(learner, event), bool(event.decision.complete)),
        *(None, *surety),
    )


def _name_candidates(learner: Learner, event: Event) -> tuple[Any, ...] | None:
    """Return the names of the classes to learn among; None for all."""
    candidates = event.candidates
    return None if candidates is None else tuple(learner.classes[index] for index in candidates)


def _build_choice(event: Event) -> tuple[Any, ...]:
    """Return the choice of an event as `learn_rows` expects it.

    If something else was shown than the label, the choice has the propensity of what was shown.
    """
    label, propensity = event.played
    weight = event.decision.weight if event.shown is None else propensity
    # The confidence is that in the learner's own label.
    surety = (
        (event.decision.raw, event.decision.confidence, event.decision.sure)
        if label == event.decision.label
        else (None, None, None)
    )
    return label, event.decision.greedy, weight, event.decision.note, event.decision.second_note, propensity, *surety
