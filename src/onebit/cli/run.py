"""Run a learner over a stream and count its mistakes.

DATA is a name that `onebit data` lists, or a file: .csv, .parquet, .jsonl, .xlsx, .svmlight, .vw or .npz. Examples:

    onebit run digits --order resample --rounds 20000 --explain
    onebit run bpa synsep10 --set aggressiveness=0.001 --runs 10
    onebit run conservative-ova digits --prepare scale,unit-norm --json
    onebit run tickets.csv --label team --text subject,body
    onebit run banditron tickets.csv --label team --delay geometric:50
    onebit run digits --candidates 3 --corrected 0.1
    onebit run digits --rule nudge.py:RULE --set rate=0.5
"""

from __future__ import annotations

import argparse
import textwrap

from onebit.cli.options import add_run_options, add_set_option, parse_positive, parse_settings, pick_rule, read_stream
from onebit.cli.terminal import print_json, progress_bar
from onebit.contract.parameters import require_known
from onebit.data.sources import names
from onebit.data.streams import Stream
from onebit.errors import InputError, brief
from onebit.experiments.run import Result, Stopped, run
from onebit.experiments.trials import OPTIONS
from onebit.experiments.trials.cost import format_quantity
from onebit.rules import DEFAULT, is_rule, rule_named


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rule",
        metavar="RULE",
        nargs="?",
        help=f"a learner; `onebit learners` lists them (default {DEFAULT}, or the one of --rule)",
    )
    command.add_argument("data", metavar="DATA", help="a data set or a file")
    add_set_option(command)
    command.add_argument(
        "--runs", type=parse_positive, default=1, help="number of runs, each with its own seed (default 1)"
    )
    command.add_argument("--explain", action="store_true", help="describe the learner of the first run")
    add_run_options(command)


def execute(args: argparse.Namespace) -> None:
    """Run the learner and print the result; after Ctrl-C, print the finished runs."""
    args.rule = args.rule or pick_rule(args)
    if args.data not in names() and is_rule(args.data):
        raise InputError(
            f"DATA is missing: {brief(args.data)} is a learner, and `onebit data` lists what it could learn from"
        )
    options = parse_settings(args.set)
    require_known(args.rule, options, {**rule_named(args.rule).parameters, **OPTIONS})
    stream = read_stream(args, args.data)
    try:
        with progress_bar(f"{args.rule} on {args.data}", stream.rounds * args.runs, args.quiet) as progress:
            result = run(args.rule, stream, runs=args.runs, seed=args.seed, progress=progress, **options)
    except Stopped as stopped:
        if stopped.result is not None:
            print_result(stopped.result, stream, args)
        raise
    print_result(result, stream, args)


def print_result(result: Result, stream: Stream, args: argparse.Namespace) -> None:
    """Print a result, and with --explain the description of its learner."""
    description = result.learner.describe()
    if args.json:
        print_json({**result.to_dict(), **({"description": description.to_dict()} if args.explain else {})})
        return
    params = ", ".join(f"{name} {value}" for name, value in result.params.items() if value is not None)
    half = 100 * (result.error_interval.high - result.error)
    spread = f" ± {half:.2f} (95 %; sd {100 * result.error_sd:.2f})" if result.runs > 1 else ""
    print(f"{result.rule} on {result.data}: {result.runs} x {result.rounds:,} rounds{'; ' + params if params else ''}")
    if stream.about:
        print(f"  data    {stream.about}")
    if result.rewards is not None:
        reward = result.reward_interval
        around = f" ± {reward.high - reward.mean:.4f} (95 %)" if result.runs > 1 else ""
        print(f"  reward  {reward.mean:.4f}{around}; greedy {result.greedy_reward:.4f}")
    print(f"  error   {100 * result.error:6.2f} %{spread}")
    print(f"  greedy  {100 * result.greedy_error:6.2f} %")
    if result.caveat:
        print(f"  but     {result.caveat}")
    print(f"  speed   {format_quantity(result.rounds_per_second)} rounds a second on one core")
    if args.explain:
        print(textwrap.indent(str(description), "  "))
