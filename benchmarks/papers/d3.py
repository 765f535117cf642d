"""D3, the discriminative distribution distance of Wu, Gao and Liu (2015), the baseline of P1 on scenes.

    f[k, j] = erf((m[k, j] - mu[k, j]) / (sqrt(2) (s[k, j] + sigma[k, j])))

m and s are mean and standard deviation, in dimension j, of the points of a set that are nearest to visual word k; mu
and sigma are those of the points of all training sets. f is a signed total variation between two Gaussians with these
parameters, which one threshold with equal errors separates. f is 0 for a word with fewer than two points of the set.

J. Wu, B.-B. Gao, G. Liu, Visual recognition using directional distribution distance (2015), arXiv:1504.04792.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import erf
from sklearn.metrics import pairwise_distances_argmin

import dkdist as dk

N_SAMPLE_POINTS, BLOCK_SETS = 200_000, 64  # points for the moments of all sets; sets per block


@dataclass
class D3:
    """Transformer with ``n_words`` visual words of `CodebookEmbedding` and one column per word and dimension."""

    n_words: int = 64

    def fit(self, sets: dk.SampleSets) -> D3:
        self.words = dk.CodebookEmbedding(self.n_words, random_state=0).fit(sets).words_.astype(np.float32)
        n = len(sets.points)
        sample = sets.points[np.random.default_rng(0).choice(n, min(N_SAMPLE_POINTS, n), replace=False)]
        count, self.mu, self.sigma = self._moments(sample, np.array([0, len(sample)]))
        assert (count > 0).all()
        return self

    def transform(self, sets: dk.SampleSets) -> np.ndarray:
        rows = np.empty((len(sets), self.n_words * sets.n_dims), np.float32)
        for a in range(0, len(sets), BLOCK_SETS):
            b = min(a + BLOCK_SETS, len(sets))
            first, last = sets.offsets[a], sets.offsets[b]
            count, m, s = self._moments(sets.points[first:last], sets.offsets[a : b + 1] - first)
            f = erf((m - self.mu) / (np.sqrt(2) * (s + self.sigma)))
            rows[a:b] = np.where(count >= 2, f, 0).reshape(b - a, -1)
        return rows

    def _moments(self, x: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return counts (n, K, 1), means and standard deviations (n, K, d) of the points nearest to each word."""
        n, K = len(offsets) - 1, self.n_words
        cell = np.repeat(np.arange(n) * K, np.diff(offsets)) + pairwise_distances_argmin(x, self.words)
        indicator = csr_matrix((np.ones(len(x)), (cell, np.arange(len(x)))), shape=(n * K, len(x)))
        count = np.asarray(indicator.sum(axis=1)).reshape(n, K, 1)
        divisor, x = np.maximum(count, 1), x.astype(np.float64)
        m, square = ((indicator @ v).reshape(n, K, -1) / divisor for v in (x, x**2))
        return count, m, np.sqrt(np.maximum(square - m**2, 1e-12))
