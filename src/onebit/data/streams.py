"""Streams: labelled data in an order, with optional label noise, drift, delayed and missing feedback.

Everything random is drawn from the seed of a run, each kind with draws of its own: two runs with the same seed have the
same order, noise and delays, whichever learners they are for.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.contract.memory import require_memory
from onebit.contract.parameters import Real, named_parameters, require_known
from onebit.contract.validation import checked_count, checked_seed
from onebit.data.candidate_sets import CandidateSets, candidate_draws, check_size
from onebit.data.dataset import Dataset, describe_long_runs, describe_rows
from onebit.data.sources import LABEL_BYTES, Source, source_of
from onebit.data.stream_changes import (
    Delay,
    Drift,
    LabelChange,
    Piece,
    add_noise,
    draw_answer_rounds,
    late_parts,
    prompt_parts,
    rename_labels,
)
from onebit.data.stream_rounds import Offer, StreamRound, candidate_names, make_feedback
from onebit.engine.schedule import NO_REWARDS, NOTHING, WHOLE, Schedule
from onebit.engine.stream import CHOICE_COLUMNS, DECIDE, EVENT, LEARN
from onebit.errors import InputError, brief, nearest
from onebit.features.rows import is_sparse, slice_sparse
from onebit.spaces.sparse import SparseRows

ORDERS = {
    "file": "the rows as they stand, starting over when they run out",
    "shuffle": "the rows in a random order, different in each run and each pass",
    "resample": "rows drawn with replacement",
}
PIECE_ROUNDS = 1 << 16  # rounds in a piece of a schedule
ROUND_BYTES = 16  # the label of a round and its row number
MEMBER_BYTES = 16  # a candidate, in a set and in the packed array
LATE_BYTES = 256  # at most, for a round whose feedback may come late or never

SHARE = Real("[0, 1)", "a share of the rounds")

# Numbers of the random generators seeded by a run, one for each use.
_ORDER, _NOISE = 15, 16  # drift, delays and missing feedback have the next ones


@dataclass(frozen=True)
class Stream:
    """Labelled data in the order in which a learner meets them, made by `onebit.stream`."""

    source: Source
    rounds: int
    order: str
    noise: float
    drift: Drift | None
    delay: Delay | None
    missing: float
    seed: int
    candidates: int = 0  # number drawn in each round; 0 if the source lists them, or all classes are candidates
    corrected: float = 0.0

    def __repr__(self) -> str:
        return f"Stream({self.name}, {self.rounds:,} rounds, order={self.order})"

    @cached_property
    def key(self) -> str:
        """The definition as text; equal streams have equal keys."""
        return json.dumps(self.described(), sort_keys=True)

    @property
    def name(self) -> str:
        """The name shown in tables: the data and the changes made to them."""
        settings = {
            "noise": self.noise,
            "drift": self.drift,
            "delay": self.delay,
            "missing": self.missing,
            "candidates": self.candidates or self.source.candidates,
            "corrected": self.corrected,
        }
        changes = [*self.source.prepare, *(f"{name} {value}" for name, value in settings.items() if value)]
        return f"{self.source.name} ({', '.join(changes)})" if changes else self.source.name

    @property
    def has_late_feedback(self) -> bool:
        """True if feedback may come late or never."""
        return self.delay is not None or self.missing > 0.0

    @property
    def restricted(self) -> bool:
        """True if rounds have candidates."""
        return bool(self.candidates or self.source.candidates)

    @property
    def drawn_in_order(self) -> bool:
        """True if rows are drawn for consecutive rounds, so that earlier ones need not be kept."""
        return self.source.pieces is not None and self.order == "file"

    @property
    def whole_bytes(self) -> int:
        """The memory in bytes of a run whose rounds are all made at once, not counting fixed rows."""
        rows = 0 if self.source.fixed else self._row_bytes
        return self.rounds * rows + self._schedule_bytes

    @property
    def _schedule_bytes(self) -> int:
        """The memory in bytes of a schedule of all rounds."""
        chosen = 8 * CHOICE_COLUMNS if self.corrected else 0  # choices are kept for corrections
        return int(
            self.rounds * ((LATE_BYTES if self.has_late_feedback else ROUND_BYTES + chosen) + self._candidate_bytes)
        )

    @property
    def _candidate_bytes(self) -> float:
        """The average memory in bytes of the candidates of a round."""
        if self.source.candidates:
            data = self.data(0)
            assert data.candidates is not None
            return MEMBER_BYTES * (1 + len(data.candidates.members) / data.rows)
        return MEMBER_BYTES * (1 + self.candidates) if self.candidates else 0

    @property
    def _row_bytes(self) -> int:
        """The memory in bytes of a drawn row and its label."""
        return 4 * self.source.columns + LABEL_BYTES

    @property
    def least_bytes(self) -> int:
        """The least memory in bytes of a run, however small its pieces; rows that were given do not count."""
        is_drawn, rows = self.source.columns > 0, self.rounds if self.source.columns else self.source.rounds
        total = rows * self._row_bytes if is_drawn and not self.drawn_in_order else 0
        if self.order == "shuffle":
            total += rows * ROUND_BYTES  # a permutation, and the remainder of the previous one
        if self.delay is not None:
            row = self._row_bytes if self.drawn_in_order else 0
            waiting_bytes = 6 * row + 2 * (LATE_BYTES + self._candidate_bytes)  # while one part is replaced by the next
            total += int(self.delay.most_waiting(self.rounds) * waiting_bytes)
        return total

    @cached_property
    def about(self) -> str:
        """A description of fixed rows; empty if rows are drawn anew in every run."""
        return describe_rows(self.data(0), self.order, self.candidates) if self.source.fixed else ""

    @cached_property
    def caveat(self) -> str:
        """A warning if errors on this stream mean less than they seem to; otherwise empty."""
        return describe_long_runs(self.data(0).y) if self.order == "file" and self.source.fixed else ""

    def described(self) -> dict[str, Any]:
        """Return all that defines the stream, except the seed of a run, as plain values."""
        return {
            **self.source.identity,
            "rounds": self.rounds,
            "order": self.order,
            "noise": self.noise,
            "drift": None if self.drift is None else str(self.drift),
            "delay": None if self.delay is None else str(self.delay),
            "missing": self.missing,
            # Present only if used; 0 is not a value that a stream takes.
            **({"candidates": self.candidates} if self.candidates else {}),
            **({"corrected": self.corrected} if self.corrected else {}),
        }

    def data(self, seed: int) -> Dataset:
        """Return the rows of the run with this seed."""
        return self.source.make(self.rounds, seed)

    def schedule(self, data: Dataset, seed: int) -> Schedule:
        """Return the schedule of these rows in the run with this seed."""
        require_memory(
            self._schedule_bytes,
            f"the schedule of {self.rounds:,} rounds, all of them at once,",
            "take fewer rounds",
        )
        order = np.concatenate(list(self._orders(data.rows, seed)))
        _, schedule = next(self._parts([(data, order)], seed))
        in_order = self.order == "file" and not self.has_late_feedback
        return schedule._replace(part=WHOLE, order=NOTHING if in_order else schedule.order)

    def pieces(self, seed: int, held: Dataset | None = None) -> Iterator[tuple[Dataset, Schedule]]:
        """Yield the rows and the schedule of the run with this seed in pieces; rounds count from 0 in each.

        Rows drawn for consecutive rounds are released, except those whose feedback is still to come. Rows that are
        fixed, or come in another order, are kept; pass them as `held` if they are already in memory.
        """
        if self.drawn_in_order:
            assert self.source.pieces is not None
            return self._parts(((piece, NOTHING) for piece in self.source.pieces(self.rounds, seed)), seed)
        data = held or self.data(seed)
        return self._parts(((data, order) for order in self._orders(data.rows, seed)), seed)

    def _parts(
        self, rows: Iterable[tuple[Dataset, NDArray[np.int64]]], seed: int
    ) -> Iterator[tuple[Dataset, Schedule]]:
        """Yield the rows and schedules of the parts of a run.

        `rows` has the rows of consecutive rounds with their numbers; no numbers mean all rows in order.
        """
        pieces = self._pieces(rows, seed)
        if self.has_late_feedback:
            parts = late_parts(pieces, self.rounds, draw_answer_rounds(self.delay, self.missing, self.rounds, seed))
        else:
            parts = prompt_parts(pieces, self.rounds)
        for data, schedule in parts:
            rewards = NO_REWARDS if data.rewards is None else data.rewards
            yield data, schedule._replace(rewards=rewards, corrections=self.corrected)

    def _pieces(self, rows: Iterable[tuple[Dataset, NDArray[np.int64]]], seed: int) -> Iterator[Piece]:
        """Yield the stream in pieces: rows, labels with noise and drift applied, and candidates."""
        changes: list[LabelChange] = []
        draw: Callable[[NDArray[np.int64]], CandidateSets] | None = None
        for number, (data, order) in enumerate(rows):
            classes = len(data.classes)
            if number == 0 and self.noise:
                changes.append(add_noise(np.random.default_rng([_NOISE, seed]), classes, self.noise, self.rounds))
            if number == 0 and self.drift is not None:
                changes.append(rename_labels(self.drift, classes, self.rounds, seed))
            if number == 0 and self.candidates:
                draw = candidate_draws(self.candidates, classes, seed)
            labels = data.y[order] if len(order) else data.y
            for change in changes:
                labels = change(labels)
            labels = np.ascontiguousarray(labels, dtype=np.int64)
            listed = None if data.candidates is None else data.candidates.select(order)
            yield Piece(data, order, labels, draw(labels) if draw else listed)

    def _orders(self, rows: int, seed: int) -> Iterator[NDArray[np.int64]]:
        """Yield the row number of each round, in pieces."""
        generator, waiting, first = np.random.default_rng([_ORDER, seed]), NOTHING, 0
        while first < self.rounds:
            size = min(PIECE_ROUNDS, self.rounds - first)
            if self.order == "file":
                yield np.arange(first, first + size) % rows
            elif self.order == "resample":
                yield generator.integers(0, rows, size=size)
            else:
                passes = range(-(-(size - len(waiting)) // rows))
                waiting = np.concatenate([waiting, *(generator.permutation(rows) for _ in passes)])
                yield waiting[:size]
                waiting = waiting[size:]
            first += size

    # --- iteration over rounds, for any learner -----------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rounds

    def __iter__(self) -> Iterator[StreamRound]:
        """Yield the rounds of a stream with immediate feedback; `right.among` holds their candidates."""
        if self.has_late_feedback:
            raise InputError("in this stream feedback comes late or never: iterate over stream.events() instead")
        for event, _, value in self.events():
            if event == "decide":
                x = value.x if isinstance(value, Offer) else value
            else:
                yield StreamRound(x, value)

    def events(self) -> Iterator[tuple[str, int, Any]]:
        """Yield ("decide", round number, x), and later or never ("answer", round number, right).

        In rounds with candidates, x is an `Offer` of x and the candidates. `right` is a `StreamFeedback`.

        >>> rounds = stream([[0.0], [1.0]], ["no", "yes"], rounds=3, order="file", delay=1)
        >>> [(what, number) for what, number, _ in rounds.events()]
        [('decide', 0), ('decide', 1), ('answer', 0), ('decide', 2), ('answer', 1)]
        """
        held = None
        for data, schedule in self.pieces(self.seed):
            if data is not held:
                held = data
                rows = X = data.X
                if is_sparse(X):
                    rows = SparseRows(X.data, np.asarray(X.indices, dtype=np.int32), X.indptr, int(X.shape[1]))
            for step in range(schedule.steps):
                event = int(schedule.events[step]) if len(schedule.events) else step * EVENT + (DECIDE | LEARN)
                number = event // EVENT
                if event & DECIDE:
                    row, among = schedule.row(step, data.rows), candidate_names(data, schedule, number)
                    x = slice_sparse(rows, row) if isinstance(rows, SparseRows) else rows[row]
                    yield "decide", schedule.number(number), x if among is None else Offer(x, among)
                if event & LEARN:
                    yield "answer", schedule.number(number), make_feedback(data, schedule, step, self.seed)


def stream(
    X: Any,
    y: Any = None,
    *,
    rounds: int | None = None,
    order: str | None = None,
    noise: float = 0.0,
    drift: str | Drift | None = None,
    delay: float | str | Delay | None = None,
    missing: float = 0.0,
    candidates: Any = None,
    corrected: float = 0.0,
    seed: int | None = None,
    **data: Any,
) -> Stream:
    """Turn labelled data into a stream of rounds that are answered with right or wrong.

    `X` is the name of a data set, a path, or rows with labels `y`; further keywords are those of
    `onebit.data.source_of`. Rows are shuffled unless another `order` is given, because many files are sorted by class,
    and then "the same as before" is nearly always right. Generated data arrive in the order in which they are drawn.
    With probability `noise` a label is replaced by one drawn uniformly, and with probability `missing` the feedback on
    a round never arrives.

    With `candidates=5` each round has five candidates, the right class among them; `candidates` can also name the
    column that lists them, or be a list of names for each row. With `corrected`, the label is revealed in that share of
    the wrong rounds. `rewards` gives the reward of each class in each row, from 0 to 1, as columns of a table or as a
    matrix.

    Side effect: data that are not on this machine may be downloaded into the user's cache.

    >>> import onebit
    >>> learner = onebit.BPA(classes=10, aggressiveness=0.001)
    >>> for x, right in onebit.stream("synsep10", rounds=100):
    ...     decision = learner.decide(x)
    ...     learner.learn(decision, right(decision.label))
    """
    if isinstance(X, Stream):
        arguments = {**data, "y": y, "rounds": rounds, "order": order, "drift": drift, "delay": delay, "seed": seed}
        options = [name for name, value in {**arguments, "candidates": candidates}.items() if value is not None]
        options += [name for name, value in (("noise", noise), ("missing", missing), ("corrected", corrected)) if value]
        if options:
            raise InputError(f"a stream brings its own {options[0]}: give it where the stream is made")
        return X
    require_known("a stream", data, stream_parameters())
    if rounds is not None:
        rounds = checked_count("rounds", rounds)
    if order is not None and order not in ORDERS:
        raise InputError(f"order is {brief(order)}; {nearest(str(order), ORDERS)}")
    is_number = isinstance(candidates, int | float | np.number)
    source = source_of(X, y, candidates=None if is_number else candidates, **data)
    for option, value in (("noise", noise), ("drift", drift)):
        if value and (source.rewards or source.candidates):
            beside = "rewards" if source.rewards else "listed candidates"
            raise InputError(
                f"{option} changes labels, so it cannot be combined with {beside}, which determine the right class"
            )
    return Stream(
        source,
        source.rounds if rounds is None else rounds,
        order or ("shuffle" if source.fixed else "file"),
        SHARE.encode("noise", noise),
        Drift.read(drift),
        Delay.read(delay),
        SHARE.encode("missing", missing),
        checked_seed(0 if seed is None else seed),
        check_size(candidates, len(source.make(1, 0).classes)) if is_number else 0,
        Real("[0, 1]", "a share of the rounds").encode("corrected", corrected),
    )


def stream_parameters() -> dict[str, inspect.Parameter]:
    """Return the parameters of `stream` and `source_of`, except the data X and y."""
    known = {**named_parameters(stream), **named_parameters(source_of)}
    return {name: parameter for name, parameter in known.items() if name not in ("X", "y")}
