"""List the data sets that onebit knows, or fetch some before their first use.

Generators draw any number of rows. Real data are read from the folder named by ONEBIT_DATA, otherwise from the user's cache, otherwise
from scikit-learn, which ships some and downloads the others into the cache. Examples:

    onebit data
    onebit data fetch mnist usps
"""

from __future__ import annotations

import argparse
from typing import Any

from onebit.cli.options import add_quiet_option
from onebit.cli.terminal import WIDTH, download_bar, open_console, print_json, print_table
from onebit.data.real import REAL, RealDataset, describe_location, fetch, find_dataset
from onebit.data.sources import GENERATORS, Generator
from onebit.errors import InputError, brief
from onebit.experiments.report import Cell, Column, Table


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "action",
        metavar="{list,fetch}",
        nargs="?",
        choices=["list", "fetch"],
        default="list",
        help="what to do (default: list)",
    )
    command.add_argument("names", metavar="NAME", nargs="*", help="the real data to fetch")
    add_quiet_option(command)


def execute(args: argparse.Namespace) -> None:
    """List all data sets, or fetch the named ones."""
    if args.action == "fetch":
        _fetch_data(args.names, args.json, args.quiet)
        return
    if args.names:
        raise InputError(
            f"`onebit data list` takes no names, but got {brief(args.names[0])}: to fetch it, use `onebit data fetch`"
        )
    datasets = list_data()
    if args.json:
        print_json(datasets, indent=2)
    else:
        _print_data(datasets)


def list_data() -> list[dict[str, Any]]:
    """Return all data sets as plain values; `rows` is None for generators, which draw any number."""
    drawn = {"kind": "generator", "rows": None, "sparse": False, "where": "drawn", "hint": ""}
    return [
        *(_describe_data(name, generator, **drawn) for name, generator in GENERATORS.items()),
        *(
            _describe_data(
                name,
                real,
                kind="real",
                rows=real.rows,
                sparse=real.sparse,
                where=describe_location(name),
                hint=real.hint,
            )
            for name, real in REAL.items()
        ),
    ]


def _describe_data(name: str, data: Generator | RealDataset, **more: Any) -> dict[str, Any]:
    return {"name": name, "features": data.features, "classes": data.classes, "summary": data.summary, **more}


def _fetch_data(names: list[str], as_json: bool, quiet: bool) -> None:
    if not names:
        raise InputError(f"NAME is missing: name the data to fetch, out of {', '.join(REAL)}")
    for name in names:
        if name in GENERATORS:
            raise InputError(f"{name} is a generator, drawn anew for every run: there is nothing to fetch")
        find_dataset(name)
    fetched = []
    for name in names:
        before = describe_location(name)
        with download_bar(quiet) as progress:
            fetch(name, progress)
        where = describe_location(name)
        fetched.append({"name": name, "where": where, "fetched": where != before})
        if not as_json:
            print(f"{name} {'has been fetched' if where != before else 'was already present'}: {where}")
    if as_json:
        print_json(fetched, indent=2)


def _print_data(datasets: list[dict[str, Any]]) -> None:
    columns = [Column("name"), Column("rows", True), Column("features", True), Column("classes", True)]
    groups: dict[str, list[list[Cell]]] = {}
    for data in datasets:
        cells: list[Cell] = [
            data["name"],
            "any" if data["rows"] is None else f"{data['rows']:,}",
            f"{data['features']:,} {'sparse' if data['sparse'] else 'dense '}",
            str(data["classes"]),
            data["where"].split(":")[0],  # the path is long; --json and fetch show it
            _shorten_summary(data["summary"]) if data["kind"] == "generator" else data["summary"],
        ]
        groups.setdefault(data["kind"], []).append(cells)
    narrow = "" if open_console().width >= WIDTH else "; a wider window, or --json, shows what each is"
    table = Table("Data by name", [*columns, Column("where"), Column("what")], groups)
    print_table(table, roomy=["what"], caption=f"any: as many rows as you ask for{narrow}")


def _shorten_summary(summary: str) -> str:
    return summary.split(": ", maxsplit=1)[0].replace("`", "").rstrip(".")
