"""Learning from distributions: classifiers, regressors, kernels and distances over collections of sample sets.

Names are imported when they are first used, so that ``import dkdist`` and the command line answer at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkdist.estimators.align import Alignment, align
    from dkdist.estimators.coreset import Coreset, coreset, coreset_size
    from dkdist.estimators.distance import DistanceEmbedding, pairwise
    from dkdist.estimators.distance_matrix import distance_matrix
    from dkdist.estimators.divergence import DivergenceEmbedding
    from dkdist.estimators.feature_store import open_features, write_features
    from dkdist.estimators.fourier import RandomFourierFeatures
    from dkdist.estimators.hdd_bound import HddErrorBound, hdd_error_bound
    from dkdist.estimators.histogram import HistogramEmbedding
    from dkdist.estimators.importing import import_sets
    from dkdist.estimators.invariant import InvariantFeatures
    from dkdist.estimators.kernel_distance import kernel_distance
    from dkdist.estimators.kernel_error import KernelError, kernel_error
    from dkdist.estimators.l2 import L2Embedding
    from dkdist.estimators.mean import MeanEmbedding
    from dkdist.estimators.model_file import load_model, save_model
    from dkdist.estimators.moments import MomentEmbedding
    from dkdist.estimators.nearest import NearestSets
    from dkdist.estimators.pairwise import divergence_matrix
    from dkdist.estimators.psd import project_psd
    from dkdist.estimators.pseudo_euclidean import PseudoEuclideanEmbedding
    from dkdist.estimators.ridge import IncrementalRidge, IncrementalRidgeClassifier
    from dkdist.estimators.search import OnePassSearch
    from dkdist.estimators.sgd import IncrementalSGDClassifier, IncrementalSGDRegressor
    from dkdist.estimators.shape_points import (
        ShapePoints,
        gridded_shape,
        refine_shapes,
        sampled_shape,
        shape_error_bound,
    )
    from dkdist.estimators.shapes import Curve, Surface
    from dkdist.estimators.store_care import compact, verify_sets
    from dkdist.estimators.theory import n_features_for
    from dkdist.estimators.thinning import CoresetThinning
    from dkdist.estimators.two_sample import two_sample_test, witness
    from dkdist.numerics.distances.dtw import DynamicTimeWarping
    from dkdist.numerics.distances.energy import Energy
    from dkdist.numerics.distances.hausdorff import (
        Chamfer,
        DirectedModifiedHausdorff,
        Hausdorff,
        ModifiedHausdorff,
    )
    from dkdist.numerics.distances.levenshtein import Levenshtein
    from dkdist.numerics.distances.sliced import SlicedWasserstein
    from dkdist.numerics.distances.wasserstein import Wasserstein
    from dkdist.sets import SampleSetError, SampleSets
    from dkdist.store import (
        ArrayReader,
        SetStore,
        SetWriter,
        SourceError,
        StoreFormatError,
        TableReader,
        open_sets,
        write_sets,
    )

__version__ = "0.1.0"

_HOMES = {
    "ArrayReader": "dkdist.store",
    "Curve": "dkdist.estimators.shapes",
    "DivergenceEmbedding": "dkdist.estimators.divergence",
    "OnePassSearch": "dkdist.estimators.search",
    "DistanceEmbedding": "dkdist.estimators.distance",
    "pairwise": "dkdist.estimators.distance",
    "distance_matrix": "dkdist.estimators.distance_matrix",
    "DynamicTimeWarping": "dkdist.numerics.distances.dtw",
    "Levenshtein": "dkdist.numerics.distances.levenshtein",
    "ModifiedHausdorff": "dkdist.numerics.distances.hausdorff",
    "DirectedModifiedHausdorff": "dkdist.numerics.distances.hausdorff",
    "Hausdorff": "dkdist.numerics.distances.hausdorff",
    "Chamfer": "dkdist.numerics.distances.hausdorff",
    "Energy": "dkdist.numerics.distances.energy",
    "SlicedWasserstein": "dkdist.numerics.distances.sliced",
    "Wasserstein": "dkdist.numerics.distances.wasserstein",
    "Coreset": "dkdist.estimators.coreset",
    "CoresetThinning": "dkdist.estimators.thinning",
    "coreset": "dkdist.estimators.coreset",
    "coreset_size": "dkdist.estimators.coreset",
    "Alignment": "dkdist.estimators.align",
    "align": "dkdist.estimators.align",
    "HddErrorBound": "dkdist.estimators.hdd_bound",
    "hdd_error_bound": "dkdist.estimators.hdd_bound",
    "HistogramEmbedding": "dkdist.estimators.histogram",
    "NearestSets": "dkdist.estimators.nearest",
    "InvariantFeatures": "dkdist.estimators.invariant",
    "L2Embedding": "dkdist.estimators.l2",
    "MomentEmbedding": "dkdist.estimators.moments",
    "PseudoEuclideanEmbedding": "dkdist.estimators.pseudo_euclidean",
    "RandomFourierFeatures": "dkdist.estimators.fourier",
    "IncrementalRidge": "dkdist.estimators.ridge",
    "IncrementalRidgeClassifier": "dkdist.estimators.ridge",
    "IncrementalSGDClassifier": "dkdist.estimators.sgd",
    "IncrementalSGDRegressor": "dkdist.estimators.sgd",
    "MeanEmbedding": "dkdist.estimators.mean",
    "SampleSetError": "dkdist.sets",
    "SampleSets": "dkdist.sets",
    "SetStore": "dkdist.store",
    "SetWriter": "dkdist.store",
    "SourceError": "dkdist.store",
    "StoreFormatError": "dkdist.store",
    "ShapePoints": "dkdist.estimators.shape_points",
    "gridded_shape": "dkdist.estimators.shape_points",
    "refine_shapes": "dkdist.estimators.shape_points",
    "sampled_shape": "dkdist.estimators.shape_points",
    "shape_error_bound": "dkdist.estimators.shape_points",
    "Surface": "dkdist.estimators.shapes",
    "TableReader": "dkdist.store",
    "compact": "dkdist.estimators.store_care",
    "divergence_matrix": "dkdist.estimators.pairwise",
    "import_sets": "dkdist.estimators.importing",
    "KernelError": "dkdist.estimators.kernel_error",
    "kernel_distance": "dkdist.estimators.kernel_distance",
    "kernel_error": "dkdist.estimators.kernel_error",
    "load_model": "dkdist.estimators.model_file",
    "open_features": "dkdist.estimators.feature_store",
    "open_sets": "dkdist.store",
    "project_psd": "dkdist.estimators.psd",
    "save_model": "dkdist.estimators.model_file",
    "two_sample_test": "dkdist.estimators.two_sample",
    "n_features_for": "dkdist.estimators.theory",
    "verify_sets": "dkdist.estimators.store_care",
    "witness": "dkdist.estimators.two_sample",
    "write_features": "dkdist.estimators.feature_store",
    "write_sets": "dkdist.store",
}

__all__ = [
    "Alignment",
    "ArrayReader",
    "Chamfer",
    "Coreset",
    "CoresetThinning",
    "Curve",
    "DirectedModifiedHausdorff",
    "DistanceEmbedding",
    "DivergenceEmbedding",
    "DynamicTimeWarping",
    "Energy",
    "Hausdorff",
    "HddErrorBound",
    "HistogramEmbedding",
    "IncrementalRidge",
    "IncrementalRidgeClassifier",
    "IncrementalSGDClassifier",
    "IncrementalSGDRegressor",
    "InvariantFeatures",
    "KernelError",
    "L2Embedding",
    "Levenshtein",
    "MeanEmbedding",
    "ModifiedHausdorff",
    "MomentEmbedding",
    "NearestSets",
    "OnePassSearch",
    "PseudoEuclideanEmbedding",
    "RandomFourierFeatures",
    "SampleSetError",
    "SampleSets",
    "SetStore",
    "SetWriter",
    "ShapePoints",
    "SlicedWasserstein",
    "SourceError",
    "StoreFormatError",
    "Surface",
    "TableReader",
    "Wasserstein",
    "align",
    "compact",
    "coreset",
    "coreset_size",
    "distance_matrix",
    "divergence_matrix",
    "gridded_shape",
    "hdd_error_bound",
    "import_sets",
    "kernel_distance",
    "kernel_error",
    "load_model",
    "n_features_for",
    "open_features",
    "open_sets",
    "pairwise",
    "project_psd",
    "refine_shapes",
    "sampled_shape",
    "save_model",
    "shape_error_bound",
    "two_sample_test",
    "verify_sets",
    "witness",
    "write_features",
    "write_sets",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dkdist' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
