"""What `auto` errs, with no parameter given: on the streams with a target, or on streams that it was not built on.

    python benchmarks/auto.py                          # every stream with a target, 5 seeds, one core: some minutes
    python benchmarks/auto.py --only mnist --seeds 3 --json mnist.json
    python benchmarks/auto.py --unseen                 # against LinUCB, logistic regression and BPA

Errors are those of the label played, in % of all rounds from the first, with 95 % intervals of the mean over seeds. `auto` gets the
rows as they are. What it is compared with gets rows of length one: AROW (diagonal, ridge 0.01) and the perceptron have full
information, the rivals of --unseen bandit feedback, as `auto` has. Tuned peers are quoted: the best of a grid, chosen by the error that is told.

A target without a number of its own is the best of docs/algorithms-numbers.md#stress-streams plus one point; one fixed LinUCB,
which stands beside that table, counts as a row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import circumstances
from benchmarks.recipes import Recipe
from benchmarks.stress import STRESS
from benchmarks.unseen import UNSEEN

from onebit.data.streams import Stream, stream
from onebit.errors import OnebitError, nearest
from onebit.experiments.run import Result, run
from onebit.experiments.statistics import estimate

FIRST_SEED = 1000  # those below were used while auto was built


@dataclass(frozen=True)
class Problem:
    """A stream: a data set of onebit's by name with how it comes, or a recipe; what `auto` must reach on it, and what peers did."""

    name: str
    data: str | Recipe
    target: float | None = None
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


def resampled(name: str, target: float | None, peers: str = "", **settings: Any) -> Problem:
    """A small data set as 20,000 rounds."""
    return Problem(name, name, target, peers, settings={"rounds": 20_000, "order": "resample", **settings})


def shuffled(name: str, target: float, peers: str, data: str = "", steps: tuple[str, ...] = ()) -> Problem:
    """A large data set, once through."""
    return Problem(name, data or name, target, peers, steps, {"order": "shuffle"})


def stressed(name: str, target: float | None, peers: str) -> Problem:
    """One of the streams of `stress.py`."""
    return Problem(name, STRESS[name], target, peers)


HALF_WAY = {"rounds": 20_000, "order": "resample", "drift": "abrupt:0.5"}
TARGETS = (
    resampled("digits", 2.8, "VW 6.4, LinUCB 3.0"),
    resampled("iris", 2.3, "LinUCB 2.5"),
    Problem("synsep10", "synsep10", 9.2, "VW 18.8, LinUCB 9.0"),
    Problem("synnonsep10", "synnonsep10", 14.5, "VW 24.4, LinUCB 14.4"),
    shuffled("usps", 10.3, "published 17.7, LinUCB 11.1"),
    shuffled("mnist", 10.3, "published 13.9, LinUCB 10.6"),
    resampled("satimage", 19.0, "LinUCB 27.8"),
    shuffled("20newsgroups, counts", 32.5, "VW 37.4 (on fresh orders 41.4)", "20newsgroups"),
    shuffled(
        "20newsgroups, binary", 32.5, "published 33.4, VW 28.7 (on fresh orders 32.2)", "20newsgroups", ("binary",)
    ),
    Problem("digits permuted", "digits", 33.0, "Confidit 31.6", settings=HALF_WAY),
    stressed("100 Gaussians", 50.0, "policy gradient 80.9, LinUCB 64.2"),
    stressed("digits sorted", 1.9, "Confidit 2.5, LinUCB 0.9"),
    stressed("digits imbalanced", 5.5, "Conservative OVA 12.3, LinUCB 4.5"),
    stressed("2 Gaussians", 14.1, "logistic 13.1, LinUCB 13.5"),
    Problem("synsep10, 30 % noise", "synsep10", 44.4, "LinUCB 43.4", settings={"rounds": 50_000, "noise": 0.3}),
    Problem("synsep9", "synsep9", 3.1, "Conservative OVA 2.6, LinUCB 2.2", settings={"rounds": 50_000}),
    Problem("synnonsep9", "synnonsep9", 8.2, "Conservative OVA 7.3, LinUCB 7.2", settings={"rounds": 50_000}),
    stressed("topics", 6.4, "logistic 5.4, LinUCB 11.6"),
    stressed("topics, sparse", 6.4, "logistic 5.4, LinUCB 11.6"),
    resampled("ecoli", None, "LinUCB 32.6"),
    stressed("abalone", None, "LinUCB 81.0"),
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
        """Whether the target was reached."""
        if self.problem.target is None:
            return ""
        return "met" if self.errors["auto"] <= self.problem.target else "missed"

    def shown(self, title: str) -> str:
        """A mean error with its interval."""
        interval = estimate(100 * self.results[title].errors)
        half = interval.high - interval.mean
        return f"{interval.mean:.2f}" + (f" ± {half:.2f}" if self.results[title].runs > 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "stream": self.problem.name,
            "target": self.problem.target,
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
        "| stream | `auto` | target | | tuned peers | AROW, full information | perceptron, full information | `auto` - AROW | thousand rounds/s |",
        "|---|---:|---:|---|---|---:|---:|---:|---:|",
    ]
    for one in found:
        target = "" if one.problem.target is None else f"{one.problem.target:g}"
        distance = one.errors["auto"] - one.errors["AROW"]
        speed = one.results["auto"].rounds_per_second / 1e3
        lines.append(
            f"| {one.problem.name} | {one.shown('auto')} | {target} | {one.verdict} | {one.problem.peers} | "
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
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to this file")
    chosen = parser.parse_args()
    if chosen.seeds < 1:
        parser.error("--seeds must be at least 1")
    problems = {problem.name: problem for problem in (OTHERS if chosen.unseen else TARGETS)}
    if chosen.rounds:  # the targets are those of whole streams
        problems = {name: replace(problem, target=None) for name, problem in problems.items()}
    for name in chosen.only or ():
        if name not in problems:
            parser.error(f"there is no stream {name!r}; {nearest(name, problems)}")
    contenders = (AUTO, *(RIVALS if chosen.unseen else REFERENCES))
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    started = time.perf_counter()
    found, failed = [], {}
    for name in chosen.only or problems:
        try:
            found.append(measured(problems[name], contenders, seeds, chosen.rounds))
        except OnebitError as error:
            failed[name] = str(error)
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    print("\n".join((table_of_rivals if chosen.unseen else table_of_targets)(found)))
    for name, why in failed.items():
        print(f"\n{name} was not measured: {why}")
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
