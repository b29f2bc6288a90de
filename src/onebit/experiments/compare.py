"""`onebit.compare`: run several learners on the same streams and rank them, with paired intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.contract.parameters import named_parameters, require_known
from onebit.contract.validation import MAX_RUNS, checked_count, checked_seed
from onebit.data.streams import Stream, stream, stream_parameters
from onebit.errors import InputError, brief
from onebit.experiments.drawing import describe_score, draw_curves
from onebit.experiments.executors import make_executor
from onebit.experiments.report import Page
from onebit.experiments.report.html import save_page
from onebit.experiments.run import Stopped, describe_constant
from onebit.experiments.runner import TrialCollector, describe_failures, refuse_or_warn
from onebit.experiments.statistics import MeanEstimate, Summary
from onebit.experiments.trials import ComparisonEntry, Progress, Trial, make_entry
from onebit.experiments.trials.cost import Cost
from onebit.experiments.trials.records import Record, Records, frame
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

    @property
    def best(self) -> Summary | None:
        """The best learner with bandit feedback, or the best of all if none has bandit feedback."""
        honest = [one for one in self.summaries if not one.full_information]
        return next(iter(honest or self.summaries), None)

    @property
    def others(self) -> list[Summary]:
        """The learners with the same kind of feedback as the best one, without the best one itself."""
        best = self.best
        if best is None:
            return []
        return [one for one in self.summaries if one is not best and one.full_information == best.full_information]

    @property
    def rivals(self) -> list[Summary]:
        """The learners that are not significantly worse than the best one.

        The interval of their difference from it, paired run by run, contains 0.
        """
        return [one for one in self.others if self.difference(one).low <= 0.0]

    def difference(self, one: Summary) -> MeanEstimate:
        """Return how much higher a learner's error is than the best one's, paired run by run.

        Where the stream has rewards: how much lower its mean reward is.
        """
        assert self.best is not None
        return one.difference(self.best, "reward" if self.rewarded else "played")

    @property
    def rewarded(self) -> bool:
        return self.stream.source.rewards

    def to_dict(self) -> dict[str, Any]:
        summaries = [{**one.to_dict(), "difference_to_best": self.difference(one).to_dict()} for one in self.summaries]
        failures = [
            {name: getattr(record, name) for name in ("learner", "options", "seed", "why")} for record in self.failures
        ]
        return {
            "data": self.stream.name,
            "stream": self.stream.described(),
            "standings": summaries,
            "failures": failures,
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
        raise InputError(f"there is no {brief(key)} in this comparison")

    def __repr__(self) -> str:
        said = [
            f"{result.stream.name}: {result.best.entry.title if result.best else 'none'}" for result in self.results
        ]
        failed = f"; {describe_failures(self.failures)}" if self.failures else ""
        return f"Comparison({self.runs} runs; best on {'; '.join(said)}{failed})"

    def _repr_html_(self) -> str:
        from onebit.experiments.pages import comparison_html

        return comparison_html(self)

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
        return frame(
            [record for result in self.results for one in result.summaries for record in one.records] + self.failures
        )

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
        from onebit.experiments.report.figures import figure

        result = self[data]
        return figure(draw_curves(result.stream.name, result.summaries, logarithmic), measure)

    def page(self) -> Page:
        """Build the result page: the finding, then curves and a table for each stream."""
        from onebit.experiments.pages import comparison_page

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
            entries += [make_entry(name, {"aggressiveness": tried}) for tried in AGGRESSIVENESS if tried != default]
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
    >>> found = onebit.compare("synsep9", ["bpa", ("bpa", {"aggressiveness": 1})], rounds=500, runs=3)
    >>> [one.entry.title for one in found[0].summaries]
    ['bpa, aggressiveness=1', 'bpa']
    """
    checked_count("runs", runs, MAX_RUNS)
    checked_seed(seed)
    require_known("a comparison", settings, {**named_parameters(compare), **stream_parameters()})
    if isinstance(learners, str) or not isinstance(learners, Iterable | None):
        learners = [learners]
    entries = usual_entries() if learners is None else [_entry(one) for one in learners]
    if not entries:
        raise InputError("there are no learners to compare")
    if len({entry.title for entry in entries}) < len(entries):
        twice = [entry.title for entry in entries]
        raise InputError(
            f"{brief(next(t for t in twice if twice.count(t) > 1))} is named twice; name each learner once"
        )
    streams = [_stream(one, settings) for one in (data if isinstance(data, list) else [data])]
    if not streams:
        raise InputError("there are no data to compare on")
    keys = [one.key for one in streams]
    for one in streams:
        if keys.count(one.key) > 1:
            raise InputError(f"{one.name} is named twice; name each data set once")
    seeds = range(seed, seed + runs)
    trials = [Trial(entry, one, each) for one in streams for each in seeds for entry in entries]

    def comparison(collector: TrialCollector, folder: Path | None) -> Comparison:
        results = []
        for one in streams:
            summaries, failures = [], []
            for entry in entries:
                found = collector.records_of(Trial(entry, one, each) for each in seeds)
                good = [record for record in found if not record.failed]
                failures += [record for record in found if record.failed]
                if good and len(good) == len(found):
                    summaries.append(Summary(entry, good))
            results.append(DataResult(one, sorted(summaries, key=lambda summary: summary.loss.mean), failures))
        return Comparison(results, runs, seed, command, folder, collector.cost, entries)

    with closing(make_executor(on, threads)) as executor, closing(Records(out)) as records:
        collector = TrialCollector(records, executor, progress)
        try:
            collector.collect(trials)
        except KeyboardInterrupt:
            raise Stopped(comparison(collector, records.folder)) from None
        found = comparison(collector, records.folder)
    refuse_or_warn(found.failures, len(trials))
    return found


def _entry(given: Any) -> ComparisonEntry:
    learner, options = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    if isinstance(learner, Learner):
        raise InputError("a comparison starts every learner anew: name its class and its options instead")
    return make_entry(learner, options)


def _stream(given: Any, settings: dict[str, Any]) -> Stream:
    X, y = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    return stream(X, y, **settings)


# --- what was found, in sentences -----------------------------------------------------------------------------------


def describe_finding(results: Sequence[DataResult]) -> str:
    """Return sentences on the best learners, the ties, the constant baselines and the failures."""
    decided = [(result, result.best) for result in results if result.best is not None]
    said = [_describe_best(*decided[0])] if len(results) == 1 and decided else _describe_wins(decided, len(results))
    for result, _ in decided:
        constant = (
            describe_constant(result.stream, max(one.reward.mean for one in result.summaries))
            if result.rewarded
            else ""
        )
        if constant:
            said.append(f"On {result.stream.name} {constant}, more than every learner.")
    without = [result for result in results if result.best is None]
    for some, why in (
        ([one for one in without if one.failures], "no learner was run without a failure"),
        ([one for one in without if not one.failures], "no learner has run to the end"),
    ):
        if some:
            said.append(f"On {_joined([one.stream.name for one in some])} {why}.")
    if any(math.isnan(best.error.low) for _, best in decided):
        said.append("One run has no interval: more runs would say how sure this is.")
    return " ".join(said)


def _describe_best(result: DataResult, best: Summary) -> str:
    said = f"`{best.entry.title}` is best on {result.stream.name}, with {describe_score(best)}"
    if not result.others or math.isnan(best.error.low):
        return f"{said}."
    near = result.rivals
    return (
        f"{said}; {_describe_rivals(near)}."
        if near
        else f"{said}; it can be distinguished from every other with {best.runs} runs."
    )


def _describe_wins(decided: Sequence[tuple[DataResult, Summary]], count: int) -> list[str]:
    places: dict[str, list[str]] = {}
    for result, best in decided:
        places.setdefault(best.entry.title, []).append(result.stream.name)
    ranked = sorted(places.items(), key=lambda item: -len(item[1]))
    said = []
    if ranked:
        (title, where), *others = ranked
        wins = [f"`{title}` is best on {len(where)} of {count}: {_joined(where)}"]
        wins += [f"`{title}` on {_joined(where)}" for title, where in others]
        said.append(f"{'; '.join(wins)}.")
    near = [(result.stream.name, result.rivals) for result, _ in decided]
    said += [f"On {name} {_describe_rivals(some)}." for name, some in near if some]
    return said


def _describe_rivals(near: Sequence[Summary]) -> str:
    """Return a clause naming the learners that the paired test cannot tell from the best one."""
    names = [
        f"`{one.entry.rule.name}`" + (f" ({one.entry.options_text})" if one.entry.options_text else "") for one in near
    ]
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return f"{_joined(names)} cannot be distinguished from it with {near[0].runs} runs"


def _joined(words: Sequence[str]) -> str:
    """Join words with commas and a final "and".

    >>> _joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
