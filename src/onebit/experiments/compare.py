"""`onebit.compare`: run several learners on the same streams and rank them, with paired intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.contract.parameters import named_parameters, require_known
from onebit.contract.validation import MAX_RUNS, checked_count, checked_seed
from onebit.data.streams import Stream, stream, stream_parameters
from onebit.errors import InputError, brief
from onebit.experiments.drawing import describe_score, draw_curves
from onebit.experiments.pages import comparison_page
from onebit.experiments.report import Page
from onebit.experiments.report.figures import draw_figure
from onebit.experiments.report.html import save_page
from onebit.experiments.run import describe_constant
from onebit.experiments.runner import TrialCollector, check_failures, describe_failures, run_experiment
from onebit.experiments.statistics import MeanEstimate, Summary
from onebit.experiments.trials import ComparisonEntry, Progress, Trial, format_options, make_entry
from onebit.experiments.trials.cost import Cost
from onebit.experiments.trials.records import Record, frame
from onebit.learner.learner import Learner
from onebit.rules import chosen_rules

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

AGGRESSIVENESS = (0.001, 1.0)  # values tried besides the default when no learners are given
RUNS = 5
MOST_NAMED = 4  # most learners named in a sentence


@dataclass(frozen=True)
class DataResult:
    """The results of all learners on one stream, lowest error (or highest mean reward) first."""

    stream: Stream
    summaries: list[Summary]
    failures: list[Record]

    @cached_property
    def best(self) -> Summary | None:
        """The best learner with bandit feedback, or the best of all if none has bandit feedback."""
        bandits = [summary for summary in self.summaries if not summary.full_information]
        return next(iter(bandits or self.summaries), None)

    @property
    def competitors(self) -> list[Summary]:
        """The learners with the same kind of feedback as the best one, without the best one itself."""
        best = self.best
        return [
            summary
            for summary in self.summaries
            if best is not None and summary is not best and summary.full_information == best.full_information
        ]

    @property
    def rivals(self) -> list[Summary]:
        """The learners that are not significantly worse than the best one.

        The interval of their difference from it, paired run by run, contains 0.
        """
        return [summary for summary in self.competitors if self.difference(summary).low <= 0.0]

    def difference(self, summary: Summary) -> MeanEstimate:
        """Return how much higher a learner's error is than the best one's, paired run by run.

        Where the stream has rewards: how much lower its mean reward is.
        """
        assert self.best is not None
        return summary.difference(self.best, "reward" if self.rewarded else "played")

    @property
    def rewarded(self) -> bool:
        return self.stream.source.rewards

    def to_dict(self) -> dict[str, Any]:
        standings = [
            {**summary.to_dict(), "difference_to_best": self.difference(summary).to_dict()}
            for summary in self.summaries
        ]
        return {
            "data": self.stream.name,
            "stream": self.stream.described(),
            "standings": standings,
            "failures": [record.failure_to_dict() for record in self.failures],
        }


@dataclass(frozen=True)
class Comparison:
    """The result of `onebit.compare`: one `DataResult` per stream."""

    results: list[DataResult]
    runs: int
    seed: int
    command: str
    folder: Path | None = field(repr=False)
    cost: Cost
    entries: Sequence[ComparisonEntry] = field(repr=False, default=())  # all entries, including those not finished

    def __getitem__(self, key: int | str) -> DataResult:
        """Return the result at a position, or the one for the data set of this name."""
        if isinstance(key, int):
            return self.results[key]
        for result in self.results:
            if key in (result.stream.name, result.stream.source.name):
                return result
        raise InputError(f"this comparison has no data set {brief(key)}")

    def __repr__(self) -> str:
        winners = [
            f"{result.stream.name}: {result.best.entry.title if result.best else 'none'}" for result in self.results
        ]
        failures = f"; {describe_failures(self.failures)}" if self.failures else ""
        return f"Comparison({self.runs} runs; best on {'; '.join(winners)}{failures})"

    @property
    def finding(self) -> str:
        """The result in a sentence or two: the best learner per stream, and those not distinguishable from it."""
        return describe_finding(self.results)

    def save(self, folder: str | Path | None = None) -> Path:
        """Write the page and its figures and return the path of the page.

        `folder` defaults to the folder that holds the records of the runs.
        """
        return save_page(self.page(), folder or self.folder)

    @property
    def failures(self) -> list[Record]:
        return [record for result in self.results for record in result.failures]

    def frame(self) -> pandas.DataFrame:
        """Return all runs as a pandas data frame, one row per run."""
        summaries = [summary for result in self.results for summary in result.summaries]
        return frame([record for summary in summaries for record in summary.records] + self.failures)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, as printed by `onebit compare --json`."""
        return {
            "runs": self.runs,
            "seed": self.seed,
            "data": [result.to_dict() for result in self.results],
            "effort": self.cost.to_dict(),
        }

    def plot(self, data: int | str = 0, measure: str = "played", logarithmic: bool = False) -> Figure:
        """Plot the error curves on one stream as a matplotlib figure."""
        result = self[data]
        return draw_figure(draw_curves(result.stream.name, result.summaries, logarithmic), measure)

    def page(self) -> Page:
        """Build the result page: the finding, then curves and a table for each stream."""
        return comparison_page(self)


def usual_entries() -> list[ComparisonEntry]:
    """Return an entry for every learner with its defaults, and two more for some of them.

    Learners whose `aggressiveness` caps the step also take part with a small and with a large value.
    """
    entries = []
    for name, rule in chosen_rules().items():
        entries.append(make_entry(name))
        default = rule.defaults.get("aggressiveness")
        # Not PAB, which has no variants: its aggressiveness is not a cap, and with 1 it rarely converges.
        if default is not None and "variant" in rule.parameters:
            entries += [make_entry(name, {"aggressiveness": value}) for value in AGGRESSIVENESS if value != default]
    return entries


def compare(
    data: Any,
    learners: Iterable[Any] | None = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    out: str | Path | None = None,
    on: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    command: str = "",
    **settings: Any,
) -> Comparison:
    """Run learners on the same streams and compare their errors.

    `data` is what `onebit.stream` takes (a name, a path, a stream, or a pair of rows and labels), or a list of those; the rows of files and arrays are
    shuffled unless `order` says otherwise. `learners` are names, learner classes or rules, or pairs of one of these and its options; by default all
    take part. `on` says where the runs take place: `auto`, `threads` of this process, `gpu`, or a cluster: `dask`, `dask://host:port`, `ray`, `ray://host:port`.

    Side effects: if `out` names a folder, every run is written there as soon as it is finished, and is not run again. The first use of a rule
    compiles it into the user's cache, and data may be downloaded into it.

    >>> import onebit
    >>> comparison = onebit.compare("synsep9", ["bpa", ("bpa", {"aggressiveness": 1})], rounds=500, runs=3)
    >>> [summary.entry.title for summary in comparison[0].summaries]
    ['bpa, aggressiveness=1', 'bpa']
    """
    checked_count("runs", runs, MAX_RUNS)
    checked_seed(seed)
    require_known("a comparison", settings, {**named_parameters(compare), **stream_parameters()})
    if isinstance(learners, str) or not isinstance(learners, Iterable | None):
        learners = [learners]
    entries = usual_entries() if learners is None else [_parse_entry(learner) for learner in learners]
    _require_distinct([(entry.title, entry.title) for entry in entries], "learner")
    pairs = [
        item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        for item in (data if isinstance(data, list) else [data])
    ]
    streams = [stream(X, y, **settings) for X, y in pairs]
    _require_distinct([(data_stream.key, data_stream.name) for data_stream in streams], "data set")
    seeds = range(seed, seed + runs)
    trials = [Trial(entry, data_stream, run_seed) for data_stream in streams for run_seed in seeds for entry in entries]

    def build_comparison(collector: TrialCollector) -> Comparison:
        results = []
        for data_stream in streams:
            summaries, failures = [], []
            for entry in entries:
                records = collector.records_of(Trial(entry, data_stream, run_seed) for run_seed in seeds)
                failures += [record for record in records if record.why]
                if records and not any(record.why for record in records):
                    summaries.append(Summary(entry, records))
            results.append(DataResult(data_stream, sorted(summaries, key=lambda summary: summary.loss.mean), failures))
        return Comparison(results, runs, seed, command, collector.folder, collector.cost, entries)

    comparison = run_experiment(
        lambda collector: collector.collect(trials), build_comparison, out, on, threads, progress
    )
    check_failures(comparison.failures, len(trials))
    return comparison


def _parse_entry(learner: Any) -> ComparisonEntry:
    """Return the entry for a learner, or for a pair of a learner and its options."""
    learner, options = learner if isinstance(learner, tuple) and len(learner) == 2 else (learner, {})
    if isinstance(learner, Learner):
        raise InputError(
            "a comparison starts every learner from scratch: give its class and options instead of a Learner"
        )
    return make_entry(learner, options)


def _require_distinct(keys_and_names: Sequence[tuple[str, str]], kind: str) -> None:
    """Raise InputError if there is nothing to compare, or if two keys are equal."""
    if not keys_and_names:
        raise InputError(f"nothing to compare: give at least one {kind}")
    for (_, name), count in Counter(keys_and_names).items():
        if count > 1:
            raise InputError(f"{brief(name)} is named twice; name each {kind} once")


# --- the finding, in sentences ---------------------------------------------------------------------------------------


def describe_finding(results: Sequence[DataResult]) -> str:
    """Return sentences on the best learners, the ties, the constant baselines and the failures."""
    winners = [(result, result.best) for result in results if result.best is not None]
    if len(results) == 1 and winners:
        sentences = [_describe_best(*winners[0])]
    else:
        sentences = _describe_wins(winners, len(results))
    for result, _ in winners:
        constant = describe_constant(result.stream, max(summary.reward.mean for summary in result.summaries))
        if constant:
            sentences.append(f"On {result.stream.name} {constant}, more than every learner.")
    for has_failures, reason in (
        (True, "no learner was run without a failure"),
        (False, "no learner has run to the end"),
    ):
        names = [
            result.stream.name for result in results if result.best is None and bool(result.failures) is has_failures
        ]
        if names:
            sentences.append(f"On {_join_words(names)} {reason}.")
    if any(math.isnan(best.error.low) for _, best in winners):
        sentences.append("One run has no interval: more runs would say how sure this is.")
    return " ".join(sentences)


def _describe_best(result: DataResult, best: Summary) -> str:
    text = f"`{best.entry.title}` is best on {result.stream.name}, with {describe_score(best)}"
    if not result.competitors or math.isnan(best.error.low):
        return f"{text}."
    if result.rivals:
        return f"{text}; {_describe_rivals(result.rivals)}."
    return f"{text}; it can be distinguished from every other with {best.runs} runs."


def _describe_wins(winners: Sequence[tuple[DataResult, Summary]], count: int) -> list[str]:
    """Return sentences on which learner is best where, most wins first, and on its rivals."""
    wins: dict[str, list[str]] = {}
    for result, best in winners:
        wins.setdefault(best.entry.title, []).append(result.stream.name)
    sentences = []
    if wins:
        (title, names), *runners_up = sorted(wins.items(), key=lambda item: -len(item[1]))
        clauses = [f"`{title}` is best on {len(names)} of {count}: {_join_words(names)}"]
        clauses += [f"`{title}` on {_join_words(names)}" for title, names in runners_up]
        sentences.append(f"{'; '.join(clauses)}.")
    sentences += [
        f"On {result.stream.name} {_describe_rivals(result.rivals)}." for result, _ in winners if result.rivals
    ]
    return sentences


def _describe_rivals(rivals: Sequence[Summary]) -> str:
    """Return a clause naming the learners that the paired test cannot tell from the best one."""
    names = []
    for summary in rivals:
        options = format_options(summary.entry.options)
        names.append(f"`{summary.entry.rule.name}`" + (f" ({options})" if options else ""))
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return f"{_join_words(names)} cannot be distinguished from it with {rivals[0].runs} runs"


def _join_words(words: Sequence[str]) -> str:
    """Join words with commas and a final "and".

    >>> _join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
