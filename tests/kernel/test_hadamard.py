"""Structured features compared with explicit matrix products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.linalg import hadamard as matrix

from dkdist._numba.hadamard import structured_products
from dkdist._numba.points import read_only
from dkdist._numba.simd import LANES_PER_ROW, ROWS_PER_VECTOR
from dkdist.kernels._structured_features_numba import StructuredFrequencies, structured_features
from dkdist.kernels.random_fourier_params import padded_length


@pytest.mark.parametrize(
    ("m", "length"), [(1, 16), (16, 16), (17, 32), (32, 32), (200, 256), (512, 512), (513, 1024)]
)
def test_padded_length(m, length):
    assert padded_length(m) == length


@njit
def products(x, m, D, v):
    structured_products(x, m, D, v)


def product(V, m, D, out):
    """Compute groups of rows; the last group is padded with rows of NaN."""
    L = V.shape[1]
    for i in range(0, len(V), ROWS_PER_VECTOR):
        rows = np.full((ROWS_PER_VECTOR, L), np.nan, np.float32)
        rows[: len(V) - i] = V[i : i + ROWS_PER_VECTOR]
        x = np.ascontiguousarray(rows.reshape(ROWS_PER_VECTOR, -1, LANES_PER_ROW).transpose(1, 0, 2)).ravel()
        v = np.full_like(x, np.nan)
        products(x, m, D, v)
        out[i : i + ROWS_PER_VECTOR] = (
            v.reshape(-1, ROWS_PER_VECTOR, LANES_PER_ROW)
            .transpose(1, 0, 2)
            .reshape(ROWS_PER_VECTOR, L)[: len(V) - i]
        )


def hadamard_transform(V):
    """Return H times each row, in float64: exact for integers."""
    L = V.shape[1]
    for h in 2 ** np.arange(L.bit_length() - 1):
        halves = V.reshape(len(V), -1, 2, h)
        sums, differences = halves[:, :, 0] + halves[:, :, 1], halves[:, :, 0] - halves[:, :, 1]
        V = np.stack([sums, differences], axis=2).reshape(len(V), L)
    return V


@pytest.mark.parametrize("L", [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 32768])
@pytest.mark.parametrize("fill_fraction", [0.51, 0.7, 1.0])
def test_product_matches_hadamard_matrices(L, fill_fraction):
    """H diag(row k of H) H moves entry i to i ^ k, times L: small integers stay exact."""
    rng, m = np.random.default_rng(L), int(fill_fraction * L)
    V, D = np.zeros((3, L), np.float32), rng.choice(np.array([-1, 1], np.float32), (3, L))
    V[:, :m] = rng.integers(-9, 10, (3, m))
    k = int(rng.integers(L))
    D[1] = hadamard_transform(np.eye(1, L, k))[0]
    moved = (V * D[0].astype(np.float64))[:, np.arange(L) ^ k]
    expected = L * hadamard_transform(moved * D[2])
    if L <= 1024:
        H = matrix(L).astype(np.float64)
        np.testing.assert_array_equal(expected, (((V * D[0]) @ H * D[1]) @ H * D[2]) @ H)
    out = np.full_like(V, np.nan)
    product(V, m, D, out)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("L", [16, 32, 64, 128, 256, 512, 1024, 8192])
@pytest.mark.parametrize("fill_fraction", [0.51, 1.0])
def test_product_is_bit_identical_to_sequential_levels(L, fill_fraction):
    """Additions in float32 follow the order of the levels, independently of SIMD width."""
    rng, m = np.random.default_rng(L), int(fill_fraction * L)
    V, D = np.zeros((5, L), np.float32), rng.choice(np.array([-1, 1], np.float32), (3, L))
    V[:, :m] = rng.standard_normal((5, m))
    out = np.full_like(V, np.nan)
    product(V, m, D, out)
    np.testing.assert_array_equal(
        out, hadamard_transform(hadamard_transform(hadamard_transform(V * D[0]) * D[1]) * D[2])
    )


def random_case(seed, m, F):
    rng = np.random.default_rng(seed)
    L = padded_length(m)
    signs = rng.choice(np.array([-1, 1], np.float32), (-(-F // L), 3, L))
    return signs, (np.sqrt(rng.chisquare(L, F)) / (L**1.5 * np.pi)).astype(np.float32)


def waves(signs, lengths):
    return StructuredFrequencies(read_only(signs), read_only(lengths), float(1 / np.sqrt(lengths.shape[1])))


def features(X, signs, scales):
    outs = np.full((2, len(X), 2 * len(scales)), np.nan, np.float32)
    structured_features(X, None, waves(signs, np.stack([scales / 3, scales])), outs)
    return outs[1]


def explicit(X, signs, scales):
    L = signs.shape[2]
    H = matrix(L).astype(np.float64)
    W = np.concatenate([H * s[2] @ (H * s[1]) @ (H * s[0]) for s in signs.astype(np.float64)])
    padded = np.pad(X.astype(np.float64), ((0, 0), (0, L - X.shape[1])))
    phases = np.pi * padded @ (W[: len(scales)] * scales[:, None].astype(np.float64)).T
    return np.concatenate([np.sin(phases), np.cos(phases)], axis=1) / np.sqrt(len(scales))


@given(
    n=st.sampled_from([1, 3, 15, 16, 17, 40]),
    m=st.sampled_from([1, 5, 16, 30, 64, 100, 256]),
    F=st.sampled_from([1, 16, 63, 64, 65, 200, 300]),
)
def test_features_match_explicit_product(n, m, F):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    signs, scales = random_case(m, m, F)
    error = features(X, signs, scales) - explicit(X, signs, scales)
    assert np.abs(error).max() * np.sqrt(F) < 5e-5


@given(n=st.integers(1, 60), cut=st.integers(0, 60), m=st.integers(1, 70))
def test_row_does_not_depend_on_other_rows(n, cut, m):
    X = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
    signs, scales = random_case(m, m, 50)
    cut, whole = min(cut, n), features(X, signs, scales)
    parts = [features(X[:cut], signs, scales), features(X[cut:], signs, scales)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(features(X[::-1].copy(), signs, scales)[::-1], whole)


def test_several_sigmas_match_single_sigmas():
    X = np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32)
    signs, scales = random_case(0, 70, 200)
    lengths = np.stack([scales, 2 * scales])
    joint, single = np.empty((2, 5, 400), np.float32), np.empty((1, 5, 400), np.float32)
    structured_features(X, None, waves(signs, lengths), joint)
    for k in range(2):
        structured_features(X, None, waves(signs, lengths[k : k + 1]), single)
        np.testing.assert_array_equal(joint[k], single[0])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("F", [1, 16, 37, 96])
def test_output_is_not_written_outside_rows(n, F):
    X = np.random.default_rng(n).standard_normal((n, 21)).astype(np.float32)
    signs, scales = random_case(n, 21, F)
    padded = np.full((n + 2, 2 * F), np.nan, np.float32)
    structured_features(X, None, waves(signs, scales[None]), padded[None, 1:-1])
    assert np.isnan(padded[[0, -1]]).all()
    np.testing.assert_array_equal(padded[1:-1], features(X, signs, scales))


def test_rows_are_selected_by_position():
    rng = np.random.default_rng(0)
    X, positions = rng.standard_normal((9, 70)).astype(np.float32), rng.integers(0, 9, 11)
    signs, scales = random_case(0, 70, 50)
    out = np.empty((1, 11, 100), np.float32)
    structured_features(X, positions, waves(signs, scales[None]), out)
    np.testing.assert_array_equal(out[0], features(X, signs, scales)[positions])


def test_rows_of_large_values_have_unit_norm():
    X = np.random.default_rng(0).standard_normal((6, 70)).astype(np.float32)
    signs, scales = random_case(0, 70, 200)
    for size in (0, 1e-30, 1, 1e6, 1e30):
        z = features(X * np.float32(size), signs, scales).astype(np.float64)
        np.testing.assert_allclose((z**2).sum(axis=1), 1, atol=1e-5)


def test_arrays_must_be_c_contiguous():
    X, (signs, scales) = np.zeros((4, 70), np.float32), random_case(0, 70, 16)
    with pytest.raises(ValueError, match="C order"):
        structured_features(X, None, waves(signs, scales[None]), np.empty((1, 4, 64), np.float32)[:, :, ::2])
    with pytest.raises(ValueError, match="C order"):
        structured_features(X[::2], None, waves(signs, scales[None]), np.empty((1, 2, 32), np.float32))
