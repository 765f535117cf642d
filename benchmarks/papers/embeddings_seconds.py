"""Seconds of fit and transform of bags of words and Nyström features, compared with `DivergenceEmbedding`.

    python benchmarks/papers/embeddings_seconds.py [--quick] [--repeats 9] [--output seconds.json]

10,000 sets of 200 points in d = 2, from mixtures of Gaussians. Fit and transform of all embeddings are interleaved in
one run, because other processes slow down some of its parts. Times are medians, and ratios are those of the medians to
`DivergenceEmbedding`. `NystroemSets` has 100 landmarks, for densities and for 10 x 10 histograms.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from study import options, start_report, time_interleaved, write

import dkdist as dk

EMBEDDINGS = {
    "DivergenceEmbedding, Hellinger": dk.DivergenceEmbedding(),
    "CodebookEmbedding, 64 words": dk.CodebookEmbedding(random_state=0),
    "CodebookEmbedding, 64 words, Hellinger": dk.CodebookEmbedding(divergence="hellinger", random_state=0),
    "NystroemSets, Hellinger": dk.NystroemSets("hellinger", random_state=0),
    "NystroemSets, Hellinger of histograms": dk.NystroemSets(
        dk.HistogramEmbedding(divergence="hellinger"), random_state=0
    ),
}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="500 sets, one repetition")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args(argv)
    n_sets, repeats = (500, 1) if args.quick else (10_000, args.repeats)
    sets, _ = dk.datasets.make_mixtures(n_sets, 200, random_state=0)
    calls: list[Any] = []
    for embedding in EMBEDDINGS.values():
        calls += [partial(embedding.fit, sets), partial(embedding.transform, sets)]
    time_interleaved(calls, 1)  # compiles
    seconds, _ = time_interleaved(calls, repeats)
    parts = seconds.reshape(repeats, len(EMBEDDINGS), 2)
    total = np.median(parts.sum(axis=2), axis=0)
    report = start_report() | {"n_sets": n_sets, "rows": []}
    print(f"{n_sets:,} sets of 200 points: seconds of fit, of transform and of both, and ratio")
    for name, (fit, transform), both in zip(EMBEDDINGS, np.median(parts, axis=0), total, strict=True):
        row = {"name": name, "fit_s": fit, "transform_s": transform, "both_s": both, "ratio": both / total[0]}
        report["rows"].append(row)
        print(f"{name:40} {fit:8.3f} {transform:8.3f} {both:8.3f} {row['ratio']:6.2f}")
    write(args.output, report)
    return report


if __name__ == "__main__":
    main()
