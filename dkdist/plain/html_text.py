"""Small tables in HTML, for notebooks and reports: whatever text comes in is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

MOST_CHARACTERS = 300  # of one cell: names come from files, and may be as long as these
LEFT, RIGHT = "text-align:left;vertical-align:top", "text-align:right"


def escaped(value: object) -> str:
    """The text of anything, as HTML that shows it: no tag, no quote of an attribute, no half of a character."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def shortened(value: object) -> str:
    """The text of anything, without its end where that would fill the page."""
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def pairs_table(title: object, pairs: Iterable[tuple[object, object]]) -> str:
    """A title, and under it names with their values, one a line.

    Examples
    --------
    >>> print(pairs_table("sets", [("points", 12), ("names", "<b>")]))
    <div><strong>sets</strong><table><tbody>
    <tr><th style="text-align:left;vertical-align:top">points</th><td style="text-align:left;...">12</td></tr>
    <tr><th style="text-align:left;vertical-align:top">names</th><td style="text-align:left;...">&lt;b&gt;</td></tr>
    </tbody></table></div>
    """
    lines = [
        f'<tr><th style="{LEFT}">{_cell(name)}</th><td style="{LEFT}">{_cell(value)}</td></tr>'
        for name, value in pairs
    ]
    return _table(title, ["<tbody>", *lines, "</tbody>"])


def grid_table(
    title: object, columns: Sequence[object], rows: Iterable[Sequence[object]], n_text: int = 1
) -> str:
    """A title, and under it rows with the names of their columns; after the first ``n_text`` they are numbers.

    Examples
    --------
    >>> print(grid_table("", ["name", "size"], [("a", 3)]))
    <div><table><thead><tr><th style="text-align:left;...">name</th><th style="text-align:right">size</th></tr></thead>
    <tbody>
    <tr><td style="text-align:left;vertical-align:top">a</td><td style="text-align:right">3</td></tr>
    </tbody></table></div>
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        styles = [LEFT if j < n_text else RIGHT for j in range(len(cells))]
        inner = [f'<{tag} style="{s}">{_cell(c)}</{tag}>' for s, c in zip(styles, cells, strict=True)]
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{line('th', columns)}</thead>"
    return _table(title, [head, "<tbody>", *(line("td", row) for row in rows), "</tbody>"])


def _table(title: object, lines: Sequence[str]) -> str:
    head = f"<strong>{_cell(title)}</strong>" if str(title) else ""
    first, *others, last = lines
    return "\n".join([f"<div>{head}<table>{first}", *others, f"{last}</table></div>"])


def _cell(value: object) -> str:
    return escaped(shortened(value))
