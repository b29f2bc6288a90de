"""Forgetting decisions: their rows leave the log, and what was learnt from them is kept or unlearnt.

Learner state remains a function of the log. If the learner keeps what it learnt, its state at a position after the rows is stored in the log
in their place, and rows are followed from there. If it unlearns, the log is followed again without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from onebit.errors import brief
from onebit.service.core.follower import LogFollower
from onebit.service.errors import ConflictError, NotFoundError
from onebit.service.inputs import is_storable
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.store.base import Store, store_at
from onebit.service.store.errors import StaleError, as_input_errors
from onebit.service.store.forgetting import Base, Forgetting, UnseenRowsError
from onebit.service.store.reader import Reader
from onebit.service.task import TaskInfo

IDS_PER_QUERY = 256


class ForgetOrder(NamedTuple):
    """Decisions to forget, by id or by time; `unlearn` requires that they are also unlearnt."""

    ids: Sequence[str] | None
    before: float | None
    unlearn: bool


def build_base(store: Store, info: TaskInfo, last: int, keep: bool = False) -> Base | None:
    """Return the learner state of a task at a position; None if it stores rows and `keep` is False."""
    with closing(store.reader()) as reader:
        follower = LogFollower.start(info.expected, store.snapshots(info.number, 1), reader, last)
        follower.follow(reader, last)
        model = follower.replicas.resting.runtime.model
        if not keep and (model.routing is not None or model.space.KEEPS_ROWS):
            return None
        packed = follower.snapshot(reader)
    return Base(packed.position, packed.encode())


def refuse_unknown_ids(reader: Reader, info: TaskInfo, ids: Sequence[str]) -> None:
    """Raise NotFoundError for ids that no decision ever had. Forgotten ids are accepted."""
    storable, known = [identity for identity in ids if is_storable(identity)], set[str]()
    for start in range(0, len(storable), IDS_PER_QUERY):
        chunk = storable[start : start + IDS_PER_QUERY]
        known |= {answered.decision.id for answered in reader.find_decisions(info, chunk)}
        known |= set(reader.forgotten(info, chunk))
    for identity in ids:
        if identity not in known:
            raise NotFoundError(f"there is no decision {brief(identity)} in task {info.name!r}", "ids")


def refuse_kept_rows(info: TaskInfo, first: int) -> None:
    """Raise ConflictError if row `first` was learnt by a learner state that was kept in place of rows."""
    if first <= info.base:
        raise ConflictError(
            f"row {first} cannot be unlearnt: rows up to {info.base} were forgotten earlier, but what was learnt from them was kept, and "
            "the two cannot be separated; forget it without unlearn, or train another learner from the remaining rows"
        )


def forget(
    where: Path | str,
    name: str,
    request: ForgetOrder,
    *,
    keep: bool = False,
    prepare: Callable[[LogReader, TaskInfo], int | None] = lambda log, info: None,
) -> dict[str, Any]:
    """Forget decisions of a task; return a report.

    No service may run in a folder; the nodes of a database may keep running. With `keep`, what was learnt stays even if the learner's state
    stores rows. `prepare` runs before, while a folder is locked, and returns the position up to which it has read the rows. If other nodes
    meanwhile write rows that are to be forgotten too, everything is repeated.
    """
    store = store_at(where)
    with as_input_errors(f"the log in {store.name}"):
        with LogReader(where) as log:
            log.task(name)
        store.take()
        try:
            store.check()
            with closing(store.appender(lambda *_: None)) as appender:
                while True:
                    with LogReader(where) as log:
                        known = log.reader.last_change() if store.shared else None
                        info = log.task(name)
                        read_upto = prepare(log, info)
                        now = store.clock(log.reader, appender.last).now()
                    if store.shared:
                        refuse_training(info)
                    order = plan_forgetting(store, info, request, keep, read_upto)
                    if order is None:
                        return build_reply(0, None, appender.erase())
                    with suppress(StaleError, UnseenRowsError):  # another node has just written: start over
                        forgotten = appender.forget(order, now, None, known)
                        store.snapshots(info.number, 1).remove_before(forgotten.seq)
                        return build_reply(forgotten.decisions, order.base, appender.erase())
        finally:
            store.release()


def refuse_training(info: TaskInfo) -> None:
    """Raise ConflictError while another learner is being trained from the log."""
    if info.training is not None:
        raise ConflictError(f"{info.training['learner']} is being trained from the log: wait until it has taken over")


def plan_forgetting(
    store: Store, info: TaskInfo, request: ForgetOrder, keep: bool = False, read_upto: int | None = None
) -> Forgetting | None:
    """Return the rows to remove from the log and the learner state that replaces them; None if no rows."""
    order = Forgetting(info.number, request.ids, request.before, None, read_upto)
    with closing(store.reader()) as reader:
        if request.ids is not None:
            refuse_unknown_ids(reader, info, request.ids)
        span, last = reader.span(order), reader.last()
    if span is None:
        return None
    first, _ = span
    base = None if request.unlearn or info.deleted is not None else build_base(store, info, last, keep)
    if base is None and info.deleted is None:
        refuse_kept_rows(info, first)
    return order._replace(base=base)


def build_reply(decisions: int, base: Base | None, erased: bool) -> dict[str, Any]:
    """Return the fields of `replies.ForgetReply`."""
    return {"forgotten": decisions, "learner": "unlearnt" if base is None else "kept", "erased": erased}
