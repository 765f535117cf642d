"""Columns of covariates: indicators of text, standardised numbers, and missing values."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist._base.design_matrix import encode_design

AGE, SITE = np.array([30.0, 40, np.nan, 50]), np.array(["b", "a", "b", "c"])


def test_text_becomes_indicators_and_numbers_are_standardised():
    encoder, Z = encode_design({"age": AGE, "site": SITE}, ["age", "site"], 4)
    age = np.array([30.0, 40, 40, 50])
    columns = [(age - 40) / age.std(), np.array([-1, -1, 3, -1]) / np.sqrt(3)]
    columns += [
        np.array(x)
        for x in ([-0.25, 0.75, -0.25, -0.25], [0.5, -0.5, 0.5, -0.5], [-0.25, -0.25, -0.25, 0.75])
    ]
    np.testing.assert_allclose(Z, np.transpose(columns))
    assert list(encoder.get_feature_names_out()) == [
        "age",
        "missingindicator_age",
        "site_a",
        "site_b",
        "site_c",
    ]
    np.testing.assert_allclose(encoder.transform({"age": AGE, "site": SITE}, 4), Z)


def test_other_sets_are_encoded_as_in_fit():
    encoder, _ = encode_design({"site": SITE, "ill": np.array([True, False] * 2)}, ["site", "ill"], 4)
    Z = encoder.transform({"site": np.array(["z", "a"]), "ill": np.array([False, True])}, 2)
    np.testing.assert_allclose(Z, [[-0.25, -0.5, -0.25, -1], [0.75, -0.5, -0.25, 1]])


def test_a_missing_column_of_other_sets_is_named():
    encoder, _ = encode_design({"site": SITE}, ["site"], 4, "covariates")
    with pytest.raises(ValueError, match="covariates must be names of columns"):
        encoder.transform({}, 2)


def test_targets_of_stores_are_columns(tmp_path):
    sets = dk.SampleSets.from_arrays([np.zeros((2, 1))] * 4, targets={"age": AGE, "site": SITE})
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    own, stored = (encode_design(s.targets, ["age", "site"], 4)[1] for s in (sets, store))
    np.testing.assert_array_equal(own, stored)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "adjust must be names of columns"),
        ([3], "adjust must be names of columns"),
        (["sex"], "\\('age', 'far', 'none'\\); got 'sex'"),
        (["far"], "got infinity in 'far' \\(set 1\\)"),
        (["none"], "got only NaN in 'none'"),
    ],
)
def test_bad_columns_are_refused_by_name(names, message):
    targets = {"age": AGE, "far": np.array([0, np.inf, 0, 0]), "none": np.full(4, np.nan)}
    with pytest.raises(ValueError, match=message):
        encode_design(targets, names, 4)
