"""Decisions: by the learner in front, and on disk before anybody hears of it; what was decided before, from the log."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from onebit.engine.stream import CHOICE_COLUMNS, CONFIDENCE, PROPENSITY, RAW, THRESHOLD
from onebit.errors import OnebitError
from onebit.serve.clock import Clock
from onebit.serve.cooperative_lock import CooperativeLock
from onebit.serve.errors import ConflictError, InvalidError, TooLargeError, UnavailableError
from onebit.serve.ids import NewIds
from onebit.serve.inputs import classes_in, numbers_in, stored_classes
from onebit.serve.judging import refuse_forgotten
from onebit.serve.log.errors import StaleError, TaskChangedError
from onebit.serve.log.inquiry import Inquiry
from onebit.serve.log.reading import NO_END, Reader
from onebit.serve.log.writing import Basis, Writer, Written
from onebit.serve.recent import Entry, Recent, settled
from onebit.serve.replicas import Choices
from onebit.serve.schemas import DecideRequest
from onebit.serve.served_task import ServedTask
from onebit.serve.tasks import TaskInfo, refuse_rule
from onebit.serve.terms import RequestTerms, is_same_set, is_unsure, terms_of

AT_ONCE = 256  # rows that are decided before others get a turn, at most
NAMES_AT_ONCE = 10_000  # of candidates, which are looked up
PROBABILITIES_AT_ONCE = 25_600
WEIGHTS_AT_ONCE = 10**7  # that are multiplied with numbers
BYTES_AT_ONCE = 2**13  # of texts, and of names with their numbers, which are read and hashed one by one
MOST_PROBABILITIES = 10**6  # in one reply
MOST_BYTES = 16 * 2**20  # of the reply, about
NUMBER_BYTES = 22  # of a probability in JSON, with what is around it and without the name of its class


class Ask(NamedTuple):
    """What is decided on, as the log keeps it, and what is asked beside it."""

    x: bytes
    terms: RequestTerms


class DecideHandler:
    """Decides for all tasks, on one event loop."""

    def __init__(
        self,
        writer: Writer,
        inquiry: Inquiry,
        recent: Recent,
        clock: Clock,
        shared: bool,
        heavy_work: CooperativeLock,
        max_values: int,
    ) -> None:
        self._heavy_work = heavy_work
        self._max_values = max_values  # of one x
        self._writer = writer
        self._inquiry = inquiry
        self._shared = shared  # the log: others may be deciding on the same ids
        self._recent = recent
        self._clock = clock
        self._ids = NewIds()

    async def decide(self, served: ServedTask, requests: Sequence[DecideRequest], single: bool) -> list[dict[str, Any]]:
        """Decide on many x, all or none. An id that was decided before is answered from the log.

        TaskChangedError where the task changed meanwhile: then the request must be judged again.
        """
        basis = Basis(task_change=served.info.last_change)
        classes = len(served.info.classes)
        if len(requests) * classes > MOST_PROBABILITIES:
            raise TooLargeError(
                f"{len(requests)} decisions among {classes} classes have {len(requests) * classes:,} probabilities, and "
                f"{MOST_PROBABILITIES:,} are the most in one request"
            )
        listed = sum(len(request.among) for request in requests if request.among is not None)
        size = len(requests) * (served.names_bytes + NUMBER_BYTES * classes) + listed * served.names_bytes // classes
        if len(requests) > 1 and size > MOST_BYTES:
            raise TooLargeError(
                f"{len(requests)} decisions among {classes} classes with their names are an answer of some {size:,} bytes, and "
                f"{MOST_BYTES:,} are the most"
            )
        stored = await self._stored(served, requests, single)
        terms = await self._terms(served, requests, single)
        ids = [request.id if request.id is not None else self._ids.new() for request in requests]
        given = [request.id for request in requests if request.id is not None]
        asks = [Ask(x, one) for x, one in zip(stored, terms, strict=True)]
        fresh = dict(zip(ids, asks, strict=True))
        if len(fresh) < len(ids):
            first: dict[str, Ask] = {}
            for index, (identity, one) in enumerate(zip(ids, asks, strict=True)):
                before = first.setdefault(identity, one)
                if before != one:
                    what = "x" if before.x != one.x else "sets of candidates, or certainties"
                    raise ConflictError(f"id {identity!r} is there twice, with two different {what}", f"[{index}].id")
        if self._shared:  # what others have decided on, the log says when it is written to
            given = [one for one in given if self._recent.get(served.info.number, one) is not None]
        answers = await self._repeat(served, given, fresh) if given else {}
        if given and served.info.forgotten_at:
            wanted = [one for one in given if one not in answers]
            await self._inquiry.of(lambda reader: refuse_forgotten(reader, served.info, wanted))
        while fresh := {identity: one for identity, one in fresh.items() if identity not in answers}:
            try:
                answers |= await self._decide_fresh(served, list(fresh), list(fresh.values()), single, basis)
            except TaskChangedError:
                raise
            except StaleError:
                answers |= await self._repeat(served, list(fresh), fresh)
                await self._refuse_gone(served.info, [one for one in fresh if one not in answers])
        return [answers[identity] for identity in ids]

    async def _refuse_gone(self, info: TaskInfo, ids: Sequence[str]) -> None:
        """Refuse ids that another node has forgotten, of which this one may not have heard."""

        def refuse(reader: Reader) -> None:
            now = reader.task(info.number, NO_END)
            if now is not None:
                refuse_forgotten(reader, now, ids)

        await self._inquiry.of(refuse)

    async def _stored(self, served: ServedTask, requests: Sequence[DecideRequest], single: bool) -> list[bytes]:
        """What the log keeps of every x."""
        inputs, found = served.info.inputs, []
        for start in range(0, len(requests), AT_ONCE):
            if start:
                await asyncio.sleep(0)  # others get a turn
            for index, request in enumerate(requests[start : start + AT_ONCE], start):
                found.append(inputs.stored(request.x, _field(index, single), self._max_values))
        return found

    @staticmethod
    async def _terms(served: ServedTask, requests: Sequence[DecideRequest], single: bool) -> list[RequestTerms]:
        """What is asked of every decision beside x."""
        info, names, found = served.info, 0, []
        usual = RequestTerms(sure=info.sure, risk=info.risk)
        for index, request in enumerate(requests):
            if request.among is None and request.sure is None and request.risk is None:
                found.append(usual)
                continue
            where = "" if single else f"[{index}]."
            found.append(terms_of(request, info, served.class_indices, where))
            if request.among is not None:
                refuse_rule(served.follower.replicas.resting, request.among, f"{where}among")
                names += len(request.among)
            if names > NAMES_AT_ONCE:
                names = 0
                await asyncio.sleep(0)  # others get a turn
        return found

    async def _decide_fresh(
        self, served: ServedTask, ids: list[str], asks: Sequence[Ask], single: bool, basis: Basis
    ) -> dict[str, dict[str, Any]]:
        stored, terms = [one.x for one in asks], [one.terms for one in asks]
        task, mode = served.info.number, served.info.mode
        # Nobody else may take these ids while the rest is decided.
        written: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        written.add_done_callback(_heard_of)
        entries = [Entry(0, 0.0, mode, written) for _ in ids]
        self._recent.add_all(task, ids, entries)
        parts: list[tuple[Any, ...]] = []
        answers: dict[str, dict[str, Any]] = {}
        try:
            pieces = _pieces(served, stored)
            for start, end in pieces:
                some_ids, some_x, some_terms = ids[start:end], stored[start:end], terms[start:end]
                if len(pieces) == 1 and sum(map(len, some_x)) < BYTES_AT_ONCE:
                    choices = _choices(served, some_x, some_ids, some_terms, start, single)
                else:
                    async with self._heavy_work:
                        choices = _choices(served, some_x, some_ids, some_terms, start, single)
                columns = choices.numbers[:, :CHOICE_COLUMNS].T.tolist()
                labels, greedy = ([int(one) for one in column] for column in columns[:2])
                surety = [[None if math.isnan(one) else one for one in column] for column in columns[RAW:]]
                probabilities = choices.numbers[:, CHOICE_COLUMNS:]
                among_blobs = [stored_classes(places) for places in choices.among]
                parts.append((choices, some_ids, (labels, greedy, *columns[2:RAW], *surety), some_x, among_blobs))
                version = f"{choices.generation}.{choices.learnt}"
                names = choices.classes
                # A class may be added at this moment, and be known here a little earlier or later than there.
                texts = served.texts if len(served.texts) == len(names) else [str(name) for name in names]
                for identity, label, best, propensity, of_classes, among, confidence, sure in zip(
                    some_ids,
                    labels,
                    greedy,
                    columns[PROPENSITY],
                    probabilities.tolist(),
                    choices.among,
                    surety[CONFIDENCE - RAW],
                    surety[THRESHOLD - RAW],
                    strict=True,
                ):
                    answers[identity] = {
                        "id": identity,
                        "label": names[label],
                        "greedy": names[best],
                        "propensity": propensity,
                        "probabilities": dict(zip(texts, of_classes, strict=False)),
                        "version": version,
                        "among": None if among is None else [names[place] for place in among],
                        "confidence": confidence,
                        "unsure": is_unsure(confidence, sure),
                    }
        except BaseException as error:
            self._recent.remove_all(task, ids)
            written.set_exception(error if isinstance(error, Exception) else OnebitError("stopped"))
            raise
        now = self._clock.now()  # the times of the log have the order of its rows
        rows = [row for part in parts for row in _rows(task, now, mode, *part)]

        def settle(future: asyncio.Future[Written]) -> None:
            """The rows are on disk, or will never be; also where whoever asked does not wait any more."""
            failed = OnebitError("stopped") if future.cancelled() else future.exception()
            if failed is not None:
                self._recent.remove_all(task, ids)
                written.set_exception(failed)
                return
            for seq, entry in enumerate(entries, future.result().seq):
                entry.seq, entry.time, entry.writing = seq, future.result().time, None
            written.set_result(future.result())

        self._writer.submit("decisions", rows, basis).add_done_callback(settle)
        await asyncio.shield(written)
        return answers

    async def _repeat(self, served: ServedTask, ids: Sequence[str], asked: dict[str, Ask]) -> dict[str, dict[str, Any]]:
        """Answers, from the log, for those of the ids that have been decided; nobody is deciding the others."""
        task = served.info.number
        answers: dict[str, dict[str, Any]] = {}
        wanted = list(dict.fromkeys(ids))
        while True:
            known = {one: entry for one in wanted if (entry := self._recent.get(task, one)) is not None}
            await settled(known.values())
            rows = _rows_at_once(served)
            for start in range(0, len(wanted), rows):
                if start:
                    await asyncio.sleep(0)  # others get a turn
                some = wanted[start : start + rows]
                for row in await self._inquiry.of(lambda reader, some=some: reader.known(served.info, some)):  # type: ignore[misc]
                    answers[row[1]] = _again(served, row, asked[row[1]])
            wanted = [one for one in wanted if one not in answers]
            # What was written, and is not in the log any more, another node has forgotten.
            self._recent.remove_all(
                task, [one for one in wanted if one in known and self._recent.get(task, one) is known[one]]
            )
            if not any(self._recent.get(task, one) for one in wanted):
                return answers


def _again(served: ServedTask, row: tuple[Any, ...], asked: Ask) -> dict[str, Any]:
    """The answer that was given to an id, from its row in the log."""
    _, identity, generation, learnt, label, greedy, propensity, probabilities, x, *rest = row
    among, complete, confidence, sure = rest
    classes, of_classes = served.info.classes, numbers_in(probabilities).tolist()
    places = None if among is None else classes_in(among).tolist()
    refuse_other(served, identity, x, len(of_classes), places, bool(complete), asked)
    return {
        "id": identity,
        "label": classes[label],
        "greedy": classes[greedy],
        "propensity": propensity,
        "probabilities": dict(zip(served.texts, of_classes, strict=False)),
        "version": f"{generation}.{learnt}",
        "among": None if places is None else [classes[place] for place in places],
        "confidence": confidence,
        "unsure": is_unsure(confidence, sure),
    }


def refuse_other(
    served: ServedTask, identity: str, x: bytes, count: int, among: Sequence[int] | None, complete: bool, asked: Ask
) -> None:
    """Refuse what is asked under an id that was decided for something else, when there were so many classes."""
    if x != asked.x:
        raise ConflictError(f"id {identity!r} was decided already, for another x", "id")
    retired = {served.class_indices[name] for name in served.info.retired}
    if not is_same_set(asked.terms.among, among, count, retired):
        raise ConflictError(f"id {identity!r} was decided already, among other classes", "id")
    if None not in (among, asked.terms.among) and asked.terms.complete is not complete:
        raise ConflictError(f"id {identity!r} was decided already, with another complete", "id")


def _rows_at_once(served: ServedTask) -> int:
    """So many that their probabilities, and their numbers times the weights, take no longer than some milliseconds."""
    classes = len(served.info.classes)
    weights = classes * (served.info.inputs.size or 1)
    return max(1, min(AT_ONCE, PROBABILITIES_AT_ONCE // classes, WEIGHTS_AT_ONCE // weights))


def _pieces(served: ServedTask, stored: Sequence[bytes]) -> list[tuple[int, int]]:
    """Where to cut rows so that deciding on each piece takes no longer than some milliseconds."""
    most = _rows_at_once(served)
    if served.info.inputs.kind == "numbers":
        return [(start, min(start + most, len(stored))) for start in range(0, len(stored), most)]
    cuts, size = [0], 0
    for index, x in enumerate(stored):
        size += len(x)
        if index > cuts[-1] and (size > BYTES_AT_ONCE or index - cuts[-1] == most):
            cuts.append(index)
            size = len(x)
    return list(itertools.pairwise([*cuts, len(stored)]))


def _field(index: int, single: bool) -> str:
    return "x" if single else f"[{index}].x"


def _choices(
    served: ServedTask,
    stored: Sequence[bytes],
    ids: list[str],
    terms: Sequence[RequestTerms],
    first: int,
    single: bool,
) -> Choices:
    """What the learner in front decides; an x that it refuses is named."""
    inputs, replicas, retired = served.info.inputs, served.follower.replicas, served.info.retired
    try:
        return replicas.decide(inputs.rows(stored), ids, terms, retired)
    except UnavailableError:
        raise
    except OnebitError:
        for index, (x, identity, one) in enumerate(zip(stored, ids, terms, strict=True), first):
            try:
                replicas.decide(inputs.rows([x]), [identity], [one], retired)
            except OnebitError as error:
                field = _field(index, single)
                # It speaks of one row of a table; here it is the x of a request.
                why = re.sub(r"^row 0[,:] | of [xX]\b", "", str(error))
                sentence = f"{field}{why.removeprefix('x')}" if why.startswith("x ") else f"{field}: {why}"
                raise InvalidError(sentence, field) from None
        raise


def _rows(
    task: int,
    now: float,
    mode: str,
    choices: Choices,
    ids: list[str],
    columns: Sequence[list[Any]],
    stored: Sequence[bytes],
    among: list[bytes | None],
) -> Iterator[tuple[Any, ...]]:
    """Rows for the log, put together by column, since there may be thousands."""
    probabilities = choices.numbers[:, CHOICE_COLUMNS:]
    content, width = probabilities.tobytes(), probabilities.shape[1] * probabilities.itemsize
    blobs = [content[start : start + width] for start in range(0, len(content), width)]
    made = (itertools.repeat(one) for one in (now, mode, choices.generation, choices.learnt))
    before, after = (made, columns[:RAW], (blobs, stored)), (among, map(int, choices.complete), *columns[RAW:])
    return zip(itertools.repeat(task), ids, *itertools.chain(*before), *after, strict=False)


def _heard_of(future: asyncio.Future[Written]) -> None:
    """Whoever waits hears of a failure; where nobody does, nobody need be warned."""
    if not future.cancelled():
        future.exception()
