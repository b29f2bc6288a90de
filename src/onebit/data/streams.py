"""A stream: labelled data, and how they come. The order of the rows, noise in the labels, drift, feedback late or never.

Everything by chance is drawn from the seed of a run, each thing from draws of its own: two runs with the same seed have the same
order, the same noise and the same delays, whichever learners they are for.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onebit.contract.parameters import named_parameters, refuse_unknown
from onebit.data.label_runs import runs_test
from onebit.data.sources import Source, source_of
from onebit.data.tables import Dataset
from onebit.deprecation import Renamed
from onebit.engine.schedule import NOTHING, Schedule, events_of
from onebit.engine.stream import DECIDE, EVENT, LEARN
from onebit.errors import InputError, brief, nearest
from onebit.rows import SparseRow, is_sparse
from onebit.validation import ClassName, checked_seed, listed

ORDERS = {
    "file": "the rows as they stand, again from the start when they run out",
    "shuffle": "the rows in an order of each run's own, anew each time through",
    "resample": "rows drawn with replacement",
}
TAIL = 1.5  # of the heavy tail: the variance is infinite, the mean is not

# What is drawn from a run's seed, each from draws of its own.
_ORDER, _NOISE, _DRIFT, _DELAY, _MISSING = 15, 16, 17, 18, 19


@dataclass(frozen=True)
class Drift:
    """The labels are renamed, all at once where `begin` is `end`, or one by one between the two (fractions of the stream)."""

    begin: float
    end: float

    def __str__(self) -> str:
        return f"abrupt:{self.begin:g}" if self.begin == self.end else f"gradual:{self.begin:g}..{self.end:g}"

    @classmethod
    def read(cls, given: object) -> Drift | None:
        """From `abrupt`, `abrupt:0.5`, `gradual` or `gradual:0.25..0.75`.

        >>> str(Drift.read("gradual"))
        'gradual:0.25..0.75'
        """
        if given is None or isinstance(given, Drift):
            return given
        kind, _, places = str(given).partition(":")
        if kind not in ("abrupt", "gradual"):
            raise InputError(f"drift is {brief(given)}, but must be abrupt:AT or gradual:FROM..TO")
        try:
            cuts = [float(place) for place in places.split("..")] if places else []
        except ValueError:
            cuts = [float("nan")]
        if kind == "abrupt":
            begin, end = (cuts or [0.5])[0], (cuts or [0.5])[-1]
            fits = len(cuts) <= 1 and 0.0 < begin < 1.0
        else:
            begin, end = (cuts or [0.25])[0], (cuts or [0.75])[-1]
            fits = len(cuts) in (0, 2) and 0.0 <= begin < end <= 1.0
        if not fits:
            raise InputError(
                f"drift is {brief(given)}, but its places are fractions of the stream: abrupt:0.5, gradual:0.25..0.75"
            )
        return cls(begin, end)

    def renamed(self, labels: NDArray[np.int64], classes: int, seed: int) -> NDArray[np.int64]:
        """The labels of a stream that drifts; no class keeps its name."""
        generator = np.random.default_rng([_DRIFT, seed])
        around = generator.permutation(classes)
        other = np.empty(classes, dtype=np.int64)
        other[around] = np.roll(around, 1)  # one cycle through all classes, so that none stays
        place = (np.arange(len(labels)) + 0.5) / len(labels)
        share = (place - self.begin) / max(self.end - self.begin, 1e-12)
        return np.where(generator.random(len(labels)) < share, other[labels], labels)


@dataclass(frozen=True)
class Delay:
    """How many further rounds are decided before the feedback on a round comes."""

    kind: str
    mean: float

    def __str__(self) -> str:
        return f"{self.kind}:{self.mean:g}"

    KINDS = ("fixed", "geometric", "heavy-tail")

    @classmethod
    def read(cls, given: object) -> Delay | None:
        """From a number of rounds, `fixed:N`, `geometric:MEAN` or `heavy-tail:MEAN`.

        >>> str(Delay.read(20)), str(Delay.read("geometric:20"))
        ('fixed:20', 'geometric:20')
        """
        if given is None or isinstance(given, Delay):
            return given
        kind, colon, number = str(given).partition(":")
        if not colon:
            kind, number = "fixed", kind
        if kind not in cls.KINDS:
            raise InputError(
                f"delay is {brief(given)}; {nearest(kind, cls.KINDS)}, each with a number of rounds: fixed:10"
            )
        try:
            mean = float(number.replace("_", ""))
        except ValueError:
            mean = float("nan")
        if not 0.0 <= mean <= 1e9 or (kind == "fixed" and not mean.is_integer()):
            what = "a whole number of rounds" if kind == "fixed" else "a mean number of rounds"
            raise InputError(f"delay is {brief(given)}, but needs {what} from 0 to 1e9: {kind}:10")
        return cls(kind, mean) if mean else None

    def draw(self, rounds: int, seed: int) -> NDArray[np.int64]:
        """The delay of every round."""
        generator = np.random.default_rng([_DELAY, seed])
        if self.kind == "fixed":
            return np.full(rounds, int(self.mean), dtype=np.int64)
        if self.kind == "geometric":
            return generator.geometric(1.0 / (1.0 + self.mean), size=rounds).astype(np.int64) - 1
        drawn = np.minimum(generator.pareto(TAIL, size=rounds) * self.mean * (TAIL - 1.0), 1e12)
        return np.floor(drawn + generator.random(rounds)).astype(np.int64)  # rounded by chance, which keeps the mean


class StreamRound(NamedTuple):
    """What a round brings: x, and somebody who says whether a label is right."""

    x: Any
    right: Callable[[ClassName], bool]


@dataclass(frozen=True)
class Stream:
    """Labelled data as they come to a learner. Made by `onebit.stream`."""

    source: Source
    rounds: int
    order: str
    noise: float
    drift: Drift | None
    delay: Delay | None
    missing: float
    seed: int

    def __repr__(self) -> str:
        return f"Stream({self.name}, {self.rounds:,} rounds, order={self.order})"

    @cached_property
    def key(self) -> str:
        """What it is, as text: equal streams have equal keys."""
        return json.dumps(self.described(), sort_keys=True)

    @property
    def name(self) -> str:
        """What it is called in tables: the data, and what was done to them."""
        settings = {"noise": self.noise, "drift": self.drift, "delay": self.delay, "missing": self.missing}
        said = [*self.source.prepare, *(f"{name} {value}" for name, value in settings.items() if value)]
        return f"{self.source.name} ({', '.join(said)})" if said else self.source.name

    @cached_property
    def about(self) -> str:
        """What fixed rows are like, in one line; nothing of rows that are drawn anew in every run."""
        if not self.source.fixed:
            return ""
        data = self.data(0)
        counts = np.bincount(data.y, minlength=len(data.classes))
        shape: tuple[int, ...] = getattr(data.X, "shape", (data.rows,))
        width = f", {shape[1]:,} features" if len(shape) == 2 else ""
        orders = {"file": "in the order of the file", "shuffle": "shuffled", "resample": "drawn with replacement"}
        return (
            f"{data.rows:,} rows{width}, {len(data.classes)} classes ({listed(data.classes)}), {orders[self.order]}; "
            f"always naming the most frequent class errs {100 * (1 - counts.max() / data.rows):.1f} %"
        )

    @cached_property
    def caveat(self) -> str:
        """What makes errors on this stream mean less than they seem to; nothing where there is nothing of the kind."""
        if self.order != "file" or not self.source.fixed:
            return ""
        found = runs_test(self.data(0).y)
        if not found.long:
            return ""
        return (
            f"equal labels stand together in the file ({found.runs:,} runs of them, and {found.mean:,.0f} would be usual): the error is that "
            "of this order, in which naming the class before is often right, and not of new rows; order shuffle has that"
        )

    def described(self) -> dict[str, Any]:
        """Everything that makes the stream what it is, but for the seed of a run, as plain values."""
        return {
            **self.source.identity,
            "rounds": self.rounds,
            "order": self.order,
            "noise": self.noise,
            "drift": None if self.drift is None else str(self.drift),
            "delay": None if self.delay is None else str(self.delay),
            "missing": self.missing,
        }

    def data(self, seed: int) -> Dataset:
        """The rows of the run with this seed."""
        return self.source.make(self.rounds, seed)

    course = Renamed("schedule")

    def schedule(self, data: Dataset, seed: int) -> Schedule:
        """The schedule of these rows in the run with this seed."""
        order = self._order(data.rows, seed)
        labels = data.y[order] if len(order) else data.y if self.rounds == data.rows else np.resize(data.y, self.rounds)
        if self.noise:
            generator = np.random.default_rng([_NOISE, seed])
            drawn = generator.integers(0, len(data.classes), size=self.rounds)
            labels = np.where(generator.random(self.rounds) < self.noise, drawn, labels)
        if self.drift is not None:
            labels = self.drift.renamed(labels, len(data.classes), seed)
        labels = np.ascontiguousarray(labels, dtype=np.int64)
        if self.delay is None and not self.missing:
            return Schedule(labels, order)
        return Schedule(
            labels, order if len(order) else np.arange(self.rounds) % data.rows, events_of(self._answers(seed))
        )

    def _order(self, rows: int, seed: int) -> NDArray[np.int64]:
        if self.order == "file":
            return NOTHING
        generator = np.random.default_rng([_ORDER, seed])
        if self.order == "resample":
            return generator.integers(0, rows, size=self.rounds)
        passes = [generator.permutation(rows) for _ in range(-(-self.rounds // rows))]
        return np.concatenate(passes)[: self.rounds].astype(np.int64)

    def _answers(self, seed: int) -> NDArray[np.int64]:
        """After which round the feedback of each comes; -1 for never."""
        answers = np.arange(self.rounds)
        if self.delay is not None:
            answers = answers + self.delay.draw(self.rounds, seed)
        if self.missing:
            never = np.random.default_rng([_MISSING, seed]).random(self.rounds) < self.missing
            answers = np.where(never, -1, answers)
        return answers.astype(np.int64)

    # --- one round after the other, for a learner of any kind -------------------------------------------------------

    def __len__(self) -> int:
        return self.rounds

    def __iter__(self) -> Iterator[StreamRound]:
        """Round after round, where feedback comes at once."""
        if self.delay is not None or self.missing:
            raise InputError("in this stream feedback comes late or never: go through stream.events() instead")
        for what, _, value in self.events():
            if what == "decide":
                x = value
            else:
                yield StreamRound(x, value)

    def events(self) -> Iterator[tuple[str, int, Any]]:
        """What happens: ("decide", number of the round, x), and later, or never, ("answer", number of the round, right).

        >>> rounds = stream([[0.0], [1.0]], ["no", "yes"], rounds=3, order="file", delay=1)
        >>> [(what, number) for what, number, _ in rounds.events()]
        [('decide', 0), ('decide', 1), ('answer', 0), ('decide', 2), ('answer', 1)]
        """
        data = self.data(self.seed)
        schedule, rows = self.schedule(data, self.seed), _table(data.X)
        for step in range(schedule.steps):
            event = int(schedule.events[step]) if len(schedule.events) else step * EVENT + (DECIDE | LEARN)
            number = event // EVENT
            if event & DECIDE:
                yield "decide", number, _row(rows, schedule.row(step, data.rows))
            if event & LEARN:
                truth = data.classes[schedule.labels[number]]
                yield "answer", number, lambda label, truth=truth: bool(label == truth)


def _table(X: Any) -> Any:
    """Rows in a form from which one can be taken: CSR, an array, or a list."""
    if is_sparse(X) and getattr(X, "format", "csr") != "csr":
        return X.tocsr()
    return X.to_numpy() if hasattr(X, "to_numpy") else X


def _row(X: Any, row: int) -> Any:
    if not is_sparse(X):
        return X[row]
    a, b = int(X.indptr[row]), int(X.indptr[row + 1])
    return SparseRow(np.asarray(X.indices[a:b], dtype=np.int32), np.asarray(X.data[a:b]), int(X.shape[1]))


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
    seed: int | None = None,
    **data: Any,
) -> Stream:
    """Turn labelled data into a stream of right and wrong.

    `X` is a data name, a path, or rows with labels `y`; the further keywords are those of `onebit.data.source_of`. Rows are shuffled
    unless another `order` is given: many files are sorted by class, and then "the same as before" is nearly always right. What is
    generated comes as it is drawn. A label is replaced by one drawn uniformly with probability `noise`, and the feedback on a round never comes with probability `missing`.

    >>> import onebit
    >>> learner = onebit.BPA(classes=10, aggressiveness=0.001)
    >>> for x, right in onebit.stream("synsep10", rounds=100):
    ...     decision = learner.decide(x)
    ...     learner.learn(decision, right(decision.label))
    """
    if isinstance(X, Stream):
        given = {**data, "y": y, "rounds": rounds, "order": order, "drift": drift, "delay": delay, "seed": seed}
        said = [name for name, value in given.items() if value is not None]
        said += [name for name, value in (("noise", noise), ("missing", missing)) if value]
        if said:
            raise InputError(f"a stream brings its own {said[0]}: say it where the stream is made")
        return X
    refuse_unknown("a stream", data, stream_parameters())
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 1):
        raise InputError(f"rounds is {brief(rounds)}, but must be a whole number of at least 1")
    if order is not None and order not in ORDERS:
        raise InputError(f"order is {brief(order)}; {nearest(str(order), ORDERS)}")
    source = source_of(X, y, **data)
    return Stream(
        source,
        source.rounds if rounds is None else int(rounds),
        order or ("shuffle" if source.fixed else "file"),
        _share("noise", noise),
        Drift.read(drift),
        Delay.read(delay),
        _share("missing", missing),
        checked_seed(0 if seed is None else seed),
    )


def stream_parameters() -> dict[str, inspect.Parameter]:
    """What `stream` takes beside the data themselves, by name: what it does itself, and what it leaves to `source_of`."""
    known = {**named_parameters(stream), **named_parameters(source_of)}
    return {name: one for name, one in known.items() if name not in ("X", "y")}


def _share(name: str, given: object) -> float:
    number = isinstance(given, int | float | np.floating) and not isinstance(given, bool)
    if not number or not 0.0 <= given < 1.0:  # type: ignore[operator]
        raise InputError(f"{name} is {brief(given)}, but must be a share of the rounds from 0 up to, not including, 1")
    return float(given)  # type: ignore[arg-type]
