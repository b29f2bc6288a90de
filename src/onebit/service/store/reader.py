"""Reading the log: single decisions, the newest ones, and everything new since a position."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onebit.service.store.cache import DecisionCache
from onebit.service.store.forgetting import Forgetting, hash_ids, name_values
from onebit.service.store.queries import (
    DECISION_HEADS,
    DECISIONS,
    EVENTS,
    LAST,
    REVISED_UPTO,
    REVISIONS,
    UNUSED_IN_LEARNING,
    AnsweredDecision,
    DecisionRecord,
    Event,
    GenerationCount,
    RowOfDecision,
    TaskChange,
    build_record,
    check_answered,
    check_columns,
    check_links,
    select_list,
)
from onebit.service.store.rows import (
    LATEST_TIME,
    NAMES,
    BadRecordError,
    ChangeRow,
    DecisionHead,
    DecisionRow,
    Expected,
    RevisionRow,
    Row,
)
from onebit.service.store.task_history import DamagedTask, fold_changes
from onebit.service.task import TaskInfo, read_detail

if TYPE_CHECKING:
    from onebit.service.store.postgres.database import PostgresDatabase
    from onebit.service.store.sqlite.schema import SqliteDatabase

Database: TypeAlias = "SqliteDatabase | PostgresDatabase"  # a connection for reading, used by one thread
Values = Sequence[Any] | Mapping[str, Any]
Mark = list[list[float] | None]  # seq and time of the last row of each table
NO_END = 2**62  # greater than the seq of any row
MOST_BYTES = 2**18  # of x and probabilities, in one page of the newest decisions
PAGE = 1000  # rows read at a time, so that a slow consumer does not block writers
PAGE_BYTES = 2**22  # of x and probabilities in a page


class Reader:
    """Queries of the log, for one thread; an invalid row raises BadRecordError."""

    def __init__(self, database: Database, recent: DecisionCache | None = None) -> None:
        self.database = database
        self._recent = recent  # the last rows that this process has written, if it writes

    def close(self) -> None:
        self.database.close()

    def tasks(self, upto: int = NO_END) -> tuple[list[TaskInfo], list[DamagedTask]]:
        """Return all tasks up to a position in order of creation, deleted ones too, and the damaged tasks.

        A damaged task is one whose changes cannot be read.
        """
        return fold_changes(self._stored_changes("seq <= ?", upto))

    def task(self, number: int, upto: int) -> TaskInfo | None:
        """Return a task at a position of the log; None if it did not exist or its changes are unreadable."""
        tasks, _ = fold_changes(self._stored_changes("task = ? AND seq <= ?", number, upto))
        return next(iter(tasks), None)

    def changes_after(self, seq: int) -> list[ChangeRow]:
        """Return the changes of all tasks after a position."""
        return self._stored_changes("seq > ?", seq)

    def _stored_changes(self, condition: str, *values: int) -> list[ChangeRow]:
        query = f"SELECT {select_list(ChangeRow, 'changes')} FROM changes WHERE {condition} ORDER BY seq"
        return list(map(ChangeRow._make, self.database.rows(query, values)))

    def last_change(self) -> int:
        """Return the seq of the last change of any task, or 0."""
        return self._value("SELECT max(seq) FROM changes") or 0

    def count_tasks(self, token: str) -> int:
        """Return how many tasks created with this token are not deleted."""
        query = (
            "SELECT count(DISTINCT task) FROM changes WHERE kind = 'created' AND token = ? "
            "AND task NOT IN (SELECT task FROM changes WHERE kind = 'deleted')"
        )
        return int(self._value(query, (token,)))

    def mark(self, task: int, position: int, revised: int) -> Mark | None:
        """Return the last row of each table of a task; None if the log is shorter.

        Revisions count up to `revised`, other rows up to `position`.
        """
        if max(position, revised) > self.last():
            return None
        marks: Mark = []
        for table in NAMES:
            rows = self.database.rows(
                f"SELECT seq, time FROM {table} WHERE task = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
                (task, revised if table == "revisions" else position),
            )
            marks.append(list(rows[0]) if rows else None)
        return marks

    def changes(self, of: Expected, after: int, upto: int) -> list[TaskChange]:
        """Return the changes of a task in (`after`, `upto`]."""
        changes = []
        for row in self._stored_changes("task = ? AND seq > ? AND seq <= ?", of.task, after, upto):
            try:
                changes.append(TaskChange(row.seq, row.kind, read_detail(row.kind, row.detail)))
            except ValueError as error:
                raise BadRecordError(of.name, "changes", row.seq, str(error)) from None
        return changes

    def played(self, of: Expected, after: int, upto: int, most: int) -> list[DecisionHead]:
        """Return up to `most` decisions of a task, for statistics.

        Class indices are not checked.
        """
        recent = None if self._recent is None else self._recent.played(of.task, after, upto, most)
        if recent is not None:
            return recent
        rows = self.database.rows(
            f"SELECT {select_list(DecisionHead)} FROM decisions d WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            (of.task, after, upto, most),
        )
        heads = list(map(DecisionHead._make, rows))
        of.check("decisions", heads, without=UNUSED_IN_LEARNING)
        return heads

    def events(
        self, of: Expected, after: int, upto: int, most: int, revised: int | None = None
    ) -> tuple[list[Event], bool]:
        """Return feedbacks of a task with their decisions, and True if there may be more.

        At most `most`, and fewer if they are large; as revised up to `revised` (by default `upto`). Class indices are not checked against the
        classes of the task.
        """
        recent = None if self._recent is None else self._recent.events(of, after, upto, most, revised or upto)
        if recent is not None:
            return recent
        values = {"task": of.task, "after": after, "upto": upto, "most": most, "revised": revised or upto}
        answered = self._answered(EVENTS, values, PAGE_BYTES)
        check_links(of, "feedback", [(row.feedback, row.decision.task) for row in answered if row.feedback])
        check_links(of, "revisions", [(row.revision, row.revision.task) for row in answered if row.revision])
        check_columns(of, answered, without=UNUSED_IN_LEARNING)
        events = [
            Event.of(row.decision, row.feedback, row.revision, x)
            for row, x in zip(answered, of.read([row.decision for row in answered]), strict=True)
            if row.feedback is not None
        ]
        return events, len(events) == most or sum(map(_size, answered)) > PAGE_BYTES

    def find_decisions(self, info: TaskInfo, ids: Sequence[str]) -> list[AnsweredDecision[DecisionHead]]:
        """Return the heads of decisions by id, one row per feedback, or a single row without feedback."""
        placeholders, named_ids = name_values(ids)
        values = {"task": info.number, "upto": NO_END, **named_ids}
        rows = self.database.rows(f"{DECISION_HEADS} AND d.id IN ({placeholders})", values)
        answered = [AnsweredDecision.from_row(DecisionHead, row) for row in rows]
        check_answered(info, answered)
        return answered

    def revised(self, of: Expected, after: int, upto: int, most: int) -> list[RevisionRow]:
        """Return up to `most` revisions of a task in (`after`, `upto`]."""
        revisions = list(map(RevisionRow._make, self.database.rows(REVISIONS, (of.task, after, upto, most))))
        check_links(of, "revisions", [(row, row.task) for row in revisions])
        of.check("revisions", revisions)
        return revisions

    def is_revised(self, task: int, position: int, after: int, upto: int) -> bool:
        """Return True if feedback up to `position` was revised in (`after`, `upto`]."""
        query = "SELECT EXISTS (SELECT 1 FROM revisions WHERE task = ? AND seq > ? AND seq <= ? AND feedback <= ?)"
        return bool(self._value(query, (task, after, upto, position)))

    def decision_rows(self, info: TaskInfo, ids: Sequence[str]) -> list[DecisionRow]:
        """Return the rows of the decisions with these ids."""
        placeholders, named_ids = name_values(ids)
        query = f"SELECT {select_list(DecisionRow)} FROM decisions d WHERE task = :task AND id IN ({placeholders})"
        decisions = list(map(DecisionRow._make, self.database.rows(query, {"task": info.number, **named_ids})))
        check_answered(info, [AnsweredDecision(row, None, None) for row in decisions])
        return decisions

    def find_due(
        self, of: Expected, after: int, decided_upto: float, most: int, date_row: Callable[[int, float], float]
    ) -> list[DecisionHead]:
        """Return decisions after a seq, up to the first one made after `decided_upto`.

        At most `most`; `date_row` returns the time of a row from its seq and stored time.
        """

        def take_due(rows: Iterator[Any]) -> list[Any]:
            heads = map(DecisionHead._make, rows)
            return list(itertools.takewhile(lambda head: date_row(head.seq, head.time) <= decided_upto, heads))

        query = f"SELECT {select_list(DecisionHead)} FROM decisions d WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
        due: list[Any] = self.database.rows(query, (of.task, after, most), take_due)
        of.check("decisions", due)
        return due

    def first_unanswered(self, task: int, after: int) -> int | None:
        """Return the first decision after a seq that has no feedback in time, or None."""
        query = (
            "SELECT seq FROM decisions d WHERE task = ? AND seq > ? AND NOT EXISTS "
            "(SELECT 1 FROM feedback f WHERE f.decision = d.seq AND f.late = 0) ORDER BY seq LIMIT 1"
        )
        seq: int | None = self._value(query, (task, after))
        return seq

    def decision(self, info: TaskInfo, identity: str) -> DecisionRecord | None:
        """Return a decision by its id, or None."""
        return next(iter(self._logged(info, "d.id = :id", id=identity)), None)

    def newest(self, info: TaskInfo, limit: int, before: int | None) -> list[DecisionRecord]:
        """Return the newest decisions of a task, before a seq if given; fewer if they are large."""
        condition = "d.seq < :before ORDER BY d.seq DESC LIMIT :most"
        return self._logged(info, condition, before=NO_END if before is None else before, most=limit)

    def generations(self, task: int, upto: int) -> list[GenerationCount]:
        """Return how many feedbacks count for the decisions of each generation."""
        rows = self.database.rows(
            "SELECT d.generation, (CASE WHEN r.seq IS NULL THEN f.shown ELSE r.shown END) IS NOT NULL, count(*) FROM feedback f "
            f"JOIN decisions d ON d.seq = f.decision {REVISED_UPTO.format(end='upto')} WHERE f.task = :task "
            f"AND f.seq <= :upto AND f.late = 0 AND (r.seq IS NULL OR r.right IS NOT NULL) GROUP BY 1, 2 ORDER BY 1, 2",
            {"task": task, "upto": upto},
        )
        return [GenerationCount(generation, bool(shown), count) for generation, shown, count in rows]

    def decisions_after(
        self,
        info: TaskInfo,
        after: int,
        upto: int,
        most: int,
        since: float = -math.inf,
        before: float = math.inf,
    ) -> list[DecisionRecord]:
        """Return decisions of a task in (`after`, `upto`], as they were at `upto`; fewer if they are large.

        Only those made in [`since`, `before`).
        """
        condition = (
            "d.seq > :after AND d.seq <= :upto AND d.time >= :since AND d.time < :before ORDER BY d.seq LIMIT :most"
        )
        values = {"after": after, "upto": upto, "most": most, "since": since, "before": before}
        return self._logged(info, condition, PAGE_BYTES, **values)

    def pages(self, query: str, last: int) -> Iterator[list[Row]]:
        """Yield the rows of a query up to row `last`, in order, one page at a time.

        The query must end with the name of its column `seq`, which must also be the first column that it selects.
        """
        after, (_, _, seq) = -NO_END, query.rpartition(" ")
        page = f"{query} > ? AND {seq} <= ? ORDER BY {seq} LIMIT ?"
        while rows := self.database.rows(page, (after, last, PAGE)):
            yield rows
            after, *_ = rows[-1]

    def earliest(self, task: int) -> float | None:
        """Return the earliest time of a decision of a task, or None."""
        time: float | None = self._value("SELECT min(time) FROM decisions WHERE task = ?", (task,))
        return time

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """Return the first and last seq of the rows to forget, or None if there are none."""
        [(first, last)] = self.database.rows(order.span, order.values)
        return None if first is None else (first, last)

    def rows_after(self, task: int, after: int, upto: int, most: int) -> list[RowOfDecision]:
        """Return rows of a task in (`after`, `upto`], each with the decision it belongs to.

        Feedback and revisions are included.
        """
        query = (
            "SELECT seq, seq AS decision FROM decisions WHERE task = :task AND seq > :after AND seq <= :upto UNION ALL "
            "SELECT seq, decision FROM feedback WHERE task = :task AND seq > :after AND seq <= :upto UNION ALL "
            "SELECT r.seq, f.decision FROM revisions r JOIN feedback f ON f.seq = r.feedback "
            "WHERE r.task = :task AND r.seq > :after AND r.seq <= :upto ORDER BY 1 LIMIT :most"
        )
        values = {"task": task, "after": after, "upto": upto, "most": most}
        return list(map(RowOfDecision._make, self.database.rows(query, values)))

    def base(self, task: int) -> bytes | None:
        """Return the learner state kept for forgotten rows, from which a task is followed, or None."""
        state: bytes | None = self._value("SELECT state FROM bases WHERE task = ?", (task,))
        return state

    def forgotten(self, info: TaskInfo, ids: Sequence[str]) -> list[str]:
        """Return the ids whose decisions were forgotten."""
        if not info.forgotten_at:
            return []
        key = bytes(self._value("SELECT key FROM erasure"))
        forgotten = []
        for start in range(0, len(ids), PAGE):
            hashes = dict(zip(hash_ids(key, ids[start : start + PAGE]), ids[start : start + PAGE], strict=True))
            query = f"SELECT hash FROM forgotten WHERE task = ? AND hash IN ({', '.join('?' * len(hashes))})"
            forgotten += [hashes[bytes(hash_)] for (hash_,) in self.database.rows(query, (info.number, *hashes))]
        return forgotten

    def last(self) -> int:
        """Return the seq of the last row."""
        return int(self._value(LAST))

    def last_time(self) -> float:
        """Return the time of the last row with a valid time, or 0."""
        condition = "WHERE time BETWEEN ? AND ? ORDER BY seq DESC LIMIT 1"
        ends = (-LATEST_TIME, LATEST_TIME)
        newest = [self.database.rows(f"SELECT seq, time FROM {name} {condition}", ends) for name in NAMES]
        _, time = max(itertools.chain(*newest), default=(0, 0.0))
        return float(time)

    def count(self, task: int, upto: int) -> int:
        """Return how many decisions a task has up to a position."""
        return int(self._value("SELECT count(*) FROM decisions WHERE task = ? AND seq <= ?", (task, upto)))

    def _value(self, query: str, values: Values = ()) -> Any:
        """Return the value that a query selects; None if there is no row."""
        return next((value for (value,) in self.database.rows(query, values)), None)

    def _logged(
        self, info: TaskInfo, condition: str, most_bytes: int = MOST_BYTES, **values: Any
    ) -> list[DecisionRecord]:
        """Return the decisions of a task that meet a condition, up to a size."""
        values = {"task": info.number, "upto": NO_END, **values}
        answered = self._answered(f"{DECISIONS} AND {condition}", values, most_bytes)
        check_answered(info, answered)
        xs = info.expected.read([row.decision for row in answered])
        return [build_record(info, row, x) for row, x in zip(answered, xs, strict=True)]

    def _answered(self, query: str, values: Values, most_bytes: int) -> list[AnsweredDecision[DecisionRow]]:
        """Return the rows of a query until they exceed `most_bytes`."""

        def take_page(rows: Iterator[Any]) -> list[Any]:
            answered, size = [], 0
            for row in rows:
                answered.append(AnsweredDecision.from_row(DecisionRow, row))
                size += _size(answered[-1])
                if size > most_bytes:
                    break
            return answered

        answered: list[Any] = self.database.rows(query, values, take_page)
        return answered


def _size(row: AnsweredDecision[DecisionRow]) -> int:
    """Return the bytes of the probabilities and x of a decision; both are None if it is missing."""
    return len(row.decision.probabilities or b"") + len(row.decision.x or b"")
