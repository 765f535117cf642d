"""HTML page of a report: one file without scripts, which embeds its figures as SVG and loads no other resources."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dkdist._utils.text import escape_html, truncate
from dkdist.plot._tuning import PAD_INCHES

STYLE = """
:root { color: #1d2733; background: #fff; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif }
body { max-width: 62rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .8rem; padding-bottom: .25rem; border-bottom: 1px solid #d5dbe1 }
.lead { font-size: 1.15rem } .note { color: #55606c; max-width: 46rem }
nav { margin: .8rem 0 0 } nav a { margin-right: 1.1rem; color: #0060a0; text-decoration: none }
nav a:hover { text-decoration: underline }
table { border-collapse: collapse; margin: .4rem 0 1.4rem; font-variant-numeric: tabular-nums }
th, td { padding: .22rem 1.4rem .22rem 0; border-bottom: 1px solid #e9edf0; overflow-wrap: anywhere; max-width: 40rem }
th { font-weight: 500; color: #55606c; white-space: nowrap }
figure { margin: 1rem 0 1.6rem } figure img { max-width: 100%; height: auto }
figcaption { color: #55606c; font-size: .93rem; max-width: 46rem }
pre { background: #f4f6f8; padding: .8rem 1rem; overflow-x: auto; font-size: .88rem; line-height: 1.45 }
@media print { nav { display: none } figure, table { break-inside: avoid } }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Section(NamedTuple):
    """Title and HTML elements of a section of the page."""

    title: str
    parts: Sequence[str]


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return the HTML of the page."""
    title = truncate(title)
    names = [section.title.lower().replace(" ", "-") for section in sections]
    links = " ".join(
        f'<a href="#{n}">{escape_html(s.title)}</a>' for n, s in zip(names, sections, strict=True)
    )
    bodies = [
        "\n".join(
            [f'<section id="{name}"><h2>{escape_html(section.title)}</h2>', *section.parts, "</section>"]
        )
        for name, section in zip(names, sections, strict=True)
    ]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape_html(title)}</title><style>{STYLE}</style></head><body>",
            f"<header><h1>{escape_html(title)}</h1><nav>{links}</nav></header><main>",
            *bodies,
            "</main></body></html>\n",
        ]
    )


def render_paragraph(text: object, kind: str = "") -> str:
    """Return a paragraph of escaped text; ``kind`` is "lead" or "note"."""
    return f'<p class="{kind}">{escape_html(text)}</p>' if kind else f"<p>{escape_html(text)}</p>"


DrawFunction = Callable[[Any], Any]
"""Function that draws on its argument: Axes, or a list of several."""


def render_figure(
    draw: DrawFunction, caption: str, size: tuple[float, float] = (6.4, 4.4), n_panels: int = 1
) -> str:
    """Return a figure with its caption, or the reason if it cannot be drawn."""
    columns = min(n_panels, 3)
    rows = -(-n_panels // columns)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=PAD_INCHES, w_pad=PAD_INCHES))
    grid = figure.subplots(rows, columns, squeeze=False)
    for empty in grid.flat[n_panels:]:
        figure.delaxes(empty)
    panels = list(grid.flat[:n_panels])
    try:
        draw(panels[0] if n_panels == 1 else panels)
    except ValueError as reason:
        return render_paragraph(f"{caption} - not drawn: {reason}", "note")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escape_html(caption)}">'
    return f"<figure>{image}<figcaption>{escape_html(caption)}</figcaption></figure>"
