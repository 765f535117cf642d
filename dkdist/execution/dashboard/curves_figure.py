"""What the page /dkdist draws: loss against blocks, blocks per second against time, and both as numbers."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Sequence
from typing import Any

from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, NumeralTickFormatter
from bokeh.models.widgets import Div
from bokeh.palettes import Category10
from bokeh.plotting import figure
from distributed.dashboard.components import add_periodic_callback
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from distributed.utils import color_of

from dkdist.execution.dashboard.curves import Curves, LossCurve

EVERY = 1000  # milliseconds
COLOURS = Category10[8]


def curves_doc(curves: Curves, scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """Fill a new document of the page."""
    page = _Page(curves)
    page.update()
    add_periodic_callback(doc, page, EVERY)
    doc.title = "dkdist"
    doc.add_root(page.root)
    doc.template = env.get_template("simple.html")
    doc.template_variables.update(extra)
    doc.theme = BOKEH_THEME


class _Page:
    """Two figures with many lines each, and two tables; all replaced by what the curves are now."""

    def __init__(self, curves: Curves) -> None:
        self.curves = curves
        self.losses, self.held_out, self.rates = (
            ColumnDataSource({name: [] for name in ("xs", "ys", "color", "name")}) for _ in range(3)
        )
        self.tables = [Div(sizing_mode="stretch_width") for _ in range(2)]
        losses = _figure("Loss (dashed: of the rows held out)")
        losses.xaxis.axis_label, losses.yaxis.axis_label = "blocks", "mean over one epoch of blocks"
        losses.xaxis.formatter = NumeralTickFormatter(format="0,0")
        _draw(losses, self.losses, legend_field="name")
        _draw(losses, self.held_out, line_dash="dashed")
        _move_legend(losses)
        rates = _figure("Throughput", x_axis_type="datetime")
        rates.y_range.start, rates.yaxis.axis_label = 0, "blocks a second, mean of 5 s"
        _draw(rates, self.rates, legend_field="name")
        _move_legend(rates)
        self.root = column(
            row(losses, rates, sizing_mode="stretch_both"),
            row(*self.tables, sizing_mode="stretch_width"),
            sizing_mode="stretch_both",
        )

    def update(self) -> None:
        """Draw the curves as they are."""
        runs = list(self.curves.runs.values())
        names = [f"{i}: {run.what}" for i, run in enumerate(runs, 1)]
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(runs))]
        for i, source in ((1, self.losses), (2, self.held_out)):
            source.data = {
                "xs": [[point[0] for point in run.points] for run in runs],
                "ys": [[point[i] for point in run.points] for run in runs],
                "color": colours,
                "name": names,
            }
        rows = [(name, *_numbers(run)) for name, run in zip(names, runs, strict=True)]
        self.tables[0].text = _table(("run", "epochs", "blocks", "loss", "held out"), rows)
        self._update_rates(time.time())

    def _update_rates(self, now: float) -> None:
        series = {stage: rate.series(now) for stage, rate in self.curves.rates.items()}
        recent = {stage: pair for stage, pair in series.items() if pair[0]}
        self.rates.data = {
            "xs": [[1000 * second for second in seconds] for seconds, _ in recent.values()],
            "ys": [rates for _, rates in recent.values()],
            "color": [color_of(stage) for stage in recent],  # as in Dask's own pictures
            "name": list(recent),
        }
        rows = [
            (stage, f"{self.curves.rates[stage].total:,.0f}", f"{rates[-1] if rates else 0.0:.3g}")
            for stage, (_, rates) in series.items()
        ]
        self.tables[1].text = _table(("stage", "blocks done", "blocks a second"), rows)


def _figure(title: str, **kind: Any) -> Any:
    return figure(
        title=title, sizing_mode="stretch_both", min_height=300, tools="pan,wheel_zoom,reset,save", **kind
    )


def _draw(plot: Any, source: ColumnDataSource, **options: Any) -> None:
    plot.multi_line("xs", "ys", line_color="color", line_width=2, source=source, **options)


def _move_legend(plot: Any) -> None:
    """Below the picture, where it hides no line."""
    plot.legend.ncols, plot.legend.location = 3, "top_left"
    plot.add_layout(plot.legend[0], "below")


def _numbers(run: LossCurve) -> tuple[str, ...]:
    blocks, loss, held_out = run.latest
    shown = "" if math.isnan(held_out) else f"{held_out:.5g}"
    return f"{run.epochs:.2f}", f"{blocks:,}", f"{loss:.5g}", shown


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """An HTML table; any client of a cluster may send an event, so every text is escaped."""

    def line(tag: str, texts: tuple[str, ...]) -> str:
        style = "padding: 0 1em 0 0; text-align: left"
        return f"<tr>{''.join(f'<{tag} style={style!r}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', one) for one in rows)}</table>"
