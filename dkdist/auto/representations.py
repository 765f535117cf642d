"""Candidate representations of a collection, chosen by the kind, dimension and sizes of its sets.

`SizesSpec` is the baseline that uses only set sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist._base.domains import symmetric_bounds
from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import Sets
from dkdist._base.params import Params
from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.auto._tuning import (
    ALIGNED_LENGTHS_RTOL,
    BANDWIDTHS,
    MAX_COMPONENTS,
    MAX_COVARIANCE_DIMS,
    MAX_JOINT_DIMS,
    MAX_MEAN_LENGTH,
    MAX_MEAN_SIZE,
    MAX_POSITION_COLUMNS,
    MAX_PROFILE_SIZE,
    MAX_REFERENCE_SETS,
    MAX_REFERENCE_STRINGS,
    MAX_TREE_DIMS,
    MIN_PCA_DIMS,
    N_BASIS_BY_BANDWIDTH,
    PAIR_BANDWIDTH,
)
from dkdist.distances.distance_embedding import DistanceEmbedding
from dkdist.distances.dtw import DynamicTimeWarping
from dkdist.distances.series_windows import SeriesWindowEmbedding
from dkdist.distances.sliced_wasserstein_embedding import SlicedWassersteinEmbedding
from dkdist.embeddings._tuning import MAX_PAIR_SEARCH_DIMS
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.invariant_features import Element, axis_group
from dkdist.embeddings.mapped_embedding import MappedEmbeddingSpec
from dkdist.embeddings.moments import MomentEmbedding
from dkdist.embeddings.ngrams import NGramEmbedding
from dkdist.embeddings.positions import PositionEmbedding
from dkdist.embeddings.rotations import DistanceProfiles, PrincipalAxes
from dkdist.embeddings.set_pca import SetPCA
from dkdist.embeddings.summary import SummaryEmbedding
from dkdist.embeddings.transformer import TransformerParams
from dkdist.kernels.mean_embedding import MeanEmbedding
from dkdist.sets import SampleSets


@serializable("SizesSpec")
@dataclass(frozen=True)
class SizesSpec(Params[Any]):
    """Parameters of the embedding whose only feature is log(number of points)."""

    n_dims: int
    domain: None = None
    n_features: int = 1

    def embed(self, sets: SampleSets) -> F32:
        """Return log n of each set: (n_sets, 1) float32."""
        return np.log(sets.sizes)[:, None].astype(np.float32)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return zeros: the weight of a point does not change the number of points."""
        return np.zeros((len(at), gradient.shape[1]))


@serializable("Representation")
@dataclass(frozen=True)
class Representation:
    """A candidate representation: an unfitted embedding and the processing of its rows.

    ``before`` is applied to the sets first. A ``paired`` representation is dropped if no pairs are selected.
    ``standardised`` is for columns with different units. ``images`` are symmetries of the axes over which
    kernels are averaged. A ``baseline`` is one of the simple representations that models are compared with. The
    time of an ``is_quadratic`` representation grows with the square of the sizes of sets.
    """

    family: str
    name: str
    embedding: SetEmbedding | None
    standardised: bool = False
    baseline: bool = False
    images: tuple[Element, ...] = ()
    before: SetPCA | PrincipalAxes | DistanceProfiles | None = None
    paired: bool = False
    is_quadratic: bool = False
    tree_seed: int | None = None  # seed of bagged trees; None: kernel ridge regression


@dataclass(frozen=True)
class Omission:
    """A family that is not tried, and why; ``on_request`` are its candidates if only their cost is the reason."""

    family: str
    reason: str
    on_request: tuple[Representation, ...] = ()


def representations(
    sample: SampleSets, families: Sequence[str] | None, seed: int, is_ordered: bool
) -> tuple[list[Representation], list[Omission]]:
    """Return candidates for sets like the sample, simple ones first, and what is left out.

    Candidates are the ``families`` (None: all that are not too expensive) and the baselines.
    """
    makers = TEXT_MAKERS if is_text(sample) else (*POINT_MAKERS, *(ORDERED_MAKERS if is_ordered else ()))
    made = [item for maker in makers for item in maker(sample, seed)]
    entries = [item for item in made if isinstance(item, Representation)]
    omissions = [item for item in made if isinstance(item, Omission)]
    if families is None:
        return entries, omissions
    requested = [e for omission in omissions if omission.family in families for e in omission.on_request]
    entries = [e for e in entries if e.baseline or e.family in families] + requested
    reasons = {omission.family: omission.reason for omission in omissions}
    for family in families:
        if all(entry.family != family for entry in entries):
            of_points = "ordered is False" if family in ORDERED_FAMILIES else "X contains real-valued points"
            reason = reasons.get(family, "X contains strings" if is_text(sample) else of_points)
            raise ValueError(f"candidates must suit the sets; {family!r} cannot be tried: {reason}.")
    return entries, []


def is_text(sets: Sets) -> bool:
    """Return whether sets are strings."""
    return sets.alphabet is not None or sets.points_dtype.kind == "u"


def user_representations(embeddings: Sequence[Any]) -> list[Representation]:
    """Return embeddings and transformers of the user as candidates."""
    for embedding in embeddings:
        if isinstance(embedding, type) or not (hasattr(embedding, "fit") and hasattr(embedding, "transform")):
            raise TypeError(
                f"candidates must contain names, embeddings or transformers of sets; got {embedding!r}."
            )
    return [
        Representation("own", f"{type(e).__name__} {i}", clone(e, safe=False))
        for i, e in enumerate(embeddings)
    ]


Candidates = Iterator[Representation | Omission]


def _sizes(sample: SampleSets, seed: int) -> Candidates:
    sizes = Representation("sizes", "sizes", None, standardised=True, baseline=True)
    yield sizes if np.ptp(sample.sizes) > 0 else Omission("sizes", "all sets have the same size", (sizes,))


def _moments(sample: SampleSets, seed: int) -> Candidates:
    yield Representation("means", "means", MomentEmbedding(1), standardised=True, baseline=True)
    moments = Representation("moments", "moments", MomentEmbedding(2), standardised=True, baseline=True)
    is_small = sample.n_dims <= MAX_COVARIANCE_DIMS
    yield (
        moments
        if is_small
        else Omission("moments", f"X has more than {MAX_COVARIANCE_DIMS} dimensions", (moments,))
    )


def _densities(sample: SampleSets, seed: int) -> Candidates:
    d = sample.n_dims
    if d == 1:
        yield Omission("marginals", "X has 1 dimension, where it equals 'hellinger'")
    if d > MAX_JOINT_DIMS:
        yield Omission("hellinger", f"X has more than {MAX_JOINT_DIMS} dimensions")
    for h in BANDWIDTHS:
        if d <= len(N_BASIS_BY_BANDWIDTH[h]):
            embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=N_BASIS_BY_BANDWIDTH[h][d - 1])
            yield Representation("hellinger", f"Hellinger, bandwidth {h:g}", embedding)
        if d > 1 and h > BANDWIDTHS[0]:
            n_basis = N_BASIS_BY_BANDWIDTH[h][0]
            embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=n_basis, structure="marginal")
            yield Representation("marginals", f"Hellinger of each dimension, bandwidth {h:g}", embedding)


def _pair_densities(sample: SampleSets, seed: int) -> Candidates:
    name = f"Hellinger of each dimension and of pairs, bandwidth {PAIR_BANDWIDTH:g}"
    pairs = Representation("pairs", name, _pair_embedding(), paired=True)
    if not MAX_JOINT_DIMS < sample.n_dims <= MAX_PAIR_SEARCH_DIMS:
        yield Omission("pairs", f"X does not have {MAX_JOINT_DIMS + 1} to {MAX_PAIR_SEARCH_DIMS} dimensions")
    elif sample.n_dims > MAX_COMPONENTS:
        yield Omission(
            "pairs", f"X has more than {MAX_COMPONENTS} dimensions; 'components' uses pairs", (pairs,)
        )
    else:
        yield pairs


def _components(sample: SampleSets, seed: int) -> Candidates:
    d = sample.n_dims
    if d < MIN_PCA_DIMS:
        yield Omission("components", f"X has fewer than {MIN_PCA_DIMS} dimensions")
        return
    h = BANDWIDTHS[-1]
    embedding = DivergenceEmbedding(
        "hellinger", bandwidth=h, n_basis=N_BASIS_BY_BANDWIDTH[h][0], structure="marginal"
    )
    name = f"Hellinger of principal components, bandwidth {h:g}"
    yield Representation("components", name, embedding, before=SetPCA(min(d, MAX_COMPONENTS)))
    name = f"Hellinger of principal components and of pairs, bandwidth {PAIR_BANDWIDTH:g}"
    before = SetPCA(min(d, MAX_COMPONENTS))
    yield Representation("components", name, _pair_embedding(), before=before, paired=True)


def _pair_embedding() -> DivergenceEmbedding:
    return DivergenceEmbedding("hellinger", bandwidth=PAIR_BANDWIDTH, structure="pairs")


def _symmetric(sample: SampleSets, seed: int) -> Candidates:
    d = sample.n_dims
    # Constant axes have no symmetric partner.
    axes = [j for j in range(d) if np.ptp(sample.relative[:, j]) > 0]
    if d > MAX_JOINT_DIMS or not axes:
        reason = f"X has more than {MAX_JOINT_DIMS} dimensions" if axes else "all points are equal"
        yield Omission("symmetric", reason)
        return
    h = BANDWIDTHS[1]
    embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=N_BASIS_BY_BANDWIDTH[h][d - 1])
    for axis in axes if len(axes) > 1 else ():
        images = axis_group("reflections", d, [axis])
        yield Representation("symmetric", f"Hellinger, mirrored along axis {axis}", embedding, images=images)
    symmetry = "all" if d < 3 else "reflections"
    name = "reflected and swapped" if d == 2 else "reflected"
    yield Representation("symmetric", f"Hellinger, {name}", embedding, images=axis_group(symmetry, d, axes))


def _rotations(sample: SampleSets, seed: int) -> Candidates:
    d, axes = sample.n_dims, PrincipalAxes()
    if d not in (2, 3):
        yield Omission("rotation", "X does not have 2 or 3 dimensions")
        return
    low, high = symmetric_bounds(axes.fit(sample).transform(sample))
    if max(high) == 0:
        yield Omission("rotation", "the points of each set are equal")
        return
    if sample.sizes.mean() <= MAX_PROFILE_SIZE:
        embedding: SetEmbedding = SlicedWassersteinEmbedding(random_state=seed)
        name = "sliced Wasserstein of distance profiles"
        yield Representation("rotation", name, embedding, before=DistanceProfiles())
    # Averages over reflections do not depend on the signs of axes, which are random without skewness.
    images = axis_group("reflections", d, range(d))
    # The narrowest bandwidth would be selected by chance too often (tests/golden/test_accuracies.py).
    h = BANDWIDTHS[d - 1]
    embedding = DivergenceEmbedding(
        "hellinger", bandwidth=h, n_basis=N_BASIS_BY_BANDWIDTH[h][d - 1], domain=(low, high), outside="clip"
    )
    name = f"Hellinger along principal axes, bandwidth {h:g}"
    yield Representation("rotation", name, embedding, images=images, before=axes)


def _sliced(sample: SampleSets, seed: int) -> Candidates:
    yield Representation(
        "sliced-wasserstein", "sliced Wasserstein", SlicedWassersteinEmbedding(random_state=seed)
    )


def _kernel_means(sample: SampleSets, seed: int) -> Candidates:
    for factor in (0.5, 1.0, 2.0):
        sigma = factor * float(np.sqrt(sample.n_dims))
        embedding = MeanEmbedding(1000, sigma=sigma, random_state=seed)
        yield Representation("kernel-mean", f"kernel mean, sigma {sigma:.3g}", embedding)


def _set_distances(sample: SampleSets, seed: int) -> Candidates:
    embedding = _distance_embedding("directed-modified-hausdorff", sample, seed)
    before = SetPCA(MAX_COMPONENTS) if sample.n_dims > MAX_COMPONENTS else None
    name = "modified Hausdorff distances"
    distances = Representation(
        "modified-hausdorff", name, embedding, standardised=True, before=before, is_quadratic=True
    )
    if sample.n_dims <= MAX_JOINT_DIMS:
        yield Omission("modified-hausdorff", f"X has at most {MAX_JOINT_DIMS} dimensions", (distances,))
    elif sample.sizes.mean() > MAX_MEAN_SIZE:
        reason = f"sets have {sample.sizes.mean():.0f} points on average, more than {MAX_MEAN_SIZE}"
        yield Omission("modified-hausdorff", reason, (distances,))
    else:
        yield distances


def _windows(sample: SampleSets, seed: int) -> Candidates:
    if sample.weights is not None:
        yield Omission("windows", "points have weights")
        return
    yield Representation("windows", "filters of windows", SeriesWindowEmbedding(random_state=seed))


def _time_warping(sample: SampleSets, seed: int) -> Candidates:
    if sample.weights is not None:
        yield Omission("dtw", "points have weights")
        return
    subsamples = DistanceEmbedding(
        "dtw", n_components=min(MAX_REFERENCE_SETS, len(sample)), random_state=seed
    )
    objects = _distance_embedding(DynamicTimeWarping("euclidean"), sample, seed, sampler="object")
    candidates = (
        Representation("dtw", "dynamic time warping to subsamples", subsamples, is_quadratic=True),
        Representation(
            "dtw", "dynamic time warping to objects", objects, standardised=True, is_quadratic=True
        ),
    )
    if sample.sizes.mean() > MAX_MEAN_LENGTH:
        reason = f"series have {sample.sizes.mean():.0f} points on average, more than {MAX_MEAN_LENGTH}"
        yield Omission("dtw", reason, candidates)
    else:
        yield from candidates


def _edit_distances(sample: SampleSets, seed: int) -> Candidates:
    for gamma, label in ((0, "edit distances"), ("auto", "exponentials of edit distances")):
        embedding = _distance_embedding("levenshtein", sample, seed, gamma, sampler="object")
        yield Representation("levenshtein", label, embedding, standardised=True, is_quadratic=True)
    # The 1,024 reference strings may not contain the longest strings.
    longest = int(np.quantile(sample.sizes, 1.0 if len(sample) <= 1024 else 0.99, method="lower"))
    for min_length, max_length in ((2, 8), (16, 60)):
        if longest >= min_length:
            lengths = min_length, min(max_length, longest)
            embedding = _distance_embedding("levenshtein", sample, seed, sampler="segment", lengths=lengths)
            name = f"edit distances to pieces of {lengths[0]} to {lengths[1]}"
            yield Representation("levenshtein", name, embedding, standardised=True, is_quadratic=True)


def _ngrams(sample: SampleSets, seed: int) -> Candidates:
    is_plain = sample.weights is None
    ngrams = Representation("ngrams", "character n-grams", NGramEmbedding(), baseline=True)
    yield ngrams if is_plain else Omission("ngrams", "symbols have weights")


def _positions(sample: SampleSets, seed: int) -> Candidates:
    positions = Representation("positions", "positions", PositionEmbedding(), baseline=True)
    short, median, long = np.quantile(sample.sizes, [0.05, 0.5, 0.95])
    if sample.weights is not None:
        yield Omission("positions", "symbols have weights")
    elif long - short > ALIGNED_LENGTHS_RTOL * median:
        yield Omission("positions", "the lengths of strings differ", (positions,))
    elif sample.sizes.max() * len(np.unique(sample.relative)) > MAX_POSITION_COLUMNS:
        yield Omission("positions", f"more than {MAX_POSITION_COLUMNS:,} columns", (positions,))
    else:
        yield positions


def _distance_embedding(
    distance: Any, sample: SampleSets, seed: int, gamma: Any = 0, **kwargs: Any
) -> DistanceEmbedding:
    R = min(MAX_REFERENCE_STRINGS if distance == "levenshtein" else MAX_REFERENCE_SETS, len(sample))
    return DistanceEmbedding(
        distance, n_components=R, gamma=gamma, standardize=False, random_state=seed, **kwargs
    )


def _trees(sample: SampleSets, seed: int) -> Candidates:
    trees = Representation("trees", "trees on summaries", SummaryEmbedding(), tree_seed=seed)
    is_small = sample.n_dims <= MAX_TREE_DIMS
    yield trees if is_small else Omission("trees", f"X has more than {MAX_TREE_DIMS} dimensions", (trees,))


RepresentationMaker = Callable[[SampleSets, int], Candidates]
POINT_MAKERS: tuple[RepresentationMaker, ...] = (
    _sizes, _moments, _sliced, _densities, _pair_densities, _components, _kernel_means, _symmetric, _rotations,
    _set_distances, _trees,
)  # fmt: skip
ORDERED_MAKERS: tuple[RepresentationMaker, ...] = (_windows, _time_warping)
ORDERED_FAMILIES = ("windows", "dtw")
TEXT_MAKERS: tuple[RepresentationMaker, ...] = (_sizes, _ngrams, _positions, _edit_distances)
FAMILIES = (
    "sizes", "means", "moments", "hellinger", "marginals", "pairs", "components", "symmetric", "rotation",
    "sliced-wasserstein", "kernel-mean", "modified-hausdorff", "windows", "dtw", "trees", "levenshtein", "ngrams",
    "positions",
)  # fmt: skip


def fit_spec(entry: Representation, sample: SampleSets) -> Any:
    """Fit a representation to a sample already mapped by ``before``; None if it requires pairs but selects none."""
    if entry.embedding is None:
        return SizesSpec(sample.n_dims)
    fitted: Any = entry.embedding.fit(sample)
    if not isinstance(fitted, SetEmbedding):
        return TransformerParams.of(fitted, sample)
    spec = fitted.spec_
    if entry.paired and not entry.embedding.pairs_:
        return None
    return spec if entry.before is None else MappedEmbeddingSpec((entry.before.spec_,), spec)
