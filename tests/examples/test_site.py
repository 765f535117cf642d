"""All tutorials run, and the site lists all public names and pages."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder

import dkdist as dk

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))


def tutorial(name, monkeypatch):
    """Run a tutorial and return its variables."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    try:
        return runpy.run_path(str(DOCS / "tutorials" / f"{name}.py"))
    finally:
        plt.close("all")
        plt.switch_backend(backend)


def test_data_frame(monkeypatch, capsys):
    names = tutorial("01_data_frame", monkeypatch)
    sets, donors = names["sets"], names["donors"]
    assert sets.targets["age"].tolist() == donors.loc[sets.ids, "age"].tolist()
    cells, means = re.findall(r"accuracy (0\.\d+), five", capsys.readouterr().out)
    assert float(cells) > float(means) + 0.1  # as documented


def test_covariates(monkeypatch, capsys):
    tutorial("02_covariates", monkeypatch)
    adjusted, cells, age, both = map(float, re.findall(r"R² (-?0\.\d+)", capsys.readouterr().out))
    assert max(cells, age) + 0.2 < min(both, adjusted)


@pytest.mark.parametrize("page", ["tutorials/02_covariates.py", "frames.md"])
def test_text_columns_with_an_embedding(page):
    rng = np.random.default_rng(0)
    hospital = rng.choice(["north", "south"], 40)
    sets = [rng.normal(h == "north", 1, (20, 2)) for h in hospital]
    sets = dk.SampleSets.from_arrays(sets, targets={"hospital": hospital})
    name, options = re.search(r"`(OneHotEncoder)\b(.*?)`", (DOCS / page).read_text()).groups()
    encoder = eval(name + (options or "()"), {"OneHotEncoder": OneHotEncoder})
    union = make_union(dk.MomentEmbedding(), make_pipeline(dk.SetColumns(["hospital"]), encoder))
    model = make_pipeline(union, dk.IncrementalRidgeClassifier()).fit(sets, hospital)
    assert model.score(sets, hospital) == 1


def test_trailing_underscores_are_not_escaped(tmp_path):
    """Build one class with the settings of the site, without the slow pages."""
    (tmp_path / "index.rst").write_text("Test\n====\n\n.. autoclass:: dkdist.IncrementalRidgeClassifier\n")
    command = [
        sys.executable, "-m", "sphinx", "-q", "-c", str(DOCS), "-d", str(tmp_path / "doctrees"), "-b", "text",
        "-D", "extensions=sphinx.ext.autodoc,sphinx.ext.napoleon", str(tmp_path), str(tmp_path / "out"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, cwd=DOCS)
    text = (tmp_path / "out" / "index.txt").read_text()
    assert re.search(r"^ *classes_", text, re.MULTILINE)
    assert "\\_" not in text


def test_which_cells(monkeypatch):
    names = tutorial("03_which_cells", monkeypatch)
    assert names["test_result"].p_value < 0.01
    markers = dict(zip(names["sets"].names, names["top_cells"].mean(axis=0), strict=True))
    assert markers["CD4"] < 1
    assert min(markers[name] for name in ("CD3", "CD8", "CD38")) > 3  # active killer cells
    assert np.abs(names["importances"]).mean(axis=0).argmax() == 3  # CD38


def test_images(monkeypatch):
    names = tutorial("04_images", monkeypatch)
    assert names["model"].score(names["sets"][names["test"]], names["y"][names["test"]]) > 0.98


def test_series_and_strings(monkeypatch, capsys):
    tutorial("05_series_and_strings", monkeypatch)
    assert min(map(float, re.findall(r"folds: (\d\.\d+)", capsys.readouterr().out))) > 0.9


def test_shapes(monkeypatch):
    names = tutorial("06_shapes", monkeypatch)
    assert names["alignment"].distance < names["alignment"].distance_before / 2
    near, far = (
        dk.kernel_distance(names["first"], names["shapes"][name], sigma=0.2)
        for name in ("three, drawn again", "five lobes")
    )
    assert near < far / 2


PAGES_AND_PROCESSES = """
import os, urllib.request
base = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
for page in ("status", "tasks", "dkdist"):
    with urllib.request.urlopen(f"{base}/{page}", timeout=10) as answer:
        print(answer.status, page)
print(len({os.getpid(), *client.run(os.getpid).values()}), "processes")
"""


@pytest.mark.network
def test_cluster(tmp_path):
    """Execute the notebook that the site offers, on two worker processes with the dashboard."""
    for module in ("bokeh", "ipykernel", "nbclient", "nbformat", "sphinx_gallery"):
        pytest.importorskip(module, reason=f"{module} is missing: pip install 'dkdist[network]'")
    import nbclient
    import nbformat
    from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
    from sphinx_gallery.notebook import jupyter_notebook
    from sphinx_gallery.py_source_parser import split_code_and_text_blocks

    _, blocks = split_code_and_text_blocks(str(DOCS / "tutorials" / "07_cluster.py"))
    content = jupyter_notebook(blocks, dict(DEFAULT_GALLERY_CONF), str(DOCS / "tutorials"))
    notebook = nbformat.reads(json.dumps(content), as_version=4)
    (closing,) = [i for i, cell in enumerate(notebook.cells) if cell.source.startswith("client.close()")]
    notebook.cells.insert(closing, nbformat.v4.new_code_cell(PAGES_AND_PROCESSES))
    folder = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=folder).execute()

    (shown,) = [cell for cell in notebook.cells if cell.source.endswith("\nclient")]
    assert "/status" in shown.outputs[-1].data["text/html"]
    printed = [
        "".join(out.text for out in cell.get("outputs", []) if "text" in out) for cell in notebook.cells
    ]
    assert printed[closing].splitlines()[-4:] == ["200 status", "200 tasks", "200 dkdist", "3 processes"]
    task_names = printed[closing - 2].split()
    (accuracy,) = [text for text in printed if "bit-identical" in text]
    assert "bit-identical: True" in accuracy
    error, spread = map(float, re.search(r"error: ([\d.]+); of a constant: ([\d.]+)", accuracy).groups())
    assert error < 0.7 * spread
    table = re.findall(r"^\| (`.*?) \|", (DOCS / "dashboard.md").read_text(), re.MULTILINE)
    documented = [name for row in table for name in re.findall(r"`([\w.]+)`", row)]
    patterns = [re.escape(name).replace(re.escape("..."), r"\w+") for name in documented]
    assert len(task_names) >= 5
    assert [name for name in task_names if not re.fullmatch("|".join(patterns), name)] == []


def test_million_sets(monkeypatch):
    names = tutorial("08_million_sets", monkeypatch)
    assert names["error"] < 0.7 * names["y"][3600:].std()


@pytest.mark.filterwarnings("ignore")  # warnings of anndata itself
def test_donors_from_h5ad(monkeypatch, capsys):
    pytest.importorskip("anndata", reason="anndata is not installed: pip install 'dkdist[single-cell]'")
    names = tutorial("10_donors_from_h5ad", monkeypatch)
    assert names["sets"].n_points == len(names["cells"])
    measured, centred = map(float, re.findall(r"new batches (0\.\d+)", capsys.readouterr().out))
    assert measured + 0.2 < centred


def test_cytometry(monkeypatch):
    names = tutorial("11_cytometry", monkeypatch)
    simulated = dict(zip(names["simulated"].ids, names["simulated"], strict=True))
    assert names["sets"].ids.tolist() == sorted(simulated)
    # the simulated noise of the detectors has a standard deviation of 20, and the scale a slope of at most 1 / 150
    for donor, points in zip(names["sets"].ids, names["sets"], strict=True):
        assert np.abs(points - simulated[donor]).max() < 8 * 20 / 150
    accuracy = names["model"].score(names["held_out"], names["diagnosis"][names["test"]])
    assert accuracy > 0.7


def test_survival(monkeypatch):
    names = tutorial("09_survival", monkeypatch)
    assert names["model"].score(names["new"], names["y_new"]) > 0.65  # 0.5 by chance, standard error 0.03
    assert np.corrcoef(names["risk"], names["active_fraction"][140:])[0, 1] > 0.7
    active = (names["points"][:, [0, 2]] > 1.5).all(axis=1)
    assert names["contributions"][active].mean() > names["contributions"][~active].mean()


def test_all_tutorials_are_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {re.sub(r"^\d+_", "", path.stem) for path in TUTORIALS} <= tested


def test_reference_lists_all_public_names():
    listed = re.findall(r"^   ([\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    public = {name for name in dk.__all__ if not inspect.ismodule(getattr(dk, name))}
    for module in (dk.datasets, dk.plot):
        public |= {f"{module.__name__}.{name}".removeprefix("dkdist.") for name in module.__all__}
    assert sorted(listed) == sorted(public)


def test_index_lists_all_pages():
    listed = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert {name for name in listed if "/" not in name} == pages
