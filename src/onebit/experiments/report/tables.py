"""Render tables and heat maps as HTML."""

from __future__ import annotations

import math
import re
from html import escape

from onebit.experiments.report import Badge, Cell, Column, HeatMap, Number, Table, style

_LONG = 60  # characters; longer cells are not narrowed on small screens
_WIDE = 10  # heat maps with at least this many columns have narrow ones
_LONG_NUMBER = 30  # longer cells of numbers may be wrapped


def render_text(text: str) -> str:
    """Render text as HTML, with text in backticks as code.

    >>> render_text("`a<b` holds")
    '<code>a&lt;b</code> holds'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def table_html(table: Table) -> str:
    """Render a table that page.js can sort, with a tbody for each group of rows."""
    heads = bodies = ""
    for column in table.columns:
        tip = f' title="{escape(column.help)}"' if column.help else ""
        kind = _class_attribute(column.numeric)
        heads += f'<th scope="col"{kind}><button type="button"{tip}>{render_text(column.title)}'
        heads += '<span class="arrow" aria-hidden="true"></span></button></th>'
    for group, rows in table.groups.items():
        lines = [f"<tr>{''.join(map(_render_cell, cells, table.columns))}</tr>\n" for cells in rows]
        if group:
            name = f'<th scope="rowgroup" colspan="{len(table.columns)}">{render_text(group)}</th>'
            lines.insert(0, f'<tr class="group">{name}</tr>')
        bodies += f"<tbody>{''.join(lines)}</tbody>"
    note = f'<p class="note">{render_text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title or "table")}">'
        f'<table class="sortable" data-test="table"><thead><tr>{heads}</tr></thead>{bodies}</table></div>{note}'
    )


def _render_cell(cell: Cell, column: Column) -> str:
    numeric = column.numeric
    head = f' data-head="{escape(column.title.replace("`", ""))}"'  # shown beside the cell on a narrow screen
    if isinstance(cell, Number):
        value = cell.value if cell.value is not None and math.isfinite(cell.value) else ""
        interval = f' <span class="interval">{escape(cell.interval)}</span>' if cell.interval else ""
        kind = ' class="number long"' if numeric and len(cell.text) > _LONG_NUMBER else _class_attribute(numeric)
        text = escape(cell.text)
        if cell.best:
            unseen = "" if cell.text == "best" else '<span class="unseen"> (best)</span>'
            text = f'<span class="badge good best">{text}</span>{unseen}'
        return f'<td{kind}{head} data-value="{value}"><span class="cell">{text}{interval}</span></td>'
    if isinstance(cell, Badge):
        return f'<td{head}><span class="cell"><span class="badge {cell.tone}">{escape(cell.text)}</span></span></td>'
    if numeric:
        kind = ' class="number long"' if len(cell) > _LONG_NUMBER else _class_attribute(numeric)
    else:
        kind = ' class="long"' if len(cell) > _LONG else ""
    return f'<td{kind}{head}><span class="cell">{render_text(cell)}</span></td>'


def heat_map_html(heat: HeatMap) -> str:
    """Render a heat map as a table whose cells are coloured by value."""
    finite = [value for row in heat.values for value in row if value is not None and math.isfinite(value)]
    lowest, highest = (min(finite), max(finite)) if finite else (0.0, 0.0)

    def render_cell(row: int, column: int) -> str:
        value = heat.values[row][column]
        where = f"{heat.y_name} {heat.y_values[row]}, {heat.x_name} {heat.x_values[column]}: {heat.text[row][column]}"
        step = None if value is None or not math.isfinite(value) else style.heat_step(value, lowest, highest)
        colour = "none" if step is None else f"heat-{step}"
        is_best = heat.best == (row, column)
        kind, says = (f"{colour} best", '<span class="unseen"> (best)</span>') if is_best else (colour, "")
        return f'<td class="{kind}" title="{escape(where)}">{escape(heat.text[row][column])}{says}</td>'

    columns = range(len(heat.x_values))
    lines = "".join(
        f'<tr><th scope="row">{escape(value)}</th>{"".join(render_cell(row, column) for column in columns)}</tr>\n'
        for row, value in enumerate(style.format_ticks(heat.y_values))
    )
    across = "".join(f'<th scope="col">{escape(value)}</th>' for value in style.format_ticks(heat.x_values))
    kind = "heat many" if len(heat.x_values) > _WIDE else "heat"
    steps = "".join(f'<span class="heat-{step}"></span>' for step in range(len(style.HEAT)))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(heat.title)}"><table class="{kind}" data-test="heat">'
        f'<thead><tr><td></td><td class="across" colspan="{len(heat.x_values)}">{escape(heat.x_name)}</td></tr>'
        f'<tr><td class="down">{escape(heat.y_name)}</td>{across}</tr></thead><tbody>{lines}</tbody></table></div>'
        f'<div class="scale" aria-hidden="true">{lowest:.4g}<span class="steps">{steps}</span>{highest:.4g}</div>'
    )


def _class_attribute(numeric: bool) -> str:
    return ' class="number"' if numeric else ""
