"""What is tried on a collection: the ways to see a set as a row that its kind, dimension and sizes allow.

How large a set is, as a row of its own: the baseline that says whether sizes alone tell the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist._base.embedding import SetEmbedding
from dkdist._base.params import Params
from dkdist._numba.arrays import F32, F64
from dkdist._utils.serialization import serializable
from dkdist.distances.distance_embedding import DistanceEmbedding
from dkdist.distances.dtw import DynamicTimeWarping
from dkdist.distances.sliced_wasserstein_embedding import SlicedWassersteinEmbedding
from dkdist.embeddings._tuning import MAX_PAIR_SEARCH_DIMS
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.invariant_features import Element, axis_group
from dkdist.embeddings.mapped_embedding import MappedEmbeddingSpec
from dkdist.embeddings.moments import MomentEmbedding
from dkdist.embeddings.ngrams import NGramEmbedding
from dkdist.embeddings.set_pca import SetPCA
from dkdist.embeddings.summary import SummaryEmbedding
from dkdist.embeddings.transformer import TransformerParams
from dkdist.kernels.mean_embedding import MeanEmbedding
from dkdist.sets import SampleSets


@serializable("SizesSpec")
@dataclass(frozen=True)
class SizesSpec(Params[Any]):
    """The logarithm of the number of points, for sets of ``n_dims`` dimensions."""

    n_dims: int
    domain: None = None
    n_features: int = 1

    def embed(self, sets: SampleSets) -> F32:
        """log n of each set: (n_sets, 1) float32."""
        return np.log(sets.sizes)[:, None].astype(np.float32)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Zero: a point that counts more does not change how many there are."""
        return np.zeros((len(at), gradient.shape[1]))


BANDWIDTHS = (0.03, 0.06, 0.12)  # of the domain: finer ones are noise for a learner, coarser ones are moments
BASIS = {0.03: (40, 24), 0.06: (24, 14, 10), 0.12: (12, 10, 8)}  # for one, two and three dimensions
PAIRED = 0.12  # of pairs of dimensions
LEAST_REDUCED = 8  # dimensions from which principal components are tried
MOST_COMPONENTS = 64  # of these, and of those that distances are of
MOST_MOMENTS = 128  # dimensions of which all products are taken
FEW_POINTS = 128  # of a set, on average, for which distances to other sets are cheap
IN_ORDER = 0.3  # serial correlation from which the points of a set are taken for a series
MAX_TREE_DIMS = 256  # dimensions up to which trees on nine summaries of each are tried
OBJECTS, STRINGS = 512, 1024  # that distances are measured to


@serializable("Representation")
@dataclass(frozen=True)
class Representation:
    """One way to see a set as a row: an embedding not fitted yet, and what becomes of its rows.

    ``before`` maps sets to sets first; of ``paired`` ones nothing is left where the data ask for no pairs.
    Columns of unlike units are ``standardised``. ``images`` are the symmetries of the axes that a kernel of such rows
    is averaged over. A ``baseline`` is what anybody would have tried first.
    """

    family: str
    name: str
    embedding: SetEmbedding | None
    standardised: bool = False
    baseline: bool = False
    images: tuple[Element, ...] = ()
    before: SetPCA | None = None
    paired: bool = False
    tree_seed: int | None = None  # of bagged trees on the rows; None for kernel ridge regression


def representations(sample: SampleSets, wanted: Sequence[str] | None, seed: int) -> list[Representation]:
    """What to try on sets like the sample, simple ones first; all families, or the ``wanted`` ones and baselines."""
    tried = [entry for make in (_of_text if is_text(sample) else _of_points) for entry in make(sample, seed)]
    if wanted is None:  # of many dimensions components have the pairs, at a fraction of the cost
        return [e for e in tried if e.family != "pairs" or sample.n_dims <= MOST_COMPONENTS]
    return [entry for entry in tried if entry.baseline or entry.family in wanted]


def is_text(sample: SampleSets) -> bool:
    """Whether sets are strings, whose codes are no coordinates."""
    return sample.alphabet is not None or sample.relative.dtype.kind == "u"


def own_representations(given: Sequence[Any]) -> list[Representation]:
    """Embeddings of the user, and other transformers of sets to rows, as candidates."""
    for one in given:
        if isinstance(one, type) or not (hasattr(one, "fit") and hasattr(one, "transform")):
            raise TypeError(f"a candidate must be a name, an embedding or a transformer of sets; got {one!r}")
    return [
        Representation("own", f"{type(e).__name__} {i}", clone(e, safe=False)) for i, e in enumerate(given)
    ]


def _sizes(sample: SampleSets, seed: int) -> Iterator[Representation]:
    if np.ptp(sample.sizes) > 0:
        yield Representation("sizes", "sizes", None, standardised=True, baseline=True)


def _moments(sample: SampleSets, seed: int) -> Iterator[Representation]:
    yield Representation("means", "means", MomentEmbedding(1), standardised=True, baseline=True)
    if sample.n_dims <= MOST_MOMENTS:
        yield Representation("moments", "moments", MomentEmbedding(2), standardised=True, baseline=True)


def _densities(sample: SampleSets, seed: int) -> Iterator[Representation]:
    d = sample.n_dims
    for h in BANDWIDTHS:
        if d <= len(BASIS[h]):
            embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=BASIS[h][d - 1])
            yield Representation("hellinger", f"Hellinger, bandwidth {h:g}", embedding)
        if d > 1 and h > BANDWIDTHS[0]:
            n_basis = BASIS[h][0]
            embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=n_basis, structure="marginal")
            yield Representation("marginals", f"Hellinger of each dimension, bandwidth {h:g}", embedding)


def _paired(sample: SampleSets, seed: int) -> Iterator[Representation]:
    if 3 < sample.n_dims <= MAX_PAIR_SEARCH_DIMS:
        told = f"Hellinger of each dimension and of pairs, bandwidth {PAIRED:g}"
        yield Representation("pairs", told, _each_and_pairs(), paired=True)


def _components(sample: SampleSets, seed: int) -> Iterator[Representation]:
    d = sample.n_dims
    if d < LEAST_REDUCED:
        return
    h = BANDWIDTHS[-1]
    each = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=BASIS[h][0], structure="marginal")
    told = f"Hellinger of principal components, bandwidth {h:g}"
    yield Representation("components", told, each, before=SetPCA(min(d, MOST_COMPONENTS)))
    told = f"Hellinger of principal components and of pairs, bandwidth {PAIRED:g}"
    before = SetPCA(min(d, MOST_COMPONENTS))
    yield Representation("components", told, _each_and_pairs(), before=before, paired=True)


def _each_and_pairs() -> DivergenceEmbedding:
    return DivergenceEmbedding("hellinger", bandwidth=PAIRED, structure="pairs")


def _symmetric(sample: SampleSets, seed: int) -> Iterator[Representation]:
    d = sample.n_dims
    axes = [j for j in range(d) if np.ptp(sample.relative[:, j]) > 0]  # a flat one is like no other
    if d > 3 or not axes:
        return
    h = BANDWIDTHS[1]
    embedding = DivergenceEmbedding("hellinger", bandwidth=h, n_basis=BASIS[h][d - 1])
    for axis in axes if len(axes) > 1 else ():
        images = axis_group("reflections", d, [axis])
        yield Representation("symmetric", f"Hellinger, mirrored along axis {axis}", embedding, images=images)
    word = "all" if d < 3 else "reflections"
    told = "reflected and swapped" if d == 2 else "reflected"
    yield Representation("symmetric", f"Hellinger, {told}", embedding, images=axis_group(word, d, axes))


def _sliced(sample: SampleSets, seed: int) -> Iterator[Representation]:
    yield Representation(
        "sliced-wasserstein", "sliced Wasserstein", SlicedWassersteinEmbedding(random_state=seed)
    )


def _kernel_means(sample: SampleSets, seed: int) -> Iterator[Representation]:
    for factor in (0.5, 1.0, 2.0):
        sigma = factor * float(np.sqrt(sample.n_dims))
        embedding = MeanEmbedding(1000, sigma=sigma, random_state=seed)
        yield Representation("kernel-mean", f"kernel mean, sigma {sigma:.3g}", embedding)


def _set_distances(sample: SampleSets, seed: int) -> Iterator[Representation]:
    if sample.n_dims > 3 and sample.sizes.mean() <= FEW_POINTS:
        embedding = _distances("directed-modified-hausdorff", sample, seed)
        before = SetPCA(MOST_COMPONENTS) if sample.n_dims > MOST_COMPONENTS else None
        told = "modified Hausdorff distances"
        yield Representation("modified-hausdorff", told, embedding, standardised=True, before=before)


def _series(sample: SampleSets, seed: int) -> Iterator[Representation]:
    long, weighted = sample.sizes.mean() > 2 * FEW_POINTS, sample.weights is not None
    if long or weighted or serial_correlation(sample) <= IN_ORDER:
        return
    pieces = DistanceEmbedding("dtw", n_components=min(OBJECTS, len(sample)), random_state=seed)
    yield Representation("dtw", "dynamic time warping to subsamples", pieces)
    objects = _distances(DynamicTimeWarping("euclidean"), sample, seed, sampler="object")
    yield Representation("dtw", "dynamic time warping to objects", objects, standardised=True)


def _edits(sample: SampleSets, seed: int) -> Iterator[Representation]:
    for gamma, told in ((0, "edit distances"), ("auto", "exponentials of edit distances")):
        embedding = _distances("levenshtein", sample, seed, gamma, sampler="object")
        yield Representation("levenshtein", told, embedding, standardised=True)
    # Distances look at some 1,024 of the strings: the longest of all need not be among these.
    longest = int(np.quantile(sample.sizes, 1.0 if len(sample) <= 1024 else 0.99, method="lower"))
    for least, most in ((2, 8), (16, 60)):
        if longest >= least:
            lengths = least, min(most, longest)
            embedding = _distances("levenshtein", sample, seed, sampler="segment", lengths=lengths)
            name = f"edit distances to pieces of {lengths[0]} to {lengths[1]}"
            yield Representation("levenshtein", name, embedding, standardised=True)


def _ngrams(sample: SampleSets, seed: int) -> Iterator[Representation]:
    if sample.weights is None:
        yield Representation("ngrams", "character n-grams", NGramEmbedding())


def _distances(
    distance: Any, sample: SampleSets, seed: int, gamma: Any = 0, **more: Any
) -> DistanceEmbedding:
    R = min(STRINGS if distance == "levenshtein" else OBJECTS, len(sample))
    return DistanceEmbedding(
        distance, n_components=R, gamma=gamma, standardize=False, random_state=seed, **more
    )


def _trees(sample: SampleSets, seed: int) -> Iterator[Representation]:
    if sample.n_dims <= MAX_TREE_DIMS:
        yield Representation("trees", "trees on summaries", SummaryEmbedding(), tree_seed=seed)


Maker = Callable[[SampleSets, int], Iterator[Representation]]
_of_points: tuple[Maker, ...] = (
    _sizes, _moments, _sliced, _densities, _paired, _components, _kernel_means, _symmetric, _set_distances, _series,
    _trees,
)  # fmt: skip
_of_text: tuple[Maker, ...] = (_sizes, _ngrams, _edits)
FAMILIES = (
    "sizes", "means", "moments", "hellinger", "marginals", "pairs", "components", "symmetric", "sliced-wasserstein",
    "kernel-mean", "modified-hausdorff", "dtw", "trees", "levenshtein", "ngrams",
)  # fmt: skip


def serial_correlation(sample: SampleSets) -> float:
    """How alike neighbouring points of a set are: correlation with the next point, the best dimension's."""
    x, offsets = sample.relative.astype(np.float64), sample.offsets
    group = np.repeat(np.arange(len(sample)), sample.sizes)
    x = x - (np.add.reduceat(x, offsets[:-1], axis=0) / sample.sizes[:, None])[group]
    same = group[1:] == group[:-1]
    products, squares = (x[1:] * x[:-1])[same].sum(axis=0), (x**2).sum(axis=0)
    return float(np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0).max())


def fitted_spec(entry: Representation, sample: SampleSets) -> Any:
    """The specification of the representation's rows; None if it has no pairs that it is for.

    It is from a sample of sets, which went through what comes ``before``.
    """
    if entry.embedding is None:
        return SizesSpec(sample.n_dims)
    fitted: Any = entry.embedding.fit(sample)
    if not isinstance(fitted, SetEmbedding):
        return TransformerParams.of(fitted, sample)
    spec = fitted.spec_
    if entry.paired and not entry.embedding.pairs_:
        return None
    return spec if entry.before is None else MappedEmbeddingSpec((entry.before.spec_,), spec)
