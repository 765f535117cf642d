"""Dask dashboard: annotations of runs, the page /dkdist with loss curves, and performance reports.

Annotations of tasks carry the span of a run and the number of blocks per task. A scheduler plugin collects reported
losses and counts finished blocks; the page shows both. A scheduler in the user's own process, such as that of a
LocalCluster, gets the page with the first run. Any other scheduler gets it on request:

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

from dkdist._runtime._tuning import HEARTBEAT_GRACE_SECONDS, MAX_CURVE_POINTS, MAX_SPANS
from dkdist._runtime.progress import ANNOTATION, EVENT_TOPIC, Progress


@contextmanager
def write_performance_report(file: str | None) -> Iterator[None]:
    """Write Dask's performance report (HTML) of the ``with`` block to a file, or none if it is None.

    ValueError if the folder of the file does not exist; ImportError if the scheduler has no bokeh.
    """
    if file is None:
        yield
        return
    if Path(file).is_dir() or not Path(file).parent.is_dir():
        raise ValueError(f"the report must be a file in an existing directory; got {file}.")
    try:
        get_client().run_on_scheduler(version, "bokeh")
    except ImportError as error:
        raise ImportError(
            "the performance report requires bokeh on the scheduler. Run pip install 'dkdist[dashboard]' there."
        ) from error
    with performance_report(file):
        yield


PAGE_NAME = "dkdist"
MAX_CURVES = 8  # more colours could not be distinguished (tests/dashboard/test_curves.py)


@dataclass
class LossCurve:
    """Losses of one run: evenly spaced reports and the latest, each (blocks processed, loss, held-out loss, epochs)."""

    what: str
    latest: tuple[int, float, float, float]
    reports: list[tuple[int, float, float, float]] = field(default_factory=list)
    n_reports: int = 0
    stride: int = 1

    def add(self, report: tuple[int, float, float, float]) -> None:
        """Add a report; for a long run only every ``stride``-th report is stored."""
        self.latest = report
        if self.n_reports % self.stride == 0:
            self.reports.append(report)
        self.n_reports += 1
        if len(self.reports) > MAX_CURVE_POINTS:
            self.stride *= 2
            del self.reports[1::2]


class Curves:
    """Loss curves of the last runs, and the number of finished blocks by stage."""

    def __init__(self) -> None:
        self.runs: OrderedDict[str, LossCurve] = OrderedDict()
        self.blocks: Counter[str] = Counter()

    def report(self, event: Mapping[str, Any]) -> None:
        """Add an event of `report_loss`."""
        report = int(event["blocks"]), float(event["loss"]), float(event["held_out"]), float(event["epochs"])
        self.runs.setdefault(str(event["run"]), LossCurve(str(event["what"]), report)).add(report)
        if len(self.runs) > MAX_CURVES:
            self.runs.popitem(last=False)


class CurvesPage(SchedulerPlugin):
    """Scheduler plugin that adds the page to its dashboard; RuntimeError if the scheduler has none."""

    name = "dkdist-curves"
    idempotent = True

    def __init__(self) -> None:
        self.curves = Curves()

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page, with the events that were reported before."""
        add_page(scheduler, self.curves)
        self.scheduler = scheduler
        for _, event in scheduler.get_events(EVENT_TOPIC):
            self.curves.report(event)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Count the blocks of a finished task; called for every task of the cluster."""
        if start != "processing" or finish != "memory":
            return
        task = self.scheduler.tasks[key]
        stage = (task.annotations or {}).get(ANNOTATION)
        # keys with a negative number are initial states of folds
        if stage and task.prefix.name == stage["stage"] and key[1] >= 0:
            self.curves.blocks[stage["stage"]] += stage["blocks"]

    def log_event(self, topic: str, msg: Any) -> None:
        """Add an event of `report_loss`."""
        if topic == EVENT_TOPIC:
            self.curves.report(msg)


def has_dashboard(scheduler: Scheduler) -> bool:
    """Return whether the scheduler serves Bokeh pages."""
    return any(hasattr(app, "app_paths") for app in scheduler.http_application.applications)


def add_page(scheduler: Scheduler, curves: Curves) -> None:
    """Serve the page next to Dask's pages, under the same prefix and with a link on each of them."""
    if not has_dashboard(scheduler):
        raise RuntimeError(
            "this scheduler has no dashboard to add a page to. Install bokeh on its host (pip install "
            "'dkdist[dashboard]') and start it with a dashboard address."
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
    line_style: dict[str, Any] = {"line_color": "color", "line_width": 2}
    plot.multi_line("xs", "ys", source=sources[0], legend_field="name", **line_style)
    plot.multi_line("xs", "ys", source=sources[1], line_dash="dashed", **line_style)
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
    doc.add_periodic_callback(update, 1000)  # interval in milliseconds
    doc.title, doc.template, doc.theme = "dkdist", env.get_template("simple.html"), BOKEH_THEME
    doc.template_variables.update(extra)
    doc.add_root(column(plot, row(tables), sizing_mode="stretch_both"))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return an HTML table; texts are escaped, since any client of the cluster can send events."""
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><tr><th>{'</th><th>'.join(head)}</th></tr>{lines}</table>"


def add_page_to_local_scheduler(client: Any) -> None:
    """Add the page if the client's scheduler is in this process and has a dashboard."""
    scheduler = getattr(client.cluster, "scheduler", None)
    if isinstance(scheduler, Scheduler) and has_dashboard(scheduler):
        client.sync(dask_setup, scheduler)  # on the event loop that client and scheduler share


async def dask_setup(scheduler: Scheduler) -> None:
    """Add the page once; called by ``dask scheduler --preload dkdist._runtime.dashboard``."""
    if CurvesPage.name not in scheduler.plugins:
        plugin = CurvesPage()
        await plugin.start(scheduler)
        scheduler.add_plugin(plugin)


SPAN_NAME = "dkdist"


@contextmanager
def annotate_run(client: Any, name: str, blocks_per_task: float, progress: Progress | None) -> Iterator[None]:
    """Annotate the tasks submitted inside the ``with`` block as a run, whose tasks called ``name`` are counted."""
    add_page_to_local_scheduler(client)
    try:
        with (
            annotate(span=_span_annotation(client.id, name, progress)),
            annotate_stage(name, blocks_per_task),
        ):
            yield
    finally:
        with suppress(Exception):  # the scheduler is lost or does not run functions
            if client.status == "running":
                client.run_on_scheduler(forget_old_spans)


def annotate_stage(name: str, blocks_per_task: float) -> Any:
    """Return a context in which each task called ``name`` counts as ``blocks_per_task`` blocks."""
    return annotate(**{ANNOTATION: {"stage": name, "blocks": blocks_per_task}})


def _span_annotation(client_id: str, stage: str, progress: Progress | None) -> dict[str, tuple[str, ...]]:
    """Return the annotation of ``distributed.span``, with one id for all graphs of a run.

    ``span`` itself creates an id for every graph, hundreds for a long run. All runs of a client are spans below one
    span "dkdist", which is below the user's span, if any.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN_NAME, client_id, *outer["ids"]))))
    label, run_id = (stage, str(uuid.uuid4())) if progress is None else (progress.label, progress.run_id)
    return {"name": (*outer["name"], SPAN_NAME, label), "ids": (*outer["ids"], root, run_id)}


def forget_old_spans(dask_scheduler: Any) -> None:
    """Forget all but the last `MAX_SPANS` spans of this library, unless tasks or workers still refer to them.

    Dask stores every span and its task groups until the scheduler ends, which would fill its memory in months.
    """
    extension = dask_scheduler.extensions.get("spans")
    if extension is None:
        return
    spans = [span for span in extension.spans.values() if span.name[-2:-1] == (SPAN_NAME,)]
    oldest_heartbeat = min(
        (worker.last_seen for worker in dask_scheduler.workers.values()), default=float("inf")
    )
    for span in spans[:-MAX_SPANS]:
        is_used = span.children or any(group.name in dask_scheduler.task_groups for group in span.groups)
        if not is_used and span.done and span.stop + HEARTBEAT_GRACE_SECONDS < oldest_heartbeat:
            _forget_span(extension, span)
            root = span.parent
            if root is not None and not root.children and not root.groups:
                _forget_span(extension, root)


def _forget_span(extension: Any, span: Any) -> None:
    """Remove a span without children from all of Dask's indexes."""
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
