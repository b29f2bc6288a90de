"""What the commands that run many trials share: where these run, where their records are kept, and what happens on Ctrl-C."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from onebit.cli.options import positive
from onebit.cli.terminal import print_note, progress_bar
from onebit.errors import OnebitError
from onebit.experiments.executors import EXECUTORS, checked_on
from onebit.experiments.report import Page
from onebit.experiments.report.html import save_page
from onebit.experiments.run import Stopped
from onebit.experiments.runner import FailedRunsWarning, failures_by_data
from onebit.experiments.trials.cost import Cost, number_of
from onebit.experiments.trials.records import Record

RESULTS = "onebit-results"  # the folder for results where none is named


class Experiment(Protocol):
    """A comparison, a sweep or a reproduction."""

    @property
    def failures(self) -> list[Record]:
        """The runs that failed."""

    def page(self) -> Page:
        """The page that shows it."""


Found = TypeVar("Found", bound=Experiment)


def add_experiment_options(command: argparse.ArgumentParser) -> None:
    """Where the runs run, on how many threads, and where results are kept."""
    executors = ", ".join(f"{name} ({meaning})" for name, meaning in EXECUTORS.items())
    command.add_argument(
        "--on", metavar="WHERE", type=executor, default="auto", help=f"where to run: {executors}; default auto"
    )
    command.add_argument("--threads", metavar="N", type=positive, help="threads to run on (default: one for each core)")
    command.add_argument(
        "--out",
        metavar="DIR",
        help=f"folder for the runs and the page (default: one below {RESULTS}/); runs found there are not run again",
    )


def executor(text: str) -> str:
    """The name of an executor, or the address of a cluster."""
    try:
        checked_on(text)
    except OnebitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def result_folder(chosen: argparse.Namespace, *about: str) -> Path:
    """The folder named, or one named after the command."""
    if chosen.out:
        return Path(chosen.out)
    words = [re.sub(r"[^A-Za-z0-9.-]+", "-", Path(word).name) for word in (chosen.command, *about)]
    return Path(RESULTS) / "-".join(words)[:120]


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Whoever stops what goes on here is told that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"stopped; what is done is kept in {folder}, and the same command goes on from there"
        ) from None


def run_and_save(
    run: Callable[[], Found], folder: Path, show_stopped: Callable[[Found], None] | None
) -> tuple[Found, Path]:
    """What an experiment gave, and the path of its page; after Ctrl-C what is done is shown, and that it is kept is said."""
    found: Found | None = None
    with kept_in(folder):
        try:
            found = run()
            return found, save_page(found.page(), folder)
        except KeyboardInterrupt as pressed:
            stopped = pressed.result if isinstance(pressed, Stopped) else found
            if stopped is not None and show_stopped is not None:
                show_stopped(stopped)
            raise


def run_experiment(
    chosen: argparse.Namespace,
    folder: Path,
    bar: tuple[str, int],
    run: Callable[..., Found],
    show: Callable[[Found, bool], None],
    show_stopped: bool,
    unasked: Collection[str] = (),
) -> int:
    """Run a comparison or a sweep as the options say, print it and write its page; the exit code.

    `bar` is a title and a total, `unasked` are the learners that take part though nobody named them.
    """

    def started() -> Found:
        with progress_bar(*bar, chosen.quiet) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", FailedRunsWarning)  # they are told of one by one below
            return run(
                runs=chosen.runs,
                seed=chosen.seed,
                out=folder,
                on=chosen.on,
                threads=chosen.threads,
                progress=progress,
                command=chosen.said,
            )

    found, page = run_and_save(started, folder, (lambda one: show(one, chosen.json)) if show_stopped else None)
    show(found, chosen.json)
    print(f"page: {page}", file=sys.stderr if chosen.json else sys.stdout)
    return report_failures(found, unasked)


def report_failures(found: Experiment, unasked: Collection[str] = ()) -> int:
    """Say which runs failed, those of a learner on the same data once; the exit code, which is 0 where only learners failed that nobody named."""
    for (who, data), some in failures_by_data(found.failures).items():
        said = f"{who} failed on {data} ({number_of(len(some), 'run')}) and is left out: {some[0].failed}"
        print(f"onebit: {said}", file=sys.stderr)
    return int(any(record.learner not in unasked for record in found.failures))


def print_cost(cost: Cost) -> None:
    """Print where the runs ran and what that took."""
    if cost.said:
        print_note(cost.said)
