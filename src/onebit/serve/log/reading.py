"""Reading the log: one decision, the newest, what is new since a position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from onebit.serve.log.checks import ID, MODE, SOURCE, TIME, BadRecordError, Expected, or_none
from onebit.serve.log.database import Database, Row
from onebit.serve.log.folding import DamagedTask, folded
from onebit.serve.log.id_hash import hashed
from onebit.serve.log.recent_rows import RecentRows
from onebit.serve.log.records import (
    CHANGES,
    DECIDED,
    DECISION_SEQ,
    DECISIONS,
    EVENTS,
    HEARD,
    KNOWN,
    LAST_WORD,
    NOT_WITHDRAWN,
    PLAYED,
    REVISED_UPTO,
    REVISIONS,
    X_COLUMN,
    Event,
    Logged,
    Played,
    check_known,
    check_logged,
    check_offers,
    check_pairs,
    check_revisions,
    logged,
)
from onebit.serve.log.tables import NAMES
from onebit.serve.tasks import TaskInfo, read_detail

Mark = list[list[float] | None]  # the seq and the time of the last row of each table
NO_END = 2**62  # a seq that no row has
MOST_BYTES = 2**18  # of x and the probabilities, in one look at the newest
PROBABILITIES = 12  # their column in a row of a decision; that of x is the next
PAGE = 1000  # rows that are read at a time, so that a slow reader holds nothing up
PAGE_BYTES = 2**22  # of x and the probabilities in them


class Reader:
    """A connection that reads. Used by one thread. A row that cannot be what was written raises BadRecordError."""

    def __init__(self, database: Database, recent: RecentRows | None = None) -> None:
        self.database = database
        self._recent = recent  # what this process has written, if it writes

    def close(self) -> None:
        """Let go of the log."""
        self.database.close()

    def tasks(self, upto: int = NO_END) -> tuple[list[TaskInfo], list[DamagedTask]]:
        """All tasks, deleted ones too, in the order in which they were created, as the changes have left them.

        And those whose changes cannot be read.
        """
        return folded(self.database.rows(f"{CHANGES} WHERE seq <= ? ORDER BY seq", (upto,)))

    def task(self, number: int, upto: int) -> TaskInfo | None:
        """A task as it was at a position of the log; None where it was not there, or where its changes cannot be read."""
        changes = self.database.rows(f"{CHANGES} WHERE task = ? AND seq <= ? ORDER BY seq", (number, upto))
        return next(iter(folded(changes)[0]), None)

    def changes_after(self, seq: int) -> list[Row]:
        """What was changed of all tasks after a position: (seq, task, time, kind, detail), the texts as they are stored."""
        return self.database.rows(f"{CHANGES} WHERE seq > ? ORDER BY seq", (seq,))

    def last_change(self) -> int:
        """The seq of the last change of any task; 0 where there is none."""
        return int(self.database.rows("SELECT max(seq) FROM changes")[0][0] or 0)

    def tasks_of(self, token: str) -> int:
        """How many tasks there are that were created with this token."""
        query = (
            "SELECT count(DISTINCT task) FROM changes WHERE kind = 'created' AND token = ? "
            "AND task NOT IN (SELECT task FROM changes WHERE kind = 'deleted')"
        )
        return int(self.database.rows(query, (token,))[0][0])

    def mark(self, task: int, position: int, revised: int) -> Mark | None:
        """What a task's part of the log ends with at a position, and its revisions at another; None where the log is not so long."""
        if max(position, revised) > self.last():
            return None
        found: Mark = []
        for table in NAMES:
            rows = self.database.rows(
                f"SELECT seq, time FROM {table} WHERE task = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
                (task, revised if table == "revisions" else position),
            )
            found.append(list(rows[0]) if rows else None)
        return found

    def changes(self, of: Expected, after: int, upto: int) -> list[tuple[int, str, dict[str, Any]]]:
        """What was changed of a task: (seq, kind, detail)."""
        rows = self.database.rows(
            f"{CHANGES} WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq", (of.task, after, upto)
        )
        found = []
        for seq, _, _, kind, stored in rows:
            try:
                detail = read_detail(kind.decode(errors="replace"), stored)
            except ValueError as error:
                raise BadRecordError(of.name, "changes", seq, str(error)) from None
            found.append((seq, kind.decode(), detail))
        return found

    def played(self, of: Expected, after: int, upto: int, most: int) -> list[Played]:
        """A task's decisions, as statistics need them. Which classes there were then is not known here."""
        held = None if self._recent is None else self._recent.played(of.task, after, upto, most)
        if held is not None:
            return held
        rows = self.database.rows(
            f"SELECT {', '.join(Played._fields)} FROM decisions "
            "WHERE task = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
            (of.task, after, upto, most),
        )
        of.check("decisions", rows, PLAYED)
        return list(map(Played._make, rows))

    def events(
        self, of: Expected, after: int, upto: int, most: int, revised: int | None = None
    ) -> tuple[list[Event], bool]:
        """A task's feedbacks with their decisions, fewer where they are large; and whether there may be more.

        They say what the revisions up to a position (`revised`, or `upto`) have left. Which classes there were then is not known here.
        """
        held = None if self._recent is None else self._recent.events(of, after, upto, most)
        if held is not None:
            return held
        more = False

        def page(rows: Iterator[Row]) -> list[Row]:
            nonlocal more
            taken = list(_some(rows, Event._fields.index("probabilities"), PAGE_BYTES))
            more = len(taken) == most or next(rows, None) is not None
            return taken

        values = {"task": of.task, "after": after, "upto": upto, "most": most, "revised": revised or upto}
        rows = self.database.rows(EVENTS, values, page)
        if not rows:
            return [], False
        check_pairs(of, rows)
        of.check("feedback", rows, HEARD)
        of.check("decisions", rows, DECIDED, DECISION_SEQ)
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        columns[-1] = of.read(rows, -1, DECISION_SEQ)
        return list(map(Event._make, zip(*columns, strict=True))), more

    def found(self, of: Expected, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """What must be known of the decisions with these ids, once for each feedback, or once where there is none.

        (seq, id, time, mode) of the decision, (seq, time, late, source) of the feedback, the seq of its last revision, and
        what is said then: (right, shown, shown_propensity, reward, truth).
        """
        names = {f"id{index}": one for index, one in enumerate(ids)}
        rows = self.database.rows(
            f"SELECT d.seq, d.id, d.time, d.mode, f.seq, f.time, f.late, f.source, r.seq, {LAST_WORD} FROM decisions d "
            f"LEFT JOIN feedback f ON f.decision = d.seq {REVISED_UPTO.format(end='upto')} "
            f"WHERE d.task = :task AND d.id IN ({', '.join(f':{name}' for name in names)})",
            {"task": of.task, "upto": NO_END, **names},
        )
        of_feedback = [(5, "time of its feedback", or_none(TIME)), (7, "source of its feedback", or_none(SOURCE))]
        of.check("decisions", rows, [(2, "time", TIME), (3, "mode", MODE), *of_feedback])
        return rows

    def revised(self, of: Expected, after: int, upto: int, most: int) -> list[tuple[int, int]]:
        """(seq, feedback) of a task's revisions after a position."""
        rows = self.database.rows(REVISIONS, (of.task, after, upto, most))
        check_revisions(of, rows)
        return [row[:2] for row in rows]

    def is_revised(self, task: int, position: int, after: int, upto: int) -> bool:
        """Whether something that a task had heard up to a position was revised between two others."""
        query = "SELECT EXISTS (SELECT 1 FROM revisions WHERE task = ? AND seq > ? AND seq <= ? AND feedback <= ?)"
        return bool(self.database.rows(query, (task, after, upto, position))[0][0])

    def known(self, info: TaskInfo, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        """The columns KNOWN of the decisions with these ids."""
        rows = self.database.rows(
            f"SELECT {', '.join(KNOWN)} FROM decisions WHERE task = ? AND id IN ({_marks(ids)})", (info.number, *ids)
        )
        check_known(info, rows)
        return rows

    def offers(self, info: TaskInfo, ids: Sequence[str]) -> list[tuple[str, int, bytes | None]]:
        """(id, label, among) of the decisions with these ids."""
        rows = self.database.rows(
            f"SELECT id, label, among, seq FROM decisions WHERE task = ? AND id IN ({_marks(ids)})", (info.number, *ids)
        )
        check_offers(info, rows)
        return [row[:3] for row in rows]

    def due(
        self, of: Expected, after: int, decided_before: float, most: int, made: Callable[[int, float], float]
    ) -> list[tuple[int, str, str]]:
        """(seq, id, mode) of the decisions after a seq, up to the first that was not made before a time. `made` says when one was."""
        rows = self.database.rows(
            "SELECT seq, id, mode, time FROM decisions WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?",
            (of.task, after, most),
            lambda rows: list(takewhile(lambda row: made(row[0], row[3]) <= decided_before, rows)),
        )
        of.check("decisions", rows, [(1, "id", ID), (2, "mode", MODE), (3, "time", TIME)])
        return [row[:3] for row in rows]

    def first_unanswered(self, task: int, after: int) -> int | None:
        """The first decision after a seq without a feedback that counts."""
        rows = self.database.rows(
            "SELECT seq FROM decisions d WHERE task = ? AND seq > ? AND NOT EXISTS "
            "(SELECT 1 FROM feedback f WHERE f.decision = d.seq AND f.late = 0) ORDER BY seq LIMIT 1",
            (task, after),
        )
        return int(rows[0][0]) if rows else None

    def decision(self, info: TaskInfo, identity: str) -> Logged | None:
        """One decision by its id."""
        values = {"task": info.number, "id": identity, "upto": NO_END}
        found = self._logged(info, f"{DECISIONS} WHERE d.task = :task AND d.id = :id", values, MOST_BYTES)
        return found[0] if found else None

    def decisions(self, info: TaskInfo, ids: Sequence[str]) -> list[Logged]:
        """The decisions with these ids, in their order in the log."""
        found: list[Logged] = []
        for start in range(0, len(ids), PAGE):
            names = {f"id{index}": one for index, one in enumerate(ids[start : start + PAGE])}
            query = f"{DECISIONS} WHERE d.task = :task AND d.id IN ({', '.join(f':{name}' for name in names)}) ORDER BY d.seq"
            found += self._logged(info, query, {"task": info.number, "upto": NO_END, **names}, NO_END)
        return found

    def newest(self, info: TaskInfo, limit: int, before: int | None) -> list[Logged]:
        """The newest decisions of a task, or those before a seq; fewer where they are large."""
        query = f"{DECISIONS} WHERE d.task = :task AND d.seq < :before ORDER BY d.seq DESC LIMIT :most"
        values = {"task": info.number, "before": NO_END if before is None else before, "most": limit, "upto": NO_END}
        return self._logged(info, query, values, MOST_BYTES)

    def generations(self, task: int, upto: int) -> list[tuple[int, bool, int]]:
        """How many feedbacks that count the decisions of each learner have: (generation, whether another label was shown, count)."""
        rows = self.database.rows(
            "SELECT d.generation, (CASE WHEN r.seq IS NULL THEN f.shown ELSE r.shown END) IS NOT NULL, count(*) FROM feedback f "
            f"JOIN decisions d ON d.seq = f.decision {REVISED_UPTO.format(end='upto')} WHERE f.task = :task "
            f"AND f.seq <= :upto AND f.late = 0 AND {NOT_WITHDRAWN} GROUP BY 1, 2 ORDER BY 1, 2",
            {"task": task, "upto": upto},
        )
        return [(generation, bool(shown), count) for generation, shown, count in rows]

    def following(self, info: TaskInfo, after: int, upto: int, most: int) -> list[Logged]:
        """The decisions of a task after a seq, as they were when the log ended at another."""
        return self._logged(
            info,
            f"{DECISIONS} WHERE d.task = :task AND d.seq > :after AND d.seq <= :upto ORDER BY d.seq LIMIT :most",
            {"task": info.number, "after": after, "upto": upto, "most": most},
            PAGE_BYTES,
        )

    def earliest(self, task: int) -> float | None:
        """The earliest time of a decision of a task."""
        found = self.database.rows("SELECT min(time) FROM decisions WHERE task = ?", (task,))[0][0]
        return None if found is None else float(found)

    def span(self, task: int, since: float, before: float) -> tuple[int, int] | None:
        """The first and the last seq of a task's decisions made since a time and before another; None where there is none."""
        query = "SELECT min(seq), max(seq) FROM decisions WHERE task = ? AND time >= ? AND time < ?"
        first, last = self.database.rows(query, (task, since, before))[0]
        return None if first is None else (int(first), int(last))

    def touched(self, task: int, after: int, upto: int, most: int) -> list[tuple[int, int]]:
        """(seq, decision) of a task's rows after a position: its decisions, and those of which something was said or said otherwise."""
        query = (
            "SELECT seq, seq AS decision FROM decisions WHERE task = :task AND seq > :after AND seq <= :upto UNION ALL "
            "SELECT seq, decision FROM feedback WHERE task = :task AND seq > :after AND seq <= :upto UNION ALL "
            "SELECT r.seq, f.decision FROM revisions r JOIN feedback f ON f.seq = r.feedback "
            "WHERE r.task = :task AND r.seq > :after AND r.seq <= :upto ORDER BY 1 LIMIT :most"
        )
        values = {"task": task, "after": after, "upto": upto, "most": most}
        return [(int(seq), int(decision)) for seq, decision in self.database.rows(query, values)]

    def base(self, task: int) -> bytes | None:
        """The state of the learner of a task from which on its rows are followed, where rows before that are forgotten."""
        rows = self.database.rows("SELECT state FROM bases WHERE task = ?", (task,))
        return bytes(rows[0][0]) if rows else None

    def forgotten(self, info: TaskInfo, ids: Sequence[str]) -> list[str]:
        """Those of the ids whose decisions were forgotten."""
        if not info.forgotten_at:
            return []
        key = bytes(self.database.rows("SELECT key FROM erasure")[0][0])
        found = []
        for start in range(0, len(ids), PAGE):
            hashes = dict(zip(hashed(key, ids[start : start + PAGE]), ids[start : start + PAGE], strict=True))
            query = f"SELECT hash FROM forgotten WHERE task = ? AND hash IN ({', '.join('?' * len(hashes))})"
            found += [hashes[bytes(row[0])] for row in self.database.rows(query, (info.number, *hashes))]
        return found

    def last(self) -> int:
        """Where the log ends."""
        return self.database.last_seq()

    def last_time(self) -> float:
        """When the last row was added."""
        return self.database.last_time()

    def count(self, task: int, upto: int) -> int:
        """How many decisions a task has."""
        rows = self.database.rows("SELECT count(*) FROM decisions WHERE task = ? AND seq <= ?", (task, upto))
        return int(rows[0][0])

    def count_heard(self, task: int, upto: int) -> int:
        """How many feedbacks of a task count: neither late ones, nor those that were withdrawn."""
        rows = self.database.rows(
            f"SELECT count(*) FROM feedback f {REVISED_UPTO.format(end='upto')} "
            f"WHERE f.task = :task AND f.seq <= :upto AND f.late = 0 AND {NOT_WITHDRAWN}",
            {"task": task, "upto": upto},
        )
        return int(rows[0][0])

    def _logged(self, info: TaskInfo, query: str, values: Any, most_bytes: int) -> list[Logged]:
        def page(rows: Iterator[Row]) -> list[Row]:
            return list(_some(rows, PROBABILITIES, most_bytes))

        rows = self.database.rows(query, values, page)
        check_logged(info, rows)
        xs = info.expected.read(rows, X_COLUMN, 0)
        return [logged(info, row, x) for row, x in zip(rows, xs, strict=True)]


def _some(rows: Iterable[tuple[Any, ...]], probabilities: int, most: int) -> Iterator[tuple[Any, ...]]:
    """The first of some rows, until their probabilities and the x in the column behind have more bytes than `most`."""
    size = 0
    for row in rows:
        yield row
        # Where there is no decision, there is neither: that is looked at later.
        size += len(row[probabilities] or b"") + len(row[probabilities + 1] or b"")
        if size > most:
            return


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
