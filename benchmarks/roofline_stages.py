"""Stages of a fit and compiled functions of distances, with the minimum work per set.

Counts are those of the algorithm of a stage with full SIMD vectors and no avoidable memory traffic. A step is a fused
multiply-add or a product; additions and minima count separately (`machine_rates.py`), and elementary functions by their
instructions. Symbols: n points per set in d dimensions, q nodes and K degrees per dimension, m columns per row, D
features, J frequencies, R landmarks (random objects) of M points.

    embed        n d cosines; n d (K - 2) steps of their recurrence, n d (K - q) additions to fold degrees, n d q
                 (q + 1) / 2 steps for the functions of all nodes; q + .. + q^(d-1) products and q^d steps per point.
                 d = 1: K additions per point for the coefficients, then K q steps
    powers       a logarithm and a root per node, J sines with cosines, 2 + 5 J products; 4 m bytes are written
    features     3 D/2L transforms of L log2 L additions and L signs (L: m rounded up to a power of two), D/2 sines with
                 cosines, 3 D/2 products; 4 D bytes are written to memory
    fused        features, and 2 D steps for the score and the update of a row; rows stay in the L2 cache: 20 D bytes
    ridge        D (D + 1) / 2 steps and D products; half a matrix of 8 D^2 bytes is read and written once per 4,096
                 rows, or per 128 MiB of rows
    pipeline     reading, embed, powers and fused, and 4 n d bytes of points
    dtw          n M R pairs of points: d differences, d squares, two minima and a sum
    levenshtein  17 word operations per symbol and landmark, which fills one word here
    hausdorff    n M R pairs: d differences, d squares, minima over rows and columns
    energy       n M R pairs: d differences, d squares, a root, a sum in float64 (two steps); n^2 of both within the set
    sliced       2 n d steps per direction (float64: half as many per vector), and the comparators of Batcher's odd-even
                 merge sort of n numbers, n log2(n) (log2(n) - 1) / 4 + n - 1, of a minimum and a maximum
    moments      2 d additions and d (d + 1) / 2 steps per point, in float64; 4 n d bytes are read
    mean         d steps and a sine with its cosine for each of D/2 frequencies and each point, two sums
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from machine_rates import Work, calls
from speed import mixture_sets

import dkdist as dk
from dkdist.embeddings._density_numba import degree_for, homogeneous_features
from dkdist.kernels.random_fourier_features import FourierMap
from dkdist.linear.ridge_statistics import Statistics, add_rows, tile_rows
from dkdist.linear.rows import RowBatch, RowLabels
from dkdist.linear.sgd_steps import Objective, State, prepare, step

POINTS, D = 200, 5000
F32 = np.dtype(np.float32)


class Computed(NamedTuple):
    """A stage: ``run`` takes one of ``parts``, which have ``n_sets`` sets together; ``work`` is that of one set."""

    n_sets: int
    run: Callable[[Any], Any]
    parts: Sequence[Any]
    work: Work


class FittedPipeline(NamedTuple):
    """Sets, and an embedding and random features fitted to them."""

    sets: dk.SampleSets
    embedding: Any
    features: Any

    @property
    def columns(self) -> int:
        """Number of columns per row, m."""
        return int(self.embedding.spec_.n_features)

    @property
    def degrees(self) -> int:
        """Number of degrees K, the maximum over dimensions."""
        return max(map(degree_for, self.embedding.spec_.bandwidth))

    @property
    def n_frequencies(self) -> int:
        """Number of nonzero frequencies J."""
        return int(np.count_nonzero(self.embedding.spec_.frequencies))


@cache
def make_pipeline(divergence: str, d: int, n_sets: int) -> FittedPipeline:
    """Return a pipeline with 10 nodes per dimension and 200 points per set."""
    sets = mixture_sets(n_sets, POINTS, d)
    embedding = dk.DivergenceEmbedding(divergence, n_basis=10, bandwidth="scott", domain="unit").fit(sets)
    return FittedPipeline(
        sets, embedding, dk.RandomFourierFeatures(D, random_state=0).fit(embedding.transform(sets))
    )


def quarters(n: int) -> list[slice]:
    """Return slices of four equal parts of n sets."""
    edges = np.linspace(0, n, 5).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


def densities_of(d: int, K: int, q: int) -> Work:
    """Return the work of densities of 200 points at q^d nodes."""
    n, pairs = POINTS, q * (q + 1) // 2
    steps, cosines = n * d * (K - 2), calls("cospi", n * d)
    if d == 1:
        return Work(steps + K * q, n * K) + cosines
    steps += n * d * pairs + n * sum(q**j for j in range(1, d + 1))
    return Work(steps, n * d * max(0, K - q)) + cosines


def powers_of(m: int, nodes: int, J: int) -> Work:
    """Return the work of a row of m columns from densities at the nodes."""
    functions = calls("log", nodes) + calls("sincospi", J * nodes)
    return functions + Work(nodes * (2 + 5 * J), functions={"sqrt": nodes}, bytes={"L3": 4 * m})


def features_of(m: int) -> Work:
    """Return the work of D structured features of a row of m columns."""
    L = max(16, 1 << (m - 1).bit_length())
    blocks = -(-D // (2 * L))
    return Work(blocks * 3 * L + 1.5 * D, blocks * 3 * L * float(np.log2(L))) + calls("sincospi", D / 2)


def embed(divergence: str, d: int, quick: bool) -> Computed:
    """Return the stage from points to rows."""
    data = make_pipeline(divergence, d, 256 if quick else 1024)
    tables, nodes = data.embedding.spec_.materialize(), 10**d
    work = densities_of(d, data.degrees, 10) + powers_of(data.columns, nodes, data.n_frequencies)
    parts = [data.sets[part] for part in quarters(len(data.sets))]
    return Computed(len(data.sets), tables.embed, parts, work)


def powers(quick: bool) -> Computed:
    """Return the stage from densities to rows, d = 2."""
    data = make_pipeline("jensen-shannon", 2, 256 if quick else 1024)
    spec = data.embedding.spec_
    p, weights = spec.materialize().densities(data.sets)[:, 0], np.full(100, 0.01)
    params = weights, np.array(spec.frequencies), np.array(spec.masses)

    def run(part: slice) -> None:
        homogeneous_features(p[part], *params, np.empty((len(p[part]), data.columns), np.float32))

    return Computed(len(p), run, quarters(len(p)), powers_of(data.columns, 100, data.n_frequencies))


def features(divergence: str, quick: bool) -> Computed:
    """Return the stage of features that are written to memory, as on many cores."""
    data = make_pipeline(divergence, 2, 256 if quick else 1024)
    A, tables = data.embedding.transform(data.sets), data.features.spec_.materialize()
    work = features_of(data.columns) + Work(bytes={"memory": 4 * D})
    return Computed(len(A), tables.transform, [A[part] for part in quarters(len(A))], work)


def fused(divergence: str, quick: bool) -> Computed:
    """Return the stage of SGD steps that compute features lazily."""
    data = make_pipeline(divergence, 2, 256 if quick else 1024)
    A, tables = data.embedding.transform(data.sets), data.features.spec_.materialize()
    fourier_map, objective = FourierMap(data.columns), Objective("log_loss", 1e-6, 4.0, n_classes=2)
    labels = RowLabels(np.arange(len(A)) % 2, np.zeros(len(A), bool))

    def run(seed: int) -> Any:
        rows, lazy_features = (
            RowBatch((0,), (len(A),), D, labels, seed=(seed,)),
            fourier_map.lazy_rows(tables, A),
        )
        return step(objective, State.start(1, D, F32), prepare(F32, iter([lazy_features]), rows))

    work = features_of(data.columns) + Work(2 * D, bytes={"L2": 20 * D})
    return Computed(4 * len(A), run, range(4), work)


def ridge(width: int, quick: bool, by: str = "steps") -> Computed:
    """Return the stage of the sums of a ridge regression; by="product" uses the rate of BLAS instead of steps."""
    n = 512 if quick else 16_384
    Z = np.random.default_rng(0).standard_normal((n, width)).astype(np.float32)
    y, parts = np.ones((n, 1)), quarters(n)
    partial_sums = {part.start: Statistics.empty(width, 1) for part in parts[:: 2 if width > 1000 else 1]}

    def run(part: slice) -> None:
        add_rows(partial_sums[part.start], Z[part], y[part], None, True)

    if width > 1000:  # two matrices of 200 MB
        parts = [slice(a.start, b.stop) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    rows, needed = tile_rows(width, F32), width * (width + 1) / 2 + width
    moved = {"memory": 16 * width**2 / 2 / rows}
    work = Work(needed, bytes=moved) if by == "steps" else Work(functions={by: needed}, bytes=moved)
    return Computed(n, run, parts, work)


def fitted(divergence: str) -> Work:
    """Return the work of a fit per set and epoch, without reading."""
    data = make_pipeline(divergence, 2, 1024)
    work = densities_of(2, data.degrees, 10) + powers_of(data.columns, 100, data.n_frequencies)
    moved = Work(2 * D, bytes={"L2": 20 * D, "memory": 8 * POINTS})
    return work + features_of(data.columns) + moved


# ------------------------------------------------------------------------------------------ distances, others

N_POINTS, N_LANDMARKS = 60, 256  # points per set or series; landmarks


def _sets(n: int, d: int) -> dk.SampleSets:
    rng = np.random.default_rng(1)
    return dk.SampleSets(
        rng.standard_normal((N_POINTS * n, d)).astype(np.float32), N_POINTS * np.arange(n + 1)
    )


def _strings(n: int, length: int, seed: int) -> dk.SampleSets:
    codes = np.random.default_rng(seed).integers(0, 4, (length * n, 1)).astype(np.uint8)
    return dk.SampleSets(codes, length * np.arange(n + 1))


def distance(name: str, quick: bool) -> Computed:
    """Return the stage of distances of sets, series or strings to landmarks of one length."""
    n, M, d, text = 64 if quick else 256, {"levenshtein": 40}.get(name, 20), 3, name == "levenshtein"
    sets = _strings(n, N_POINTS, 0) if text else _sets(n, d)
    embedding = dk.DistanceEmbedding(name, "segment" if text or name == "dtw" else "subsample",
                                     n_components=N_LANDMARKS, lengths=(M, M), gamma=0, random_state=0)  # fmt: skip
    tables, pairs = embedding.fit(sets).spec_.materialize(), N_POINTS * M * N_LANDMARKS
    all_pairs = pairs + N_POINTS**2  # with those within the set
    work = {
        "dtw": Work(pairs * d, pairs * (d + 1), pairs * 2),
        "levenshtein": Work(words=17.0 * N_POINTS * N_LANDMARKS),
        "modified-hausdorff": Work(pairs * d, pairs * d, pairs * 2),
        "energy": Work(all_pairs * (d + 2), all_pairs * d, functions={"sqrt": all_pairs}),
    }[name]
    return Computed(n, tables.distances, [sets[part] for part in quarters(n)], work)


def other(name: str, quick: bool) -> Computed:
    """Return the stage of another embedding of 200 points in the plane."""
    sets, n, d = mixture_sets(256 if quick else 1024, POINTS, 2), POINTS, 2
    embedding, work = {
        "sliced": (
            dk.SlicedWassersteinEmbedding(n_quantiles=16, n_directions=50, random_state=0),
            Work(50 * n * d * 2, minima=50 * 2 * (n * np.log2(n) * (np.log2(n) - 1) / 4 + n - 1)),
        ),
        "moments": (
            dk.MomentEmbedding(degree=2),
            Work(2 * n * d * (d + 1) / 2, 2 * n * 2 * d, bytes={"L3": 4 * n * d}),
        ),
        "mean": (
            dk.MeanEmbedding(1000, method="orthogonal", random_state=0),
            Work(500 * n * d, 500 * n * 2) + calls("sincospi", 500 * n),
        ),
    }[name]
    tables = embedding.fit(sets).spec_.materialize()
    return Computed(len(sets), tables.embed, [sets[part] for part in quarters(len(sets))], work)


JS = "jensen-shannon"
COMPUTED: dict[str, dict[str, Callable[[bool], Computed]]] = {
    "embed": {
        "Jensen-Shannon, d = 1": lambda quick: embed(JS, 1, quick),
        "Jensen-Shannon, d = 2": lambda quick: embed(JS, 2, quick),
        "Jensen-Shannon, d = 3": lambda quick: embed(JS, 3, quick),
        "Hellinger, d = 2": lambda quick: embed("hellinger", 2, quick),
    },
    "powers": {"Jensen-Shannon, d = 2": powers},
    "features": {
        "Jensen-Shannon": lambda quick: features(JS, quick),
        "Hellinger": lambda quick: features("hellinger", quick),
    },
    "fused": {
        "Jensen-Shannon": lambda quick: fused(JS, quick),
        "Hellinger": lambda quick: fused("hellinger", quick),
    },
    "ridge": {
        "600 columns": lambda quick: ridge(600, quick),
        "5000 columns": lambda quick: ridge(1200 if quick else 5000, quick),
        "5000, of half a product": lambda quick: ridge(1200 if quick else 5000, quick, "product"),
    },
    "distances": {
        name: lambda quick, name=name: distance(name, quick)  # type: ignore[misc]
        for name in ("dtw", "levenshtein", "modified-hausdorff", "energy")
    },
    "others": {
        name: lambda quick, name=name: other(name, quick)  # type: ignore[misc]
        for name in ("sliced", "moments", "mean")
    },
}
