"""Structured features against the explicit matrix product they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from dkdist.kernel.features.hadamard_loops import LANES, _hadamard, padded_length, structured_features


@pytest.mark.parametrize(
    ("m", "length"), [(1, 16), (16, 16), (17, 32), (32, 32), (200, 256), (512, 512), (513, 1024)]
)
def test_padded_length(m, length):
    assert padded_length(m) == length


@pytest.mark.parametrize("L", [1, 2, 4, 8, 16, 32, 64, 128, 512, 1024])
def test_transform_is_the_hadamard_matrix(L):
    V = np.random.default_rng(L).integers(-9, 9, (L, LANES)).astype(np.float32)
    expected = hadamard(L) @ V.astype(np.float64)
    _hadamard(V)
    np.testing.assert_array_equal(V, expected)  # integers: exact


def random_case(seed, m, F):
    rng = np.random.default_rng(seed)
    L = padded_length(m)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    return signs, (np.sqrt(rng.chisquare(L, F)) / L**1.5).astype(np.float32)


def features(X, signs, scales):
    out = np.full((len(X), 2 * len(scales)), np.nan, np.float32)
    structured_features(X, signs, scales, out)
    return out


def explicit(X, signs, scales):
    L = signs.shape[2]
    H = hadamard(L).astype(np.float64)
    W = np.concatenate([H * s[2] @ (H * s[1]) @ (H * s[0]) for s in signs.astype(np.float64)])
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, L - X.shape[1])))
    phases = padded @ (W[: len(scales)] * scales[:, None].astype(np.float64)).T
    return np.concatenate([np.sin(phases), np.cos(phases)], axis=1) / np.sqrt(len(scales))


@given(
    n=st.sampled_from([1, 3, 15, 16, 17, 40]),
    m=st.sampled_from([1, 5, 16, 30, 64, 100, 256]),
    F=st.sampled_from([1, 16, 63, 64, 65, 200, 300]),
)
def test_is_the_explicit_product(n, m, F):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    signs, scales = random_case(m, m, F)
    error = features(X, signs, scales) - explicit(X, signs, scales)
    assert np.abs(error).max() * np.sqrt(F) < 5e-5


@given(n=st.integers(1, 60), cut=st.integers(0, 60), m=st.integers(1, 70))
def test_bits_of_a_row_do_not_depend_on_the_others(n, cut, m):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    signs, scales = random_case(m, m, 50)
    cut, whole = min(cut, n), features(X, signs, scales)
    parts = [features(X[:cut], signs, scales), features(X[cut:], signs, scales)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(features(X[::-1].copy(), signs, scales)[::-1], whole)
