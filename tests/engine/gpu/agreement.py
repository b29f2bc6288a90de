"""What it means that two engines agree although they round differently, and how a table says it.

They sum the same numbers in different orders, so that scores differ in their last digits. Where no decision hangs on these, decisions
are the same for ever; where one does, the two go different ways from there on, and only the statistics can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onebit.engine.processes import cores
from onebit.engine.stream import DECIDE, EVENT, LEARN
from onebit.experiments.statistics import estimate
from onebit.learner.decision import Decision
from onebit.learner.learner import Learner
from tests.engine.gpu.walks import Launched, Problem, Walk, close, on_cpu

DISTURBANCE = 1e-5  # relative, about a hundred times the rounding of 32 bits
TRIES = 16
# The sum of differences whose signs are those of fair coins is beyond this times the root of the sum of their squares with a
# probability of at most 2 exp(-BALANCED^2 / 2) = 8e-5, whatever their sizes (Hoeffding).
BALANCED = 4.5


def first_difference(one: NDArray[Any], other: NDArray[Any]) -> int:
    """The first round, which is the last axis, in which two records differ; the number of rounds where none does."""
    differs = (one != other).reshape(-1, one.shape[-1]).any(axis=0)
    return int(differs.argmax()) if differs.any() else len(differs)


def first_tie(make: Callable[[], Learner], one: Problem, choices: NDArray[np.int64]) -> int:
    """The first tie within rounding of a learner's way through a problem; the number of rounds where there is none.

    This is the definition: a round is a tie within rounding if the learner decides otherwise in it, playing or thinking best another
    label, when every number of every row so far is off by up to one part in 100,000, at random, anew in every round. Sixteen such
    disturbances are tried. A score is then off by what a sum of 32 bits may be off by, with some to spare, whatever cancels in it;
    and so is all that was learnt from it, however much a rule magnifies that. Weight vectors that are equal have equal scores with
    the disturbed row as well, so that a tie that is one exactly is none within rounding: there engines must agree. Vectors that are
    equal but for rounding hide from such disturbances, since all their scores move alike; so a round is also a tie if the two best
    scores are of different vectors and closer than that (`first_twins`).

    Two engines agree on a replicate if they make the same mistakes in every round before its first tie within rounding.
    """
    first = one.rounds
    for disturbed in disturbances(one):
        found = on_cpu([make()], [disturbed])
        first = min(first, first_difference(found.choices[0], choices))
    return min(first, first_twins(make(), one))


def disturbances(one: Problem, attempts: Iterable[int] = range(TRIES)) -> Iterator[Problem]:
    """The problem with rows that are off by little."""
    rounds, values = one.rounds, one.values[one.schedule.order]
    schedule = one.schedule._replace(order=np.arange(rounds))
    for attempt in attempts:
        noise = np.random.default_rng([attempt, rounds]).uniform(-1.0, 1.0, size=values.shape)
        yield Problem((values * (1.0 + DISTURBANCE * noise)).astype(np.float32), schedule, one.classes)


def ends_as_disturbed(
    make: Callable[[], Learner], one: Problem, weights: NDArray[Any], variances: NDArray[Any], relative: float
) -> bool:
    """Whether a CPU ends with these weights and variances where rows are disturbed, as after a step that hangs on which of two rivals is the better.

    That its own end is another then is not enough: no engine is excused that ends where no CPU does.
    """
    for disturbed in disturbances(one):
        (learner,) = on_cpu([make()], [disturbed]).learners
        space = learner.runtime.model.space
        alike = close(weights, learner.weights, relative)
        if alike and (not variances.size or close(variances, space.variances, relative)):
            return True
    return False


def first_twins(learner: Learner, one: Problem) -> int:
    """The first round in which the best score and another, of a vector that is not the same, differ by rounding alone."""
    learner.runtime.read_table(one.values)
    labels, order, events = one.schedule.labels, one.schedule.order, one.schedule.events
    decisions: dict[int, Decision] = {}
    for event in events if len(events) else np.arange(one.rounds) * EVENT + (DECIDE | LEARN):
        at = int(event) // EVENT
        if event & DECIDE:
            x, weights = one.values[order[at]].astype(np.float64), learner.weights.astype(np.float64)
            scores = weights[:, : len(x)] @ x + weights[:, len(x) :].sum(axis=1)
            best = int(scores.argmax())
            near = np.flatnonzero(np.abs(scores - scores[best]) <= DISTURBANCE * np.abs(scores).max())
            # Where all scores are 0, as of a row that is, they are tied exactly, and engines must agree.
            if scores.any() and any(not np.array_equal(weights[other], weights[best]) for other in near):
                return at
            decisions[at] = learner.decide(one.values[order[at]])
        if event & LEARN:
            learner.learn(decisions.pop(at), label=learner.classes[labels[at]])
    return one.rounds


@dataclass(frozen=True)
class Agreement:
    """How far two engines agree on some replicates: in which round each first differs, and by then must have had a tie."""

    name: str
    rounds: int
    differences: list[int]
    ties: list[int | None]  # of those that differ
    errors: NDArray[np.float64]  # (replicates, 2): on the CPU and on the GPU

    @property
    def parted(self) -> list[tuple[int, int, int]]:
        """The replicates that went apart with no tie, which is wrong: number, round, and the first tie after it."""
        pairs = enumerate(zip(self.differences, self.ties, strict=True))
        return [(place, at, tie) for place, (at, tie) in pairs if tie is not None and at < tie]

    @property
    def balance(self) -> float:
        """How far the errors lean to one engine: beyond `BALANCED` it is not by chance."""
        apart = self.errors[:, 1] - self.errors[:, 0]
        size = math.sqrt(float(np.square(apart).sum()))
        return abs(float(apart.sum())) / size if size else 0.0

    def check(self) -> None:
        """Fail where the engines do not agree."""
        assert not self.parted, f"{self.name}: (replicate, first difference, first tie) {self.parted}"
        assert self.balance <= BALANCED, f"{self.name}: errors lean to one engine, {self.errors.mean(axis=0)}"

    @property
    def line(self) -> list[str]:
        """As a line of the table."""
        whole = sum(at == self.rounds for at in self.differences)
        parted = [at for at in self.differences if at < self.rounds]
        median = f"{int(np.median(parted)):,}" if parted else "-"
        errors = [_shown(column) for column in self.errors.T]
        return [self.name, f"{len(self.differences)}", f"{whole}", median, *errors]


HEAD = ["learner and rows", "replicates", "agree to the end", "others until (median)", "error, CPU", "error, GPU"]


def _shown(errors: NDArray[np.float64]) -> str:
    mean, low, high = (100 * number for number in estimate(errors))
    return f"{mean:.2f} % [{low:.2f}, {high:.2f}]"


def agreement(
    name: str, make: Sequence[Callable[[], Learner]], problems: Sequence[Problem], cpu: Walk, launched: Launched
) -> Agreement:
    """Compare what the two engines made of some replicates, none of which was refused."""
    assert not cpu.refused.any()
    assert not launched.counts.refused.any(), f"{name}: {np.flatnonzero(launched.counts.refused)}"
    rounds = problems[0].rounds
    differences = [first_difference(*pair) for pair in zip(launched.counts.curves, cpu.curves, strict=True)]

    def tie(place: int) -> int | None:
        if differences[place] == rounds:
            return None
        return first_tie(make[place], problems[place], cpu.choices[place])

    with ThreadPoolExecutor(cores()) as pool:  # compiled loops let others run
        ties = list(pool.map(tie, range(len(problems))))
    errors = np.stack([curves[:, 0, -1] / rounds for curves in (cpu.curves, launched.counts.curves)], axis=1)
    return Agreement(name, rounds, differences, ties, errors)


def table(found: Sequence[Agreement], where: str) -> str:
    """Agreements as a table of text that is also one of Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *(one.line for one in found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    every = sum(len(one.differences) for one in found)
    whole = sum(at == one.rounds for one in found for at in one.differences)
    return "\n".join([f"{where}: {whole:,} of {every:,} replicates agree to the end", "", *text, ""])
