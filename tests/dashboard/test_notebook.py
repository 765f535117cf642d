"""The output of a notebook cell, and so a saved notebook, has the plan and the last state of the run."""

from __future__ import annotations

import re
import textwrap

import pytest

from dashboard.models import BLOCK_SETS, N_BLOCKS

pytestmark = pytest.mark.network

FIT = """
    import dkdist as dk
    from dashboard.models import local_client, sgd
    sets = dk.open_sets({store!r}, block_sets={block_sets})
    model = sgd(n_epochs=6, verbose=True).fit(sets, sets.targets["y"])
    model[-1].loss_curve_[-1]
"""
ON_A_CLUSTER = """
    with local_client(1, 2):
        model = sgd(n_epochs=6, verbose=True).fit(sets, sets.targets["y"])
    model[-1].loss_curve_[-1]
"""


def test_notebook_cell_keeps_one_line_of_progress(store, request):
    nbformat = pytest.importorskip("nbformat", reason="nbclient is missing: pip install 'dkdist[network]'")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is missing: pip install 'dkdist[network]'")
    pytest.importorskip("ipykernel", reason="ipykernel is missing: pip install 'dkdist[network]'")
    fit = FIT.format(store=str(store), block_sets=BLOCK_SETS)
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(code)) for code in (fit, ON_A_CLUSTER)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    folder = {"metadata": {"path": str(request.path.parents[1])}}
    nbclient.NotebookClient(notebook, timeout=60, resources=folder).execute()
    for cell in notebook.cells:
        plan, progress, loss = cell.outputs
        assert plan.name == "stderr"
        assert plan.text.startswith("fit IncrementalSGDClassifier: 300 rows in 15 blocks")
        assert plan.text.count("\n") == 1
        assert sorted(progress.data) == ["text/html", "text/plain"]
        assert progress.data["text/plain"].startswith(
            f"fit IncrementalSGDClassifier: {6 * N_BLOCKS} blocks in "
        )
        html, loss = (
            progress.data["text/html"],
            float(re.search(r"[\d.]+\b(?=\)?$)", loss.data["text/plain"])[0]),
        )
        assert html.startswith('<progress value="1.000"></progress> fit IncrementalSGDClassifier: ')
        assert html.endswith(f", epoch 6, loss {loss:.6g}")
