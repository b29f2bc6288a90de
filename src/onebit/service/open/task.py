"""A task in this process, as `onebit.open` returns it."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onebit.contract.files import open_atomically
from onebit.contract.validation import ClassName
from onebit.errors import InputError
from onebit.features.features import require_table
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner, copy_learner
from onebit.offpolicy import Evaluation
from onebit.rules import DEFAULT
from onebit.service.core.decide import ProgramRequest, as_decision, decide
from onebit.service.core.feedback import FeedbackOutcome, record_feedback
from onebit.service.core.served_task import ServedTask, describe_task, summarize_task
from onebit.service.core.task_changes import requested_changes
from onebit.service.errors import InvalidError, NotFoundError, TaskQuarantinedError, UnavailableError
from onebit.service.inputs import is_storable
from onebit.service.maintenance.export import Written, as_object, write
from onebit.service.maintenance.log_reader import LogReader, evaluation
from onebit.service.open.arguments import parse_decision_options, require_id, to_plain_input, validate
from onebit.service.requests import Change, FeedbackRequest, NewLearner
from onebit.service.store.errors import LogError
from onebit.service.store.rows import BadRecordError

if TYPE_CHECKING:
    from onebit.service.open.folder import OpenFolder
    from onebit.service.open.node import OpenNode

DecisionOrId = Decision | str | int  # an id is a string; the type allows numbers because that of `Decision.id` does
Format = Literal["ndjson", "parquet", "vw"]
_OPEN: set[OpenTask] = set()  # keeps open tasks alive, so that all are closed when the process ends


class OpenTask:
    """A task of a folder or a database in this process, from `onebit.open`; thread-safe.

    Once `feedback` has returned, the next `decide` knows it. With `durable="always"` both return when their row is on disk. With
    `durable="soon"` it is there within a tenth of a second: a crash of the machine loses at most the calls of that time, and a crash of the
    process fewer.
    """

    def __init__(self, log: OpenFolder | OpenNode, served: ServedTask) -> None:
        self._log = log
        self._task = served
        self._closed: str | None = None
        self._closing = threading.Lock()
        _OPEN.add(self)

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._task.info.name

    @property
    def classes(self) -> list[ClassName]:
        """The classes, including retired ones."""
        return list(self._served.info.classes)

    @property
    def where(self) -> str:
        """The folder of the task, or the address of its database without secrets."""
        return self._log.where

    @property
    def learner(self) -> Learner:
        """A copy of the current learner."""
        with self._settled():
            copy, _ = self._served.follower.replicas.look(copy_learner)
            for name in self._served.info.retired:
                copy.remove_class(name)
            return copy

    def info(self) -> dict[str, Any]:
        """Return the current state of the task, as the service shows it."""
        with self._settled():
            return asdict(describe_task(self._served))

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._served.info.learner}"
        return f"<onebit task {self.name!r} in {self.where}, {state}>"

    # --- decisions and feedback ------------------------------------------------------------------------------------

    def decide(
        self,
        x: Any,
        id: str | None = None,  # noqa: A002
        *,
        among: Iterable[ClassName] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> Decision:
        """Decide on one x: a row of numbers, a dict of names and numbers, or a text.

        Side effect: the decision is written to the log. The same id always gives the same decision; by default an id is generated. `among`
        lists the candidates, and `complete` says that the right class is one of them. The decision is `unsure` below a confidence of
        `sure`, or of what keeps the `risk`; the defaults are those of the task.
        """
        if id is not None:
            require_id(id)
        request = ProgramRequest(to_plain_input(self._task, x), id)
        if among is not None or complete or sure is not None or risk is not None:
            request = request._replace(**parse_decision_options(among, complete, sure, risk))
        return self._decide((request,), single=True)[0]

    def decide_many(
        self,
        X: Any,
        ids: Sequence[str] | None = None,
        *,
        among: Iterable[ClassName] | None = None,
        complete: bool = False,
        sure: float | None = None,
        risk: float | None = None,
    ) -> list[Decision]:
        """Decide on each row of a matrix, or each dict or text of a list, all or none.

        `among` and the other options apply to all of them.
        """
        require_table(X)
        rows = list(X)
        if ids is not None and len(ids) != len(rows):
            raise InputError(f"there are {len(ids)} ids for {len(rows)} rows")
        for id in ids or ():  # noqa: A001
            require_id(id)
        terms = parse_decision_options(among, complete, sure, risk)
        given: Sequence[str | None] = ids or [None] * len(rows)
        requests = [
            ProgramRequest(to_plain_input(self._task, x), id, **terms)
            for x, id in zip(rows, given, strict=True)  # noqa: A001
        ]
        return self._decide(requests, single=False) if rows else []

    def feedback(
        self,
        id: DecisionOrId,  # noqa: A002
        right: bool | None = None,
        *,
        reward: float | None = None,
        truth: ClassName | None = None,
        shown: ClassName | None = None,
        shown_propensity: float | None = None,
        revise: bool = False,
    ) -> FeedbackOutcome:
        """Report whether a decision was right, or its reward from 0 to 1, or the class that was right.

        `id` is a decision or its id. Side effects: the feedback is written to the log, and the learner learns it. In shadow mode `shown` is the
        class that was actually shown, with probability `shown_propensity`. With `revise` this replaces earlier feedback.
        """
        more: dict[str, Any] = {}
        if shown is not None or shown_propensity is not None or revise:
            more = {"shown": shown, "shown_propensity": shown_propensity, "revise": revise}
        return self._record_feedback((_parse_feedback(id, right, reward, truth, **more),), single=True)[0]

    def feedback_many(
        self,
        ids: Sequence[DecisionOrId],
        right: Sequence[bool | None] | None = None,
        *,
        rewards: Sequence[float | None] | None = None,
        truths: Sequence[ClassName | None] | None = None,
        revise: bool = False,
    ) -> list[FeedbackOutcome]:
        """Report for each decision whether it was right, its reward, or the class that was right.

        Give one of the three for each. The side effects are those of `feedback`. An unknown id or a conflict is reported in the result, not raised.
        """
        columns = [[None] * len(ids) if column is None else list(column) for column in (right, rewards, truths)]
        for column in columns:
            if len(column) != len(ids):
                raise InputError(f"there are {len(column)} answers for {len(ids)} decisions")
        requests = [_parse_feedback(id, *answers, revise=revise) for id, *answers in zip(ids, *columns, strict=True)]  # noqa: A001
        return self._record_feedback(requests, single=False) if requests else []

    def withdraw(self, id: DecisionOrId) -> FeedbackOutcome:  # noqa: A002
        """Withdraw the feedback on a decision: the learner is rebuilt as if it had never been given."""
        return self._record_feedback((_parse_feedback(id, withdraw=True),), single=True)[0]

    # --- statistics and the log ------------------------------------------------------------------------------------

    def stats(self, window: int = 1000) -> dict[str, Any]:
        """Return errors, rates, delays and classes, as the service shows them.

        The error is that of the last `window` feedbacks.
        """
        with self._settled():
            served = self._served
            summary = summarize_task(served, window, self._log.core.clock.now())
            classes = served.info.classes
            return {**summary, "classes": served.follower.statistics.by_class(classes, 0, len(classes))}

    def decisions(self, limit: int = 50, before: int | None = None) -> list[dict[str, Any]]:
        """Return the newest decisions in the log, or the newest before a `seq`."""
        with self._settled():
            served = self._served
            return [as_object(row, served.texts) for row in self._log.reader.newest(served.info, limit, before)]

    def decision(self, id: DecisionOrId) -> dict[str, Any]:  # noqa: A002
        """Return one decision in the log, with its feedback if there is any."""
        identity = _decision_id(id)
        with self._settled():
            served = self._served
            logged = self._log.reader.decision(served.info, identity) if is_storable(identity) else None
            if logged is None:
                raise NotFoundError(f"there is no decision {identity!r} in task {self.name!r}", "id")
            return as_object(logged, served.texts)

    def export(self, path: str | Path, format: Format = "ndjson") -> Written:  # noqa: A002
        """Write the log of the task to a file, as `onebit export` does; return the number of decisions."""
        if format not in ("ndjson", "parquet", "vw"):
            raise InputError(f"format is {format!r}, but must be 'ndjson', 'parquet' or 'vw'")
        with self._open_log() as log, open_atomically(Path(path)) as file:
            info = log.task(self.name)
            return write(file, format, log.logged(info), info)

    def evaluate(
        self,
        learner: str = DEFAULT,
        *,
        parameters: dict[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int = 0,
    ) -> Evaluation:
        """Estimate what another learner would have scored on the log, and compare it with the task's own.

        `onebit evaluate` does the same on the command line.
        """
        with self._open_log() as log:
            return evaluation(log, log.task(self.name), learner, parameters or {}, exploration_floor, seed)

    # --- changes and closing ---------------------------------------------------------------------------------------

    def change(self, **settings: Any) -> dict[str, Any]:
        """Change settings of the task, and log the change.

        Settings: add_classes, remove_classes, mode, deadline_s, silence, revise_within, sure, risk.
        """
        change = validate(Change, settings)
        with self._reading():
            if requested_changes(change):
                self._log.change(self._task, change)
        return self.info()

    def switch(
        self,
        learner: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        exploration_floor: float | None = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Train another learner from the log and let it take over; it decides when this returns.

        The switch is logged. It takes time in proportion to the log; other threads go on deciding with the current learner meanwhile. If it fails,
        nothing has changed.
        """
        fields = {"learner": learner, "exploration_floor": exploration_floor, "seed": seed}
        new = validate(NewLearner, fields if parameters is None else {**fields, "parameters": dict(parameters)})
        with self._reading():
            self._log.switch(self._task, new)
        return self.info()

    def flush(self) -> None:
        """Wait until everything is on disk."""
        with self._reading():
            self._log.flush()

    def close(self) -> None:
        """Write everything to disk and save a snapshot; the last open task to close releases the log.

        Closing twice does no harm.
        """
        with self._closing:
            if self._closed is not None:
                return
            self._closed = f"task {self.name!r} is closed: open it again with onebit.open({self.where!r})"
            _OPEN.discard(self)
            self._log.leave(self._task)

    def __enter__(self) -> OpenTask:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- internals -------------------------------------------------------------------------------------------------

    @property
    def _served(self) -> ServedTask:
        """The task as served now; it changes when its node restores it."""
        self._task = self._log.current(self._task)
        return self._task

    def _decide(self, requests: Sequence[ProgramRequest], *, single: bool) -> list[Decision]:
        with self._reading():
            rows = self._log.run(self._task, lambda served: decide(self._log.core, served, requests, single))
            served = self._served
            return [as_decision(served, row, request.x) for row, request in zip(rows, requests, strict=True)]

    def _record_feedback(self, requests: Sequence[FeedbackRequest], *, single: bool) -> list[FeedbackOutcome]:
        with self._reading():
            core = self._log.core
            return self._log.run(
                self._task, lambda served: record_feedback(core, served, requests, single), learns=True
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Refuse a closed task, and turn errors of the log within the block into those of a service.

        A damaged row quarantines the task.
        """
        if self._closed is not None:
            raise InputError(self._closed)
        try:
            yield
        except LogError as error:
            raise UnavailableError(f"the log cannot be read: {error}") from None
        except BadRecordError as error:
            self._served.follower.quarantine(error)
            raise TaskQuarantinedError(str(error)) from None

    @contextlib.contextmanager
    def _settled(self) -> Iterator[None]:
        """Wait until all submissions are written and learnt; exclude other threads within the block."""
        with self._reading(), self._log.settled(self._task):
            yield

    @contextlib.contextmanager
    def _open_log(self) -> Iterator[LogReader]:
        """Open the current log for reading; the task can be used meanwhile."""
        with self._reading():
            with self._log.settled(self._task):
                pass
            with LogReader(self._log.address) as log:
                yield log

    def _close_after_fork(self) -> None:
        """Close the task in a forked child, which has neither its threads nor its lock."""
        self._closed = f"task {self.name!r} was opened by the parent of this forked process: open another log here"
        self._log.release_after_fork()


def _decision_id(given: DecisionOrId) -> str:
    identity = given.id if isinstance(given, Decision) else given
    if not isinstance(identity, str):
        raise InvalidError(f"id is {identity!r}, but must be a string, or a decision of this task", "id")
    return identity


def _parse_feedback(
    given: DecisionOrId,
    right: object = None,
    reward: float | None = None,
    truth: ClassName | None = None,
    **more: Any,
) -> FeedbackRequest:
    """Return the arguments of a feedback call as a validated request."""
    if isinstance(right, np.bool_):
        right = bool(right)
    fields = {"id": _decision_id(given), **more}
    for name, answer in (("right", right), ("reward", reward), ("truth", truth)):
        if answer is not None:
            fields[name] = answer
    return validate(FeedbackRequest, fields)


def _close_all() -> None:
    """Close all open tasks when the process ends; rows lost with them are reported."""
    with contextlib.ExitStack() as stack:
        for task in list(_OPEN):
            stack.callback(task.close)


def _close_all_after_fork() -> None:
    for task in list(_OPEN):
        task._close_after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_close_all_after_fork)
