"""The page /dkdist of a Dask dashboard: loss curves and blocks per second, while the cluster works.

A scheduler's plugin collects what tasks report and counts what they finish; the page draws it. It is there by itself
where the scheduler lives in the user's own process (a LocalCluster, say). A scheduler elsewhere gets no plugin of
ours unless its owner asks for it, once, in either of two ways:

    dask scheduler --preload dkdist.execution.dashboard.curves_page
    client.register_plugin(CurvesPage())
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from distributed import Scheduler
from distributed.diagnostics.plugin import SchedulerPlugin

from dkdist.execution.dashboard.curves import Curves
from dkdist.execution.progress import ANNOTATION, TOPIC

PAGE = "dkdist"


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
            self.curves.reported(event)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Count the blocks of a task that is done; called for every task of the cluster."""
        if start != "processing" or finish != "memory":
            return
        task = self.scheduler.tasks[key]
        ours = (task.annotations or {}).get(ANNOTATION)
        if ours and task.prefix.name == ours["stage"] and key[1] >= 0:  # what a fold starts from is no step
            self.curves.finished(ours["stage"], ours["blocks"], time.time())

    def log_event(self, topic: str, msg: Any) -> None:
        """Take a report of ours."""
        if topic == TOPIC:
            self.curves.reported(msg)


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

    from dkdist.execution.dashboard.curves_figure import curves_doc

    first = next(app for app in scheduler.http_application.applications if hasattr(app, "app_paths"))
    variables = template_variables(scheduler)
    if PAGE not in variables["pages"]:
        variables["pages"].append(PAGE)
    pages = {f"/{PAGE}": partial(curves_doc, curves)}
    application = BokehApplication(pages, scheduler, prefix=first.prefix, template_variables=variables)
    scheduler.http_application.add_application(application)
    application.initialize(IOLoop.current())
    application.start()


def add_to_own(client: Any) -> None:
    """Add the page where the client's scheduler lives in this process and has a dashboard; else do nothing."""
    scheduler = getattr(client.cluster, "scheduler", None)
    if (
        isinstance(scheduler, Scheduler)
        and CurvesPage.name not in scheduler.plugins
        and has_dashboard(scheduler)
    ):
        client.sync(dask_setup, scheduler)  # on the loop that both run on


async def dask_setup(scheduler: Scheduler) -> None:
    """Add the page, once; what ``dask scheduler --preload dkdist.execution.dashboard.curves_page`` calls."""
    if CurvesPage.name not in scheduler.plugins:
        plugin = CurvesPage()
        await plugin.start(scheduler)
        scheduler.add_plugin(plugin)
