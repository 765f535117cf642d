"""Points far from the origin: shift-invariant results are the same for data + offset as for data.

The reference is the same computation near zero. Values on a grid of 2^-10 are exact in float64 at 1e9, so data and
data + offset are the same points. The remaining error is float32 rounding of a spread of about 10.
"""

import warnings
from functools import partial

import numpy as np
import pytest
import zarr
from sklearn.pipeline import make_pipeline

import dkdist as dk

OFFSETS = [np.array([1e6, 1e6]), np.array([1e9, 1e9]), np.array([-4.5e6, 3e8])]


def near_sets(seed=0, n_sets=12):
    rng = np.random.default_rng(seed)
    draw = [rng.normal(i % 3, 1 + i % 2, (20 + 3 * i, 2)) for i in range(n_sets)]
    return [np.round(x * 1024) / 1024 for x in draw]


NEAR = near_sets()


def forms(arrays):
    """Return the same sets in all types that embeddings accept, including slices of a larger collection."""
    doubled = dk.SampleSets.from_arrays([*arrays, *arrays])
    return {
        "list": arrays,
        "sets": dk.SampleSets.from_arrays(arrays),
        "store": dk.write_sets(zarr.storage.MemoryStore(), arrays),
        "slice": doubled[len(arrays) :],
        "slice of a store": dk.write_sets(zarr.storage.MemoryStore(), doubled)[: len(arrays)],
    }


EMBEDDINGS = {
    "hellinger": dk.DivergenceEmbedding(),
    "jensen-shannon": dk.DivergenceEmbedding("jensen-shannon", structure="marginal"),
    "l2": dk.L2Embedding(),
    "histogram": dk.HistogramEmbedding(),
    "moments": dk.MomentEmbedding(2),
    "gaussian": dk.GaussianEmbedding(),
    "summary": dk.SummaryEmbedding(),
    "mean grid": dk.MeanEmbedding(),
    "mean random": dk.MeanEmbedding(200, method="orthogonal", random_state=0),
    "energy": dk.DistanceEmbedding("energy", n_components=16, random_state=0),
    "dtw": dk.DistanceEmbedding("dtw", n_components=16, standardize=True, random_state=0),
    "gaussian omegas": dk.DistanceEmbedding("chamfer", "gaussian", n_components=16, random_state=0),
    "wasserstein": dk.DistanceEmbedding("sliced-wasserstein", n_components=8, gamma=0, random_state=0),
    "nystroem": dk.NystroemSets("hellinger", n_components=6, random_state=0),
    "invariant": dk.InvariantFeatures(dk.DivergenceEmbedding(), axes=[0]),
    "pipeline": make_pipeline(dk.L2Embedding(), dk.RandomFourierFeatures(64, random_state=0)),
}


def squares(A):
    A = np.asarray(A, np.float64)
    return ((A[:, None] - A[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("offset", OFFSETS[1:], ids=str)
@pytest.mark.parametrize("name", EMBEDDINGS)
def test_distances_of_embeddings_do_not_depend_on_the_offset(name, offset):
    model = EMBEDDINGS[name]
    expected = squares(model.fit_transform(NEAR))
    far = [x + offset for x in NEAR]
    fitted = model.fit(far)
    rows = fitted.transform(far)
    tolerance = 3e-5 * expected.max()  # a few hundred float32 roundings
    np.testing.assert_allclose(squares(rows), expected, atol=tolerance, rtol=0)
    for form, sets in forms(far).items():
        result = np.asarray(fitted.transform(sets))
        np.testing.assert_allclose(squares(result), expected, atol=tolerance, rtol=0, err_msg=form)
        if form == "slice of a store":
            refitted = np.asarray(model.fit(sets).transform(sets))
            np.testing.assert_allclose(squares(refitted), expected, atol=tolerance, rtol=0, err_msg=form)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_row_depends_on_its_own_set_only(name):
    """Rows are bit-identical whatever the other sets are, near or far, and whatever the input type is."""
    far = [x + OFFSETS[2] for x in NEAR]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points outside the bounds seen in fit
        model = EMBEDDINGS[name].fit(far)
        for sets in forms(far).values():
            rows = np.asarray(model.transform(sets))
            for i in (0, 5, 11):
                assert np.array_equal(model.transform(sets[i : i + 1]), rows[i : i + 1])
        rows = model.transform(far)
        with_other_sets = model.transform([*NEAR[:5], *far, far[0][:2], far[0].astype("f4")])
        assert np.array_equal(with_other_sets[5:17], rows)
        assert np.array_equal(model.transform(dk.SampleSets.from_arrays(far))[3:4], model.transform([far[3]]))


MATRICES = {
    "hellinger": partial(dk.divergence_matrix, divergence="hellinger", estimator="plugin"),
    "entropy": dk.divergence_matrix,
    "halves": partial(dk.divergence_matrix, estimator=dk.EntropyDivergence(mixture="halves", random_state=0)),
    "knn": partial(
        dk.divergence_matrix, divergence="kullback-leibler", estimator=dk.KNNDivergence(duplicates="floor")
    ),
    **{
        name: partial(dk.distance_matrix, distance=name)
        for name in ("dtw", "hausdorff", "modified-hausdorff", "chamfer", "energy")
    },
    "sliced": partial(dk.distance_matrix, distance="sliced-wasserstein", random_state=0),
    "own": partial(dk.distance_matrix, distance=dk.pairwise(lambda a, b: abs(a.mean() - b.mean()))),
}


@pytest.mark.parametrize("offset", OFFSETS[1:], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_do_not_depend_on_the_offset(name, offset):
    matrix = MATRICES[name]
    expected = matrix(NEAR)
    far = [x + offset for x in NEAR]
    for form, sets in list(forms(far).items())[::2]:
        np.testing.assert_allclose(matrix(sets), expected, atol=3e-5 * expected.max(), err_msg=form)
    rows, columns = far[:4], dk.write_sets(zarr.storage.MemoryStore(), far[::-1])
    across, near_across = matrix(rows, other=columns), matrix(NEAR[:4], other=NEAR[::-1])
    np.testing.assert_allclose(across, near_across, atol=3e-5 * np.abs(near_across).max())


def test_distance_of_two_far_samples():
    rng = np.random.default_rng(0)
    P, Q = 1e9 + rng.normal(0, 1, (500, 1)), 1e9 + rng.normal(3, 1, (500, 1))
    A = dk.MeanEmbedding(sigma=1.0).fit_transform([P, Q])
    expected = dk.kernel_distance(P - 1e9, Q - 1e9, sigma=1.0, squared=True)
    assert squares(A)[0, 1] == pytest.approx(expected, rel=2e-4)
    assert dk.kernel_distance(P, Q, sigma=1.0, squared=True) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("offset", OFFSETS, ids=str)
def test_learners_and_searches_do_not_depend_on_the_offset(offset):
    y = np.arange(12) % 3
    far = [x + offset for x in NEAR]
    model = make_pipeline(dk.MomentEmbedding(2), dk.IncrementalRidge([1e-3]))
    search = dk.OnePassSearch(
        model, {"momentembedding__degree": [1, 2]}, validation_fraction=0.3, random_state=0
    )
    expected = model.fit(NEAR, y).predict(NEAR)
    scores = search.fit(dk.SampleSets.from_arrays(NEAR), y).cv_results_["mean_test_score"]
    for form, sets in forms(far).items():
        np.testing.assert_allclose(model.fit(sets, y).predict(sets), expected, atol=1e-3, err_msg=form)
        if form != "list":
            result = search.fit(sets, y).cv_results_["mean_test_score"]
            np.testing.assert_allclose(result, scores, atol=1e-3, err_msg=form)


@pytest.mark.parametrize("streamed", [False, True])
def test_coresets_do_not_depend_on_the_offset(streamed):
    P = np.round(np.random.default_rng(0).normal(size=(600, 2)) * 1024) / 1024

    def as_input(x):
        return dk.write_sets(zarr.storage.MemoryStore(), [x]) if streamed else x

    near = dk.coreset(as_input(P), 40, sigma=0.5, random_state=0)
    far = dk.coreset(as_input(P + OFFSETS[2]), 40, sigma=0.5, random_state=0)
    assert far.distance == pytest.approx(near.distance, rel=0.5)
    chosen = (P + OFFSETS[2])[far.indices]
    true = dk.kernel_distance(P + OFFSETS[2], chosen, sigma=0.5, weights=(np.full(600, 1 / 600), far.weights))
    assert far.distance == pytest.approx(true, rel=0.02)


def test_given_domain_is_in_original_coordinates():
    far = [x + OFFSETS[2] for x in NEAR]
    low, high = np.array([-10.0, -10]), np.array([10.0, 10])
    for kind in (dk.DivergenceEmbedding, dk.L2Embedding, dk.HistogramEmbedding):
        expected = squares(kind(domain=(low, high)).fit_transform(NEAR))
        model = kind(domain=(low + OFFSETS[2], high + OFFSETS[2])).fit(far)
        np.testing.assert_allclose(squares(model.transform(far)), expected, atol=1e-5)
        outside = far[1].copy()
        outside[7, 1] += 100
        message = (
            r"point 7 of set 1 is 300000\d\d\d\.\d+ in column 1, outside .* \[299999990\.0, 300000010\.0\]"
        )
        with pytest.raises(dk.SampleSetError, match=message):
            model.transform([far[0], outside])


def test_pair_functions_and_landmarks_use_original_coordinates():
    seen_pairs = []
    custom_distance = dk.pairwise(lambda a, b: seen_pairs.append((a, b)) or abs(a.mean() - b.mean()))
    far = [x + OFFSETS[2] for x in NEAR]
    embedding = dk.DistanceEmbedding(custom_distance, n_components=4, gamma=0, random_state=0)
    rows = embedding.fit_transform(far)
    set_bytes = {x.tobytes() for x in far}
    assert all(x.dtype == np.float64 and x.tobytes() in set_bytes for pair in seen_pairs for x in pair)
    assert all(omega.tobytes() in set_bytes for omega in embedding.omegas_)
    built_in = dk.DistanceEmbedding("energy", n_components=4, sampler="object", random_state=0).fit(far)
    assert all(omega.tobytes() in set_bytes for omega in built_in.omegas_)
    near = dk.DistanceEmbedding(custom_distance, n_components=4, gamma=0, random_state=0).fit_transform(NEAR)
    np.testing.assert_allclose(rows, near, atol=1e-6)


def test_random_landmarks_are_centred_at_the_original_origin():
    far = [x + 1000 * np.pi for x in NEAR]
    for sampler in ("sphere", "ball"):
        omegas = dk.DistanceEmbedding("energy", sampler, n_components=64, random_state=0).fit(far).omegas_
        assert np.abs(omegas.points.mean(axis=0)).max() < 2000 < np.abs(omegas.points).max()


def test_moments_use_original_coordinates():
    far = [x + OFFSETS[1] for x in NEAR]
    model = dk.MomentEmbedding().fit(far)
    means = model.transform(far) * model.scale_ + model.centre_
    np.testing.assert_allclose(means, [x.mean(axis=0) for x in far], rtol=0, atol=1e-5)


def test_saved_models_keep_their_origin(tmp_path):
    far = [x + OFFSETS[1] for x in NEAR]
    for model in (dk.L2Embedding(), dk.DistanceEmbedding("energy", n_components=4, random_state=0)):
        dk.save_model(model.fit(far), tmp_path / "m.npz")
        loaded = dk.load_model(tmp_path / "m.npz")
        assert np.array_equal(loaded.transform(far), model.transform(far))
        assert np.array_equal(loaded.origin_, model.origin_)


def test_thinned_sets_keep_their_origin():
    far = [x + OFFSETS[1] for x in NEAR]
    thinned = dk.CoresetThinning(10, sigma=1.0, random_state=0).fit_transform(far)
    assert np.array_equal(thinned.origin, dk.SampleSets.from_arrays(far).origin)
    for kept_points, all_points in zip(thinned, far, strict=True):
        assert {x.tobytes() for x in kept_points} <= {x.tobytes() for x in all_points}
