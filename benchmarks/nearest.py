"""Recall and speed of approximate nearest-neighbour search in a million sets or shapes, compared with exact search.

    python benchmarks/nearest.py [sets] [shapes] [--rows 1000000] [--queries 2000] [--folder DIR] [--output FILE]

sets      Gaussian mixtures of 200 points; rows whose squared distances are Jensen-Shannon divergences
shapes    closed curves of 64 points, random variations of 20 curves; rows whose distances are kernel distances

Rows are embedded from a store block by block; the index (inverted file) holds all of them. Queries are not in the
index. "found" is the fraction of the ten true neighbours that the search returns (recall), compared with the recall
that `fit` measured on indexed rows. Seconds are those of one run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from common import Mixtures, options, peak, seconds_of, sources, start_report, time_interleaved, write

import dkdist as dk

K, POINTS, SETS_PER_SOURCE, KINDS, HARMONICS = 10, {"sets": 200, "shapes": 64}, 4096, 20, 8


class Curves:
    """Reader of curves with random radii; a source is (first curve, number of curves, points per curve)."""

    def sizes(self, source: tuple[int, int, int]) -> np.ndarray:
        return np.full(source[1], source[2])

    def read(self, source: tuple[int, int, int]) -> Any:
        first, n, points = source
        kinds = np.random.default_rng(0).normal(size=(KINDS, 2, HARMONICS))
        rng = np.random.default_rng((1, first))
        kind = rng.integers(KINDS, size=n)
        waves = (
            (kinds[kind] + 0.5 * rng.normal(size=(n, 2, HARMONICS)))
            * 0.15
            / np.sqrt(1 + np.arange(HARMONICS))
        )
        angle = 2 * np.pi * np.arange(points) / points
        turns = np.outer(1 + np.arange(HARMONICS), angle)
        radius = 1 + waves[:, 0] @ np.cos(turns) + waves[:, 1] @ np.sin(turns)
        xy = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
        return dk.SampleSets(xy.reshape(-1, 2), np.arange(n + 1) * points), kind.astype(np.float64)


READERS: dict[str, Any] = {"sets": Mixtures, "shapes": Curves}
EMBEDDINGS = {
    "sets": lambda: dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott"),
    "shapes": lambda: dk.MeanEmbedding(256, sigma=0.2, random_state=0),
}


def experiment(name: str, n: int, m: int, folder: Path) -> dict[str, Any]:
    batches = sources(n + m, POINTS[name], SETS_PER_SOURCE)
    sets = dk.import_sets(folder / f"{name}.zarr", batches, READERS[name](), overwrite=True)
    embedding = EMBEDDINGS[name]()
    rows = embedding.fit(sets[:n]).transform(sets[:n])
    queries = embedding.transform(sets[n:]).compute()
    searcher = dk.NearestSets(K, engine="approximate", random_state=0)
    fit_seconds = seconds_of(lambda: searcher.fit(rows))
    exact = dk.NearestSets(K).fit(rows)
    seconds, (neighbours, truth) = time_interleaved(
        [lambda: searcher.kneighbors(queries), lambda: exact.kneighbors(queries)], 1
    )
    recalls = [len(np.intersect1d(a, b)) / K for a, b in zip(neighbours[1], truth[1], strict=True)]
    row = {
        "what": name, "rows": n, "columns": rows.shape[1], "queries": m,
        "fit_seconds": fit_seconds, "seconds": float(seconds[0, 0]), "exact_seconds": float(seconds[0, 1]),
        "ratio": float(seconds[0, 1] / seconds[0, 0]),
        "found": float(np.mean(recalls)), "std_error": float(np.std(recalls) / np.sqrt(m)),
        "measured_by_fit": searcher.recall_.share, "peak_mb": round(peak()),
    }  # fmt: skip
    print(
        f"{name}: {n:,} rows of {rows.shape[1]}: embedded and indexed in {fit_seconds:.1f} s; {m:,} queries in "
        f"{row['seconds']:.2f} s (exact search, with embedding: {row['exact_seconds']:.1f} s, "
        f"{row['ratio']:.0f} times); recall {row['found']:.3f} +- {row['std_error']:.3f} "
        f"(fit measured {row['measured_by_fit']:.3f}); peak {row['peak_mb']} MB"
    )
    return row


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("what", nargs="*", choices=[*READERS, []], help="what to measure (default: both)")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="folder of the stores, which are removed at the end")
    args = parser.parse_args(argv)
    n, m = (5000, 200) if args.quick else (args.rows, args.queries)
    report = start_report()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        report["nearest"] = [experiment(name, n, m, Path(folder)) for name in args.what or READERS]
    write(args.output, report)
    return report


if __name__ == "__main__":
    main()
