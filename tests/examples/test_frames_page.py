"""The examples of docs/frames.md run in order."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "frames.md"


def examples():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore")  # warnings of anndata itself
def test_examples_of_annotated_files_run(tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    anndata.settings.allow_write_nullable_strings = True
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate(("cells", "site_a", "site_b")):
        counts = np.random.default_rng(k).poisson(1, (60, 3)).astype("f4")
        donor = np.repeat([f"{name}{i}" for i in range(6)], 10)
        obs = pd.DataFrame({"donor": donor, "disease": np.arange(60) // 30, "batch": "x"})
        adata = anndata.AnnData(obs=obs.set_axis(obs.index.astype(str)), layers={"counts": counts})
        adata.var_names, adata.obsm["X_pca"] = ["CD3E", "CD4", "MS4A1"], counts[:, :2]
        adata.write_h5ad(f"{name}.h5ad")
    names = {}
    exec(
        "import dkdist as dk" + "\n".join(["", *(code for code in examples() if "import_anndata" in code)]),
        names,
    )
    assert (len(names["studied"]), names["studied"].names) == (6, ("X_pca_0", "X_pca_1"))
    assert (len(names["sites"]), names["sites"].names) == (12, ("CD3E", "CD4", "MS4A1"))


def test_examples_run():
    rng = np.random.default_rng(0)
    ids, outcome = [f"p{i:02d}" for i in range(30)], np.arange(30) % 2
    rows = [
        pd.DataFrame({"donor": i, "cd3": rng.normal(2 * c, 1, 20)}) for i, c in zip(ids, outcome, strict=True)
    ]
    cells = pd.concat(rows).assign(cd4=rng.normal(size=600)).sample(frac=1, random_state=0)
    donors = pd.DataFrame({"outcome": outcome, "age": rng.normal(50, 9, 30)}, index=ids).sample(
        frac=1, random_state=1
    )
    names = {"cells": cells, "donors": donors}
    for code in examples():
        if "import_anndata" in code:
            continue
        exec(compile(code, str(PAGE), "exec"), names)
    assert names["model"].score(names["sets"], names["sets"].targets["outcome"]) > 0.9
