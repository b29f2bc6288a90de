"""Published experiments, one TOML file per paper: read and checked here, and run by `reproduce`.

`docs/how-to/reproduce.md` lists the keys of such a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from onebit.errors import InputError, brief, nearest
from onebit.theory.adversaries import Adversary

KINDS = (
    "errors",
    "claims",
    "grid",
    "scatter",
    "boundary",
    "bounds",
    "gap",
    "time",
    "adversary",
    "separability",
)
LEARNER_FIELDS = {"set": "options", "set_for": "options_for"}  # key in the file: field of PaperLearner
SCALES = ("rounds", "classes", "features")
SHARED_FIELDS = ("data", "learners", "runs", "rounds", "measure")  # those taken from the item named by `like`


@dataclass(frozen=True)
class PaperData:
    """A data set of an item: its name in the paper, its source and the settings of its stream."""

    name: str
    source: str
    settings: Mapping[str, Any]
    why: str = ""
    fitted: str = ""
    separable: str = ""
    groups: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True)
class PaperLearner:
    """A learner of an item: its name in the paper, and per data set its options and published result.

    The published result is an error (`published`) or the setting chosen from a grid (`chosen`).
    """

    name: str
    rule: str
    options: Mapping[str, Any] = field(default_factory=dict)
    options_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def options_on(self, data: str) -> dict[str, Any]:
        return {**self.options, **self.options_for.get(data, {})}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: one learner errs less than another, or at most `within` points more.

    With `since`, it compares how much higher each error is than on that data set. `among` and `gain` are for items of kind "claims".
    """

    text: str
    lower: str = ""
    higher: str = ""
    data: Sequence[str] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    since: str = ""
    within: float | None = None
    among: Sequence[str] = ()
    gain: Mapping[str, float] = field(default_factory=dict)

    @property
    def learners(self) -> list[str]:
        return [*self.among] if self.among else [self.lower, self.higher]

    @property
    def compared_on(self) -> list[str]:
        return [*self.data, *filter(None, [self.since])]


@dataclass(frozen=True)
class PaperItem:
    """A table or a figure of a paper."""

    name: str
    title: str
    kind: str
    note: str = ""
    runs: int = 1
    rounds: int | None = None
    measure: str = "played"
    tolerance: float = 1.0
    data: Sequence[PaperData] = ()
    learners: Sequence[PaperLearner] = ()
    claims: Sequence[Claim] = ()
    boundary_of: str = "easiest"
    on_request: bool = False
    scale: Mapping[str, Sequence[int]] = field(default_factory=dict)
    adversaries: Sequence[tuple[str, Adversary]] = ()


@dataclass(frozen=True)
class PaperResult:
    """A statement of the paper, and the items that test or show it; or the reason why there are none."""

    what: str
    says: str
    items: Sequence[str]
    why: str


@dataclass(frozen=True)
class Paper:
    """A paper with its items and all its statements."""

    name: str
    title: str
    note: str
    items: Sequence[PaperItem]
    results: Sequence[PaperResult] = ()

    def choose_items(self, names: Sequence[str]) -> list[PaperItem]:
        """Return the items with these names; without names, all but those that run only on request."""
        known = {item.name: item for item in self.items}
        for name in names:
            if name not in known:
                raise InputError(f"{self.name} has no item {brief(name)}; {nearest(name, known)}")
        return [known[name] for name in names] if names else [item for item in self.items if not item.on_request]


def paper_names() -> list[str]:
    """Return the names of the papers that can be reproduced."""
    return sorted(
        entry.name[:-5] for entry in resources.files("onebit.papers").iterdir() if entry.name.endswith(".toml")
    )


def load_paper(name: str) -> Paper:
    """Load the paper with this name.

    >>> load_paper("chen2009").items[0].title
    'Table I: average error rate'
    """
    if name not in paper_names():
        raise InputError(f"there is no paper {brief(name)}; {nearest(name, [*paper_names(), 'all'])}")
    return parse_paper(name, (resources.files("onebit.papers") / f"{name}.toml").read_text(encoding="utf-8"))


def parse_paper(name: str, text: str) -> Paper:
    """Parse a paper from its TOML text; raise InputError with the place of anything invalid."""
    table = tomllib.loads(text)
    _require_known(name, table, {"title", "note", "item", "result"})
    items: list[PaperItem] = []
    for number, entry in enumerate(table.get("item", ()), start=1):
        items.append(_parse_item(f"{name}, item {number}", entry, {item.name: item for item in items}))
    known = {item.name for item in items}
    numbered = enumerate(table.get("result", ()), start=1)
    results = [_parse_result(f"{name}, result {number}", entry, known) for number, entry in numbered]
    return Paper(name, table["title"], table.get("note", ""), items, results)


def _parse_item(where: str, table: dict[str, Any], before: Mapping[str, PaperItem]) -> PaperItem:
    where = f"{where} ({table.get('name')})"
    table = dict(table)
    data = [_parse_data(where, entry) for entry in table.pop("data", ())]
    grid = table.pop("grid", {})
    learners = [_parse_learner(where, {"grid": grid, **entry}) for entry in table.pop("learner", ())]
    claims, like = table.pop("claim", ()), table.pop("like", None)
    adversaries = [_parse_adversary(where, entry) for entry in table.pop("adversary", ())]
    _require_known(where, table, set(PaperItem.__dataclass_fields__) - {"data", "learners", "claims", "adversaries"})
    item = PaperItem(data=data, learners=learners, adversaries=adversaries, **table)
    if like is not None:
        _require_known(f"{where}, like", {like: None}, set(before))
        item = replace(item, **{name: getattr(before[like], name) for name in SHARED_FIELDS})
    item = replace(item, claims=[_parse_claim(where, entry, item) for entry in claims])
    names = {entry.name for entry in item.data}
    for learner in item.learners:
        for by_data in (learner.options_for, learner.published, learner.why, learner.chosen):
            _require_known(f"{where}, {learner.name}", by_data, names)
    if item.kind not in KINDS:
        raise InputError(f"{where}: unknown kind {brief(item.kind)}; {nearest(item.kind, KINDS)}")
    _require_known(f"{where}, scale", item.scale, set(SCALES))
    return item


def _parse_result(where: str, table: dict[str, Any], known: set[str]) -> PaperResult:
    where = f"{where} ({table.get('what')})"
    _require_known(where, table, {"what", "says", "item", "why"})
    named = table.get("item", [])
    items = [named] if isinstance(named, str) else named
    _require_known(where, dict.fromkeys(items), known)
    if bool(items) == bool(table.get("why")):
        raise InputError(
            f"{where}: expected either an item that tests it, or a sentence 'why' that says why there is none"
        )
    return PaperResult(table["what"], table["says"], items, table.get("why", ""))


def _parse_claim(where: str, table: dict[str, Any], item: PaperItem) -> Claim:
    _require_known(where, table, set(Claim.__dataclass_fields__))
    claim, names = Claim(**table), [entry.name for entry in item.data]
    if not claim.data:
        claim = replace(claim, data=[*claim.gain] or names)
    _require_known(f"{where}, claim", dict.fromkeys(claim.learners), {entry.name for entry in item.learners})
    _require_known(f"{where}, claim", dict.fromkeys([*claim.compared_on, *claim.gain]), set(names))
    return claim


def _parse_adversary(where: str, table: dict[str, Any]) -> tuple[str, Adversary]:
    settings = dict(table)
    _require_known(f"{where}, adversary", settings, {"name", *Adversary.__dataclass_fields__})
    name = settings.pop("name")
    return name, Adversary(**settings)


def _parse_data(where: str, table: dict[str, Any]) -> PaperData:
    settings = dict(table)
    name, source = settings.pop("name"), settings.pop("source")
    why, fitted = settings.pop("why", ""), settings.pop("fitted", "")
    separable, groups = settings.pop("separable", ""), settings.pop("groups", None)
    _require_known(f"{where}, {name}", settings, {"prepare", "order", "rounds", "noise"})
    return PaperData(name, source, settings, why, fitted, separable, groups)


def _parse_learner(where: str, table: dict[str, Any]) -> PaperLearner:
    _require_known(where, table, {"name", "rule", "set", "set_for", "published", "why", "grid", "chosen"})
    for data, setting in table.get("chosen", {}).items():
        if set(setting) != set(table["grid"]):
            raise InputError(
                f"{where}, {table['name']}: the setting chosen for {data} is of {', '.join(setting)}, "
                f"but must be of the parameters of the grid: {', '.join(table['grid']) or 'none'}"
            )
    return PaperLearner(**{LEARNER_FIELDS.get(name, name): value for name, value in table.items()})


def _require_known(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for name in table:
        if name not in known:
            raise InputError(f"{where}: unknown name {brief(name)}; {nearest(name, sorted(known))}")
