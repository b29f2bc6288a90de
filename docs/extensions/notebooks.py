"""A notebook as a page: its prose and its code. Nothing is run, so that the build stays short; the tests run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def notebook_page(path: str) -> str:
    """The cells of a notebook as Markdown, for a page with a title of its own.

    >>> "```python" in notebook_page("examples/papers.ipynb")
    True
    """
    lines = list[str]()
    for cell in json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            lines += ["```python", text, "```", ""]
        else:
            lines += [re.sub(r"^## ", "### ", re.sub(r"^# .*\n+", "", text), flags=re.MULTILINE), ""]
    return "\n".join(lines)
