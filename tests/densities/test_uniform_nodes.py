"""P1's Monte Carlo coefficients: unbiased, reproducible, with the expected variance."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dkdist as dk
from dkdist.embeddings.nodes import index_set, midpoints
from dkdist.theory.hdd_terms import sampled_integrals

SEEDS = 60


def collection(d):
    rng = np.random.default_rng(d)
    return [rng.beta(1 + i, 2, (60, d)) for i in range(3)]


def embedding(seed=0, **options):
    default_options = {"domain": "unit", "bandwidth": 0.15, "n_basis": 4, "nodes": "uniform", "n_nodes": 300}
    return dk.DivergenceEmbedding("hellinger", random_state=seed, **(default_options | options))


def exact_values(sets, d, structure, q=64):
    """Return sqrt(p / 2) at q^d midpoints (n_sets, parts, q^d), and the nodes."""
    fine = dk.DivergenceEmbedding(
        "hellinger", domain="unit", bandwidth=0.15, n_basis=q, structure=structure
    ).fit(sets)
    p = fine.spec_.materialize().densities(dk.SampleSets.from_arrays(sets)).astype(np.float64)
    axis = midpoints(q)[0]
    dims = 1 if structure == "marginal" else d
    return np.sqrt(p / 2), np.stack(np.meshgrid(*[axis] * dims, indexing="ij"), -1).reshape(-1, dims)


def functions(nodes, order):
    a = index_set(nodes.shape[1], 4, order)
    phi = np.cos(np.pi * nodes[:, None, :] * a) * np.where(a > 0, np.sqrt(2), 1)
    return phi.prod(axis=2)


@pytest.mark.parametrize(
    ("d", "structure", "index_set", "order"),
    [(1, "joint", "tensor", np.inf), (2, "joint", "total-degree", 1.0), (2, "marginal", "tensor", np.inf)],
)
def test_coefficients_are_unbiased_with_variance_of_a_mean(d, structure, index_set, order):
    sets = collection(d)
    f, nodes = exact_values(sets, d, structure)
    phi = functions(nodes, order)
    values = f[..., None] * phi  # (sets, parts, nodes, functions)
    expected = values.mean(axis=2).reshape(3, -1)
    variance = values.var(axis=2).reshape(3, -1) / 300
    rows = np.array(
        [
            embedding(seed, index_set=index_set, structure=structure).fit_transform(sets)
            for seed in range(SEEDS)
        ],
        np.float64,
    )
    error = (rows.mean(axis=0) - expected) / np.sqrt(variance / SEEDS + 1e-12)
    # about 40 values: exceeded with a probability of 1 in 4,000 for normal errors
    assert np.abs(error).max() < 4.5
    result = ((rows - expected) ** 2).mean() / variance.mean()
    # rows of one seed share their nodes: about SEEDS independent values, standard error sqrt(2 / SEEDS)
    assert abs(result - 1) < 4.5 * np.sqrt(2 / SEEDS)


def test_distances_are_within_the_bound_and_unbiased_at_nodes():
    sets = collection(2)
    f, nodes = exact_values(sets, 2, "joint")
    phi = functions(nodes, np.inf)
    exact = np.linalg.norm(((f[0, 0] - f[1, 0])[:, None] * phi).mean(axis=0))
    result, at_nodes = [], []
    for seed in range(SEEDS):
        A = embedding(seed, index_set="tensor").fit_transform(sets).astype(np.float64)
        result.append(np.linalg.norm(A[0] - A[1]))
        B = embedding(seed).fit_transform(sets).astype(np.float64)
        at_nodes.append(((B[0] - B[1]) ** 2).sum())
    bound = sampled_integrals(0.5, 2, 4, 300, 0.1)
    assert np.mean(np.abs(np.array(result) - exact) > bound) <= 0.1
    truth = ((f[0, 0] - f[1, 0]) ** 2).mean()
    assert abs(np.mean(at_nodes) - truth) < 4.5 * np.std(at_nodes) / np.sqrt(SEEDS)


@pytest.mark.parametrize("structure", ["joint", "marginal"])
@pytest.mark.parametrize("d", [1, 3, 4])
def test_rows_depend_on_seed_and_set_only(d, structure, tmp_path):
    sets = collection(d)
    options = {"structure": structure, "divergence": "jensen-shannon", "bandwidth": [[0.2], [0.4]]}
    if d < 4 or structure == "marginal":
        options["index_set"] = "total-degree"
    common_options = {"domain": "unit", "n_basis": 4, "nodes": "uniform", "n_nodes": 100}
    fitted = dk.DivergenceEmbedding(random_state=3, **common_options, **options).fit(sets)
    A = fitted.transform(sets)
    assert A.shape == (3, fitted.spec_.n_features)
    same_seed = dk.DivergenceEmbedding(random_state=3, **common_options, **options).fit_transform(sets)
    other_seed = dk.DivergenceEmbedding(random_state=4, **common_options, **options).fit_transform(sets)
    np.testing.assert_array_equal(same_seed, A)
    assert (other_seed != A).any()
    for i in range(3):
        np.testing.assert_array_equal(fitted.transform(sets[i : i + 1])[0], A[i])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(sets), A)
    dk.save_model(fitted, tmp_path / "model.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "model.npz").transform(sets), A)
    store = dk.write_sets(tmp_path / "sets.zarr", dk.SampleSets.from_arrays(sets))
    np.testing.assert_array_equal(fitted.transform(store).compute(), A)


def test_many_nodes_converge_to_midpoints():
    """Distances at 20,000 random nodes; the standard error is estimated from the values."""
    sets = collection(2)
    sampled = embedding(0, n_nodes=20_000).fit_transform(sets).astype(np.float64)
    exact = embedding(nodes="midpoint", n_nodes="auto", n_basis=32).fit_transform(sets).astype(np.float64)
    for i, j in ((0, 1), (0, 2)):
        terms = 20_000 * (sampled[i] - sampled[j]) ** 2
        assert abs(terms.mean() - ((exact[i] - exact[j]) ** 2).sum()) < 4.5 * terms.std() / np.sqrt(20_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": "random"}, "nodes must be one of 'midpoint', 'uniform'; got 'random'"),
        ({"nodes": "midpoint"}, "n_nodes must be 'auto' for nodes='midpoint'.*got 300"),
        ({"n_nodes": 0}, "n_nodes must be"),
        ({"n_nodes": "many"}, "n_nodes must be one of 'auto'"),
        ({"n_nodes": 10**9}, "the table of terms .* from n_nodes=1000000000 .*Reduce n_nodes"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        embedding(**options).fit(collection(2))
