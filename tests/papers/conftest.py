"""A paper of one's own for the tests of reproductions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import onebit
from onebit.papers import Paper, parse_paper

Give = Callable[[str], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Let `mine2026` be the paper of this TOML."""

    def paper(text: str) -> None:
        found = parse_paper("mine2026", text)

        def named(name: str) -> Paper:
            if name != "mine2026":
                raise onebit.OnebitError(f"there is no paper {name!r}; did you mean 'mine2026'?")
            return found

        monkeypatch.setattr("onebit.papers.reproduce.load_paper", named)
        monkeypatch.setattr("onebit.cli.reproduce.load_paper", named)
        monkeypatch.setattr("onebit.cli.reproduce.paper_names", lambda: ["mine2026"])
        monkeypatch.setattr("onebit.experiments.report.figures.save_figures", lambda page, folder: [])

    return paper
