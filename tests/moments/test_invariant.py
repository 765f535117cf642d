"""Features averaged over symmetries: group means, invariance of rows, kernels, and invalid options."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.embeddings.invariant_features import apply_symmetry, axis_group

HELLINGER = dk.DivergenceEmbedding("hellinger", n_basis=6, domain=([0, -1], [2, 1]))
FEATURES = dk.RandomFourierFeatures(128, sigma=0.5, random_state=0)


def random_sets(n_sets: int = 30, d: int = 2, seed: int = 0) -> dk.SampleSets:
    rng = np.random.default_rng(seed)
    low, width = (np.array([0, -1]), 2.0) if d == 2 else (0.0, 1.0)
    arrays = [low + width * rng.beta(*rng.uniform(1, 4, 2), (rng.integers(5, 300), d)) for _ in range(n_sets)]
    return dk.SampleSets.from_arrays(arrays, [rng.random(len(x)) + 0.1 for x in arrays])


def transform_sets(sets: dk.SampleSets, order: Any, flips: Any) -> dk.SampleSets:
    """Return sets in [0, 2] x [-1, 1] with permuted and reflected axes, in float64."""
    low = np.array([0.0, -1.0])
    u = (sets.points.astype(np.float64) - low) / 2
    u = np.where(flips, 1 - u[:, order], u[:, order])
    return dk.SampleSets(low + 2 * u, sets.offsets, sets.weights)


ELEMENTS = {
    "reflections": [([0, 1], f) for f in itertools.product([0, 1], repeat=2)],
    "permutations": [(o, (0, 0)) for o in ([0, 1], [1, 0])],
    "all": [(o, f) for o in ([0, 1], [1, 0]) for f in itertools.product([0, 1], repeat=2)],
}


@pytest.mark.parametrize("symmetries", ELEMENTS)
@pytest.mark.parametrize("embedding", [HELLINGER, dk.MomentEmbedding(degree=2)], ids=["hellinger", "moments"])
def test_rows_match_the_mean_over_the_group(symmetries: str, embedding: Any) -> None:
    sets = random_sets()
    corners = dk.SampleSets.from_arrays([np.array([[0, -1], [2, 1]], np.float32), *list(sets)])
    model = dk.InvariantFeatures(embedding, FEATURES, symmetries).fit(corners)
    elements = ELEMENTS[symmetries]
    assert model.n_symmetries_ == len(elements)
    A = [model.embedding_.transform(transform_sets(sets, *element)) for element in elements]
    expected = np.mean([model.features_.transform(rows).astype(np.float64) for rows in A], axis=0)
    result = model.transform(sets)
    np.testing.assert_allclose(result, expected, atol=2e-4 * np.abs(expected).max())
    for element in elements:
        np.testing.assert_allclose(model.transform(transform_sets(sets, *element)), result, atol=2e-4)
    # the average differs from the plain features
    assert np.abs(FEATURES.fit(A[0]).transform(A[0]) - result).max() > 0.01


def test_other_axes_are_not_symmetrized() -> None:
    sets = random_sets(d=3)
    embedding = dk.DivergenceEmbedding(domain="unit", n_basis=4)
    model = dk.InvariantFeatures(embedding, symmetries="reflections", axes=[0]).fit(sets)
    mirrored = dk.SampleSets(sets.points * [-1, 1, 1] + [1, 0, 0], sets.offsets, sets.weights)
    other_axis_mirrored = dk.SampleSets(sets.points * [1, -1, 1] + [0, 1, 0], sets.offsets, sets.weights)
    rows = model.transform(sets)
    np.testing.assert_allclose(model.transform(mirrored), rows, atol=1e-4)
    assert np.abs(model.transform(other_axis_mirrored) - rows).max() > 0.05
    plain = embedding.fit(sets)
    np.testing.assert_allclose(rows, (plain.transform(sets) + plain.transform(mirrored)) / 2, atol=1e-4)


def test_group_of_three_axes_has_48_elements() -> None:
    sets = random_sets(4, d=3)
    model = dk.InvariantFeatures(dk.DivergenceEmbedding(domain="unit", n_basis=4), symmetries="all").fit(sets)
    assert model.n_symmetries_ == len(set(model.spec_.elements)) == 48
    assert model.spec_.elements[0] == (1, 2, 3)


def test_points_outside_the_data_warn_without_a_domain() -> None:
    sets = random_sets()
    model = dk.InvariantFeatures(dk.MeanEmbedding(40, sigma=1.0, method="iid", random_state=0)).fit(sets)
    with pytest.warns(UserWarning, match="outside the range seen in fit"):
        model.transform([np.full((3, 2), 9.0)])


def test_invariant_labels_are_learned_better() -> None:
    """The label is the distance of a cluster from the middle of the square."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.1, 0.9, (400, 2))
    y = np.abs(centres - 0.5).max(axis=1)
    points = [np.clip(c + 0.08 * rng.standard_normal((60, 2)), 0, 1) for c in centres]
    sets = dk.SampleSets.from_arrays(points)
    embedding = dk.DivergenceEmbedding(domain="unit", bandwidth=0.1)
    features = dk.RandomFourierFeatures(400, sigma=0.5, random_state=0)
    ridge = dk.IncrementalRidge(alphas=1e-3)
    plain = make_pipeline(embedding, features, ridge)
    invariant = make_pipeline(dk.InvariantFeatures(embedding, features, "all"), clone(ridge))
    loss, invariant_loss = (
        1 - model.fit(sets[:40], y[:40]).score(sets[40:], y[40:]) for model in (plain, invariant)
    )
    loss_of_twice_the_data = 1 - plain.fit(sets[:80], y[:80]).score(sets[80:], y[80:])
    assert invariant_loss < 0.5 * loss
    assert invariant_loss < loss_of_twice_the_data  # better than twice the data


def test_search_over_nested_parameters() -> None:
    sets = random_sets(120)
    y = np.array([x[:, 0].std() for x in sets])
    model = make_pipeline(dk.InvariantFeatures(HELLINGER, FEATURES), dk.IncrementalRidge(alphas=1e-3))
    grid = {
        "invariantfeatures__embedding__bandwidth": [0.15, 0.3],
        "invariantfeatures__features__sigma": [0.3, 1.0],
        "incrementalridge__alphas": [1e-3, 1.0],
    }
    search = dk.OnePassSearch(model, grid, 0.2, random_state=0).fit(sets, y)
    assert len(search.cv_results_["params"]) == 8
    assert (
        search.best_estimator_[0].features_.sigma_
        == search.best_params_["invariantfeatures__features__sigma"]
    )


def test_list_of_symmetries_generates_its_group() -> None:
    sets = random_sets()
    full_group = dk.InvariantFeatures(HELLINGER, FEATURES, "all").fit(sets)
    rotations_and_reflection = dk.InvariantFeatures(HELLINGER, FEATURES, [(2, -1), (-1, 2)]).fit(sets)
    assert set(rotations_and_reflection.spec_.elements) == set(full_group.spec_.elements)
    rotations = dk.InvariantFeatures(HELLINGER, FEATURES, [(2, -1)]).fit(sets)
    assert rotations.spec_.elements == ((1, 2), (2, -1), (-1, -2), (-2, 1))
    rows = rotations.transform(sets)
    np.testing.assert_allclose(rotations.transform(transform_sets(sets, [1, 0], (0, 1))), rows, atol=2e-4)
    assert np.abs(rotations.transform(transform_sets(sets, [0, 1], (1, 0))) - rows).max() > 0.01


def test_joint_reflection_of_two_axes() -> None:
    sets = random_sets(d=3)
    embedding = dk.DivergenceEmbedding(domain="unit", n_basis=4)
    model = dk.InvariantFeatures(embedding, symmetries=[(-1, 2, -3)]).fit(sets)
    assert model.n_symmetries_ == 2
    mirrored = dk.SampleSets(sets.points * [-1, 1, -1] + [1, 0, 1], sets.offsets, sets.weights)
    plain = embedding.fit(sets)
    expected = (plain.transform(sets) + plain.transform(mirrored)) / 2
    np.testing.assert_allclose(model.transform(sets), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"symmetries": "rotations"}, ValueError, "'reflections', 'permutations', 'all'; got 'rotations'"),
        (
            {"symmetries": [(1, 3)]},
            ValueError,
            r"a list of signed permutations of \[1, 2\]; got \[\(1, 3\)\]",
        ),
        ({"symmetries": [(1.7, 2)]}, ValueError, r"signed permutations of \[1, 2\]; got \[\(1.7, 2\)\]"),
        ({"symmetries": [1, 2]}, ValueError, r"signed permutations of \[1, 2\]; got \[1, 2\]"),
        ({"axes": [0.7]}, ValueError, r"distinct integers from 0 to 1; got \[0.7\]"),
        ({"symmetries": [(2, 1)], "axes": [0]}, ValueError, "axes must be None if symmetries is a list"),
        ({"axes": [0, 2]}, ValueError, r"distinct integers from 0 to 1; got \[0, 2\]"),
        ({"axes": []}, ValueError, "one or more distinct integers"),
        ({"features": HELLINGER}, TypeError, "features must be RandomFourierFeatures or None"),
        ({"embedding": FEATURES}, TypeError, "embedding must be an embedding of sets"),
    ],
)
def test_invalid_options_raise(options: Any, error: Any, message: str) -> None:
    model = dk.InvariantFeatures(HELLINGER, FEATURES).set_params(**options)
    with pytest.raises(error, match=message):
        model.fit(random_sets())


def test_too_many_symmetries_raise() -> None:
    sets = [np.random.default_rng(0).random((20, 12))]
    with pytest.raises(ValueError, match=r"at most 1024 elements; .* in 12 dimensions"):
        dk.InvariantFeatures(dk.MomentEmbedding(), symmetries="all").fit(sets)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("divergence", ["hellinger", "jensen-shannon"])
def test_permuted_columns_match_rows_of_images(d: int, divergence: str) -> None:
    """Midpoints are images of each other; the reference embeds the transformed points."""
    rng, domain = np.random.default_rng(0), ([-1.0] * d, [2.0] * d)
    sets = dk.SampleSets.from_arrays([rng.uniform(-1, 2, (30, d)).astype(np.float32) for _ in range(4)])
    embedding = dk.DivergenceEmbedding(
        divergence, domain=domain, bandwidth=[[0.1] * d, [0.2] * d], n_basis=7
    ).fit(sets)
    low, high = embedding.spec_.domain.arrays
    rows = embedding.transform(sets)
    for element in axis_group("all", d, list(range(d))):
        image = dk.SampleSets(apply_symmetry(sets.points, element, low, high), sets.offsets)
        columns = embedding.spec_.permuted_columns(element)
        # rounding of float32 points near the boundary changes densities by the error over the bandwidth
        np.testing.assert_allclose(rows[:, columns], embedding.transform(image), atol=1e-4)


def test_permuted_columns_are_none_without_symmetry() -> None:
    sets = [np.random.default_rng(0).uniform(size=(30, 2))]
    swapped, uneven = (2, 1), dk.DivergenceEmbedding(domain="unit", bandwidth=[0.1, 0.2]).fit(sets)
    assert uneven.spec_.permuted_columns(swapped) is None
    assert uneven.spec_.permuted_columns((-1, 2)) is not None
    marginal = dk.DivergenceEmbedding(domain="unit", structure="marginal").fit(sets)
    assert marginal.spec_.permuted_columns(swapped) is None
    random = dk.DivergenceEmbedding(domain="unit", nodes="uniform", random_state=0).fit(sets)
    assert random.spec_.permuted_columns(swapped) is None
    assert dk.InvariantFeatures(random, symmetries="all").fit(sets).transform(sets).shape == (
        1,
        random.spec_.n_features,
    )
