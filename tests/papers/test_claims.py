"""Claims with a number of points: near each other, a difference of a size, a difference that is larger elsewhere."""

from __future__ import annotations

import math

import pytest

import onebit
from onebit.checks.examples import refused
from onebit.experiments.statistics import MeanEstimate
from onebit.papers import parse_paper
from onebit.papers.errors import format_points
from onebit.papers.reproduce import reproduce
from onebit.papers.verdicts import Status, judge_between

PAPER = """
title = "Mine 2026: a paper of our own"

[[item]]
name = "table1"
title = "Table 1"
kind = "errors"
runs = 3
rounds = 400
[[item.data]]
name = "easy"
source = "synsep9"
[[item.data]]
name = "noisy"
source = "synsep9"
noise = 0.9
[[item.data]]
name = "absent"
source = "mnist"
[[item.learner]]
name = "full"
rule = "perceptron"
published = { easy = 10, noisy = 80, absent = 1 }
[[item.learner]]
name = "bandit"
rule = "banditron"
published = { easy = 70, noisy = 85.5, absent = 2 }
[[item.learner]]
name = "bandit again"
rule = "banditron"
published = { easy = 71, noisy = 86, absent = 3 }

[[item]]
name = "claims"
title = "What is said of Table 1"
kind = "claims"
like = "table1"
tolerance = 5.0
"""
CLAIM = '\n[[item.claim]]\ntext = "said"\n'


@pytest.fixture(autouse=True)
def _nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(name: str, progress: object = None) -> None:
        raise onebit.OnebitError(f"{name} is not here")

    monkeypatch.setattr("onebit.data.real.load", unreachable)


def verdicts(monkeypatch: pytest.MonkeyPatch, text: str) -> list[tuple[str, str, str, str]]:
    monkeypatch.setattr("onebit.papers.reproduce.load_paper", lambda name: parse_paper("mine2026", PAPER + text))
    found = reproduce("mine2026", ["claims"], on="threads")
    return [(one.data, one.published, one.verdict, one.why) for one in found.verdicts]


def test_the_item_has_what_it_is_like_and_runs_only_what_its_claims_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLAIM + 'lower = "full"\nhigher = "bandit"\ndata = ["easy"]\n'
    paper = parse_paper("mine2026", PAPER + text)
    table, claims = paper.items
    assert (claims.data, claims.learners, claims.runs, claims.rounds) == (table.data, table.learners, 3, 400)
    monkeypatch.setattr("onebit.papers.reproduce.load_paper", lambda name: paper)
    found = reproduce("mine2026", ["claims"], on="threads")
    assert found.cost.rounds == 2 * 3 * 400
    assert [one.verdict for one in found.verdicts] == [Status.REPRODUCED]


@pytest.mark.parametrize(("within", "verdict"), [(100.0, Status.REPRODUCED), (-100.0, Status.DIFFERS)])
def test_within_is_how_much_more_the_first_may_err(
    monkeypatch: pytest.MonkeyPatch, within: float, verdict: str
) -> None:
    text = CLAIM + f'lower = "bandit"\nhigher = "full"\nwithin = {within}\ndata = ["easy", "absent"]\n'
    text += 'why = { easy = "because" }\n'
    found = verdicts(monkeypatch, text)
    assert found[0] == (
        "easy",
        f"claimed, here within {within:g}",
        verdict,
        "" if verdict == Status.REPRODUCED else "because",
    )
    assert found[1] == ("absent", "claimed", "missing data", "mnist is not here")


def test_a_learner_that_is_better_is_within_any_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLAIM + 'lower = "full"\nhigher = "bandit"\nwithin = 0.0\ndata = ["easy"]\n'
    assert verdicts(monkeypatch, text)[0][2] == Status.REPRODUCED


def test_among_looks_at_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    same = CLAIM + 'among = ["bandit", "bandit again"]\nwithin = 1.0\ndata = ["easy"]\n'
    three = CLAIM + 'among = ["bandit", "bandit again", "full"]\nwithin = 1.0\ndata = ["easy"]\n'
    found = verdicts(monkeypatch, same + three)
    assert [one[1:3] for one in found] == [
        ("claimed, here within 1", Status.REPRODUCED),
        ("claimed, here within 1", Status.DIFFERS),
    ]


def test_a_gain_is_held_against_its_number_and_is_of_the_data_it_is_given_for(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = CLAIM + 'lower = "full"\nhigher = "bandit"\ngain = { easy = 0.0, absent = 1.5 }\n'
    found = verdicts(monkeypatch, alone)
    assert [one[:3] for one in found] == [("easy", "0", Status.DIFFERS), ("absent", "1.5", "missing data")]


def test_a_gain_may_rise_from_one_data_set_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CLAIM + 'lower = "full"\nhigher = "bandit"\nsince = "noisy"\ndata = ["easy"]\n'
    turned = (
        CLAIM + 'lower = "full"\nhigher = "bandit"\nsince = "easy"\ndata = ["noisy"]\nwhy = { noisy = "because" }\n'
    )
    found = verdicts(monkeypatch, text + turned)
    assert [(one[0], one[2], one[3]) for one in found] == [
        ("easy", Status.REPRODUCED, ""),
        ("noisy", Status.DIFFERS, "because"),
    ]


def test_what_an_interval_says() -> None:
    inside, across, outside = (MeanEstimate(mean, mean - 1, mean + 1) for mean in (5.0, 9.5, 12.0))
    assert [judge_between(one, 0.0, 10.0) for one in (inside, across, outside)] == [
        Status.REPRODUCED,
        Status.UNDECIDED,
        Status.DIFFERS,
    ]
    alone = MeanEstimate(9.5, math.nan, math.nan)
    assert judge_between(alone, 0.0, 10.0) == judge_between(alone, 0.0, 9.0) == Status.UNDECIDED
    assert format_points(MeanEstimate(0.0123, 0.01, 0.0146)) == "+1.23 ± 0.23 points"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('like = "table9"', "table9"),
        (CLAIM + 'lower = "full"\nhigher = "nobody"', "nobody"),
        (CLAIM + 'among = ["full", "nobody"]\nwithin = 1', "nobody"),
        (CLAIM + 'lower = "full"\nhigher = "bandit"\ngain = { nowhere = 1 }', "nowhere"),
        (CLAIM + 'lower = "full"\nhigher = "bandit"\nsince = "nowhere"', "nowhere"),
        (CLAIM + 'lower = "full"\nhigher = "bandit"\nwihtin = 1', "did you mean 'within'"),
    ],
)
def test_a_claim_on_what_is_not_there_is_refused(text: str, words: str) -> None:
    base = PAPER.replace('like = "table1"\n', "") if text.startswith("like") else PAPER
    assert words in refused(lambda: parse_paper("mine2026", base + text))
