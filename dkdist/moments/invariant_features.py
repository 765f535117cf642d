"""`InvariantFeatures`: features of sample sets that do not change under reflections or swaps of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist.base.domains import data_domain
from dkdist.base.embedding import SetEmbedding
from dkdist.base.inputs import check_sets, remembered_surveys
from dkdist.base.parameter_checks import median_seed, one_of
from dkdist.kernel.features.random_fourier_features import RandomFourierFeatures, median_rows
from dkdist.moments.invariant_features_spec import InvariantSpec
from dkdist.moments.symmetry import GROUPS, generated, group

MOST_ELEMENTS = 1024
MOST_AXES = {"reflections": 10, "permutations": 6, "all": 4}  # so that a group has no more elements


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
        _require_kinds(self.embedding, self.features)
        sets = check_sets(X)
        elements = self._elements(sets.n_dims)
        with remembered_surveys():
            embedding = clone(self.embedding).set_params(on_error=self.on_error).fit(sets)
            found = self._look(sets, embedding.spec_.domain if _fixed(embedding) else None)
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
            word = one_of("symmetries", self.symmetries, GROUPS)
            axes = _checked_axes(self.axes, d)
            elements = group(word, d, axes) if len(axes) <= MOST_AXES[word] else ()
        else:
            if self.axes is not None:
                raise ValueError("axes belong to symmetries named by a word; a list of them says all itself")
            elements = generated(_checked_elements(self.symmetries, d), MOST_ELEMENTS)
        if not elements:
            raise ValueError(
                f"symmetries={self.symmetries!r} of {d} axes are more than {MOST_ELEMENTS}: name fewer axes, as axes="
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


def _fixed(embedding: Any) -> bool:
    domain = embedding.spec_.domain
    return domain is not None and domain.fixed


def _require_kinds(embedding: Any, features: Any) -> None:
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
