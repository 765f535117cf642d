"""What a cluster's dashboard calls a run: a span ("dkdist", what) for it, and which tasks stand for its blocks.

Both travel as annotations of the tasks, with the graph itself: names and numbers. All runs of a client are spans below
one span "dkdist", which itself is below the user's own span where there is one. Dask keeps every span and its groups of
tasks for as long as the scheduler lives, so that one that serves runs for months would fill up: at the end of every run
the scheduler forgets all but the last of them.

Dask's performance report of a run on a cluster: task stream, progress, profiles and logs in one HTML file.

The page /dkdist of a Dask dashboard: loss curves and blocks done, while the cluster works.

A scheduler plugin collects the losses that tasks report and counts the blocks that they finish; the page draws both.
A scheduler in the user's own process (a LocalCluster, say) gets the page with the first run. A scheduler elsewhere gets
it only on request, in either of two ways:

    dask scheduler --preload dkdist._runtime.dashboard
    client.register_plugin(CurvesPage())
"""

from __future__ import annotations

import html
import uuid
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dask.base import annotate, get_annotations
from distributed import Scheduler, get_client, performance_report
from distributed.diagnostics.plugin import SchedulerPlugin

from dkdist._runtime.progress import ANNOTATION, EVENT_TOPIC, Progress


@contextmanager
def write_performance_report(file: str | None) -> Iterator[None]:
    """Write the report of what the active client runs inside the ``with``; None for none.

    Refused before anything runs if the file could not be written, or the scheduler has no bokeh to draw it with.
    """
    if file is None:
        yield
        return
    if Path(file).is_dir() or not Path(file).parent.is_dir():
        raise ValueError(f"{file} cannot be written: expected a file in a directory that is there")
    try:
        get_client().run_on_scheduler(version, "bokeh")
    except ImportError as error:
        raise ImportError(
            "the scheduler draws the report with bokeh, which it does not have: pip install 'dkdist[dashboard]' there"
        ) from error
    with performance_report(file):
        yield


PAGE_NAME = "dkdist"
MAX_CURVE_POINTS = 1000  # of a curve
MAX_CURVES = 8  # the longest palette with distinct colours has as many


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
        if len(self.reports) > MAX_CURVE_POINTS:
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
        if len(self.runs) > MAX_CURVES:
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
        for _, event in scheduler.get_events(EVENT_TOPIC):
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
        if topic == EVENT_TOPIC:
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
    if PAGE_NAME not in variables["pages"]:
        variables["pages"].append(PAGE_NAME)
    pages = {f"/{PAGE_NAME}": partial(curves_doc, curves)}
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
                "color": Category10[MAX_CURVES][: len(runs)],
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


def add_page_to_local_scheduler(client: Any) -> None:
    """Add the page where the client's scheduler lives in this process and has a dashboard; else do nothing."""
    scheduler = getattr(client.cluster, "scheduler", None)
    if isinstance(scheduler, Scheduler) and has_dashboard(scheduler):
        client.sync(dask_setup, scheduler)  # on the loop that both run on


async def dask_setup(scheduler: Scheduler) -> None:
    """Add the page, once; what ``dask scheduler --preload dkdist._runtime.dashboard`` calls."""
    if CurvesPage.name not in scheduler.plugins:
        plugin = CurvesPage()
        await plugin.start(scheduler)
        scheduler.add_plugin(plugin)


SPAN_NAME = "dkdist"
MAX_SPANS = 64  # runs
HEARTBEAT_GRACE_SECONDS = 60.0  # seconds in which a worker may still report: a heartbeat that tells of a span that is gone would fail


@contextmanager
def annotate_run(client: Any, name: str, blocks_a_task: float, progress: Progress | None) -> Iterator[None]:
    """Name the tasks that ``client`` is given inside the ``with``: a run, counted by its tasks called ``name``."""

    add_page_to_local_scheduler(client)
    try:
        with annotate(span=_span_annotation(client.id, name, progress)), annotate_stage(name, blocks_a_task):
            yield
    finally:
        with suppress(Exception):  # a scheduler that is gone, or runs no functions, remembers what it likes
            if client.status == "running":
                client.run_on_scheduler(forget_old_spans)


def annotate_stage(name: str, blocks_a_task: float) -> Any:
    """A context in which tasks called ``name`` are each counted as so many blocks."""
    return annotate(**{ANNOTATION: {"stage": name, "blocks": blocks_a_task}})


def _span_annotation(client_id: str, stage: str, progress: Progress | None) -> dict[str, tuple[str, ...]]:
    """The annotation that ``distributed.span`` makes, with one id for all graphs of a run.

    ``span`` itself would make a new one for every graph, hundreds for a long run.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN_NAME, client_id, *outer["ids"]))))
    what, run = (stage, str(uuid.uuid4())) if progress is None else (progress.label, progress.run_id)
    return {"name": (*outer["name"], SPAN_NAME, what), "ids": (*outer["ids"], root, run)}


def forget_old_spans(dask_scheduler: Any) -> None:
    """Forget our spans but the last `MAX_SPANS`: those whose tasks are forgotten and of which no worker will still tell."""
    extension = dask_scheduler.extensions.get("spans")
    if extension is None:
        return
    ours = [span for span in extension.spans.values() if span.name[-2:-1] == (SPAN_NAME,)]
    heard = min((worker.last_seen for worker in dask_scheduler.workers.values()), default=float("inf"))
    for span in ours[:-MAX_SPANS]:
        known = any(group.name in dask_scheduler.task_groups for group in span.groups)
        if not span.children and not known and span.done and span.stop + HEARTBEAT_GRACE_SECONDS < heard:
            _forget_span(extension, span)
            root = span.parent
            if root is not None and not root.children and not root.groups:
                _forget_span(extension, root)


def _forget_span(extension: Any, span: Any) -> None:
    """Take a span without children out of all of Dask's indexes."""
    del extension.spans[span.id]
    for index, keys in (
        (extension.spans_search_by_name, [span.name]),
        (extension.spans_search_by_tag, span.name),
    ):
        for key in keys:
            index[key].remove(span)
            if not index[key]:
                del index[key]
    (extension.root_spans if span.parent is None else span.parent.children).remove(span)
