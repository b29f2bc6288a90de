"""Find how separable data are: the largest margin, with proof, or the rows most in the way of one.

DATA is a name that `onebit data` lists, or a file: .csv, .parquet, .jsonl, .xlsx, .svmlight, .vw or .npz. Examples:

    onebit margin digits --kind weak --prepare scale
    onebit margin group2d --kind group --groups 0,1,2/3,4,5/6,7,8
    onebit margin group2d --kernel rational --rounds 500
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onebit.cli.options import add_file_options, download_bar, file_settings, groups_of, positive, whole
from onebit.data.sources import source_of


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit margin`."""
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    command.add_argument(
        "--kind", default="strong", help="which separability: strong, weak, or group (weak, by groups); default strong"
    )
    command.add_argument(
        "--groups", metavar="A,B/C,D,E", help="groups of classes (default: the fewest that have a margin)"
    )
    command.add_argument("--kernel", help="look in the space of a kernel: polynomial:DEGREE, rational or rbf:GAMMA")
    command.add_argument("--bias", action="store_true", help="add a constant feature")
    command.add_argument("--prepare", metavar="STEP,STEP,...", help="what is done to the rows, as in `onebit run`")
    add_file_options(command)
    command.add_argument(
        "--rounds", type=positive, help="rows to draw, or to sample from a file (default: 100,000, or all of a file)"
    )
    command.add_argument("--seed", type=whole, default=0, help="seed of what is drawn (default 0)")
    command.add_argument("--json", action="store_true", help="print the result as JSON, with the vectors")
    command.add_argument("--quiet", action="store_true", help="show no progress")


def execute(chosen: argparse.Namespace) -> int:
    """Solve, and print what came out."""
    from onebit.theory.margins import margin

    with download_bar(chosen.quiet) as heard:
        source = source_of(chosen.data, prepare=chosen.prepare, progress=heard, **file_settings(chosen))
    with _line(chosen.quiet) as told:
        found = margin(
            source,
            kind=chosen.kind,
            groups=groups_of(chosen.groups),
            kernel=chosen.kernel,
            bias=chosen.bias,
            rounds=chosen.rounds,
            seed=chosen.seed,
            told=told,
        )
    print(json.dumps(found.to_dict(), ensure_ascii=False) if chosen.json else found)
    return 0


@contextmanager
def _line(quiet: bool) -> Iterator[Callable[[str], None] | None]:
    """A line on stderr that says how it goes, gone when it is done; nothing where stderr is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    with console.status("") as status:
        yield status.update
