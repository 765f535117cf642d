"""Local search of `align` for any kernel with a derivative and any dimension: BFGS from several motions.

    f(R, t) = sum_j q_j F(m_j),   F(m) = sum_i p_i k(x_i, m),   m_j = R y_j + t
    df/dt = sum_j q_j grad F(m_j),   df/dR = sum_j q_j grad F(m_j) y_j'
    R = C R_0,   C = (I - A)^(-1) (I + A),   A = -A'   (Cayley transform),   dC = (I - A)^(-1) dA (C + I)

D^2 is a constant minus 2 f, because motions keep the distances within a set. The search starts from the rotations that
align principal axes (all signs with determinant 1) and from random ones. The first stages use means of regions and wide
Gaussian kernels, the last stage all points and the requested kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import special_ortho_group

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist._numba.points import cell_means
from dkdist.alignment._tuning import (
    COARSE_SPACE_RATIO,
    LOCAL_STAGES,
    MAX_RIGID_DIMS,
    MIN_GRADIENT,
    N_RANDOM_ROTATIONS,
    N_RANDOM_SHIFTS,
)
from dkdist.kernels._tuning import TOTALS_RELATIVE_TOL
from dkdist.kernels.kernel_sums import scaled, sums, sums_and_gradients
from dkdist.kernels.registry import check_kernel, get_kernel


def check_alignment_kernel(kernel: str, d: int, rotates: bool, totals: tuple[float, float]) -> None:
    """Raise ValueError unless the kernel supports the transformation of weighted points in d dimensions."""
    check_kernel(kernel, "dvalue")
    record = get_kernel(kernel)
    if rotates and record.metric != "euclidean":
        raise ValueError(
            f"kernel={kernel!r} requires transform='translation', because rotations change its city-block distances; "
            "got transform='rigid'. Use 'matern12'."
        )
    if d < 1 + rotates or (rotates and d > MAX_RIGID_DIMS):
        raise ValueError(
            f"points must have 2 to {MAX_RIGID_DIMS} dimensions for transform='rigid'; got {d}. Pass "
            "transform='translation', or reduce the dimension with SetPCA."
        )
    if (
        record.positive_definite == "equal totals"
        and abs(totals[0] - totals[1]) > TOTALS_RELATIVE_TOL * totals[0]
    ):
        raise ValueError(
            f"weights of Q and P must have equal sums for kernel={kernel!r}; got {totals[0]:.6g} and {totals[1]:.6g}. "
            "Normalise the weights or pass another kernel."
        )


class Overlap(NamedTuple):
    """Weighted points in units of the kernel's compiled form, and the name of the kernel."""

    x: F64
    p: F64
    y: F64
    q: F64
    kernel: str
    unit: float

    @classmethod
    def of(cls, x: F64, p: F64, y: F64, q: F64, kernel: str, sigma: float) -> Overlap:
        """Return the overlap for points and a bandwidth in one unit of length."""
        return cls(
            scaled(x, sigma, kernel), p, scaled(y, sigma, kernel), q, kernel, get_kernel(kernel).unit / sigma
        )

    def value(self, R: F64, t: F64) -> float:
        """Return f; t is in the unit of the original points."""
        moved = self.y @ R.T + t * self.unit
        return float(self.q @ sums(moved, self.x, self.p[:, None], self.kernel)[:, 0])

    def with_gradient(self, R: F64, s: F64) -> tuple[float, F64, F64]:
        """Return (f, df/dR, df/ds) for a shift s in the unit of the compiled form."""
        F, g = sums_and_gradients(self.y @ R.T + s, self.x, self.p, self.kernel)
        g *= self.q[:, None]
        return float(self.q @ F), g.T @ self.y, g.sum(axis=0)

    def refine(self, R: F64, t: F64, rotates: bool, n_iterations: int) -> tuple[F64, F64, float]:
        """Return (R, t, f) at a local maximum near a motion; f does not decrease."""
        d, eye, s0 = len(t), np.eye(len(t)), t * self.unit
        rows, columns = np.triu_indices(d if rotates else 0, 1)
        # angles are multiplied by the size of the set, so that all coordinates have the unit of a length
        size = 2 * float(np.sqrt((self.y**2).sum() / len(self.y))) or 1.0
        start = self.value(R, t)
        scale = max(abs(start), np.finfo(float).tiny)

        def motion(v: F64) -> tuple[F64, F64, F64]:
            A = np.zeros((d, d))
            A[rows, columns] = v[d:] / size
            A -= A.T
            C = np.asarray(np.linalg.solve(eye - A, eye + A), np.float64)
            return C, eye - A, s0 + v[:d]

        def objective(v: F64) -> tuple[float, F64]:
            C, I_minus_A, s = motion(v)
            f, by_rotation, by_shift = self.with_gradient(C @ R, s)
            S = np.linalg.solve(I_minus_A.T, by_rotation @ R.T @ (C + eye).T)
            slopes = np.concatenate([by_shift, (S - S.T)[rows, columns] / size])
            return -f / scale, -slopes / scale

        # BFGS runs in NumPy; L-BFGS-B starts BLAS threads, which are slow for few numbers on a busy machine
        options = {"maxiter": n_iterations, "gtol": MIN_GRADIENT}
        result = minimize(objective, np.zeros(d + len(rows)), jac=True, method="BFGS", options=options)
        if not -result.fun * scale >= start:
            return R, t, start
        C, _, s = motion(result.x)
        return C @ R, s / self.unit, float(-result.fun * scale)


def search_locally(x: F64, p: F64, y: F64, q: F64, kernel: str, rotates: bool, seed: int) -> tuple[F64, F64]:
    """Return the best motion (R, t) that the search finds for points in units of sigma; both sets are centred."""
    rng = np.random.default_rng([seed, RngStream.MOTION_STARTS])
    radius = max(float(np.sqrt((v**2).sum(axis=1).max())) for v in (x, y)) or 1.0
    width = max(1.0, COARSE_SPACE_RATIO * radius)
    maxima: list[tuple[F64, F64, float]] = []
    for size, power, count, n_iterations in LOCAL_STAGES:
        is_last = size is None
        points = (*cell_means(x, size, p), *cell_means(y, size, q)) if size else (x, p, y, q)
        overlap = Overlap.of(*points, kernel if is_last else "gaussian", width**power)
        starts = [maximum[:2] for maximum in maxima] or _starts(x, p, y, q, rotates, rng)
        ranked = sorted(starts, key=lambda start: -overlap.value(*start))
        maxima = [overlap.refine(*start, rotates, n_iterations) for start in ranked[:count]]
    return max(maxima, key=lambda maximum: maximum[2])[:2]


def _starts(x: F64, p: F64, y: F64, q: F64, rotates: bool, rng: np.random.Generator) -> list[tuple[F64, F64]]:
    """Return motions that align principal axes, random rotations, or random shifts of a point of y to a point of x."""
    d = x.shape[1]
    zero = np.zeros(d)
    if not rotates:
        i, j = rng.choice(len(x), N_RANDOM_SHIFTS, p=p), rng.choice(len(y), N_RANDOM_SHIFTS, p=q)
        return [(np.eye(d), t) for t in (zero, *(x[i] - y[j]))]
    U, V = (np.linalg.eigh((points.T * weights) @ points)[1] for points, weights in ((x, p), (y, q)))
    signs = 1 - 2.0 * (np.arange(2**d)[:, None] >> np.arange(d) & 1)
    rotations = [R for R in (U * s @ V.T for s in signs) if np.linalg.det(R) > 0]
    rotations += list(special_ortho_group.rvs(d, size=N_RANDOM_ROTATIONS, random_state=rng))
    return [(R, zero) for R in rotations]
