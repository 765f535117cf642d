"""Estimators for `divergence_matrix` as objects, so that an option belongs to the estimator that it is valid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from numpy.typing import ArrayLike


class PairEstimator:
    """Base of estimators: a subclass is a record of its options, None for those left out, and has a name."""

    name: ClassVar[str]

    @property
    def options(self) -> dict[str, Any]:
        """The options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class EntropyDivergence(PairEstimator):
    """The estimator "entropy" of `divergence_matrix`, where its options are explained.

    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).normal(size=(50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, estimator=dk.EntropyDivergence(k=6)).shape
    (3, 3)
    """

    k: int | None = None
    mixture: str | None = None
    duplicates: str | None = None
    random_state: Any = None
    name: ClassVar[str] = "entropy"


@dataclass(frozen=True)
class KNNDivergence(PairEstimator):
    """The estimator "knn" of `divergence_matrix`, where its options are explained.

    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).normal(size=(50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, "kullback-leibler", estimator=dk.KNNDivergence(k=5), symmetric=True).shape
    (3, 3)
    """

    k: int | None = None
    duplicates: str | None = None
    name: ClassVar[str] = "knn"


@dataclass(frozen=True)
class PluginDivergence(PairEstimator):
    """The estimator "plugin" of `divergence_matrix`, where its options are explained.

    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).random((50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, "chi2", estimator=dk.PluginDivergence(n_basis=16, domain="unit")).shape
    (3, 3)
    """

    n_basis: int | None = None
    bandwidth: float | Sequence[float] | str | None = None
    domain: str | tuple[ArrayLike, ArrayLike] | None = None
    structure: str | None = None
    name: ClassVar[str] = "plugin"


@dataclass(frozen=True)
class HeldOutDivergence(PairEstimator):
    """The estimator "held-out" of `divergence_matrix`, where its options are explained.

    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).random((50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, estimator=dk.HeldOutDivergence(bandwidth=0.1, random_state=0)).shape
    (3, 3)
    """

    bandwidth: float | Sequence[float] | str | None = None
    domain: str | tuple[ArrayLike, ArrayLike] | None = None
    structure: str | None = None
    random_state: Any = None
    name: ClassVar[str] = "held-out"
