"""Output of the commands: JSON, tables that fit the terminal, and progress bars on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO

from onebit.experiments.report import Badge, Cell, Number, Table
from onebit.experiments.trials import Progress
from onebit.experiments.trials.cost import format_duration, format_quantity

if TYPE_CHECKING:
    from rich.console import Console

LINE_S = 60.0  # between two progress lines if there is no terminal
WIDTH = 100  # columns if the output is not a terminal
TONES = {"good": "green", "bad": "red", "plain": "dim"}


def print_json(value: object, indent: int | None = None, file: TextIO | None = None) -> None:
    """Print a value as JSON to stdout, or to another file."""
    print(json.dumps(value, ensure_ascii=False, indent=indent), file=file)


def open_console() -> Console:
    """Return the console for tables: as wide as the terminal, or `WIDTH` if there is none."""
    from rich.console import Console

    console = Console(emoji=False)  # emoji codes would change texts such as fourier:100:2
    return console if console.is_terminal else Console(width=WIDTH, emoji=False)


def print_table(table: Table, hidden: Collection[str] = (), roomy: Collection[str] = (), caption: str = "") -> None:
    """Print a table without its `hidden` columns; a narrow terminal also omits the `roomy` ones."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as TerminalTable

    console = open_console()
    omitted = {*hidden, *(roomy if console.width < WIDTH else ())}
    indices = [index for index, column in enumerate(table.columns) if column.title not in omitted]
    grid = TerminalTable(
        title=escape(table.title),
        title_justify="left",
        caption=escape(caption),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for index in indices:
        column = table.columns[index]
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        grid.add_column(column.title, justify=justify, overflow="fold", no_wrap=column.numeric or index == 0)
    for group, rows in table.groups.items():
        if group:
            grid.add_section()
            grid.add_row(f"[bold]{group}[/]")
        for cells in rows:
            tones = [TONES[cell.tone] if isinstance(cell, Badge) else "default" for cell in cells]
            texts = [f"[{tones[index]}]{escape(_plain_cell(cells[index]))}[/]" for index in indices]
            grid.add_row(f"{'  ' if group else ''}{texts[0]}", *texts[1:])
    console.print(grid)


def _plain_cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        return f"{cell.text} {cell.interval.replace(' ', '')}".strip()
    return cell.text if isinstance(cell, Badge) else cell.replace("`", "")


def print_note(note: str) -> None:
    """Print a note below a table, wrapped to the same width."""
    open_console().print(note, highlight=False, markup=False)


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Progress]:
    """Show a progress bar with the remaining time on stderr; without a terminal, print a line per minute."""
    with growing_bar(title, quiet) as (set_total, progress):
        set_total(total)
        yield progress


@contextmanager
def growing_bar(title: str, quiet: bool) -> Iterator[tuple[Progress, Progress]]:
    """Show a progress bar whose total is not known yet.

    Yields two functions: one sets the total, the other advances the bar.
    """
    if quiet:
        yield (lambda total: None), (lambda count: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class CountColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = "?" if task.total is None else format_quantity(task.total)
            return Text(f"{format_quantity(task.completed)} of {total}")

    console = Console(stderr=True)
    if not console.is_terminal:
        lines = _ProgressLines(title)
        yield lines.set_total, lines.advance
        return
    columns = (TextColumn("{task.description}"), BarColumn(), CountColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield (lambda total: bar.update(task, total=total)), (lambda count: bar.advance(task, count))


class _ProgressLines:
    """Progress for a log file: one line per minute."""

    def __init__(self, title: str) -> None:
        self._title, self._total, self._done = title, 0, 0
        self._started = self._printed = time.monotonic()

    def set_total(self, total: int) -> None:
        self._total = total

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._printed >= LINE_S and 0 < self._done <= self._total:
            self._printed, took = now, now - self._started
            remaining_s = took * (self._total - self._done) / self._done
            share = f"{100 * self._done / self._total:.0f} % after {format_duration(took)}"
            print(
                f"onebit: {self._title}: {share}, about {format_duration(remaining_s)} left",
                file=sys.stderr,
                flush=True,
            )


@contextmanager
def download_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Show a progress bar for reading, converting or downloading; it appears with the first report."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step)
            bar.update(tasks[step], completed=done, total=total or None)

        yield report
