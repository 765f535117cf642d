"""Matrices without negative eigenvalues."""

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
def test_eigenvalues_and_eigenvectors(method, repair):
    gram, values, q = indefinite()
    output = dk.project_psd(gram, method=method)
    assert output.dtype == np.float64
    np.testing.assert_array_equal(output, output.T)
    np.testing.assert_allclose(output, q * repair(values) @ q.T, atol=1e-13)
    assert np.linalg.eigvalsh(output).min() > -1e-13


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_what_is_positive_stays_as_it_is(method):
    x = np.random.default_rng(1).normal(size=(12, 20))
    gram = np.array(x @ x.T)
    gram = (gram + gram.T) / 2
    before = gram.copy()
    np.testing.assert_array_equal(dk.project_psd(gram, method=method), before)
    np.testing.assert_array_equal(gram, before)


def test_shift_changes_the_diagonal_alone():
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
def test_refused(gram, message):
    with pytest.raises(ValueError, match=message):
        dk.project_psd(gram)


def test_unknown_method():
    with pytest.raises(ValueError, match="'clip', 'flip', 'shift'; got 'cut'"):
        dk.project_psd(np.eye(2), method="cut")


def test_what_is_no_matrix_of_numbers_is_refused_by_name():
    for bad, message in (
        ([[1, 2j], [-2j, 1]], "real numbers; got dtype complex"),
        ([["a", "b"], ["c", "d"]], "real numbers"),
        ([[1, 2], [3]], "rows of equal length"),
        (np.full((2, 2), 1e308), "entries up to 1e.150; got 1e.308"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.project_psd(bad)
