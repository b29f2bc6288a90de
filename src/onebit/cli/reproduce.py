"""Reproduce a paper's tables and figures: published and measured numbers, and verdicts.

PAPER is chen2009, zhong2015, arora2020, prompak2017, hoeven2020, or all. Every figure and table uses the data, parameters and number of runs of the paper;
--quick makes two runs of each, and one for each setting of a grid. An item that takes hours on a laptop runs only if named: arora2020's
search. Finished runs are kept in the folder --out: after Ctrl-C, the same command resumes, and --no-runs shows results measured elsewhere.
If cells could not be measured, because data are missing, the exit code is 3. Examples:

    onebit reproduce chen2009 --quick
    onebit reproduce arora2020 --item figure3
    onebit reproduce arora2020 --item search --on gpu
    onebit reproduce arora2020 --on gpu
    onebit reproduce all --out results --markdown reproduction.md
    onebit reproduce all --out results --no-runs --markdown reproduction.md
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from onebit.cli.experiment import (
    add_experiment_options,
    pick_folder,
    print_cost,
    print_page,
    report_failures,
    run_and_save,
)
from onebit.cli.options import add_quiet_option
from onebit.cli.terminal import download_bar, growing_bar, print_json, print_table
from onebit.errors import InputError
from onebit.papers import load_paper, paper_names
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import HOW_JUDGED, Reproduction, verdict_table

UNMEASURED = 3  # exit code if some cells could not be measured


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("papers", metavar="PAPER", nargs="+", help=f"{', '.join(paper_names())}, or all")
    command.add_argument(
        "--item",
        metavar="NAME",
        action="append",
        default=[],
        help="one table or figure; may be repeated; some run only if named",
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="two runs of each (one of each setting of a grid) instead of the paper's number",
    )
    command.add_argument(
        "--no-runs",
        dest="measure",
        action="store_false",
        help="run nothing: write the page and the verdicts from the runs in the folder",
    )
    command.add_argument("--markdown", metavar="FILE", help="also write the verdicts into a Markdown file")
    add_quiet_option(command)
    add_experiment_options(command)


def execute(args: argparse.Namespace) -> int:
    """Reproduce the papers, print the verdicts and write the pages."""
    names = paper_names() if "all" in args.papers else list(dict.fromkeys(args.papers))
    for name in dict.fromkeys([*names, *(paper for paper in args.papers if paper != "all")]):
        load_paper(name).choose_items(args.item)  # report a wrong name before anything runs
    options = [*(["--quick"] if args.quick else []), *(word for item in args.item for word in ("--item", item))]
    results: list[Reproduction] = []

    def show_results(stopped: Reproduction | None = None) -> None:
        results_so_far = [*results, *([stopped] if stopped else [])]
        if args.json:
            print_json([result.to_dict() for result in results_so_far], indent=2)
        elif stopped:
            print_reproduction(stopped)

    for name in names:
        folder = pick_folder(args, name) if not args.out or len(names) == 1 else Path(args.out) / name
        where = [*(["--on", args.on] if args.on != "auto" else []), *(["--out", str(folder)] if args.out else [])]
        command = shlex.join(["onebit", "reproduce", name, *options, *where])

        def run(name: str = name, folder: Path = folder, command: str = command) -> Reproduction:
            with download_bar(args.quiet) as report, growing_bar(name, args.quiet) as (set_total, progress):
                return reproduce(
                    name,
                    args.item,
                    quick=args.quick,
                    measure=args.measure,
                    out=folder,
                    on=args.on,
                    threads=args.threads,
                    progress=progress,
                    began=set_total,
                    heard=report,
                    command=command,
                )

        result, page = run_and_save(run, folder, show_results)
        if not args.json:
            print_reproduction(result)
            print_page(args, page)
        results.append(result)
    show_results()
    if args.markdown:
        command = shlex.join(["onebit", "reproduce", *args.papers, *options])  # without --on and --out
        write_markdown(results, Path(args.markdown), command)
    return max(map(report_failures, results)) or max(map(report_unmeasured, results))


def report_unmeasured(result: Reproduction) -> int:
    """Print which cells could not be measured, and return the exit code."""
    if not result.unmeasured:
        return 0
    missing = f"; missing data: {', '.join(result.missing_data)}" if result.missing_data else ""
    print(f"onebit: {result.title}{missing}", file=sys.stderr)
    return UNMEASURED


def print_reproduction(reproduction: Reproduction) -> None:
    """Print the verdicts on a paper: the tables of its page, and the reasons below."""
    for sentence in reproduction.describe_gaps():
        print(sentence)
    for result in reproduction.results:
        if result.verdicts:
            title = f"{reproduction.paper.name}: {result.item.title}"
            print_table(replace(verdict_table(result), title=title), hidden=["explanation"])
        reasons: dict[str, list[str]] = {}
        for verdict in result.verdicts:
            if verdict.why:
                reasons.setdefault(verdict.why, []).append(f"{verdict.data}, {verdict.what}")
        for why, cells in reasons.items():
            print(f"  {'; '.join(cells)}: {why}")
    print(f"{reproduction.paper.name}: {reproduction.summary}")
    print_cost(reproduction.cost)


def write_markdown(results: list[Reproduction], path: Path, command: str) -> None:
    """Write the verdicts on all papers to one file."""
    measured = dict.fromkeys(platform for result in results for platform in result.measured_with)
    lines = [
        "# What the papers published, and what was measured",
        "",
        f"Generated by `{command}`; do not edit. {HOW_JUDGED}",
        "",
        *(f"Measured with {platform}." for platform in measured),
        "",
    ]
    for result in results:
        lines += result.markdown()
    try:
        path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the verdicts cannot be written to {path}: {error.strerror or error}") from None
