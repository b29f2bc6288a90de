"""Logs of decisions in files: their actions, their number of rounds, and the rounds on every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from onebit.contract.options import MEANINGS
from onebit.contract.parameters import checked_flag, require_known
from onebit.contract.rule import Rule
from onebit.contract.validation import ClassName, checked_classes
from onebit.data.file_blocks import numbered_lines
from onebit.data.labels import NUMBER, WHOLE, parse_labels, sort_classes
from onebit.data.user_files import VW
from onebit.data.vw_text import ACTION_FEATURES, parse_line
from onebit.errors import InputError, brief
from onebit.learner.learner import Learner
from onebit.offpolicy.logged_rounds import Round, usual_floor

# Yields the rounds of a log, with x if called with True; None is a decision without an answer.
Entries = Callable[[bool], Iterator[Round | None]]
CLOSE = 1e-6  # tolerance for the costs of right and wrong, relative to their difference

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
ENDINGS = (*VW, *TABLES)


class Log:
    """The rounds of a log, which are read again on each pass and never held in memory.

    `classes` are the actions: all that were shown or were candidates in some round. `len` gives the number of rounds,
    `unanswered` the number of further decisions without an answer, and `text` says whether x is a text.
    """

    def __init__(
        self, name: str, entries: Entries, classes: Iterable[ClassName] | None = None, text: bool = False
    ) -> None:
        self.name, self.text = name, text
        self._entries = entries
        self._rounds = self.unanswered = 0
        names: dict[ClassName, None] = {}
        for entry in entries(False):
            if entry is None:
                self.unanswered += 1
            else:
                self._rounds += 1
                truths = () if entry.truth is None else (entry.truth,)
                names.update(dict.fromkeys((entry.label, *(entry.among or ()), *truths)))
        if not self._rounds:
            raise InputError(f"{name} has no decision with an answer")
        given = None if classes is None else checked_classes(classes)
        written = [name for name in names if isinstance(name, str)]
        renamed = dict(zip(written, parse_labels(written, given), strict=True))
        self._names = {name: renamed.get(name, name) if isinstance(name, str) else name for name in names}
        if given is None:
            if len(set(self._names.values())) < 2:
                raise InputError(
                    f"{name} shows {brief(next(iter(self._names.values())))} in every round, but a choice needs at least 2 classes: "
                    "give all classes"
                )
            given = sort_classes(list(self._names.values()))
        self.classes = given

    def __len__(self) -> int:
        return self._rounds

    def __iter__(self) -> Iterator[Round]:
        for entry in self._entries(True):
            if entry is not None:
                yield self._rename_labels(entry)

    def _rename_labels(self, entry: Round) -> Round:
        """Return a round with its labels replaced by the names of the classes."""
        among = None if entry.among is None else tuple(self._names[name] for name in entry.among)
        return entry._replace(
            label=self._names[entry.label],
            among=None if among is None or set(among) == set(self.classes) else among,
            truth=None if entry.truth is None else self._names[entry.truth],
        )


def learner_for(log: Log, rule: Rule, options: Mapping[str, Any], seed: int) -> Learner:
    """Return a new learner for the rounds of a log, with the service's default exploration floor."""
    common = {name: meaning for name, meaning in MEANINGS.items() if name not in ("seed", "classes")}
    require_known(rule.title, options, {**rule.parameters, **common})
    defaults = {"exploration_floor": usual_floor(rule), "text": log.text}
    return Learner(rule, classes=log.classes, seed=seed, **{**defaults, **options})


class Costs(NamedTuple):
    """The costs of a right and of a wrong decision.

    Costs other than 0 and 1 must be given, since they cannot be seen in a file. A cost between the two is a reward
    between 1 and 0. Rewards on another scale can be given in the same way, with right "costing" more than wrong.
    """

    right: float = 0.0
    wrong: float = 1.0

    def parse(self, cost: float) -> tuple[bool | None, float | None]:
        """Return True or False if the cost is that of right or wrong, else the reward between them.

        The result is (right, None) or (None, reward). Raise InputError for a cost that is not between the two.

        >>> Costs(-1.0, 0.0).parse(0.0), Costs().parse(0.25)
        ((False, None), (None, 0.75))
        """
        share = (cost - self.right) / (self.wrong - self.right)
        if abs(share) <= CLOSE:
            return True, None
        if abs(share - 1.0) <= CLOSE:
            return False, None
        if 0.0 < share < 1.0:
            return None, 1.0 - share
        raise InputError(
            f"the cost is {cost:g}, but must be from {self.right:g} (right) to {self.wrong:g} (wrong): give the costs of "
            "right and wrong if they are others, as in --costs=-1,0 or costs=(-1, 0)"
        )


def check_costs(given: object) -> Costs:
    """Return the given costs of right and wrong; None means 0 and 1."""
    if given is None:
        return Costs()
    try:
        right, wrong = (float(cost) for cost in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        right = wrong = 0.0
    if not abs(right - wrong) > 0.0 or abs(right - wrong) == float("inf"):
        raise InputError(
            f"costs is {brief(given)}, but must be two numbers, the costs of right and wrong, as in (-1, 0)"
        )
    return Costs(right, wrong)


def is_archive(path: Path) -> bool:
    """Return True if the path is a folder of Parquet files, as `onebit archive` writes for each task."""
    return path.is_dir() and any(path.glob("*.parquet"))


def read_log(
    path: str | Path,
    *,
    x: Iterable[str] | None = None,
    text: str | None = None,
    action: str | None = None,
    right: str | None = None,
    truth: str | None = None,
    among: str | None = None,
    complete: bool = False,
    propensity: str | None = None,
    id: str | None = None,  # noqa: A002 - what it is called everywhere
    classes: Iterable[ClassName] | None = None,
    costs: Iterable[float] | None = None,
) -> Log:
    """Return the log in a file: Vowpal Wabbit's `.vw` (action:cost:probability), a CSV or a Parquet table.

    A table (`.csv`, `.tsv` or `.parquet`) has named columns. The path may also be a folder of Parquet files, as
    `onebit archive` writes them.

    `x` names the columns of the features of a table, or `text` one with a text; `action`, `right`, `propensity` and
    `id` name the others (by default `action` or `label`, `right` or `reward`, `propensity` or `pscore`, `id`). `right`
    may hold rewards, numbers from 0 to 1; in a table with both default columns, the reward is used in each row that has
    one. `truth` names a column with the class that would have been right, and `among` (by default `among`) one with the
    candidates, which is empty if all classes are candidates; `complete` says that the right class was always a
    candidate. `classes` are the actions that occur, unless they are given. `costs` are those of right and wrong: needed
    for Vowpal Wabbit's files if they are not 0 and 1, and for a table whose column holds costs, or rewards on another
    scale.
    """
    path = Path(path)
    name = path.name.lower()
    is_table = name.endswith(TABLES) or is_archive(path)
    if path.is_dir() and not is_archive(path):
        raise InputError(f"{path} is a folder, but must be a file, or a folder that `onebit archive` has written")
    if not is_table and not name.endswith(ENDINGS):
        raise InputError(f"{path} is not a log by its ending, which may be {', '.join(ENDINGS)}")
    if not path.exists():
        raise InputError(f"there is no file {path}")
    columns = {"x": x, "text": text, "action": action, "right": right, "truth": truth, "among": among}
    columns |= {"propensity": propensity, "id": id}
    known = bool(checked_flag("complete", complete))
    if is_table:
        from onebit.offpolicy.table_logs import table_log

        return table_log(path, columns, classes, None if costs is None else check_costs(costs), known)
    for option, given in columns.items():
        if given is not None:
            raise InputError(f"{option} was given with {path}, but names a column of a CSV or Parquet file")
    return Log(str(path), make_vw_entries(path, check_costs(costs), known), classes)


def make_vw_entries(path: Path, costs: Costs, complete: bool) -> Entries:
    """Return a function that yields the rounds of a .vw file.

    A line without a label is a decision without an answer. A line may list the other actions that could be shown,
    without a cost: together with the action shown, these are the candidates.
    """

    def entries(with_x: bool) -> Iterator[Round | None]:
        for number, line, _ in numbered_lines(path):
            try:
                example = parse_line(line if with_x else line[: line.find("|") + 1])
                if not example.label:
                    yield None
                    continue
                action, cost, probability, among = _parse_label(example.label)
                right, reward = costs.parse(cost)
                yield Round(number, example.features, action, right, probability, None, among, complete, reward)
            except InputError as error:
                raise InputError(f"line {number} of {path}: {error}") from None

    return entries


def _parse_label(words: list[str]) -> tuple[int, float, float, list[int] | None]:
    """Parse action:cost:probability; return also all candidates if others are listed beside it."""
    if words[0] == "shared":
        raise InputError(ACTION_FEATURES)
    costed = [word.split(":") for word in words if ":" in word]
    if not costed:
        raise InputError(
            "expected action:cost:probability; a file with the right class on each line is for `onebit run` and `onebit compare`"
        )
    parts = costed[0]
    if len(costed) > 1 or len(parts) != 3 or not all(NUMBER.fullmatch(part) for part in parts[1:]):
        raise InputError(
            f"expected one action:cost:probability, and other actions without a cost, got {brief(' '.join(words))}"
        )
    named = [word.split(":")[0] for word in words]
    for action in named:
        if not WHOLE.fullmatch(action) or int(action) < 0:
            raise InputError(f"the action is {brief(action)}, but must be a whole number from 1 on")
        if int(action) == 0:
            raise InputError(f"there is an action 0: {ACTION_FEATURES}")
    among = sorted({int(action) for action in named}) if len(named) > 1 else None
    return int(parts[0]), float(parts[1]), float(parts[2]), among
