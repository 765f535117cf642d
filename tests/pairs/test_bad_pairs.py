"""Pairs of sets that cannot be compared: errors before any long computation, and policies for duplicates."""

from __future__ import annotations

from functools import partial
from typing import Any

import dask
import numpy as np
import pytest

import dkdist as dk

from .test_divergence_matrix import KNOWN, collection


@pytest.mark.parametrize("d", [1, 2])
def test_duplicates_raise_or_use_a_floor(d: int) -> None:
    sets = list(collection(4, d))
    sets[2] = np.repeat(sets[2], 5, axis=0)
    assert np.isfinite(dk.divergence_matrix(sets)).all()
    for divergence, make in (
        ("hellinger", dk.KNNDivergence),
        ("jensen-shannon", partial(dk.EntropyDivergence, mixture="halves")),
    ):
        with pytest.raises(
            dk.SampleSetError, match=r"of 180 points .* distance 0 in .*set 2; .*duplicates='floor'"
        ):
            dk.divergence_matrix(sets, divergence, estimator=make())
        assert np.isfinite(dk.divergence_matrix(sets, divergence, estimator=make(duplicates="floor"))).all()
    sets[1] = np.zeros((20, d))
    with pytest.raises(dk.SampleSetError, match=r"in set 1; .* drop sets whose points are all equal"):
        dk.divergence_matrix(sets, "hellinger", estimator=dk.KNNDivergence(duplicates="floor"))
    single_set = collection(1, d)[0]
    with pytest.raises(dk.SampleSetError, match="distance 0 in set 0 and set 0 of other"):
        dk.divergence_matrix(
            [single_set],
            "hellinger",
            [np.concatenate([single_set[:1]] * 4 + [single_set + 1])],
            estimator="knn",
        )


def test_domain_of_other_applies_to_sets() -> None:
    train, test = collection(9), list(collection(3, seed=1))
    test[1] = test[1].copy()
    test[1][4] = 1.7
    with pytest.warns(UserWarning, match=r"points in \d sets \(first: set 1\) are outside"):
        dk.divergence_matrix(test, other=train, estimator=dk.PluginDivergence(domain="data"))
    with pytest.raises(dk.SampleSetError, match=r"point 4 of set 1 is 1\.7"):
        dk.divergence_matrix(test, other=train, estimator=dk.PluginDivergence(domain="unit"))
    with pytest.raises(dk.SampleSetError, match=r"point 4 of set 1 is 1\.7") as raised:
        dk.divergence_matrix(train, other=test, estimator=dk.PluginDivergence(domain="unit"))
    assert raised.value.__notes__ == ["The set is one of other."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "kde"}, "estimator must be one of 'entropy', 'knn', 'plugin', .*, 'gaussian'; got 'kde'"),
        (
            {"divergence": "hellinger"},
            "one of 'jensen-shannon' with estimator 'entropy'; got 'hellinger'. Use estimator 'knn' or 'plugin'",
        ),
        ({"divergence": "jeffreys", "estimator": "plugin"}, r"'kullback-leibler', 'renyi' with .*; got 'jeffreys'\.$"),
        ({"divergence": abs, "estimator": "knn"}, "'hellinger' with .*; got .* Use estimator 'plugin'"),
        ({"k": 0}, "k must be an integer >= 1; got 0"),
        ({"k": 12}, r"set 1 has 12 point\(s\); k=12 neighbours of a point need at least 13"),
        ({"estimator": dk.EntropyDivergence(mixture="third")}, "mixture must be one of 'all', 'halves'; got 'third'"),
        ({"k": 4, "estimator": "plugin"}, "k=4 has no effect with estimator='plugin'"),
        ({"alpha": 0.5}, "alpha=0.5 has no effect"),
        (
            {"estimator": dk.EntropyDivergence(random_state=0)},
            "random_state=0 has no effect with mixture='all'. Omit it, or pass mixture='halves'",
        ),
        ({"estimator": dk.EntropyDivergence(duplicates="floor")}, "duplicates='floor' has no effect"),
        ({"symmetric": False}, "symmetric=False requires an asymmetric divergence .*; got 'jensen-shannon'"),
        ({"divergence": "renyi", "estimator": "plugin", "alpha": 1}, "alpha must differ from 1; .* 'kullback-leibler'"),
        ({"divergence": "renyi", "estimator": "knn", "alpha": -1}, "alpha must be a positive number; got -1"),
        ({"divergence": "renyi", "estimator": "knn", "alpha": 5.5}, r"k must be above 4\.5 for .*; got k=4"),
        (
            {"estimator": dk.EntropyDivergence(mixture="halves", duplicates="jitter")},
            "duplicates must be one of 'raise', 'floor'; got 'jitter'",
        ),
        ({"estimator": "plugin", "divergence": lambda p, q: p.sum()}, "kappa.* must return one finite float per"),
        ({"estimator": "plugin", "divergence": lambda p, q: p / (q - 1)}, "must return one finite float"),
        ({"estimator": dk.PluginDivergence(bandwidth=-1)}, "bandwidth must be a positive number"),
        ({"other": [np.zeros((30, 3))]}, r"all sets of other must have 2 dimension\(s\), as sets; got 3"),
        ({"other": [np.zeros((3, 2))]}, r"set 0 of other has 3 point\(s\)"),
        ({"other": []}, "empty list"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_invalid_options_raise(options: dict[str, Any], message: str) -> None:
    sets = [x[:12] if i == 1 else x for i, x in enumerate(collection(4))]
    with pytest.raises(ValueError, match=message):
        dk.divergence_matrix(sets, **options)


def test_spacings_require_twice_as_many_points() -> None:
    sets = [x[: 12 + (i != 1)] for i, x in enumerate(collection(4, d=1))]
    halves = dk.EntropyDivergence(k=6, mixture="halves")
    with pytest.raises(
        dk.SampleSetError, match=r"set 1 has 12 point\(s\); spacings of 2 x 6 points need at least 13"
    ):
        dk.divergence_matrix(sets, estimator=halves)
    assert np.isfinite(dk.divergence_matrix([sets[0], *sets[2:]], estimator=halves)).all()


@pytest.mark.parametrize("estimator", ["entropy", "knn", "plugin"])
def test_invalid_sets_raise(estimator: str) -> None:
    good = list(collection(3))
    for bad, message in (
        (np.full((9, 2), np.nan), "point 0 of set 3 is nan"),
        (np.zeros((0, 2)), "set 3 is empty"),
        (np.zeros((9, 3)), "set 3 must have 2 dimensions.*; got 3"),
    ):
        with pytest.raises(dk.SampleSetError, match=message):
            dk.divergence_matrix([*good, bad], KNOWN[estimator], estimator=estimator)
        with pytest.raises(dk.SampleSetError, match=message) as raised:
            dk.divergence_matrix(good, KNOWN[estimator], [*good, bad], estimator=estimator)
        assert raised.value.__notes__ == ["The set is one of other."]


def test_damaged_set_raises(tmp_path: Any) -> None:
    sets = collection(20)
    dk.write_sets(tmp_path / "s.zarr", sets, chunk_rows=64)
    chunk = tmp_path / "s.zarr/points/c/5/0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    first = int(np.searchsorted(sets.offsets, 5 * 64, side="right")) - 1
    store = dk.open_sets(tmp_path / "s.zarr", block_sets=4)
    with pytest.raises(dk.StoreFormatError, match=f"set {first} cannot be read"):
        dk.divergence_matrix(store)


def test_plan_and_memory_limit(capsys: Any) -> None:
    sets = collection()
    dk.divergence_matrix(sets, "kullback-leibler", estimator="knn", verbose=True)
    message = capsys.readouterr().err
    assert (
        "divergence matrix: 78 pairs of sets, a matrix of 13 x 13 float64 (1.32 kiB), peak memory about"
        in message
    )
    assert "from a sample of pairs" in message
    assert "28 blocks in" in message  # seven tiles per side
    dk.divergence_matrix(sets[:2], other=sets, verbose=True)
    assert "26 pairs of sets, a matrix of 2 x 13" in capsys.readouterr().err
    dk.divergence_matrix(sets[:1], verbose=True)
    assert "0 pairs" in capsys.readouterr().err
    with (
        dask.config.set({"dkdist.memory-limit": "1kiB"}),
        pytest.raises(
            MemoryError,
            match=r"1\.32 kiB.*limit 1\.00 kiB.* does not fit\. To fix: use DivergenceEmbedding",
        ),
    ):
        dk.divergence_matrix(sets)


def test_too_many_pairs_raise_before_reading() -> None:
    points = np.zeros((1_000_000, 1), np.float32)
    sets = dk.SampleSets(points, np.arange(1_000_001))
    with pytest.raises(MemoryError, match="499,999,500,000 pairs"):
        dk.divergence_matrix(sets, estimator="plugin")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: dk.distance_matrix("hausdorff", s), dk.SampleSetError, "sets must be .* got 'hausdorff'. Write"),
        (lambda s: dk.distance_matrix(s, "hausdorff"), dk.SampleSetError, "other must be .*distance='hausdorff'"),
        (lambda s: dk.divergence_matrix("hellinger", s), dk.SampleSetError, "sets must be .* got 'hellinger'"),
        (lambda s: dk.divergence_matrix(s, list(s)), ValueError, "got list. Pass other sets as the third"),
        (lambda s: dk.SlicedWasserstein(directions=1), ValueError, "got 1. Draw u = .* or use the distance"),
        (lambda s: dk.SlicedWasserstein([[1.0, 0.0]]), ValueError, "unit vectors; got \\[\\[1.0, 0.0\\]\\]. Draw u"),
        (lambda s: dk.SlicedWasserstein(np.array([["a"]])), ValueError, "got an array of 'U'. Draw u"),
    ],
)  # fmt: skip
def test_swapped_arguments_raise(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call(collection())
