"""What commands show on a terminal: progress bars on stderr, and tables that fit its width and have no colours where there are none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from onebit.experiments.report import Badge, Cell, Number, Table
from onebit.experiments.trials import Progress
from onebit.experiments.trials.cost import duration, quantity

if TYPE_CHECKING:
    from rich.console import Console

LINE_S = 60.0  # so often progress is said where there is no terminal
WIDTH = 100  # where the output is no terminal
TONES = {"good": "green", "bad": "red", "plain": "dim"}


def console() -> Console:
    """Where tables are printed: as wide as the terminal, or as a page where there is none."""
    from rich.console import Console

    found = Console(emoji=False)  # or fourier:100:2 has a picture in it
    return found if found.is_terminal else Console(width=WIDTH, emoji=False)


def print_table(table: Table, hidden: Collection[str] = (), roomy: Collection[str] = (), caption: str = "") -> None:
    """Print a table of a page, without the columns that are hidden; those that are roomy need a wide terminal."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as TerminalTable

    where = console()
    left_out = {*hidden, *(roomy if where.width < WIDTH else ())}
    places = [place for place, column in enumerate(table.columns) if column.title not in left_out]
    drawn = TerminalTable(
        title=escape(table.title),
        title_justify="left",
        caption=escape(caption),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for place in places:
        column = table.columns[place]
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        drawn.add_column(column.title, justify=justify, overflow="fold", no_wrap=column.numeric or place == 0)
    for group, rows in table.groups.items():
        if group:
            drawn.add_section()
            drawn.add_row(f"[bold]{group}[/]")
        for cells in rows:
            tones = [TONES[cell.tone] if isinstance(cell, Badge) else "default" for cell in cells]
            texts = [f"[{tones[place]}]{escape(_plain_cell(cells[place]))}[/]" for place in places]
            drawn.add_row(f"{'  ' if group else ''}{texts[0]}", *texts[1:])
    where.print(drawn)


def _plain_cell(cell: Cell) -> str:
    if isinstance(cell, Number):
        return f"{cell.text} {cell.interval.replace(' ', '')}".strip()
    return cell.text if isinstance(cell, Badge) else cell.replace("`", "")


def print_note(note: str) -> None:
    """Print a text below a table, as wide as that."""
    console().print(note, highlight=False, markup=False)


@contextmanager
def progress_bar(title: str, total: int, quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr with the time left, gone when it is done; where stderr is no terminal, a line now and then."""
    with growing_bar(title, quiet) as (began, progress):
        began(total)
        yield progress


@contextmanager
def growing_bar(title: str, quiet: bool) -> Iterator[tuple[Progress, Progress]]:
    """The same where the total is heard of later: what is told the total, and what is told the progress."""
    if quiet:
        yield (lambda total: None), (lambda count: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class CountColumn(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = "?" if task.total is None else quantity(task.total)
            return Text(f"{quantity(task.completed)} of {total}")

    console = Console(stderr=True)
    if not console.is_terminal:
        words = _Words(title)
        yield words.began, words.progress
        return
    columns = (TextColumn("{task.description}"), BarColumn(), CountColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield (lambda total: bar.update(task, total=total)), (lambda count: bar.advance(task, count))


class _Words:
    """Progress in a log file: a line a minute."""

    def __init__(self, title: str) -> None:
        self._title, self._total, self._done = title, 0, 0
        self._started = self._said = time.monotonic()

    def began(self, total: int) -> None:
        """How much there is to do."""
        self._total = total

    def progress(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        now = time.monotonic()
        if now - self._said >= LINE_S and 0 < self._done <= self._total:
            self._said, took = now, now - self._started
            left = took * (self._total - self._done) / self._done
            share = f"{100 * self._done / self._total:.0f} % after {duration(took)}"
            print(f"onebit: {self._title}: {share}, about {duration(left)} left", file=sys.stderr, flush=True)


@contextmanager
def download_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr for what is read, converted or downloaded; it appears with the first word of it."""
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

        def heard(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total or None)

        yield heard
