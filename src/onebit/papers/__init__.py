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
LIKE = ("data", "learners", "runs", "rounds", "measure")  # fields that an item takes from the item named by `like`


@dataclass(frozen=True)
class PaperData:
    """A data set of an item: its name in the paper, its source and its stream settings."""

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

    def chosen(self, names: Sequence[str]) -> list[PaperItem]:
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


def paper_named(name: str) -> Paper:
    """Return the paper with this name.

    >>> paper_named("chen2009").items[0].title
    'Table I: average error rate'
    """
    if name not in paper_names():
        raise InputError(f"there is no paper {brief(name)}; {nearest(name, [*paper_names(), 'all'])}")
    return read_paper(name, (resources.files("onebit.papers") / f"{name}.toml").read_text(encoding="utf-8"))


def read_paper(name: str, text: str) -> Paper:
    """Parse a paper from its TOML text; raise InputError with the place of anything invalid."""
    table = tomllib.loads(text)
    _refuse_more(name, table, {"title", "note", "item", "result"})
    items: list[PaperItem] = []
    for number, one in enumerate(table.get("item", ()), start=1):
        items.append(_item(f"{name}, item {number}", one, {item.name: item for item in items}))
    known = {item.name for item in items}
    results = [
        _result(f"{name}, result {number}", one, known) for number, one in enumerate(table.get("result", ()), start=1)
    ]
    return Paper(name, table["title"], table.get("note", ""), items, results)


def _item(where: str, table: dict[str, Any], before: Mapping[str, PaperItem]) -> PaperItem:
    where = f"{where} ({table.get('name')})"
    table = dict(table)
    data = [_data(where, one) for one in table.pop("data", ())]
    grid = table.pop("grid", {})
    learners = [_learner(where, {"grid": grid, **one}) for one in table.pop("learner", ())]
    claims, like = table.pop("claim", ()), table.pop("like", None)
    adversaries = [_adversary(where, one) for one in table.pop("adversary", ())]
    _refuse_more(where, table, set(PaperItem.__dataclass_fields__) - {"data", "learners", "claims", "adversaries"})
    item = PaperItem(data=data, learners=learners, adversaries=adversaries, **table)
    if like is not None:
        _refuse_more(f"{where}, like", {like: None}, set(before))
        item = replace(item, **{name: getattr(before[like], name) for name in LIKE})
    item = replace(item, claims=[_claim(where, one, item) for one in claims])
    names = {one.name for one in item.data}
    for learner in item.learners:
        for by_data in (learner.options_for, learner.published, learner.why, learner.chosen):
            _refuse_more(f"{where}, {learner.name}", by_data, names)
    if item.kind not in KINDS:
        raise InputError(f"{where} is of the kind {brief(item.kind)}; {nearest(item.kind, KINDS)}")
    _refuse_more(f"{where}, scale", item.scale, set(SCALES))
    return item


def _result(where: str, table: dict[str, Any], known: set[str]) -> PaperResult:
    where = f"{where} ({table.get('what')})"
    _refuse_more(where, table, {"what", "says", "item", "why"})
    named = table.get("item", [])
    items = [named] if isinstance(named, str) else named
    _refuse_more(where, dict.fromkeys(items), known)
    if bool(items) == bool(table.get("why")):
        raise InputError(f"{where} needs either an item that tests it, or a sentence (why) that says why there is none")
    return PaperResult(table["what"], table["says"], items, table.get("why", ""))


def _claim(where: str, table: dict[str, Any], item: PaperItem) -> Claim:
    _refuse_more(where, table, set(Claim.__dataclass_fields__))
    claim, names = Claim(**table), [one.name for one in item.data]
    if not claim.data:
        claim = replace(claim, data=[*claim.gain] or names)
    _refuse_more(f"{where}, claim", dict.fromkeys(claim.learners), {one.name for one in item.learners})
    _refuse_more(f"{where}, claim", dict.fromkeys([*claim.compared_on, *claim.gain]), set(names))
    return claim


def _adversary(where: str, table: dict[str, Any]) -> tuple[str, Adversary]:
    settings = dict(table)
    _refuse_more(f"{where}, adversary", settings, {"name", *Adversary.__dataclass_fields__})
    name = settings.pop("name")
    return name, Adversary(**settings)


def _data(where: str, table: dict[str, Any]) -> PaperData:
    settings = dict(table)
    name, source = settings.pop("name"), settings.pop("source")
    why, fitted = settings.pop("why", ""), settings.pop("fitted", "")
    separable, groups = settings.pop("separable", ""), settings.pop("groups", None)
    _refuse_more(f"{where}, {name}", settings, {"prepare", "order", "rounds", "noise"})
    return PaperData(name, source, settings, why, fitted, separable, groups)


def _learner(where: str, table: dict[str, Any]) -> PaperLearner:
    _refuse_more(where, table, {"name", "rule", "set", "set_for", "published", "why", "grid", "chosen"})
    for data, setting in table.get("chosen", {}).items():
        if set(setting) != set(table["grid"]):
            raise InputError(
                f"{where}, {table['name']} has for {data} a setting of {', '.join(setting)}, "
                f"but its grid is over {', '.join(table['grid']) or 'nothing'}"
            )
    return PaperLearner(**{LEARNER_FIELDS.get(name, name): value for name, value in table.items()})


def _refuse_more(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for name in table:
        if name not in known:
            raise InputError(f"{where} has {brief(name)}; {nearest(name, sorted(known))}")
