"""All that the papers state: each theorem, lemma, table, figure and claim has its item or a sentence why there is none, and none is left out."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from onebit.checks.examples import refused
from onebit.papers import Paper, load_paper, parse_paper
from tests.papers.test_papers import PAPERS

NUMBERED = {  # counted in the texts of the papers, a second time
    "arora2020": {"Theorem": 5, "Algorithm": 4, "Table": 3, "Figure": 4},
    "chen2009": {"Theorem": 2, "Corollary": 3, "Lemma": 4, "Algorithm": 2, "Table": 1, "Figure": 4},
    "hoeven2020": {"Theorem": 6, "Lemma": 1, "Algorithm": 1, "Table": 2, "Figure": 1},
    "prompak2017": {"Theorem": 6, "Corollary": 2, "Lemma": 4, "Figure": 9},
    "zhong2015": {"Lemma": 3, "Algorithm": 1, "Figure": 1},
}
ROMAN = {"I": 1}


@pytest.fixture(params=PAPERS)
def paper(request: pytest.FixtureRequest) -> Paper:
    """Each paper in turn."""
    return load_paper(request.param)


def test_numbers_run_from_1_without_gaps_to_the_last_of_the_paper(paper: Paper) -> None:
    found = defaultdict(list)
    for one in paper.results:
        numbered = re.fullmatch(r"(Theorem|Corollary|Lemma|Proposition|Algorithm|Table|Figure) (\w+)", one.what)
        if numbered:
            kind, number = numbered.groups()
            found[kind].append(ROMAN.get(number) or int(number))
    assert dict(found) == {kind: list(range(1, last + 1)) for kind, last in NUMBERED[paper.name].items()}


def test_every_item_shows_a_result_and_no_result_stands_twice(paper: Paper) -> None:
    assert {name for one in paper.results for name in one.items} == {item.name for item in paper.items}
    names = [one.what for one in paper.results]
    assert len(set(names)) == len(names)


def test_a_result_without_an_item_has_a_sentence(paper: Paper) -> None:
    for one in paper.results:
        assert one.says
        assert bool(one.items) != bool(one.why)
        assert not one.why or one.why.endswith("."), one.what


ITEM = '[[item]]\nname = "figure5"\ntitle = "Figure 5"\nkind = "gap"\n'


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('item = "figure6"', ["'figure6'", "'figure5'"]),
        ("", ["either an item", "why"]),
        ('item = "figure5"\nwhy = "No."', ["either an item", "why"]),
        ('item = []\nwhy = ""', ["either an item", "why"]),
        ('item = "figure5"\nsay = "what"', ["'say'", "'says'"]),
    ],
    ids=["an item that is not there", "nothing", "both", "neither", "a key"],
)
def test_a_result_that_names_what_is_not_there_is_refused(more: str, words: list[str]) -> None:
    text = f'title = "t"\n{ITEM}\n[[result]]\nwhat = "Lemma 7"\nsays = "so"\n{more}\n'
    told = refused(lambda: parse_paper("mine2026", text))
    for word in ("mine2026", "Lemma 7", *words):
        assert word in told


def test_a_result_names_one_item_or_some() -> None:
    text = f'title = "t"\n{ITEM}\n[[result]]\nwhat = "Lemma 7"\nsays = "so"\nitem = '
    for named in ('"figure5"', '["figure5"]'):
        (one,) = parse_paper("mine2026", text + named).results
        assert (list(one.items), one.why) == (["figure5"], "")
