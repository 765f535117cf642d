"""The page /dkdist of a Dask dashboard: loss curves and blocks done, while the cluster works.

A scheduler plugin collects the losses that tasks report and counts the blocks that they finish; the page draws both.
A scheduler in the user's own process (a LocalCluster, say) gets the page with the first run. A scheduler elsewhere gets
it only on request, in either of two ways:

    dask scheduler --preload dkdist.execution.dashboard.curves_page
    client.register_plugin(CurvesPage())
"""

from __future__ import annotations

import html
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dkdist.execution.progress import ANNOTATION, TOPIC

PAGE = "dkdist"
MOST_POINTS = 1000  # of a curve
MOST_RUNS = 8  # the longest palette with distinct colours has as many


@dataclass
class LossCurve:
    """Losses of one run: evenly spaced reports and the latest, each (blocks used, loss, held-out loss, epochs)."""

    what: str
    latest: tuple[int, float, float, float]
    reports: list[tuple[int, float, float, float]] = field(default_factory=list)
    n_reports: int = 0
    stride: int = 1

    def add(self, report: tuple[int, float, float, float]) -> None:
        """Add a report; a long run keeps only every ``stride``-th."""
        self.latest = report
        if self.n_reports % self.stride == 0:
            self.reports.append(report)
        self.n_reports += 1
        if len(self.reports) > MOST_POINTS:
            self.stride *= 2
            del self.reports[1::2]


class Curves:
    """Loss curves of the last runs, and how many blocks each stage has finished."""

    def __init__(self) -> None:
        self.runs: OrderedDict[str, LossCurve] = OrderedDict()
        self.blocks: Counter[str] = Counter()

    def report(self, event: Mapping[str, Any]) -> None:
        """Take one event of `report_loss`."""
        report = int(event["blocks"]), float(event["loss"]), float(event["held_out"]), float(event["epochs"])
        self.runs.setdefault(str(event["run"]), LossCurve(str(event["what"]), report)).add(report)
        if len(self.runs) > MOST_RUNS:
            self.runs.popitem(last=False)


class CurvesPage(SchedulerPlugin):
    """Adds the page to the dashboard of the scheduler that it is registered with; RuntimeError if it has none."""

    name = "dkdist-curves"
    idempotent = True

    def __init__(self) -> None:
        self.curves = Curves()

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page, and take what was reported before it was there."""
        add_page(scheduler, self.curves)
        self.scheduler = scheduler
        for _, event in scheduler.get_events(TOPIC):
            self.curves.report(event)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Count the blocks of a task that is done; called for every task of the cluster."""
        if start != "processing" or finish != "memory":
            return
        task = self.scheduler.tasks[key]
        ours = (task.annotations or {}).get(ANNOTATION)
        if (
            ours and task.prefix.name == ours["stage"] and key[1] >= 0
        ):  # the initial state of a fold is no step
            self.curves.blocks[ours["stage"]] += ours["blocks"]

    def log_event(self, topic: str, msg: Any) -> None:
        """Take a report of ours."""
        if topic == TOPIC:
            self.curves.report(msg)


def has_dashboard(scheduler: Scheduler) -> bool:
    """Whether the scheduler serves Bokeh's pages."""
    return any(hasattr(app, "app_paths") for app in scheduler.http_application.applications)


def add_page(scheduler: Scheduler, curves: Curves) -> None:
    """Serve the page beside Dask's own, under the same prefix and with a link on all of them."""
    if not has_dashboard(scheduler):
        raise RuntimeError(
            "this scheduler has no dashboard to add a page to: install bokeh where it runs "
            "(pip install 'dkdist[dashboard]') and start it with a dashboard address"
        )
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    first = next(app for app in scheduler.http_application.applications if hasattr(app, "app_paths"))
    variables = template_variables(scheduler)
    if PAGE not in variables["pages"]:
        variables["pages"].append(PAGE)
    pages = {f"/{PAGE}": partial(curves_doc, curves)}
    application = BokehApplication(pages, scheduler, prefix=first.prefix, template_variables=variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def curves_doc(curves: Curves, scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """Fill a new document: losses as lines, losses and blocks as tables, updated every second."""
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource
    from bokeh.models.widgets import Div
    from bokeh.palettes import Category10
    from bokeh.plotting import figure
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    plot = figure(title="Loss (dashed: held-out rows)", x_axis_label="blocks", sizing_mode="stretch_both")
    sources = [ColumnDataSource({name: [] for name in ("xs", "ys", "color", "name")}) for _ in range(2)]
    look: dict[str, Any] = {"line_color": "color", "line_width": 2}
    plot.multi_line("xs", "ys", source=sources[0], legend_field="name", **look)
    plot.multi_line("xs", "ys", source=sources[1], line_dash="dashed", **look)
    tables = [Div(), Div()]

    def update() -> None:
        runs = {f"{i}: {run.what}": run for i, run in enumerate(curves.runs.values(), 1)}
        lines = [tuple(zip(*run.reports, run.latest, strict=True)) for run in runs.values()]
        for source, held_out in zip(sources, (False, True), strict=True):
            xs, ys = [line[0] for line in lines], [line[1 + held_out] for line in lines]
            source.data = {
                "xs": xs,
                "ys": ys,
                "color": Category10[MOST_RUNS][: len(runs)],
                "name": list(runs),
            }
        rows = [(name, *(f"{value:,.5g}" for value in run.latest[1:])) for name, run in runs.items()]
        tables[0].text = _table(("run", "loss", "held out", "epochs"), rows)
        tables[1].text = _table(
            ("stage", "blocks"), [(name, f"{n:,.0f}") for name, n in curves.blocks.items()]
        )

    update()
    doc.add_periodic_callback(update, 1000)  # milliseconds
    doc.title, doc.template, doc.theme = "dkdist", env.get_template("simple.html"), BOKEH_THEME
    doc.template_variables.update(extra)
    doc.add_root(column(plot, row(tables), sizing_mode="stretch_both"))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """An HTML table; any client of a cluster may send an event, so every text is escaped."""
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><tr><th>{'</th><th>'.join(head)}</th></tr>{lines}</table>"


def add_to_own(client: Any) -> None:
    """Add the page where the client's scheduler lives in this process and has a dashboard; else do nothing."""
    scheduler = getattr(client.cluster, "scheduler", None)
    if isinstance(scheduler, Scheduler) and has_dashboard(scheduler):
        client.sync(dask_setup, scheduler)  # on the loop that both run on


async def dask_setup(scheduler: Scheduler) -> None:
    """Add the page, once; what ``dask scheduler --preload dkdist.execution.dashboard.curves_page`` calls."""
    if CurvesPage.name not in scheduler.plugins:
        plugin = CurvesPage()
        await plugin.start(scheduler)
        scheduler.add_plugin(plugin)
