from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from onebit.experiments.report import (
    BANDIT,
    FULL_INFORMATION,
    Badge,
    Band,
    Cell,
    Column,
    Curves,
    HeatMap,
    Number,
    Page,
    Part,
    Scatter,
    Section,
    Series,
    Table,
    Text,
)
from onebit.experiments.report.html import SHOWN_AT_FIRST, page_html
from tests.experiments.report import sample

NASTY = """</script><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;]]>-->"""


class Read(HTMLParser):
    """A page as its elements, in order: (tag, attributes, text directly inside)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.elements[self._open[-1]][2].append(data)

    def all(self, tag: str, name: str = "") -> list[tuple[dict[str, str | None], str]]:
        """Attributes and text of the elements with this tag, and this class if one is given."""
        return [
            (attributes, "".join(texts))
            for one, attributes, texts in self.elements
            if one == tag and (not name or name in (attributes.get("class") or "").split())
        ]


def page(*parts: Any, **rest: Any) -> Page:
    return Page(**{"title": "A page", "command": "onebit compare iris", "parts": parts, **rest})


def read(*parts: Any, **rest: Any) -> Read:
    return Read(page_html(page(*parts, **rest)))


def chart(*series: Series, x: list[float] | None = None) -> Curves:
    return Curves("Error", x or [1.0, 2.0], "rounds", "error, %", series, True)


def data_of(parsed: Read) -> dict[str, Any]:
    [text] = [text for attributes, text in parsed.all("script") if attributes.get("type") == "application/json"]
    found: dict[str, Any] = json.loads(text)
    return found


def everything_nasty() -> Page:
    curves = Curves(NASTY, [1, 2], NASTY, NASTY, [Series(NASTY, {NASTY: Band([1, 2])}, NASTY)])
    table = Table(
        NASTY,
        [Column(NASTY, True, NASTY)],
        {NASTY: [[NASTY]], "": [[Number(1, NASTY, NASTY)], [Badge(NASTY)]]},
        NASTY,
    )
    heat = HeatMap(NASTY, NASTY, [NASTY], NASTY, [NASTY], [[1.0]], [[NASTY]], (0, 0), NASTY)
    scatter = Scatter(NASTY, [0.0], [1.0], [0], [NASTY], NASTY)
    parts: list[Part] = [Text([NASTY, f"`{NASTY}`"]), Section(NASTY, [curves, table]), Section(NASTY, [heat, scatter])]
    return Page(NASTY, NASTY, parts, {NASTY: NASTY})


@pytest.mark.parametrize("made", [sample.page, everything_nasty])
def test_nothing_given_becomes_markup_and_nothing_is_fetched(made: Any) -> None:
    parsed = Read(page_html(made()))
    runs = [text for attributes, text in parsed.all("script") if "type" not in attributes]
    assert len(runs) == 2
    for attributes, _ in parsed.all("img"):
        assert str(attributes.pop("src")).startswith("data:"), "a picture is inside the page"
    for tag, attributes, _ in parsed.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag}> has {name}"
            assert name not in ("src", "srcset", "action", "style"), f"<{tag}> has {name}"
            if name == "href":
                assert str(value).startswith(("#", "data:")), value


def test_whatever_is_given_is_shown_as_it_is() -> None:
    parsed = Read(page_html(everything_nasty()))
    assert parsed.all("title")[0][1] == parsed.all("h1")[0][1] == NASTY
    assert parsed.all("code")[0][1] == NASTY  # the command
    assert [text for _, text in parsed.all("dd")] == [NASTY]
    assert data_of(parsed)["series"][0]["name"] == NASTY
    assert parsed.all("th")[0][0].get("class") == "number"


def test_the_policy_lets_only_our_own_scripts_and_styles_run() -> None:
    parsed = read(Text(["Hello."]))
    [policy] = [str(one["content"]) for one, _ in parsed.all("meta") if "http-equiv" in one]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
    assert rules["default-src"] == ["'none'"]

    def prints(tag: str) -> list[str]:
        hashes = (hashlib.sha256(text.encode()).digest() for one, text in parsed.all(tag) if "type" not in one)
        return [f"'sha256-{base64.b64encode(one).decode()}'" for one in hashes]

    assert rules["script-src"] == prints("script")
    assert rules["style-src"] == prints("style")
    ours = parsed.all("script")[-1][1]
    assert not re.search(r"\beval\(|new Function|innerHTML|document\.write", ours)


def test_the_page_carries_the_licence_of_what_it_embeds() -> None:
    text = page_html(page())
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert "The above copyright notice and this permission notice shall be included" in text


def test_a_name_that_is_no_text_can_still_be_written() -> None:
    assert b"onebit compare ?.csv" in page_html(page(command="onebit compare \udcff.csv")).encode()


def test_curves_come_back_from_the_page_as_they_were_to_a_hundredth() -> None:
    [curves] = [part for part in sample.comparison("synsep10", 1).parts if isinstance(part, Curves)]
    data = data_of(read(curves))
    assert data["x"] == curves.x
    assert data["decimals"] == 2
    for one, shown in zip(curves.series, data["series"], strict=True):
        for measure, band in one.measures.items():
            found = shown["measures"][measure]
            for name in ("mean", "low", "high"):
                assert found[name] == pytest.approx(getattr(band, name), abs=0.00501)


def test_a_gap_stays_a_gap_and_one_run_has_no_interval() -> None:
    data = data_of(
        read(chart(Series("a", {"played": Band([5.0, math.nan])}), Series("b", {"played": Band([math.nan, 7.25])})))
    )
    found = [one["measures"]["played"] for one in data["series"]]
    assert found == [{"mean": [5.0, None]}, {"mean": [None, 7.25]}]


@pytest.mark.parametrize(("largest", "decimals"), [(100.0, 2), (9.0, 3), (0.5, 4), (250_000.0, 0), (0.0, 0)])
def test_decimals_follow_the_largest_value(largest: float, decimals: int) -> None:
    assert data_of(read(chart(Series("a", {"played": Band([0.0, largest])}))))["decimals"] == decimals


def test_a_few_curves_are_shown_at_first_and_references_do_not_take_all_places() -> None:
    [curves] = [part for part in sample.comparison("synsep10", 0).parts if isinstance(part, Curves)]
    shown = [one for one in data_of(read(curves))["series"] if one["shown"]]
    assert len(shown) == SHOWN_AT_FIRST
    assert sum(one["group"] == FULL_INFORMATION for one in shown) == 2
    assert all(bool(one["dash"]) == (one["group"] == FULL_INFORMATION) for one in shown)
    assert len({one["colour"] for one in shown}) == SHOWN_AT_FIRST


def test_all_curves_of_a_full_chart_look_different_and_a_learner_looks_the_same_in_all_charts() -> None:
    parsed = Read(page_html(sample.page()))
    texts = [text for attributes, text in parsed.all("script") if "type" in attributes]
    first, second, alone = (json.loads(text)["series"] for text in texts)
    looks = [{one["name"]: (one["colour"], *one["dash"]) for one in series} for series in (first, second)]
    assert looks[0] == looks[1]
    assert len(set(looks[0].values())) == len(sample.LEARNERS)
    assert (alone[0]["colour"], alone[0]["dash"]) == (0, [])


def test_cells_have_what_they_sort_by() -> None:
    rows: list[list[Cell]] = [
        ["`bpa`", Number(17.9, "17.9", "± 0.3")],
        ["pab", Number(None, "failed")],
        ["x", Number(math.nan, "")],
    ]
    parsed = read(Table("Errors", [Column("learner"), Column("error", True, "in %")], {"": rows}))
    assert [one["data-value"] for one, _ in parsed.all("td", "number")] == ["17.9", "", ""]
    assert [text for _, text in parsed.all("span", "interval")] == ["± 0.3"]
    assert [one.get("title") for one, _ in parsed.all("button") if one.get("class") != "copy"] == [None, "in %"]


def test_rows_of_a_group_stand_together_below_its_name() -> None:
    groups = {BANDIT: [["a"], ["c"]], FULL_INFORMATION: [["b"]]}
    parsed = read(Table("Errors", [Column("learner")], groups))
    assert len(parsed.all("tbody")) == 2
    shown = [
        text
        for tag, given, texts in parsed.elements
        if (tag == "th" or dict(given).get("class") == "cell") and (text := "".join(texts))
    ]
    assert shown == [BANDIT, "a", "c", FULL_INFORMATION, "b"]


def test_a_heat_map_marks_the_best_and_what_is_missing() -> None:
    heat = HeatMap("Grid", "exploration", [0.1, 0.2], "C", [1], [[30.0, None]], [["30.0", "failed"]], (0, 0))
    parsed = read(heat)
    [(best, text)] = parsed.all("td", "best")
    assert text == "30.0"
    assert best["title"] == "C 1, exploration 0.1: 30.0"
    assert [text for _, text in parsed.all("td", "none")] == ["failed"]


@pytest.mark.parametrize(
    "part",
    [
        HeatMap("Empty", "a", [1], "b", [1], [[None]], [["failed"]]),
        HeatMap("One value", "a", [1, 2], "b", [1], [[3.0, 3.0]], [["3", "3"]]),
        Scatter("Nothing", [], [], [], []),
        Scatter("One point", [1.0], [2.0], [0], ["a"]),
        Scatter("No number", [math.nan], [2.0], [0], ["a"]),
        Table("No rows", [Column("a")], {}),
        Curves("No curves", [], "rounds", "error", []),
        Curves("No measures", [1], "rounds", "error", [Series("a", {})]),
        Section("", []),
    ],
)
def test_little_data_makes_a_page(part: Any) -> None:
    assert read(part).all("main")


def test_a_scatter_is_a_picture_inside_the_page_with_its_title_and_its_note() -> None:
    parsed = read(Scatter("Plane", [0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0, 1, 0], ["a", "b"], "three points"))
    [(attributes, _)] = parsed.all("img")
    assert attributes["alt"] == "Plane"
    assert str(attributes["src"]).startswith("data:image/png;base64,")
    assert "three points" in [text for _, text in parsed.all("p", "note")]


def test_sections_are_listed_and_the_links_lead_somewhere() -> None:
    sections = [Section("iris", [Text(["One."])]), Section("iris", [Section("inner", [])]), Section("main", [])]
    parsed = read(*sections)
    anchors = [str(one["id"]) for tag, one, _ in parsed.elements if "id" in one]
    assert len(set(anchors)) == len(anchors)
    links = [str(one["href"]) for one, _ in parsed.all("a")][1:]
    assert [text for _, text in parsed.all("a")][1:] == ["iris", "iris", "main"]
    assert len(set(links)) == 3
    assert {link[1:] for link in links} <= set(anchors)
    assert not read(sections[0]).all("nav")


def test_a_full_comparison_stays_under_three_megabytes() -> None:
    everything = Page("All", "onebit compare", [sample.comparison(f"data {seed}", seed) for seed in range(12)])
    assert len(page_html(everything).encode()) < 3_000_000
