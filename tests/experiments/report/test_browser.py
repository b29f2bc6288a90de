"""What a reader does with a page, done in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onebit.experiments.report import Curves, Page
from onebit.experiments.report.html import page_html
from tests.experiments.report import sample
from tests.experiments.report.browser import Browser, chromium
from tests.experiments.report.test_html import everything_nasty

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed: make browser"),
]

CHART = "document.querySelector('.curves')"
PLOT = f"{CHART}.querySelector('.plot')"
ENTRIES = f"[...{CHART}.querySelectorAll('.entry')]"
TABLE = "document.querySelector('table.sortable')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The sample page, freshly opened; afterwards nothing may have been complained about or fetched."""
    path = tmp_path / "page.html"
    path.write_text(page_html(sample.page()), encoding="utf-8")
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(path)
    yield browser
    browser.settle()
    assert browser.complaints == []
    assert browser.requests == [path.resolve().as_uri()]


def button(name: str) -> str:
    return f"{CHART}.querySelector('[data-test={name}]')"


def entry(name: str) -> str:
    return f"{ENTRIES}.find(one => one.querySelector('.name').textContent === '{name}')"


def bring_the_chart(browser: Browser) -> None:
    browser.place(CHART)
    browser.until(f"!!{PLOT}.uplot")


def shown(browser: Browser) -> dict[str, bool]:
    found: dict[str, bool] = browser.run(
        f"Object.fromEntries({PLOT}.uplot.series.slice(1).map(s => [s.label, s.show]))"
    )
    return found


def pressed(browser: Browser) -> dict[str, bool]:
    script = f"Object.fromEntries({ENTRIES}.map(b => [b.querySelector('.name').textContent, b.ariaPressed === 'true']))"
    found: dict[str, bool] = browser.run(script)
    return found


def ends(browser: Browser) -> list[float]:
    found: list[float] = browser.run(f"[{PLOT}.uplot.scales.x.min, {PLOT}.uplot.scales.x.max]")
    return found


def column(browser: Browser, place: int) -> list[list[str]]:
    """The cells of a column, for each group of rows."""
    rows = "[...body.rows].filter(row => !row.classList.contains('group'))"
    found: list[list[str]] = browser.run(
        f"[...{TABLE}.tBodies].map(body => {rows}.map(row => row.cells[{place}].dataset.value ?? row.cells[{place}].textContent))"
    )
    return found


def test_a_table_sorts_by_mouse_and_by_keyboard(opened: Browser) -> None:
    before = column(opened, 0)
    head = f"{TABLE}.tHead.rows[0].cells"
    opened.click(f"{head}[0].querySelector('button')")
    assert column(opened, 0) == [sorted(group) for group in before] != before
    assert opened.run(f"[...{head}].map(head => head.ariaSort)") == ["ascending", None, None, None]

    opened.run(f"{head}[1].querySelector('button').focus()")
    opened.key("Enter", 13, "\r")
    errors = [[float(value) for value in group] for group in column(opened, 1)]
    assert errors == [sorted(group) for group in errors]
    opened.key("Enter", 13, "\r")
    assert [[float(value) for value in group] for group in column(opened, 1)] == [group[::-1] for group in errors]
    assert opened.run(f"[...{head}].map(head => head.ariaSort)") == [None, "descending", None, None]


def test_what_is_unknown_sorts_last_either_way(opened: Browser) -> None:
    table = "[...document.querySelectorAll('table.sortable')].at(-1)"
    for _ in range(2):
        opened.click(f"{table}.tHead.rows[0].cells[2].querySelector('button')")
        assert opened.run(f"[...{table}.tBodies[0].rows].at(-1).cells[0].textContent") == "USPS, Confidit"


def test_a_click_hides_a_curve_and_shows_it_again(opened: Browser) -> None:
    bring_the_chart(opened)
    at_first = shown(opened)
    assert sum(at_first.values()) == 8
    assert pressed(opened) == at_first
    opened.click(entry("bpa"))
    assert shown(opened) == pressed(opened) == {**at_first, "bpa": False}
    opened.run(f"{entry('bpa')}.focus()")
    opened.key(" ", 32, " ")
    assert shown(opened) == pressed(opened) == at_first


def test_only_one_curve_all_curves_and_the_best(opened: Browser) -> None:
    bring_the_chart(opened)
    at_first = shown(opened)
    opened.click(entry("gaptron"), shift=True)
    assert shown(opened) == pressed(opened) == {name: name == "gaptron" for name in at_first}
    opened.click(button("all"))
    assert all(shown(opened).values())
    opened.click(f"{entry('pab')}.nextSibling")
    assert shown(opened) == pressed(opened) == {name: name == "pab" for name in at_first}
    opened.click(button("best"))
    assert shown(opened) == pressed(opened) == at_first


def test_dragging_zooms_and_a_double_click_shows_all(opened: Browser) -> None:
    bring_the_chart(opened)
    whole = ends(opened)
    left, top, width, height = opened.place(f"{PLOT}.uplot.over")
    middle = top + height / 2
    opened.mouse("mouseMoved", left + width * 0.4, middle)
    opened.mouse("mousePressed", left + width * 0.4, middle)
    opened.mouse("mouseMoved", left + width * 0.6, middle)
    opened.mouse("mouseReleased", left + width * 0.6, middle)
    opened.settle()
    zoomed = ends(opened)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    opened.click(button("measure-greedy"))
    assert ends(opened) == pytest.approx(zoomed)
    left, top, width, height = opened.place(f"{PLOT}.uplot.over")
    for clicks in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            opened.mouse(kind, left + width / 2, top + height / 2, clicks=clicks)
    opened.settle()
    assert ends(opened) == whole
    assert opened.run(f"{button('reset')}.disabled")


def test_the_keyboard_moves_along_the_curves_and_zooms(opened: Browser) -> None:
    bring_the_chart(opened)
    whole = ends(opened)
    opened.run(f"{PLOT}.focus()")
    where = f"{CHART}.querySelector('.where').firstChild.textContent"
    assert opened.run(where) == "rounds 100,000"
    opened.key("ArrowLeft", 37)
    opened.key("ArrowLeft", 37)
    assert opened.run(f"{PLOT}.uplot.cursor.idx") == 197
    assert opened.run(where) != "rounds 100,000"
    opened.key("+", 187, "+")
    assert ends(opened)[0] > whole[0]
    opened.key("0", 48, "0")
    assert ends(opened) == whole


def test_the_pointer_shows_the_nearest_curve_with_its_interval(opened: Browser) -> None:
    bring_the_chart(opened)
    opened.click(entry("policy-gradient"), shift=True)
    left, top, _, _ = opened.place(f"{PLOT}.uplot.over")
    x, y = opened.run(
        f"(u => [u.valToPos(u.data[0][100], 'x'), u.valToPos(u.data[u.series.findIndex(s => s.label === 'policy-gradient')][100], 'y')])"
        f"({PLOT}.uplot)"
    )
    opened.mouse("mouseMoved", left + x, top + y + 3)
    opened.settle()
    [curves] = [part for part in sample.comparison("synsep10", 0).parts if isinstance(part, Curves)]
    band = next(one for one in curves.series if one.name == "policy-gradient").measures["played"]
    assert band.low is not None
    assert band.high is not None
    said = opened.run(f"[...{CHART}.querySelector('.tip').children].map(line => line.textContent)")
    assert said == ["policy-gradient", f"{band.mean[100]:.2f} [{band.low[100]:.2f}, {band.high[100]:.2f}]"]


def test_logarithmic_greedy_and_intervals_can_be_switched(opened: Browser) -> None:
    bring_the_chart(opened)
    final = f"{entry('policy-gradient')}.querySelector('.value').textContent"
    played, distribution = opened.run(final), f"{PLOT}.uplot.scales.x.distr"
    assert opened.run(distribution) == 3
    opened.click(button("logarithmic"))
    assert opened.run(distribution) == 1
    assert opened.run(f"{button('logarithmic')}.ariaPressed") == "false"

    opened.click(button("measure-greedy"))
    assert float(opened.run(final)) < float(played)
    states = f"['played', 'greedy'].map(name => {CHART}.querySelector(`[data-test=measure-${{name}}]`).ariaPressed)"
    assert opened.run(states) == ["false", "true"]

    picture = f"{PLOT}.uplot.ctx.canvas.toDataURL()"
    opened.click(entry("policy-gradient"), shift=True)
    opened.mouse("mouseMoved", 1, 1)  # away from the legend, which brightens the curve below the pointer
    opened.settle()
    without = opened.run(picture)
    for state, same in (("true", False), ("false", True)):
        opened.click(button("intervals"))
        assert opened.run(f"{button('intervals')}.ariaPressed") == state
        assert (opened.run(picture) == without) == same


def test_the_command_can_be_copied_or_is_selected(opened: Browser) -> None:
    opened.click("document.querySelector('.copy')")
    opened.until("document.querySelector('.copy').textContent != 'Copy'")
    assert opened.run("document.querySelector('.copy').textContent") in ("Copied", "Selected")


def test_every_chart_is_there_on_paper(opened: Browser) -> None:
    charts = "[...document.querySelectorAll('.curves .plot')].map(plot => !!plot.uplot)"
    assert not all(opened.run(charts))
    opened.send("Page.printToPDF")
    assert opened.run(charts) == [True, True, True]
    assert not opened.run("document.documentElement.hasAttribute('data-paper')")


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_fits_every_width(opened: Browser, width: int) -> None:
    opened.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    bring_the_chart(opened)
    assert opened.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert opened.run(f"{PLOT}.uplot.width <= document.documentElement.clientWidth")
    opened.send("Emulation.clearDeviceMetricsOverride")


def test_no_table_is_cut_on_a_phone(opened: Browser) -> None:
    """Cells stand below each other there, each with the head of its column; before, errors were beyond the edge."""
    opened.send("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    opened.settle()
    tables = "[...document.querySelectorAll('.scroll:has(.sortable)')]"
    assert opened.run(f"{tables}.length") > 0
    assert opened.run(f"{tables}.every(one => one.scrollWidth <= one.clientWidth)")
    cell = "document.querySelector('.sortable tbody td.number')"
    assert opened.run(f"getComputedStyle({cell}, '::before').content") == opened.run(
        f"JSON.stringify({cell}.dataset.head)"
    )
    opened.send("Emulation.clearDeviceMetricsOverride")


def test_nothing_given_is_run(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "nasty.html"
    path.write_text(page_html(everything_nasty()), encoding="utf-8")
    browser.complaints.clear()
    browser.requests.clear()
    browser.send(
        "Page.navigate", url=path.as_uri()
    )  # an alert would stop the page, and what follows would never be true
    browser.until("document.querySelector('.plot')?.uplot !== undefined")
    assert browser.complaints == []
    assert browser.requests == [path.as_uri()]


def test_a_full_comparison_opens(browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = Page("All", "onebit compare", [sample.comparison(f"data {seed}", seed) for seed in range(12)])
    path = tmp_path / "full.html"
    path.write_text(page_html(everything), encoding="utf-8")
    browser.complaints.clear()
    browser.open(path)
    ready = browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
    with capsys.disabled():
        print(f"\na page of {path.stat().st_size / 1e6:.2f} MB was ready after {ready:.0f} ms")
    bring_the_chart(browser)
    assert browser.complaints == []
