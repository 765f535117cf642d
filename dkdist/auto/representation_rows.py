"""Rows of all representations, computed in one pass over the points, and kernels of these rows.

Kernels are linear, or Gaussian at several widths, averaged over the images (symmetries) of one of the two sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkdist._base.influence import point_influences
from dkdist._base.inputs import Sets
from dkdist._base.params import Domain, EmbeddingWrapperParams, FittedParams
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.map_reduce import map_blocks
from dkdist._utils.serialization import serializable
from dkdist.auto._tuning import WIDTH_FACTORS
from dkdist.auto.representations import Representation, fit_spec
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.kernel_ridge import squared_distances
from dkdist.sets import SampleSets

# Squared distances below this fraction of |x|^2 + |y|^2 are rounding errors (tests/automatic/test_row_kernels.py).
ZERO_DISTANCE_RTOL = 1e-6


@serializable("View")
@dataclass(frozen=True)
class FittedRepresentation:
    """A fitted representation: parameters, leaf of the feature graph, and column permutations of its images."""

    entry: Representation
    spec: Any
    leaf: int
    images: tuple[I64, ...] = ()

    def of(self, rows: Mapping[int, F32]) -> list[F32]:
        """Return the rows (n, m) and the rows of all images, from the rows of all leaves."""
        view_rows = rows[self.leaf]
        return [view_rows, *(view_rows[:, columns] for columns in self.images)]

    @property
    def n_features(self) -> int:
        """Number of columns of a row."""
        return int(self.spec.n_features)


@dataclass(frozen=True)
class Views:
    """All fitted representations of a collection, and the parameters of each leaf."""

    views: tuple[FittedRepresentation, ...]
    specs: tuple[Any, ...]

    @property
    def trees(self) -> SharedFeatureGraph:
        """Feature graph with one root per leaf."""
        return SharedFeatureGraph(tuple(Node(spec, (), leaf) for leaf, spec in enumerate(self.specs)))

    def unfitted(self, entries: Sequence[Representation]) -> list[Representation]:
        """Return the representations that require pairs of dimensions but selected none."""
        fitted = {view.entry.name for view in self.views}
        return [entry for entry in entries if entry.name not in fitted]

    @property
    def images_by_leaf(self) -> dict[int, tuple[I64, ...]]:
        """Column permutations of the images of each leaf."""
        return {view.leaf: view.images for view in self.views}

    @property
    def row_bytes(self) -> int:
        """Bytes per set for the rows of all leaves and the images of one view."""
        images = max((len(view.images) * view.n_features for view in self.views), default=0)
        return 4 * (images + sum(int(spec.n_features) for spec in self.specs))

    def data(self, sets: Sets) -> SearchData:
        """Return the sets with the feature graph."""
        return SearchData(sets, self.trees, [spec.n_features for spec in self.specs], False)

    def standardised(
        self, rows: Mapping[int, F32], adjusted: Mapping[int, F32] | None = None
    ) -> tuple[Views, dict[int, F32]]:
        """Standardise columns of the views that request it by the rows of some sets; return the views and rows.

        Means and standard deviations are those of ``adjusted`` rows, if any: variables that are removed later do not
        decide the weights of columns.
        """
        specs, standardised_rows, views = list(self.specs), dict(rows), []
        for view in self.views:
            spec = view.spec
            if view.entry.standardised:
                spread = rows if adjusted is None else adjusted
                spec = specs[view.leaf] = StandardisedSpec.of(view.spec, spread[view.leaf])
                standardised_rows[view.leaf] = spec.of_rows(rows[view.leaf])
            views.append(replace(view, spec=spec))
        return Views(tuple(views), tuple(specs)), standardised_rows


def fit_views(
    entries: Sequence[Representation], sample: SampleSets, *, separate_images: bool = False
) -> Views:
    """Fit representations to a sample, without standardisation; equal parameters share a leaf.

    With ``separate_images``, representations with other images have leaves of their own.
    """
    leaves: dict[Any, int] = {}
    maps: dict[str, tuple[Any, SampleSets]] = {}
    views = []
    for entry in entries:
        mapped_sample = sample
        if entry.before is not None:
            fitted_map, mapped_sample = _fit_map(maps, entry.before, sample)
            entry = replace(entry, before=fitted_map)
        spec = fit_spec(entry, mapped_sample)
        if spec is None:
            continue
        images = entry.images if separate_images else ()
        leaf = leaves.setdefault((spec, entry.standardised, images), len(leaves))
        views.append(
            FittedRepresentation(
                entry, spec, leaf, tuple(spec.permuted_columns(one) for one in entry.images[1:])
            )
        )
    return Views(tuple(views), tuple(spec for spec, *_ in leaves))


def _fit_map(
    maps: dict[str, tuple[Any, SampleSets]], set_map: Any, sample: SampleSets
) -> tuple[Any, SampleSets]:
    """Return a fitted map of sets and the mapped sample; equal maps are fitted once."""
    if (key := repr(set_map)) not in maps:
        maps[key] = set_map, set_map.fit_transform(sample)
    return maps[key]


def compute_rows(views: Views, sets: Sets, leaves: Sequence[int]) -> dict[int, F32]:
    """Return rows (n_sets, m) float32 of each leaf; points are read once."""
    return leaf_rows(views.data(sets), leaves)


def leaf_rows(data: SearchData, leaves: Sequence[int]) -> dict[int, F32]:
    """Return rows (n_sets, m) float32 of each leaf of the data; points are read once."""
    parts = _rows_by_block(data, leaves)
    return {leaf: np.concatenate([part[leaf] for part in parts]) for leaf in leaves}


def extend_rows(
    views: Views, sets: Sets, requested: I64, rows: Mapping[int, F32], previous: I64, leaves: Sequence[int]
) -> dict[int, F32]:
    """Return rows of the ``requested`` sets, reusing ``rows`` of the ``previous`` sets; both are ascending."""
    is_known = np.isin(requested, previous, assume_unique=True)
    parts, missing = _rows_by_block(views.data(sets[requested[~is_known]]), leaves), np.flatnonzero(~is_known)
    extended = {}
    for leaf in leaves:
        extended[leaf] = out = np.empty((len(requested), rows[leaf].shape[1]), np.float32)
        out[is_known], start = rows[leaf], 0
        for part in parts:
            part_rows = part.pop(leaf)
            out[missing[start : start + len(part_rows)]] = part_rows
            start += len(part_rows)
    return extended


def _rows_by_block(data: SearchData, leaves: Sequence[int]) -> list[dict[int, F32]]:
    """Return the rows of each block of sets by leaf."""
    blocks, features = data.blocks(leaves, simultaneous=True), data.features(leaves)
    return map_blocks(
        blocks, partial(_rows_by_leaf, features), blocks.bounds[:-1].tolist(), label="representations"
    )


def _rows_by_leaf(features: Any, block: Any, first: int) -> dict[int, F32]:
    return dict(features(block, first, None))


@serializable("StandardisedSpec")
@dataclass(frozen=True)
class StandardisedSpec(EmbeddingWrapperParams["StandardisedParameters"]):
    """An embedding whose columns have ``centre`` subtracted and are multiplied by ``inverse`` scales."""

    embedding: Any
    centre: tuple[float, ...]
    inverse: tuple[float, ...]

    def check_loaded(self) -> None:
        """Raise ValueError unless ``centre`` has one entry per column."""
        if len(self.centre) != self.n_features:
            raise ValueError(
                f"centre must have {self.n_features} entries, one per column; got {len(self.centre)}."
            )

    @classmethod
    def of(cls, embedding: Any, rows: F32) -> StandardisedSpec:
        """Return parameters with the mean and standard deviation of rows (n, m); constant columns become 0."""
        scale = rows.std(axis=0, dtype=np.float64)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return cls(embedding, tuple(rows.mean(axis=0, dtype=np.float64).tolist()), tuple(inverse.tolist()))

    @property
    def domain(self) -> Domain | None:
        """Domain of the embedding."""
        return self.embedding.domain  # type: ignore[no-any-return]

    def of_rows(self, rows: F32) -> F32:
        """Return standardised ``rows`` (n, m) of the embedding."""
        return np.asarray((rows - np.array(self.centre)) * np.array(self.inverse), np.float32)

    def _build(self) -> StandardisedParameters:
        return StandardisedParameters(self)


class StandardisedParameters(FittedParams[StandardisedSpec]):
    """Fitted parameters of a standardised embedding."""

    def __init__(self, spec: StandardisedSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.materialize()
        self._inverse = np.array(spec.inverse)

    def embed(self, sets: SampleSets) -> F32:
        """Return standardised rows (n_sets, m) float32."""
        return self.spec.of_rows(self._embedding.embed(sets))

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """Return the influence (q, k) of points ``at`` (q, d) through the scaled columns of the embedding."""
        places = None if at is one.relative else at
        return point_influences(self._embedding, one, self._inverse[:, None] * gradient, places)


@serializable("RowKernel")
@dataclass(frozen=True)
class RowKernel:
    """k(x, y) = exp(-|x - y|^2 / (2 sigma^2)), or (x - c).(y - c) / scale if sigma is None."""

    sigma: float | None
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Name on the leaderboard."""
        return "linear" if self.sigma is None else f"Gaussian, sigma {self.sigma:.3g}"

    def of(self, X: F64, Y: Sequence[Any], centre: Any) -> F64:
        """Return the kernel (n, k), averaged over the images ``Y[0], Y[1], ...`` (k, m) of the second sets."""
        if self.sigma is None:
            return np.asarray((X - centre) @ ((Y[0] - centre) / self.scale).T)
        total = np.zeros((len(X), len(Y[0])))
        for image in Y:
            total += self.of_distances(squared_distances(X, image))
        return total / len(Y)

    def of_distances(self, d2: F64) -> F64:
        """Return the Gaussian kernel of squared distances."""
        assert self.sigma is not None
        k = d2 * (-1 / (2 * self.sigma**2))
        return np.exp(k, out=k)

    def gradient(self, x: F64, Y: Sequence[Any], duals: F64, centre: Any) -> F64:
        """Return the gradient (m, t) of sum_j k(x, y_j) duals_j with respect to x (m,)."""
        if self.sigma is None:
            return np.asarray(((Y[0] - centre) / self.scale).T @ duals)
        total = np.zeros((len(x), duals.shape[1]))
        for image in Y:
            k = np.exp(squared_distances(x[None], image)[0] / (-2 * self.sigma**2))[:, None] * duals
            total += image.T @ k - np.outer(x, k.sum(axis=0))
        return total / (len(Y) * self.sigma**2)


class PairwiseRows:
    """Kernel matrices of rows (n, m) and their images, from distances that are computed once.

    Products use float32, which takes half the time of float64. Squared distances have errors of about 1e-7 of the
    squared norms of centred rows, so errors of kernel matrices are far below the smallest penalty.
    """

    def __init__(self, rows: Sequence[F32]) -> None:
        self._centre = rows[0].mean(axis=0, dtype=np.float64).astype(np.float32)
        self._X, self._images = rows[0] - self._centre, rows[1:]
        self._squares = squared_norms(self._X)
        self._d2 = self._distances(self._X, self._squares)

    def kernels(self) -> list[RowKernel]:
        """Return the candidate kernels; with images there is no linear kernel."""
        scale = float(self._squares.mean())
        linear = [RowKernel(None, scale)] if not self._images and scale > 0 else []
        d2 = self._d2[np.triu_indices(len(self._d2), 1)]
        median = float(np.sqrt(np.median(d2[d2 > 0]))) if (d2 > 0).any() else 0.0
        return linear + [RowKernel(width * median) for width in WIDTH_FACTORS if median > 0]

    def matrices(self, kernels: Sequence[RowKernel]) -> list[F64]:
        """Return the matrix (n, n) of each kernel, averaged over the symmetry images of the second set of each pair."""
        matrices = [
            self._linear(kernel) if kernel.sigma is None else kernel.of_distances(self._d2)
            for kernel in kernels
        ]
        for image in self._images:
            centred_image = image - self._centre
            d2 = self._distances(centred_image, squared_norms(centred_image))
            for kernel, total in zip(kernels, matrices, strict=True):
                total += kernel.of_distances(d2)
        for total in matrices if self._images else ():
            total /= 1 + len(self._images)
        return matrices

    def _distances(self, others: F32, squares: F64) -> F64:
        """Return squared distances (n, k) to ``others``, centred like the rows; rounding errors become 0."""
        total = self._squares[:, None] + squares
        d2 = total - 2.0 * (self._X @ others.T)
        d2[d2 < ZERO_DISTANCE_RTOL * total] = 0.0
        return np.asarray(d2)

    def _linear(self, kernel: RowKernel) -> F64:
        """Return products of centred rows, computed from distances."""
        products = self._squares[:, None] + self._squares
        products -= self._d2
        products *= 0.5 / kernel.scale
        return products


def squared_norms(rows: F32 | F64) -> F64:
    """Return squared norms (n,) of rows (n, m)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
