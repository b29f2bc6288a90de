"""`onebit.reproduce`: run a paper's experiments again and compare with the published numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from onebit.errors import InputError
from onebit.experiments.executors import make_executor
from onebit.experiments.pages import facts
from onebit.experiments.run import Stopped
from onebit.experiments.runner import TrialCollector
from onebit.experiments.trials import Progress, Trial
from onebit.experiments.trials.records import FILE, Records
from onebit.papers import paper_named
from onebit.papers.bounds import AdversaryPlan, BoundsPlan
from onebit.papers.errors import ClaimsPlan, ErrorsPlan
from onebit.papers.grid import GridPlan
from onebit.papers.pictures import BoundaryPlan, GapPlan, ScatterPlan, SeparabilityPlan
from onebit.papers.plans import ItemPlan, PaperStreams
from onebit.papers.timing import TimePlan
from onebit.papers.verdicts import Reproduction

MEASURED = "measured.json"  # in a result folder, which may be shown on another machine
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
    >>> found = onebit.reproduce("hoeven2020", ["figure1"])
    >>> [part.title for part in found.results[0].parts][0]
    'Surrogate gap, logistic loss, rate 0.1733'
    """
    if not measure and (out is None or not (Path(out) / FILE).is_file()):
        raise InputError(f"nothing is to be run, but there are no results in {out}: give a folder that has a {FILE}")
    found = paper_named(paper)
    chosen = found.chosen(items)
    streams = PaperStreams(heard)
    plans: list[ItemPlan] = []
    wanted: list[Trial] = []
    trials: list[Trial] = []

    def result(collector: TrialCollector, folder: Path | None) -> Reproduction:
        results = [plan.result(collector) for plan in plans]
        told = measured_with(folder, collector.cost.rounds > 0) if wanted else [measured_here()]
        return Reproduction(found, results, collector.failures(trials), command, folder, collector.cost, told)

    with (
        closing(make_executor(on, threads)) as executor,
        closing(Records(out)) as records,
    ):  # opened first, so that errors come before downloads
        plans += [PLANS[item.kind](item, streams, quick) for item in chosen]
        wanted += [trial for plan in plans for trial in plan.trials()]
        trials += [trial for trial in wanted if measure or records.get(trial) is not None]
        if began is not None:
            began(sum(trial.stream.rounds for trial in trials))
        collector = TrialCollector(records, executor, progress)
        try:
            collector.collect(trials)
            return result(collector, records.folder)
        except KeyboardInterrupt:
            raise Stopped(result(collector, records.folder)) from None


def measured_here() -> str:
    """Return the versions in use and this machine as text."""
    about = facts(None)
    return f"{about['versions']} on {about['machine']}"


def measured_with(folder: Path | None, ran: bool) -> list[str]:
    """Return what the runs of a folder were measured with, and note this machine if some `ran` now."""
    if folder is None:
        return [measured_here()]
    path = folder / MEASURED
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{path}, which says what measured these results, cannot be read: {error}") from None
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise InputError(f"{path} must be a list of texts that say what measured these results")
    if ran and measured_here() not in known:
        known.append(measured_here())
        try:
            path.write_text(json.dumps(known, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"the results cannot be written to {folder}: {error.strerror or error}") from None
    return known or ["versions and a machine that were not noted"]
