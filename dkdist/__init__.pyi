"""What `dkdist` offers: every public name once, with its home; imported when it is first used."""

from . import datasets as datasets
from . import plot as plot
from .automatic.set_classifier import SetClassifier as SetClassifier
from .automatic.set_regressor import SetRegressor as SetRegressor
from .densities.divergence import DivergenceEmbedding as DivergenceEmbedding
from .densities.histogram import HistogramEmbedding as HistogramEmbedding
from .densities.l2 import L2Embedding as L2Embedding
from .distances.distance_choices import register_distance as register_distance
from .distances.distance_embedding import DistanceEmbedding as DistanceEmbedding
from .distances.distance_embedding import pairwise as pairwise
from .distances.energy import Energy as Energy
from .distances.hausdorff import (
    Chamfer as Chamfer,
)
from .distances.hausdorff import (
    DirectedModifiedHausdorff as DirectedModifiedHausdorff,
)
from .distances.hausdorff import (
    Hausdorff as Hausdorff,
)
from .distances.hausdorff import (
    ModifiedHausdorff as ModifiedHausdorff,
)
from .distances.series.dtw import DynamicTimeWarping as DynamicTimeWarping
from .distances.series.elastic import ERP as ERP
from .distances.series.elastic import MSM as MSM
from .distances.series.elastic import TWED as TWED
from .distances.series.elastic import SoftDTW as SoftDTW
from .distances.sliced.sliced_wasserstein import SlicedWasserstein as SlicedWasserstein
from .distances.sliced.sliced_wasserstein_embedding import (
    SlicedWassersteinEmbedding as SlicedWassersteinEmbedding,
)
from .distances.strings.damerau.damerau_levenshtein import DamerauLevenshtein as DamerauLevenshtein
from .distances.strings.jaro_winkler import JaroWinkler as JaroWinkler
from .distances.strings.levenshtein import Levenshtein as Levenshtein
from .distances.wasserstein import Wasserstein as Wasserstein
from .embeddings.function import FunctionEmbedding as FunctionEmbedding
from .embeddings.ngrams import NGramEmbedding as NGramEmbedding
from .embeddings.summary import SummaryEmbedding as SummaryEmbedding
from .explaining.explain import explain as explain
from .files.feature_store import open_features as open_features
from .files.feature_store import write_features as write_features
from .files.import_frame import import_frame as import_frame
from .files.import_sets import import_sets as import_sets
from .files.model_file import load_model as load_model
from .files.model_file import save_model as save_model
from .files.store_care import compact as compact
from .files.store_care import verify_sets as verify_sets
from .kernel.alignment.align import Alignment as Alignment
from .kernel.alignment.align import align as align
from .kernel.coresets.coreset import Coreset as Coreset
from .kernel.coresets.coreset import coreset as coreset
from .kernel.coresets.coreset import coreset_size as coreset_size
from .kernel.coresets.coreset_thinning import CoresetThinning as CoresetThinning
from .kernel.coresets.merge_coresets import merge_coresets as merge_coresets
from .kernel.coresets.running_coreset import RunningCoreset as RunningCoreset
from .kernel.distance.kernel_distance import kernel_distance as kernel_distance
from .kernel.distance.kernel_gradient import KernelGradient as KernelGradient
from .kernel.distance.shape_points import (
    ShapePoints as ShapePoints,
)
from .kernel.distance.shape_points import (
    gridded_shape as gridded_shape,
)
from .kernel.distance.shape_points import (
    refine_shapes as refine_shapes,
)
from .kernel.distance.shape_points import (
    sampled_shape as sampled_shape,
)
from .kernel.distance.shape_points import (
    shape_error_bound as shape_error_bound,
)
from .kernel.distance.shapes import Curve as Curve
from .kernel.distance.shapes import Surface as Surface
from .kernel.distance.witness import witness as witness
from .kernel.features.mean_embedding import MeanEmbedding as MeanEmbedding
from .kernel.features.random_fourier_features import RandomFourierFeatures as RandomFourierFeatures
from .kernel.kinds.gaussian_mixtures import GaussianMixture as GaussianMixture
from .kernel.kinds.registry import Kernel as Kernel
from .kernel.kinds.registry import register_kernel as register_kernel
from .linear.ridge.ridge import IncrementalRidge as IncrementalRidge
from .linear.ridge.ridge_classifier import IncrementalRidgeClassifier as IncrementalRidgeClassifier
from .linear.search.one_pass_search import OnePassSearch as OnePassSearch
from .linear.sgd.sgd_classifier import IncrementalSGDClassifier as IncrementalSGDClassifier
from .linear.sgd.sgd_regressor import IncrementalSGDRegressor as IncrementalSGDRegressor
from .moments.invariant_features import InvariantFeatures as InvariantFeatures
from .moments.moments import MomentEmbedding as MomentEmbedding
from .pairs.distance_matrix import distance_matrix as distance_matrix
from .pairs.divergences.divergence_estimators import EntropyDivergence as EntropyDivergence
from .pairs.divergences.divergence_estimators import HeldOutDivergence as HeldOutDivergence
from .pairs.divergences.divergence_estimators import KNNDivergence as KNNDivergence
from .pairs.divergences.divergence_estimators import PluginDivergence as PluginDivergence
from .pairs.divergences.divergence_matrix import divergence_matrix as divergence_matrix
from .pairs.nearest import NearestSets as NearestSets
from .pairs.psd import project_psd as project_psd
from .pairs.pseudo_euclidean import PseudoEuclideanEmbedding as PseudoEuclideanEmbedding
from .scaling.set_columns import SetColumns as SetColumns
from .scaling.set_pca import SetPCA as SetPCA
from .scaling.set_scaler import SetScaler as SetScaler
from .sets import SampleSetError as SampleSetError
from .sets import SampleSets as SampleSets
from .store import (
    ArrayReader as ArrayReader,
)
from .store import (
    CytometryReader as CytometryReader,
)
from .store import (
    LidarReader as LidarReader,
)
from .store import (
    SetStore as SetStore,
)
from .store import (
    SetWriter as SetWriter,
)
from .store import (
    SourceError as SourceError,
)
from .store import (
    StoreFormatError as StoreFormatError,
)
from .store import (
    TableReader as TableReader,
)
from .store import (
    open_sets as open_sets,
)
from .store import (
    write_sets as write_sets,
)
from .theory.hdd_error_bound import HddErrorBound as HddErrorBound
from .theory.hdd_error_bound import hdd_error_bound as hdd_error_bound
from .theory.kernel_error import KernelError as KernelError
from .theory.kernel_error import kernel_error as kernel_error
from .theory.n_features_for import n_features_for as n_features_for
from .two_sample.adjusted_p_values import adjusted_p_values as adjusted_p_values
from .two_sample.group_test import group_test as group_test
from .two_sample.two_sample_power import two_sample_power as two_sample_power
from .two_sample.two_sample_test import two_sample_test as two_sample_test

__version__: str
