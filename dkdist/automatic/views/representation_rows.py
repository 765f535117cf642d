"""The rows of all representations of the same sets: made together, block by block, from one reading of the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.automatic.views.image_rows import ImageSpec, StandardisedSpec
from dkdist.automatic.views.representations import Representation, fitted_spec
from dkdist.base.inputs import Sets
from dkdist.execution.passes import collect
from dkdist.linear.search.feature_trees import FeatureTrees, Node
from dkdist.linear.search.search_blocks import SearchData
from dkdist.loops.array_types import F32
from dkdist.sets import SampleSets


@dataclass(frozen=True)
class View:
    """A representation that was fitted: its specification, those of its images, and the leaves they stand on."""

    entry: Representation
    spec: Any
    leaf: int
    image_leaves: tuple[int, ...] = ()

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

    def data(self, sets: Sets) -> SearchData:
        """The sets with these trees."""
        return SearchData(sets, self.trees, [spec.n_features for spec in self.specs], False)


def fitted_views(entries: Sequence[Representation], sample: SampleSets) -> Views:
    """All representations that a sample of sets has, fitted on it; equal specifications stand on one leaf."""
    leaves: dict[Any, int] = {}
    views = []
    for entry in entries:
        spec = fitted_spec(entry, sample)
        if spec is None:
            continue
        if entry.standardised:
            spec = StandardisedSpec.of(spec, spec.draw().embed(sample))
        images = [ImageSpec(spec, element) for element in entry.images[1:]]
        at, *beside = [leaves.setdefault(one, len(leaves)) for one in (spec, *images)]
        views.append(View(entry, spec, at, tuple(beside)))
    return Views(tuple(views), tuple(leaves))


def rows_of(views: Views, sets: Sets, leaves: Sequence[int]) -> dict[int, F32]:
    """Rows (n_sets, m) float32 of each of the leaves; points are read once."""
    data = views.data(sets)
    blocks, features = data.blocks(leaves, together=True), data.features(leaves)
    parts = collect(blocks, _Made(features), blocks.bounds[:-1].tolist(), label="representations")
    return {leaf: np.concatenate([part[leaf] for part in parts]) for leaf in leaves}


@dataclass(frozen=True)
class _Made:
    """All features of a block, by leaf."""

    features: Any

    def __call__(self, block: Any, first: int) -> dict[int, F32]:
        return dict(self.features(block, first, None))
