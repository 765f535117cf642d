"""What `dkdist` offers: every public name once, with its home; imported when it is first used."""

from . import datasets as datasets
from . import plot as plot
from ._base.fold import fold as fold
from .alignment.align import Alignment as Alignment
from .alignment.align import align as align
from .auto.set_classifier import SetClassifier as SetClassifier
from .auto.set_regressor import SetRegressor as SetRegressor
from .auto.set_survival import SetSurvival as SetSurvival
from .coresets.coreset import Coreset as Coreset
from .coresets.coreset import coreset as coreset
from .coresets.coreset import coreset_size as coreset_size
from .coresets.merging import RunningCoreset as RunningCoreset
from .coresets.merging import merge_coresets as merge_coresets
from .coresets.thinning import CoresetThinning as CoresetThinning
from .distances.distance_embedding import DistanceEmbedding as DistanceEmbedding
from .distances.distance_embedding import pairwise as pairwise
from .distances.dtw import DynamicTimeWarping as DynamicTimeWarping
from .distances.elastic import ERP as ERP
from .distances.elastic import MSM as MSM
from .distances.elastic import TWED as TWED
from .distances.elastic import GlobalAlignment as GlobalAlignment
from .distances.elastic import SoftDTW as SoftDTW
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
from .distances.registry import register_distance as register_distance
from .distances.series_windows import SeriesWindowEmbedding as SeriesWindowEmbedding
from .distances.sliced_wasserstein import SlicedWasserstein as SlicedWasserstein
from .distances.sliced_wasserstein_embedding import (
    SlicedWassersteinEmbedding as SlicedWassersteinEmbedding,
)
from .distances.strings.damerau_levenshtein import DamerauLevenshtein as DamerauLevenshtein
from .distances.strings.jaro_winkler import JaroWinkler as JaroWinkler
from .distances.strings.levenshtein import Levenshtein as Levenshtein
from .distances.wasserstein import Wasserstein as Wasserstein
from .embeddings.codebook import CodebookEmbedding as CodebookEmbedding
from .embeddings.divergence import DivergenceEmbedding as DivergenceEmbedding
from .embeddings.function import FunctionEmbedding as FunctionEmbedding
from .embeddings.gaussian import GaussianEmbedding as GaussianEmbedding
from .embeddings.histogram import HistogramEmbedding as HistogramEmbedding
from .embeddings.invariant_features import InvariantFeatures as InvariantFeatures
from .embeddings.l2 import L2Embedding as L2Embedding
from .embeddings.moments import MomentEmbedding as MomentEmbedding
from .embeddings.ngrams import NGramEmbedding as NGramEmbedding
from .embeddings.positions import PositionEmbedding as PositionEmbedding
from .embeddings.rotations import DistanceProfiles as DistanceProfiles
from .embeddings.rotations import PrincipalAxes as PrincipalAxes
from .embeddings.set_columns import SetColumns as SetColumns
from .embeddings.set_pca import SetPCA as SetPCA
from .embeddings.set_scaler import SetScaler as SetScaler
from .embeddings.summary import SummaryEmbedding as SummaryEmbedding
from .inspection.explain import explain as explain
from .io import (
    ArrayReader as ArrayReader,
)
from .io import (
    CytometryReader as CytometryReader,
)
from .io import (
    HDF5Reader as HDF5Reader,
)
from .io import (
    LazySets as LazySets,
)
from .io import (
    LidarReader as LidarReader,
)
from .io import (
    NestedReader as NestedReader,
)
from .io import (
    SetStore as SetStore,
)
from .io import (
    SetWriter as SetWriter,
)
from .io import (
    SourceError as SourceError,
)
from .io import (
    StoreFormatError as StoreFormatError,
)
from .io import (
    TableReader as TableReader,
)
from .io import (
    as_sets as as_sets,
)
from .io import (
    open_sets as open_sets,
)
from .io import (
    write_sets as write_sets,
)
from .io.import_anndata import (
    import_anndata as import_anndata,
)
from .io.import_anndata import (
    open_anndata as open_anndata,
)
from .io.import_frame import import_frame as import_frame
from .io.import_sets import import_sets as import_sets
from .io.maintenance import compact as compact
from .io.maintenance import verify_sets as verify_sets
from .kernels.gradient import KernelGradient as KernelGradient
from .kernels.kernel_distance import kernel_distance as kernel_distance
from .kernels.mean_embedding import MeanEmbedding as MeanEmbedding
from .kernels.random_fourier_features import RandomFourierFeatures as RandomFourierFeatures
from .kernels.registry import GaussianMixture as GaussianMixture
from .kernels.registry import Kernel as Kernel
from .kernels.registry import register_kernel as register_kernel
from .kernels.shape_points import (
    ShapePoints as ShapePoints,
)
from .kernels.shape_points import (
    gridded_shape as gridded_shape,
)
from .kernels.shape_points import (
    refine_shapes as refine_shapes,
)
from .kernels.shape_points import (
    sampled_shape as sampled_shape,
)
from .kernels.shape_points import (
    shape_error_bound as shape_error_bound,
)
from .kernels.shapes import Curve as Curve
from .kernels.shapes import Surface as Surface
from .kernels.witness import witness as witness
from .linear.density_regressor import DensityRegressor as DensityRegressor
from .linear.incremental_wrapper import IncrementalWrapper as IncrementalWrapper
from .linear.lazy_predict import lazy_predict as lazy_predict
from .linear.one_pass_search import OnePassSearch as OnePassSearch
from .linear.predicted_density import PredictedDensity as PredictedDensity
from .linear.ridge import IncrementalRidge as IncrementalRidge
from .linear.ridge_classifier import IncrementalRidgeClassifier as IncrementalRidgeClassifier
from .linear.sgd_classifier import IncrementalSGDClassifier as IncrementalSGDClassifier
from .linear.sgd_regressor import IncrementalSGDRegressor as IncrementalSGDRegressor
from .models.feature_store import open_features as open_features
from .models.feature_store import write_features as write_features
from .models.model_file import load_model as load_model
from .models.model_file import save_model as save_model
from .pairwise_matrices.distance_matrix import distance_matrix as distance_matrix
from .pairwise_matrices.divergence_estimators import EntropyDivergence as EntropyDivergence
from .pairwise_matrices.divergence_estimators import HeldOutDivergence as HeldOutDivergence
from .pairwise_matrices.divergence_estimators import KNNDivergence as KNNDivergence
from .pairwise_matrices.divergence_estimators import PluginDivergence as PluginDivergence
from .pairwise_matrices.divergence_matrix import divergence_matrix as divergence_matrix
from .pairwise_matrices.gaussian_divergences import GaussianDivergence as GaussianDivergence
from .pairwise_matrices.nearest import NearestSets as NearestSets
from .pairwise_matrices.nystroem_sets import NystroemSets as NystroemSets
from .pairwise_matrices.psd import project_psd as project_psd
from .pairwise_matrices.pseudo_euclidean import PseudoEuclideanEmbedding as PseudoEuclideanEmbedding
from .pairwise_matrices.set_smoother import SetSmoother as SetSmoother
from .sets import SampleSetError as SampleSetError
from .sets import SampleSets as SampleSets
from .theory.hdd_error_bound import HddErrorBound as HddErrorBound
from .theory.hdd_error_bound import hdd_error_bound as hdd_error_bound
from .theory.kernel_error import KernelError as KernelError
from .theory.kernel_error import kernel_error as kernel_error
from .theory.n_features_for import n_features_for as n_features_for
from .two_sample.adjusted_p_values import adjusted_p_values as adjusted_p_values
from .two_sample.group_test import group_test as group_test
from .two_sample.power import group_test_power as group_test_power
from .two_sample.power import two_sample_power as two_sample_power
from .two_sample.two_sample_test import two_sample_test as two_sample_test

__version__: str
