"""The pages are built, with their formulas, and need nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.extensions.formulas import mathml

from tests.experiments.report.browser import Browser, chromium

pytestmark = pytest.mark.long

pytest.importorskip("sphinx", reason="Sphinx is not installed: pip install '.[docs]'")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install '.[docs]'")

ROOT = Path(__file__).parents[2]
needs_chromium = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed: make browser")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(folder / "read"), "docs", str(folder / "pages")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "pages"


def test_every_formula_is_set(site: Path) -> None:
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs")
        text, page = path.read_text(), (site / name).with_suffix(".html").read_text()
        displayed, inline = text.count("```math\n"), text.count("$`")
        assert page.count('<div class="formula" tabindex="0"><math') == displayed, name
        assert page.count("<math ") == displayed + inline, name


@pytest.mark.parametrize("formula", [r"\nosuchcommand x", "a & b"])
def test_a_formula_that_cannot_be_set_ends_the_build(formula: str) -> None:
    with pytest.raises(ValueError, match="does not know all of this formula"):
        mathml(formula)


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=.?(?:https?:)?//", path.read_text()), path.name


def test_what_ends_an_example_for_doctest_is_not_shown(site: Path) -> None:
    examples = re.findall(r"<pre>.*?</pre>", (site / "index.html").read_text(), re.DOTALL)
    assert any("&gt;&gt;&gt;" in one for one in examples)
    assert not any(re.search(r"\n\s*\n(</span>)*</pre>$", one) for one in examples)


@needs_chromium
@pytest.mark.parametrize(("scheme", "width", "height"), [("light", 1280, 900), ("dark", 390, 844)])
def test_every_page_fits_on_a_desk_and_on_a_phone(
    site: Path, tmp_path: Path, scheme: str, width: int, height: int
) -> None:
    """From files, without a word on the console, and without anything from elsewhere."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    with Browser(tmp_path) as browser:
        browser.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for page in pages:
            browser.open(page)
            assert browser.run("document.documentElement.scrollWidth <= innerWidth"), page.name
            assert browser.run(
                "[...document.querySelectorAll('math')].every(one => one.getBoundingClientRect().width > 0)"
            ), page.name
            dark = browser.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0] < 100")
            assert dark is (scheme == "dark"), page.name
        assert not browser.complaints
        assert all(one.startswith(("file:", "data:")) for one in browser.requests)


@needs_chromium
def test_search_works_from_a_folder(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.send("Page.navigate", url=f"{(site / 'search.html').as_uri()}?q=propensity")
        browser.until("document.querySelector('#search-results a[href^=\"how-to/learner.html\"]') !== null")
        assert not browser.complaints


@needs_chromium
def test_the_copy_button_leaves_out_prompts(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.open(site / "index.html")
        browser.run("void addEventListener('copy', event => { window.copied = event.target.value })")
        browser.click("document.querySelector('.highlight-python button.copybtn')")
        assert browser.run("window.copied").startswith("import onebit\nlearner = onebit.Auto(")


def test_no_line_of_a_page_is_a_comment() -> None:
    """A line that begins with % is one to MyST: where a sentence was wrapped before the sign, half of it would be missing."""
    lost = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "docs").rglob("*.md"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if line.lstrip().startswith("%")
    ]
    assert lost == []
