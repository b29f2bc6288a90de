"""Deciding and hearing in this process: what `onebit.open` does for every call, on the caller's own thread.

    decide     check, decide, add the row
    feedback   find the decision, judge, add the row, learn

What is learnt is a function of the log: a feedback is learnt in the order in which rows are added, where that is `soon` when it is added, and
else when it is on disk, by whichever thread wrote it. So there is one copy of the learner, and after a feedback the next decision knows it.
Whoever is interrupted on the way leaves a learner behind of which nobody knows what it has learnt: it is made again from the log.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.decision import Decision
from onebit.errors import InputError, OnebitError
from onebit.serve.compiling import Compiler
from onebit.serve.decide import Ask, refuse_other
from onebit.serve.errors import ConflictError, InvalidError, TaskSetAsideError
from onebit.serve.group_commit import Group
from onebit.serve.ids import NewIds
from onebit.serve.inputs import classes_in
from onebit.serve.judging import (
    SWEPT,
    WRITTEN,
    Noted,
    awaits_silence,
    compared,
    judged,
    refuse_alone,
    refuse_forgotten,
    refuse_mixed,
    refuse_shown,
    word_of,
)
from onebit.serve.known_decisions import KnownDecisions
from onebit.serve.log.checks import BadRecordError
from onebit.serve.log.recent_rows import AMONG, COMPLETE, GENERATION, LABEL, PROBABILITIES, X, event_of
from onebit.serve.log.records import Event, Played
from onebit.serve.log_follower import LogFollower, Trainee, first_classes
from onebit.serve.made import AskedTerms, Made, Said, checked_identity, decided
from onebit.serve.open_cores import Answer
from onebit.serve.recent import Entry, Word
from onebit.serve.replicas import OneCopy
from onebit.serve.schemas import Change, FeedbackRequest, NewLearner
from onebit.serve.served_task import ServedTask
from onebit.serve.task_changes import check_change, given_in, switch_of
from onebit.serve.tasks import learner_of, refuse_rule
from onebit.serve.terms import RequestTerms

if TYPE_CHECKING:
    from onebit.serve.open_folder import OpenFolder


class OpenCore:
    """One task of a folder that this process has."""

    def __init__(self, folder: OpenFolder, served: ServedTask) -> None:
        self.served = served
        self.reader = folder.reader
        self.commits = folder.commits
        self.clock = folder.clock
        self.folder = folder
        self._max_values = folder.settings.max_values
        self._known = KnownDecisions(served, folder.reader, folder.clock)
        self._ids = NewIds()
        self._switching = threading.Lock()
        self._closed: str | None = None  # why nothing is added any more

    # --- what it is, and its end -----------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """The path of the folder."""
        return self.folder.where

    @property
    def log(self) -> Path:
        """The folder."""
        return self.folder.settings.data

    def flush(self) -> None:
        """Have everything on disk."""
        self.commits.sync()

    def whole(self) -> AbstractContextManager[None]:
        """Everything is written and counted, and nobody adds anything meanwhile."""
        return self.folder.whole()

    def close(self, why: str) -> None:
        """Have everything on disk, keep a snapshot, and let go of the folder if it has no other task open; what is lost with it is said."""
        with self.commits.lock:
            self._closed = why
        self.folder.leave(self)

    def forked(self) -> None:
        """Let go of the lock's file, which the parent keeps."""
        self.folder.forked()

    def _refuse_closed(self) -> None:
        """Refuse whoever comes while it is closed. Called with the lock."""
        if self._closed is not None:
            raise InputError(self._closed)

    # --- deciding --------------------------------------------------------------------------------------------------

    def decide(self, x: Any, given: str | None, asked: AskedTerms) -> Decision:
        """Decide on one x. An id that was decided before is answered as then."""
        self._be_ready()
        commits = self.commits
        with commits.lock:
            identity = self._ids.new() if given is None else checked_identity(given)
            made = decided(self.served, x, commits.next, identity, self.clock.now(), asked, self._max_values)
            known = None if given is None else self._known.find(identity)
            if known is None:
                group = self._add((made,))
            else:
                self._refuse_other(known, made)
                group, made = None, known
        commits.settle(group)
        return made.decision

    def decide_many(self, xs: Sequence[Any], ids: Sequence[str | None], asked: AskedTerms) -> list[Decision]:
        """Decide on many x, all or none."""
        self._be_ready()
        commits, made, fresh = self.commits, list[Made](), dict[str, Made]()
        with commits.lock:
            now = self.clock.now()
            for place, (x, given) in enumerate(zip(xs, ids, strict=True)):
                identity = self._ids.new() if given is None else checked_identity(given)
                try:
                    one = decided(self.served, x, commits.next + len(fresh), identity, now, asked, self._max_values)
                except OnebitError as error:
                    raise InvalidError(f"row {place}: {error}") from None
                known = None if given is None else fresh.get(identity) or self._known.find(identity)
                if known is None:
                    fresh[identity] = one
                else:
                    self._refuse_other(known, one)
                made.append(known or one)
            group = self._add(tuple(fresh.values())) if fresh else None
        commits.settle(group)
        return [one.decision for one in made]

    def _add(self, made: Sequence[Made]) -> Group:
        """Add the rows of decisions, and remember them."""
        self._refuse_closed()
        commits = self.commits
        try:
            for one in made:
                group = commits.add("decisions", one.row)
                self._known.add(one)
        except BaseException:
            commits.broken = True
            raise
        return group

    def _refuse_other(self, known: Made, asked: Made) -> None:
        """Refuse an id that was decided for something else."""
        (decision, new), old = asked, known.row
        index = self.served.class_indices
        places = None if decision.among is None else tuple(index[name] for name in decision.among)
        among = None if old[AMONG] is None else classes_in(old[AMONG]).tolist()
        then = old[X], len(old[PROBABILITIES]) // 8, among, bool(old[COMPLETE])
        refuse_other(self.served, old[2], *then, Ask(new[X], RequestTerms(places, decision.complete)))

    # --- hearing ---------------------------------------------------------------------------------------------------

    def hear(self, request: FeedbackRequest) -> Answer:
        """Record what is said of a decision, and learn it; refuse what is unknown, or contradicts what was said before."""
        self._be_ready()
        refuse_mixed((request,), True)
        self._have_in_reach((request,))
        served, commits, group = self.served, self.commits, None
        with commits.lock:
            word, entry = self._prepared(request, "")
            now = self.clock.now()
            status, message = judged(served, request, word, entry, now)
            if entry is None:
                refuse_forgotten(self.reader, served.info, [request.id])
            refuse_alone(status, message, request)
            if status in WRITTEN:
                assert entry is not None
                heard = Noted.nothing()
                heard.note(served.info, request, word, entry, status, now)
                group = self._add_heard(heard)
        commits.settle(group)
        return request.id, status, message

    def hear_many(self, requests: Sequence[FeedbackRequest]) -> list[Answer]:
        """Record what is said of many decisions; what is unknown, or a contradiction, is an answer."""
        self._be_ready()
        refuse_mixed(requests, False)
        self._have_in_reach(requests)
        served, commits, answers, heard = self.served, self.commits, list[Answer](), Noted.nothing()
        with commits.lock:
            prepared = [self._prepared(request, f"[{index}].") for index, request in enumerate(requests)]
            now = self.clock.now()
            for request, (word, entry) in zip(requests, prepared, strict=True):
                status, message = judged(served, request, word, entry, now)
                if status in WRITTEN:
                    assert entry is not None
                    heard.note(served.info, request, word, entry, status, now)
                answers.append((request.id, status, message))
            group = self._add_heard(heard)
        commits.settle(group)
        return answers

    def _have_in_reach(self, requests: Sequence[FeedbackRequest]) -> None:
        """What is not held is found in the log, if it is written."""
        for request in requests:
            if request.id not in self._known:
                if self.commits.waiting:
                    with self.whole():
                        pass
                return

    def _prepared(self, request: FeedbackRequest, where: str) -> tuple[Word | None, Entry | None]:
        """What is said, in numbers, and what is known of the decision. What cannot be read is noticed before anything is changed."""
        word, entry = word_of(self.served, request, where), self._known.entry(request.id)
        if entry is not None:
            row = self._known.made(request.id).row
            if word is not None:
                refuse_shown(entry.mode, request, where)
                if word.truth is not None:
                    word = compared(self.served.info, request, word, row[LABEL], row[AMONG], where)
        return word, entry

    def _add_heard(self, heard: Noted) -> Group | None:
        """Add what was noted, and learn it, or have it learnt when it is on disk."""
        self._refuse_closed()
        commits, group = self.commits, None
        try:
            for row, place, identity in zip(heard.feedback, heard.places, heard.answered, strict=True):
                place.seq = commits.next
                said = Said(self._known.made(identity), (place.seq, *row))
                group = commits.add("feedback", said.row)
                group.then.append(said)
                if commits.soon:
                    self.learn(said)
            for row in heard.revisions:
                group = commits.add("revisions", (commits.next, *row))
        except BaseException:
            commits.broken = True
            raise
        return group

    def learn(self, said: Said) -> None:
        """Learn a feedback, if it is one that is learnt."""
        follower, (made, row) = self.served.follower, said
        right, late, learn, shown, _, reward, truth = row[5:]
        if late or not learn:
            return
        replicas = follower.replicas
        if shown is not None or made.row[GENERATION] != replicas.generation:
            follower.learn([event_of(made.row, row, self.served.info.inputs)])
            return
        learner = replicas.resting
        try:
            if truth is not None:
                learner.learn(made.decision, truth=self.served.info.classes[truth])
            elif reward is not None:
                learner.learn(made.decision, reward=reward)
            else:
                learner.learn(made.decision, bool(right))
        except OnebitError:  # as when it is learnt from the log
            follower.statistics.refused(1)

    def sweep(self) -> None:
        """Answer for those who were silent until the deadline."""
        info, more = self.served.info, awaits_silence(self.served.info)
        while more:
            heard = Noted.nothing()
            with self.whole():
                now = self.clock.now()
                assert info.deadline_s is not None
                due = self.reader.due(info.expected, self.served.swept, now - info.deadline_s, SWEPT, self.clock.made)
                swept = heard.note_silence(info, due, {one: self._known.entry(one) for _, one, _ in due}, now)
                for identity in heard.answered:
                    self._known.made(identity)
                group = self._add_heard(heard)
            if group is not None:
                self.commits.settle(group)
            self.served.swept = max(self.served.swept, swept)
            more = len(due) == SWEPT

    # --- changes ---------------------------------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Write a change of the task, and make it: it holds when this returns."""
        with self.whole():
            check_change(self.served, change, self.folder.settings.max_task_memory)
            self._log_change("changed", given_in(change))
        self.commits.sync()

    def switch(self, new: NewLearner) -> None:
        """Train another learner from the log, on this thread, while others decide; it decides when this returns."""
        if not self._switching.acquire(blocking=False):
            raise ConflictError(f"another learner is being trained for task {self.served.info.name!r} already")
        try:
            self._be_ready()
            self._switch(new)
        finally:
            self._switching.release()
        self.commits.sync()

    def _switch(self, new: NewLearner) -> None:
        served, commits = self.served, self.commits
        expected, inputs = served.info.expected, served.info.inputs
        detail = switch_of(served.info, new, self.folder.settings.max_task_memory)
        with closing(self.folder.store.reader()) as reader:
            learner = Compiler(apart=False).learner(detail, first_classes(reader, expected), inputs)
            trainee = Trainee(learner, expected)
            try:
                for _ in trainee.approach(reader, lambda: commits.last):
                    pass
            except BadRecordError as error:
                raise InvalidError(f"{new.learner} cannot be trained from the log: {error}", "learner") from None
        with self.whole():
            # There may be more classes by now, and fewer that are played.
            learner_of(detail, served.info.classes, inputs)
            refuse_rule(learner, served.info.retired, "learner")
            served.follower.trainees[detail["generation"]] = trainee
            seq = self._log_change("learner", detail)
        self.folder.learner_thread.tell(seq, {(served.info.number, "changes"): 0})  # a snapshot is due

    def _log_change(self, kind: str, detail: dict[str, Any]) -> int:
        """Write a change, which holds then; its number. Called by whoever has everything whole."""
        self._refuse_closed()
        served = self.served
        seq, now = self.folder.log_change(served.info.number, kind, detail)
        try:
            served.follower.follow(self.reader, seq, {"changes"})
            served.info.apply(seq, now, kind, detail)
            served.name_classes()
            if "silence" in detail or "deadline_s" in detail:
                served.swept = seq
        except BaseException:
            self.commits.broken = True
            raise
        return seq

    # --- what follows from the log -----------------------------------------------------------------------------------

    def count(self, played: Sequence[Played], events: Sequence[Event], revisions: int, last: int) -> None:
        """Count rows that are in the log now, and so many revisions, up to a position."""
        follower = self.served.follower
        follower.count(played, events, last)
        if revisions:
            follower.records += follower.revisions.hear(self.reader, last, last)
        else:
            follower.revisions.horizon = last

    @property
    def is_due(self) -> bool:
        """Whether the learner thread has something to do: to keep a snapshot, or to have learnt what was revised."""
        follower, every = self.served.follower, self.folder.settings.snapshot_every
        return follower.revised_from is not None or follower.records - follower.records_at_snapshot >= every

    def remember_nothing(self) -> None:
        """What is known of decisions is read from the log again."""
        self._known.clear()

    def follow_again(self) -> None:
        """Make the learner and all that is known again, from the log."""
        served, old, last = self.served, self.served.follower, self.commits.last
        info = self.reader.task(old.task, last)
        assert info is not None, "a task that is open is in the log"
        new = LogFollower.begun(info.expected, old.snapshots, self.reader, last, OneCopy)
        new.follow(self.reader, last)
        old.left = True
        served.info, served.follower = info, new
        served.name_classes()
        self.remember_nothing()

    def _be_ready(self) -> None:
        """Go on where somebody was interrupted, or where the log could not be written; refuse where that cannot be."""
        commits = self.commits
        if commits.failing is not None:
            commits.refuse_failing()
        if commits.broken:
            with self.folder.whole():
                pass
        failing = self.served.follower.failing
        if failing is not None:
            raise TaskSetAsideError(failing)
