"""Dask dashboard: spans of runs, the page /dkdist with their state and losses, and performance reports.

Clients send the events of their runs to the scheduler, where a plugin stores the last ones for the page. A scheduler in
the user's own process, such as that of a LocalCluster, gets the page with the first run. Any other scheduler gets it on
request:

    dask scheduler --preload dkdist._runtime.dashboard
    client.register_plugin(CurvesPage())
"""

from __future__ import annotations

import html
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from dask.base import annotate, get_annotations
from distributed import Scheduler, get_client, performance_report
from distributed.diagnostics.plugin import SchedulerPlugin

from dkdist._runtime._tuning import (
    CONNECTION_TIMEOUT_SECONDS,
    HEARTBEAT_GRACE_SECONDS,
    MAX_CURVE_POINTS,
    MAX_SHOWN_RUNS,
    MAX_SPANS,
    MIN_EVENT_SECONDS,
)
from dkdist._runtime.progress import Progress, RunEvent


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


EVENT_TOPIC = "dkdist"  # topic of the events of runs
PAGE_NAME = "dkdist"
MAX_CURVES = 8  # more colours could not be distinguished (tests/dashboard/test_curves.py)


@dataclass(frozen=True)
class EventSender:
    """Listener that sends events to the scheduler of a client; the last event arrives before the run returns."""

    client: Any
    interval = MIN_EVENT_SECONDS

    def update(self, event: RunEvent) -> None:
        """Send an event; errors are ignored, since a lost scheduler must not end a run."""
        with suppress(Exception):
            if self.client.status != "running":
                return
            if event.is_over:
                timeout = CONNECTION_TIMEOUT_SECONDS
                self.client.sync(self._send, asdict(event), callback_timeout=timeout)
            else:
                self.client.loop.add_callback(self._send, asdict(event))

    async def _send(self, message: dict[str, Any]) -> None:
        with suppress(Exception):
            await self.client.scheduler.log_event(topic=EVENT_TOPIC, msg=message)


@dataclass
class RunRecord:
    """Latest event of a run, and evenly spaced events with a loss."""

    latest: RunEvent
    losses: list[RunEvent] = field(default_factory=list)
    n_losses: int = 0
    stride: int = 1

    def add(self, event: RunEvent) -> None:
        """Add an event; for a long run only every ``stride``-th loss is stored."""
        self.latest = event
        if event.loss is None:
            return
        if self.n_losses % self.stride == 0:
            self.losses.append(event)
        self.n_losses += 1
        if len(self.losses) > MAX_CURVE_POINTS:
            self.stride *= 2
            del self.losses[1::2]


class Runs(OrderedDict[str, RunRecord]):
    """Records of the last runs by id, at most `MAX_CURVES` with losses and `MAX_SHOWN_RUNS` in total."""

    def add(self, message: Mapping[str, Any]) -> None:
        """Add a message of an `EventSender`; messages that arrive after the last event of a run are ignored."""
        event = RunEvent(**{name: message[name] for name in RunEvent.__dataclass_fields__})
        if event.run not in self:
            self[event.run] = RunRecord(event)
        elif self[event.run].latest.is_over:
            return
        self[event.run].add(event)
        trained = self.trained()
        if len(trained) > MAX_CURVES:
            del self[next(iter(trained))]
        if len(self) > MAX_SHOWN_RUNS:
            self.popitem(last=False)

    def trained(self) -> dict[str, RunRecord]:
        """Return the records with losses."""
        return {run: record for run, record in self.items() if record.losses}


class CurvesPage(SchedulerPlugin):
    """Scheduler plugin that adds the page to its dashboard; RuntimeError if the scheduler has none."""

    name = "dkdist-curves"
    idempotent = True

    def __init__(self) -> None:
        self.runs = Runs()

    async def start(self, scheduler: Scheduler) -> None:
        """Add the page, with the events that were sent before."""
        add_page(scheduler, self.runs)
        for _, message in scheduler.get_events(EVENT_TOPIC):
            self.runs.add(message)

    def log_event(self, topic: str, msg: Any) -> None:
        """Add a message of an `EventSender`."""
        if topic == EVENT_TOPIC:
            self.runs.add(msg)


def has_dashboard(scheduler: Scheduler) -> bool:
    """Return whether the scheduler serves Bokeh pages."""
    return any(hasattr(app, "app_paths") for app in scheduler.http_application.applications)


def add_page(scheduler: Scheduler, runs: Runs) -> None:
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
    pages = {f"/{PAGE_NAME}": partial(runs_doc, runs)}
    application = BokehApplication(pages, scheduler, prefix=first.prefix, template_variables=variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def runs_doc(runs: Runs, scheduler: Any, extra: dict[str, Any], doc: Any) -> None:
    """Fill a new document: losses as lines and all runs as a table, updated every second."""
    from bokeh.layouts import column
    from bokeh.models import ColumnDataSource
    from bokeh.models.widgets import Div
    from bokeh.palettes import Category10
    from bokeh.plotting import figure
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    plot = figure(title="Loss (dashed: held-out rows)", x_axis_label="epochs", sizing_mode="stretch_both")
    sources = [ColumnDataSource({name: [] for name in ("xs", "ys", "color", "name")}) for _ in range(2)]
    line_style: dict[str, Any] = {"line_color": "color", "line_width": 2}
    plot.multi_line("xs", "ys", source=sources[0], legend_field="name", **line_style)
    plot.multi_line("xs", "ys", source=sources[1], line_dash="dashed", **line_style)
    table = Div()

    def update() -> None:
        names = {run: f"{i}: {record.latest.stage}" for i, (run, record) in enumerate(runs.items(), 1)}
        trained = runs.trained()
        lines = [[*record.losses, record.latest] for record in trained.values()]
        for source, loss in zip(sources, ("loss", "held_out"), strict=True):
            source.data = {
                "xs": [[event.epochs for event in line] for line in lines],
                "ys": [[getattr(event, loss) for event in line] for line in lines],
                "color": Category10[MAX_CURVES][: len(lines)],
                "name": [names[run] for run in trained],
            }
        table.text = _table([(names[run], *_cells(record.latest)) for run, record in runs.items()])

    update()
    doc.add_periodic_callback(update, 1000)  # interval in milliseconds
    doc.title, doc.template, doc.theme = "dkdist", env.get_template("simple.html"), BOKEH_THEME
    doc.template_variables.update(extra)
    doc.add_root(column(plot, table, sizing_mode="stretch_both"))


COLUMNS = (
    "run",
    "state",
    "done",
    "total",
    "",
    "seconds",
    "remaining",
    "epoch",
    "loss",
    "held out",
    "skipped sets",
)


def _cells(event: RunEvent) -> list[str]:
    """Return the texts of a row of the table after the name of the run."""
    figures = event.remaining_seconds, event.epochs, event.loss, event.held_out
    return [
        event.state, f"{event.done:,}", f"{event.total:,}", event.unit, f"{event.seconds:,.1f}",
        *("" if value is None else f"{value:,.6g}" for value in figures), f"{event.n_skipped:,}",
    ]  # fmt: skip


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; texts are escaped, since any client of the cluster can send events."""
    lines = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><tr><th>{'</th><th>'.join(COLUMNS)}</th></tr>{lines}</table>"


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
_n_runs_by_client: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


@contextmanager
def annotate_run(client: Any, progress: Progress) -> Iterator[None]:
    """Annotate the tasks submitted inside the ``with`` block as a run, and send its events to the scheduler."""
    n_runs = _n_runs_by_client[client] = _n_runs_by_client.get(client, 0) + 1
    if n_runs == 1:
        add_page_to_local_scheduler(client)
    progress.attach(EventSender(client))
    try:
        with annotate(span=_span_annotation(client.id, progress)):
            yield
    finally:
        if n_runs % MAX_SPANS == 1:  # not after every run: the scheduler logs each call
            with suppress(Exception):  # the scheduler is lost or does not run functions
                if client.status == "running":
                    client.run_on_scheduler(forget_old_spans)


def _span_annotation(client_id: str, progress: Progress) -> dict[str, tuple[str, ...]]:
    """Return the annotation of ``distributed.span``, with one id for all graphs of a run.

    ``span`` itself creates an id for every graph, hundreds for a long run. All runs of a client are spans below one
    span "dkdist", which is below the user's span, if any.
    """
    outer = get_annotations().get("span", {"name": (), "ids": ()})
    root = str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join((SPAN_NAME, client_id, *outer["ids"]))))
    event = progress.event
    return {"name": (*outer["name"], SPAN_NAME, event.stage), "ids": (*outer["ids"], root, event.run)}


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
