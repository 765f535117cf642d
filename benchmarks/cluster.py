"""Overhead of a cluster: building the graph, scheduler time, and bytes between workers; accuracy of SGD replicas.

    python benchmarks/cluster.py [--quick] [--output cluster.json]

graph      seconds to build the lazy features of 100,000 blocks and their tasks
scheduler  processor time of the scheduler process per block in ms, for a map and a fold of blocks without work
bytes      MB per block that workers send each other in an SGD fit (D = 5000), compared with the size of a block
lanes      accuracy of SGD with 1 and 8 replicas ("lanes") by number of passes, compared with exact linear models, on
           the mixtures of `million.py` and on CIFAR-10 cats and dogs

Times are those of one run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import psutil
from common import Mixtures, options, start_report, write
from distributed import Client
from sklearn.linear_model import LogisticRegression, Ridge

import dkdist as dk
from dkdist._runtime.blocks import Job, row_blocks
from dkdist._runtime.map_reduce import fold, map_blocks

D = 5000


@contextmanager
def cluster(folder: Path, n_workers: int) -> Iterator[tuple[Client, psutil.Process]]:
    """Start a scheduler and workers in separate processes, whose processor times can be read."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    common = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        [*common, "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0",
         "--scheduler-file", str(file)], **quiet,
    )  # fmt: skip
    workers = [
        subprocess.Popen(
            [*common, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard",
             "--preload", "dkdist.preload"], **quiet,
        )
        for _ in range(n_workers)
    ]  # fmt: skip
    try:
        while not file.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(n_workers, timeout=120)
            yield client, psutil.Process(scheduler.pid)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def bench_graph(n_blocks: int, folder: Path) -> dict[str, float]:
    path = folder / "graph.zarr"
    rng = np.random.default_rng(0)
    with dk.SetWriter(path, n_dims=2) as writer:
        for _ in range(n_blocks // 10_000):
            points = rng.random((50_000, 2), dtype="f4")
            writer.append(dk.SampleSets(points, np.arange(10_001) * 5))
    sets = dk.open_sets(path, block_sets=1)
    sample = sets[:200].load()
    embedding = dk.DivergenceEmbedding("hellinger", n_basis=4, domain="unit", bandwidth=0.2).fit(sample)
    features = dk.RandomFourierFeatures(100, sigma=1.0, random_state=0).fit(embedding.transform(sample))
    start = time.perf_counter()
    blocks = row_blocks(features.transform(embedding.transform(sets)))
    return {"blocks": len(blocks), "seconds": time.perf_counter() - start}


def no_op(block: Any, extra: Any) -> int:
    return 0


def bench_scheduler(n_blocks: int, client: Client, scheduler: psutil.Process) -> dict[str, float]:
    blocks = row_blocks(da.zeros((n_blocks, 2), chunks=(1, 2), dtype="f4"))
    jobs = [Job((i,)) for i in range(n_blocks)]
    map_blocks(blocks, no_op, only=range(200))
    results = {}
    for name, work in (
        ("map", lambda: map_blocks(blocks, no_op)),
        ("fold", lambda: fold(blocks, jobs, lambda block_result, _: 0, lambda state, item: state + 1, 0)),
    ):
        before, start = scheduler.cpu_times(), time.perf_counter()
        work()
        after, wall = scheduler.cpu_times(), time.perf_counter() - start
        used = after.user + after.system - before.user - before.system
        results[name] = {"scheduler_ms": 1000 * used / n_blocks, "wall_ms": 1000 * wall / n_blocks}
    return results


def bytes_sent(client: Client) -> int:
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def bench_bytes(n_sets: int, client: Client, folder: Path) -> dict[str, float]:
    mixtures, y = Mixtures().read((0, n_sets, 200))
    sets = dk.write_sets(folder / "bytes.zarr", mixtures, targets=y)
    A = dk.DivergenceEmbedding("jensen-shannon").fit(sets).transform(sets)
    Z = dk.RandomFourierFeatures(D, random_state=0).fit(A).transform(A)
    model = dk.IncrementalSGDRegressor(n_epochs=5, random_state=0)
    before = bytes_sent(client)
    model.fit(Z, y)
    n_blocks = 5 * Z.numblocks[0]
    return {
        "blocks": n_blocks,
        "mb_a_block": (bytes_sent(client) - before) / 1e6 / n_blocks,
        "block_mb": 1024 * D * 4 / 1e6,
    }


def mixture_features(n_sets: int, dimension: int) -> tuple[Any, Any]:
    sets, y = Mixtures().read((1, n_sets, 200))
    A = dk.DivergenceEmbedding("jensen-shannon").fit_transform(sets)
    return dk.RandomFourierFeatures(dimension, random_state=0).fit_transform(A), (y > 5).astype(int)


def cifar_features(dimension: int, n_sets: int) -> tuple[Any, Any] | None:
    """Return features and classes of cats and dogs as sets of (x, y, value), one point per pixel."""
    file = Path(os.environ.get("DKDIST_DATA", "../shared/data")) / "cifar10_cats_dogs.npz"
    if not file.exists():
        print(
            f"no {file}: set DKDIST_DATA to a folder with CIFAR-10 cats and dogs (www.cs.toronto.edu/~kriz/cifar.html)"
        )
        return None
    with np.load(file, allow_pickle=False) as data:
        sample = np.random.default_rng(0).permutation(len(data["labels"]))[:n_sets]
        images, y = data["images"][sample], data["labels"][sample].astype(int)
    grid = (np.arange(32, dtype="f4") + 0.5) / 32
    points = np.empty((len(images), 32, 32, 3), "f4")
    points[..., 0], points[..., 1], points[..., 2] = grid[:, None], grid, images / np.float32(255)
    sets = dk.SampleSets(points.reshape(-1, 3), np.arange(len(images) + 1) * 1024)
    A = dk.DivergenceEmbedding("jensen-shannon", domain="unit").fit_transform(sets)
    return dk.RandomFourierFeatures(dimension, random_state=0).fit_transform(A), y


def bench_lanes(quick: bool) -> dict[str, Any]:
    """Return accuracies on held-out rows; blocks have 64 rows, so that each of eight replicas gets many."""
    dimension, n = (500, 2000) if quick else (2000, 12_000)
    results = {}
    for name, data in (
        ("mixtures", mixture_features(n, dimension)),
        ("cats and dogs", cifar_features(dimension, n)),
    ):
        if data is None:
            continue
        Z, y = data
        order = np.random.default_rng(0).permutation(len(Z))
        cut = len(Z) * 4 // 5
        train, test = order[:cut], order[cut:]
        X = da.from_array(Z[train], chunks=(64, -1))
        rows: dict[str, Any] = {}
        for lanes in (1, 8):
            for epochs in (2, 5, 10):
                model = dk.IncrementalSGDClassifier(n_epochs=epochs, n_lanes=lanes, random_state=0).fit(
                    X, y[train]
                )
                rows[f"{lanes} lanes, {epochs} passes"] = model.score(Z[test], y[test])
        by_class = np.argsort(y[train], kind="stable")
        sorted_rows = da.from_array(Z[train][by_class], chunks=(64, -1))
        model = dk.IncrementalSGDClassifier(n_epochs=5, random_state=0).fit(sorted_rows, y[train][by_class])
        rows["1 lane, 5 passes, stored by class"] = model.score(Z[test], y[test])
        exact = {"logistic regression": LogisticRegression(C=1e3, max_iter=1000), "ridge": Ridge(0.1)}
        for label, model in exact.items():
            model.fit(Z[train], y[train])
            is_positive = model.predict(Z[test]) > 0.5
            rows[f"exact {label}"] = float(np.mean(is_positive == y[test]))
        ridge = dk.IncrementalRidgeClassifier(random_state=0).fit(X, y[train])
        rows["IncrementalRidgeClassifier"] = ridge.score(Z[test], y[test])
        results[name] = rows
    return results


def main() -> None:
    parser = options(__doc__)
    args = parser.parse_args()
    report = start_report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report["graph"] = bench_graph(10_000 if args.quick else 100_000, folder)
        print("graph: {blocks:,} blocks in {seconds:.2f} s".format(**report["graph"]))
        with cluster(folder, 2) as (client, scheduler):
            report["scheduler"] = bench_scheduler(300 if args.quick else 5000, client, scheduler)
            for kind, costs in report["scheduler"].items():
                print(
                    f"scheduler, {kind}: {costs['scheduler_ms']:.2f} ms per block "
                    f"({costs['wall_ms']:.2f} ms of wall time)"
                )
            report["bytes"] = bench_bytes(4096 if args.quick else 32_768, client, folder)
            print(
                "bytes between workers: {mb_a_block:.3f} MB per block of {block_mb:.1f} MB".format(
                    **report["bytes"]
                )
            )
    report["lanes"] = bench_lanes(args.quick)
    for name, rows in report["lanes"].items():
        print(f"lanes, {name}:")
        for label, accuracy in rows.items():
            print(f"  {label:<36} {accuracy:.4f}")
    write(args.output, report)


if __name__ == "__main__":
    main()
