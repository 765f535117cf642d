"""Pages in a browser during a fit: Dask's pages with stages of dkdist, and the page of curves."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.utils import color_of

from dashboard.models import sgd

pytestmark = pytest.mark.network

CHROMIUM = shutil.which("chromium")
BROWSER_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
BROWSER_OPTIONS += ["--disable-component-update", "--disable-sync"]

# Workers start, load compiled code, and share the processors with the browser.
TIMEOUT_MS = 90_000  # milliseconds

# the columns of all data sources of the page
COLUMNS = """name => Bokeh.documents.flatMap(document => [...document._all_models.values()])
    .filter(model => model.type === "ColumnDataSource" && name in model.data)
    .flatMap(model => Array.from(model.data[name]))"""
POINTS = """() => Math.max(0, ...Bokeh.documents.flatMap(document => [...document._all_models.values()])
    .filter(model => model.type === "ColumnDataSource" && "xs" in model.data
        && model.data.name.some(name => name.includes("fit IncrementalSGDClassifier")))
    .map(model => model.data.xs[0].length))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no browser: chromium is not installed (apt install chromium)")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install 'dkdist[network]'"
    )
    profile = str(tmp_path_factory.mktemp("profile"))
    with api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=BROWSER_OPTIONS, viewport={"width": 1400, "height": 800}
        )
        yield context
        context.close()


@pytest.fixture(scope="module")
def live(browser, sets):
    """Yield a browser page, the dashboard's address, and the thread of a fit that runs during the tests."""
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster):
        y, model = sets.targets["y"], sgd(n_epochs=20_000, validation_fraction=0.1)

        def fit():
            X = (
                model[:-1]
                .fit(sets)
                .transform(sets)
                .map_blocks(slow_down, dtype="f4", meta=np.empty((0, 0), "f4"))
            )
            with contextlib.suppress(Exception):  # the cluster closes during the fit
                model[-1].fit(X, y)

        running = threading.Thread(target=fit)
        running.start()
        base = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
        yield SimpleNamespace(page=browser.new_page(), base=base, running=running)
        assert running.is_alive()
    running.join(30)


def wait_for_names(page, column, names):
    page.wait_for_function(
        f"names => {{ const found = ({COLUMNS})({column!r}); return names.every(name => found.includes(name)) }}",
        arg=names, timeout=TIMEOUT_MS,
    )  # fmt: skip


def slow_down(rows):
    """Return the rows after a pause, which leaves CPU time to the browser."""
    time.sleep(0.05)
    return rows


def wait_for_colour(page, file, colour):
    """Wait until a hundred pixels of the page have a colour."""
    requested = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    for _ in range(TIMEOUT_MS // 500):
        page.screenshot(path=file)
        image = np.round(255 * matplotlib.image.imread(file)[..., :3]).astype(int)
        if (np.abs(image - requested).max(axis=-1) <= 2).sum() > 100:
            return
        page.wait_for_timeout(500)
    pytest.fail(f"nothing on the page is drawn in {colour}")


def test_status_page_shows_stages_in_their_colours(live, tmp_path):
    live.page.goto(f"{live.base}/status")
    wait_for_names(live.page, "name", ["sgd_block", "sgd_step"])  # task stream
    wait_for_names(live.page, "show-name", ["sgd_block", "sgd_step"])  # progress
    for stage in ("sgd_block", "sgd_step"):
        wait_for_colour(live.page, tmp_path / "status.png", color_of(stage))


def test_page_of_curves_grows_during_the_fit(live, tmp_path):
    live.page.goto(f"{live.base}/status")
    live.page.get_by_role("link", name="dkdist", exact=False).click()
    live.page.wait_for_function(f"({POINTS})() > 1", timeout=TIMEOUT_MS)
    before = live.page.evaluate(POINTS)
    live.page.wait_for_function(f"({POINTS})() > {before + 2}", timeout=TIMEOUT_MS)
    row = live.page.locator("tr", has_text="fit IncrementalSGDClassifier").last
    assert row.is_visible()
    cells = row.locator("td").all_inner_texts()
    assert cells[1] == "running"
    assert int(cells[2].replace(",", "")) > 0  # blocks done
    wait_for_colour(live.page, tmp_path / "dkdist.png", "#1f77b4")  # the loss
