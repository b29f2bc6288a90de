"""Compare learners on the same streams: a table sorted by error.

Every learner runs as it comes; those with an aggressiveness also run with a small one (0.001), which data without a margin need,
and with a large one (1), which rows of length one need.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from onebit.cli.options import add_run_options, positive, progress_bar
from onebit.data.sources import source_of
from onebit.errors import OnebitError
from onebit.experiments.run import Result, Stopped, run
from onebit.rules import registry, rule_named

AGGRESSIVENESS = (0.001, 1.0)  # tried beside the default


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit compare`."""
    command.add_argument("data", metavar="DATA", help="a data set or a file, as for `onebit run`")
    command.add_argument("--learners", metavar="A,B,...", help="the learners to compare (default: all)")
    command.add_argument("--runs", type=positive, default=2, help="runs of each (default 2)")
    add_run_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Run all of them, and print the table; Ctrl-C prints what is done."""
    names = [name.strip() for name in chosen.learners.split(",")] if chosen.learners else list(registry())
    entries: list[tuple[str, dict[str, Any]]] = []
    for name in names:
        entries.append((name, {}))
        default = rule_named(name).defaults.get("aggressiveness")
        if default is not None:
            entries.extend((name, {"aggressiveness": tried}) for tried in AGGRESSIVENESS if tried != default)
    source = source_of(chosen.data, rounds=chosen.rounds)
    results: list[tuple[dict[str, Any], Result]] = []
    failures: list[str] = []
    stopped = False
    with progress_bar(f"{len(entries)} learners", source.rounds * chosen.runs * len(entries), chosen.quiet) as progress:
        for name, options in entries:
            try:
                result = run(
                    name,
                    chosen.data,
                    runs=chosen.runs,
                    seed=chosen.seed,
                    rounds=chosen.rounds,
                    shuffle=chosen.shuffle,
                    progress=progress,
                    **options,
                )
            except Stopped:
                stopped = True
                break
            except OnebitError as error:
                if not results:
                    raise
                # One that does not settle is no reason to lose the others.
                failures.append(f"{name} {_shown(options)}: {error}")
                continue
            results.append((options, result))
    results.sort(key=lambda entry: entry[1].error)
    if chosen.json:
        print(json.dumps([result.to_dict() for _, result in results], ensure_ascii=False, indent=2))
    else:
        show(results, source.name, source.note)
    for failure in failures:
        print(f"onebit: {failure}", file=sys.stderr)
    if stopped:
        raise KeyboardInterrupt
    return 0


def show(results: list[tuple[dict[str, Any], Result]], data: str, note: str) -> None:
    """Print the table, those that hear one bit first, and why some fail on this data."""
    from rich.console import Console
    from rich.table import Table

    if not results:
        return
    first = results[0][1]
    table = Table(
        title=f"{data}: {first.runs} x {first.rounds:,} rounds, error in %, lowest first",
        caption="M/s: million rounds a second on one core",
        caption_justify="left",
    )
    table.add_column("learner", no_wrap=True)
    table.add_column("set", style="dim", no_wrap=True)
    for title in ("error", "sd", "greedy", "M/s"):
        table.add_column(title, justify="right")
    references = [entry for entry in results if entry[1].learner.needs_labels]
    for title, entries in (
        ("hear one bit", [entry for entry in results if entry not in references]),
        ("told every label", references),
    ):
        if entries:
            table.add_section()
            table.add_row(f"[bold]{title}[/]")
        for options, result in entries:
            table.add_row(
                f"  {result.rule}",
                _shown(options),
                f"{100 * result.error:.1f}",
                f"{100 * result.error_sd:.1f}",
                f"{100 * result.greedy_error:.1f}",
                f"{result.rounds_per_second / 1e6:.1f}",
            )
    console = Console()
    console.print(table)
    if note:
        console.print(note, highlight=False)


def _shown(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
