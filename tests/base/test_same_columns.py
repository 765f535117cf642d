"""Functions that compare points of two data frames raise if columns differ in order or name."""

from __future__ import annotations

import re

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._utils.validation import MAX_NAMES_CHARACTERS, require_same_names

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(30, 2))
A = pd.DataFrame(VALUES, columns=["a", "b"])
B = pd.DataFrame(RNG.normal(size=(30, 2)), columns=["a", "b"])
SWAPPED = B[["b", "a"]]
RENAMED = B.rename(columns={"b": "c"})
TEST = {"n_permutations": 19, "random_state": 0}


def coreset(points):
    return dk.coreset(points, 5, sigma=1.0, random_state=0)


def contributions(points, at):
    sets = [points + i for i in range(6)]
    return dk.explain(
        make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge()).fit(sets, np.arange(6.0)), sets, at=at
    )


def power(p, q):
    return dk.two_sample_power(p, q, [10], n_repetitions=1, **TEST)


CALLS = {
    "two_sample_test": lambda p, q: dk.two_sample_test(p, q, **TEST),
    "two_sample_test, sigma": lambda p, q: dk.two_sample_test(p, q, sigma=1.0, **TEST),
    "two_sample_power": power,
    "two_sample_power, functions": lambda p, q: power(lambda n, rng: p[:n], lambda n, rng: q[:n]),
    "kernel_distance": lambda p, q: dk.kernel_distance(p, q, sigma=1.0),
    "witness": lambda p, q: dk.witness(p, q, VALUES, sigma=1.0),
    "witness, queries": lambda p, q: dk.witness(p, VALUES, q, sigma=1.0),
    "align": lambda p, q: dk.align(q, p),
    "merge_coresets": lambda p, q: dk.merge_coresets([coreset(p), coreset(VALUES), coreset(q)]),
    "merge_coresets, merged": lambda p, q: dk.merge_coresets([dk.merge_coresets([coreset(p)]), coreset(q)]),
    "RunningCoreset": lambda p, q: dk.RunningCoreset(5, sigma=1.0).add(p).add(VALUES).add(q),
    "RunningCoreset, merged": lambda p, q: dk.merge_coresets(
        [dk.RunningCoreset(5, sigma=1.0).add(p).coreset(), coreset(q)]
    ),
    "Curve": lambda p, q: dk.kernel_distance(dk.Curve(p), dk.Curve(q), sigma=1.0),
    "Curve, refined": lambda p, q: dk.kernel_distance(
        dk.Curve(p).refined(0.5).reversed(), dk.sampled_shape(dk.Curve(q), 9, random_state=0), sigma=1.0
    ),
    "Curve, gridded": lambda p, q: dk.kernel_distance(
        dk.gridded_shape(dk.Curve(p), 0.1), dk.Curve(q), sigma=1.0
    ),
    "refine_shapes": lambda p, q: dk.refine_shapes(dk.Curve(p), dk.Curve(q), sigma=1.0),
    "distance_matrix": lambda p, q: dk.distance_matrix([p], [q], distance="hausdorff"),
    "distance_matrix, one list": lambda p, q: dk.distance_matrix([p, q], distance="hausdorff"),
    "divergence_matrix": lambda p, q: dk.divergence_matrix([p], "jensen-shannon", [q]),
    "Hausdorff": lambda p, q: dk.Hausdorff()(p, q),
    "group_test": lambda p, q: dk.group_test([p, p, q, q], [0, 0, 1, 1], **TEST),
    "explain": contributions,
    "NearestSets": lambda p, q: dk.NearestSets(2).fit(p).kneighbors(q),
}


@pytest.mark.parametrize("name", CALLS)
def test_different_order_or_names_of_columns_raise(name):
    CALLS[name](A, B)
    for other in (SWAPPED, RENAMED):
        with pytest.raises(ValueError, match=r"'b'|names should match"):
            CALLS[name](A, other)


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name != "NearestSets"]
)  # warns, like scikit-learn
def test_frame_and_array_are_compared_by_position(name):
    CALLS[name](A, VALUES)


def test_surfaces_keep_the_names_of_vertices():
    corners = pd.DataFrame([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]], columns=["x", "y", "z"])
    first = dk.Surface(corners, [[0, 2, 1]]).refined(0.9)
    second = dk.Surface(corners[["y", "x", "z"]], [[0, 2, 1]]).reversed()
    with pytest.raises(
        ValueError, match="in the order of those of P: expected 'x', 'y', 'z'; got 'y', 'x', 'z'"
    ):
        dk.kernel_distance(first, second, sigma=1.0)


def test_message_states_expected_and_actual_names():
    order = "columns of Q must be in the order of those of P: expected 'a', 'b'; got 'b', 'a'. Reorder the columns"
    with pytest.raises(ValueError, match=re.escape(order)):
        dk.kernel_distance(A, SWAPPED, sigma=1.0)
    names = (
        r"columns of Q must have the names of those of P: expected 'a', 'b'; got 'a', 'c'\. Select or rename"
    )
    with pytest.raises(ValueError, match=names):
        dk.kernel_distance(A, RENAMED, sigma=1.0)
    wide = pd.DataFrame(np.zeros((1, 500)), columns=[f"column {j}" for j in range(500)])
    with pytest.raises(ValueError, match=r"\.\.\. \(500 names\)") as caught:
        require_same_names(P=wide, Q=wide.iloc[:, ::-1])
    assert len(str(caught.value)) < 300 + 2 * MAX_NAMES_CHARACTERS


def test_numbered_columns_are_compared_by_order_only():
    """pandas numbers columns without names: any numbers are accepted, but not the same numbers in another order."""
    numbered = pd.DataFrame(VALUES)
    require_same_names(P=numbered, Q=pd.DataFrame(VALUES, columns=[5, 6]), R=A, S=numbered)
    with pytest.raises(ValueError, match="expected 0, 1; got 1, 0"):
        require_same_names(P=numbered, Q=numbered[[1, 0]])


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "sets", "store"])
def test_names_of_other_tables_sets_and_stores(kind, tmp_path):
    def convert(frame):
        if kind == "polars":
            return pl.from_pandas(frame)
        if kind == "pyarrow":
            return pa.table(frame)
        sets = dk.SampleSets.from_arrays([frame.to_numpy()], names=list(frame.columns))
        return (
            dk.write_sets(tmp_path / f"{frame.columns[0]}.zarr", sets, overwrite=True)
            if kind == "store"
            else sets
        )

    assert dk.two_sample_test(convert(A), B, **TEST) == dk.two_sample_test(convert(A), B.to_numpy(), **TEST)
    for p, q in ((convert(A), SWAPPED), (A, convert(SWAPPED))):
        with pytest.raises(ValueError, match=r"expected 'a', 'b'; got 'b', 'a'"):
            dk.two_sample_test(p, q, **TEST)


def test_lazy_points_are_compared_by_position():
    lazy = da.from_array(VALUES, chunks=(10, 2))
    assert dk.kernel_distance(lazy, A, sigma=1.0) == pytest.approx(0, abs=1e-4)


def test_plots_of_different_columns_raise():
    pytest.importorskip("matplotlib").use("agg")
    with pytest.raises(ValueError, match="'b', 'a'"):
        dk.plot.witness(A, SWAPPED, sigma=1.0)


def test_kneighbors_of_training_rows_does_not_warn():
    np.testing.assert_array_equal(
        dk.NearestSets(2).fit(A).kneighbors()[1], dk.NearestSets(2).fit(VALUES).kneighbors()[1]
    )
