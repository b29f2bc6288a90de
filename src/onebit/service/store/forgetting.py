"""Which decisions are to be forgotten, and what is left of them in the log, whichever store keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

HASH_BYTES = 16
TABLES = ("revisions", "feedback", "decisions")
# The rows of each table that go, where the numbers of the decisions are in a table `going`.
OF_TABLE = {
    "decisions": "SELECT seq FROM going",
    "feedback": "SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going)",
    "revisions": "SELECT seq FROM revisions WHERE feedback IN (SELECT seq FROM feedback WHERE decision IN (SELECT seq FROM going))",
}


class Base(NamedTuple):
    """A learner that keeps what it learnt of what is forgotten: at which position of the log, and its state as the bytes of a file."""

    position: int
    state: bytes


class Forgetting(NamedTuple):
    """Which decisions of a task are to be forgotten: those with some ids, or those made before a time."""

    task: int
    ids: Sequence[str] | None
    before: float | None
    base: Base | None  # None where what was learnt of them is to be unlearnt
    seen: int | None = None  # the position up to which whoever asks knows their rows; None where that does not matter

    def refuse_unseen(self, last: int) -> None:
        """Refuse (UnseenRowsError) to take rows out, of which this is the last, that came after what is kept in their place, or after they were seen."""
        if (self.base is not None and last > self.base.position) or (self.seen is not None and last > self.seen):
            raise UnseenRowsError


class Forgotten(NamedTuple):
    """How many decisions were forgotten, how many rows with their feedback and its revisions, and the row that says so."""

    decisions: int
    rows: int
    seq: int


class UnseenRowsError(Exception):
    """Some of the rows are later than the state that is to stay in their place, or than what was seen of them: look again."""


def hash_ids(key: bytes, ids: Iterable[str]) -> list[bytes]:
    """Return a keyed hash of each id: enough to know a forgotten one again, and nothing to read."""
    return [hashlib.blake2b(identity.encode(), key=key, digest_size=HASH_BYTES).digest() for identity in ids]


def told(decisions: int, rows: int, first: int, order: Forgetting) -> str:
    """The detail of the change that says what was forgotten."""
    base = None if order.base is None else order.base.position
    return json.dumps({"forgotten": {"decisions": decisions, "rows": rows, "first": first, "base": base}})
