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

from onebit.cli.options import download_bar
from onebit.cli.tables import print_wide
from onebit.data.real import REAL, fetch, named, whereabouts
from onebit.data.sources import GENERATORS
from onebit.errors import InputError, brief

ROOMY = 96  # columns of a terminal in which there is room for the summaries


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
    drawn = [
        {
            "name": name,
            "kind": "generator",
            "rows": None,
            "features": generator.features,
            "classes": generator.classes,
            "sparse": False,
            "where": "drawn",
            "hint": "",
            "summary": generator.summary,
        }
        for name, generator in GENERATORS.items()
    ]
    real = [
        {
            "name": name,
            "kind": "real",
            "rows": one.rows,
            "features": one.features,
            "classes": one.classes,
            "sparse": one.sparse,
            "where": whereabouts(name),
            "hint": one.hint,
            "summary": one.summary,
        }
        for name, one in REAL.items()
    ]
    return drawn + real


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
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    roomy = not console.is_terminal or console.width >= ROOMY
    said = "any: as many rows as are asked for" + ("" if roomy else "; a wider window, or --json, says what each is")
    table = Table(box=box.SIMPLE_HEAD, caption=said, caption_justify="left", padding=(0, 1, 0, 0))
    table.add_column("name", no_wrap=True)
    for title in ("rows", "features", "classes"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("where", no_wrap=True)
    if roomy:
        table.add_column("what", ratio=1)
    for kind in ("generator", "real"):
        table.add_section()
        for one in listed:
            if one["kind"] == kind:
                cells = [
                    one["name"],
                    "any" if one["rows"] is None else f"{one['rows']:,}",
                    f"{one['features']:,} {'sparse' if one['sparse'] else 'dense '}",
                    str(one["classes"]),
                    one["where"].split(":")[0],  # the path is long; --json and fetch tell it
                    escape(_short(one["summary"]) if kind == "generator" else one["summary"]),
                ]
                table.add_row(*cells if roomy else cells[:-1])
    print_wide(table)


def _short(summary: str) -> str:
    """The first words of a generator's documentation, as people write them."""
    return summary.split(": ", maxsplit=1)[0].replace("`", "").rstrip(".")
