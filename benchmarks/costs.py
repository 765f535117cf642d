"""What `dkdist plan` says that a fit takes, beside what it takes: seconds of the processors on one thread, on the clock
on all.

    python benchmarks/costs.py [--quick] [--output results.json]

Each fit is planned and run as commands are, in this process: a store on the disk is read, looked at, fitted, with all
loops compiled before. Times are the least of several runs; `found` over `planned` should lie within a fifth of 1.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
from common import alternately, options, report_here, write
from speed import mixture_sets
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist.cli import main as command

JS = ["--divergence", "jensen-shannon", "--n-basis", "10", "--bandwidth", "0.06"]
SGD = ["--learner", "sgd", "--epochs"]
FITS: dict[str, tuple[int, int, int, list[str]]] = {
    # sets, points a set, dimensions, options
    "sgd, Jensen-Shannon, D = 5000, 3 epochs": (65_536, 200, 2, [*JS, "--features", "5000", *SGD, "3"]),
    "sgd, the defaults, 5 epochs": (65_536, 200, 2, ["--bandwidth", "0.05", *SGD, "5"]),
    "sgd, sets of 2,000 points, 3 epochs": (8_192, 2_000, 2, [*JS, *SGD, "3"]),
    "sgd, one dimension, D = 5000, 3 epochs": (65_536, 200, 1, [*JS, "--features", "5000", *SGD, "3"]),
    "ridge on the embedding": (65_536, 200, 2, [*JS, "--features", "0"]),
    "ridge, D = 2000": (65_536, 200, 2, [*JS, "--features", "2000"]),
    "ridge, D = 2000, one alpha": (65_536, 200, 2, [*JS, "--alpha", "0.1"]),
}


def told(*arguments: str) -> str:
    """What a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if command(list(arguments)):
            raise RuntimeError(f"dkdist {' '.join(arguments)} failed")
    return out.getvalue()


def compare(name: str, folder: Path, quick: bool) -> list[dict[str, Any]]:
    n_sets, points, d, asked = FITS[name]
    path, rows = str(folder / "sets.zarr"), []
    n_sets = n_sets // 16 if quick else n_sets
    dk.write_sets(path, mixture_sets(n_sets, points, d), targets=np.arange(n_sets) % 2, overwrite=True)
    fit = ["fit", path, "--target", "y", "--model", str(folder / "model.npz"), "--overwrite", *asked]
    told(*fit)  # compiles
    for threads, clock in ((1, time.process_time), (2, time.perf_counter)):
        with dask.config.set(num_workers=threads), threadpool_limits(threads):
            planned = json.loads(told("plan", path, "--target", "y", *asked, "--json"))["seconds"]["all"]
            seconds, _ = alternately([lambda: told(*fit)], 1 if quick else 3, clock)
        found = float(seconds.min())
        row = {"fit": name, "threads": threads, "planned": planned, "found": found, "ratio": found / planned}
        print(f"{name:<42} {threads:>7} {planned:>9.2f} {found:>7.2f} {found / planned:>6.2f}", flush=True)
        rows.append(row)
    return rows


def main() -> None:
    args = options(__doc__).parse_args()
    figures = report_here()
    print(f"{'fit':<42} {'threads':>7} {'planned':>9} {'found':>7} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for name in FITS for row in compare(name, Path(folder), args.quick)]
    write(args.output, figures | {"rows": rows})


if __name__ == "__main__":
    main()
