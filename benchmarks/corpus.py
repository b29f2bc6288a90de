"""Is `auto` a trap anywhere? Its error on every stream of the stress corpus against the best fixed rule, and against auto of 0.3.0.

    python benchmarks/corpus.py --list                         # the streams, their halves and their seeds
    python benchmarks/corpus.py --half choose --jobs 16        # those that constants may be chosen on
    python benchmarks/corpus.py --only digits --only iris
    python benchmarks/corpus.py --jobs 16 --write              # all of it, and the table into docs/explanation/auto-corpus.md
    python benchmarks/corpus.py --table                        # what the runs so far say; nothing is run

Errors are those of the label played, in % of all rounds from the first, no parameter given. The fixed rules are all rules with bandit
feedback, with their defaults, on rows as they are and of length one; the best of them is chosen on seeds from 500 on, and compared on
others, from 1000 on: 20 of streams below 5,000 rounds, 5 of longer ones, 2 of those with a million. A ratio has a paired 95 % interval over
seeds (Fieller 1954). A miss is an interval all above 1.03.

Runs are kept as JSON lines in a folder (--results). After Ctrl-C the same command goes on, and a run is done again only where the code of its
rule or its recipe has changed. What needs data that are not on this machine is left out and named. Nothing but NumPy, Numba,
SciPy, Rich and onebit is needed where --pack has written the data that scikit-learn ships into the folder of ONEBIT_DATA.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from benchmarks.corpus_runs import (
    AUTO,
    EARLIER,
    Entrant,
    Judgement,
    choice_units,
    compared_units,
    judged,
    lacking,
    run_units,
    size_of,
)
from benchmarks.corpus_streams import CHOOSE, CORPUS, FORMS, REPORT, CorpusStream
from benchmarks.judging import ratio_of
from benchmarks.measuring import where_and_when, write_block
from benchmarks.recipes import SHIPPED, held

from onebit.cli.options import growing_bar
from onebit.engine.processes import cores
from onebit.errors import OnebitError, nearest
from onebit.rules import registry
from onebit.trials.records import Record, Records

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "auto-corpus.md"
BLOCK = "the table of the corpus"
RESULTS = Path("onebit-results") / "corpus"
PACKED = ("digits", "iris", *SHIPPED)


def streams_of(chosen: argparse.Namespace) -> tuple[list[CorpusStream], dict[str, str]]:
    """The streams that were asked for, and why some of these cannot be had here."""
    for name in chosen.only or ():
        if name not in CORPUS:
            raise OnebitError(f"there is no stream {name!r}; {nearest(name, CORPUS)}")
    asked = [CORPUS[name] for name in chosen.only or CORPUS]
    asked = [one for one in asked if chosen.half in (None, one.half)]
    absent = {one.name: one.recipe.lacking for one in asked if one.recipe.lacking}
    return [one for one in asked if one.name not in absent], absent


def measured(streams: Sequence[CorpusStream], records: Records, jobs: int, seeds: int | None) -> list[Record]:
    """Run what is lacking: first what the best fixed rules are chosen by, then what is compared. Those that failed are given back."""
    with growing_bar("the stress corpus", quiet=False) as (began, progress):
        first = lacking(choice_units(streams), records)
        began(size_of(first) + size_of(lacking(compared_units(streams, records, seeds), records)))
        failed = run_units(first, records, jobs, progress)
        second = lacking(compared_units(streams, records, seeds), records)  # now that the best ones are known
        began(size_of(first) + size_of(second))
        return failed + run_units(second, records, jobs, progress)


def failures_said(failed: Sequence[Record]) -> list[str]:
    """A line for each rule that refused rows or did not settle, with the first of its reasons; one for what all rules failed of."""
    rules_of: dict[str | None, set[str]] = {}
    for record in failed:
        rules_of.setdefault(record.failed, set()).add(record.fields["learner"])
    groups: dict[str, list[Record]] = {}
    for record in failed:
        rules = rules_of[record.failed]
        who = f"{len(rules)} rules" if len(rules) > 1 else record.fields["learner"]
        groups.setdefault(f"{who} failed", []).append(record)
    lines = []
    for who, some in groups.items():
        streams = sorted({record.fields["stream"]["data"] for record in some})
        lines.append(f"{who} in {len(some)} runs, on {'; '.join(streams)}: {some[0].failed}")
    return lines


def table(judgements: Sequence[Judgement]) -> list[str]:
    """The Markdown table, the misses of each half and the means of the ratios."""
    lines = [
        "| stream | half | rounds | classes | seeds | `auto` | best fixed rule | its error | ratio | `auto-0.3` | ratio | |",
        "|---|---|---:|---:|---:|---:|---|---:|---:|---:|---:|---|",
    ]
    for one in judgements:
        stream, ratios = one.stream, one.against
        cells = [stream.name, stream.half, f"{stream.rounds:,}", stream.recipe.classes]
        cells += [
            len(one.errors[one.best]),
            shown(one, Entrant(AUTO)),
            one.best,
            shown(one, one.best),
            ratios[one.best],
        ]
        earlier = Entrant(EARLIER)
        cells += [shown(one, earlier), ratios[earlier]] if earlier in ratios else ["", ""]
        cells.append("**miss**" if one.misses else "")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, "", *summary(judgements), *forms(judgements)]


def summary(judgements: Sequence[Judgement]) -> list[str]:
    """For each half: how many streams, the geometric mean of the ratios, and the misses by name."""
    lines = []
    for half in (CHOOSE, REPORT):
        some = [one for one in judgements if one.stream.half == half]
        if not some:
            continue
        said = [f"- `{half}`, {len(some)} streams:"]
        for title, pick in (
            ("the best fixed rule", lambda one: one.best),
            (f"`{EARLIER}`", lambda one: Entrant(EARLIER)),
        ):
            ratios = [one.against[pick(one)] for one in some if pick(one) in one.against]
            logs = [math.log(ratio.value) for ratio in ratios if 0.0 < ratio.value < math.inf]
            if not logs:
                continue
            behind = [one.stream.name for one in some if pick(one) in one.misses]
            mean = f"{math.exp(float(np.mean(logs))):.3f} times the error of {title} (geometric mean)"
            misses = f"{len(behind)} {'miss' if len(behind) == 1 else 'misses'}"
            said.append(f"{mean}, {misses}{': ' + '; '.join(behind) if behind else ''}.")
        lines.append(" ".join(said))
    return lines


def forms(judgements: Sequence[Judgement]) -> list[str]:
    """How many times as often `auto` errs on the same rows in another form."""
    errors = {one.stream.name: one.errors[Entrant(AUTO)] for one in judgements}
    pairs = [(name, other) for name, other in FORMS.items() if name in errors and other in errors]
    said = [f"{name} {ratio_of(errors[name], errors[other])}" for name, other in pairs]
    return [f"- The same rows in another form: {'; '.join(said)}."] if said else []


def shown(one: Judgement, entrant: Entrant) -> str:
    """A mean error in %."""
    return f"{100 * float(np.mean(one.errors[entrant])):.2f}"


def listed(streams: Sequence[CorpusStream]) -> None:
    """Print what there is."""
    for one in streams:
        seeds = f"{len(one.choice_seeds)} + {len(one.compared_seeds)} seeds"
        print(f"{one.half:7} {one.rounds:>9,} rounds {one.recipe.classes:>5} classes  {seeds:15}  {one.name}")
    print(f"{len(streams)} streams, {sum(one.half == REPORT for one in streams)} of them only reported")


def pack(folder: Path) -> None:
    """Write the data sets that scikit-learn ships as files, for a machine without it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKED:
        X, y = held(name)
        np.savez_compressed(folder / f"{name}.npz", X=X, y=y, classes=np.unique(y))
        print(folder / f"{name}.npz")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", action="append", metavar="NAME", help="this stream; may be said more than once")
    parser.add_argument("--half", choices=(CHOOSE, REPORT), help="the streams of one half")
    parser.add_argument("--seeds", type=int, metavar="N", help="compare on at most so many seeds, for a look")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="processes (default: one for each core)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help=f"default {RESULTS}")
    parser.add_argument("--table", action="store_true", help="run nothing, and show what the runs so far say")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/auto-corpus.md")
    parser.add_argument("--list", action="store_true", help="show the streams")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write the data that scikit-learn ships there")
    chosen = parser.parse_args()
    for name in ("seeds", "jobs"):
        if getattr(chosen, name) is not None and getattr(chosen, name) < 1:
            parser.error(f"--{name} must be at least 1")
    try:
        streams, absent = streams_of(chosen)
        if chosen.list:
            listed([*streams, *(CORPUS[name] for name in absent)])
            return 0
        if chosen.pack:
            pack(chosen.pack)
            return 0
        return reported(streams, absent, chosen)
    except OnebitError as error:
        parser.error(str(error))


def reported(streams: Sequence[CorpusStream], absent: dict[str, str], chosen: argparse.Namespace) -> int:
    """Run what is lacking, and print or write the table of what is there."""
    records, stopped = Records(chosen.results), False
    failed: list[Record] = []
    try:
        if not chosen.table:
            failed = measured(streams, records, chosen.jobs, chosen.seeds)
    except KeyboardInterrupt:
        stopped = True
    finally:
        records.close()
    found = {one.name: judged(one, records, chosen.seeds) for one in streams}
    judgements = [one for one in found.values() if one is not None]
    lines = table(judgements)
    print("\n".join(lines))
    for name, why in {
        **absent,
        **{name: "not all of its runs are done" for name, one in found.items() if not one},
    }.items():
        print(f"{name} is left out: {why}", file=sys.stderr)
    for line in failures_said(failed):
        print(line, file=sys.stderr)
    if EARLIER not in registry():
        print(f"this version has no rule {EARLIER}: auto is not compared with it", file=sys.stderr)
    if stopped:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    if chosen.write:
        write_block(PAGE, BLOCK, [where_and_when(), "", *lines])
    return 1 if any(record.fields["learner"] == AUTO for record in failed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
