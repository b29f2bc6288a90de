"""Decisions as plans: choose with the current learner, and log the row before replying.

A decision that was made before is answered from the log.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onebit.contract.validation import ClassName
from onebit.engine.stream import CHOICE_COLUMNS
from onebit.errors import OnebitError
from onebit.learner.decision import Decision
from onebit.service.core.feedback import refuse_forgotten
from onebit.service.core.plan import LookUp, Plan, Turn, settle
from onebit.service.core.replicas import Choices, RequestTerms
from onebit.service.core.served_task import ServedTask
from onebit.service.errors import ConflictError, InvalidError, UnavailableError
from onebit.service.inputs import ParsedX, decode_indices, decode_numbers, encode_indices
from onebit.service.requests import DecideRequest
from onebit.service.store.cache import CachedDecision
from onebit.service.store.errors import RowsTakenError
from onebit.service.store.rows import DecisionRow
from onebit.service.store.submission import Assumptions, Submission
from onebit.service.task import TaskInfo, check_sure_or_risk, is_unsure, require_candidate_support

if TYPE_CHECKING:
    from onebit.service.core.serving_core import ServingCore

AT_ONCE = 256  # most rows decided before others get a turn
NAMES_AT_ONCE = 10_000  # names of candidates looked up before others get a turn
PROBABILITIES_AT_ONCE = 25_600
WEIGHTS_AT_ONCE = 10**7  # weights multiplied for rows of numbers
BYTES_AT_ONCE = 2**13  # of texts and dicts, whose words and names are hashed one by one


class ProgramRequest(NamedTuple):
    """A decision request from a program; the counterpart of `DecideRequest` over HTTP."""

    x: Any
    id: str | None
    among: Sequence[ClassName] | None = None
    complete: bool = False
    sure: float | None = None
    risk: float | None = None


DecisionRequest = DecideRequest | ProgramRequest


class ParsedRequest(NamedTuple):
    """A validated request: its x, and its candidates and required certainty."""

    x: ParsedX
    terms: RequestTerms


def decide(
    core: ServingCore, served: ServedTask, requests: Sequence[DecisionRequest], single: bool
) -> Plan[list[DecisionRow]]:
    """Decide on all requests or none, and return the rows, of which new ones have no seq yet.

    An id that was decided before gets the same answer again. Raise TaskChangedError if the task changed meanwhile: then the requests must be validated
    again.
    """
    assumptions = served.assumptions
    parsed = yield from _parse_requests(core, served, requests, single)
    task, rows, by_id = served.info.number, dict[str, DecisionRow](), dict[str, ParsedRequest]()
    ids, known_ids = list[str](), list[str]()
    # Decisions that are not cached show up when the rows are written, unless rows are accepted before that; forgotten ids do so only in a shared log.
    looks_first = core.commits.soon or (served.info.forgotten_at > 0 and not core.store.shared)
    for index, (request, current) in enumerate(zip(requests, parsed, strict=True)):
        identity = next(core.new_ids) if request.id is None else request.id
        ids.append(identity)
        before = by_id.setdefault(identity, current)
        if before != current:
            difference = "x" if before.x != current.x else "candidates or required certainty"
            raise ConflictError(f"id {identity!r} occurs twice, with different {difference}", f"[{index}].id")
        if request.id is not None and (looks_first or core.cache.get(task, identity) is not None):
            known_ids.append(identity)
    if known_ids:
        rows = yield from _find_existing(core, served, known_ids, by_id)
        if served.info.forgotten_at:
            new_ids = [identity for identity in known_ids if identity not in rows]
            yield LookUp(lambda reader: refuse_forgotten(reader, served.info, new_ids))
    while len(rows) < len(by_id):
        undecided = (
            {identity: request for identity, request in by_id.items() if identity not in rows} if rows else by_id
        )
        try:
            rows |= yield from _make_decisions(core, served, undecided, single, assumptions)
        except RowsTakenError:
            rows |= yield from _find_existing(core, served, list(undecided), undecided)
            missing = [identity for identity in undecided if identity not in rows]
            yield LookUp(lambda reader, missing=missing: refuse_forgotten(reader, served.info, missing))  # type: ignore[misc]
    return [rows[identity] for identity in ids]


def _parse_requests(
    core: ServingCore, served: ServedTask, requests: Sequence[DecisionRequest], single: bool
) -> Plan[list[ParsedRequest]]:
    """Validate the requests; yield turns to others while a long list is checked."""
    info, parsed, names = served.info, list[ParsedRequest](), 0
    usual = RequestTerms(sure=info.sure, risk=info.risk)
    for index, request in enumerate(requests):
        if (index and index % AT_ONCE == 0) or names > NAMES_AT_ONCE:
            names = 0
            yield Turn()
        x = info.inputs.parse(request.x, "x" if single else f"[{index}].x", core.settings.max_values)
        if request.among is None and request.sure is None and request.risk is None:
            parsed.append(ParsedRequest(x, usual))
            continue
        where = "" if single else f"[{index}]."
        parsed.append(ParsedRequest(x, _parse_terms(request, served, where)))
        if request.among is not None:
            require_candidate_support(served.follower.replicas.resting, request.among, f"{where}among")
            names += len(request.among)
    return parsed


def _parse_terms(request: DecisionRequest, served: ServedTask, where: str) -> RequestTerms:
    """Return the candidates and required certainty of a request, with the task's defaults."""
    info = served.info
    check_sure_or_risk(request.sure, request.risk, where)
    certainty = (request.sure, request.risk)
    if certainty == (None, None):
        certainty = (info.sure, info.risk)
    if request.among is None:
        return RequestTerms(None, request.complete, *certainty)
    indices = {name: served.find_class(name, "among", where) for name in request.among}
    retired = set(info.retired)
    candidates = {index for name, index in indices.items() if name not in retired}
    if not candidates:
        raise InvalidError(f"{where}among has no playable class: all of them are retired", f"{where}among")
    return RequestTerms(tuple(sorted(candidates)), request.complete, *certainty)


def _make_decisions(
    core: ServingCore,
    served: ServedTask,
    requests: dict[str, ParsedRequest],
    single: bool,
    assumptions: Assumptions,
) -> Plan[dict[str, DecisionRow]]:
    """Make and log new decisions. Raise RowsTakenError if somebody else decided an id first."""
    ids, parsed, task = list(requests), list(requests.values()), served.info.number
    at_once, rows = _rows_at_once(served), list[DecisionRow]()
    is_small = len(parsed) <= at_once and sum(len(request.x.stored) for request in parsed) < BYTES_AT_ONCE
    for start, end in [(0, len(parsed))] if is_small else _split_rows(served, parsed, at_once):
        if not is_small:
            yield Turn()
        choices = _choose(served, ids[start:end], parsed[start:end], start, single)
        rows += _build_rows(served.info, ids[start:end], parsed[start:end], choices, core.clock.now())
    if not is_small:  # others had a turn, but times in the log must have the order of its rows
        now = core.clock.now()
        rows = [row._replace(time=now) for row in rows]
    submission = Submission(task, assumptions)
    for identity, row, request in zip(ids, rows, parsed, strict=True):
        if core.cache.get(task, identity) is not None:
            raise RowsTakenError("an id was decided by another request meanwhile")
        submission.decisions.append(CachedDecision(row, request.x.value, submission))
    core.cache.add(submission.decisions)

    def finish() -> None:
        """Clean up when the rows are written or have failed, even if the caller no longer waits."""
        if submission.error is not None:
            core.cache.remove(task, ids)
        for decision in submission.decisions:
            decision.ticket = None

    submission.add_done_callback(finish)
    core.submit(submission)
    yield submission
    return dict(zip(ids, rows, strict=True))


def _find_existing(
    core: ServingCore, served: ServedTask, ids: Sequence[str], requests: dict[str, ParsedRequest]
) -> Plan[dict[str, DecisionRow]]:
    """Return the decisions among `ids` that already exist, after waiting for those being made."""
    task, info = served.info.number, served.info
    rows: dict[str, DecisionRow] = {}
    open_ids = list(dict.fromkeys(ids))
    while True:
        cached = {identity: hit for identity in open_ids if (hit := core.cache.get(task, identity)) is not None}
        yield from settle([decision.ticket for decision in cached.values()])
        if not core.store.shared:  # in a shared log, another node may have forgotten it
            for identity, decision in cached.items():
                row = decision.row
                if row is not None and core.cache.get(task, identity) is decision:
                    _refuse_other(served, row, requests[identity])
                    rows[identity] = row
        unread = [identity for identity in open_ids if identity not in rows]
        step = _rows_at_once(served)
        for start in range(0, len(unread), step):
            if start:
                yield Turn()
            chunk = unread[start : start + step]
            logged: list[DecisionRow] = yield LookUp(lambda reader, chunk=chunk: reader.decision_rows(info, chunk))  # type: ignore[misc]
            for row in logged:
                _refuse_other(served, row, requests[row.id])
                rows[row.id] = row
        open_ids = [identity for identity in open_ids if identity not in rows]
        still_cached = [identity for identity in open_ids if core.cache.get(task, identity) is not None]
        # Decisions that were written but are gone from the log were forgotten by another node.
        stale = [identity for identity in still_cached if core.cache.get(task, identity) is cached.get(identity)]
        core.cache.remove(task, stale)
        if len(stale) == len(still_cached):
            return rows


def _refuse_other(served: ServedTask, row: DecisionRow, request: ParsedRequest) -> None:
    """Raise ConflictError if an id was decided for another x or on other terms."""
    if row.x != request.x.stored:
        raise ConflictError(f"id {row.id!r} was already decided for another x", "id")
    among, terms = None if row.among is None else decode_indices(row.among).tolist(), request.terms
    retired = {served.class_indices[name] for name in served.info.retired}
    if not is_same_set(terms.among, among, len(row.probabilities) // 8, retired):
        raise ConflictError(f"id {row.id!r} was already decided among other classes", "id")
    if None not in (among, terms.among) and terms.complete is not bool(row.complete):
        raise ConflictError(f"id {row.id!r} was already decided with another value of complete", "id")


def is_same_set(requested: Sequence[int] | None, logged: Sequence[int] | None, classes: int, retired: set[int]) -> bool:
    """Return True if a requested candidate set equals a logged one, apart from retired classes.

    When the logged decision was made there were `classes` classes. Classes retired since then may be missing from the request, and those already retired
    are missing from the log.
    """
    then = set(range(classes) if logged is None else logged)
    now = set(range(classes) if requested is None else requested)
    return then ^ now <= retired


def _rows_at_once(served: ServedTask) -> int:
    """Return how many rows can be decided in a few milliseconds, judging by probabilities and weights."""
    classes = len(served.info.classes)
    weights = classes * (served.info.inputs.size or 1)
    return max(1, min(AT_ONCE, PROBABILITIES_AT_ONCE // classes, WEIGHTS_AT_ONCE // weights))


def _split_rows(served: ServedTask, requests: Sequence[ParsedRequest], most: int) -> list[tuple[int, int]]:
    """Split rows into ranges (start, end) of at most `most` rows that each take a few milliseconds to decide."""
    is_hashed = served.info.inputs.kind != "numbers"
    cuts, size = [0], 0
    for index, request in enumerate(requests):
        size += len(request.x.stored)
        if index > cuts[-1] and ((is_hashed and size > BYTES_AT_ONCE) or index - cuts[-1] == most):
            cuts.append(index)
            size = len(request.x.stored)
    return list(itertools.pairwise([*cuts, len(requests)]))


def _choose(served: ServedTask, ids: list[str], requests: Sequence[ParsedRequest], first: int, single: bool) -> Choices:
    """Return the choices of the current learner; raise InvalidError naming the x that it rejects."""
    inputs, replicas, retired = served.info.inputs, served.follower.replicas, served.info.retired
    terms = [request.terms for request in requests]
    try:
        return replicas.decide(inputs.stack([request.x.value for request in requests]), ids, terms, retired)
    except UnavailableError:
        raise
    except OnebitError:
        for index, (identity, request) in enumerate(zip(ids, requests, strict=True), first):
            try:
                replicas.decide(inputs.stack([request.x.value]), [identity], [request.terms], retired)
            except OnebitError as error:
                field = "x" if single else f"[{index}].x"
                # The message is about a row of a table; here that is the x of a request.
                why = re.sub(r"^row 0[,:] | of [xX]\b", "", str(error))
                sentence = f"{field}{why.removeprefix('x')}" if why.startswith("x ") else f"{field}: {why}"
                raise InvalidError(sentence, field) from None
        raise


def _build_rows(
    info: TaskInfo, ids: Sequence[str], requests: Sequence[ParsedRequest], choices: Choices, now: float
) -> list[DecisionRow]:
    """Return the log rows for the choices."""
    chances = choices.numbers[:, CHOICE_COLUMNS:]
    content, width = chances.tobytes(), chances.shape[1] * chances.itemsize
    rows = []
    for number, (identity, request, choice, places, complete) in enumerate(
        zip(ids, requests, choices.numbers[:, :CHOICE_COLUMNS].tolist(), choices.among, choices.complete, strict=True)
    ):
        label, greedy, weight, note, second_note, propensity, raw, confidence, threshold = choice
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
                x=request.x.stored,
                among=None if places is None else encode_indices(places),
                complete=int(complete),
                raw=None if isnan(raw) else raw,
                confidence=None if isnan(confidence) else confidence,
                sure=None if isnan(threshold) else threshold,
            )
        )
    return rows


def as_reply(served: ServedTask, row: DecisionRow) -> dict[str, Any]:
    """Return a decision in the form of `replies.DecisionReply`."""
    classes = served.info.classes
    return {
        "id": row.id,
        "label": classes[row.label],
        "greedy": classes[row.greedy],
        "propensity": row.propensity,
        "probabilities": dict(zip(served.texts, decode_numbers(row.probabilities).tolist(), strict=False)),
        "version": f"{row.generation}.{row.learnt}",
        "among": None if row.among is None else [classes[index] for index in decode_indices(row.among)],
        "confidence": row.confidence,
        "unsure": is_unsure(row.confidence, row.sure),
    }


def as_decision(served: ServedTask, row: DecisionRow, x: Any) -> Decision:
    """Return a decision on `x` as the `Decision` that the task's learner would have returned."""
    classes = served.info.classes
    chances = zip(classes, decode_numbers(row.probabilities).tolist(), strict=False)
    return Decision(
        row.id,
        classes[row.label],
        row.propensity,
        classes[row.greedy],
        row.weight,
        (row.note, row.second_note),
        np.frombuffer(row.x) if served.info.inputs.kind == "numbers" else x,
        row.learnt,
        served.follower.replicas.resting.runtime.identity,
        None if row.among is None else tuple(classes[index] for index in decode_indices(row.among)),
        bool(row.complete),
        {name: chance for name, chance in chances if chance > 0.0},
        row.raw,
        row.confidence,
        row.sure,
    )
