"""`InvariantFeatures`: features of sample sets that do not change under reflections or swaps of axes.

Symmetries of a box: reflections at its centre and permutations of its axes, as signed permutations.

    u'_j = u_p(j)  or  1 - u_p(j),   u = (x - low) / width in [0, 1]^d

An element is a tuple of numbers +-(p(j) + 1), one for each axis; those of a word form a group, the identity first.

Features averaged over symmetries of the domain: (1/|G|) sum over g of z(A(g P)) for each sample set P.

Their inner products are the kernel averaged over the group, k(P, Q) = mean over g, h of k(gP, hQ): sets that differ
by a symmetry are the same set. One set of features is alive beside the sum, whatever the order of the group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist._base.domains import data_domain
from dkdist._base.embedding import SetEmbedding
from dkdist._base.influence import point_influences
from dkdist._base.inputs import cached_summaries, check_sets
from dkdist._base.parameter_checks import check_choice, median_seed
from dkdist._base.params import Domain, FittedParams, Params
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.serialization import serializable
from dkdist.embeddings._tuning import MAX_AXES_BY_GROUP, MAX_GROUP_ORDER
from dkdist.kernels.random_fourier_features import RandomFourierFeatures, median_rows
from dkdist.sets import SampleSets

Element = tuple[int, ...]

GROUPS = ("reflections", "permutations", "all")


def axis_group(word: str, d: int, axes: Sequence[int]) -> tuple[Element, ...]:
    """The symmetries of d axes that move the listed ones alone.

    Of k listed axes there are 2^k "reflections", k! "permutations", and 2^k k! of "all".
    """
    orders = [tuple(axes)] if word == "reflections" else list(itertools.permutations(axes))
    signs = itertools.product((1,) if word == "permutations" else (1, -1), repeat=len(axes))
    elements = []
    for order, sign in itertools.product(orders, signs):
        element = list(range(1, d + 1))
        for axis, source, s in zip(axes, order, sign, strict=True):
            element[axis] = s * (source + 1)
        elements.append(tuple(element))
    return tuple(elements)


def generate_group(elements: Sequence[Element], most: int) -> tuple[Element, ...]:
    """The group that some elements generate, the identity first; () if it has more than ``most``."""
    identity = tuple(range(1, len(elements[0]) + 1))
    found = {identity: None}
    fresh = [identity]
    while fresh:
        products = [_compose(g, h) for g in fresh for h in elements]
        fresh = [element for element in dict.fromkeys(products) if element not in found]
        found |= dict.fromkeys(fresh)
        if len(found) > most:
            return ()
    return tuple(found)


def _compose(first: Element, second: Element) -> Element:
    """The symmetry that is ``first`` and then ``second``."""
    return tuple((1 if s > 0 else -1) * first[abs(s) - 1] for s in second)


def apply_symmetry(points: F32, element: Element, low: F32, high: F32) -> F32:
    """The points (n, d) under a symmetry of the box [low, high]: (n, d) float32."""
    out = np.empty_like(points)
    for j, signed in enumerate(element):
        p = abs(signed) - 1
        x = points[:, p]
        if signed < 0:
            x = (low[p] + high[p]) - x
        if p != j:
            width = high[p] - low[p]
            x = low[j] + (x - low[p]) * ((high[j] - low[j]) / width if width > 0 else np.float32(0))
        out[:, j] = x
    return out


@serializable("InvariantSpec")
@dataclass(frozen=True)
class InvariantSpec(Params["InvariantParameters"]):
    """An embedding, features of its rows (None: the rows themselves), and the group that they are averaged over.

    ``box`` is what the group is of: the embedding's domain, if it has one.
    """

    embedding: Any
    features: Any
    elements: tuple[Element, ...]
    box: Domain

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.box.n_dims

    @property
    def n_features(self) -> int:
        """Length of a set's row."""
        return int((self.features or self.embedding).n_features)

    @property
    def domain(self) -> Domain:
        """The box that the points must lie in."""
        return self.box

    def _build(self) -> InvariantParameters:
        return InvariantParameters(self)


class InvariantParameters(FittedParams[InvariantSpec]):
    """Drawn tables of an `InvariantSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: InvariantSpec) -> None:
        self.spec = spec
        self._embedding = spec.embedding.materialize()
        self._features = spec.features and spec.features.materialize()
        self._columns = [_permuted_columns(spec, element) for element in spec.elements]

    def embed(self, sets: SampleSets) -> F32:
        """Averaged rows: (n_sets, m) float32; summed in the order of the group, each set for itself."""
        total = np.zeros((len(sets), self.spec.n_features), np.float32)
        for A in self._images(sets):
            total += A if self._features is None else self._features.transform(A)
        total *= np.float32(1 / len(self.spec.elements))
        return total

    def _images(self, sets: SampleSets) -> Iterator[F32]:
        """The embedding's rows of all images: its columns in another order, where that is all."""
        known = [columns for columns in self._columns if columns is not None]
        if len(known) == len(self._columns):
            A = self._embedding.embed(sets)
            yield from (np.take(A, columns, axis=1) for columns in known)
            return
        points = self._inside(sets.relative)
        for element in self.spec.elements:
            yield self._embedding.embed(self._moved(sets, points, element))

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: summed over the group."""
        points, there = self._inside(one.relative), None if at is one.relative else self._inside(at)
        low, high = self.spec.box.arrays
        found, gradient = np.zeros((len(at), gradient.shape[1])), gradient / len(self.spec.elements)
        for element in self.spec.elements:
            image = self._moved(one, points, element)
            by_row = self._by_row(image, gradient, None)
            elsewhere = None if there is None else apply_symmetry(there, element, low, high)
            found += point_influences(self._embedding, image, by_row, elsewhere)
        return found

    def inner_rows(self, sets: SampleSets) -> F32:
        """Rows before features of the images of some sets: (n_elements, n_sets, m)."""
        points = self._inside(sets.relative)
        images = (self._moved(sets, points, element) for element in self.spec.elements)
        return np.stack([self._embedding.embed(image) for image in images])

    def path_influence(self, one: SampleSets, starts: F32, gradient: F64) -> F64:
        """(n, k) influence of the set's own points, features being averaged over the paths from starts to its images.

        ``starts`` (n_elements, k, m) are rows before features, one for each element and function.
        """
        points, n_elements = self._inside(one.relative), len(self.spec.elements)
        total = np.zeros((one.n_points, gradient.shape[1]))
        for element, own_starts in zip(self.spec.elements, starts, strict=True):
            image = self._moved(one, points, element)
            by_row = self._by_row(image, gradient / n_elements, own_starts)
            total += point_influences(self._embedding, image, by_row)
        return total

    def _by_row(self, image: SampleSets, gradient: F64, starts: F32 | None) -> F64:
        """Derivatives by the image's row before features."""
        if self._features is None:
            return gradient
        return np.asarray(self._features.pull_back(self._embedding.embed(image)[0], gradient, starts))

    def _inside(self, points: F32) -> F32:
        """Points outside the box at its wall."""
        low, high = self.spec.box.arrays
        return np.clip(points, low, high).astype(np.float32, copy=False)

    def _moved(self, sets: SampleSets, points: F32, element: Element) -> SampleSets:
        """The sets with these points under a symmetry."""
        image = apply_symmetry(points, element, *self.spec.box.arrays)
        return SampleSets._trusted(image, sets.offsets, sets.weights, None, sets.origin)


def _permuted_columns(spec: InvariantSpec, element: Element) -> I64 | None:
    """Which columns the image's row has, of an embedding that knows, on its own box."""
    moved = getattr(spec.embedding, "moved_columns", None)
    return None if moved is None or spec.embedding.domain != spec.box else moved(element)


class InvariantFeatures(SetEmbedding):
    """Features averaged over symmetries of the domain, for labels that do not change under them.

    A set's row is the mean of ``features(embedding(g set))`` over the group, so inner products of rows are the kernel
    averaged over it. Knowing a symmetry of the labels can be worth more than several times the data.

    Parameters
    ----------
    embedding : embedding of sets
        `DivergenceEmbedding`, `L2Embedding`, `MeanEmbedding`, ...; cloned before it is fitted.
    features : RandomFourierFeatures or None, default=None
        Features of the embedding's rows; None averages the rows themselves, which for `MeanEmbedding` and
        `L2Embedding` is the embedding of the symmetrised distribution, and for others loses more than it should.
    symmetries : {"reflections", "permutations", "all"} or list of tuples, default="reflections"
        Reflections of each axis at the centre of the domain, permutations of the axes (of the domain scaled to the
        unit cube), or both together; or the group that signed permutations generate, axes counted from 1:
        ``[(-1, 2, -3)]`` is the mirror image of points (x, y, slope along x), ``[(2, -1)]`` a quarter turn.
    axes : sequence of int or None, default=None
        For a word, the axes (from 0) that take part, all by default: ``axes=[0]`` with reflections is the mirror image
        of points (x, y, value).
    on_error : {"raise", "skip"}, default="raise"
        As in `DivergenceEmbedding`.

    Attributes
    ----------
    embedding_, features_ : fitted clones
    spec_ : InvariantSpec
        What was chosen, in plain numbers.
    n_symmetries_ : int
        The order of the group: 2^k reflections, k! permutations, 2^k k! of both, for k axes.
    n_features_in_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    ValueError
        For unknown symmetries (with the list of those there are), axes that the points do not have, or a group of
        more than 1,024 elements.
    SampleSetError, StoreFormatError
        As the embedding.

    Notes
    -----
    The domain is the embedding's; for one that has none, the bounds of the data seen in ``fit``, outside which
    points count at the wall. ``fit`` reads the data once. Cost of a set: that of embedding and features, once for each
    symmetry.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.beta(2, 1 + i % 3, size=(50, 2)) for i in range(9)]
    >>> model = dk.InvariantFeatures(
    ...     dk.DivergenceEmbedding(domain="unit"), dk.RandomFourierFeatures(100, random_state=0), symmetries="all"
    ... ).fit(sets)
    >>> model.n_symmetries_
    8
    >>> mirrored = [1 - x for x in sets]
    >>> bool(np.allclose(model.transform(sets), model.transform(mirrored), atol=1e-4))
    True
    """

    _label = "invariant_features"

    def __init__(
        self,
        embedding: Any,
        features: Any = None,
        symmetries: str | Sequence[Sequence[int]] = "reflections",
        axes: Sequence[int] | None = None,
        on_error: str = "raise",
    ) -> None:
        self.embedding = embedding
        self.features = features
        self.symmetries = symmetries
        self.axes = axes
        self.on_error = on_error

    def fit(self, X: Any, y: Any = None) -> InvariantFeatures:
        """Fit embedding and features on the sets X; one pass over the data. ``y`` is not used."""
        _require_types(self.embedding, self.features)
        sets = check_sets(X)
        elements = self._elements(sets.n_dims)
        with cached_summaries():
            embedding = clone(self.embedding).set_params(on_error=self.on_error).fit(sets)
            found = self._summarize_fit_sets(
                sets, embedding.spec_.domain if _has_fixed_domain(embedding) else None
            )
        self.embedding_, self.features_ = embedding, self.features
        if self.features is not None:
            good = np.setdiff1d(np.arange(len(sets)), found.bad)
            sample = sets[good[median_rows(len(good), median_seed(self.features.random_state))]]
            self.features_ = clone(self.features).fit(embedding.transform(sample))
        box = embedding.spec_.domain or data_domain(found)
        features = None if self.features is None else self.features_.spec_
        self.spec_ = InvariantSpec(embedding.spec_, features, elements, box)
        self.n_symmetries_ = len(elements)
        return self

    def _elements(self, d: int) -> tuple[tuple[int, ...], ...]:
        """The group, the identity first."""
        if isinstance(self.symmetries, str):
            word = check_choice("symmetries", self.symmetries, GROUPS)
            axes = _checked_axes(self.axes, d)
            elements = axis_group(word, d, axes) if len(axes) <= MAX_AXES_BY_GROUP[word] else ()
        else:
            if self.axes is not None:
                raise ValueError("axes belong to symmetries named by a word; a list of them says all itself")
            elements = generate_group(_checked_elements(self.symmetries, d), MAX_GROUP_ORDER)
        if not elements:
            raise ValueError(
                f"symmetries={self.symmetries!r} of {d} axes are more than {MAX_GROUP_ORDER}: name fewer axes, as axes="
            )
        return elements


def _checked_elements(given: Any, d: int) -> list[tuple[int, ...]]:
    expected = list(range(1, d + 1))
    elements = [_whole_numbers(element) for element in given]
    if not elements or any(sorted(map(abs, element)) != expected for element in elements):
        raise ValueError(
            f"symmetries must be one of {', '.join(map(repr, GROUPS))}, or a list of signed permutations of "
            f"{expected}; found {given!r}"
        )
    return elements


def _whole_numbers(given: Any) -> tuple[int, ...]:
    """A sequence of whole numbers; () if it is none, which is then refused."""
    values = np.asarray(given)
    return tuple(values.tolist()) if values.ndim == 1 and values.dtype.kind in "iu" else ()


def _has_fixed_domain(embedding: Any) -> bool:
    domain = embedding.spec_.domain
    return domain is not None and domain.fixed


def _require_types(embedding: Any, features: Any) -> None:
    if not isinstance(embedding, SetEmbedding):
        raise TypeError(f"embedding must be an embedding of sample sets, found {embedding!r}")
    if features is not None and not isinstance(features, RandomFourierFeatures):
        raise TypeError(f"features must be RandomFourierFeatures or None, found {features!r}")


def _checked_axes(axes: Sequence[int] | None, d: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(d))
    chosen = _whole_numbers(axes)
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= axis < d for axis in chosen):
        raise ValueError(f"axes must be one or more different numbers from 0 to {d - 1}; found {axes!r}")
    return chosen
