"""The stress corpus: every stream on which `auto` must be no trap, with its family, its half and its seeds.

Constants of `auto` may be chosen on the streams of the half `choose`; those of `report` are only reported. What
`auto` was built on, or had a goal on, is in `choose`. Of everything else a fourth is, by a hash of the name of the family: streams with one trouble, or of one kind, are never on both sides.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from benchmarks.streams.recipes import Recipe, as_csr, resampled, shuffled
from benchmarks.streams.stress import STRESS
from benchmarks.streams.tables import TABLES
from benchmarks.streams.texts import UNEVEN
from benchmarks.streams.unseen import UNSEEN
from onebit.data.streams import Stream
from onebit.data.synthetic import synnonsep10, synsep9, synsep10

CHOOSE, REPORT = "choose", "report"
SHORTER = 8000  # rounds of a stream that has 20,000 where it is looked at alone
FEW_ROUNDS, MANY_ROUNDS = 5000, 500_000  # below: many seeds; from there on: hardly any
FIRST_CHOICE, FIRST_COMPARED = 500, 1000  # the seeds that the best rule is chosen on, and those that it is compared on
AMONG_FAMILIES = 4  # one in so many, of those that nothing was built on, is for choosing


@dataclass(frozen=True)
class CorpusStream:
    """A stream of the corpus: a recipe with a name, and how its feedback comes."""

    name: str
    family: str
    recipe: Recipe
    developed: bool = False  # `auto` was built on it, or had a goal there
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def half(self) -> str:
        """Whether constants may be chosen on it; results have no part in that."""
        chosen = self.developed or zlib.crc32(self.family.encode()) % AMONG_FAMILIES == 0
        return CHOOSE if chosen else REPORT

    @property
    def rounds(self) -> int:
        """How long it is."""
        return self.recipe.rounds

    @property
    def choice_seeds(self) -> range:
        """The seeds that the best of the fixed rules is chosen on."""
        return range(FIRST_CHOICE, FIRST_CHOICE + self._by_length(5, 3, 1))

    @property
    def compared_seeds(self) -> range:
        """The seeds that errors are compared on."""
        return range(FIRST_COMPARED, FIRST_COMPARED + self._by_length(20, 5, 2))

    def _by_length(self, few: int, usual: int, many: int) -> int:
        return few if self.rounds < FEW_ROUNDS else usual if self.rounds < MANY_ROUNDS else many

    def stream(self, steps: tuple[str, ...] = ()) -> Stream:
        """As onebit takes it, after the steps of a preparation."""
        return self.recipe.stream(self.name, steps, **self.settings)


def _developed() -> list[CorpusStream]:
    """What auto of 0.3.0 and the prototypes after it were built on, in its usual form and in others."""
    digits = Recipe(partial(resampled, "digits"), 10, 10_000, ("digits",))
    satimage = Recipe(partial(resampled, "satimage"), 6, 10_000, ("satimage",))
    usps = Recipe(partial(shuffled, "usps"), 10, 9298, ("usps",))
    mnist = Recipe(partial(shuffled, "mnist"), 10, 10_000, ("mnist",))
    separable, hierarchy = Recipe(synsep10, 10, 20_000), UNEVEN["hier: merged groups"]
    news, half_way = UNEVEN["20 Newsgroups, binary"], {"drift": "abrupt:0.5"}
    found: list[tuple[str, Recipe, dict[str, Any]]] = [
        ("digits", digits, {}),
        ("iris", Recipe(partial(resampled, "iris"), 3, 10_000, ("iris",)), {}),
        ("satimage", satimage, {}),
        ("ecoli", Recipe(partial(resampled, "ecoli"), 8, 10_000, ("ecoli",)), {}),
        ("SynSep10", separable, {}),
        ("SynNonSep10", Recipe(synnonsep10, 10, 20_000), {}),
        ("SynSep9", Recipe(synsep9, 9, 10_000), {}),
        ("USPS", usps, {}),
        ("MNIST, 10,000", mnist, {}),
        ("MNIST, 60,000", replace(mnist, rounds=60_000), {}),
        ("digits renamed half-way", digits, half_way),
        ("digits, 20 % noise", digits, {"noise": 0.2}),
        ("digits, 100 late", digits, {"delay": 100}),
        ("digits, 1,000 late", digits, {"delay": 1000}),
        ("SynSep10, 30 % noise", separable, {"noise": 0.3}),
        ("digits as CSR", _as_csr(digits), {}),
        ("satimage as CSR", _as_csr(satimage), {}),
        ("USPS as CSR", _as_csr(usps), {}),
        ("MNIST, 10,000, as CSR", _as_csr(mnist), {}),
        ("digits as CSR, renamed half-way", _as_csr(digits), half_way),
        ("20 Newsgroups, counts, 20 % noise", UNEVEN["20 Newsgroups, counts"], {"noise": 0.2}),
        ("20 Newsgroups, renamed half-way", news, half_way),
        ("20 Newsgroups, 1,000 late", news, {"delay": 1000}),
        ("hier, 20 % noise", hierarchy, {"noise": 0.2}),
        ("hier, 1,000 late", hierarchy, {"delay": 1000}),
    ]
    found += [(name, recipe, {}) for name, recipe in UNEVEN.items()]
    found += [(name, replace(recipe, rounds=_SIZES.get(name, SHORTER)), {}) for name, recipe in STRESS.items()]
    return [CorpusStream(name, "", recipe, developed=True, settings=settings) for name, recipe, settings in found]


def _as_csr(recipe: Recipe) -> Recipe:
    return replace(recipe, make=partial(as_csr, recipe.make))


_SIZES = {"100 Gaussians": 20_000, "2 Gaussians": 4000}
# Wine and breast cancer were looked at while auto was built, and the digits and satimage without their factors.
_LOOKED_AT = ("wine", "breast cancer", "digits", "satimage")
_GOALS = ("300 equal classes", "1,000 equal classes")


def _others() -> list[CorpusStream]:
    """What nothing was built on: those of `unseen.py`, tables, and some of these with feedback that is noisy, late or never comes."""
    found = []
    for name, recipe in UNSEEN.items():
        family = name.partition(",")[0]
        shorter = replace(recipe, rounds=20_000 if recipe.classes >= 300 else SHORTER)
        found.append(CorpusStream(name, family, shorter, developed=family in _LOOKED_AT))
    for name, (family, recipe) in TABLES.items():
        found.append(CorpusStream(name, family, recipe, developed=name in _GOALS))
    for name, trouble, settings in (
        ("mixed columns", "200 late", {"delay": 200}),
        ("mixed columns", "a third never comes", {"missing": 0.33}),
        ("tree of questions, 10,000 rounds", "25 % noise", {"noise": 0.25}),
        ("several clusters a class", "renamed half-way", {"drift": "abrupt:0.5"}),
        ("several clusters a class, 40 columns", "renamed one by one", {"drift": "gradual:0.25..0.75"}),
        ("counts of events", "late by 50, or much more", {"delay": "heavy-tail:50"}),
        ("shifted pictures", "30 % noise", {"noise": 0.3}),
    ):
        family, recipe = TABLES[name]
        found.append(CorpusStream(f"{name}, {trouble}", family, recipe, settings=settings))
    for name, family in (("shifted pictures", "pictures"), ("counts of events, 400 columns", "counts")):
        found.append(CorpusStream(f"{name}, as CSR", family, _as_csr(TABLES[name][1])))
    return found


# The same rows in another form, which `auto` is to do as well on.
FORMS = {
    "digits as CSR": "digits",
    "satimage as CSR": "satimage",
    "USPS as CSR": "USPS",
    "MNIST, 10,000, as CSR": "MNIST, 10,000",
    "shifted pictures, as CSR": "shifted pictures",
    "counts of events, 400 columns, as CSR": "counts of events, 400 columns",
    "topics": "topics, sparse",
}
CORPUS = {one.name: one for one in (*_developed(), *_others())}
