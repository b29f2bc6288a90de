"""The examples run, each with a small size, and end in a picture; the page about them shows all of them."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tools import notebook

matplotlib = pytest.importorskip("matplotlib", reason="Matplotlib is not installed: pip install '.[experiments]'")
pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[experiments]'")
matplotlib.use("Agg")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
PAGE = (ROOT / "docs" / "how-to" / "examples.md").read_text()
PICTURES = ROOT / "docs" / "how-to" / "examples"
SMALL = {
    "ticket_routing": ("--mails", "400"),
    "model_choice": ("--prompts", "300"),
    "ocr_checking": ("--digits", "450"),
}
NOTEBOOKS = ("papers",)


def ran(name: str, *arguments: object) -> Path:
    path: Path = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]([str(one) for one in arguments])
    return path


def is_a_picture(path: Path) -> bool:
    from matplotlib.image import imread

    height, width, _ = imread(path).shape
    return bool(200 < height < 2000 and 400 < width < 2000)


def test_all_examples_are_here_and_on_the_page() -> None:
    found = {path.stem for path in FOLDER.iterdir() if path.suffix in (".py", ".ipynb")}
    assert found == {*SMALL, *NOTEBOOKS}
    for name in found:
        assert re.search(rf"\bexamples/{name}\.(py|ipynb)\b", PAGE), f"{name} is not on the page"
        own = (PICTURES / f"{name.replace('_', '-')}.md").read_text()
        assert re.search(rf"\bexamples/{name}\.(py|ipynb)\n", own) or f"examples/{name}.ipynb -->" in own, (
            "without its source"
        )
        assert re.search(rf"!\[[^\]]{{40,}}\]\({name.replace('_', '-')}\.png\)", own)
    shown = re.findall(r"!\[[^\]]{40,}\]\((examples/[\w-]+\.png)\)", PAGE)
    assert {Path(one).stem for one in shown} == {name.replace("_", "-") for name in found}
    for picture in PICTURES.glob("*.png"):
        assert is_a_picture(picture)
        assert picture.stat().st_size < 150_000


@pytest.mark.parametrize("name", SMALL)
def test_an_example_runs_and_ends_in_a_picture(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ran(name, tmp_path / "new" / "folder", *SMALL[name])
    assert is_a_picture(path)
    assert capsys.readouterr().out.endswith(f"the picture is {path}\n")


@pytest.mark.parametrize("name", SMALL)
def test_a_size_that_is_too_small_is_refused_in_a_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = SMALL[name][0]
    with pytest.raises(SystemExit) as ended:
        ran(name, tmp_path / "new", option, 0)
    assert ended.value.code == 2
    assert f"{option} is 0, but must be at least 100" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_prompts_are_embedded_where_an_encoder_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for sentence-transformers, which is not among the dependencies: letters counted."""

    class LetterCounts:
        def __init__(self, name: str, local_files_only: bool) -> None:
            assert local_files_only, "nothing is downloaded"

        def encode(self, text: str) -> Any:
            return np.array([text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz0123456789"])

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = LetterCounts  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    ran("model_choice", tmp_path, *SMALL["model_choice"])
    assert "prompts as embeddings of" in capsys.readouterr().out


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = notebook.run(FOLDER / f"{name}.ipynb", ROUNDS=300, RUNS=2, FOLDER=tmp_path)
    assert is_a_picture(tmp_path / f"{name}.png")
    assert names["everybody"].shape == (5, 4)
    assert "Sweep(banditron on synnonsep9, 8 settings" in capsys.readouterr().out
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_one_for_jupyter_and_carries_no_outputs(name: str) -> None:
    made = json.loads((FOLDER / f"{name}.ipynb").read_text())
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in made["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert not cell.get("outputs")
