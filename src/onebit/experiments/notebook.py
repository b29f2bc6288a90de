"""Results, comparisons and sweeps as a notebook shows them: sentences and tables, without scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from onebit.experiments.drawing import percent, reward_number
from onebit.experiments.pages import error_table, found_words, settings_table, sweep_words
from onebit.report.parts import Column, Table
from onebit.report.tables import plain_table_html, rich
from onebit.trials.cost import number_of, quantity
from onebit.trials.trial import shown

if TYPE_CHECKING:
    from onebit.experiments.compare import Comparison
    from onebit.experiments.run import Result
    from onebit.experiments.sweep import Sweep

MOST_ROWS = 20  # of settings; the page has more


def comparison_html(found: Comparison) -> str:
    """What a comparison found, and its tables."""
    tables = [plain_table_html(error_table(one)) for one in found.results if one.summaries]
    return _paragraphs(found_words(found.finding, found.failures)) + "".join(tables)


def sweep_html(found: Sweep) -> str:
    """What a sweep chose, and its best settings."""
    words = [*found_words("", found.failures), *sweep_words(found)]
    return _paragraphs(words) + plain_table_html(settings_table(found, MOST_ROWS))


def result_html(result: Result) -> str:
    """The errors of a run."""
    runs = f"{number_of(result.runs, 'run')} of {result.rounds:,} rounds, {quantity(result.rounds_per_second)} rounds a second"
    words = [f"`{result.rule}` on {result.data}: {runs}."]
    if result.caveat:
        words.append(f"But {result.caveat}.")
    rewards = []
    if result.rewards is not None:
        cell = reward_number(result.reward_interval)
        rewards = [["mean reward of the labels played", f"{cell.text} {cell.interval}".strip()]]
        rewards.append(["mean reward of the greedy labels", f"{result.greedy_reward:.4f}"])
    rows = [
        *rewards,
        ["error of the labels played, %", percent(result.error_interval)],
        ["error of the greedy labels, %", percent(result.greedy_error_interval)],
        *([["set", shown(result.params)]] if result.params else []),
    ]
    return _paragraphs(words) + plain_table_html(Table("", [Column(""), Column("")], rows))


def _paragraphs(words: Iterable[str]) -> str:
    return "".join(f"<p>{rich(one)}</p>" for one in words)
