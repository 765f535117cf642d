"""Projection of matrices to positive semidefinite ones."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk


def indefinite(n=30, seed=0):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = rng.normal(size=n)
    gram = q * values @ q.T
    return (gram + gram.T) / 2, values, q


@pytest.mark.parametrize(
    ("method", "repair"),
    [
        ("clip", lambda v: np.maximum(v, 0)),
        ("flip", np.abs),
        ("shift", lambda v: v - v.min()),
    ],
)
def test_project_psd_changes_eigenvalues_only(method, repair):
    gram, values, q = indefinite()
    output = dk.project_psd(gram, method=method)
    assert output.dtype == np.float64
    np.testing.assert_array_equal(output, output.T)
    np.testing.assert_allclose(output, q * repair(values) @ q.T, atol=1e-13)
    assert np.linalg.eigvalsh(output).min() > -1e-13


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_psd_matrix_is_unchanged(method):
    x = np.random.default_rng(1).normal(size=(12, 20))
    gram = np.array(x @ x.T)
    gram = (gram + gram.T) / 2
    original = gram.copy()
    np.testing.assert_array_equal(dk.project_psd(gram, method=method), original)
    np.testing.assert_array_equal(gram, original)


def test_shift_changes_the_diagonal_only():
    gram = indefinite()[0]
    off = ~np.eye(30, dtype=bool)
    np.testing.assert_array_equal(dk.project_psd(gram, "shift")[off], gram[off])


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        (np.zeros((2, 3)), r"square matrix; got shape \(2, 3\)"),
        (np.zeros(4), r"square matrix; got shape \(4,\)"),
        (np.zeros((0, 0)), r"square matrix; got shape \(0, 0\)"),
        ([[1.0, np.nan], [0.0, 1.0]], r"got nan at \(0, 1\)"),
        ([[1.0, 0.5], [0.25, 1.0]], r"got 0\.5 at \(0, 1\) and 0\.25 at \(1, 0\)"),
    ],
)
def test_invalid_matrix_raises(gram, message):
    with pytest.raises(ValueError, match=message):
        dk.project_psd(gram)


def test_unknown_method_raises():
    with pytest.raises(ValueError, match="'clip', 'flip', 'shift'; got 'cut'"):
        dk.project_psd(np.eye(2), method="cut")


def test_non_numeric_matrix_raises():
    for matrix, message in (
        ([[1, 2j], [-2j, 1]], "real numbers; got dtype complex"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        ([[1, 2], [3]], "rows of equal length"),
        (np.full((2, 2), 1e308), "entries up to 1e.150; got 1e.308"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.project_psd(matrix)
