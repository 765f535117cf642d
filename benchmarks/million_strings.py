"""Time and memory of a million strings on one machine: storing, distance embedding out of core, ridge, predictions.

    python benchmarks/million_strings.py [--strings 1000000] [--features 1024] [--workers 2] [--quick] [--folder DIR]
                                         [--output FILE.json]

Strings have 60 symbols from an alphabet of four and are samples of one of five Markov chains; the target is the chain.
Stages run once, on worker processes with one thread each:

generate   draw strings from seeds and write them to a store, in parallel
prepare    draw landmarks (pieces of strings), and compute means and deviations of the features: one pass
ridge      ridge regression on R standardised edit distances per string: one pass over 90 % of the strings
predict    predict the others

Features (4 KB per string) are computed when needed and not cached. Memory is the peak of each process in MB.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Stages, cluster, options, peaks, start_report, write
from distributed import Client

import dkdist as dk

LENGTH, SYMBOLS, CLASSES = 60, 4, 5
STRINGS_PER_SOURCE = 16_384
COMMON_WEIGHT = 0.6  # of the transition probabilities that all chains share


class Chains:
    """Reader of strings and the numbers of their chains; a source is (first string, number of strings)."""

    def __init__(self) -> None:
        transitions = np.random.default_rng(0).dirichlet(np.ones(SYMBOLS), (CLASSES + 1, SYMBOLS))
        self.steps = np.cumsum(
            COMMON_WEIGHT * transitions[-1] + (1 - COMMON_WEIGHT) * transitions[:-1], axis=2
        )

    def sizes(self, source: tuple[int, int]) -> np.ndarray:
        return np.full(source[1], LENGTH)

    def read(self, source: tuple[int, int]) -> Any:
        first, n = source
        rng = np.random.default_rng((1, first))
        chain, text = rng.integers(CLASSES, size=n), np.empty((n, LENGTH), np.uint8)
        text[:, 0] = rng.integers(SYMBOLS, size=n)
        for t in range(1, LENGTH):
            steps = self.steps[chain, text[:, t - 1]]
            text[:, t] = (rng.random((n, 1)) > steps[:, :-1]).sum(axis=1)
        return dk.SampleSets(text.reshape(-1, 1), np.arange(n + 1) * LENGTH), chain


def experiment(client: Client, n: int, R: int, folder: Path) -> dict[str, Any]:
    print(f"{n:,} strings of {LENGTH} symbols, R = {R:,}")
    stages, path = Stages(n), folder / "strings.zarr"
    batches = [(first, min(STRINGS_PER_SOURCE, n - first)) for first in range(0, n, STRINGS_PER_SOURCE)]
    strings = stages.run("generate", lambda: dk.import_sets(path, batches, Chains()))
    y, cut = strings.targets["y"], n * 9 // 10
    train, test = strings[:cut], strings[cut:]
    embedding = dk.DistanceEmbedding("levenshtein", "segment", R, 0, standardize=True, random_state=0)
    stages.run("prepare", lambda: embedding.fit(train), 0.9)
    ridge = dk.IncrementalRidgeClassifier([1.0, 10.0, 100.0], random_state=0)
    stages.run("ridge", lambda: ridge.fit(embedding.transform(train), y[:cut]), 0.9)
    accuracy = stages.run("predict", lambda: ridge.score(embedding.transform(test), y[cut:]), 0.1)
    total, memory = sum(stages.seconds.values()), peaks(client)
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"  {'all':<10} {total:8.1f} s; store {size / 1e6:.1f} MB; peak MB {memory}")
    print(f"  accuracy {accuracy:.4f} of {CLASSES} chains, alpha {ridge.alpha_:g}")
    return {
        "strings": n,
        "R": R,
        "seconds": stages.seconds,
        "total": total,
        "strings_a_second": n / total,
        "bytes": size,
        "peak_mb": memory,
        "accuracy": float(accuracy),
    }


def main() -> None:
    parser = options(__doc__, quick="5,000 strings, R = 64, one worker")
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="folder of the store, which is removed at the end")
    args = parser.parse_args()
    if args.quick:
        args.strings, args.features, args.workers = 5000, 64, 1
    report = start_report() | {"workers": args.workers}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder, cluster(args.workers) as client:
        report |= experiment(client, args.strings, args.features, Path(folder))
    write(args.output, report)


if __name__ == "__main__":
    main()
