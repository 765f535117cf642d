"""Coefficients computed once serve every specification that they hold, with the bits of its own."""

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


def sets_of(sizes, d, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    points, weights = [rng.beta(2, 3, (n, d)) for n in sizes], [rng.random(n) + 0.1 for n in sizes]
    return SampleSets.from_arrays(points, weights if weighted else None)


def all_of(spec, sets):
    return np.concatenate([spec.materialize().of(sets, spans) for _, spans in iter_tiles(sets)])


WIDE = [
    (CoefficientSpec(unit(1), "tensor", (16,)), CoefficientSpec(unit(1), "tensor", (8,))),
    (CoefficientSpec(unit(2), "tensor", (12, 16)), CoefficientSpec(unit(2), "tensor", (12, 4))),
    (CoefficientSpec(unit(3), "tensor", (8, 5, 8)), CoefficientSpec(unit(3), "tensor", (4, 3, 4))),
    (CoefficientSpec(unit(4), "marginal", (8, 12, 4, 8)), CoefficientSpec(unit(4), "marginal", (4, 12, 4, 8))),
    (CoefficientSpec(unit(4), "ball", (4.5, 3.0, 4.0, 4.0)), CoefficientSpec(unit(4), "ball", (3.5, 2.0, 4.0, 2.0))),
    (CoefficientSpec(unit(4), "ball", (3.0,) * 4, np.inf), CoefficientSpec(unit(4), "ball", (3.0,) * 4, 1.0)),
]  # fmt: skip
each_pair = pytest.mark.parametrize(
    ("wide", "narrow"), WIDE, ids=lambda s: f"{s.structure}-{s.domain.n_dims}"
)


@each_pair
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_are_the_means_of_products_of_cosines(wide, narrow, weighted):
    sets = sets_of([1, 70, 250], wide.domain.n_dims, weighted=weighted)
    C = all_of(wide, sets)
    assert C.dtype == np.float32
    assert C.shape == (3, len(wide.exponents))
    for i, x in enumerate(sets):
        every = exact(x, wide.exponents.max(axis=0) + 1, sets.weights_of(i))
        np.testing.assert_allclose(C[i], every[tuple(wide.exponents.T)], atol=1e-4)


@each_pair
def test_what_is_cut_from_more_has_the_same_bits(wide, narrow):
    sets = sets_of([1, 70, 200, 255] * 20, wide.domain.n_dims)
    np.testing.assert_array_equal(narrow.select(all_of(wide, sets), wide), all_of(narrow, sets))
    C = all_of(narrow, sets)
    assert narrow.select(C, narrow) is C


@each_pair
def test_what_is_not_there_is_refused(wide, narrow):
    with pytest.raises(ValueError, match="do not include degrees"):
        wide.select(np.zeros((1, len(narrow.exponents)), np.float32), narrow)
    with pytest.raises(ValueError, match="same domain and structure"):
        merge_specs([wide, replace(narrow, domain=replace(narrow.domain, fixed=False))])


@each_pair
def test_the_widest_holds_all(wide, narrow):
    assert merge_specs([narrow, wide, narrow]) == wide


def test_the_widest_of_several_directions():
    one, other = (CoefficientSpec(unit(2), "tensor", K) for K in ((4, 16), (8, 4)))
    assert merge_specs([one, other]).degrees == (8, 16)
    flat, round_ = (
        CoefficientSpec(unit(4), "ball", K, order)
        for K, order in (((5.0, 5.0, 2.0, 2.0), 1.0), ((3.0,) * 4, 2.0))
    )
    both = {tuple(a) for a in merge_specs([flat, round_]).exponents.tolist()}
    assert both >= {tuple(a) for spec in (flat, round_) for a in spec.exponents.tolist()}


def test_orders_of_a_ball():
    d, axis = 4, 3.0 + 1e-9
    grid = np.indices((4,) * d).reshape(d, -1).T
    for order in (1.0, 2.0, 4.0, np.inf):
        inside = {tuple(a) for a in grid.tolist() if np.linalg.norm(a, order) <= axis}
        assert {
            tuple(a) for a in CoefficientSpec(unit(d), "ball", (axis,) * d, order).exponents.tolist()
        } == inside


def test_what_computes_travels_as_numbers():
    fitted = WIDE[1][0].materialize()
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
def test_one_pass_serves_embeddings_of_other_bandwidths_bases_and_divergences(structure, d, bandwidths):
    sets = sets_of([1, 70, 200, 255] * 40, d, weighted=True)
    specs = [
        DivergenceSpec(unit(d), (h,) * d, structure, n, lam, mass)
        for h in bandwidths
        for n, lam, mass in ((4, (0.0,), (0.5,)), (5, (0.3, 0.9), (0.3, 0.1)))
    ]
    wide = merge_specs([spec.coefficients for spec in specs])
    C = all_of(wide, sets)
    for spec in specs:
        rows, own = spec.materialize().rows(C, wide), spec.materialize().embed(sets)
        if spec.is_direct:  # sums in another order, under a root
            np.testing.assert_allclose(rows, own, rtol=0, atol=2e-3)
        else:
            np.testing.assert_array_equal(rows, own)


@pytest.mark.parametrize(("structure", "d"), [("tensor", 2), ("marginal", 4), ("ball", 4)])
def test_rows_of_several_scales_are_those_of_each_side_by_side(structure, d):
    sets, scales = sets_of([1, 70, 200, 3000] * 20, d), ((0.25,) * d, (0.3,) * d, (0.5,) * d)
    spec = DivergenceSpec(unit(d), sum(scales, ()), structure, 4, (0.0, 0.8), (0.2, 0.3))
    rows = spec.materialize().embed(sets)
    assert rows.shape[1] == spec.n_features
    each = [replace(spec, bandwidth=scale).materialize().embed(sets) for scale in scales]
    # the coarser scales of the largest sets go through the finest one's grid
    np.testing.assert_allclose(rows, np.concatenate(each, axis=1) / np.sqrt(3), atol=2e-3)
    small = np.arange(len(sets)) % 4 < 3
    # each scale alone comes straight from the points: sums in another order, under a root
    np.testing.assert_allclose(
        rows[small], np.concatenate(each, axis=1)[small] / np.sqrt(3), rtol=1e-5, atol=2e-4
    )
