"""Forgets decisions: removes their rows from the log, and keeps or unlearns what was learnt from them.

Learner state remains a function of the log. If the learner keeps what it learnt, its state at a position after the rows is stored in the log
in their place, and rows are followed from there. If it unlearns, the log is followed again without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from onebit.errors import brief
from onebit.learner.learner import Learner
from onebit.learner.model_file import encode_file
from onebit.service.core.follower import LogFollower
from onebit.service.core.served_task import ServedTask
from onebit.service.core.threads import in_thread
from onebit.service.errors import ConflictError, NotFoundError
from onebit.service.inputs import is_storable
from onebit.service.maintenance.log_reader import LogReader
from onebit.service.store.base import Store, store_at
from onebit.service.store.errors import StaleError, as_input_errors
from onebit.service.store.forgetting import Base, Forgetting, Forgotten, UnseenRowsError
from onebit.service.store.reader import Reader
from onebit.service.task import TaskInfo

if TYPE_CHECKING:
    from onebit.service.admin import Admin
    from onebit.service.service import Service

AT_ONCE = 256  # ids looked up at a time


class ForgetOrder(NamedTuple):
    """Decisions to forget, by id or by time; `unlearn` requires that they are also unlearnt."""

    ids: Sequence[str] | None
    before: float | None
    unlearn: bool


def keeps_rows(learner: Learner) -> bool:
    """Return True if a learner's state contains rows, so that it cannot stay when one is forgotten."""
    model = learner.runtime.model
    return model.routing is not None or model.space.KEEPS_ROWS


def build_base(store: Store, info: TaskInfo, last: int, keep: bool = False) -> Base | None:
    """Return the learner state of a task at a position; None if it contains rows and `keep` is False."""
    with closing(store.reader()) as reader:
        follower = LogFollower.start(info.expected, store.snapshots(info.number, 1), reader, last)
        follower.follow(reader, last)
        if not keep and keeps_rows(follower.replicas.resting):
            return None
        packed = follower.snapshot(reader)
    return Base(packed.position, encode_file(packed.manifest, packed.arrays))


def refuse_unknown_ids(reader: Reader, info: TaskInfo, ids: Sequence[str]) -> None:
    """Raise NotFoundError for ids that no decision ever had. Forgotten ids are accepted."""
    possible, known = [identity for identity in ids if is_storable(identity)], set[str]()
    for start in range(0, len(possible), AT_ONCE):
        chunk = possible[start : start + AT_ONCE]
        known |= {answered.decision.id for answered in reader.find_decisions(info, chunk)}
        known |= set(reader.forgotten(info, chunk))
    for identity in ids:
        if identity not in known:
            raise NotFoundError(f"there is no decision {brief(identity)} in task {info.name!r}", "ids")


def refuse_kept(info: TaskInfo, first: int) -> None:
    """Raise ConflictError if row `first` is part of a learner state that an earlier forgetting kept."""
    if first <= info.base:
        raise ConflictError(
            f"row {first} cannot be unlearnt: rows up to {info.base} were forgotten before and what was learnt from them was kept, so that it "
            "cannot be told apart any more; forget it without unlearn, or train another learner from the rows that are left"
        )


def forget(
    where: Path | str,
    name: str,
    request: ForgetOrder,
    *,
    keep: bool = False,
    first: Callable[[LogReader, TaskInfo], int | None] = lambda log, info: None,
) -> dict[str, Any]:
    """Forget decisions of a task; return a report.

    No service may run in a folder; the nodes of a database may keep running. With `keep`, what was learnt stays even if the learner's state
    contains rows. `first` runs before, while a folder is locked, and returns the position up to which it has seen the rows. If other nodes
    meanwhile write rows that are to be forgotten too, all is repeated.
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
                        seen = first(log, info)
                        now = store.clock(log.reader, appender.last).now()
                    if store.shared:
                        refuse_training(info)
                    order = _plan(store, info, request, keep, seen)
                    if order is None:
                        return build_reply(0, None, appender.erase())
                    with suppress(StaleError, UnseenRowsError):  # another node has just written: begin again
                        forgotten = appender.forget(order, now, None, known)
                        store.snapshots(info.number, 1).remove_before(forgotten.seq)
                        return build_reply(forgotten.decisions, order.base, appender.erase())
        finally:
            store.release()


def refuse_training(info: TaskInfo) -> None:
    """Raise ConflictError while another learner is being trained from the log."""
    if info.training is not None:
        raise ConflictError(f"{info.training['learner']} is being trained from the log: wait until it has taken over")


def _plan(
    store: Store, info: TaskInfo, request: ForgetOrder, keep: bool = False, seen: int | None = None
) -> Forgetting | None:
    """Return what to remove from the log as it is now, and the learner state that stays; None if nothing."""
    order = Forgetting(info.number, request.ids, request.before, None, seen)
    with closing(store.reader()) as reader:
        if request.ids is not None:
            refuse_unknown_ids(reader, info, request.ids)
        span, last = reader.span(order), reader.last()
    if span is None:
        return None
    base = None if request.unlearn or info.deleted is not None else build_base(store, info, last, keep)
    if base is None and info.deleted is None:
        refuse_kept(info, span[0])
    return order._replace(base=base)


async def forget_in_service(
    service: Service, admin: Admin, served: ServedTask, asked: ForgetOrder, token: str | None
) -> tuple[Forgotten, Base | None]:
    """Forget decisions in the log of a running service, while no feedback on them is accepted here."""
    now, info = service.clock.now(), served.info
    while True:
        judged = info.last_change
        order = await in_thread(_plan, service.store, info, asked)
        if order is None:
            return Forgotten(0, 0, 0), None
        try:
            async with admin.writing() as known:
                if info.last_change != judged:
                    continue
                refuse_training(info)
                found = await admin.run(lambda appender: appender.forget(order, now, token, known))  # noqa: B023
                admin.note_written(found.seq)
                kept = {"base": None if order.base is None else order.base.position}
                info.apply(found.seq, now, "changed", {"forgotten": kept})
        except UnseenRowsError:  # feedback on them was being written when this began
            continue
        return found, order.base


def build_reply(decisions: int, base: Base | None, erased: bool) -> dict[str, Any]:
    """Return the fields of `replies.ForgetReply`."""
    return {"forgotten": decisions, "learner": "unlearnt" if base is None else "kept", "erased": erased}
