"""Time and memory of a million sample sets on one machine, from generation to predictions, on workers and threads.

    python benchmarks/million.py [--sets 1000000] [--compare 100000] [--workers 2] [--huge] [--folder DIR]
                                 [--skip kept lanes threads workers ridge] [--output million.json]

Sets are 200 points of Gaussian mixtures with 1 to 10 components in two dimensions (the first experiment of Sutherland
et al. 2016); the target is the number of components. Stages on worker processes with one thread each:

generate    draw sets from seeds and write them to a store, in parallel (1.5 GB for a million)
verify      read and check every chunk
prepare     compute bounds and bandwidth of the embedding, and sigma of the features
ridge       ridge regression on the embedding without random features, one pass, and predictions

Then the pipeline runs: Jensen-Shannon embedding, D = 5000 random features, five epochs of SGD on 90 % of the sets, and
predictions of the others. It runs with one replica ("lane"), with one replica per worker, and for both with rows of the
embedding cached in a folder after the first pass ("kept"; 2.2 GB for a million); first on the workers, then on threads
of a new process without a client.

``--compare`` first runs all stages on fewer sets; ``--huge`` also embeds 200 sets of 5,000,000 points each (8 GB).
Ten million sets need 15 GB of disk, and 22 GB more for cached rows unless ``--skip kept``. Each time is that of one
run. Memory is the peak resident memory of each process during the stage, in MB.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    Mixtures,
    Stages,
    cluster,
    options,
    peak,
    peaks,
    reset_peaks,
    rmse,
    sources,
    start_report,
    write,
)
from distributed import Client

import dkdist as dk

POINTS, D, EPOCHS = 200, 5000, 5
SETS_PER_SOURCE = 4096


@dataclass(frozen=True)
class PipelineData:
    """Rows or features of the training sets and test sets, and all targets."""

    train: Any
    test: Any
    y: np.ndarray

    def error(self, model: Any) -> float:
        """Fit on the training sets and return the RMSE on the test sets."""
        cut = self.train.shape[0]
        model.fit(self.train, self.y[:cut])
        return rmse(self.y[cut:], model.predict(self.test))


def run_first_stages(
    client: Client, n_sets: int, path: Path, stages: Stages, skip: list[str]
) -> tuple[PipelineData, dict[str, float]]:
    """Run the stages before the pipeline on workers; return its data, and errors of ridge and a constant."""
    batches = sources(n_sets, POINTS, SETS_PER_SOURCE)
    sets = stages.run("generate", lambda: dk.import_sets(path, batches, Mixtures(), overwrite=True))
    stages.run("verify", lambda: dk.verify_sets(path))
    cut, y = n_sets * 9 // 10, sets.targets["y"]

    def prepare() -> tuple[PipelineData, PipelineData]:
        embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott").fit(sets[:cut])
        A = [embedding.transform(view) for view in (sets[:cut], sets[cut:])]
        features = dk.RandomFourierFeatures(D, random_state=0).fit(A[0])
        return PipelineData(*A, y), PipelineData(*map(features.transform, A), y)

    ridge_data, pipeline = stages.run("prepare", prepare, 0.9)
    errors = {"constant": float(y[cut:].std())}
    if "ridge" not in skip:
        errors["ridge on A"] = stages.run(
            "ridge", lambda: ridge_data.error(dk.IncrementalRidge(random_state=0))
        )
    return pipeline, errors


def settings(n_lanes: int, folder: Path, skip: list[str]) -> dict[str, dict[str, Any]]:
    """Return the arguments ``n_lanes`` and ``cache`` of every run by its name."""
    lanes = [1] if n_lanes == 1 or "lanes" in skip else [1, n_lanes]
    cache_modes = [False] if "kept" in skip else [False, True]
    return {
        f"{n} lane{'s' if n > 1 else ''}{', kept' * use_cache}": {
            "n_lanes": n,
            "cache": folder if use_cache else False,
        }
        for use_cache in cache_modes
        for n in lanes
    }


def run_pipeline(
    pipeline: PipelineData, client: Client | None, n: int, folder: Path, stages: Stages, skip: list[str]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run all settings on workers, or on ``n`` threads without a client; return errors and peak memory by name."""
    where = "threads" if client is None else "workers"
    errors, memory = dict[str, float](), dict[str, Any]()
    for setting, parameters in settings(n, folder, skip).items():
        model, name = (
            dk.IncrementalSGDRegressor(n_epochs=EPOCHS, random_state=0, **parameters),
            f"{where}, {setting}",
        )
        reset_peaks(client)
        errors[name] = stages.run(name, lambda model=model: pipeline.error(model), 0.9 * EPOCHS + 0.1)
        memory[name] = peaks(client) if client else {"process": round(peak(), 1)}
        print(
            f"  {'':<26} {stages.seconds[name] / (0.9 * EPOCHS * stages.n_sets) * 1e6:8.2f} us per set and epoch; MB",
            memory[name],
        )
    return errors, memory


def on_threads(
    pipeline: PipelineData, n: int, folder: Path, stages: Stages, skip: list[str]
) -> tuple[Any, Stages]:
    return run_pipeline(pipeline, None, n, folder, stages, skip), stages


def experiment(n_workers: int, n_sets: int, folder: Path, skip: list[str]) -> dict[str, Any]:
    print(f"{n_sets:,} sets of {POINTS} points")
    stages, path = Stages(n_sets), folder / f"{n_sets}.zarr"
    with cluster(n_workers) as client:
        pipeline, errors = run_first_stages(client, n_sets, path, stages, skip)
        memory = {"stages before": peaks(client)}
        results = (
            [] if "workers" in skip else [run_pipeline(pipeline, client, n_workers, folder, stages, skip)]
        )
    if "threads" not in skip:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            errors_and_memory, stages = executor.submit(
                on_threads, pipeline, n_workers, folder, stages, skip
            ).result()
            results.append(errors_and_memory)
    for run_errors, run_memory in results:
        errors |= run_errors
        memory |= run_memory
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"  store {size / 1e9:.2f} GB; peak MB before the pipeline {memory['stages before']}")
    print(
        "  test error (RMSE of the number of components): "
        + ", ".join(f"{k} {v:.3f}" for k, v in errors.items())
    )
    return {"sets": n_sets, "seconds": stages.seconds, "bytes": size, "peak_mb": memory, "rmse": errors}


def huge(client: Client, folder: Path, n_sets: int, points: int) -> dict[str, Any]:
    print(f"{n_sets} sets of {points:,} points")
    stages, path = Stages(n_sets), folder / "huge.zarr"
    batches = sources(n_sets, points, 1)
    sets = stages.run("generate", lambda: dk.import_sets(path, batches, Mixtures(), overwrite=True))
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
    parser.add_argument(
        "--compare", type=int, default=100_000, help="number of sets of the first run; 0 for none"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument(
        "--skip",
        nargs="*",
        default=[],
        choices=("kept", "lanes", "threads", "workers", "ridge"),
        help="stages or settings to omit",
    )
    parser.add_argument("--huge", action="store_true")
    parser.add_argument("--huge-points", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="folder of the stores, which are removed at the end")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.compare = 6000, 3000
    report = start_report() | {"workers": args.workers, "runs": []}
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        for n_sets in filter(None, (args.compare, args.sets)):
            report["runs"].append(experiment(args.workers, n_sets, folder, args.skip))
            shutil.rmtree(folder / f"{n_sets}.zarr")
        if args.compare:
            small, large = (run["seconds"] for run in report["runs"])
            report["time_ratio"] = {stage: large[stage] / small[stage] for stage in large}
            ratios = ", ".join(f"{stage} {ratio:.2f}" for stage, ratio in report["time_ratio"].items())
            print(f"time ratios for {args.sets / args.compare:g} times the sets: {ratios}")
        if args.huge:
            with cluster(args.workers) as client:
                report["huge"] = huge(client, folder, 200, args.huge_points)
    write(args.output, report)


if __name__ == "__main__":
    main()
