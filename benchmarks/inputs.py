"""Memory and time of a fit on lazy collections of other libraries, compared with a store of the same sets.

    python benchmarks/inputs.py                      # 20,000 sets of 100 points in the plane
    python benchmarks/inputs.py --sets 200000

Each kind runs in a separate process: moments of degree 2 and ridge regression from Zarr arrays on disk, in chunks of
2,000 sets. The peak is VmHWM of /proc/self/status. The exit status is 1 if the peak of a kind is more than 1.2 times
that of the store.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import numpy as np
import zarr
from common import options, start_report, write
from sklearn.pipeline import make_pipeline

import dkdist as dk

N_POINTS, CHUNK_SETS = 100, 2000
MAX_RATIO = 1.2


def _make_data(folder: Path, n_sets: int) -> None:
    rng = np.random.default_rng(0)
    shape = (n_sets, N_POINTS, 2)
    stacked = zarr.create_array(
        f"{folder}/stacked", shape=shape, chunks=(CHUNK_SETS, N_POINTS, 2), dtype="f4"
    )
    rows = n_sets * N_POINTS, 2
    flat = zarr.create_array(f"{folder}/flat", shape=rows, chunks=(CHUNK_SETS * N_POINTS + 7, 2), dtype="f4")
    with dk.SetWriter(folder / "store", n_dims=2) as writer:
        for start in range(0, n_sets, CHUNK_SETS):
            points = rng.standard_normal((CHUNK_SETS, N_POINTS, 2)).astype("f4")
            stacked[start : start + CHUNK_SETS] = points
            flat[start * N_POINTS : (start + CHUNK_SETS) * N_POINTS] = points.reshape(-1, 2)
            writer.append(points)


def _read_partition(path: str, start: int) -> list[Any]:
    return list(zarr.open_array(path, mode="r")[start : start + CHUNK_SETS])


def _delayed_parts(folder: Path) -> list[Any]:
    path, n_sets = f"{folder}/stacked", zarr.open_array(f"{folder}/stacked", mode="r").shape[0]
    return [dask.delayed(_read_partition)(path, start) for start in range(0, n_sets, CHUNK_SETS)]


def _offsets(folder: Path) -> Any:
    return np.arange(0, zarr.open_array(f"{folder}/flat", mode="r").shape[0] + 1, N_POINTS)


def _xarray(folder: Path) -> Any:
    import xarray as xr

    return xr.DataArray(da.from_zarr(f"{folder}/stacked"), dims=("set", "point", "column"))


KINDS: dict[str, Callable[[Path], Any]] = {
    "store": lambda folder: dk.open_sets(folder / "store"),
    "Zarr (N, n, d)": lambda folder: dk.as_sets(zarr.open_array(f"{folder}/stacked", mode="r")),
    "Zarr (T, d)": lambda folder: dk.as_sets(zarr.open_array(f"{folder}/flat", mode="r"), _offsets(folder)),
    "Dask (N, n, d)": lambda folder: dk.as_sets(da.from_zarr(f"{folder}/stacked")),
    "Dask (T, d)": lambda folder: dk.as_sets(da.from_zarr(f"{folder}/flat"), _offsets(folder)),
    "xarray": lambda folder: dk.as_sets(_xarray(folder)),
    "bag": lambda folder: dk.as_sets(db.from_delayed(_delayed_parts(folder))),
}


def _fit(kind: str, folder: Path) -> None:
    """Fit a model, and print its seconds and the peak memory of this process in kB."""
    sets = KINDS[kind](folder)
    y = np.random.default_rng(1).standard_normal(len(sets))
    started = time.perf_counter()
    model = make_pipeline(dk.MomentEmbedding(degree=2), dk.IncrementalRidge(alphas=[1.0])).fit(sets, y)
    seconds = time.perf_counter() - started
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    print(seconds, peak, float(np.abs(model[-1].coef_).sum()))


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--sets", type=int, default=20_000)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit:
        _fit(args.fit, args.folder)
        return 0
    report: dict[str, Any] = start_report()
    with tempfile.TemporaryDirectory() as name:
        _make_data(Path(name), 2 * CHUNK_SETS if args.quick else args.sets)
        for kind in KINDS:
            command = [sys.executable, __file__, "--fit", kind, "--folder", name]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, peak, checksum = map(float, output.split())
            report[kind] = {"seconds": seconds, "peak_mb": peak / 1000, "checksum": checksum}
            ratio = report[kind]["peak_mb"] / report["store"]["peak_mb"]
            print(
                f"{kind:16} {seconds:6.2f} s   peak {peak / 1000:6.0f} MB   {ratio:.2f} of the store   "
                f"sum of |coef_| {checksum:.6f}"
            )
    write(args.output, report)
    return int(max(report[kind]["peak_mb"] for kind in KINDS) > MAX_RATIO * report["store"]["peak_mb"])


if __name__ == "__main__":
    sys.exit(main())
