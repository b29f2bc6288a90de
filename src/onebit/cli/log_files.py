"""What the commands on logs share where a log is a file: which columns of a table are what, and a learner for its rounds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.cli.options import growing_bar, names_of, progress_bar, settings
from onebit.errors import InputError, brief
from onebit.experiments.grid import value_of
from onebit.offpolicy.evaluation import TITLES

if TYPE_CHECKING:
    from onebit.learner import Learner
    from onebit.offpolicy import Estimate, Evaluation, Log

COLUMNS = ("x", "text", "action", "right", "truth", "among", "propensity", "id")


def add_column_options(command: argparse.ArgumentParser) -> None:
    """What a log in a file is made of."""
    file = command.add_argument_group("a log in a file")
    file.add_argument("--x", metavar="A,B,...", help="the columns of the features: numbers and categories (default x)")
    file.add_argument("--text", metavar="COLUMN", help="the column of a text, in place of --x")
    file.add_argument("--action", metavar="COLUMN", help="the column of what was shown (default action, or label)")
    file.add_argument(
        "--right",
        metavar="COLUMN",
        help="the column that says whether it was right, or what it was worth, from 0 to 1 (default right, or reward; of both the reward where there is one)",
    )
    file.add_argument("--truth", metavar="COLUMN", help="the column of what would have been right, where that is known")
    file.add_argument(
        "--among",
        metavar="COLUMN",
        help="the column of the candidates, the actions that could be shown, separated by |, commas or spaces; nothing for all of them (default among)",
    )
    file.add_argument(
        "--complete", action="store_true", help="the right action was one of the candidates in each round"
    )
    file.add_argument(
        "--propensity",
        metavar="COLUMN",
        help="the column of the probability with which it was shown (default propensity, or pscore)",
    )
    file.add_argument("--id", metavar="COLUMN", help="the column of the ids (default id, or the number of the row)")
    file.add_argument("--classes", metavar="A,B,...", help="the actions (default: those that occur)")
    file.add_argument(
        "--costs",
        metavar="RIGHT,WRONG",
        help="the costs of right and wrong in Vowpal Wabbit's files, if not 0 and 1 (--costs=-1,0), or in the column --right; "
        "costs in between become rewards, and rewards up to 5 are --costs=5,0",
    )


def is_log_file(chosen: argparse.Namespace) -> bool:
    """Whether the log that is named is a file, or a folder of them, and not the folder of a service."""
    from onebit.offpolicy.logs import ENDINGS, is_archive

    path = Path(chosen.folder)
    if not is_archive(path) and (path.is_dir() or not (path.is_file() or path.name.lower().endswith(ENDINGS))):
        return False
    if chosen.task is not None:
        raise InputError(f"TASK is {brief(chosen.task)}, but {chosen.folder} is a file, which has no tasks")
    return True


def refuse_columns(chosen: argparse.Namespace) -> None:
    """Refuse what says how a file is to be read, where there is none."""
    for name in (*COLUMNS, "classes", "costs", "complete"):
        if getattr(chosen, name) not in (None, False):
            raise InputError(f"--{name} is for a log in a file, and {chosen.folder} is the folder of a service")


def reading(chosen: argparse.Namespace) -> dict[str, Any]:
    """How the file is to be read, for `read_log`."""
    columns = {name: getattr(chosen, name) for name in COLUMNS}
    if chosen.x is not None:
        columns["x"] = names_of(chosen.x)
    return {
        **columns,
        "complete": chosen.complete,
        "classes": [value_of(name) for name in names_of(chosen.classes)] or None,
        "costs": None if chosen.costs is None else [value_of(one) for one in chosen.costs.split(",")],
    }


def log_in(chosen: argparse.Namespace) -> Log:
    """The log in the file that was named."""
    from onebit.offpolicy import read_log

    return read_log(chosen.folder, **reading(chosen))


def learner_on(log: Log, chosen: argparse.Namespace) -> Learner:
    """The learner that was named, as new, for the rounds of a log in a file."""
    from onebit.offpolicy.logs import learner_for
    from onebit.rules import rule_named

    return learner_for(log, rule_named(chosen.learner), settings(chosen.set), chosen.seed)


def evaluate_file(chosen: argparse.Namespace) -> None:
    """Evaluate on the log in a file, and print what came out."""
    from onebit.offpolicy import evaluate

    log = log_in(chosen)
    learner = learner_on(log, chosen)
    with progress_bar(f"{chosen.learner} on {log.name}", len(log), chosen.quiet) as progress:
        found = evaluate(learner, log, seed=chosen.seed, unanswered=log.unanswered, progress=progress)
    if chosen.json:
        print(json.dumps({"log": log.name, **found.to_dict()}, ensure_ascii=False))
        return
    print(found)
    print("Compare learners with each other on this log, with the same floor, and not with the log itself.")


def evaluate_several(chosen: argparse.Namespace, learners: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Evaluate several learners on the log in a file, where --on says, and print a table, the best first."""
    from onebit.experiments.evaluations import evaluate_log

    with growing_bar(f"{len(learners)} learners on {chosen.folder}", chosen.quiet) as (began, progress):
        found = evaluate_log(
            chosen.folder, learners, on=chosen.on, seed=chosen.seed, began=began, progress=progress, **reading(chosen)
        )
    found.sort(key=lambda one: -_best_known(one).value)
    if chosen.json:
        print(json.dumps({"log": chosen.folder, "learners": [one.to_dict() for one in found]}, ensure_ascii=False))
        return
    log, unit = found[0].log, found[0].unit
    told = (
        f"with a mean reward of {unit.shown(log.value)}"
        if found[0].rewarded
        else f"of which {unit.shown(log.value)} % are right"
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
