"""What docs/start/command-line.md shows is run, as a newcomer would."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.client.pages import Shell, examples

PAGE = "docs/start/command-line.md"
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is missing")
def test_a_csv_of_ones_own_is_compared(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[experiments]'")
    shell = Shell(tmp_path, {"python": f'exec "{sys.executable}" "$@"'})
    try:
        write, compare, run = (one.text.strip() for one in examples(PAGE) if one.language == "bash")
        said, status = shell.run(write)
        assert status == 0, said
        assert len((tmp_path / "wine.csv").read_text().splitlines()) == 1 + 178
        # All learners take a minute where they are not compiled yet; those that others have compiled are enough here.
        said, status = shell.run(f"{compare} --learners auto,conservative-ova")
        assert status == 0, said
        errors = dict(re.findall(r"^ +(auto|conservative-ova) +([\d.]+) ±", said, re.MULTILINE))
        assert float(errors["auto"]) < 10
        page = re.search(r"^page: (\S+)", said, re.MULTILINE)
        assert page is not None
        assert (tmp_path / page[1]).is_file()
        said, status = shell.run(run)
        assert status == 0, said
        assert "always naming the most frequent class has an error of 60.1 %" in said
    finally:
        shell.close()


def test_the_commands_of_make_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake (\w+)$", (ROOT / PAGE).read_text(), re.MULTILINE)) | {"examples"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target} is not there"
