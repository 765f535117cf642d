"""Pictures inside a page: drawn without a window, as SVG in the text of the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from dkdist.cli.reporting.page import paragraph
from dkdist.plain.html_text import escaped
from dkdist.plot.canvas import PAD

Draw = Callable[[Any], Any]
"""Draws on the axes that it gets: one, or a list of several."""


def picture(draw: Draw, caption: str, size: tuple[float, float] = (6.4, 4.4), n_panels: int = 1) -> str:
    """A picture with its caption; where one cannot be drawn, the reason."""
    columns = min(n_panels, 3)
    rows = -(-n_panels // columns)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD))
    grid = figure.subplots(rows, columns, squeeze=False)
    for empty in grid.flat[n_panels:]:
        figure.delaxes(empty)
    panels = list(grid.flat[:n_panels])
    try:
        draw(panels[0] if n_panels == 1 else panels)
    except ValueError as reason:
        return paragraph(f"{caption} - not drawn: {reason}", "note")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{escaped(caption)}">'
    return f"<figure>{image}<figcaption>{escaped(caption)}</figcaption></figure>"
