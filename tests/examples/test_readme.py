"""The examples of README.md, docs/your_data.md and other pages run, and give the documented results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

ROOT = Path(__file__).parents[2]
YOUR_DATA = "docs/your_data.md"


def examples(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(code, names, page):
    exec(compile(code, str(ROOT / page), "exec"), names)


@pytest.fixture
def bags(tmp_path, monkeypatch):
    """Return (sets, y) in an empty folder; label 0 lies further left, and the first set contains (0, 0) and (1, 1)."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    sets = [rng.beta(1 + label, 2, (60, 2)) for label in y]
    sets[0][:2] = [[0, 0], [1, 1]]
    return sets, y


def decimals(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+|(?<= )\d\.", text)]


def test_readme_is_short_and_begins_with_a_picture():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 700
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert all((ROOT / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)
    assert text.index(pictures[0]) < text.index("```python")


def test_readme_shows_the_output(capsys):
    (code,) = examples("README.md")
    assert len(code.strip().splitlines()) <= 10
    names = {}
    run(code, names, "README.md")
    printed = capsys.readouterr().out
    shown = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    board, rest = shown
    entry = r"^  (\S.*?)  +(-?[\d.]+) ± [\d.]+"
    scores = dict(re.findall(entry, printed, re.MULTILINE))
    shown_scores = re.findall(entry, board, re.MULTILINE)
    assert len(shown_scores) >= 5
    for name, score in shown_scores:  # other processors may select other models
        assert float(scores[name]) == pytest.approx(float(score), abs=0.05)
    assert board.splitlines()[0] == printed.splitlines()[0]
    for verdict in re.findall(r"^(Better than [^:]*):", board, re.MULTILINE):
        assert f"{verdict}: " in printed
    np.testing.assert_allclose(decimals(printed.split("[[")[1]), decimals(rest.split("[[")[1]), atol=0.1)
    assert len(names["cells"]) == 20


def test_data_frames():
    names = {}
    run(examples(YOUR_DATA)[4], names, YOUR_DATA)
    assert names["sets"].names == ("CD3", "CD4", "CD8", "CD38")
    assert names["sets"].targets["group"].tolist() == names["donors"].loc[names["sets"].ids, "group"].tolist()


def test_five_lines(bags):
    sets, y = bags
    dk.write_sets("bags.zarr", sets, targets=y)
    code, names = examples(YOUR_DATA)[1].replace("900_000", "200").replace("5000", "500"), {}
    run(code, names, YOUR_DATA)
    assert names["model"].score(names["sets"][200:], y[200:]) > 0.9


def test_default_model(bags):
    sets, y = bags
    names = {"dk": dk, "sets": dk.write_sets("bags.zarr", sets, targets=y), "y": y}
    code = examples(YOUR_DATA)[2]
    for documented, replacement in (("900_010", "210"), ("900_000", "200")):
        code = code.replace(documented, replacement)
    run(code, names, YOUR_DATA)
    assert names["model"].score(names["sets"][200:], y[200:]) > 0.9


def write_files(sets, y):
    """Write the sources of the page: three .npz files and a table of patients."""
    pandas = pytest.importorskip("pandas")
    for k in range(3):
        some = sets[10 * k : 10 * k + 10]
        np.savez(f"{k}.npz", values=np.concatenate(some), offsets=np.arange(11) * 60)
    columns = {"patient": np.repeat(np.arange(10), 60), "outcome": np.repeat(y[:10], 60)}
    points = dict(zip(("cd3", "cd4"), np.concatenate(sets[:10]).T, strict=True))
    pandas.DataFrame(columns | points).to_parquet("cells.parquet")


def test_your_data(bags):
    """Run each statement separately; statements that write the same store replace it."""
    sets, y = bags
    write_files(sets, y)
    names = {
        "dk": dk,
        "list_of_arrays": sets,
        "age": y + 30.5,
        "y": y,
        "names": [f"patient {i}" for i in range(300)],
        "batches": [(sets[:100], y[:100]), (sets[100:], y[100:])],
        "simulate": lambda seed: [np.random.default_rng(seed).normal(size=(5, 2))],
        "good": np.arange(0, 300, 2),
    }
    code = examples(YOUR_DATA)[0]
    written, streamed, *others = re.findall(r"^\S.*\n(?: +.*\n)*", code, re.MULTILINE)
    run(written, names, YOUR_DATA)
    store = dk.open_sets("bags.zarr")
    assert store.targets["age"][1] == 31.5
    assert store.ids[299] == "patient 299"
    run(streamed.replace("n_dims=2", "n_dims=2, overwrite=True"), names, YOUR_DATA)
    names["sets"] = dk.open_sets("bags.zarr")
    np.testing.assert_array_equal(names["sets"].targets["y"], y)
    files, table, simulated, compacted = others
    names["paths"] = [f"{k}.npz" for k in range(3)]
    run(files.replace("bags.zarr", "files.zarr"), names, YOUR_DATA)
    assert len(dk.open_sets("files.zarr")) == 30
    names["paths"] = ["cells.parquet"]
    run(table, names, YOUR_DATA)
    assert dk.open_sets("cells.zarr").targets["outcome"].tolist() == y[:10].tolist()
    run(simulated.replace("1000", "10"), names, YOUR_DATA)
    assert len(dk.open_sets("simulated.zarr")) == 10
    run(compacted, names, YOUR_DATA)
    np.testing.assert_array_equal(dk.open_sets("good.zarr")[3], sets[6].astype("f4"))


def test_strings():
    names = {"dk": dk}
    exec("from sklearn.pipeline import make_pipeline", names)
    run(examples(YOUR_DATA)[3], names, YOUR_DATA)
    assert names["model"].score(names["strings"][150:], names["y"][150:]) == 1.0  # as documented


def test_resumable_run(bags):
    sets, y = bags
    (code,) = examples("docs/failures.md")
    names = {"dk": dk, "y": y, "features": dk.MomentEmbedding().fit_transform(dk.write_sets("s.zarr", sets))}
    run(code, names, "docs/failures.md")
    np.testing.assert_array_equal(dk.open_features("features.zarr"), names["features"])


def test_automatic_model():
    (code,) = examples("docs/choosing.md")
    names = {}
    run(code, names, "docs/choosing.md")
    assert names["accuracy"] > 0.9


def test_evaluation_with_groups():
    (code,) = examples("docs/evaluation.md")
    names = {}
    run(code.replace("SetClassifier(", 'SetClassifier(["means"], '), names, "docs/evaluation.md")
    assert names["model"].p_value_ < 0.01  # hospitals predict the label, points within a hospital do not
    assert names["without"].p_value < 0.01
    assert names["within"].p_value > 0.05
    assert names["grouped"].p_value_ > 0.05


def test_explaining():
    (code,) = examples("docs/explaining.md")
    names = {}
    run(code, names, "docs/explaining.md")
    assert names["found"] > 0.8  # chance level is 0.08
    assert names["matters"][2] < 0.5 * names["matters"][:2].min()
    assert names["witness"][0] > 0 > names["witness"][1]
    assert [len(c) for c in names["points"]] == [len(x) for x in names["new"]]


def test_plots():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    (code,) = examples("docs/plots.md")
    names = {}
    run(code, names, "docs/plots.md")
    assert len(pyplot.get_fignums()) == 7
    assert names["ax"].has_data()


def test_the_example_of_the_landing_page_runs():
    (code,) = examples("docs/index.md")
    names = {}
    run(code, names, "docs/index.md")
    assert names["model"].score(names["sets"][60:], names["y"][60:]) > 0.7


def test_all_pages_with_examples_are_tested():
    tested = {
        "adding_an_embedding",
        "choosing",
        "clusters",
        "command_line",
        "dashboard",
        "dask",
        "distances",
        "evaluation",
        "explaining",
        "failures",
        "format",
        "frames",
        "guarantees",
        "index",
        "inputs",
        "kernel",
        "mathematics",
        "plots",
        "scikit-learn",
        "storage",
        "studies",
        "survival",
        "tables",
        "your_data",
    }
    assert {page.stem for page in (ROOT / "docs").glob("*.md") if examples(page)} == tested
