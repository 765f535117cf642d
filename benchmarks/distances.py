"""Speed of distances of series, strings and sets, and of distance embeddings, in one run.

    python benchmarks/distances.py [--quick] [--output distances.json]

Series and strings (sequence_distances.py) and sets (set_distances.py) are compared with other libraries, on one and two
threads. Then `DistanceEmbedding` runs on all cores, with R = 4,096 landmarks: objects per second (medians) for strings
of 60 symbols, for two numbers of strings, and for series and sets.

Other libraries are aeon, dtaidistance, rapidfuzz, SciPy and POT (pip install 'dkdist[peers]'); missing libraries are
named and skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sequence_distances
import set_distances
from common import median_seconds, options, write

import dkdist as dk


def rate(embedding: dk.DistanceEmbedding, sets: dk.SampleSets, repeats: int) -> float:
    """Return objects per second of `transform`, from the median time."""
    embedding.fit(sets[:500]).transform(sets[:100])
    return len(sets) / median_seconds(lambda: embedding.transform(sets), repeats)


def embeddings(quick: bool) -> dict[str, float]:
    rng = np.random.default_rng(0)
    n, R, repeats = (400, 64, 1) if quick else (20_000, 4096, 5)

    def strings(n: int) -> dk.SampleSets:
        return dk.SampleSets(rng.integers(0, 4, (60 * n, 1)).astype(np.uint8), 60 * np.arange(n + 1))

    def points(n: int, size: int, d: int) -> dk.SampleSets:
        return dk.SampleSets(rng.standard_normal((size * n, d)), size * np.arange(n + 1))

    cases = {
        f"levenshtein, omegas of 2..20, N = {n:,}": ("levenshtein", strings(n), (2, 20)),
        f"levenshtein, omegas of 2..20, N = {n // 4:,}": ("levenshtein", strings(n // 4), (2, 20)),
        f"levenshtein, omegas of 2..60, N = {n:,}": ("levenshtein", strings(n), (2, 60)),
        "dtw, 60 points of 3 variables, omegas of 2..20": ("dtw", points(n // 40, 60, 3), (2, 20)),
        "modified Hausdorff, 30 points in 2-D, omegas of 1..16": (
            "modified-hausdorff",
            points(n // 10, 30, 2),
            (1, 16),
        ),
        "energy, 30 points in 2-D, omegas of 1..16": ("energy", points(n // 10, 30, 2), (1, 16)),
    }
    results = {}
    print(f"embeddings on all cores, R = {R:,}: objects per second, and pairs")
    for name, (distance, sets, lengths) in cases.items():
        embedding = dk.DistanceEmbedding(distance, n_components=R, lengths=lengths, random_state=0)
        results[name] = rate(embedding, sets, repeats)
        print(f"  {name:<56}{results[name]:>10,.0f}{results[name] * R:>16,.0f}", flush=True)
    return results


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    args = parser.parse_args(argv)
    quick = ["--quick"] if args.quick else []
    figures = {
        "sequences": sequence_distances.main(quick),
        "sets": set_distances.main(quick),
        "embeddings": embeddings(args.quick),
    }
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
