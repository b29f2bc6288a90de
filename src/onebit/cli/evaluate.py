"""Estimate what another learner would have scored on a log: that of a task of the service, or a file.

The learner goes through the log in the order of the answers: in each round it is asked what it would have shown, and then learns from
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
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onebit.cli.compare import learners_of
from onebit.cli.logs import (
    ChosenLog,
    add_column_options,
    add_learner_options,
    add_log_options,
    asked_for,
    is_log_file,
    open_log,
    reading,
)
from onebit.cli.terminal import progress_bar
from onebit.errors import InputError, brief
from onebit.experiments.trials import shown
from onebit.offpolicy.evaluation import TITLES
from onebit.rules import rule_named

if TYPE_CHECKING:
    from onebit.learner.learner import Learner
    from onebit.offpolicy import Estimate, Evaluation
    from onebit.service.maintenance.log_reader import LogReader
    from onebit.service.task import TaskInfo


def declare(command: argparse.ArgumentParser) -> None:
    """The options of `onebit evaluate`."""
    add_log_options(command, files=True)
    add_learner_options(command)
    command.add_argument(
        "--learners",
        metavar="A,B:NAME=VALUE,...",
        help="several learners with parameters on a log in a file, in place of --learner; a table of them",
    )
    add_column_options(command)


def execute(chosen: argparse.Namespace) -> None:
    """Evaluate, and print what came out."""
    from onebit.offpolicy import evaluate

    several = learners_of(chosen.learners)
    if several is not None:
        if chosen.learner or chosen.set:
            raise InputError("--learners says which and with which parameters, and --learner and --set say so again")
        if not is_log_file(chosen):
            raise InputError(
                f"--learners is for a log in a file: `onebit export {chosen.folder} {chosen.task or 'TASK'} --format parquet` makes one"
            )
        evaluate_several(chosen, several)
        return
    with open_log(chosen) as log:
        present = None if log.task is None else present_learner(chosen, log.task)
        with progress_bar(f"{chosen.learner} on {log.name}", log.count, chosen.quiet) as progress:
            found = evaluate(
                log.learner,
                log.rounds,
                present=present,
                seed=chosen.seed,
                unanswered=log.unanswered,
                progress=progress,
            )
        show(found, log, chosen.json)


def show(found: Evaluation, log: ChosenLog, as_json: bool) -> None:
    """Print an evaluation, and whose log it was made on."""
    about: dict[str, Any] = {"log": log.name}
    last = "Compare learners with each other on this log, with the same floor, and not with the log itself."
    if log.reader is not None and log.task is not None:
        made_by = makers(log.reader, log.task)
        about = {"task": log.name, "log": {"mode": log.task.mode, "made_by": made_by}}
        last = f"the log itself: task {log.name}, {'; '.join(map(_made, made_by))}"
        if found.present is None:
            last = f"This is the task's present learner: compare others with these lines, and not with the log itself.\n{last}"
    print(json.dumps({**about, **found.to_dict()}, ensure_ascii=False) if as_json else f"{found}\n{last}")


def _made(part: dict[str, Any]) -> str:
    from onebit.offpolicy.doubts import counted_rounds

    settings = shown({**part["parameters"], "exploration_floor": part["exploration_floor"]})
    how = "shown by the caller, beside" if part["shown_by_caller"] else "decided by"
    return f"{counted_rounds(part['rounds'])} {how} {part['learner']} ({settings})"


def present_learner(chosen: argparse.Namespace, task: TaskInfo) -> Learner | None:
    """The task's own learner, as new; None where it is the one asked for."""
    from onebit.service.task import build_learner, check_learner

    def settled(detail: dict[str, Any]) -> dict[str, Any]:
        rule = check_learner(detail, task.classes, task.inputs).runtime.rule
        return {**detail, "learner": rule.name, "parameters": {**rule.defaults, **detail["parameters"]}}

    asked = asked_for(chosen)
    own = {name: getattr(task, name) for name in asked} | {"seed": chosen.seed}
    return None if settled(own) == settled(asked) else build_learner(own, task.classes, task.inputs)


def makers(log: LogReader, task: TaskInfo) -> list[dict[str, Any]]:
    """The learners that decided the rounds of a task, with how many; in some of them the caller showed something else."""
    learners = {
        detail.get("generation", 1): {name: detail[name] for name in ("learner", "parameters", "exploration_floor")}
        for _, kind, detail in log.changes(task)
        if kind in ("created", "learner")
    }
    found = log.generations(task)
    for generation, _, _ in found:
        if generation not in learners:
            raise InputError(
                f"task {brief(task.name)}: decisions are of the learner of generation {generation}, and no change tells of it"
            )
    return [
        {"generation": generation, **learners[generation], "rounds": rounds, "shown_by_caller": shown}
        for generation, shown, rounds in found
    ]


def evaluate_several(chosen: argparse.Namespace, learners: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Evaluate several learners on the log in a file, and print a table, the best first."""
    from onebit.offpolicy import evaluate_many, read_log
    from onebit.offpolicy.log_files import learner_for

    log = read_log(chosen.folder, **reading(chosen))
    made = [learner_for(log, rule_named(name), options, chosen.seed) for name, options in learners]
    with progress_bar(f"{len(learners)} learners on {chosen.folder}", len(log), chosen.quiet) as progress:
        found = evaluate_many(made, log, seed=chosen.seed, unanswered=log.unanswered, progress=progress)
    found.sort(key=lambda one: -_best_known(one).value)
    if chosen.json:
        print(json.dumps({"log": chosen.folder, "learners": [one.to_dict() for one in found]}, ensure_ascii=False))
        return
    unit = found[0].unit
    told = (
        f"with a mean reward of {unit.shown(found[0].log.value)}"
        if found[0].rewarded
        else f"of which {unit.shown(found[0].log.value)} % are right"
    )
    print(f"{len(found)} learners on a log of {found[0].rounds:,} rounds, {told}")
    print(
        f"{unit.name:>8}  {'95 % interval':^16} {'says as much as':>18}  learner ({TITLES[_best_known(found[0]).name]})"
    )
    sentences = list(dict.fromkeys(sentence for one in found for sentence in _best_known(one).warnings))
    for one in found:
        best = _best_known(one)
        marks = "".join(f" [{sentences.index(sentence) + 1}]" for sentence in best.warnings)
        print(
            f"{unit.shown(best.value):>8}  {unit.interval(best):^16} {best.effective:11,.0f} rounds  {one.title}{marks}"
        )
    for number, sentence in enumerate(sentences, start=1):
        print(f"[{number}] {sentence}")
    print("Compare learners with each other, with the same floor, and not with the log itself.")


def _best_known(one: Evaluation) -> Estimate:
    """The estimate to read: doubly robust, or replay where nobody knows the propensities."""
    return one.replay if one.doubly_robust is None else one.doubly_robust
