"""Executors, folders for results, and handling of Ctrl-C, shared by commands with many trials."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from onebit.cli.options import parse_positive
from onebit.cli.terminal import print_json, print_note, progress_bar
from onebit.errors import OnebitError
from onebit.experiments.executors import EXECUTORS, parse_place
from onebit.experiments.report.html import save_page
from onebit.experiments.run import Stopped
from onebit.experiments.runner import FailedRunsWarning, group_failures
from onebit.experiments.trials.cost import Cost, format_count

if TYPE_CHECKING:
    from onebit.experiments.compare import Comparison
    from onebit.experiments.sweep import Sweep
    from onebit.papers.verdicts import Reproduction

RESULTS = "onebit-results"  # default folder for results


Experiment: TypeAlias = "Comparison | Sweep | Reproduction"
ResultT = TypeVar("ResultT", bound=Experiment)


def add_experiment_options(command: argparse.ArgumentParser) -> None:
    """Add the options for where to run, the number of threads, and the folder for results."""
    executors = ", ".join(f"{name} ({meaning})" for name, meaning in EXECUTORS.items())
    command.add_argument(
        "--on", metavar="WHERE", type=_parse_executor, default="auto", help=f"where to run: {executors}; default auto"
    )
    command.add_argument(
        "--threads", metavar="N", type=parse_positive, help="threads to run on (default: one for each core)"
    )
    command.add_argument(
        "--out",
        metavar="DIR",
        help=f"folder for the runs and the page (default: one below {RESULTS}/); runs found there are not run again",
    )


def _parse_executor(text: str) -> str:
    try:
        parse_place(text)
    except OnebitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def pick_folder(args: argparse.Namespace, *about: str) -> Path:
    """Return the folder given by --out, by default one named after the command."""
    if args.out:
        return Path(args.out)
    words = [re.sub(r"[^A-Za-z0-9.-]+", "-", Path(word).name) for word in (args.command, *about)]
    return Path(RESULTS) / "-".join(words)[:120]


def run_and_save(
    run: Callable[[], ResultT], folder: Path, show_stopped: Callable[[ResultT], None] | None
) -> tuple[ResultT, Path]:
    """Run an experiment and write its page; return the result and the path of the page.

    After Ctrl-C, show what is finished, and raise KeyboardInterrupt with a message that it is kept.
    """
    result: ResultT | None = None
    try:
        result = run()
        return result, save_page(result.page(), folder)
    except KeyboardInterrupt as interrupt:
        stopped = interrupt.result if isinstance(interrupt, Stopped) else result
        if stopped is not None and show_stopped is not None:
            show_stopped(stopped)
        raise KeyboardInterrupt(f"stopped; finished runs are kept in {folder}, and the same command resumes") from None


def run_experiment(
    args: argparse.Namespace,
    folder: Path,
    bar: tuple[str, int],
    run: Callable[..., ResultT],
    show: Callable[[ResultT], None],
    show_stopped: bool,
    unnamed: Collection[str] = (),
) -> int:
    """Run a comparison or a sweep, print it, write its page, and return the exit code.

    `bar` is the title and the total of the progress bar; `unnamed` are learners that take part although the user did not name them.
    """

    def run_with_progress() -> ResultT:
        with progress_bar(*bar, args.quiet) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", FailedRunsWarning)  # `report_failures` lists them
            return run(
                runs=args.runs,
                seed=args.seed,
                out=folder,
                on=args.on,
                threads=args.threads,
                progress=progress,
                command=args.command_line,
            )

    def print_result(result: ResultT) -> None:
        if args.json:
            print_json(result.to_dict(), indent=2)
        else:
            show(result)

    result, page = run_and_save(run_with_progress, folder, print_result if show_stopped else None)
    print_result(result)
    print_page(args, page)
    return report_failures(result, unnamed)


def print_page(args: argparse.Namespace, page: Path) -> None:
    """Print the path of the page; with --json, to stderr."""
    print(f"page: {page}", file=sys.stderr if args.json else sys.stdout)


def report_failures(result: Experiment, unnamed: Collection[str] = ()) -> int:
    """Print which runs failed, once per learner and data set, and return the exit code.

    The code is 0 if only learners failed that the user did not name.
    """
    for (learner, data), records in group_failures(result.failures).items():
        count = format_count(len(records), "run")
        print(f"onebit: {learner} failed on {data} ({count}) and is left out: {records[0].why}", file=sys.stderr)
    return int(any(record.learner not in unnamed for record in result.failures))


def print_cost(cost: Cost) -> None:
    """Print where the runs ran and what they took."""
    if cost.text:
        print_note(cost.text)
