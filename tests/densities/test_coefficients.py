"""Coefficients of a larger specification serve smaller ones, bit for bit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from oracles import coefficients as exact

from dkdist._base.params import Domain
from dkdist.embeddings.coefficients import CoefficientSpec, iter_tiles, merge_specs
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.sets import SampleSets


def unit(d):
    return Domain((0.0,) * d, (1.0,) * d, fixed=True)


def random_sets(sizes, d, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    points, weights = [rng.beta(2, 3, (n, d)) for n in sizes], [rng.random(n) + 0.1 for n in sizes]
    return SampleSets.from_arrays(points, weights if weighted else None)


def compute_coefficients(spec, sets):
    return np.concatenate([spec.materialize().of(sets, spans) for _, spans in iter_tiles(sets)])


SPEC_PAIRS = [
    (CoefficientSpec(unit(1), "tensor", (16,)), CoefficientSpec(unit(1), "tensor", (8,))),
    (CoefficientSpec(unit(2), "tensor", (12, 16)), CoefficientSpec(unit(2), "tensor", (12, 4))),
    (CoefficientSpec(unit(3), "tensor", (8, 5, 8)), CoefficientSpec(unit(3), "tensor", (4, 3, 4))),
    (CoefficientSpec(unit(4), "marginal", (8, 12, 4, 8)), CoefficientSpec(unit(4), "marginal", (4, 12, 4, 8))),
    (CoefficientSpec(unit(4), "ball", (4.5, 3.0, 4.0, 4.0)), CoefficientSpec(unit(4), "ball", (3.5, 2.0, 4.0, 2.0))),
    (CoefficientSpec(unit(4), "ball", (3.0,) * 4, np.inf), CoefficientSpec(unit(4), "ball", (3.0,) * 4, 1.0)),
]  # fmt: skip
for_each_pair = pytest.mark.parametrize(
    ("wide", "narrow"), SPEC_PAIRS, ids=lambda s: f"{s.structure}-{s.domain.n_dims}"
)


@for_each_pair
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_match_means_of_cosine_products(wide, narrow, weighted):
    sets = random_sets([1, 70, 250], wide.domain.n_dims, weighted=weighted)
    C = compute_coefficients(wide, sets)
    assert C.dtype == np.float32
    assert C.shape == (3, len(wide.exponents))
    for i, x in enumerate(sets):
        all_coefficients = exact(x, wide.exponents.max(axis=0) + 1, sets.weights_of(i))
        np.testing.assert_allclose(C[i], all_coefficients[tuple(wide.exponents.T)], atol=1e-4)


@for_each_pair
def test_select_is_bit_identical_to_direct_computation(wide, narrow):
    sets = random_sets([1, 70, 200, 255] * 20, wide.domain.n_dims)
    np.testing.assert_array_equal(
        narrow.select(compute_coefficients(wide, sets), wide), compute_coefficients(narrow, sets)
    )
    C = compute_coefficients(narrow, sets)
    assert narrow.select(C, narrow) is C


@for_each_pair
def test_missing_coefficients_raise(wide, narrow):
    with pytest.raises(ValueError, match="coefficients must include degrees"):
        wide.select(np.zeros((1, len(narrow.exponents)), np.float32), narrow)
    with pytest.raises(ValueError, match="same domain and structure"):
        merge_specs([wide, replace(narrow, domain=replace(narrow.domain, fixed=False))])


@for_each_pair
def test_merge_specs_returns_the_larger_spec(wide, narrow):
    assert merge_specs([narrow, wide, narrow]) == wide


def test_merge_specs_takes_maximum_per_dimension():
    first, second = (CoefficientSpec(unit(2), "tensor", K) for K in ((4, 16), (8, 4)))
    assert merge_specs([first, second]).degrees == (8, 16)
    elliptic, spherical = (
        CoefficientSpec(unit(4), "ball", K, order)
        for K, order in (((5.0, 5.0, 2.0, 2.0), 1.0), ((3.0,) * 4, 2.0))
    )
    merged_exponents = {tuple(a) for a in merge_specs([elliptic, spherical]).exponents.tolist()}
    assert merged_exponents >= {tuple(a) for spec in (elliptic, spherical) for a in spec.exponents.tolist()}


def test_exponents_of_balls_of_other_norms():
    d, axis = 4, 3.0 + 1e-9
    grid = np.indices((4,) * d).reshape(d, -1).T
    for order in (1.0, 2.0, 4.0, np.inf):
        inside = {tuple(a) for a in grid.tolist() if np.linalg.norm(a, order) <= axis}
        assert {
            tuple(a) for a in CoefficientSpec(unit(d), "ball", (axis,) * d, order).exponents.tolist()
        } == inside


def test_fitted_params_are_pickled_by_parameters():
    fitted = SPEC_PAIRS[1][0].materialize()
    sent = pickle.dumps(fitted)
    assert len(sent) < 1000
    assert pickle.loads(sent) is fitted


@pytest.mark.parametrize(
    ("structure", "d", "bandwidths"),
    [
        ("tensor", 1, (0.05, 0.2)),
        ("tensor", 2, (0.08, 0.3)),
        ("tensor", 3, (0.15, 0.3)),
        ("marginal", 5, (0.05, 0.1)),
        ("ball", 4, (0.25, 0.3)),
    ],
)
def test_shared_coefficients_serve_several_embeddings(structure, d, bandwidths):
    sets = random_sets([1, 70, 200, 255] * 40, d, weighted=True)
    specs = [
        DivergenceSpec(unit(d), (h,) * d, structure, n, lam, mass)
        for h in bandwidths
        for n, lam, mass in ((4, (0.0,), (0.5,)), (5, (0.3, 0.9), (0.3, 0.1)))
    ]
    wide = merge_specs([spec.coefficients for spec in specs])
    C = compute_coefficients(wide, sets)
    for spec in specs:
        rows, direct_rows = spec.materialize().rows(C, wide), spec.materialize().embed(sets)
        if spec.is_direct:  # sums in another order, under a root
            np.testing.assert_allclose(rows, direct_rows, rtol=0, atol=2e-3)
        else:
            np.testing.assert_array_equal(rows, direct_rows)


@pytest.mark.parametrize(("structure", "d"), [("tensor", 2), ("marginal", 4), ("ball", 4)])
def test_rows_of_several_scales_are_concatenated(structure, d):
    sets, scales = random_sets([1, 70, 200, 3000] * 20, d), ((0.25,) * d, (0.3,) * d, (0.5,) * d)
    spec = DivergenceSpec(unit(d), sum(scales, ()), structure, 4, (0.0, 0.8), (0.2, 0.3))
    rows = spec.materialize().embed(sets)
    assert rows.shape[1] == spec.n_features
    single_scale_rows = [replace(spec, bandwidth=scale).materialize().embed(sets) for scale in scales]
    # coarser scales of large sets use the grid of the finest scale
    np.testing.assert_allclose(rows, np.concatenate(single_scale_rows, axis=1) / np.sqrt(3), atol=2e-3)
    small = np.arange(len(sets)) % 4 < 3
    # single scales are computed directly from the points: sums in another order, under a root
    np.testing.assert_allclose(
        rows[small], np.concatenate(single_scale_rows, axis=1)[small] / np.sqrt(3), rtol=1e-5, atol=2e-4
    )
