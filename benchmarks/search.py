"""Time of a search over 120 candidates in one pass, compared with separate fits; gain in RMSE over the defaults.

    python benchmarks/search.py [--quick] [--output search.json]

Eight bandwidths, three sigmas and five penalties on the mixtures of `million.py` (32,768 sets of 200 points, D = 5000,
one epoch of SGD). Printed are seconds of one fit, of one set of random features, of the search, and the allowed
seconds: three fits and the 24 different sets of features. Times are minima of three interleaved runs. A second search
with ridge regression at D = 1000 compares the RMSE of the best candidate with that of the defaults on test sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Mixtures, options, seconds_of, start_report, write
from sklearn.pipeline import make_pipeline

import dkdist as dk

GRID = {
    "divergenceembedding__bandwidth": list(np.geomspace(0.08, 0.3, 8)),
    "randomfourierfeatures__sigma": [0.15, 0.3, 0.6],
    "incrementalsgdregressor__alpha": [1e-7, 1e-6, 1e-5, 1e-4, 1e-3],
}


def bench_cost(sets: dk.SampleSets, y: np.ndarray, D: int, repeats: int, grid: Any) -> dict[str, float]:
    model = make_pipeline(
        dk.DivergenceEmbedding("hellinger"),
        dk.RandomFourierFeatures(D, sigma=0.3, random_state=0),
        dk.IncrementalSGDRegressor(n_epochs=1, random_state=0),
    )
    search = dk.OnePassSearch(model, grid, random_state=0, refit=False)
    A = model[0].fit(sets).transform(sets)
    features = model[1].fit(A)
    search.fit(sets[:512], y[:512])  # compiles
    runs = [
        (
            seconds_of(lambda: model.fit(sets, y)),
            seconds_of(lambda: features.transform(A)),
            seconds_of(lambda: search.fit(sets, y)),
        )
        for _ in range(repeats)
    ]
    fit, feature_seconds, search_seconds = np.min(runs, axis=0)
    n_features = len(grid["divergenceembedding__bandwidth"]) * len(grid["randomfourierfeatures__sigma"])
    allowed = 3 * fit + n_features * feature_seconds
    return {
        "fit": fit,
        "features": feature_seconds,
        "search": search_seconds,
        "allowed": allowed,
        "of_allowed": search_seconds / allowed,
    }


def bench_gain(train: Any, test: Any, D: int) -> dict[str, Any]:
    """Return the RMSE on test sets of the defaults and of the best candidate of a search."""
    model = make_pipeline(
        dk.DivergenceEmbedding("hellinger"),
        dk.RandomFourierFeatures(D, random_state=0),
        dk.IncrementalRidge(random_state=0),
    )
    grid = {
        "divergenceembedding__bandwidth": [0.03, 0.04, 0.06, 0.08],
        "divergenceembedding__n_basis": [24],
        "randomfourierfeatures__sigma": [0.3, 0.5, 0.8],
    }
    search = dk.OnePassSearch(model, grid, random_state=0)

    def rmse(fitted: Any) -> float:
        return float(np.sqrt(np.mean((fitted.predict(test[0]) - test[1]) ** 2)))

    return {
        "defaults": rmse(model.fit(*train)),
        "searched": rmse(search.fit(*train)),
        "best": {name: float(value) for name, value in search.best_params_.items()},
    }


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    args = parser.parse_args(argv)
    n, D, repeats = (512, 500, 1) if args.quick else (32_768, 5000, 3)
    figures = start_report()
    sets, y = Mixtures().read((0, n, 200))
    sets = dk.SampleSets.from_arrays(list(sets))
    grid = {name: values[:2] for name, values in GRID.items()} if args.quick else GRID
    cost = bench_cost(sets, y, D, repeats, grid)
    print(
        "one fit {fit:.2f} s, features of one candidate {features:.2f} s; search over all candidates {search:.2f} s, "
        "{of_allowed:.2f} of the time of 3 fits and all different features ({allowed:.2f} s)".format(**cost)
    )
    cut = len(sets) * 3 // 4
    gain = bench_gain((sets[:cut], y[:cut]), (sets[cut:], y[cut:]), 300 if args.quick else 1000)
    print(
        f"RMSE on test sets: defaults {gain['defaults']:.3f}, searched {gain['searched']:.3f} with {gain['best']}"
    )
    figures |= {"cost": cost, "gain": gain}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
