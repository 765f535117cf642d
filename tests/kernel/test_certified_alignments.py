"""The guarantee of `align`: motions found by a plain search are not better by more than the stated gap.

``pytest -s -m slow`` on this file runs 10,000 trials of each test and prints the maximum ratio of deficit and gap.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dkdist as dk
from dkdist.alignment import branch_and_bound

from .kernel_trials import adversarial_trial, exact_energy, max_ratio, with_trials

STATED = 1e-8  # error of D^2, relative to W^2


def trial(seed, d):
    """Return (Q, weights, P, weights, sigma, guarantee): few points, whose width is a few sigma."""
    x, y, *_ = adversarial_trial(seed)
    rng = np.random.default_rng([seed, 0x414C])
    x, y = (np.resize(s[:8], (min(len(s), 8), d)) if s.shape[1] < d else s[:8, :d] for s in (x, y))
    width = max(float(np.ptp(s, axis=0).max()) for s in (x, y)) or 1.0
    if seed % 3 == 0:  # nearly the same set, rotated
        y = x @ rotations(rng, 1, d)[0].T + rng.normal(0, 0.02 * width, x.shape)
    y = y + rng.choice([0, 3, 1e3]) * width
    p, q = (rng.dirichlet(np.full(len(s), rng.choice([0.3, 10]))) * rng.choice([1, 5]) + 1e-6 for s in (x, y))
    sigma = width * rng.uniform(0.4 if d < 3 else 0.8, 2)
    return y, q, x, p, sigma, p.sum() * q.sum() * rng.choice([0.05, 0.2] if d < 3 else [0.2, 0.4])


def rotations(rng, n, d):
    if d == 3:
        return Rotation.random(n, rng=rng).as_matrix()
    turns = rng.uniform(0, 2 * np.pi, n)
    plane = np.array([[np.cos(turns), -np.sin(turns)], [np.sin(turns), np.cos(turns)]]).transpose(2, 0, 1)
    return plane if d == 2 else np.ones((n, 1, 1))


def max_overlap(x, p, y, q, rotates, rng):
    """Return the maximum of sum_ij p_i q_j exp(-|x_i - R y_j - t|^2 / 2), by ascent from many rotations and pairs.

    Each step is a weighted least-squares fit of all pairs, which never decreases the sum.
    """
    d = x.shape[1]
    turns = rotations(rng, {1: 1, 2: 12, 3: 30}[d], d) if rotates else np.eye(d)[None]
    R = np.repeat(turns, len(x) * len(y) // 4 + 1, axis=0)
    i, j = rng.integers(len(x), size=len(R)), rng.integers(len(y), size=len(R))
    if not rotates:
        R, (i, j) = np.repeat(turns, len(x) * len(y), axis=0), np.divmod(np.arange(len(x) * len(y)), len(y))
    t = x[i] - np.einsum("sab,sb->sa", R, y[j])
    for step in range(40):
        moved = np.einsum("sab,jb->sja", R, y) + t[:, None]
        k = np.exp(-((x[None, :, None] - moved[:, None]) ** 2).sum(axis=3) / 2) * p[:, None] * q
        f = k.sum(axis=(1, 2))
        if step in (4, 12):
            best = np.argsort(-f)[: 40 if step == 4 else 8]
            R, t, k, f = R[best], t[best], k[best], f[best]
        total = np.maximum(f, 1e-300)[:, None]
        a, b = k.sum(axis=2) @ x / total, k.sum(axis=1) @ y / total
        if rotates and d > 1:
            H = np.einsum("sij,ia,jb->sab", k, x, y) - total[:, :, None] * a[:, :, None] * b[:, None]
            U, _, V = np.linalg.svd(H)
            U[:, :, -1] *= np.sign(np.linalg.det(U) * np.linalg.det(V))[:, None]
            R = U @ V
        t = a - np.einsum("sab,sb->sa", R, b)
    return float(f.max())


@with_trials(6)
@pytest.mark.parametrize(
    ("d", "transform"),
    [(1, "translation"), (2, "translation"), (2, "rigid"), (3, "translation"), (3, "rigid")],
)
def test_no_motion_is_better_by_more_than_the_gap(d, transform, n_trials, monkeypatch, request):
    # no trial raises: the search stops with its gap
    monkeypatch.setattr(branch_and_bound, "_estimate_cells", lambda *_: 0.0)
    if transform == "rigid" or d == 1:  # the search must succeed without a good start
        monkeypatch.setattr(
            "dkdist.alignment.align.search_motion",
            lambda x, p, y, q, rotates, evened: (np.eye(d), np.zeros(d)),
        )
    certified = []

    def ratio(seed):
        y, q, x, p, sigma, guarantee = trial(seed, d)
        result = dk.align(
            y, x, sigma=sigma, weights=(q, p), transform=transform, guarantee=guarantee, max_seconds=1.0,
            random_state=0,
        )  # fmt: skip
        certified.append(result.certified)
        assert result.certified == (result.gap <= guarantee * (1 + 1e-12))
        u, v, inverse = x - x.mean(axis=0), y - y.mean(axis=0), 1 / np.longdouble(sigma)
        self_energy = float(exact_energy(u, p, inverse, "gaussian") + exact_energy(v, q, inverse, "gaussian"))
        moved = np.concatenate([y @ result.rotation.T + result.translation, x])
        square = float(exact_energy(moved, np.r_[q, -p], inverse, "gaussian"))
        W = p.sum() + q.sum()
        width = float(np.abs(np.r_[x, y]).max()) / sigma
        assert abs(result.distance**2 - square) <= (STATED + 2.0**-50 * width) * W**2
        rng = np.random.default_rng(seed)
        best = self_energy - 2 * max_overlap(u / sigma, p, v / sigma, q, transform == "rigid", rng)
        return max(0.0, square - best) / result.gap

    assert max_ratio(request.node.name, ratio, n_trials) <= 1
    assert np.mean(certified) > 0.9
