"""Run a paper's tables and figures again: published, measured, verdict.

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
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onebit.cli.experiment import (
    add_experiment_options,
    print_cost,
    report_failures,
    result_folder,
    run_and_save,
)
from onebit.cli.terminal import download_bar, growing_bar, print_table
from onebit.errors import InputError
from onebit.papers import paper_named, paper_names
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import HOW_JUDGED, Reproduction, verdict_table

UNMEASURED = 3  # the exit code where some cells could not be measured


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit reproduce`."""
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
        help="run nothing: page and verdicts of the runs that are in the folder",
    )
    command.add_argument("--markdown", metavar="FILE", help="also write the verdicts into a Markdown file")
    command.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    command.add_argument("--quiet", action="store_true", help="show no progress")
    add_experiment_options(command)


def execute(chosen: argparse.Namespace) -> int:
    """Reproduce, print the verdicts, write the pages."""
    names = paper_names() if "all" in chosen.papers else list(dict.fromkeys(chosen.papers))
    for name in dict.fromkeys([*names, *(given for given in chosen.papers if given != "all")]):
        paper_named(name).chosen(chosen.item)  # a wrong name is found before anything runs
    quick = ["--quick"] if chosen.quick else []
    items = [word for item in chosen.item for word in ("--item", item)]
    found: list[Reproduction] = []
    for name in names:
        folder = result_folder(chosen, name) if not chosen.out or len(names) == 1 else Path(chosen.out) / name
        said = shlex.join(["onebit", "reproduce", name, *quick, *items])
        said += f" --on {chosen.on}" if chosen.on != "auto" else ""
        said += f" --out {shlex.quote(str(folder))}" if chosen.out else ""

        def run(name: str = name, folder: Path = folder, said: str = said) -> Reproduction:
            with download_bar(chosen.quiet) as heard, growing_bar(name, chosen.quiet) as (began, progress):
                return reproduce(
                    name,
                    chosen.item,
                    quick=chosen.quick,
                    measure=chosen.measure,
                    out=folder,
                    on=chosen.on,
                    threads=chosen.threads,
                    progress=progress,
                    began=began,
                    heard=heard,
                    command=said,
                )

        def show_stopped(one: Reproduction, found: tuple[Reproduction, ...] = tuple(found)) -> None:
            if chosen.json:
                _print_json([*found, one])
            else:
                show(one)

        one, page = run_and_save(run, folder, show_stopped)
        if not chosen.json:
            show(one)
            print(f"page: {page}")
        found.append(one)
    if chosen.json:
        _print_json(found)
    if chosen.markdown:
        made_by = ["onebit", "reproduce", *chosen.papers, *quick, *items]  # and not where
        write_markdown(found, Path(chosen.markdown), shlex.join(made_by))
    return max([report_failures(one) for one in found]) or max([report_lacking(one) for one in found])


def report_lacking(found: Reproduction) -> int:
    """Say how much could not be measured, in a line; the exit code."""
    if not found.unmeasured:
        return 0
    missing = f"; missing data: {', '.join(found.missing_data)}" if found.missing_data else ""
    print(f"onebit: {found.title}{missing}", file=sys.stderr)
    return UNMEASURED


def _print_json(found: Sequence[Reproduction]) -> None:
    print(json.dumps([one.to_dict() for one in found], ensure_ascii=False, indent=2))


def show(found: Reproduction) -> None:
    """Print the verdicts of a paper: the tables of its page, and the reasons below."""
    for sentence in found.lacking():
        print(sentence)
    for result in found.results:
        if result.verdicts:
            table = verdict_table(result)
            print_table(replace(table, title=f"{found.paper.name}: {result.item.title}"), hidden=["explanation"])
        reasons: dict[str, list[str]] = {}
        for one in result.verdicts:
            if one.why:
                reasons.setdefault(one.why, []).append(f"{one.data}, {one.what}")
        for why, cells in reasons.items():
            print(f"  {'; '.join(cells)}: {why}")
    print(f"{found.paper.name}: {found.summary}")
    print_cost(found.cost)


def write_markdown(found: list[Reproduction], path: Path, said: str) -> None:
    """Write the verdicts of all papers into one file."""
    measured = list(dict.fromkeys(told for one in found for told in one.measured_with))
    lines = [
        "# What the papers published, and what was measured",
        "",
        f"Generated by `{said}`; do not edit. {HOW_JUDGED}",
        "",
        *(f"Measured with {told}." for told in measured),
        "",
    ]
    for one in found:
        lines += one.markdown()
    try:
        path.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the verdicts cannot be written to {path}: {error.strerror or error}") from None
