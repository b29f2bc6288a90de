"""`onebit.reproduce`: run a paper's experiments again and compare with the published numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onebit.errors import InputError
from onebit.experiments.runner import TrialCollector, run_experiment
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.cost import describe_platform
from onebit.experiments.trials.records import FILE
from onebit.papers import load_paper
from onebit.papers.bounds import AdversaryPlan, BoundsPlan
from onebit.papers.errors import ClaimsPlan, ErrorsPlan
from onebit.papers.grid import GridPlan
from onebit.papers.pictures import BoundaryPlan, GapPlan, ScatterPlan, SeparabilityPlan
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.timing import TimePlan
from onebit.papers.verdicts import Reproduction

PLANS: dict[str, type[ItemPlan]] = {
    "errors": ErrorsPlan,
    "claims": ClaimsPlan,
    "grid": GridPlan,
    "scatter": ScatterPlan,
    "boundary": BoundaryPlan,
    "bounds": BoundsPlan,
    "gap": GapPlan,
    "time": TimePlan,
    "adversary": AdversaryPlan,
    "separability": SeparabilityPlan,
}


def reproduce(
    paper: str,
    items: Sequence[str] = (),
    *,
    quick: bool = False,
    measure: bool = True,
    out: str | Path | None = None,
    on: str = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    began: Any = None,
    heard: Any = None,
    command: str = "",
) -> Reproduction:
    """Run a paper's experiments, or some of its items, and compare with what was published.

    With `quick` there are two runs of each, and one of each setting of a grid. Without `measure` nothing is run, and the result is what `out` has. `out`, `on` and
    `threads` mean the same as in `onebit.compare`, and the side effects are the same; `began` is called with the total number of rounds to run, `heard` during downloads.

    >>> import onebit
    >>> reproduction = onebit.reproduce("hoeven2020", ["figure1"])
    >>> [part.title for part in reproduction.results[0].parts][0]
    'Surrogate gap, logistic loss, rate 0.1733'
    """
    if not measure and (out is None or not (Path(out) / FILE).is_file()):
        raise InputError(f"there are no results in {out} to show: give a folder that has a {FILE}")
    published = load_paper(paper)
    chosen_items = published.choose_items(items)
    plans: list[ItemPlan] = []
    trials: list[Trial] = []

    def collect(collector: TrialCollector) -> None:
        streams = PaperStreams(heard)
        plans.extend(PLANS[item.kind](item, streams, quick) for item in chosen_items)
        wanted = [trial for plan in plans for trial in plan.trials()]
        trials.extend(wanted if measure else filter(collector.has_record, wanted))
        if began is not None:
            began(sum(trial.stream.rounds for trial in trials))
        collector.collect(trials)

    def build_result(collector: TrialCollector) -> Reproduction:
        results = [plan.result(collector) for plan in plans]
        platforms = list(dict.fromkeys(record.platform for record in collector.records_of(trials)))
        failures, folder, cost = collector.failures(trials), collector.folder, collector.cost
        return Reproduction(published, results, failures, command, folder, cost, platforms or [describe_platform()])

    return run_experiment(collect, build_result, out, on, threads, progress)
