"""Parameters of random Fourier features: rows x -> z with z(x) . z(y) ~ exp(-|x - y|^2 / (2 sigma^2))."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.base.roles import Role
from dkdist.kernel.features.fourier_gradient import phase_gradient, structured_frequencies
from dkdist.kernel.features.hadamard_loops import padded_length, structured_features
from dkdist.kernel.features.random_fourier_features_loops import DRAWS, dense_features
from dkdist.loops.array_types import F32, F64
from dkdist.loops.products import steady_factor
from dkdist.plain.kept import kept

METHODS = ("iid", "orthogonal", "structured")
STRUCTURED_FROM = 200  # input dimensions from which the Hadamard product is cheaper than the plain one


@kept
@dataclass(frozen=True)
class FourierSpec(Specification["FourierParameters"]):
    """What defines a set of random Fourier features, in plain numbers; ``draw()`` makes the frequencies."""

    _kept = 8

    n_inputs: int
    n_components: int
    sigma: float
    method: str
    seed: int

    @property
    def n_features(self) -> int:
        """Length D of a row of features."""
        return self.n_components

    def _tables(self) -> FourierParameters:
        return FourierParameters(self)


class FourierParameters(Tables[FourierSpec]):
    """Drawn frequencies of a `FourierSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: FourierSpec) -> None:
        self.spec = spec
        self._fill = (_structured if spec.method == "structured" else _dense)(spec)

    def transform(self, X: F32) -> F32:
        """Features of rows X (n, m) float32: (n, D) float32, sines then cosines; each row has norm 1.

        A row with NaN gives NaN; there are no infinite values.
        """
        return self.transform_each(X, [self.spec.sigma])[0]

    def transform_each(self, X: F32, sigmas: Sequence[float]) -> list[F32]:
        """The same features for several sigmas, which share what does not depend on them; the same bits."""
        outs = list(np.empty((len(sigmas), len(X), self.spec.n_components), np.float32))
        X = np.ascontiguousarray(X, np.float32)
        if not np.isnan(X.min(initial=0)):
            self._fill(X, sigmas, outs)
            return outs
        lost = np.asarray(np.isnan(X).any(axis=1))
        self._fill(np.where(lost[:, None], np.float32(0), X), sigmas, outs)  # compiled loops know no NaN
        for out in outs:
            out[lost] = np.nan
        return outs

    def pull_back(self, x: F32, gradient: F64) -> F64:
        """(m, k) derivatives by the row x (m,) of k functions with derivatives ``gradient`` (D, k) by its features."""
        return phase_gradient(_frequencies(self.spec), x.astype(np.float64), gradient)


Fill = Callable[[F32, Sequence[float], Sequence[F32]], None]


def _dense(spec: FourierSpec) -> Fill:
    Wt = steady_factor(np.ascontiguousarray(_drawn_dense(spec).T, np.float32))
    return lambda X, sigmas, outs: dense_features(X, Wt, sigmas, outs)


def _drawn_dense(spec: FourierSpec) -> F64:
    """(F, m) frequencies for sigma = 1."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    return DRAWS[spec.method](rng, spec.n_components // 2, spec.n_inputs)


def _drawn_structured(spec: FourierSpec) -> tuple[F32, F64]:
    """Signs, and lengths of rows for sigma = 1, as `structured_features` takes them."""
    rng = np.random.default_rng([spec.seed, Role.FOURIER])
    F, L = spec.n_components // 2, padded_length(spec.n_inputs)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    lengths = np.sqrt(rng.chisquare(L, F))
    return signs, lengths / L**1.5  # three unnormalised Hadamard transforms stretch a vector by L^(3/2)


@lru_cache(maxsize=2)
def _frequencies(spec: FourierSpec) -> F64:
    """(F, m) what rows are multiplied by."""
    if spec.method != "structured":
        return _drawn_dense(spec) / spec.sigma
    signs, scales = _drawn_structured(spec)
    return structured_frequencies(signs, scales / spec.sigma, spec.n_inputs)


def _structured(spec: FourierSpec) -> Fill:
    signs, scales = _drawn_structured(spec)

    def fill(X: F32, sigmas: Sequence[float], outs: Sequence[F32]) -> None:
        for sigma, out in zip(sigmas, outs, strict=True):
            structured_features(X, signs, (scales / sigma).astype(np.float32), out)

    return fill
