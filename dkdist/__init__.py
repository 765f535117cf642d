"""Learning from distributions: classifiers, regressors, kernels and distances over collections of sample sets.

Names are imported when they are first used, so that ``import dkdist`` and the command line answer at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dkdist.estimators.divergence import DivergenceEmbedding
    from dkdist.estimators.feature_store import open_features, write_features
    from dkdist.estimators.fourier import RandomFourierFeatures
    from dkdist.estimators.histogram import HistogramEmbedding
    from dkdist.estimators.importing import import_sets
    from dkdist.estimators.invariant import InvariantFeatures
    from dkdist.estimators.kernel_distance import kernel_distance
    from dkdist.estimators.l2 import L2Embedding
    from dkdist.estimators.mean import MeanEmbedding
    from dkdist.estimators.model_file import load_model, save_model
    from dkdist.estimators.moments import MomentEmbedding
    from dkdist.estimators.pairwise import divergence_matrix
    from dkdist.estimators.psd import project_psd
    from dkdist.estimators.ridge import IncrementalRidge, IncrementalRidgeClassifier
    from dkdist.estimators.search import OnePassSearch
    from dkdist.estimators.sgd import IncrementalSGDClassifier, IncrementalSGDRegressor
    from dkdist.estimators.shapes import Curve, Surface
    from dkdist.estimators.store_care import compact, verify_sets
    from dkdist.estimators.two_sample import two_sample_test, witness
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
    "HistogramEmbedding": "dkdist.estimators.histogram",
    "InvariantFeatures": "dkdist.estimators.invariant",
    "L2Embedding": "dkdist.estimators.l2",
    "MomentEmbedding": "dkdist.estimators.moments",
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
    "Surface": "dkdist.estimators.shapes",
    "TableReader": "dkdist.store",
    "compact": "dkdist.estimators.store_care",
    "divergence_matrix": "dkdist.estimators.pairwise",
    "import_sets": "dkdist.estimators.importing",
    "kernel_distance": "dkdist.estimators.kernel_distance",
    "load_model": "dkdist.estimators.model_file",
    "open_features": "dkdist.estimators.feature_store",
    "open_sets": "dkdist.store",
    "project_psd": "dkdist.estimators.psd",
    "save_model": "dkdist.estimators.model_file",
    "two_sample_test": "dkdist.estimators.two_sample",
    "verify_sets": "dkdist.estimators.store_care",
    "witness": "dkdist.estimators.two_sample",
    "write_features": "dkdist.estimators.feature_store",
    "write_sets": "dkdist.store",
}

__all__ = [
    "ArrayReader",
    "Curve",
    "DivergenceEmbedding",
    "HistogramEmbedding",
    "IncrementalRidge",
    "IncrementalRidgeClassifier",
    "IncrementalSGDClassifier",
    "IncrementalSGDRegressor",
    "InvariantFeatures",
    "L2Embedding",
    "MeanEmbedding",
    "MomentEmbedding",
    "OnePassSearch",
    "RandomFourierFeatures",
    "SampleSetError",
    "SampleSets",
    "SetStore",
    "SetWriter",
    "SourceError",
    "StoreFormatError",
    "Surface",
    "TableReader",
    "compact",
    "divergence_matrix",
    "import_sets",
    "kernel_distance",
    "load_model",
    "open_features",
    "open_sets",
    "project_psd",
    "save_model",
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
