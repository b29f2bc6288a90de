"""Error of `auto` with no parameter given, beside learners with full information, on streams of all kinds.

    python -m benchmarks auto                          # every stream, 5 seeds, one core: some minutes
    python -m benchmarks auto --jobs 16                # so many streams side by side; speeds are then those of a busy machine
    python -m benchmarks auto --only digits --seeds 2 --rounds 2000

Errors are those of the label played, in % of all rounds from the first, with 95 % intervals of the mean over seeds. `auto` gets the
rows as they are; AROW (diagonal, ridge 0.01) and the perceptron have full information and rows of length one. Tuned peers are quoted:
the best of a grid, chosen by the error that is told.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from benchmarks.measuring import Table
from benchmarks.streams.recipes import Recipe
from benchmarks.streams.stress import STRESS
from benchmarks.streams.tables import TABLES
from benchmarks.streams.texts import UNEVEN
from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError, nearest
from onebit.experiments.run import Result, run
from onebit.experiments.statistics import estimate

FIRST_SEED = 1000  # those below were used while auto was built


@dataclass(frozen=True)
class Problem:
    """A stream: a data set of onebit's by name with how it comes, or a recipe; and what tuned peers did on it."""

    name: str
    data: str | Recipe
    peers: str = ""
    steps: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def stream(self, rounds: int | None, *steps: str) -> Stream:
        """The rows, after further steps of a preparation; at most so many rounds."""
        steps = (*self.steps, *steps)
        if isinstance(self.data, Recipe):
            whole = self.data.stream(self.name, steps, **self.settings)
        else:
            whole = stream(self.data, prepare=steps, **self.settings)
        if rounds is None or rounds >= whole.rounds:
            return whole
        return stream(whole.source, **{**self.settings, "rounds": rounds})


def resampled(name: str, peers: str) -> Problem:
    """A small data set as 20,000 rounds."""
    return Problem(name, name, peers, settings={"rounds": 20_000, "order": "resample"})


def shuffled(name: str, peers: str, data: str = "", steps: tuple[str, ...] = (), **settings: Any) -> Problem:
    """A large data set, once through."""
    return Problem(name, data or name, peers, steps, {"order": "shuffle", **settings})


def stressed(name: str, peers: str = "") -> Problem:
    """One of the streams in benchmarks/streams."""
    recipe = {**STRESS, **UNEVEN, **{name: recipe for name, (_, recipe) in TABLES.items()}}[name]
    return Problem(name, recipe, peers)


HALF_WAY = {"rounds": 20_000, "order": "resample", "drift": "abrupt:0.5"}
NEWS = "20newsgroups"
TARGETS = (
    resampled("digits", "VW 6.4, LinUCB 3.0"),
    resampled("iris", "LinUCB 2.5"),
    resampled("satimage", "LinUCB 27.8"),
    resampled("ecoli", "LinUCB 32.6"),
    Problem("synsep10", "synsep10", "VW 18.8, LinUCB 9.0"),
    Problem("synnonsep10", "synnonsep10", "VW 24.4, LinUCB 14.4"),
    shuffled("usps", "published 17.7, LinUCB 11.1"),
    shuffled("mnist, 60,000", "published 13.9, LinUCB 10.6", "mnist", rounds=60_000),
    shuffled("mnist, 10,000", "NeuralUCB, tuned, 16.8", "mnist", rounds=10_000),
    stressed("topics", "logistic 5.4, LinUCB 11.6"),
    stressed("topics, sparse", "logistic 5.4, LinUCB 11.6"),
    stressed("LSA of 20 Newsgroups, weighted"),
    stressed("LSA of 20 Newsgroups, white"),
    shuffled("20newsgroups, binary", "published 33.4, VW 28.7 (on fresh orders 32.2)", NEWS, ("binary",)),
    shuffled("20newsgroups, counts", "VW 37.4 (on fresh orders 41.4)", NEWS),
    stressed("hier: merged groups", "BPA 19.3, VW 23.3"),
    stressed("zipf52: texts, 52 uneven classes", "BPA 41.3, VW 44.3"),
    stressed("zipf52h: the same, harder", "logistic 55.7, VW 59.3"),
    stressed("zipf52e: the same, easier", "BPA 24.9, VW 27.4"),
    stressed("even52: texts, 52 even classes", "LinUCB 74.8, VW 77.6"),
    stressed("split52: split groups", "LinUCB 55.9, VW 67.1"),
    stressed("geo60: sizes 0.6^k", "BPA 25.1, VW 49.8"),
    stressed("geo75s: sizes 0.75^k, short", "logistic 32.3, VW 50.2"),
    stressed("geo75: sizes 0.75^k", "LinUCB 33.4, VW 42.4"),
    stressed("titles: 60 classes, 11 words", "logistic 49.8, VW 52.5"),
    stressed("arrive: groups one after the other, mixed", "BPA 32.3, VW 36.9"),
    stressed("many: texts, 300 uneven classes", "LinUCB 77.3"),
    stressed("300 equal classes"),
    stressed("1,000 equal classes"),
    Problem("digits permuted", "digits", "Confidit 31.6", settings=HALF_WAY),
    stressed("100 Gaussians", "policy gradient 80.9, LinUCB 64.2"),
    stressed("digits sorted", "Confidit 2.5, LinUCB 0.9"),
    stressed("abalone", "LinUCB 81.0"),
    stressed("digits imbalanced", "Conservative OVA 12.3, LinUCB 4.5"),
    stressed("2 Gaussians", "logistic 13.1, LinUCB 13.5"),
    Problem("synsep10, 30 % noise", "synsep10", "LinUCB 43.4", settings={"rounds": 50_000, "noise": 0.3}),
    Problem("synsep9", "synsep9", "Conservative OVA 2.6, LinUCB 2.2", settings={"rounds": 50_000}),
    Problem("synnonsep9", "synnonsep9", "Conservative OVA 7.3, LinUCB 7.2", settings={"rounds": 50_000}),
)


@dataclass(frozen=True)
class Contender:
    """A learner with its options, and what is done to its rows."""

    title: str
    rule: str
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[str, ...] = ("unit-norm",)


AUTO = Contender("auto", "auto", steps=())
REFERENCES = (
    Contender("AROW", "arow", {"ridge": 0.01, "matrix": "diagonal"}),
    Contender("perceptron", "perceptron"),
)


def run_contenders(
    problem: Problem, contenders: Sequence[Contender], seeds: range, rounds: int | None
) -> dict[str, Result]:
    """Run all contenders on one stream, one after the other on one thread."""
    results = {}
    for contender in contenders:
        started = time.perf_counter()
        rows = problem.stream(rounds, *contender.steps)
        found = run(contender.rule, rows, seed=seeds[0], runs=len(seeds), threads=1, **contender.options)
        results[contender.title] = found
        took = time.perf_counter() - started
        said = f"{problem.name}: {contender.title} {100 * found.error:.2f} %, {took:.1f} s"
        print(said, file=sys.stderr, flush=True)
    return results


def table_row(problem: Problem, results: Mapping[str, Result]) -> dict[str, Any]:
    """Return a row of the table."""
    auto, full, perceptron = results.values()
    return {
        "stream": problem.name,
        "`auto`": show_interval(auto),
        "tuned peers": problem.peers,
        "AROW, full information": show_interval(full),
        "perceptron, full information": show_interval(perceptron),
        "`auto` - AROW": f"{100 * (auto.error - full.error):+.2f}",
        "thousand rounds/s": auto.rounds_per_second / 1e3,
    }


def show_interval(result: Result) -> str:
    """Return a mean error in % with its 95 % interval."""
    found = estimate(100 * result.errors)
    return f"{found.mean:.2f}" + (f" ± {found.high - found.mean:.2f}" if result.runs > 1 else "")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many (default 5)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--rounds", type=int, metavar="N", help="at most so many rounds of each stream, for a look")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="streams side by side (default 1)")


def measure(options: argparse.Namespace) -> list[Table]:
    """Run the streams that were asked for; those whose data are not here have a sentence in place of figures."""
    if options.seeds < 1 or options.jobs < 1:
        raise OnebitError("--seeds and --jobs must be at least 1")
    problems = find_problems(options.only)
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    rows, missing = [], []
    with ThreadPoolExecutor(options.jobs) as pool:  # threads, since compiled loops do not hold the interpreter
        started = [
            (one, pool.submit(run_contenders, one, (AUTO, *REFERENCES), seeds, options.rounds)) for one in problems
        ]
        for problem, results in started:
            try:
                rows.append(table_row(problem, results.result()))
            except OnebitError as error:
                missing.append({"stream": problem.name, "why": str(error)})
    return [
        Table(f"Error in %, {options.seeds} seeds", rows),
        *([Table("Not measured", missing)] if missing else []),
    ]


def find_problems(names: Sequence[str] | None) -> list[Problem]:
    """Return the streams of these names, all without any."""
    known = {problem.name: problem for problem in TARGETS}
    for name in names or ():
        if name not in known:
            raise OnebitError(f"there is no stream {name!r}; {nearest(name, known)}")
    return [known[name] for name in names or known]
