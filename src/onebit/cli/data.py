"""List the data that onebit knows, or fetch some ahead of their first use.

Generators draw any number of rows. Real data are read from the folder named by ONEBIT_DATA, otherwise from the user's cache, otherwise
from scikit-learn, which ships some and downloads the others into the cache. Examples:

    onebit data
    onebit data fetch mnist usps
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from onebit.cli.terminal import WIDTH, console, download_bar, print_table
from onebit.data.real import REAL, RealDataset, fetch, named, whereabouts
from onebit.data.sources import GENERATORS, Generator
from onebit.errors import InputError, brief
from onebit.experiments.report import Column, Table, TableRow


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit data`."""
    command.add_argument(
        "action",
        metavar="{list,fetch}",
        nargs="?",
        choices=["list", "fetch"],
        default="list",
        help="what to do (default: list)",
    )
    command.add_argument("names", metavar="NAME", nargs="*", help="the real data to fetch")
    command.add_argument("--json", action="store_true", help="print the list, or what was fetched, as JSON")
    command.add_argument("--quiet", action="store_true", help="show no progress")


def execute(chosen: argparse.Namespace) -> None:
    """List, or fetch."""
    if chosen.action == "fetch":
        _fetch(chosen.names, chosen.json, chosen.quiet)
        return
    if chosen.names:
        raise InputError(f"names of data are for `onebit data fetch`, and {brief(chosen.names[0])} was given to list")
    listed = entries()
    if chosen.json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        _show(listed)


def entries() -> list[dict[str, Any]]:
    """All data as plain values; `rows` is None where any number can be drawn."""
    drawn = {"kind": "generator", "rows": None, "sparse": False, "where": "drawn", "hint": ""}
    return [
        *(_entry(name, one, **drawn) for name, one in GENERATORS.items()),
        *(
            _entry(name, one, kind="real", rows=one.rows, sparse=one.sparse, where=whereabouts(name), hint=one.hint)
            for name, one in REAL.items()
        ),
    ]


def _entry(name: str, one: Generator | RealDataset, **more: Any) -> dict[str, Any]:
    return {"name": name, "features": one.features, "classes": one.classes, "summary": one.summary, **more}


def _fetch(names: list[str], as_json: bool, quiet: bool) -> None:
    if not names:
        raise InputError(f"which data are to be fetched? Name them: {', '.join(REAL)}")
    for name in names:
        if name in GENERATORS:
            raise InputError(f"{name} is drawn anew for every run: there is nothing to fetch")
        named(name)
    found = []
    for name in names:
        before = whereabouts(name)
        with download_bar(quiet) as progress:
            fetch(name, progress)
        found.append({"name": name, "where": whereabouts(name), "fetched": whereabouts(name) != before})
        if not as_json:
            how = "is here now" if found[-1]["fetched"] else "was here already"
            print(f"{name} {how}: {found[-1]['where']}")
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))


def _show(listed: list[dict[str, Any]]) -> None:
    columns = [Column("name"), Column("rows", True), Column("features", True), Column("classes", True)]
    rows = [
        TableRow(
            [
                one["name"],
                "any" if one["rows"] is None else f"{one['rows']:,}",
                f"{one['features']:,} {'sparse' if one['sparse'] else 'dense '}",
                str(one["classes"]),
                one["where"].split(":")[0],  # the path is long; --json and fetch tell it
                _short(one["summary"]) if one["kind"] == "generator" else one["summary"],
            ],
            one["kind"],
        )
        for one in listed
    ]
    narrow = "" if console().width >= WIDTH else "; a wider window, or --json, says what each is"
    table = Table("Data by name", [*columns, Column("where"), Column("what")], rows)
    print_table(table, roomy=["what"], caption=f"any: as many rows as are asked for{narrow}")


def _short(summary: str) -> str:
    """The first words of a generator's documentation, as people write them."""
    return summary.split(": ", maxsplit=1)[0].replace("`", "").rstrip(".")
