from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from onebit.contract.installation import install_command
from onebit.errors import OnebitError
from onebit.experiments.report import Band, Curves, HeatMap, Page, Scatter, Section, Series
from onebit.experiments.report.figures import MOST_CURVES, _write, draw_figure, save_figures
from tests.experiments.report import sample

pytest.importorskip("matplotlib", reason="Matplotlib is not installed")


def curves(*names: str, logarithmic: bool = False, title: str = "Error") -> Curves:
    band = Band([90.0, 50.0, math.nan], [89.0, 49.0, math.nan], [91.0, 51.0, math.nan])
    series = [Series(name, {"played": band, "greedy": Band([80.0, 40.0, 30.0])}) for name in names]
    return Curves(title, [1, 10, 100], "rounds", "error, %", series, logarithmic)


def test_the_mean_is_a_line_and_the_interval_a_band() -> None:
    axes = draw_figure(curves("bpa")).axes[0]
    assert [np.asarray(line.get_ydata())[:2].tolist() for line in axes.lines] == [[90.0, 50.0]]
    assert len(axes.collections) == 1
    assert axes.get_ylabel() == "error, % (played)"
    axes = draw_figure(curves("bpa"), "greedy").axes[0]
    assert [np.asarray(line.get_ydata()).tolist() for line in axes.lines] == [[80.0, 40.0, 30.0]]
    assert len(axes.collections) == 0


@pytest.mark.parametrize("logarithmic", [True, False])
def test_rounds_are_logarithmic_by_choice(logarithmic: bool) -> None:
    assert draw_figure(curves("bpa", logarithmic=logarithmic)).axes[0].get_xscale() == (
        "log" if logarithmic else "linear"
    )


def test_many_curves_leave_the_best_and_a_note() -> None:
    [many] = [part for part in sample.comparison("synsep10", 0).parts if isinstance(part, Curves)]
    drawing = draw_figure(many)
    names = drawing.axes[0].get_legend_handles_labels()[1]
    assert len(drawing.axes[0].collections) == MOST_CURVES
    assert names[0] == "bandit feedback:"
    assert "full information:" in names
    assert drawing.get_supxlabel().startswith("The best 12 of 25 curves")
    assert draw_figure(curves("a", "b")).get_supxlabel() == ""


def test_odd_names_are_shown_as_they_are(tmp_path: Path) -> None:
    odd = curves("_private", "a$b$", "x" * 200, title="costs $5 or $6")
    _write(draw_figure(odd), tmp_path / "odd.svg")
    names = draw_figure(odd).axes[0].get_legend_handles_labels()[1]
    assert [names[0], names[1], len(names[2])] == [" _private", r"a\$b\$", 48]


def test_a_heat_map_prints_its_values_and_outlines_the_best() -> None:
    heat = HeatMap("Grid", "exploration", [0.1, 0.2], "C", [1], [[30.0, None]], [["30.0", "failed"]], (0, 0))
    axes = draw_figure(heat).axes[0]
    assert [text.get_text() for text in axes.texts] == ["30.0", "failed"]
    assert len(axes.patches) == 1
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "0.2"]


def test_a_scatter_has_one_cloud_for_each_class() -> None:
    axes = draw_figure(sample.plane()).axes[0]
    assert len(axes.collections) == 9
    assert sum(np.asarray(cloud.get_offsets()).shape[0] for cloud in axes.collections) == 900


@pytest.mark.parametrize(
    "part",
    [
        HeatMap("Empty", "a", [1], "b", [1], [[None]], [["failed"]]),
        HeatMap("One value", "a", [1], "b", [1], [[3.0]], [["3"]]),
        Scatter("Nothing", [], [], [], []),
        Curves("One point", [1], "rounds", "error", [Series("a", {"played": Band([5.0])})], True),
        Curves("Only gaps", [1, 2], "rounds", "error", [Series("a", {"played": Band([math.nan, math.nan])})], True),
        Curves("From zero", [0, 1], "rounds", "error", [Series("a", {"played": Band([5.0, 4.0])})], True),
    ],
)
def test_little_data_is_drawn_without_a_warning(part: HeatMap | Scatter | Curves, tmp_path: Path) -> None:
    _write(draw_figure(part), tmp_path / "little.png")
    assert (tmp_path / "little.png").read_bytes().startswith(b"\x89PNG")


def test_every_figure_of_a_page_is_saved_under_its_own_name(tmp_path: Path) -> None:
    grid = sample.sweep().parts[1]
    assert isinstance(grid, HeatMap)
    page = Page("p", "c", [Section("iris", [curves("a")]), Section("Iris!", [curves("a")]), Section("x", [grid])])
    saved = save_figures(page, tmp_path / "new" / "figures")
    names = [path.name for path in saved if path.suffix == ".png"]
    assert names == [
        "iris-error-played.png",
        "iris-error-greedy.png",
        "iris-error-played-2.png",
        "iris-error-greedy-2.png",
        "x-error-by-both.png",
    ]
    assert len(saved) == 2 * len(names)
    assert all(path.read_bytes().startswith((b"\x89PNG", b"<?xml")) for path in saved)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_part_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        _write(draw_figure(curves("a", "b")), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"other{suffix}").read_bytes()


def test_what_cannot_be_drawn_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OnebitError, match="no measure 'greed'; did you mean 'greedy'"):
        draw_figure(curves("a"), "greed")
    with pytest.raises(OnebitError, match="cannot be written: No such file or directory"):
        _write(draw_figure(curves("a")), tmp_path / "nowhere" / "error.png")
    (tmp_path / "taken").touch()
    with pytest.raises(OnebitError, match="cannot be created"):
        save_figures(Page("p", "c", []), tmp_path / "taken" / "figures")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OnebitError, match=re.escape(install_command("experiments"))):
        draw_figure(curves("a"))


def test_matplotlib_comes_only_with_a_figure_and_without_its_global_state() -> None:
    program = (
        "import sys, onebit.experiments.report.html, onebit.experiments.report.figures as figures; assert 'matplotlib' not in sys.modules;"
        "from onebit.experiments.report import *; figures.draw_figure(Scatter('', [1.0], [1.0], [0], ['a']));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
