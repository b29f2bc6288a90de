"""Output of the commands: JSON, tables that fit the terminal, and progress bars on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from onebit.experiments.report import Badge, Cell, Number, Table
from onebit.experiments.trials import Progress
from onebit.experiments.trials.cost import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as ProgressBars
    from rich.progress import ProgressColumn, Task

LINE_S = 60.0  # between two progress lines if there is no terminal
SPEED_S = 3600.0  # over which the speed is measured, since long trials report rarely
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
            texts = [f"[{tones[index]}]{escape(_format_cell(cells[index]))}[/]" for index in indices]
            grid.add_row(f"{'  ' if group else ''}{texts[0]}", *texts[1:])
    console.print(grid)


def _format_cell(cell: Cell) -> str:
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
    from rich.progress import TaskProgressColumn, TimeRemainingColumn

    with _open_bars(quiet, TaskProgressColumn(), TimeRemainingColumn()) as bars:
        number = bars.add_task(title, total=None)
        is_log_file = not quiet and not bars.console.is_terminal
        printed = time.monotonic()

        def advance(count: int) -> None:
            nonlocal printed
            bars.advance(number, count)
            now = time.monotonic()
            if is_log_file and now - printed >= LINE_S and _print_progress(bars.tasks[0]):
                printed = now

        yield (lambda total: bars.update(number, total=total)), advance


def _print_progress(task: Task) -> bool:
    """Print a line about progress if its speed is known; return whether it is."""
    if task.elapsed is None or task.time_remaining is None:
        return False
    share = f"{task.percentage:.0f} % after {format_duration(task.elapsed)}"
    left = f"about {format_duration(task.time_remaining)} left"
    print(f"onebit: {task.description}: {share}, {left}", file=sys.stderr, flush=True)
    return True


@contextmanager
def download_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for reading, converting or downloading; it appears at the first report."""
    from rich.progress import DownloadColumn, TaskID

    with _open_bars(quiet, DownloadColumn()) as bars:
        numbers: dict[str, TaskID] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in numbers:
                numbers[step] = bars.add_task(step)
            bars.update(numbers[step], completed=done, total=total or None)

        yield report


def _open_bars(quiet: bool, *columns: ProgressColumn) -> ProgressBars:
    """Return progress bars on stderr, which are counted but not shown if `quiet` or without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as ProgressBars

    console = Console(stderr=True)
    return ProgressBars(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
        speed_estimate_period=SPEED_S,
    )
