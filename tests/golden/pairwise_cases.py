"""Golden cases of distances, divergences and matrices of them, and of nearest sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dkdist as dk

from .harness import EXACT, approximation, case, float32, float64
from .inputs import LABELS, N_SETS, arrays, table

SERIES = float32(120, "paths of at most 80 steps over sums of 2 squares")
POINT_DISTANCES = float32(
    100, "means of at most 40 distances; squares are taken of differences of coordinates"
)
DISTANCES_OF_POINTS: dict[str, Any] = {
    "chamfer": dk.Chamfer(squared=False),
    "energy": dk.Energy(),
    "hausdorff": dk.Hausdorff(),
    "modified_hausdorff": dk.ModifiedHausdorff(),
    "sliced_wasserstein": dk.SlicedWasserstein(np.array([[1.0, 0.0], [0.6, 0.8]])),
    "wasserstein": dk.Wasserstein(),
}
DISTANCES_OF_SERIES: dict[str, Any] = {
    "dynamic_time_warping": dk.DynamicTimeWarping(ground="euclidean", band=0.5, normalize=True),
    "erp": dk.ERP(gap=0.5),
    "twed": dk.TWED(nu=0.01),
    "msm": dk.MSM(cost=0.5),
    "soft_dtw": dk.SoftDTW(gamma=0.5),
    "global_alignment": dk.GlobalAlignment(sigma=2.0),
}
DISTANCES_OF_WORDS: dict[str, Any] = {
    "levenshtein": dk.Levenshtein(),
    "levenshtein_costs": dk.Levenshtein(insertion=1.0, deletion=2.0, substitution_costs={("a", "b"): 0.5}),
    "damerau_levenshtein": dk.DamerauLevenshtein(normalize=True),
    "jaro_winkler": dk.JaroWinkler(),
}


@case(POINT_DISTANCES)
def distances_of_points(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")[:10]
    return {
        name: dk.distance_matrix(sets, distance=distance) for name, distance in DISTANCES_OF_POINTS.items()
    }


@case(POINT_DISTANCES)
def distances_to_other_points(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("space")
    return {"energy": dk.distance_matrix(sets[:8], sets[8:], distance="energy")}


@case(POINT_DISTANCES)
def directed_distances(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    embedding = dk.DistanceEmbedding(dk.DirectedModifiedHausdorff(), n_components=8, gamma=0, random_state=0)
    return {"rows": embedding.fit(sets).transform(sets)}


@case(SERIES)
def distances_of_series(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("series")[:8]
    return {
        name: dk.distance_matrix(sets, distance=distance) for name, distance in DISTANCES_OF_SERIES.items()
    }


@case(float32(16, "words of at most 12 letters: whole numbers, sums of costs, and one quotient"))
def distances_of_words(inputs: Any) -> Mapping[str, Any]:
    words = inputs.strings()[:12]
    return {
        name: dk.distance_matrix(words, distance=distance) for name, distance in DISTANCES_OF_WORDS.items()
    }


def difference_of_medians(a: Any, b: Any) -> float:
    """Distance of two sets by their medians."""
    return float(np.abs(np.median(a, axis=0) - np.median(b, axis=0)).sum())


@case(float32(4, "a sum of two differences"))
def distances_by_a_function(inputs: Any) -> Mapping[str, Any]:
    distance = dk.pairwise(difference_of_medians)
    return {"matrix": dk.distance_matrix(inputs.sets("plane")[:8], distance=distance)}


@case(
    approximation(
        1e-4, "digamma and logarithms of float32 neighbour distances; entries cancel to 0.1 of their terms"
    )
)
def divergences_by_neighbours(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")[:10]
    return {
        "entropy": dk.divergence_matrix(sets, "jensen-shannon", estimator=dk.EntropyDivergence(k=3)),
        "neighbours": dk.divergence_matrix(sets, "hellinger", estimator=dk.KNNDivergence(k=3)),
        "renyi": dk.divergence_matrix(sets, "renyi", estimator="knn", k=3, alpha=0.8),
        "kullback_leibler": dk.divergence_matrix(sets, "kullback-leibler", estimator="knn", k=3),
    }


@case(float32(300, "densities as sums over at most 300 points, then roots or logarithms", condition=30))
def divergences_by_densities(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")[:10]
    plugin = dk.PluginDivergence(n_basis=6, bandwidth=0.2, domain=([-0.1, -0.1], [1.1, 1.1]))
    return {
        "plugin": dk.divergence_matrix(sets, "chi2", estimator=plugin),
        "held_out": dk.divergence_matrix(
            sets,
            "jensen-shannon",
            estimator=dk.HeldOutDivergence(bandwidth=0.2, random_state=0),
        ),
    }


@case(float64("an eigendecomposition; projections on sums of eigenspaces have condition one", condition=10))
def nearest_positive_matrices(inputs: Any) -> Mapping[str, Any]:
    del inputs
    centres = np.array([x.mean(axis=0) for x in arrays("plane")])
    gram = 0.5 - np.abs(centres[:, None] - centres).sum(axis=2) + 0.1 * np.subtract.outer(LABELS, LABELS) ** 2
    return {method: dk.project_psd(gram, method=method) for method in ("clip", "flip", "shift")}


@case(float32(24, "squared differences of 12 features; neighbours are results again in float64"))
def nearest_rows(inputs: Any) -> Mapping[str, Any]:
    X = table()[0]
    nearest = dk.NearestSets(5).fit(inputs.rows(X))
    distances, indices = nearest.kneighbors(X[:N_SETS] + np.float32(0.1))
    return {"distances": distances, "indices": indices}


@case(EXACT, forms=("memory",))
def nearest_rows_by_faiss(inputs: Any) -> Mapping[str, Any]:
    del inputs
    X = table()[0]
    return {"indices": dk.NearestSets(5, engine="faiss").fit(X).kneighbors(X[:N_SETS] + np.float32(0.1))[1]}
