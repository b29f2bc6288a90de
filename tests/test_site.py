"""The pages are built, with their formulas, and need nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.hooks import on_page_content, on_page_markdown

from tests.report.browser import Browser, chromium

pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install '.[docs]'")
pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install '.[docs]'")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_formula_is_set(site: Path) -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        text, page = path.read_text(), (site / f"{path.stem}.html").read_text()
        displayed, inline = text.count("```math\n"), text.count("$`")
        assert page.count('<div class="formula" tabindex="0"><math') == displayed, path.name
        assert page.count("<math ") == displayed + inline, path.name
        assert "-formula-" not in page


@pytest.mark.parametrize("formula", [r"\nosuchcommand x", "a & b"])
def test_a_formula_that_cannot_be_set_ends_the_build(formula: str) -> None:
    with pytest.raises(ValueError, match="does not know all of this formula"):
        on_page_content(on_page_markdown(f"$`{formula}`$"))


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    for path in site.glob("*.html"):
        assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=.?(?:https?:)?//", path.read_text()), path.name


@pytest.mark.skipif(chromium() is None, reason="Chromium is not installed: make browser")
def test_formulas_fit_on_a_phone(site: Path, tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        browser.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
        for name in ("algorithms", "algorithms-first-order", "algorithms-second-order", "errata"):
            browser.open(site / f"{name}.html")
            assert browser.run("document.documentElement.scrollWidth <= innerWidth"), name
            assert browser.run(
                "[...document.querySelectorAll('math')].every(one => one.getBoundingClientRect().width > 0)"
            )
