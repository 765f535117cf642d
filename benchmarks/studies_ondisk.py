"""From an h5ad file to an honest score, in bounded memory: seconds and peak memory of each stage.

    python benchmarks/studies_ondisk.py                          # 1,000 donors x 5,000 cells x 30 columns, dense
    python benchmarks/studies_ondisk.py --layout csr             # sparse X; also --layout gzip, dense and compressed
    python benchmarks/studies_ondisk.py --adjacent               # cells of a donor follow each other
    python benchmarks/studies_ondisk.py --backed                 # pass anndata.read_h5ad(path, backed="r")

The file is written block by block with anndata's own encodings. Donors differ by shifts of all columns; 3 % of the
cells of diseased donors, but 1 % of the others, are of another type. A new process imports the file with
`import_anndata`, without reading it whole, and fits `SetClassifier`, whose score is that of outer folds. The peak is
VmHWM of that process, including Python and all libraries. An AnnData object of such a file, even if backed, holds the
names of all cells, so that opening it takes more time and memory than the import. Requires anndata. Seeds below 100
were used during development.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import options, peak, start_report, write

import dkdist as dk

BLOCK_CELLS = 2**17
RARE_FRACTIONS = 0.01, 0.03  # of healthy and diseased donors


def write_file(
    path: Path, n_donors: int, n_cells: int, d: int, seed: int, layout: str, adjacent: bool
) -> None:
    """Write an h5ad file of n_donors * n_cells cells; one block is in memory."""
    import anndata
    import h5py
    import pandas as pd

    anndata.settings.allow_write_nullable_strings = True
    rng = np.random.default_rng(seed)
    disease = rng.permutation(n_donors) % 2
    total, shifts = n_donors * n_cells, rng.normal(0, 0.5, (n_donors, d)).astype("f4")
    donors = np.repeat(np.arange(n_donors, dtype=np.int32), n_cells)
    donors = donors if adjacent else rng.permutation(donors)
    codes = pd.Categorical.from_codes(donors, [f"D{i:04d}" for i in range(n_donors)])
    obs = pd.DataFrame({"donor": codes, "disease": disease[donors]}, index=np.arange(total).astype(str))
    var = pd.DataFrame(index=[f"PC{j}" for j in range(d)])
    anndata.AnnData(obs=obs, var=var).write_h5ad(path)
    del obs
    with h5py.File(path, "r+") as file:
        blocks = (
            _cells(rng, donors[a : a + BLOCK_CELLS], shifts, disease) for a in range(0, total, BLOCK_CELLS)
        )
        if layout == "csr":
            _write_sparse(file.create_group("X"), blocks, total, d)
            return
        X = file.create_dataset(
            "X",
            (total, d),
            "f4",
            chunks=(2**14, d) if layout == "gzip" else None,
            compression="gzip" if layout == "gzip" else None,
        )
        X.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
        for k, block in enumerate(blocks):
            X[k * BLOCK_CELLS : k * BLOCK_CELLS + len(block)] = block


def _cells(rng: Any, donors: Any, shifts: Any, disease: Any) -> Any:
    x = rng.standard_normal((len(donors), shifts.shape[1]), dtype="f4") + shifts[donors]
    is_rare = rng.random(len(donors)) < np.take(RARE_FRACTIONS, disease[donors])
    x[is_rare, :3] += 3
    return x


def _write_sparse(group: Any, blocks: Any, total: int, d: int) -> None:
    """Write the positive values as CSR, block by block."""
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [total, d]})
    data = group.create_dataset("data", (0,), "f4", maxshape=(None,), chunks=(2**18,))
    indices = group.create_dataset("indices", (0,), "i4", maxshape=(None,), chunks=(2**18,))
    indptr = np.zeros(total + 1, np.int64)
    row = 0
    for block in blocks:
        rows, columns = np.nonzero(block > 0)
        start = len(data)
        for array, values in ((data, block[rows, columns]), (indices, columns)):
            array.resize((start + len(rows),))
            array[start:] = values
        indptr[row + 1 : row + 1 + len(block)] = start + np.cumsum(np.bincount(rows, minlength=len(block)))
        row += len(block)
    group["indptr"] = indptr


def measure(path: Path, store: Path, seed: int, backed: bool) -> dict[str, Any]:
    """Import the file and fit a classifier; return seconds, peak memory and scores."""
    start = time.perf_counter()
    if backed:
        import anndata

        adata = anndata.read_h5ad(path, backed="r")
        sets = dk.import_anndata(store, adata, "donor", targets=["disease"])
        del adata
    else:
        sets = dk.import_anndata(store, path, "donor", targets=["disease"])
    imported, import_peak = time.perf_counter() - start, peak()
    model = dk.SetClassifier(random_state=seed).fit(sets, sets.targets["disease"])
    total = time.perf_counter() - start
    print(model.summary())
    return {
        "sets": len(sets),
        "points": sets.n_points,
        "dimensions": sets.n_dims,
        "import_seconds": round(imported, 1),
        "import_peak_mb": round(import_peak),
        "total_seconds": round(total, 1),
        "peak_mb": round(peak()),
        "best": [{key: row[key] for key in ("name", "score", "std_error")} for row in model.leaderboard_[:3]],
    }


def main() -> None:
    parser = options(__doc__, "20 donors x 50 cells x 4 columns")
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--layout", choices=["dense", "gzip", "csr"], default="dense")
    parser.add_argument("--adjacent", action="store_true", help="cells of a donor follow each other")
    parser.add_argument("--backed", action="store_true", help="import a backed AnnData object")
    parser.add_argument("--donors", type=int, default=1000)
    parser.add_argument("--cells", type=int, default=5000, help="cells of each donor")
    arguments = parser.parse_args()
    n_donors, n_cells, d = (20, 50, 4) if arguments.quick else (arguments.donors, arguments.cells, 30)
    report = start_report()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cells.h5ad"
        write_file(path, n_donors, n_cells, d, arguments.seed, arguments.layout, arguments.adjacent)
        report["file_mb"] = round(path.stat().st_size / 1e6)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            job = executor.submit(measure, path, Path(name) / "s.zarr", arguments.seed, arguments.backed)
            report |= job.result()
    for key, value in report.items():
        print(f"{key:16} {value}")
    write(arguments.output, report)


if __name__ == "__main__":
    main()
