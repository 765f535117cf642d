"""Texts: summaries of columns, small HTML tables for notebooks and reports, and JSON from untrusted sources."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._utils._tuning import MAX_CELL_CHARACTERS, MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_LISTED_CLASSES


def column_text(values: NDArray[Any]) -> str:
    """Summarize a column: its dtype, and its range or classes.

    Examples
    --------
    >>> column_text(np.array([2, 1, 2])), column_text(np.array([0.5, 2.0]))
    ('int64, 2 classes: 1 (1), 2 (2)', 'float64, 0.5 to 2')
    """
    dtype = dtype_text(values.dtype)
    if values.ndim > 1:
        return f"{dtype}, {values.shape[1]} columns"
    if len(values) == 0:
        return f"{dtype}, none"
    if values.dtype.kind not in "biufU":
        return f"{dtype}, {len(values):,} values"
    if values.dtype.kind == "f":
        return f"{dtype}, {values.min():.6g} to {values.max():.6g}"
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) > MAX_LISTED_CLASSES:
        return f"{dtype}, {len(classes):,} distinct values, {classes[0]} to {classes[-1]}"
    class_counts = ", ".join(f"{c} ({n:,})" for c, n in zip(classes, counts, strict=True))
    return f"{dtype}, {len(classes)} classes: {class_counts}"


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, or "text"."""
    return "text" if dtype.kind == "U" else str(dtype)


def sizes_text(sizes: NDArray[Any]) -> str:
    """Return the minimum, maximum and median number of points per set.

    Examples
    --------
    >>> sizes_text(np.array([3, 1200, 40]))
    '3 to 1,200 (median 40)'
    """
    if len(sizes) == 0:
        return "none"
    return f"{sizes.min():,} to {sizes.max():,} (median {np.median(sizes):,.0f})"


def numbers_text(values: NDArray[Any], max_numbers: int = 6) -> str:
    """Return the first numbers of a vector with six significant digits.

    Examples
    --------
    >>> numbers_text(np.array([1.5, 2e9, 0.25]), max_numbers=2)
    '1.5, 2e+09, ...'
    """
    text = ", ".join(f"{v:.6g}" for v in values[:max_numbers].tolist())
    return f"{text}, ..." if len(values) > max_numbers else text


LEFT_STYLE, RIGHT_STYLE = "text-align:left;vertical-align:top", "text-align:right"


def escape_html(value: object) -> str:
    """Return the text of a value escaped for HTML; unpaired surrogates are replaced."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def truncate(value: object) -> str:
    """Return the text of a value, truncated to the length of a table cell."""
    text = str(value)
    return text if len(text) <= MAX_CELL_CHARACTERS else f"{text[:MAX_CELL_CHARACTERS]}..."


def key_value_table(title: object, pairs: Iterable[tuple[object, object]]) -> str:
    """Return an HTML table with a title and one name and value per row.

    Examples
    --------
    >>> print(key_value_table("sets", [("points", 12), ("names", "<b>")]))
    <div><strong>sets</strong><table><tbody>
    <tr><th style="text-align:left;vertical-align:top">points</th><td style="text-align:left;...">12</td></tr>
    <tr><th style="text-align:left;vertical-align:top">names</th><td style="text-align:left;...">&lt;b&gt;</td></tr>
    </tbody></table></div>
    """
    lines = [
        f'<tr><th style="{LEFT_STYLE}">{_cell(name)}</th><td style="{LEFT_STYLE}">{_cell(value)}</td></tr>'
        for name, value in pairs
    ]
    return _table(title, ["<tbody>", *lines, "</tbody>"])


def html_table(
    title: object, columns: Sequence[object], rows: Iterable[Sequence[object]], n_text: int = 1
) -> str:
    """Return an HTML table with a title and column names; columns after the first ``n_text`` are numbers.

    Examples
    --------
    >>> print(html_table("", ["name", "size"], [("a", 3)]))
    <div><table><thead><tr><th style="text-align:left;...">name</th><th style="text-align:right">size</th></tr></thead>
    <tbody>
    <tr><td style="text-align:left;vertical-align:top">a</td><td style="text-align:right">3</td></tr>
    </tbody></table></div>
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        styles = [LEFT_STYLE if j < n_text else RIGHT_STYLE for j in range(len(cells))]
        inner = [f'<{tag} style="{s}">{_cell(c)}</{tag}>' for s, c in zip(styles, cells, strict=True)]
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{line('th', columns)}</thead>"
    return _table(title, [head, "<tbody>", *(line("td", row) for row in rows), "</tbody>"])


def _table(title: object, lines: Sequence[str]) -> str:
    head = f"<strong>{_cell(title)}</strong>" if str(title) else ""
    first, *middle, last = lines
    return "\n".join([f"<div>{head}<table>{first}", *middle, f"{last}</table></div>"])


def _cell(value: object) -> str:
    return escape_html(truncate(value))


def read_json(text: bytes, keys: Mapping[str, type]) -> dict[str, Any]:
    """Parse a JSON object whose values under ``keys`` have these types; ValueError for anything else."""
    if len(text) > MAX_JSON_BYTES:
        raise ValueError(f"its JSON text must have at most {MAX_JSON_BYTES} bytes; got {len(text)}")
    try:
        value = json.loads(text.decode())
    except RecursionError:
        raise ValueError(f"its JSON text must have at most {MAX_JSON_DEPTH} nested levels") from None
    _require_shallow(value)
    if not isinstance(value, dict):
        raise ValueError(f"its JSON text must be an object; got a {type(value).__name__}")
    for key, expected in keys.items():
        if type(value.get(key)) is not expected:
            raise ValueError(
                f"{key!r} of its JSON text must be a {expected.__name__}; got {value.get(key)!r:.80}"
            )
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"its JSON text must have at most {MAX_JSON_DEPTH} nested levels")
