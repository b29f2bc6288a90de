"""Estimate what another learner would have scored on a log: that of a task of the service, or a file.

The learner goes through the log in the order of the answers: in each round it first chooses what it would have shown, and then learns from
what was shown. The table has estimates of its right rate, or of its mean reward, with 95 % intervals and warnings, beside those of the
task's present learner on the same log, which does not change. A file is one of Vowpal Wabbit's (.vw with
action:cost:probability), or a table (.csv, .tsv, .parquet) with named columns. Examples:

    onebit evaluate data news
    onebit evaluate data news --learner bpa --set aggressiveness=0.01 --json
    onebit evaluate log.vw --learner linucb --costs=-1,0
    onebit evaluate log.parquet --x age,city --action shown --right clicked --propensity chance
    onebit evaluate log.csv --x age,city --right stars --costs=5,0 --among offered
    onebit evaluate log.parquet --x age,city --learners linucb,bpa,bpa:aggressiveness=1
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onebit.cli.compare import parse_learners
from onebit.cli.logs import add_learner_options, add_log_options, build_learner, open_log, pick_learner
from onebit.cli.terminal import print_json, progress_bar
from onebit.errors import InputError, brief
from onebit.experiments.trials import format_options
from onebit.offpolicy.evaluation import TITLES

if TYPE_CHECKING:
    from onebit.offpolicy import Estimate, Evaluation
    from onebit.offpolicy.log_files import Log
    from onebit.service.maintenance.log_reader import LogReader, TaskLog
    from onebit.service.task import TaskInfo

ADVICE = "Compare learners with each other, with the same floor, and not with the log itself."


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_log_options(command, files=True)
    command.add_argument(
        "--learners",
        metavar="A,B:NAME=VALUE,...",
        help="several learners with parameters, in place of --learner; a table of them",
    )
    add_learner_options(command)


def execute(args: argparse.Namespace) -> None:
    """Evaluate the learners and print the estimates."""
    from onebit.offpolicy import evaluate, evaluate_many
    from onebit.offpolicy.log_files import Log

    learner_list = parse_learners(args.learners)
    if learner_list and (args.learner or args.set):
        raise InputError("--learners names learners and parameters: give it without --learner and --set")
    learners = learner_list or [pick_learner(args)]
    with open_log(args) as log:
        new = [build_learner(log, name, options, args.seed) for name, options in learners]
        title = f"{len(new)} learners" if learner_list else learners[0][0]
        with progress_bar(f"{title} on {log.name}", len(log), args.quiet) as progress:
            more: dict[str, Any] = {"seed": args.seed, "unanswered": log.unanswered, "progress": progress}
            if learner_list:
                evaluations = evaluate_many(new, log, **more)
            else:
                present = None if isinstance(log, Log) else log.present_learner(*learners[0], args.seed)
                evaluations = [evaluate(new[0], log, present=present, **more)]
        if learner_list:
            print_evaluations(evaluations, log.name, args.json)
        else:
            print_evaluation(evaluations[0], log, args.json)


def print_evaluation(evaluation: Evaluation, log: Log | TaskLog, as_json: bool) -> None:
    """Print an evaluation, and for the log of a task the learners that made its decisions."""
    from onebit.offpolicy.log_files import Log

    about: dict[str, Any] = {"log": log.name}
    last = ADVICE
    if not isinstance(log, Log):
        parts = list_log_parts(log.reader, log.task)
        about = {"task": log.name, "log": {"mode": log.task.mode, "made_by": parts}}
        last = f"the log itself: task {log.name}, {'; '.join(map(_describe_part, parts))}"
        if evaluation.present is None:
            last = f"This is the task's present learner: compare others with these lines, and not with the log itself.\n{last}"
    if as_json:
        print_json({**about, **evaluation.to_dict()})
    else:
        print(f"{evaluation}\n{last}")


def _describe_part(part: dict[str, Any]) -> str:
    from onebit.offpolicy.doubts import counted_rounds

    parameters = format_options({**part["parameters"], "exploration_floor": part["exploration_floor"]})
    how = "shown by the caller, beside" if part["shown_by_caller"] else "decided by"
    return f"{counted_rounds(part['rounds'])} {how} {part['learner']} ({parameters})"


def list_log_parts(log: LogReader, task: TaskInfo) -> list[dict[str, Any]]:
    """Return the learners that decided the rounds of a task, each with its number of rounds.

    Rounds in which the caller showed something else are listed separately.
    """
    learners = {
        detail.get("generation", 1): {name: detail[name] for name in ("learner", "parameters", "exploration_floor")}
        for _, kind, detail in log.changes(task)
        if kind in ("created", "learner")
    }
    parts = []
    for generation, shown_by_caller, rounds in log.generations(task):
        if generation not in learners:
            raise InputError(
                f"task {brief(task.name)}: the log has decisions of generation {generation}, but no change that created its learner"
            )
        parts.append(
            {"generation": generation, **learners[generation], "rounds": rounds, "shown_by_caller": shown_by_caller}
        )
    return parts


def print_evaluations(evaluations: list[Evaluation], log: str, as_json: bool) -> None:
    """Print evaluations of several learners on one log as a table, best first."""
    evaluations.sort(key=lambda evaluation: -_best_estimate(evaluation).value)
    if as_json:
        print_json({"log": log, "learners": [evaluation.to_dict() for evaluation in evaluations]})
        return
    first = evaluations[0]
    value = first.unit.format(first.log.value)
    total = f"with a mean reward of {value}" if first.rewarded else f"of which {value} % are right"
    print(f"{len(evaluations)} learners on a log of {first.rounds:,} rounds, {total}")
    method = TITLES[_best_estimate(first).name]
    print(f"{first.unit.name:>8}  {'95 % interval':^16} {'says as much as':>18}  learner ({method})")
    warnings: list[str] = []
    for evaluation in evaluations:
        best = _best_estimate(evaluation)
        warnings += [warning for warning in best.warnings if warning not in warnings]
        marks = "".join(f" [{warnings.index(warning) + 1}]" for warning in best.warnings)
        value, interval = first.unit.format(best.value), first.unit.format_interval(best)
        print(f"{value:>8}  {interval:^16} {best.effective:11,.0f} rounds  {evaluation.title}{marks}")
    for number, warning in enumerate(warnings, start=1):
        print(f"[{number}] {warning}")
    print(ADVICE)


def _best_estimate(evaluation: Evaluation) -> Estimate:
    """Return the main estimate: doubly robust, or replay if the propensities are unknown."""
    return evaluation.replay if evaluation.doubly_robust is None else evaluation.doubly_robust
