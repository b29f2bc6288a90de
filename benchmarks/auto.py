"""What `auto` errs, with no parameter given: on the streams with a target, or on streams that it was not built on.

    python benchmarks/auto.py                          # every stream with a target, 5 seeds, one core: some minutes
    python benchmarks/auto.py --jobs 16                # so many streams side by side; speeds are then those of a busy machine
    python benchmarks/auto.py --only mnist --seeds 3 --json mnist.json
    python benchmarks/auto.py --unseen                 # against LinUCB, logistic regression and BPA
    python benchmarks/auto.py --write                  # and the table into its page in docs/explanation

Errors are those of the label played, in % of all rounds from the first, with 95 % intervals of the mean over seeds. `auto` gets the
rows as they are. What it is compared with gets rows of length one: AROW (diagonal, ridge 0.01) and the perceptron have full
information, the rivals of --unseen bandit feedback, as `auto` has. Tuned peers are quoted: the best of a grid, chosen by the error that is told.

The bars and goals are those that this version was written for. Those of uneven texts are of a prototype, on draws of its own (within 3 %), and of
AROW with full information; streams without such a number are not to err more than 0.3.0 did, its interval over seeds included.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import circumstances, where_and_when, write_block
from benchmarks.recipes import Recipe
from benchmarks.stress import STRESS
from benchmarks.tables import TABLES
from benchmarks.uneven import UNEVEN
from benchmarks.unseen import UNSEEN

from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError, nearest
from onebit.experiments.run import Result, run
from onebit.experiments.statistics import estimate

PAGES = Path(__file__).resolve().parents[1] / "docs" / "explanation"
TABLE, UNSEEN_TABLE = "the table of errors", "the table of unseen streams"
PAGE_OF = {TABLE: "auto.md", UNSEEN_TABLE: "auto-corpus.md"}  # which they are blocks of
FIRST_SEED = 1000  # those below were used while auto was built


@dataclass(frozen=True)
class Problem:
    """A stream: a data set of onebit's by name with how it comes, or a recipe; what `auto` must reach on it, what it should, and what peers did."""

    name: str
    data: str | Recipe
    bar: float | None = None
    goal: float | None = None
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


def resampled(name: str, bar: float, goal: float, peers: str = "") -> Problem:
    """A small data set as 20,000 rounds."""
    return Problem(name, name, bar, goal, peers, settings={"rounds": 20_000, "order": "resample"})


def shuffled(
    name: str, bar: float, goal: float, peers: str, data: str = "", steps: tuple[str, ...] = (), **settings: Any
) -> Problem:
    """A large data set, once through."""
    return Problem(name, data or name, bar, goal, peers, steps, {"order": "shuffle", **settings})


def stressed(name: str, bar: float | None, goal: float | None = None, peers: str = "") -> Problem:
    """One of the streams of `stress.py`, `uneven.py` or `tables.py`."""
    recipe = {**STRESS, **UNEVEN, **{name: recipe for name, (_, recipe) in TABLES.items()}}[name]
    return Problem(name, recipe, bar, goal, peers)


HALF_WAY = {"rounds": 20_000, "order": "resample", "drift": "abrupt:0.5"}
NEWS = "20newsgroups"
TARGETS = (
    resampled("digits", 1.1, 0.9, "VW 6.4, LinUCB 3.0"),
    resampled("iris", 1.0, 0.8, "LinUCB 2.5"),
    resampled("satimage", 10.2, 9.5, "LinUCB 27.8"),
    resampled("ecoli", 6.8, 6.0, "LinUCB 32.6"),
    Problem("synsep10", "synsep10", 6.7, 6.4, "VW 18.8, LinUCB 9.0"),
    Problem("synnonsep10", "synnonsep10", 12.5, 12.3, "VW 24.4, LinUCB 14.4"),
    shuffled("usps", 6.8, 6.0, "published 17.7, LinUCB 11.1"),
    shuffled("mnist, 60,000", 5.5, 4.2, "published 13.9, LinUCB 10.6", "mnist", rounds=60_000),
    shuffled("mnist, 10,000", 9.2, 8.1, "NeuralUCB, tuned, 16.8", "mnist", rounds=10_000),
    stressed("topics", 4.5, 3.0, "logistic 5.4, LinUCB 11.6"),
    stressed("topics, sparse", 2.4, 2.0, "logistic 5.4, LinUCB 11.6"),
    stressed("LSA of 20 Newsgroups, weighted", None),
    stressed("LSA of 20 Newsgroups, white", None),
    shuffled("20newsgroups, binary", 18.9, 16.5, "published 33.4, VW 28.7 (on fresh orders 32.2)", NEWS, ("binary",)),
    shuffled("20newsgroups, counts", 18.4, 16.5, "VW 37.4 (on fresh orders 41.4)", NEWS),
    stressed("hier: merged groups", 14.6, 13.2, "BPA 19.3, VW 23.3"),
    stressed("zipf52: texts, 52 uneven classes", 36.2, 27.5, "BPA 41.3, VW 44.3"),
    stressed("zipf52h: the same, harder", 54.6, 49.8, "logistic 55.7, VW 59.3"),
    stressed("zipf52e: the same, easier", 20.1, 9.7, "BPA 24.9, VW 27.4"),
    stressed("even52: texts, 52 even classes", 43.3, 39.9, "LinUCB 74.8, VW 77.6"),
    stressed("split52: split groups", 51.6, 39.7, "LinUCB 55.9, VW 67.1"),
    stressed("geo60: sizes 0.6^k", 23.4, 18.0, "BPA 25.1, VW 49.8"),
    stressed("geo75s: sizes 0.75^k, short", 28.9, 22.6, "logistic 32.3, VW 50.2"),
    stressed("geo75: sizes 0.75^k", 27.3, 16.5, "LinUCB 33.4, VW 42.4"),
    stressed("titles: 60 classes, 11 words", 44.7, 49.3, "logistic 49.8, VW 52.5"),
    stressed("arrive: groups one after the other, mixed", 21.5, 19.2, "BPA 32.3, VW 36.9"),
    stressed("many: texts, 300 uneven classes", 76.5, 36.1, "LinUCB 77.3"),
    stressed("300 equal classes", 75.0, 60.0),
    stressed("1,000 equal classes", None),
    Problem("digits permuted", "digits", 3.34, None, "Confidit 31.6", settings=HALF_WAY),
    stressed("100 Gaussians", 50.7, None, "policy gradient 80.9, LinUCB 64.2"),
    stressed("digits sorted", 1.04, None, "Confidit 2.5, LinUCB 0.9"),
    stressed("abalone", 77.7, None, "LinUCB 81.0"),
    stressed("digits imbalanced", 1.55, None, "Conservative OVA 12.3, LinUCB 4.5"),
    stressed("2 Gaussians", 13.3, None, "logistic 13.1, LinUCB 13.5"),
    Problem("synsep10, 30 % noise", "synsep10", 43.8, None, "LinUCB 43.4", settings={"rounds": 50_000, "noise": 0.3}),
    Problem("synsep9", "synsep9", 0.2, None, "Conservative OVA 2.6, LinUCB 2.2", settings={"rounds": 50_000}),
    Problem("synnonsep9", "synnonsep9", 5.0, None, "Conservative OVA 7.3, LinUCB 7.2", settings={"rounds": 50_000}),
)
OTHERS = tuple(Problem(name, recipe) for name, recipe in UNSEEN.items())


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
RIVALS = (
    Contender("LinUCB", "linucb"),
    Contender("logistic", "epsilon-greedy", {"model": "logistic"}),
    Contender("BPA", "bpa"),
)


@dataclass(frozen=True)
class Found:
    """What all contenders did on one stream."""

    problem: Problem
    results: Mapping[str, Result]

    @cached_property
    def errors(self) -> dict[str, float]:
        """The mean error of each, in %."""
        return {title: 100 * result.error for title, result in self.results.items()}

    @property
    def verdict(self) -> str:
        """Whether the goal was reached, or the bar at least."""
        if self.problem.bar is None:
            return ""
        error, goal = self.errors["auto"], self.problem.goal
        if goal is not None and error <= min(goal, self.problem.bar):
            return "goal met"
        return "met" if error <= self.problem.bar else "missed"

    def shown(self, title: str) -> str:
        """A mean error with its interval."""
        interval = estimate(100 * self.results[title].errors)
        half = interval.high - interval.mean
        return f"{interval.mean:.2f}" + (f" ± {half:.2f}" if self.results[title].runs > 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "stream": self.problem.name,
            "bar": self.problem.bar,
            "goal": self.problem.goal,
            "verdict": self.verdict,
            "peers": self.problem.peers,
            "results": {title: result.to_dict() for title, result in self.results.items()},
        }


def measured(problem: Problem, contenders: Sequence[Contender], seeds: range, rounds: int | None) -> Found:
    """All contenders on one stream, one after the other on one thread."""
    results = {}
    for contender in contenders:
        started = time.perf_counter()
        rows = problem.stream(rounds, *contender.steps)
        found = run(contender.rule, rows, seed=seeds[0], runs=len(seeds), threads=1, **contender.options)
        results[contender.title] = found
        took = time.perf_counter() - started
        said = f"{problem.name}: {contender.title} {100 * found.error:.2f} %, {took:.1f} s"
        print(said, file=sys.stderr, flush=True)
    return Found(problem, results)


def table_of_targets(found: Sequence[Found]) -> list[str]:
    lines = [
        "| stream | `auto` | bar | goal | | tuned peers | AROW, full information | perceptron, full information | `auto` - AROW | thousand rounds/s |",
        "|---|---:|---:|---:|---|---|---:|---:|---:|---:|",
    ]
    for one in found:
        wanted = ("" if number is None else f"{number:g}" for number in (one.problem.bar, one.problem.goal))
        distance = one.errors["auto"] - one.errors["AROW"]
        speed = one.results["auto"].rounds_per_second / 1e3
        lines.append(
            f"| {one.problem.name} | {one.shown('auto')} | {' | '.join(wanted)} | {one.verdict} | {one.problem.peers} | "
            f"{one.shown('AROW')} | {one.shown('perceptron')} | {distance:+.2f} | {speed:.3g} |"
        )
    return lines


def table_of_rivals(found: Sequence[Found]) -> list[str]:
    titles = [rival.title for rival in RIVALS]
    lines = [
        f"| stream | `auto` | {' | '.join(titles)} | `auto` - best of them | thousand rounds/s |",
        f"|---|---:|{'---:|' * len(titles)}---:|---:|",
    ]
    for one in found:
        others = " | ".join(one.shown(title) for title in titles)
        distance = one.errors["auto"] - min(one.errors[title] for title in titles)
        speed = one.results["auto"].rounds_per_second / 1e3
        lines.append(f"| {one.problem.name} | {one.shown('auto')} | {others} | {distance:+.2f} | {speed:.3g} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--unseen", action="store_true", help="the streams that auto was not built on, against rivals")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many (default 5)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, metavar="S", help=f"default {FIRST_SEED}")
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--rounds", type=int, metavar="N", help="at most so many rounds of each stream, for a look")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="streams side by side (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    parser.add_argument("--write", action="store_true", help="put the table into its page in docs/explanation")
    chosen = parser.parse_args()
    if chosen.write and (chosen.only or chosen.rounds):
        parser.error("--write is for the whole table: leave out --only and --rounds")
    if chosen.seeds < 1:
        parser.error("--seeds must be at least 1")
    if chosen.jobs < 1:
        parser.error("--jobs must be at least 1")
    problems = {problem.name: problem for problem in (OTHERS if chosen.unseen else TARGETS)}
    if chosen.rounds:  # the bars are those of whole streams
        problems = {name: replace(problem, bar=None, goal=None) for name, problem in problems.items()}
    for name in chosen.only or ():
        if name not in problems:
            parser.error(f"there is no stream {name!r}; {nearest(name, problems)}")
    contenders = (AUTO, *(RIVALS if chosen.unseen else REFERENCES))
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    started = time.perf_counter()
    found, failed = [], {}
    with ThreadPoolExecutor(chosen.jobs) as pool:  # threads, since compiled loops do not hold the interpreter
        names = chosen.only or list(problems)
        come = [pool.submit(measured, problems[name], contenders, seeds, chosen.rounds) for name in names]
        for name, one in zip(names, come, strict=True):
            try:
                found.append(one.result())
            except OnebitError as error:
                failed[name] = str(error)
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    lines = (table_of_rivals if chosen.unseen else table_of_targets)(found)
    print("\n".join(lines))
    for name, why in failed.items():
        print(f"\n{name} was not measured: {why}")
    if chosen.write:
        block = UNSEEN_TABLE if chosen.unseen else TABLE
        write_block(PAGES / PAGE_OF[block], block, [where_and_when(), "", *lines])
    if chosen.json:
        report = {
            **circumstances(),
            "seeds": list(seeds),
            "rounds": chosen.rounds,
            "seconds": round(time.perf_counter() - started, 1),
            "streams": [one.to_dict() for one in found],
            "failed": failed,
        }
        chosen.json.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
