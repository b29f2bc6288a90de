"""Deciding and hearing in this process: what `onebit.open` does for every call, on the caller's own thread.

    decide     check, decide, add the row
    feedback   find the decision, judge, add the row, learn

What is learnt is a function of the log: a feedback is learnt in the order in which rows are added, where that is `soon` when it is added, and
else when it is on disk, by whichever thread wrote it. So there is one copy of the learner, and after a feedback the next decision knows it.
Whoever is interrupted on the way leaves a learner behind of which nobody knows what it has learnt: it is made again from the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onebit.decision import Decision
from onebit.errors import OnebitError
from onebit.serve.clock import Clock
from onebit.serve.decide import Ask, refuse_other
from onebit.serve.errors import InvalidError, TaskSetAsideError, UnavailableError
from onebit.serve.group_commit import Group, GroupCommit, Keeper
from onebit.serve.ids import NewIds
from onebit.serve.inputs import classes_in
from onebit.serve.judging import (
    SWEPT,
    WRITTEN,
    Noted,
    awaits_silence,
    compared,
    judged,
    looked_up,
    refuse_alone,
    refuse_forgotten,
    refuse_mixed,
    refuse_shown,
    word_of,
)
from onebit.serve.learner_thread import LearnerThread
from onebit.serve.log.checks import BadRecordError
from onebit.serve.log.errors import LogError
from onebit.serve.log.reading import Reader
from onebit.serve.log.recent_rows import (
    AMONG,
    COMPLETE,
    GENERATION,
    LABEL,
    PROBABILITIES,
    X,
    event_of,
    played_of,
)
from onebit.serve.log.sqlite.appending import SqliteAppender
from onebit.serve.log.sqlite.store import SqliteStore
from onebit.serve.log_follower import LogFollower
from onebit.serve.made import (
    AskedTerms,
    Made,
    MadeDecisions,
    Said,
    checked_identity,
    decided,
    made_again,
)
from onebit.serve.open_cores import Answer
from onebit.serve.recent import Entry, Recent, Word
from onebit.serve.replicas import OneCopy
from onebit.serve.schemas import Change, FeedbackRequest
from onebit.serve.served_task import ServedTask
from onebit.serve.settings import Settings
from onebit.serve.task_changes import check_change, given_in
from onebit.serve.terms import RequestTerms

COUNTED = 256  # rows that are counted at a time, where nobody looks
CHORES_S = 0.5  # how often deadlines are looked after


class OpenCore:
    """One task of a folder that this process has."""

    def __init__(
        self,
        served: ServedTask,
        store: SqliteStore,
        appender: SqliteAppender,
        reader: Reader,
        clock: Clock,
        soon: bool,
        settings: Settings,
    ) -> None:
        self.served = served
        self.reader = reader
        self.commits = GroupCommit(appender, soon, self._written, self._dropped, self._caught_up)
        self.clock = clock
        self._store = store
        self._settings = settings
        self._max_values = settings.max_values
        self._recent, self._made = Recent(), MadeDecisions()
        self._ids = NewIds()
        self._uncounted: list[Group] = []
        self._waiting_to_count = 0  # rows of these
        self.learner_thread = LearnerThread(store, settings.snapshot_every, lambda: None, self.whole)
        self.learner_thread.followers[served.info.number] = served.follower
        self.appender = appender
        self.keeper = Keeper(self.commits, self._look_after, CHORES_S)

    # --- beginning and end -----------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """The path of the folder."""
        return self._store.name

    @property
    def log(self) -> Path:
        """The folder."""
        return self._settings.data

    def start(self) -> None:
        """Begin to write what nobody waits for, and to learn what was revised."""
        self.learner_thread.start()
        self.keeper.start()

    def flush(self) -> None:
        """Have everything on disk."""
        self.commits.sync()

    def close(self, why: str) -> None:
        """Have everything on disk, keep a snapshot, and let go of the folder; what is lost with it is said."""
        self.keeper.stop()
        lost = self.commits.close(why)
        self.learner_thread.stop()
        self.reader.close()
        self.appender.close()
        self._store.release()
        if lost:
            raise UnavailableError(
                f"rows of task {self.served.info.name!r} that are not in the log, and are lost: {lost}, since {self.commits.failing}"
            )

    def forked(self) -> None:
        """Let go of the lock's file, which the parent keeps."""
        self._store.forget()

    def _look_after(self) -> None:
        """What is done now and then: silence is an answer when the deadline has passed."""
        try:
            self.sweep()
        except BadRecordError as error:
            self.served.follower.set_aside(error)
        except (OnebitError, LogError):  # said to whoever comes next; it is tried again
            pass

    # --- deciding --------------------------------------------------------------------------------------------------

    def decide(self, x: Any, given: str | None, asked: AskedTerms) -> Decision:
        """Decide on one x. An id that was decided before is answered as then."""
        self._be_ready()
        commits = self.commits
        with commits.lock:
            identity = self._ids.new() if given is None else checked_identity(given)
            made = decided(self.served, x, commits.next, identity, self.clock.now(), asked, self._max_values)
            known = None if given is None else self._find(identity)
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
                known = None if given is None else fresh.get(identity) or self._find(identity)
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
        commits, info = self.commits, self.served.info
        try:
            for one in made:
                row = one.row
                group = commits.add("decisions", row)
                self._made.hold(row[2], one)
                self._recent.add(info.number, row[2], Entry(row[0], row[3], info.mode))
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
        if not all(request.id in self._made for request in requests) and self.commits.waiting:
            with self.whole():
                pass

    def _prepared(self, request: FeedbackRequest, where: str) -> tuple[Word | None, Entry | None]:
        """What is said, in numbers, and what is known of the decision. What cannot be read is noticed before anything is changed."""
        word, entry = word_of(self.served, request, where), self._entry(request.id)
        if entry is not None:
            row = self._found(request.id).row
            if word is not None:
                refuse_shown(entry.mode, request, where)
                if word.truth is not None:
                    word = compared(self.served.info, request, word, row[LABEL], row[AMONG], where)
        return word, entry

    def _add_heard(self, heard: Noted) -> Group | None:
        """Add what was noted, and learn it, or have it learnt when it is on disk."""
        commits, group = self.commits, None
        try:
            for row, place, identity in zip(heard.feedback, heard.places, heard.answered, strict=True):
                place.seq = commits.next
                said = Said(self._found(identity), (place.seq, *row))
                group = commits.add("feedback", said.row)
                group.then.append(said)
                if commits.soon:
                    self._learn(said)
            for row in heard.revisions:
                group = commits.add("revisions", (commits.next, *row))
        except BaseException:
            commits.broken = True
            raise
        return group

    def _learn(self, said: Said) -> None:
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

    def _entry(self, identity: str) -> Entry | None:
        """What is known of a decision, from memory or from the log."""
        info = self.served.info
        entry = self._recent.get(info.number, identity)
        if entry is None:
            entry = looked_up(info.expected, [identity], self.reader, self.clock).get(identity)
            if entry is not None:
                self._recent.add(info.number, identity, entry)
        return entry

    def _find(self, identity: str) -> Made | None:
        """A decision that was made, if it was."""
        made = self._made.get(identity)
        if made is None and self.reader.known(self.served.info, [identity]):
            logged = self.reader.decision(self.served.info, identity)
            assert logged is not None
            made = made_again(self.served.info, logged, self.served.follower.replicas.resting.runtime.identity)
            self._made.hold(identity, made)
        if made is None:
            refuse_forgotten(self.reader, self.served.info, [identity])
        return made

    def _found(self, identity: str) -> Made:
        made = self._find(identity)
        assert made is not None, "a decision that has an entry is in the log"
        return made

    def sweep(self) -> None:
        """Answer for those who were silent until the deadline."""
        info, more = self.served.info, awaits_silence(self.served.info)
        while more:
            heard = Noted.nothing()
            with self.whole():
                now = self.clock.now()
                assert info.deadline_s is not None
                due = self.reader.due(info.expected, self.served.swept, now - info.deadline_s, SWEPT, self.clock.made)
                swept = heard.note_silence(info, due, {one: self._entry(one) for _, one, _ in due}, now)
                for identity in heard.answered:
                    self._found(identity)
                group = self._add_heard(heard)
            if group is not None:
                self.commits.settle(group)
            self.served.swept = max(self.served.swept, swept)
            more = len(due) == SWEPT

    # --- what is on disk ---------------------------------------------------------------------------------------------

    def change(self, change: Change) -> None:
        """Write a change of the task, and make it: it holds when this returns."""
        served, commits, kind, detail = self.served, self.commits, "changed", given_in(change)
        info, follower = served.info, served.follower
        with self.whole():
            check_change(served, change, self._settings.max_task_memory)
            now, seq = self.clock.now(), commits.next
            commits.add("changes", (seq, info.number, now, kind, json.dumps(detail), None))
            commits.write()
            follower.follow(self.reader, seq, {"changes"})
            info.apply(seq, now, kind, detail)
            served.name_classes()
            if "silence" in detail or "deadline_s" in detail:
                served.swept = seq
        commits.sync()

    def _written(self, group: Group) -> None:
        """What follows from rows that are in the log now. A change is alone, and is made by whoever wrote it."""
        if group.rows["changes"]:
            return
        served, rows = self.served, group.rows
        follower = served.follower
        if not self.commits.soon:
            for said in group.then:
                self._learn(said)
        self._uncounted.append(group)
        self._waiting_to_count += group.count
        if rows["revisions"]:
            self._count()
            follower.records += follower.revisions.hear(self.reader, group.last, group.last)
        elif self._waiting_to_count >= COUNTED:
            self._count()
        is_due = follower.records - follower.records_at_snapshot >= self._settings.snapshot_every
        if is_due or follower.revised_from is not None:
            self.learner_thread.tell(group.last, {(served.info.number, "feedback"): 0})

    def _count(self) -> None:
        """Count what was written: many rows at once, which takes a tenth of the time."""
        served, groups = self.served, self._uncounted
        if not groups:
            return
        self._uncounted, self._waiting_to_count = [], 0
        played = [played_of(row) for group in groups for row in group.rows["decisions"]]
        events = [event_of(said.made.row, said.row, None) for group in groups for said in group.then]
        revisions = sum(len(group.rows["revisions"]) for group in groups)
        try:
            served.follower.count(played, events, groups[-1].last)
        except BaseException:
            self.commits.broken = True
            raise
        if not revisions:
            served.follower.revisions.horizon = groups[-1].last
        served.follower.told += len(played) + len(events) + revisions

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Everything is written and counted, and nobody adds anything meanwhile."""
        with self.commits.whole():
            self._count()
            yield

    def _dropped(self, group: Group) -> None:
        """Rows are not in the log after all: what is known of decisions is read from it again."""
        self._recent, self._made = Recent(), MadeDecisions()

    def _caught_up(self) -> None:
        self._count()
        self.served.follower.follow(self.reader, self.commits.last)

    def _be_ready(self) -> None:
        """Go on where somebody was interrupted, or where the log could not be written; refuse where that cannot be."""
        commits, served = self.commits, self.served
        if commits.failing is not None:
            commits.refuse_failing()
        if commits.broken:
            with commits.whole():
                self._follow_again()
        if served.follower.failing is not None:
            raise TaskSetAsideError(served.follower.failing)

    def _follow_again(self) -> None:
        """Make the learner and all that is known again, from the log."""
        served, old = self.served, self.served.follower
        new = LogFollower.begun(old.expected, old.snapshots, self.reader, self.commits.last, OneCopy)
        new.follow(self.reader, self.commits.last)
        served.follower = self.learner_thread.followers[served.info.number] = new
        served.follower.told = new.records
        self._recent, self._made = Recent(), MadeDecisions()
        self._uncounted, self._waiting_to_count = [], 0
        self.commits.broken = False
