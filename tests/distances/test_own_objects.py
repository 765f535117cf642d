"""User-supplied landmarks, Nyström features, leverage scores and sigma: values, and the same after saving."""

import numpy as np
import pytest
from sklearn.base import clone

import dkdist as dk
from dkdist.distances.scales import leverage_scores

RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 3, 1, (int(n), 2)).astype("f4") for i, n in enumerate(RNG.integers(3, 20, 40))]
OBJECTS = [RNG.normal(0, 2, (n, 2)) for n in (1, 4, 7)]
WORDS = ["".join(RNG.choice(list("ACGT"), n)) for n in RNG.integers(2, 20, 30)]
FAR = np.array([4e6, -3e7])


def draw_object(rng):
    return rng.normal(size=(int(rng.integers(1, 6)), 2))


def embedding_with(objects, **params):
    return dk.DistanceEmbedding("energy", sampler=objects, gamma=0, random_state=0, **params)


def test_features_are_distances_to_user_supplied_objects(tmp_path):
    A = embedding_with(OBJECTS, n_components=3).fit_transform(SETS)
    np.testing.assert_array_equal(A, dk.distance_matrix(SETS, OBJECTS, distance="energy").astype("f4"))
    store = dk.write_sets(tmp_path / "s", SETS)
    for objects in (dk.SampleSets.from_arrays(OBJECTS), dk.write_sets(tmp_path / "o", OBJECTS)):
        np.testing.assert_array_equal(clone(embedding_with(objects)).fit(store).transform(store).compute(), A)
    same = dk.DistanceEmbedding("energy", sampler=np.array([x[:3] for x in SETS]), gamma=0).fit(SETS)
    assert len(same.omegas_) == len(SETS)


def test_user_supplied_objects_use_the_origin_of_the_sets():
    near = embedding_with(SETS[:5]).fit_transform(SETS)
    far = embedding_with([x + FAR for x in SETS[:5]]).fit_transform([x + FAR for x in SETS])
    np.testing.assert_allclose(far, near, atol=1e-6 * np.abs(SETS[0]).max() * 100)
    assert (np.diag(far[:5]) == 0).all()


def test_user_supplied_strings_may_have_other_symbols():
    embedding = dk.DistanceEmbedding("levenshtein", sampler=["GNT", "ACGT"], gamma=0).fit(WORDS)
    assert embedding.omegas_.strings() == ["GNT", "ACGT"]
    expected = dk.distance_matrix(["GAT", "NNN", *WORDS], ["GNT", "ACGT"], distance="levenshtein")
    np.testing.assert_array_equal(embedding.transform(["GAT", "NNN", *WORDS]), expected)
    assert dk.DistanceEmbedding("levenshtein", sampler=[b"AC"]).fit([b"ACC", b"GT"]).omegas_.alphabet is None


def test_objects_drawn_by_a_function_are_saved_in_model_files(tmp_path):
    embedding = embedding_with(draw_object, n_components=9).fit(SETS)
    rng = np.random.default_rng(0)
    assert len(embedding.omegas_) == 9
    assert not np.array_equal(embedding.omegas_[0], draw_object(rng))  # its own stream, not the raw seed
    A = embedding.transform(SETS)
    np.testing.assert_array_equal(embedding_with(draw_object, n_components=9).fit_transform(SETS), A)
    far = [x + FAR for x in SETS]
    for model, sets in (
        (embedding, SETS),
        (embedding_with(OBJECTS).fit(SETS), SETS),
        (embedding_with(far[:3]).fit(far), far),
    ):
        dk.save_model(model, tmp_path / "m.npz")
        loaded = dk.load_model(tmp_path / "m.npz")
        np.testing.assert_array_equal(loaded.transform(sets), model.transform(sets))
        assert np.array_equal(loaded.sampler.points, model.omegas_.points)
        np.testing.assert_array_equal(clone(loaded).fit(sets).transform(sets), model.transform(sets))
    words = dk.DistanceEmbedding(
        "levenshtein", sampler=lambda rng: "AC" * int(rng.integers(1, 5)), n_components=4
    )
    dk.save_model(words.fit(WORDS), tmp_path / "w.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "w.npz").transform(WORDS), words.transform(WORDS))
    weighted = dk.SampleSets.from_arrays(SETS, [np.arange(1.0, len(x) + 1) for x in SETS])
    dk.save_model(embedding_with(weighted[:4]).fit(weighted), tmp_path / "v.npz")
    assert np.array_equal(dk.load_model(tmp_path / "v.npz").sampler.weights, weighted[:4].weights)


@pytest.mark.parametrize("sampler", ["object", "leverage", OBJECTS])
def test_nystroem_rows_have_the_inner_products_of_the_kernel(sampler, tmp_path):
    """Exact among landmarks up to eigenvalues below 1e-6 of the largest; row norms never exceed the kernel's."""
    R = 12 if isinstance(sampler, str) else 3
    embedding = dk.DistanceEmbedding("energy", sampler, R, 0.7, standardize="nystroem", random_state=0).fit(
        SETS
    )
    A, own = embedding.transform(SETS), embedding.transform(embedding.omegas_)
    K = np.exp(-0.7 * dk.distance_matrix(embedding.omegas_, distance="energy"))
    rounding = 1e-6 * np.linalg.norm(K, 2) / np.sqrt(np.linalg.eigvalsh(K)[0])
    np.testing.assert_allclose(own @ own.T, K, atol=2 * rounding)
    assert (np.linalg.norm(A, axis=1) <= 1 + rounding).all()
    np.testing.assert_array_equal(embedding.transform(SETS[7:8]), A[7:8])
    dk.save_model(embedding, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").transform(SETS), A)


def test_leverage_scores_are_those_of_their_definition():
    x = RNG.normal(size=(30, 1))
    K = np.exp(-np.abs(x - x.T))
    for n in (1, 5, 20):
        scores = leverage_scores(K, n)
        assert scores.sum() == pytest.approx(n, rel=1e-6)
        # one penalty explains all of them: l = diag(K (K + penalty)^-1)
        values = np.linalg.eigvalsh(K)
        penalties = np.geomspace(1e-6, 1e3, 20_000)
        sums = (values / (values + penalties[:, None])).sum(axis=1)
        p = penalties[np.argmin(np.abs(sums - n))]
        np.testing.assert_allclose(scores, np.diag(K @ np.linalg.inv(K + p * np.eye(30))), rtol=2e-3)
    # one object, repeated six times
    assert leverage_scores(np.ones((6, 6)), 3) == pytest.approx(np.full(6, 1 / 6), rel=1e-3)


def test_leverage_sampling_selects_rare_sets():
    """3 outlying sets among 97 equal ones: 20 uniform landmarks would contain 0.6 of them on average."""
    sets = [np.ones((5, 2))] * 97 + [np.full((5, 2), 10.0 * k) for k in (1, 2, 3)]
    for seed in range(3):
        embedding = dk.DistanceEmbedding("energy", "leverage", 20, gamma=1.0, random_state=seed).fit(sets)
        assert {10.0, 20.0, 30.0} <= set(embedding.omegas_.points.ravel().tolist())


def test_sigma_is_the_deviation_of_drawn_points():
    for sampler, n in (("gaussian", 4000), ("walk", 1)):
        embedding = dk.DistanceEmbedding(
            "energy", sampler, 20 if n > 1 else 2000, lengths=(n // 20 + 1,) * 2 if n > 1 else (1, 1),
            gamma=0, random_state=0, sigma=[0.5, 3.0],
        )  # fmt: skip
        points = embedding.fit([*SETS, np.zeros((250, 2))]).omegas_.points
        np.testing.assert_allclose(points.std(axis=0), [0.5, 3.0], rtol=4 / np.sqrt(2 * len(points)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sampler": OBJECTS, "n_components": 4}, "n_components must be 3, .* of sampler; got 4"),
        ({"sampler": OBJECTS, "lengths": (1, 2)}, "has no effect if sampler is a collection"),
        ({"sampler": [np.zeros((2, 3))]}, "random objects .* points of 2 .*; got points of 3 dimension"),
        ({"sampler": ["AC"]}, "random objects .* must be points .*; got strings of characters"),
        ({"sampler": [np.zeros((2, 2)), [[0, np.nan]]]}, "point 0 of set 1 is nan in column 1"),
        ({"sampler": lambda rng: np.zeros((0, 2))}, "set 0 is empty"),
        ({"sampler": [np.full((2, 2), 1e20)]}, "point 0 of set 0 has a coordinate of 1e.20"),
        ({"sampler": dk.SampleSets.from_arrays(OBJECTS, [-np.ones(len(x)) for x in OBJECTS])}, "weight of point 0"),
        ({"sampler": 5}, "got int"),
        ({"sampler": "leverage", "distance": "directed-modified-hausdorff"}, "requires a distance"),
        ({"sampler": "leverage", "n_components": 41}, "at most 40, the number of sampled objects"),
        ({"standardize": "nystroem", "gamma": 0}, "one gamma above 0"),
        ({"standardize": "nystroem", "gamma": [1.0, 2.0]}, "one gamma above 0"),
        ({"standardize": "nystroem", "distance": "directed-modified-hausdorff"}, "1 number per pair"),
        ({"sigma": 1.0}, "sigma has no effect .* only with 'gaussian' and 'walk'"),
        ({"sigma": -1.0, "sampler": "gaussian"}, "sigma must be a positive number"),
        ({"sigma": [1.0] * 3, "sampler": "walk"}, "an array of shape \\(2,\\)"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_refused_by_name(params, message):
    with pytest.raises(ValueError, match=message) as caught:
        dk.DistanceEmbedding(**{"distance": "energy", "random_state": 0} | params).fit(SETS)
    if "set" in message and "sampler" in params and not isinstance(params["sampler"], (str, int)):
        notes = getattr(caught.value, "__notes__", ["random objects"])
        assert "random objects" in notes[0]
