"""A report in a real browser: all images are drawn, without network requests or console messages."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import main

pytestmark = pytest.mark.network

CHROMIUM = shutil.which("chromium")
HOSTILE = "<script>document.title = 'taken'</script>"


@pytest.fixture
def report(tmp_path):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 2, HOSTILE, "plain")
    store = dk.write_sets(tmp_path / "s.zarr", [rng.normal(i % 2, 1, (15, 2)) for i in range(40)], targets=y)
    model = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidgeClassifier(random_state=0)).fit(store, y)
    dk.save_model(model, tmp_path / "m.npz")
    page = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "m.npz"), str(tmp_path / "s.zarr"), "--output", str(page)]) == 0
    return page


def test_a_report_is_drawn_without_requests_or_messages(report):
    if CHROMIUM is None:
        pytest.skip("no browser: chromium is not installed (apt install chromium)")
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install 'dkdist[network]'"
    )
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        text, requested = [], []
        page.on("console", lambda message: text.append(message.text))
        page.on("pageerror", lambda error: text.append(str(error)))
        page.on("request", lambda request: requested.append(request.url.partition(":")[0]))
        page.goto(report.as_uri())
        images_drawn = page.evaluate(
            "[...document.images].map(image => image.complete && image.naturalWidth > 0)"
        )
        wide = page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        title = page.title()
        visible = page.get_by_role("cell", name=f"recall of {HOSTILE}").is_visible()
        browser.close()
    assert images_drawn == [True] * 5
    assert text == []
    assert set(requested) <= {"file", "data"}
    assert (title, wide, visible) == ("m.npz: y", True, True)
