"""List the data that onebit knows, or fetch some before their first use.

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


def declare(command: argparse.ArgumentParser) -> None:
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


def execute(chosen: argparse.Namespace) -> None:
    """List the data, or fetch some."""
    if chosen.action == "fetch":
        _fetch(chosen.names, chosen.json, chosen.quiet)
        return
    if chosen.names:
        raise InputError(f"names of data are for `onebit data fetch`, and {brief(chosen.names[0])} was given to list")
    listed = list_data()
    if chosen.json:
        print_json(listed, indent=2)
    else:
        _show(listed)


def list_data() -> list[dict[str, Any]]:
    """Return all data sets as plain values; `rows` is None for generators, which draw any number."""
    drawn = {"kind": "generator", "rows": None, "sparse": False, "where": "drawn", "hint": ""}
    return [
        *(_entry(name, generator, **drawn) for name, generator in GENERATORS.items()),
        *(
            _entry(
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


def _entry(name: str, data: Generator | RealDataset, **more: Any) -> dict[str, Any]:
    return {"name": name, "features": data.features, "classes": data.classes, "summary": data.summary, **more}


def _fetch(names: list[str], as_json: bool, quiet: bool) -> None:
    if not names:
        raise InputError(f"which data are to be fetched? Name them: {', '.join(REAL)}")
    for name in names:
        if name in GENERATORS:
            raise InputError(f"{name} is drawn anew for every run: there is nothing to fetch")
        find_dataset(name)
    fetched = []
    for name in names:
        before = describe_location(name)
        with download_bar(quiet) as progress:
            fetch(name, progress)
        where = describe_location(name)
        fetched.append({"name": name, "where": where, "fetched": where != before})
        if not as_json:
            print(f"{name} {'is here now' if where != before else 'was here already'}: {where}")
    if as_json:
        print_json(fetched, indent=2)


def _show(listed: list[dict[str, Any]]) -> None:
    columns = [Column("name"), Column("rows", True), Column("features", True), Column("classes", True)]
    groups: dict[str, list[list[Cell]]] = {}
    for data in listed:
        cells: list[Cell] = [
            data["name"],
            "any" if data["rows"] is None else f"{data['rows']:,}",
            f"{data['features']:,} {'sparse' if data['sparse'] else 'dense '}",
            str(data["classes"]),
            data["where"].split(":")[0],  # the path is long; --json and fetch show it
            _first_words(data["summary"]) if data["kind"] == "generator" else data["summary"],
        ]
        groups.setdefault(data["kind"], []).append(cells)
    narrow = "" if open_console().width >= WIDTH else "; a wider window, or --json, shows what each is"
    table = Table("Data by name", [*columns, Column("where"), Column("what")], groups)
    print_table(table, roomy=["what"], caption=f"any: as many rows as you ask for{narrow}")


def _first_words(summary: str) -> str:
    return summary.split(": ", maxsplit=1)[0].replace("`", "").rstrip(".")
