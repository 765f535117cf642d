"""Abbreviated names of divergences and distances give the same results as full names."""

import numpy as np
import pytest

import dkdist as dk

SETS = [np.random.default_rng(i).normal(i / 4, 1, (40, 1)) for i in range(4)]


@pytest.mark.parametrize(
    ("short", "name", "estimator"),
    [
        ("js", "jensen-shannon", "entropy"),
        ("kl", "kullback-leibler", "knn"),
        ("tv", "total-variation", "plugin"),
    ],
)
def test_abbreviated_divergences_in_divergence_matrix(short, name, estimator):
    matrices = [dk.divergence_matrix(SETS, d, estimator=estimator) for d in (short, name)]
    np.testing.assert_array_equal(*matrices)


@pytest.mark.parametrize(("short", "name"), [("js", "jensen-shannon"), ("tv", "total-variation")])
@pytest.mark.parametrize("embedding", [dk.DivergenceEmbedding, dk.HistogramEmbedding])
def test_abbreviated_divergences_in_embeddings(embedding, short, name):
    rows = [embedding(divergence=d, random_state=0).fit_transform(SETS) for d in (short, name)]
    np.testing.assert_array_equal(*rows)


def test_unsupported_abbreviated_divergence_raises():
    with pytest.raises(ValueError, match=r"must be one of 'jensen-shannon' .* got 'kullback-leibler'"):
        dk.divergence_matrix(SETS, "kl", estimator="entropy")
    with pytest.raises(ValueError, match=r"divergence must be one of .*; got 'kl'"):
        dk.DivergenceEmbedding("kl").fit(SETS)


def test_abbreviated_distances():
    D = dk.distance_matrix(SETS, distance="wasserstein")
    np.testing.assert_array_equal(dk.distance_matrix(SETS, distance="w1"), D)
    np.testing.assert_array_equal(
        *(dk.DistanceEmbedding(d, random_state=0).fit_transform(SETS) for d in ("w1", "wasserstein"))
    )


def test_mmd_raises_and_names_the_alternative():
    with pytest.raises(ValueError, match=r"got 'mmd'\. Rows of MeanEmbedding"):
        dk.distance_matrix(SETS, distance="mmd")


@pytest.mark.parametrize("name", ["js_ent", "JS_ent", "js-ent", "d3", "D3"])
def test_names_of_the_paper_raise_and_name_the_alternative(name):
    match = rf"got '{name}'\. .*Sutherland et al\. \(2016\).*'jensen-shannon'"
    with pytest.raises(ValueError, match=match):
        dk.divergence_matrix(SETS, name)
    for embedding in (dk.DivergenceEmbedding, dk.HistogramEmbedding):
        with pytest.raises(ValueError, match=match):
            embedding(divergence=name).fit(SETS)
