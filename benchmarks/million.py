"""A million sample sets on one machine: from nothing to predictions, stage by stage.

    python benchmarks/million.py [--sets 1000000] [--compare 100000] [--workers 2] [--huge] [--folder DIR]
                                 [--output million.json]

Two-dimensional Gaussian mixtures of 1 to 10 components, 200 points each (the sets of the first experiment of
Sutherland et al. 2016); the number of components is to be found. Each stage runs on worker processes of one thread:

generate    sets drawn from seeds straight into a store, in parallel (1.6 GB for a million)
verify      every chunk read and checked
prepare     bounds and bandwidth of the embedding, sigma of the features
sgd         Jensen-Shannon embedding, D = 5000 random features, five epochs of SGD on nine tenths of the sets
ridge       the same embedding without random features, ridge regression, one pass
predict     both models on the last tenth

``--compare`` runs the same on fewer sets before; ``--huge`` embeds 200 sets of 5,000,000 points each (8 GB) after.
Memory is each process's own peak as the system counts it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Mixtures, Stages, cluster, options, peaks, report_here, rmse, sources, write
from distributed import Client

import dkdist as dk

POINTS, D, EPOCHS = 200, 5000, 5
SETS_A_SOURCE = 4096


def experiment(client: Client, n_sets: int, folder: Path) -> dict[str, Any]:
    print(f"{n_sets:,} sets of {POINTS} points")
    stages, path = Stages(n_sets), folder / f"{n_sets}.zarr"
    given = sources(n_sets, POINTS, SETS_A_SOURCE)
    sets = stages.run("generate", lambda: dk.import_sets(path, given, Mixtures(), overwrite=True))
    stages.run("verify", lambda: dk.verify_sets(path))
    y, cut = sets.targets["y"], n_sets * 9 // 10
    train, test = sets[:cut], sets[cut:]
    embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott")
    features = dk.RandomFourierFeatures(D, random_state=0)

    def prepare() -> tuple[Any, Any]:
        A = embedding.fit(train).transform(train)
        return A, features.fit(A).transform(A)

    A, Z = stages.run("prepare", prepare, 0.9)
    sgd = dk.IncrementalSGDRegressor(n_epochs=EPOCHS, random_state=0)
    stages.run("sgd", lambda: sgd.fit(Z, y[:cut]), 0.9 * EPOCHS)
    ridge = dk.IncrementalRidge(random_state=0)
    stages.run("ridge", lambda: ridge.fit(A, y[:cut]), 0.9)
    A_test = embedding.transform(test)
    Z_test = features.transform(A_test)
    found = stages.run("predict", lambda: (sgd.predict(Z_test), ridge.predict(A_test)), 0.2)
    errors = {
        "sgd": rmse(y[cut:], found[0]),
        "ridge on A": rmse(y[cut:], found[1]),
        "constant": float(y[cut:].std()),
    }
    total = sum(stages.seconds.values())
    memory = peaks(client)
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"  {'all':<10} {total:8.1f} s; store {size / 1e9:.2f} GB; peak MB {memory}")
    print(
        "  test error (RMSE of the number of components): "
        + ", ".join(f"{k} {v:.3f}" for k, v in errors.items())
    )
    return {
        "sets": n_sets,
        "seconds": stages.seconds,
        "total": total,
        "bytes": size,
        "peak_mb": memory,
        "rmse": errors,
    }


def huge(client: Client, folder: Path, n_sets: int, points: int) -> dict[str, Any]:
    print(f"{n_sets} sets of {points:,} points")
    stages, path = Stages(n_sets), folder / "huge.zarr"
    given = sources(n_sets, points, 1)
    sets = stages.run("generate", lambda: dk.import_sets(path, given, Mixtures(), overwrite=True))
    embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott")
    stages.run("prepare", lambda: embedding.fit(sets))
    rows = stages.run("embed", lambda: embedding.transform(sets).compute())
    memory = peaks(client)
    rate = n_sets * points / stages.seconds["embed"]
    print(f"  {rate:.3g} points/s embedded; peak MB {memory}; finite: {bool(np.isfinite(rows).all())}")
    shutil.rmtree(path)
    return {
        "sets": n_sets,
        "points": points,
        "seconds": stages.seconds,
        "points_a_second": rate,
        "peak_mb": memory,
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sets", type=int, default=1_000_000)
    parser.add_argument("--compare", type=int, default=100_000, help="0 for none")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--huge", action="store_true")
    parser.add_argument("--huge-points", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where the stores go; they are removed at the end")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.compare = 6000, 3000
    report = report_here() | {"workers": args.workers, "runs": []}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for n_sets in filter(None, (args.compare, args.sets)):
            with cluster(args.workers) as client:
                report["runs"].append(experiment(client, n_sets, Path(folder)))
        if args.compare:
            small, large = report["runs"]
            report["time_ratio"] = large["total"] / small["total"]
            print(f"time ratio {report['time_ratio']:.2f} for {args.sets / args.compare:g} times the sets")
        if args.huge:
            with cluster(args.workers) as client:
                report["huge"] = huge(client, Path(folder), 200, args.huge_points)
    write(args.output, report)


if __name__ == "__main__":
    main()
