"""Golden cases of embeddings and of transformers of sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

import dkdist as dk

from .harness import EXACT, Tolerance, approximation, case, concrete, float32, float64
from .inputs import arrays, table

# Densities at bandwidth 0.2 stay above 0.02 of their maximum: the root has condition 1 / (2 sqrt(0.02)) < 4.
DENSITY = float32(300, "sums over at most 300 points, then a root or logarithm", condition=4)
DEFAULT_DENSITY = approximation(
    2e-3, "the root of a density that may vanish: sqrt(40 terms * 2^-24 of the maximum)"
)
MEANS = float32(340, "a mean of bounded functions over at most 300 points, with arguments below 20 radians")
MOMENTS = float32(300, "products of two coordinates are summed over at most 300 points")
QUANTILES = float32(40, "projections of 3 coordinates and interpolation between sorted points")
DISTANCES = float32(100, "sums over at most 40 points of distances that are themselves rounded")
FEATURES = float32(300, "sines of arguments below 20 radians of rows that are rounded in their last bits")

EMBEDDINGS: dict[str, tuple[str, Any, Tolerance]] = {
    "divergence_hellinger": ("plane", dk.DivergenceEmbedding(bandwidth=0.2, domain="unit"), DENSITY),
    "divergence_jensen_shannon": (
        "line",
        dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.2, domain="unit"),
        DENSITY,
    ),
    "divergence_total_variation": (
        "plane",
        dk.DivergenceEmbedding("total-variation", n_basis=6, bandwidth=0.2, domain=([-0.5, -0.5], [1.5, 1])),
        DENSITY,
    ),
    "divergence_chi2": (
        "space",
        dk.DivergenceEmbedding("chi2", n_basis=5, bandwidth=0.2, domain="unit"),
        DENSITY,
    ),
    "divergence_random_frequencies": (
        "plane",
        dk.DivergenceEmbedding(
            "chi2", frequencies="random", n_frequencies=4, bandwidth=0.2, domain="unit", random_state=5
        ),
        DENSITY,
    ),
    "divergence_defaults": ("plane", dk.DivergenceEmbedding(), DEFAULT_DENSITY),
    "divergence_defaults_of_five": ("five", dk.DivergenceEmbedding("jensen-shannon"), DEFAULT_DENSITY),
    "l2": ("space", dk.L2Embedding(n_basis=5, bandwidth=0.2, domain="unit"), MEANS),
    "l2_defaults": ("plane", dk.L2Embedding(), MEANS),
    "histogram": ("plane", dk.HistogramEmbedding(n_bins=5), float32(20, "three roots or logarithms of counts")),
    "histogram_intersection": (
        "five",
        dk.HistogramEmbedding(divergence="intersection"),
        float32(20, "three roots or logarithms of counts"),
    ),
    "codebook": (
        "plane",
        dk.CodebookEmbedding(5, "hellinger", random_state=0),
        float32(3, "a root of a fraction of counts"),
    ),
    "gaussian": (
        "space",
        dk.GaussianEmbedding(),
        float32(4, "centre, scale, mean and logarithm of the covariance are float64, rows float32", condition=4),
    ),
    "mean_fourier": ("plane", dk.MeanEmbedding(100, sigma=0.3, method="fourier"), MEANS),
    "mean_orthogonal": ("five", dk.MeanEmbedding(64, method="orthogonal", random_state=0), MEANS),
    "mean_sobol": ("space", dk.MeanEmbedding(64, method="sobol", random_state=1), MEANS),
    "mean_iid": ("line", dk.MeanEmbedding(50, method="iid", random_state=2), MEANS),
    "mean_of_other_kernel": ("plane", dk.MeanEmbedding(50, kernel="matern32", random_state=2), MEANS),
    "moments": ("plane", dk.MomentEmbedding(), MOMENTS),
    "covariances": ("five", dk.MomentEmbedding(degree=2), MOMENTS),
    "summary": ("space", dk.SummaryEmbedding(), MOMENTS),
    "sliced_wasserstein": ("space", dk.SlicedWassersteinEmbedding(12, random_state=0), QUANTILES),
    "invariant": (
        "plane",
        dk.InvariantFeatures(
            dk.HistogramEmbedding(n_bins=4),
            dk.RandomFourierFeatures(32, random_state=0),
            symmetries="all",
        ),
        FEATURES,
    ),
    "distance_energy": ("space", dk.DistanceEmbedding("energy", n_components=20, random_state=0), DISTANCES),
    "distance_dtw": (
        "series",
        dk.DistanceEmbedding("dtw", n_components=12, random_state=0),
        float32(120, "paths of at most 80 steps over sums of 2 squares, then an exponential"),
    ),
    "nystroem": (
        "plane",
        dk.NystroemSets(
            dk.DivergenceEmbedding(bandwidth=0.2, domain="unit"), n_components=8, gamma=100.0, random_state=0
        ),
        float32(
            300,
            "rows as above, times sqrt(2 gamma / e) < 9 for the kernel and 1 / sqrt(smallest eigenvalue) < 2",
            condition=4 * 9 * 2,
        ),
    ),
    "distance_hausdorff": (
        "plane",
        dk.DistanceEmbedding("modified-hausdorff", n_components=16, gamma=[0.5, 1.0], random_state=0),
        DISTANCES,
    ),
}  # fmt: skip


def rows_of(embedding: Any, name: str) -> Callable[[Any], Mapping[str, Any]]:
    """A function that fits the embedding and returns all rows."""

    def compute(inputs: Any) -> Mapping[str, Any]:
        sets = inputs.sets(name)
        return {"rows": clone(embedding).fit(sets).transform(sets)}

    return compute


for key, (name_of_sets, embedding, tolerance) in EMBEDDINGS.items():
    case(tolerance, name=key)(rows_of(embedding, name_of_sets))


@case(MEANS)
def mean_of_weighted_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane", weighted=True)
    return {"rows": dk.MeanEmbedding(40, sigma=0.5, random_state=0).fit(sets).transform(sets)}


@case(MOMENTS)
def covariances_of_weighted_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane", weighted=True)
    return {"rows": dk.MomentEmbedding(degree=2).fit(sets).transform(sets)}


@case(
    approximation(
        0.02, "the stored values are from a lattice of 64 nodes, which integrates roots to about 1 %"
    )
)
def joint_densities_of_five(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("five")
    embedding = dk.DivergenceEmbedding(structure="joint", bandwidth=0.4, n_basis=4, domain="unit")
    rows = concrete(embedding.fit(sets).transform(sets)).astype(np.float64)
    return {"inner_products": rows @ rows.T}


@case(DENSITY)
def noise_of_densities(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    return {"noise": dk.DivergenceEmbedding(bandwidth=0.2, domain="unit").fit(sets).noise(sets)}


@case(float32(20, "logarithms of counts, and one norm"))
def n_grams(inputs: Any) -> Mapping[str, Any]:
    embedding = dk.NGramEmbedding((1, 3), max_features=50).fit(inputs.strings())
    return {
        "rows": embedding.transform(inputs.strings()),
        "names": embedding.get_feature_names_out(),
    }


@case(float32(20, "distances of words are whole numbers; an exponential follows"))
def distance_levenshtein(inputs: Any) -> Mapping[str, Any]:
    embedding = dk.DistanceEmbedding("levenshtein", n_components=16, random_state=0)
    return {"rows": embedding.fit(inputs.strings()).transform(inputs.strings())}


def extremes(points: Any, weights: Any = None) -> Any:
    """Smallest and largest coordinates."""
    return np.r_[points.min(axis=0), points.max(axis=0)]


@case(EXACT)
def function_of_points(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    return {"rows": dk.FunctionEmbedding(extremes).fit(sets).transform(sets)}


@case(float32(4, "a difference and a quotient"))
def scaled_sets(inputs: Any) -> Mapping[str, Any]:
    results = {}
    for method in ("robust", "standard", "quantile"):
        sets = inputs.sets("space")
        scaled = dk.SetScaler(method).fit(sets).transform(sets)
        results[method] = (scaled.load() if inputs.is_lazy else scaled).points
    sets = inputs.sets("space")
    each = dk.SetScaler(per_set=True).fit(sets).transform(sets)
    results["per_set"] = (each.load() if inputs.is_lazy else each).points
    return results


@case(
    float32(
        50,
        "covariances in float64, projections in float32; eigenvalues of 5 dimensions are apart",
        condition=4,
    )
)
def principal_components_of_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("five")
    moved = dk.SetPCA(3, whiten=True).fit(sets).transform(sets)
    return {"points": (moved.load() if inputs.is_lazy else moved).points}


@case(EXACT)
def columns_of_targets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.labelled()
    columns = dk.SetColumns(["age"]).fit(sets)
    return {"columns": columns.transform(sets), "names": columns.get_feature_names_out()}


@case(EXACT)
def thinned_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    thinned = dk.CoresetThinning(6, sigma=0.3, random_state=0).fit(sets).transform(sets)
    return {"points": thinned.points, "offsets": thinned.offsets}


@case(FEATURES)
def random_fourier_features(inputs: Any) -> Mapping[str, Any]:
    X = table()[0]
    results = {}
    for method, kernel in (
        ("iid", "gaussian"), ("orthogonal", "gaussian"), ("structured", "gaussian"), ("orthogonal", "laplace"),
    ):  # fmt: skip
        features = dk.RandomFourierFeatures(40, sigma=3.0, method=method, kernel=kernel, random_state=0)
        results[f"{method} {kernel}"] = features.fit_transform(inputs.rows(X))
    results["median"] = dk.RandomFourierFeatures(40, random_state=0).fit_transform(inputs.rows(X))
    return results


@case(float64("eigenvectors of a matrix whose eigenvalues are apart by 1e-3 of the largest", condition=1e3))
def pseudo_euclidean(inputs: Any) -> Mapping[str, Any]:
    centres = np.array([x.mean(axis=0) for x in arrays("plane")])
    D = np.abs(centres[:, None] - centres).sum(axis=2)
    embedding = dk.PseudoEuclideanEmbedding(3).fit(D)
    return {"rows": embedding.transform(D)}
