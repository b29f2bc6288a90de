"""Deciding as a plan: the learner in front chooses, and the row is in the log before anybody hears of it; what was decided before, comes from the log."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from onebit.engine.stream import CHOICE_COLUMNS
from onebit.errors import OnebitError
from onebit.service.core.feedback_rows import refuse_forgotten
from onebit.service.core.plan import LookUp, Plan, Turn, settle
from onebit.service.core.replicas import Choices
from onebit.service.core.request_terms import DecisionRequest, RequestTerms, is_same_set, parse_terms
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import ConflictError, InvalidError, UnavailableError
from onebit.service.inputs import ParsedX, decode_indices, encode_indices
from onebit.service.store.cache import CachedDecision
from onebit.service.store.errors import RowsTakenError
from onebit.service.store.reader import NO_END, Reader
from onebit.service.store.rows import DecisionRow
from onebit.service.store.submission import Submission
from onebit.service.task import TaskInfo, require_candidate_support

if TYPE_CHECKING:
    from onebit.service.core.serving_core import ServingCore

AT_ONCE = 256  # rows that are decided before others get a turn, at most
NAMES_AT_ONCE = 10_000  # of candidates, which are looked up
PROBABILITIES_AT_ONCE = 25_600
WEIGHTS_AT_ONCE = 10**7  # that are multiplied with numbers
UNRESERVED: AbstractContextManager[None] = nullcontext()  # ids that are decided on without a wait
BYTES_AT_ONCE = 2**13  # of texts, and of names with their numbers, which are read and hashed one by one


class Ask(NamedTuple):
    """What is decided on, and what is asked beside it."""

    x: ParsedX
    terms: RequestTerms


class MadeDecision(NamedTuple):
    """A decision for whoever asked: its row, and its x as a learner takes it. The row of one that was made now has no number."""

    row: DecisionRow
    x: Any


def decide(
    core: ServingCore, served: ServedTask, requests: Sequence[DecisionRequest], single: bool
) -> Plan[list[MadeDecision]]:
    """Decide on many x, all or none. An id that was decided before is answered as then.

    TaskChangedError where the task changed meanwhile: then the request must be judged again.
    """
    assumptions = served.assumptions
    asks = yield from _parse(core, served, requests, single)
    ids = [request.id if request.id is not None else core.new_id() for request in requests]
    fresh = dict(zip(ids, asks, strict=True))
    if len(fresh) < len(ids):
        _refuse_contradictions(ids, asks)
    task, known = served.info.number, dict[str, MadeDecision]()
    given = [request.id for request in requests if request.id is not None]
    if core.shared:  # what others have decided on, the log says when it is written to
        given = [one for one in given if core.is_known(task, one)]
    if given:
        known = yield from _repeat(core, served, given, fresh)
        if served.info.forgotten_at:
            wanted = [one for one in given if one not in known]
            yield LookUp(lambda reader: refuse_forgotten(reader, served.info, wanted))
    while fresh := {identity: one for identity, one in fresh.items() if identity not in known}:
        try:
            made = yield from _decide_fresh(core, served, fresh, single, Submission(task, assumptions))
            known.update((one.row.id, one) for one in made)
        except RowsTakenError:
            known |= yield from _repeat(core, served, list(fresh), fresh)
            gone = [one for one in fresh if one not in known]
            yield LookUp(lambda reader, gone=gone: _refuse_gone(reader, served.info, gone))  # type: ignore[misc]
    return [known[identity] for identity in ids]


def _refuse_contradictions(ids: Sequence[str], asks: Sequence[Ask]) -> None:
    """Refuse an id that is there twice, for different things."""
    first: dict[str, Ask] = {}
    for index, (identity, ask) in enumerate(zip(ids, asks, strict=True)):
        before = first.setdefault(identity, ask)
        if before != ask:
            what = "x" if before.x != ask.x else "sets of candidates, or certainties"
            raise ConflictError(f"id {identity!r} is there twice, with two different {what}", f"[{index}].id")


def _refuse_gone(reader: Reader, info: TaskInfo, ids: Sequence[str]) -> None:
    """Refuse ids that another node has forgotten, of which this one may not have heard."""
    now = reader.task(info.number, NO_END)
    if now is not None:
        refuse_forgotten(reader, now, ids)


def _parse(core: ServingCore, served: ServedTask, requests: Sequence[DecisionRequest], single: bool) -> Plan[list[Ask]]:
    info, found, names = served.info, list[Ask](), 0
    usual = RequestTerms(sure=info.sure, risk=info.risk)
    for index, request in enumerate(requests):
        if (index and index % AT_ONCE == 0) or names > NAMES_AT_ONCE:
            names = 0
            yield Turn.ANY
        x = info.inputs.parse(request.x, _field(index, single), core.max_values)
        if request.among is None and request.sure is None and request.risk is None:
            found.append(Ask(x, usual))
            continue
        where = "" if single else f"[{index}]."
        found.append(Ask(x, parse_terms(request, info, served.class_indices, where)))
        if request.among is not None:
            require_candidate_support(served.follower.replicas.resting, request.among, f"{where}among")
            names += len(request.among)
    return found


def _decide_fresh(
    core: ServingCore, served: ServedTask, fresh: dict[str, Ask], single: bool, submission: Submission
) -> Plan[list[MadeDecision]]:
    """Decide on what nobody has decided on, and write it."""
    ids, asks, task = list(fresh), list(fresh.values()), served.info.number
    pieces = _pieces(served, asks)
    is_small = len(pieces) == 1 and sum(len(one.x.stored) for one in asks) < BYTES_AT_ONCE
    rows: list[DecisionRow] = []
    # Nobody else may take these ids while the rest is decided.
    with UNRESERVED if is_small else core.reserved(task, ids, submission):
        for start, end in pieces:
            if not is_small:
                yield Turn.HEAVY
            choices = _choose(served, ids[start:end], asks[start:end], start, single)
            rows += _rows(served.info, ids[start:end], asks[start:end], choices, core.clock.now())
        if len(pieces) > 1:  # others had a turn: the times of the log have the order of its rows
            now = core.clock.now()
            rows = [row._replace(time=now) for row in rows]
        made = [MadeDecision(row, ask.x.value) for row, ask in zip(rows, asks, strict=True)]
        submission.decisions = [CachedDecision(one.row, one.x, submission) for one in made]
        core.cache.add(submission.decisions)

        def finish() -> None:
            """The rows are in the log, or will never be; also where whoever asked does not wait any more."""
            if submission.error is not None:
                core.cache.remove(task, ids)
            for one in submission.decisions:
                one.ticket = None

        submission.add_done_callback(finish)
        core.submit(submission)
    yield submission
    return made


def _repeat(
    core: ServingCore, served: ServedTask, ids: Sequence[str], asked: dict[str, Ask]
) -> Plan[dict[str, MadeDecision]]:
    """Return those of the ids that have been decided; nobody is deciding the others."""
    task, info = served.info.number, served.info
    answers: dict[str, MadeDecision] = {}
    wanted = list(dict.fromkeys(ids))
    while True:
        yield from settle([core.deciding.get((task, one)) for one in wanted])
        held = {one: found for one in wanted if (found := core.cache.get(task, one)) is not None}
        yield from settle([one.ticket for one in held.values()])
        if not core.shared:  # else another node may have forgotten it
            for identity, found in held.items():
                row = found.row
                if row is not None and core.cache.get(task, identity) is found:
                    _refuse_other(served, row, asked[identity])
                    answers[identity] = MadeDecision(row, asked[identity].x.value)
        unread = [one for one in wanted if one not in answers]
        step = _rows_at_once(served)
        for start in range(0, len(unread), step):
            if start:
                yield Turn.ANY
            chunk = unread[start : start + step]
            rows: list[DecisionRow] = yield LookUp(lambda reader, chunk=chunk: reader.rows_of(info, chunk))  # type: ignore[misc]
            for row in rows:
                _refuse_other(served, row, asked[row.id])
                answers[row.id] = MadeDecision(row, asked[row.id].x.value)
        wanted = [one for one in wanted if one not in answers]
        # What was written, and is not in the log any more, another node has forgotten.
        core.cache.remove(task, [one for one in wanted if one in held and core.cache.get(task, one) is held[one]])
        if not any(core.is_known(task, one) for one in wanted):
            return answers


def _refuse_other(served: ServedTask, row: DecisionRow, asked: Ask) -> None:
    """Refuse what is asked under an id that was decided for something else."""
    if row.x != asked.x.stored:
        raise ConflictError(f"id {row.id!r} was decided already, for another x", "id")
    among, terms = None if row.among is None else decode_indices(row.among).tolist(), asked.terms
    retired = {served.class_indices[name] for name in served.info.retired}
    if not is_same_set(terms.among, among, len(row.probabilities) // 8, retired):
        raise ConflictError(f"id {row.id!r} was decided already, among other classes", "id")
    if None not in (among, terms.among) and terms.complete is not bool(row.complete):
        raise ConflictError(f"id {row.id!r} was decided already, with another complete", "id")


def _rows_at_once(served: ServedTask) -> int:
    """So many that their probabilities, and their numbers times the weights, take no longer than some milliseconds."""
    classes = len(served.info.classes)
    weights = classes * (served.info.inputs.size or 1)
    return max(1, min(AT_ONCE, PROBABILITIES_AT_ONCE // classes, WEIGHTS_AT_ONCE // weights))


def _pieces(served: ServedTask, asks: Sequence[Ask]) -> list[tuple[int, int]]:
    """Where to cut rows so that deciding on each piece takes no longer than some milliseconds."""
    most = _rows_at_once(served)
    if served.info.inputs.kind == "numbers":
        return [(start, min(start + most, len(asks))) for start in range(0, len(asks), most)]
    cuts, size = [0], 0
    for index, ask in enumerate(asks):
        size += len(ask.x.stored)
        if index > cuts[-1] and (size > BYTES_AT_ONCE or index - cuts[-1] == most):
            cuts.append(index)
            size = len(ask.x.stored)
    return list(itertools.pairwise([*cuts, len(asks)]))


def _field(index: int, single: bool) -> str:
    return "x" if single else f"[{index}].x"


def _choose(served: ServedTask, ids: list[str], asks: Sequence[Ask], first: int, single: bool) -> Choices:
    """Return what the learner in front decides; an x that it refuses is named."""
    inputs, replicas, retired = served.info.inputs, served.follower.replicas, served.info.retired
    terms = [one.terms for one in asks]
    try:
        return replicas.decide(inputs.stack([one.x.value for one in asks]), ids, terms, retired)
    except UnavailableError:
        raise
    except OnebitError:
        for index, (identity, one) in enumerate(zip(ids, asks, strict=True), first):
            try:
                replicas.decide(inputs.stack([one.x.value]), [identity], [one.terms], retired)
            except OnebitError as error:
                field = _field(index, single)
                # It speaks of one row of a table; here it is the x of a request.
                why = re.sub(r"^row 0[,:] | of [xX]\b", "", str(error))
                sentence = f"{field}{why.removeprefix('x')}" if why.startswith("x ") else f"{field}: {why}"
                raise InvalidError(sentence, field) from None
        raise


def _rows(info: TaskInfo, ids: Sequence[str], asks: Sequence[Ask], choices: Choices, now: float) -> list[DecisionRow]:
    """Return the rows for the log."""
    chances = choices.numbers[:, CHOICE_COLUMNS:]
    content, width = chances.tobytes(), chances.shape[1] * chances.itemsize
    rows = []
    for number, (identity, ask, chosen, places, complete) in enumerate(
        zip(ids, asks, choices.numbers[:, :CHOICE_COLUMNS].tolist(), choices.among, choices.complete, strict=True)
    ):
        label, greedy, weight, note, second_note, propensity, raw, confidence, threshold = chosen
        rows.append(
            DecisionRow(
                seq=0,
                task=info.number,
                id=identity,
                time=now,
                mode=info.mode,
                generation=choices.generation,
                learnt=choices.learnt,
                label=int(label),
                greedy=int(greedy),
                weight=weight,
                note=note,
                second_note=second_note,
                propensity=propensity,
                probabilities=content[number * width : (number + 1) * width],
                x=ask.x.stored,
                among=encode_indices(places),
                complete=int(complete),
                raw=_or_none(raw),
                confidence=_or_none(confidence),
                sure=_or_none(threshold),
            )
        )
    return rows


def _or_none(number: float) -> float | None:
    return None if number != number else number  # noqa: PLR0124 -- as NaN is not
