"""The rows of all representations of the same sets: made together, block by block, from one reading of the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist.automatic.views.representations import Representation, fitted_spec
from dkdist.automatic.views.standardised_rows import StandardisedSpec
from dkdist.base.inputs import Sets
from dkdist.execution.map_reduce import collect
from dkdist.linear.search.feature_trees import FeatureTrees, Node
from dkdist.linear.search.search_blocks import SearchData
from dkdist.loops.array_types import F32, I64
from dkdist.plain.kept import kept
from dkdist.scaling.set_pca import SetPCA
from dkdist.sets import SampleSets


@kept
@dataclass(frozen=True)
class View:
    """A representation that was fitted: its specification, the leaf it stands on, and the columns of its images."""

    entry: Representation
    spec: Any
    leaf: int
    images: tuple[I64, ...] = ()

    def of(self, rows: Mapping[int, F32]) -> list[F32]:
        """Its rows (n, m), and those of its images, among the rows of all leaves."""
        own = rows[self.leaf]
        return [own, *(own[:, columns] for columns in self.images)]

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return int(self.spec.n_features)


@dataclass(frozen=True)
class Views:
    """All views of a collection, and the trees of features that make their rows."""

    views: tuple[View, ...]
    specs: tuple[Any, ...]

    @property
    def trees(self) -> FeatureTrees:
        """One root for each leaf."""
        return FeatureTrees(tuple(Node(spec, (), leaf) for leaf, spec in enumerate(self.specs)))

    @property
    def row_bytes(self) -> int:
        """What a set's rows of all leaves take, and those of the images of one view."""
        images = max((len(view.images) * view.n_features for view in self.views), default=0)
        return 4 * (images + sum(int(spec.n_features) for spec in self.specs))

    def data(self, sets: Sets) -> SearchData:
        """The sets with these trees."""
        return SearchData(sets, self.trees, [spec.n_features for spec in self.specs], False)

    def standardised(self, rows: Mapping[int, F32]) -> tuple[Views, dict[int, F32]]:
        """With the columns standardised of those that ask for it, by the rows of some sets; and these rows."""
        specs, made, views = list(self.specs), dict(rows), []
        for view in self.views:
            spec = view.spec
            if view.entry.standardised:
                spec = specs[view.leaf] = StandardisedSpec.of(view.spec, rows[view.leaf])
                made[view.leaf] = spec.of_rows(rows[view.leaf])
            views.append(replace(view, spec=spec))
        return Views(tuple(views), tuple(specs)), made


def fitted_views(entries: Sequence[Representation], sample: SampleSets) -> Views:
    """All representations that a sample of sets has, fitted on it, not standardised yet; equal ones share a leaf."""
    leaves: dict[Any, int] = {}
    maps: dict[str, tuple[SetPCA, SampleSets]] = {}
    views = []
    for entry in entries:
        seen = sample
        if entry.before is not None:
            before, seen = _once(maps, entry.before, sample)
            entry = replace(entry, before=before)
        spec = fitted_spec(entry, seen)
        if spec is None:
            continue
        leaf = leaves.setdefault((spec, entry.standardised), len(leaves))
        views.append(View(entry, spec, leaf, tuple(spec.moved_columns(one) for one in entry.images[1:])))
    return Views(tuple(views), tuple(spec for spec, _ in leaves))


def _once(
    maps: dict[str, tuple[SetPCA, SampleSets]], before: SetPCA, sample: SampleSets
) -> tuple[SetPCA, SampleSets]:
    """What comes before an embedding, fitted, and the sample through it; those alike are one."""
    if (key := repr(before)) not in maps:
        maps[key] = before, before.fit_transform(sample)
    return maps[key]


def rows_of(views: Views, sets: Sets, leaves: Sequence[int]) -> dict[int, F32]:
    """Rows (n_sets, m) float32 of each of the leaves; points are read once."""
    parts = _parts(views, sets, leaves)
    return {leaf: np.concatenate([part[leaf] for part in parts]) for leaf in leaves}


def more_rows(
    views: Views, sets: Sets, wanted: I64, rows: Mapping[int, F32], known: I64, leaves: Sequence[int]
) -> dict[int, F32]:
    """`rows_of` the ``wanted`` sets, of which ``rows`` are those that are ``known``; both rise."""
    there = np.isin(wanted, known, assume_unique=True)
    parts, places = _parts(views, sets[wanted[~there]], leaves), np.flatnonzero(~there)
    every = {}
    for leaf in leaves:
        every[leaf] = own = np.empty((len(wanted), rows[leaf].shape[1]), np.float32)
        own[there], first = rows[leaf], 0
        for part in parts:
            made = part.pop(leaf)
            own[places[first : first + len(made)]] = made
            first += len(made)
    return every


def _parts(views: Views, sets: Sets, leaves: Sequence[int]) -> list[dict[int, F32]]:
    """The rows of each block of sets."""
    data = views.data(sets)
    blocks, features = data.blocks(leaves, together=True), data.features(leaves)
    return collect(blocks, _Made(features), blocks.bounds[:-1].tolist(), label="representations")


@dataclass(frozen=True)
class _Made:
    """All features of a block, by leaf."""

    features: Any

    def __call__(self, block: Any, first: int) -> dict[int, F32]:
        return dict(self.features(block, first, None))
