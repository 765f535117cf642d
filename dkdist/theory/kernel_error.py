"""`kernel_error`: error of the inner products of a fitted pipeline against the exact kernel, on random pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import SetEmbedding, check_fitted_sets
from dkdist._base.inputs import SetsLike
from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import nonfinite_rows
from dkdist._utils.text import key_value_table
from dkdist.distances.distance_embedding import DistanceEmbedding
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.embeddings.divergences import divergence, normalization
from dkdist.embeddings.structure import feature_blocks
from dkdist.kernels.kernel_sums import scaled, sums
from dkdist.kernels.mean_embedding import MeanEmbedding
from dkdist.kernels.random_fourier_features import RandomFourierFeatures
from dkdist.kernels.registry import get_kernel
from dkdist.sets import SampleSets
from dkdist.theory._tuning import CONFIDENCE, MAX_PAIRS, MIN_REFERENCE_NODES_BY_DIM


@dataclass(frozen=True)
class KernelError:
    """Error of inner products over all pairs of sets, estimated from a sample of pairs.

    ``rms`` is the root mean square error with its 95 % confidence interval ``low``, ``high``. ``bias`` is the mean
    error, ``largest`` the largest absolute error of the sample. ``features_rms`` is the error of random features
    relative to the Gaussian kernel of their input rows, ``distance_rms`` the error of that kernel.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> sets = list(np.random.default_rng(0).normal(size=(30, 50, 1)))
    >>> model = dk.MeanEmbedding(500, sigma=1.0, method="orthogonal", random_state=0).fit(sets)
    >>> error = dk.kernel_error(model, sets, random_state=0)
    >>> isinstance(error, dk.KernelError), error.low <= error.rms <= error.high
    (True, True)
    """

    rms: float
    low: float
    high: float
    bias: float
    largest: float
    features_rms: float
    distance_rms: float
    n_pairs: int

    def _repr_html_(self) -> str:
        interval = f"{self.rms:.3g} ({100 * CONFIDENCE:.0f} % interval {self.low:.3g} to {self.high:.3g})"
        parts = f"{self.features_rms:.3g} of random features, {self.distance_rms:.3g} of the rows"
        pairs = [
            ("root mean square", interval),
            ("its parts", parts),
            ("mean", f"{self.bias:+.3g}"),
            ("largest in the sample", f"{self.largest:.3g}"),
            ("pairs", f"{self.n_pairs:,}"),
        ]
        return key_value_table("KernelError", pairs)


def kernel_error(
    model: Any, sets: SetsLike, n_pairs: int = 200, random_state: RandomStateLike = None
) -> KernelError:
    """Estimate the error of inner products of rows against the exact kernel between sets.

    Parameters
    ----------
    model : a fitted embedding of sets, or a fitted Pipeline
        (embedding, RandomFourierFeatures), optionally followed by a learner, which is ignored; or a single
        MeanEmbedding.
    sets : sets
        At least 2 sets; only the sampled sets of a store are read.
    n_pairs : int, default=200
        Number of independently drawn pairs of different sets.
    random_state : int, Generator or None
        Seed of the pairs.

    Returns
    -------
    KernelError

    Raises
    ------
    ValueError
        For a model without an exact kernel: no RandomFourierFeatures after an embedding other than
        MeanEmbedding, other steps between, "laplace" features of rows, or `DistanceEmbedding` (whose kernel is an
        expectation over random objects); for a model that is not fitted, and for invalid sets, whose rows are NaN with
        on_error="skip".

    Notes
    -----
    The exact kernel is exp(-d^2 / (2 sigma^2)), or that of ``kernel``, of the exact distance d. For
    `DivergenceEmbedding`, d^2 is the divergence of the same density estimates, computed by its formula on many more
    nodes (512, 96^2, 32^3, or two more per dimension for d >= 4). For `MeanEmbedding` it is a sum over all pairs of
    points in float64, and for other embeddings the squared distance of their rows. A `MeanEmbedding` without random
    features is compared with the mean kernel itself. The interval is a Student t interval of the mean squared error
    over independent pairs. It does not include the error of density estimates, for which see `hdd_error_bound`. Cost:
    two sets per pair, and for `MeanEmbedding` all pairs of their points.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.beta(1 + i % 3, 2, size=(80, 1)) for i in range(30)]
    >>> model = make_pipeline(dk.DivergenceEmbedding(), dk.RandomFourierFeatures(500, random_state=0)).fit(sets)
    >>> error = dk.kernel_error(model, sets, random_state=0)
    >>> error.low <= error.rms <= error.high < 0.1, error.distance_rms < error.features_rms
    (True, True)
    """
    embedding, features = _steps(model)
    for step in (embedding, features):
        if step is not None:
            check_is_fitted(step)
    sets = check_fitted_sets(embedding, sets)
    n_pairs = check_int("n_pairs", n_pairs, minimum=2)
    if n_pairs > MAX_PAIRS:
        raise ValueError(f"n_pairs must be at most {MAX_PAIRS:,}; got {n_pairs:,}.")
    if len(sets) < 2:
        raise ValueError("sets must contain at least 2 sets; got 1.")
    rng = np.random.default_rng(draw_seed(random_state))
    i = rng.integers(0, len(sets), n_pairs)
    j = (i + rng.integers(1, len(sets), n_pairs)) % len(sets)
    chosen, places = np.unique(np.concatenate([i, j]), return_inverse=True)
    used_sets: SampleSets = sets[chosen] if isinstance(sets, SampleSets) else sets[chosen].points_alone()
    i, j = places[:n_pairs], places[n_pairs:]
    A = embedding.transform(used_sets)
    invalid = nonfinite_rows(A)
    if len(invalid):
        raise ValueError(f"sets must be valid; the row of set {chosen[invalid[0]]} is NaN. Remove this set.")
    if features is None:
        return _summarize_errors(
            _products(A, i, j) - _mean_kernels(embedding, used_sets, i, j), np.zeros(n_pairs)
        )
    row_kernel = _kernel(_squares(A, i, j), features)
    exact = _kernel(_exact_squares(embedding, used_sets, A, i, j), features)
    return _summarize_errors(_products(features.transform(A), i, j) - row_kernel, row_kernel - exact)


def _steps(model: Any) -> tuple[Any, RandomFourierFeatures | None]:
    steps = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    if len(steps) > 1 and hasattr(steps[-1], "predict"):
        steps = steps[:-1]
    embedding, others = steps[0], steps[1:]
    kinds = [type(step).__name__ for step in steps]
    random_features = others[0] if len(others) == 1 and isinstance(others[0], RandomFourierFeatures) else None
    is_supported = isinstance(embedding, SetEmbedding) and not isinstance(embedding, DistanceEmbedding)
    if (
        not is_supported
        or (others and random_features is None)
        or (not others and not isinstance(embedding, MeanEmbedding))
    ):
        raise ValueError(
            "model must be a fitted MeanEmbedding, or a fitted pipeline of an embedding (except DistanceEmbedding) and "
            f"RandomFourierFeatures, with or without a learner; got {', '.join(kinds)}."
        )
    if random_features is not None and get_kernel(random_features.kernel).metric != "euclidean":
        raise ValueError(
            "RandomFourierFeatures must have a kernel of the Euclidean distance; got "
            f"kernel={random_features.kernel!r}."
        )
    return embedding, random_features


def _summarize_errors(features: F64, distance: F64) -> KernelError:
    error = features + distance
    square = error**2
    spread = student.ppf((1 + CONFIDENCE) / 2, len(error) - 1) * square.std(ddof=1) / np.sqrt(len(error))
    rms, low, high = (float(np.sqrt(max(0.0, square.mean() + s * spread))) for s in (0, -1, 1))
    features_rms, distance_rms = (float(np.sqrt((part**2).mean())) for part in (features, distance))
    bias, largest = float(error.mean()), float(np.abs(error).max())
    return KernelError(rms, low, high, bias, largest, features_rms, distance_rms, len(error))


def _products(A: F32, i: I64, j: I64) -> F64:
    return np.asarray(np.einsum("ij,ij->i", A[i].astype(np.float64), A[j].astype(np.float64)))


def _squares(A: F32, i: I64, j: I64) -> F64:
    return np.asarray(((A[i].astype(np.float64) - A[j].astype(np.float64)) ** 2).sum(axis=1))


def _kernel(squares: F64, features: RandomFourierFeatures) -> F64:
    """Return the kernel of the features at squared distances."""
    d, spec = np.sqrt(np.maximum(squares, 0))[:, None], features.spec_
    at = scaled(d, spec.sigma, spec.kernel)
    return sums(at, np.zeros((1, 1)), np.ones((1, 1)), spec.kernel)[:, 0]


def _exact_squares(embedding: Any, sets: SampleSets, A: F32, i: I64, j: I64) -> F64:
    if isinstance(embedding, MeanEmbedding):
        self_kernels = _mean_kernels(embedding, sets, np.arange(len(sets)), np.arange(len(sets)))
        return np.asarray(self_kernels[i] + self_kernels[j] - 2 * _mean_kernels(embedding, sets, i, j))
    if isinstance(embedding, DivergenceEmbedding):
        return _divergences(embedding, sets, i, j)
    return _squares(A, i, j)


def _mean_kernels(embedding: MeanEmbedding, sets: SampleSets, i: I64, j: I64) -> F64:
    """Return kappa(P, Q) of pairs of sets with weights of sum 1, averaged over bandwidths."""

    def weights(k: int) -> F64:
        w = sets.weights_of(k)
        p = np.ones(len(sets[k])) if w is None else w.reshape(-1).astype(np.float64)
        return np.asarray(p / p.sum())

    def kappa(a: int, b: int, sigma: float) -> float:
        x, y = sets[a].astype(np.float64), sets[b].astype(np.float64)
        centre = x.mean(axis=0)
        u, v = (scaled(points - centre, sigma, embedding.kernel) for points in (y, x))
        row_sums = sums(u, v, weights(a)[:, None], embedding.kernel)
        return float(weights(b) @ row_sums[:, 0])

    sigmas = np.atleast_1d(embedding.sigma_).tolist()
    return np.array([np.mean([kappa(a, b, sigma) for sigma in sigmas]) for a, b in zip(i, j, strict=True)])


def _divergences(embedding: DivergenceEmbedding, sets: SampleSets, i: I64, j: I64) -> F64:
    """Return divergences of the same densities on more nodes, by the formula of kappa, averaged over scales."""
    kappa = divergence(embedding.divergence).kappa
    parts = [
        part.weight * _divergences_of_densities(part.spec, kappa, part.select(sets), i, j)
        for part in feature_blocks(embedding.spec_)
    ]
    return normalization(embedding.divergence, embedding.normalized) * np.asarray(sum(parts))


def _divergences_of_densities(spec: DivergenceSpec, kappa: Any, sets: SampleSets, i: I64, j: I64) -> F64:
    min_nodes = (
        MIN_REFERENCE_NODES_BY_DIM[1]
        if spec.structure == "marginal"
        else MIN_REFERENCE_NODES_BY_DIM.get(spec.n_dims, 0)
    )
    totals = np.zeros(len(i))
    for bandwidth in spec.scales:
        # the error of a grid decreases so fast that two more nodes per dimension make it negligible
        n_basis = spec.n_basis + 2 if spec.structure == "grid" else max(2 * spec.n_basis, min_nodes)
        common = (spec.structure, n_basis, spec.frequencies, spec.masses)
        fine = DivergenceSpec(spec.domain, bandwidth, *common).materialize()
        p = fine.densities(sets)
        for k in range(len(i)):
            values = kappa(p[i[k]].astype(np.float64), p[j[k]].astype(np.float64))
            totals[k] += float((values @ fine.node_weights).sum()) / len(spec.scales)
    return totals
