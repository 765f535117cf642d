"""Calls that compile all functions: the examples of the public names, and calls that no example covers."""

from __future__ import annotations

import contextlib
import doctest
import io
import tempfile
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np

import dkdist as dk
from dkdist._numba.points import fill_rows, run_starts
from dkdist.auto.bagged_trees import fit_bagged_trees
from dkdist.distances._tuning import MAX_PEER_SYMBOLS, MAX_PEER_UNICODE_SYMBOLS, MAX_UNBANDED_SYMBOLS

DISTANCE_NAMES = ("dtw", "energy", "hausdorff", "chamfer", "modified-hausdorff", "sliced-wasserstein")


def run_all() -> None:
    """Run all calls in a temporary folder, without their output; calls that need a missing library are omitted."""
    previous_folder = tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        tempfile.tempdir = folder
        try:
            run_examples()
            for _ in extra_calls():
                pass
        finally:
            tempfile.tempdir = previous_folder


def run_examples() -> None:
    """Run the examples of all public names."""
    finder = doctest.DocTestFinder()
    for name in sorted(name for name in dir(dk) if not name.startswith("_")):
        for example in finder.find(getattr(dk, name), name):
            namespace = dict(example.globs)
            with contextlib.suppress(ImportError):
                for line in example.examples:
                    exec(compile(line.source, f"<example of {name}>", "single"), namespace)


def extra_calls() -> Iterator[Any]:
    """Yield the results of calls that the examples do not cover."""
    rng = np.random.default_rng(0)
    P, Q = rng.random((200, 2)), rng.random((200, 2))
    sets = [P[:20].astype(np.float32), Q[:30].astype(np.float32)]
    weighted = dk.SampleSets.from_arrays(sets, [np.ones(20), np.ones(30)])
    for distance in DISTANCE_NAMES:
        yield dk.distance_matrix(sets, distance=distance, random_state=0)
    yield dk.distance_matrix([points[:, :1] for points in sets], distance="energy")
    yield dk.distance_matrix(weighted, distance="sliced-wasserstein", random_state=0)
    yield dk.distance_matrix(sets * 20, distance=dk.DynamicTimeWarping(band=0.5))  # enough pairs for SIMD
    yield dk.distance_matrix(["AC" * 300, "A"], distance="levenshtein")
    yield dk.Levenshtein()("AC" * 300, "A")  # too long for rapidfuzz
    for text in (
        "A" * (MAX_PEER_SYMBOLS + 1),
        "A" * (max(MAX_PEER_SYMBOLS, MAX_UNBANDED_SYMBOLS) + 1),
        "\u00e9" * MAX_PEER_UNICODE_SYMBOLS,
    ):
        yield dk.Levenshtein()(text, text + text[0])  # too long for rapidfuzz: short, long and non-ASCII text
    # too many strings for the fast path
    yield dk.distance_matrix(["AC" * 40, "A"] * 3, distance="levenshtein")
    yield dk.distance_matrix(["AC", "A"], distance=dk.Levenshtein(insertion=2, substitution=3))
    yield dk.distance_matrix(["AC", "A" * 70], distance="jaro-winkler")
    for text in ("A", "A" * 70):  # both integer types, small and large numbers of SIMD lanes
        yield dk.distance_matrix([text] * 40, ["AC"], distance="damerau-levenshtein")
        yield dk.distance_matrix(["AC"], [text] * 40, distance="damerau-levenshtein")
    for substitution in (0.5, 0.377):  # costs that are multiples of a common unit, and others
        edits = dk.Levenshtein(substitution=substitution, insertion=2, substitution_costs={("A", "C"): 0.1})
        yield dk.distance_matrix(["AC" * 40, "A"], distance=edits)
    yield dk.DistanceEmbedding("energy", n_components=4, random_state=0).fit_transform(sets)
    yield dk.DistanceEmbedding("energy", "supervised", n_components=1, random_state=0).fit(sets, [0, 1])
    for method in ("exact", "fourier", "rff", "taylor", "tree", "wspd"):
        yield dk.kernel_distance(P, Q, sigma=1.0, squared=True, method=method, eps=1e-2)
    yield dk.kernel_distance(P, P + 1e-12, sigma=1.0)
    yield dk.kernel_distance(P, Q, kernel="energy", gradient=True)
    yield dk.kernel_distance(np.repeat(P[:, :1], 20, axis=0), Q[:, :1], kernel="energy")
    yield dk.kernel_distance(np.repeat(P, 20, axis=0), Q, sigma=1.0, kernel="laplace")
    yield dk.kernel_distance(rng.random((20, 40)), rng.random((20, 40)), sigma=1.0)
    yield dk.MeanEmbedding(method="iid", random_state=0).fit_transform(sets)
    for method in ("swap", "halving", "stratified"):
        yield dk.coreset(P, 8, sigma=1.0, method=method, random_state=0)
    lazy = da.from_array(P, chunks=(50, 2))  # type: ignore[no-untyped-call]
    yield dk.coreset(lazy, 8, sigma=1.0, random_state=0)
    yield dk.align(rng.random((300, 2)), Q, sigma=1.0, guarantee=0.5)
    yield dk.align(rng.random((300, 3)), rng.random((200, 3)), sigma=1.0)
    for dtype in (np.float32, np.float64):  # dtypes of table columns
        yield fill_rows([P[:, 0].astype(dtype)] * 3, np.zeros(3), np.empty((len(P), 3), np.float32))
    yield run_starts(np.arange(3))
    yield from _large_kernels(rng)
    for method in ("robust", "standard", "quantile"):
        for per_set in (False, True):
            yield dk.SetScaler(method, per_set=per_set).fit(sets).transform(sets)
    trees, _ = fit_bagged_trees(sets[0], P[:20], np.ones(20), None, 0, n_trees=2)
    yield trees.path_gradient(sets[0][0], sets[0][1])
    four_dims = [rng.random((20, 4), np.float32) for _ in range(2)]
    for embedding in (dk.DivergenceEmbedding, dk.L2Embedding):
        yield embedding(structure="joint", bandwidth=0.3, domain="unit").fit_transform(four_dims)


def _large_kernels(rng: np.random.Generator) -> Iterator[Any]:
    """Yield kernel distances of many points, which use meshes, blocks of cells, or connected components."""
    P, Q = rng.random((2, 20_000, 2))
    for sigma in (0.1, 0.01, 0.001):
        for eps in (1e-2, 1e-6):
            yield dk.kernel_distance(P, Q, sigma=sigma, eps=eps)
    shifts = 1e4 * (np.arange(len(P)) % 100)[:, None]
    yield dk.kernel_distance(P + shifts, Q + shifts, sigma=0.1)
    line = 1e3 * P[:, :1] * np.ones(3)
    yield dk.kernel_distance(line, line + 0.1, sigma=0.05, eps=1e-3)
    yield dk.coreset(P, 8, sigma=1.0, method="stratified", random_state=0)
    yield dk.coreset(P, 8, sigma=1.0, weights=1 + Q[:, 0], random_state=0)
