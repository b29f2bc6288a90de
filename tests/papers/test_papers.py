"""The papers' TOML files: each reads, names what exists, and has the numbers of its paper, typed here a second time from its text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onebit.data.preparation import parse_steps
from onebit.data.sources import names
from onebit.data.streams import stream
from onebit.experiments.grid import Grid, parse_axis
from onebit.experiments.trials import make_entry
from onebit.papers import Paper, PaperItem, PaperLearner, load_paper, paper_names
from onebit.rules import registry

PAPERS = ("arora2020", "chen2009", "hoeven2020", "prompak2017", "zhong2015")


@pytest.fixture(params=PAPERS)
def paper(request: pytest.FixtureRequest) -> Paper:
    """Each paper in turn."""
    return load_paper(request.param)


def item_of(paper: str, name: str) -> PaperItem:
    """One item of a paper."""
    (found,) = load_paper(paper).choose_items([name])
    return found


def learner_of(item: PaperItem, name: str) -> PaperLearner:
    """One learner of an item."""
    return next(learner for learner in item.learners if learner.name == name)


def uses(paper: Paper) -> Iterator[tuple[PaperItem, PaperLearner, str]]:
    """Every learner of every item on each of its data sets."""
    for item in paper.items:
        for learner in item.learners:
            for data in item.data:
                yield item, learner, data.name


# --- every paper -----------------------------------------------------------------------------------------------------------


def test_the_five_papers_are_there() -> None:
    assert paper_names() == list(PAPERS)


def test_items_are_whole(paper: Paper) -> None:
    assert len({item.name for item in paper.items}) == len(paper.items)
    for item in paper.items:
        assert item.title
        assert item.measure in ("played", "greedy")
        assert bool(item.data) == (item.kind not in ("gap", "time", "adversary"))
        assert len({data.name for data in item.data}) == len(item.data)
        assert len({learner.name for learner in item.learners}) == len(item.learners)
        assert (item.kind not in ("scatter", "gap", "adversary", "separability")) == bool(item.learners)
        assert bool(item.scale) == (item.kind == "time")
        assert bool(item.adversaries) == (item.kind == "adversary")
        assert all(bool(learner.grid) == (item.kind == "grid") for learner in item.learners)


def test_data_are_known_and_their_streams_can_be_made(paper: Paper) -> None:
    for item in paper.items:
        for data in item.data:
            assert data.source in names()
            parse_steps(data.settings.get("prepare"))
            # On rows of a generator, so that no file need be there.
            made = stream("synsep9", **{"rounds": item.rounds, **data.settings, "prepare": ()})
            assert made.order == data.settings.get("order", "file")


def test_rules_and_options_are_known(paper: Paper) -> None:
    for item, learner, data in uses(paper):
        assert learner.rule in registry(), (item.name, learner.name)
        make_entry(learner.rule, learner.options_on(data))


def test_grids_hold_the_published_settings(paper: Paper) -> None:
    for item in paper.items:
        for learner in item.learners:
            if learner.chosen:
                assert set(learner.chosen) == {data.name for data in item.data}
            for data, chosen in learner.chosen.items():
                axes = {
                    name: sorted({*parse_axis(name, values), chosen[name]}) for name, values in learner.grid.items()
                }
                points = Grid(learner.rule, axes, learner.options_on(data)).points
                assert tuple(chosen[name] for name in axes) in points


def test_what_is_published_is_a_percentage(paper: Paper) -> None:
    for _, learner, data in uses(paper):
        assert 0.0 <= learner.published.get(data, 0.0) < 100.0


# --- Chen et al. 2009 ------------------------------------------------------------------------------------------------------

TABLE_I = """
    Banditron                           10.80 36.79 75.07 50.28
    Conservative OVA with PA             2.91 14.01 33.75 18.85
    Conservative OVA with PA-I           2.84 13.92 37.70 17.70
    Conservative OVA with PA-II          2.87 14.23 33.36 18.60
    Realizable Offset Tree with PA       6.13 65.04 62.85 58.79
    Realizable Offset Tree with PA-I     3.79 64.97 50.04 59.50
    Realizable Offset Tree with PA-II    4.58 64.33 51.58 59.51
    Multiclass Perceptron                3.97 14.19 29.50 14.47
"""
COLUMNS = ("RCV1-v2", "MNIST", "20 Newsgroups", "USPS")


def test_chen_table_1() -> None:
    item = item_of("chen2009", "table1")
    assert item.runs == 10
    rows = [line.rsplit(maxsplit=len(COLUMNS)) for line in TABLE_I.strip().splitlines()]
    assert [learner.name for learner in item.learners] == [row[0].strip() for row in rows]
    for name, *numbers in rows:
        learner = learner_of(item, name.strip())
        expected = dict(zip(COLUMNS, map(float, numbers), strict=True))
        assert learner.published == {data.name: expected[data.name.split(",")[0]] for data in item.data}


def test_chen_parameters() -> None:
    item = item_of("chen2009", "table1")
    exploration = {"RCV1-v2": 0.03, "MNIST": 0.15, "20 Newsgroups": 0.3, "USPS": 0.3}
    for data in item.data:
        options = learner_of(item, "Banditron").options_on(data.name)
        assert options == {"exploration": exploration[data.name.split(",")[0]]}
        for learner in item.learners:
            if "PA" in learner.name:
                options = learner.options_on(data.name)
                assert (options["aggressiveness"], options["variant"]) == (1.0, learner.name.split()[-1])


def test_chen_data_come_in_file_order_and_shuffled() -> None:
    item = item_of("chen2009", "table1")
    assert {data.settings.get("prepare", [""])[-1] for data in item.data if data.source == "mnist"} == {"scale"}
    vocabularies = {"rcv1": 1, "mnist": 1, "20newsgroups": 2, "usps": 1}
    for source, count in vocabularies.items():
        orders = [data.settings["order"] for data in item.data if data.source == source]
        assert sorted(orders) == ["file"] * count + ["shuffle"] * count


def test_chen_claims_are_on_table_1() -> None:
    table, item = item_of("chen2009", "table1"), item_of("chen2009", "claims")
    assert (item.data, item.learners, item.runs) == (table.data, table.learners, 10)
    published = {learner.name: learner.published for learner in table.learners}
    printed = {"RCV1-v2": 7.96, "20 Newsgroups": 41.71}  # the text has 47.71, which its table does not
    gains = [claim for claim in item.claims if claim.gain]
    for claim in gains:
        for data, gain in claim.gain.items():
            assert gain == pytest.approx(published[claim.higher][data] - published[claim.lower][data])
            assert gain == printed.get(data.split(",")[0], gain)
    assert {data.split(",")[0] for claim in gains for data in claim.gain} == set(COLUMNS)
    assert [claim.learners for claim in item.claims if claim.among] == [
        [f"{name} with {variant}" for variant in ("PA", "PA-I", "PA-II")]
        for name in ("Conservative OVA", "Realizable Offset Tree")
    ]
    for claim in item.claims:
        if claim.since:
            pair = (claim.since, *claim.data)
            less, more = (published[claim.higher][data] - published[claim.lower][data] for data in pair)
            assert less < more


def test_chen_time_is_taken_of_all_variants() -> None:
    item = item_of("chen2009", "time")
    assert [learner.options["variant"] for learner in item.learners] == ["PA", "PA-I", "PA-II"]
    for values in item.scale.values():
        assert len(values) == 5
        assert max(values) == 16 * min(values)


# --- Zhong, Daucé, Ralaivola 2015 ------------------------------------------------------------------------------------------


def test_zhong_caption() -> None:
    item = item_of("zhong2015", "figure1")
    sources = {data.name: (data.source, item.rounds) for data in item.data}
    assert sources == {
        "SynSep": ("synsep9", 100_000),
        "SynNonSep": ("synnonsep9", 100_000),
        "Reuters": ("rcv1", 100_000),
    }
    assert item.measure == "greedy"
    caption = {  # gamma of Banditron; alpha, eta of Confidit; eta, lambda of Policy Gradient; C, gamma of PAB
        "SynSep": (0.014, (1, 1000), (0.01, 0.001), (0.001, 0.7)),
        "SynNonSep": (0.006, (1, 1000), (0.01, 0.001), (0.00001, 0.7)),
        "Reuters": (0.05, (1, 100), (0.1, 0.001), (0.0001, 0.6)),
    }
    for data, (gamma, confidit, gradient, pab) in caption.items():
        options = {learner.name: learner.options_on(data) for learner in item.learners}
        assert options["Banditron"] == {"exploration": gamma}
        matrix = "diagonal" if data == "Reuters" else "full"  # the caption is silent on this
        reading = {"form": "published", "project": True, "projection": "all", "matrix": matrix}
        assert options["Confidit"] == {"alpha": confidit[0], "eta": confidit[1], **reading}
        assert options["Policy Gradient"] == {"rewards": "centred", "rate": gradient[0], "decay": gradient[1]}
        for name, rho in (("Simple PAB", 0), ("Full PAB", 1)):
            assert options[name].pop("exploration") == pytest.approx(1 - pab[1], abs=1e-12)
            assert options[name] == {"rho": rho, "aggressiveness": pab[0]}


def test_zhong_numbers_of_the_text() -> None:
    item = item_of("zhong2015", "figure1")
    assert {learner.name: learner.published for learner in item.learners} == {
        "Banditron": {"Reuters": 5},
        "Policy Gradient": {"SynSep": 0, "SynNonSep": 5, "Reuters": 5},
        "Confidit": {"SynSep": 0, "SynNonSep": 5, "Reuters": 8},
        "Full PAB": {"Reuters": 2.5},
        "Simple PAB": {"SynSep": 0, "Reuters": 5},
    }


# --- Arora and Manwani 2020 ------------------------------------------------------------------------------------------------

SETTINGS = """
    SynSep     0.0001   0.1  0.0003   0.1  0.0001
    SynNonSep  0.001    0.1  0.001    0.1  0.0001
    Ecoli      0.04     0.01 0.05     0.01 0.04
    Abalone    0.008    0.01 0.02     0.01 0.03
    Satimage   0.065    0.1  0.06     0.1  0.06
    Iris       0.035    0.03 0.025    0.03 0.04
    USPS       0.06     0.1  0.1      0.1  0.1
"""  # Table 1: gamma; Tables 2 and 3: C, gamma


def settings_of(variant: str) -> dict[str, dict[str, float]]:
    """The settings of Tables 1, 2 or 3 by data set."""
    found = {}
    for line in SETTINGS.strip().splitlines():
        name, *numbers = line.split()
        plain, aggressiveness_1, one, aggressiveness_2, two = map(float, numbers)
        found[name] = {
            "EPABF": {"exploration": plain},
            "EPABF-I": {"exploration": one, "aggressiveness": aggressiveness_1},
            "EPABF-II": {"exploration": two, "aggressiveness": aggressiveness_2},
        }[variant]
    return found


@pytest.mark.parametrize(("table", "variant"), [("table1", "EPABF"), ("table2", "EPABF-I"), ("table3", "EPABF-II")])
def test_arora_tables(table: str, variant: str) -> None:
    expected = settings_of(variant)
    item = item_of("arora2020", table)
    assert {data.name.split(",")[0] for data in item.data} == set(expected)
    (searched,) = item.learners
    for data in item.data:
        assert searched.chosen[data.name] == expected[data.name.split(",")[0]]
    for figure in ("figure3", "figure4"):
        learner = learner_of(item_of("arora2020", figure), variant)
        for data in item_of("arora2020", figure).data:
            options = learner.options_on(data.name)
            assert options.pop("update") == "printed"
            assert options.pop("variant") == variant.replace("EPABF", "PA")
            assert options == expected[data.name.split(",")[0]]


@pytest.mark.parametrize("variant", ["EPABF", "EPABF-I", "EPABF-II"])
def test_arora_figure_2_is_the_search_on_iris(variant: str) -> None:
    panel = {"EPABF": "figure2a", "EPABF-I": "figure2b", "EPABF-II": "figure2c"}[variant]
    assert learner_of(item_of("arora2020", panel), variant).chosen == {"Iris": settings_of(variant)["Iris"]}


def test_arora_runs_and_data() -> None:
    sources = {"ecoli", "abalone", "satimage", "iris", "usps"}
    sources |= {"synsep10", "synsep10-released", "synnonsep10", "synnonsep10-released"}
    for figure in ("figure3", "figure4"):
        item = item_of("arora2020", figure)
        assert (item.runs, item.rounds) == (100, 100_000)
        assert {data.source for data in item.data} == sources


SEARCHED = {  # learner: options, how many parameters
    "EPABF": ({"variant": "PA", "update": "printed"}, 1),
    "EPABF-I": ({"variant": "PA-I", "update": "printed"}, 2),
    "EPABF-II": ({"variant": "PA-II", "update": "printed"}, 2),
    "BPA": ({"variant": "PA-I"}, 2),
    "Banditron": ({}, 1),
}


def test_arora_search_has_seven_data_sets_and_a_grid_of_twelve_values_for_each_parameter() -> None:
    item = item_of("arora2020", "search")
    assert (item.kind, item.runs, item.rounds) == ("grid", 100, 100_000)
    sources = ["synsep10", "synnonsep10", "ecoli", "abalone", "satimage", "iris", "usps"]
    assert [data.source for data in item.data] == sources
    assert [learner.name for learner in item.learners] == list(SEARCHED)
    settings = 0
    for learner in item.learners:
        options, parameters = SEARCHED[learner.name]
        assert learner.options == options
        assert list(learner.grid) == ["exploration", "aggressiveness"][:parameters]
        for name, given in learner.grid.items():
            values = parse_axis(name, given)
            assert len(values) == 12
            assert values == sorted(values)
        settings += len(Grid(learner.rule, learner.grid, learner.options).entries)
    assert settings == 456


@pytest.mark.parametrize("variant", ["EPABF", "EPABF-I", "EPABF-II"])
def test_arora_search_has_the_settings_of_the_tables_on_its_grid(variant: str) -> None:
    item, expected = item_of("arora2020", "search"), settings_of(variant)
    learner = learner_of(item, variant)
    assert set(learner.chosen) == {data.name for data in item.data}
    for data, chosen in learner.chosen.items():
        assert chosen == expected[data.split(",")[0]]
        for name, value in chosen.items():
            assert value in parse_axis(name, learner.grid[name]), "a value more would make the grid larger"


def test_arora_search_on_the_released_sets_is_that_on_the_others() -> None:
    described, released = item_of("arora2020", "search"), item_of("arora2020", "search-released")
    assert [data.source for data in released.data] == ["synsep10-released", "synnonsep10-released"]
    for one, other in zip(released.learners, described.learners, strict=True):
        assert (one.name, one.rule, one.options, one.grid) == (other.name, other.rule, other.options, other.grid)
        assert {data.split(",")[0]: chosen for data, chosen in one.chosen.items()} == {
            data.split(",")[0]: chosen for data, chosen in other.chosen.items() if data.startswith("Syn")
        }


def test_arora_claims_of_the_text_on_noise_and_on_full_information() -> None:
    rises = {
        (claim.lower, claim.higher, claim.since, *claim.data)
        for claim in item_of("arora2020", "figure3").claims
        if claim.since
    }
    assert rises == {
        (ours, other, f"SynSep, as {kind}", f"SynNonSep, as {kind}")
        for ours in ("EPABF", "EPABF-I", "EPABF-II")
        for other in ("BPA", "Banditron")
        for kind in ("described", "released")
    }
    near = [claim for claim in item_of("arora2020", "figure4").claims if claim.within is not None]
    assert [(claim.lower, claim.higher) for claim in near] == [
        ("EPABF", "PA"),
        ("EPABF-I", "PA-I"),
        ("EPABF-II", "PA-II"),
    ]
    assert {(claim.within, *claim.data) for claim in near} == {(2.5, "Ecoli", "USPS")}


def test_zhong_has_confidit_before_three_on_synnonsep() -> None:
    claims = [claim for claim in item_of("zhong2015", "figure1").claims if list(claim.data) == ["SynNonSep"]]
    behind = {
        name: {claim.higher for claim in claims if claim.lower == name} for name in ("Confidit", "Policy Gradient")
    }
    assert list(behind.values()) == [{"Simple PAB", "Full PAB", "Banditron"}] * 2


def test_arora_search_is_run_on_request_alone() -> None:
    paper = load_paper("arora2020")
    assert [item.name for item in paper.items if item.on_request] == ["search"]
    assert "search" not in {item.name for item in paper.choose_items([])}
    assert len(paper.choose_items([])) == len(paper.items) - 1
    assert [item.name for item in paper.choose_items(["search"])] == ["search"]


def test_arora_numbers_read_off_figure_3() -> None:
    by_eye = {  # EPABF, EPABF-I, EPABF-II, BPA, Banditron
        "SynSep": (3.7, 3.7, 3.7, 18.5, 42),
        "SynNonSep": (17.5, 17, 11, 49.5, 46),
        "Ecoli": (21, 20.5, 20, None, None),
        "Abalone": (24, 25, 24, None, None),
        "Satimage": (47, 47, 47, None, None),
        "Iris": (13.5, 11, 11, 15.7, 20),
        "USPS": (None,) * 5,
    }
    item = item_of("arora2020", "figure3")
    for data in item.data:
        found = tuple(learner.published.get(data.name) for learner in item.learners)
        assert found == by_eye[data.name.split(",")[0]]


# --- Prompak 2017, van der Hoeven 2020 -------------------------------------------------------------------------------------


def test_prompak_figure_7() -> None:
    item = item_of("prompak2017", "figure7")
    assert (item.runs, item.rounds, [data.source for data in item.data]) == (5, 100_000, ["group2d"])
    published = {learner.name: list(learner.published.values()) for learner in item.learners}
    assert published["standard"] == [76.7]
    assert published["kernelised"] == [15.8]
    (claim,) = item.claims
    assert (claim.lower, claim.higher) == ("kernelised", "standard")


def test_prompak_figure_5_has_the_groups_of_its_caption() -> None:
    item = item_of("prompak2017", "figure5")
    assert [data.separable for data in item.data] == ["strong", "weak", "group"]
    groups = item.data[-1].groups
    assert groups is not None
    assert [len(group) for group in groups] == [3, 4, 1]


def test_prompak_lower_bounds_are_those_of_the_introduction() -> None:
    item = item_of("prompak2017", "lower-bounds")
    found = {(one.feedback, one.kind) for _, one in item.adversaries}
    assert found == {("full", "weak"), ("bandit", "strong"), ("bandit", "weak")}


def test_hoeven_has_published_nothing_to_compare_with() -> None:
    paper = load_paper("hoeven2020")
    assert not any(learner.published for _, learner, _ in uses(paper))
    item = item_of("hoeven2020", "comparison")
    gaptrons = [learner for learner in item.learners if learner.rule == "gaptron"]
    for setting in ("bandit", "full"):
        losses = {one.options["loss"] for one in gaptrons if one.options.get("setting", "bandit") == setting}
        assert losses == {"logistic", "hinge", "smooth"}
