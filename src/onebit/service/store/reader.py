"""Reading the log: single decisions, the newest ones, and everything new since a position."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onebit.service.store.cache import DecisionCache
from onebit.service.store.forgetting import Forgetting, hash_ids, name_values
from onebit.service.store.queries import (
    DECISIONS,
    EVENTS,
    FOUND,
    LAST,
    REVISED_UPTO,
    REVISIONS,
    AnsweredDecision,
    DecisionRecord,
    DecisionSummary,
    Event,
    GenerationCount,
    RowOfDecision,
    TaskChange,
    build_record,
    check_answered,
    check_decisions,
    check_events,
    check_links,
    check_revisions,
    select_list,
)
from onebit.service.store.rows import (
    LATEST,
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
PAGE = 1000  # rows read at a time, so that a slow consumer blocks nobody
PAGE_BYTES = 2**22  # of x and probabilities in a page


class Reader:
    """Queries on the log, used by one thread. A row that onebit cannot have written raises BadRecordError."""

    def __init__(self, database: Database, recent: DecisionCache | None = None) -> None:
        self.database = database
        self._recent = recent  # has the last rows that this process has written, if it writes

    def close(self) -> None:
        self.database.close()

    def tasks(self, upto: int = NO_END) -> tuple[list[TaskInfo], list[DamagedTask]]:
        """Return all tasks up to a position in order of creation, deleted ones too, and the damaged tasks.

        A damaged task is one whose changes cannot be read.
        """
        return fold_changes(self._stored_changes("seq <= ?", upto))

    def task(self, number: int, upto: int) -> TaskInfo | None:
        """Return a task at a position of the log; None if it did not exist or its changes are unreadable."""
        return next(iter(fold_changes(self._stored_changes("task = ? AND seq <= ?", number, upto))[0]), None)

    def changes_after(self, seq: int) -> list[ChangeRow]:
        """Return the changes of all tasks after a position."""
        return self._stored_changes("seq > ?", seq)

    def _stored_changes(self, condition: str, *values: int) -> list[ChangeRow]:
        query = f"SELECT {select_list(ChangeRow, 'changes')} FROM changes WHERE {condition} ORDER BY seq"
        return list(map(ChangeRow._make, self.database.rows(query, values)))

    def last_change(self) -> int:
        """Return the seq of the last change of any task, or 0."""
        return int(self.database.rows("SELECT max(seq) FROM changes")[0][0] or 0)

    def count_tasks(self, token: str) -> int:
        """Return how many tasks created with this token are not deleted."""
        query = (
            "SELECT count(DISTINCT task) FROM changes WHERE kind = 'created' AND token = ? "
            "AND task NOT IN (SELECT task FROM changes WHERE kind = 'deleted')"
        )
        return int(self.database.rows(query, (token,))[0][0])

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

    def played(self, of: Expected, after: int, upto: int, most: int) -> list[DecisionSummary]:
        """Return up to `most` decisions of a task, for statistics.

        Class indices are not checked.
        """
        recent = None if self._recent is None else self._recent.played(of.task, after, upto, most)
        if recent is not None:
            return recent
        rows = self.database.rows(
            f"SELECT {select_list(DecisionSummary)} FROM decisions d WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            (of.task, after, upto, most),
        )
        played = list(map(DecisionSummary._make, rows))
        of.check("decisions", played)
        return played

    def events(
        self, of: Expected, after: int, upto: int, most: int, revised: int | None = None
    ) -> tuple[list[Event], bool]:
        """Return feedbacks of a task with their decisions, and whether there may be more.

        At most `most`, and fewer if they are large; as revised up to `revised` (by default `upto`). Class indices are not checked against the
        classes of the task.
        """
        recent = None if self._recent is None else self._recent.events(of, after, upto, most, revised or upto)
        if recent is not None:
            return recent
        values = {"task": of.task, "after": after, "upto": upto, "most": most, "revised": revised or upto}
        answered, has_more = self._answered(EVENTS, values, PAGE_BYTES)
        check_links(of, answered)
        events = [
            Event.of(one.decision, one.feedback, one.revision, x)
            for one, x in zip(answered, of.read([one.decision for one in answered]), strict=True)
            if one.feedback is not None
        ]
        check_events(of, events)
        return events, has_more or len(events) == most

    def find_decisions(self, info: TaskInfo, ids: Sequence[str]) -> list[AnsweredDecision[DecisionHead]]:
        """Return what is needed to check feedback on these ids: one row per feedback, or one if none."""
        marks, names = name_values(ids)
        values = {"task": info.number, "upto": NO_END, **names}
        rows = self.database.rows(f"{FOUND} AND d.id IN ({marks})", values)
        answered = [AnsweredDecision.from_row(DecisionHead, row) for row in rows]
        check_answered(info, answered)
        return answered

    def revised(self, of: Expected, after: int, upto: int, most: int) -> list[RevisionRow]:
        """Return up to `most` revisions of a task in (`after`, `upto`]."""
        revisions = list(map(RevisionRow._make, self.database.rows(REVISIONS, (of.task, after, upto, most))))
        check_revisions(of, revisions)
        return revisions

    def is_revised(self, task: int, position: int, after: int, upto: int) -> bool:
        """Return True if feedback up to `position` was revised in (`after`, `upto`]."""
        query = "SELECT EXISTS (SELECT 1 FROM revisions WHERE task = ? AND seq > ? AND seq <= ? AND feedback <= ?)"
        return bool(self.database.rows(query, (task, after, upto, position))[0][0])

    def decision_rows(self, info: TaskInfo, ids: Sequence[str]) -> list[DecisionRow]:
        """Return the rows of the decisions with these ids."""
        marks, names = name_values(ids)
        query = f"SELECT {select_list(DecisionRow)} FROM decisions d WHERE task = :task AND id IN ({marks})"
        decisions = list(map(DecisionRow._make, self.database.rows(query, {"task": info.number, **names})))
        check_decisions(info, decisions)
        return decisions

    def find_due(
        self, of: Expected, after: int, decided_before: float, most: int, date_row: Callable[[int, float], float]
    ) -> list[DecisionHead]:
        """Return decisions after a seq, up to the first one made after `decided_before`.

        At most `most`; `date_row` returns the time of a row from its seq and stored time.
        """

        def page(rows: Iterator[Any]) -> list[Any]:
            due = map(DecisionHead._make, rows)
            return list(itertools.takewhile(lambda head: date_row(head.seq, head.time) <= decided_before, due))

        query = f"SELECT {select_list(DecisionHead)} FROM decisions d WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
        due: list[Any] = self.database.rows(query, (of.task, after, most), page)
        of.check("decisions", due)
        return due

    def first_unanswered(self, task: int, after: int) -> int | None:
        """Return the first decision after a seq that has no feedback in time, or None."""
        rows = self.database.rows(
            "SELECT seq FROM decisions d WHERE task = ? AND seq > ? AND NOT EXISTS "
            "(SELECT 1 FROM feedback f WHERE f.decision = d.seq AND f.late = 0) ORDER BY seq LIMIT 1",
            (task, after),
        )
        return int(rows[0][0]) if rows else None

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

        The query must end with the name of the column of the number, which is also the first that it selects.
        """
        after, number = -NO_END, query.rpartition(" ")[2]
        page = f"{query} > ? AND {number} <= ? ORDER BY {number} LIMIT ?"
        while rows := self.database.rows(page, (after, last, PAGE)):
            yield rows
            after = rows[-1][0]

    def earliest(self, task: int) -> float | None:
        """Return the earliest time of a decision of a task, or None."""
        earliest = self.database.rows("SELECT min(time) FROM decisions WHERE task = ?", (task,))[0][0]
        return None if earliest is None else float(earliest)

    def span(self, order: Forgetting) -> tuple[int, int] | None:
        """Return the first and last seq of the rows to forget, or None if there are none."""
        first, last = self.database.rows(order.span, order.values)[0]
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
        rows = self.database.rows("SELECT state FROM bases WHERE task = ?", (task,))
        return bytes(rows[0][0]) if rows else None

    def forgotten(self, info: TaskInfo, ids: Sequence[str]) -> list[str]:
        """Return the ids whose decisions were forgotten."""
        if not info.forgotten_at:
            return []
        key = bytes(self.database.rows("SELECT key FROM erasure")[0][0])
        forgotten = []
        for start in range(0, len(ids), PAGE):
            hashes = dict(zip(hash_ids(key, ids[start : start + PAGE]), ids[start : start + PAGE], strict=True))
            query = f"SELECT hash FROM forgotten WHERE task = ? AND hash IN ({', '.join('?' * len(hashes))})"
            forgotten += [hashes[bytes(row[0])] for row in self.database.rows(query, (info.number, *hashes))]
        return forgotten

    def last(self) -> int:
        """Return the seq of the last row."""
        return int(self.database.rows(LAST)[0][0])

    def last_time(self) -> float:
        """Return the time of the last row with a valid time, or 0."""
        newest = "WHERE time BETWEEN ? AND ? ORDER BY seq DESC LIMIT 1"
        found = [self.database.rows(f"SELECT seq, time FROM {name} {newest}", (-LATEST, LATEST)) for name in NAMES]
        return float(max(itertools.chain(*found), default=(0, 0.0))[1])

    def count(self, task: int, upto: int) -> int:
        """Return how many decisions a task has up to a position."""
        rows = self.database.rows("SELECT count(*) FROM decisions WHERE task = ? AND seq <= ?", (task, upto))
        return int(rows[0][0])

    def _logged(
        self, info: TaskInfo, condition: str, most_bytes: int = MOST_BYTES, **values: Any
    ) -> list[DecisionRecord]:
        """Return the decisions of a task that meet a condition, up to a size."""
        values = {"task": info.number, "upto": NO_END, **values}
        answered, _ = self._answered(f"{DECISIONS} AND {condition}", values, most_bytes)
        check_answered(info, answered)
        xs = info.expected.read([row.decision for row in answered])
        return [build_record(info, row, x) for row, x in zip(answered, xs, strict=True)]

    def _answered(
        self, query: str, values: Values, most_bytes: int
    ) -> tuple[list[AnsweredDecision[DecisionRow]], bool]:
        """Return the rows of a query until they exceed `most_bytes`, and whether there are more."""
        has_more = False

        def page(rows: Iterator[Any]) -> list[Any]:
            nonlocal has_more
            taken = list(_within_bytes((AnsweredDecision.from_row(DecisionRow, row) for row in rows), most_bytes))
            has_more = next(rows, None) is not None
            return taken

        answered: list[Any] = self.database.rows(query, values, page)
        return answered, has_more


def _within_bytes(rows: Iterable[Any], most: int) -> Iterator[Any]:
    """Yield rows until the probabilities and x of their decisions exceed `most` bytes."""
    size = 0
    for row in rows:
        yield row
        # Both are None if the decision is missing, which is checked later.
        size += len(row.decision.probabilities or b"") + len(row.decision.x or b"")
        if size > most:
            return
