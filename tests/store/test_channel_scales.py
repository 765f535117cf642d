"""Compensation and scales of FCS files equal those of flowio and flowutils, and closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.cli import main

from .fcs_bytes import fcs_bytes

RNG = np.random.default_rng(0)
NAMES = ["FSC-A", "FL1-A", "FL2-A", "FL3-A", "Time"]
STAINS = {"$P2S": "CD3", "$P3S": "CD4", "$P4S": "CD8"}
TRUE = RNG.exponential(2000, (400, 5)) - [0, 300, 300, 300, 0]
# rows: stains; columns: detectors
SPILL = np.array([[1, 0.2, 0.05], [0.1, 1, 0.15], [0, 0.3, 1]])
DETECTORS = ["FL2-A", "FL1-A", "FL3-A"]  # in another order than the channels
COLUMNS = [NAMES.index(name) for name in DETECTORS]
OBSERVED = TRUE.copy()
OBSERVED[:, COLUMNS] = TRUE[:, COLUMNS] @ SPILL
TEXT = ",".join(["3", *DETECTORS, *map(str, SPILL.ravel())])


def write(path, keyword="$SPILLOVER", text=TEXT, events=OBSERVED, dtype="f8"):
    columns = dict(zip(NAMES, events.astype(dtype).T, strict=True))
    path.write_bytes(fcs_bytes(columns, keywords={**STAINS, keyword: text, "$TIMESTEP": "1"}))
    return path


def read(path, *arguments, **options):
    return dk.import_sets(MemoryStore(), [path], dk.CytometryReader(*arguments, **options))[0]


@pytest.mark.parametrize("keyword", ["$SPILLOVER", "$SPILL", "SPILL", "spillover"])
def test_compensation_recovers_the_signals_of_the_stains(keyword, tmp_path):
    path = write(tmp_path / "a.fcs", keyword)
    np.testing.assert_allclose(read(path, compensation="file"), TRUE[:, :4], rtol=1e-6, atol=1e-3)
    np.testing.assert_allclose(read(path), OBSERVED[:, :4], rtol=1e-6)
    # coordinates may be some of the channels of the matrix
    np.testing.assert_allclose(
        read(path, ["CD8", "FSC-A"], compensation="file"), TRUE[:, [3, 0]], rtol=1e-6, atol=1e-3
    )


def test_a_given_matrix_takes_the_place_of_that_of_the_file(tmp_path):
    path = write(tmp_path / "a.fcs", text="1,FL1-A,1")
    frame = pd.DataFrame(SPILL, index=DETECTORS, columns=DETECTORS)
    expected = read(write(tmp_path / "b.fcs"), compensation="file")
    np.testing.assert_array_equal(read(path, compensation=frame), expected)
    stains = frame.set_axis(["CD4", "CD3", "CD8"], axis=1).set_axis(["CD4", "CD3", "CD8"], axis=0)
    np.testing.assert_array_equal(read(path, compensation=stains), expected)
    np.testing.assert_array_equal(read(path, compensation=frame.reset_index(drop=True)), expected)


def test_arcsinh_applies_to_stains_after_compensation(tmp_path):
    path = write(tmp_path / "a.fcs")
    points = read(path, [*NAMES], compensation="file", transform="arcsinh", cofactor=5)
    expected = TRUE.copy()
    expected[:, 1:4] = np.arcsinh(TRUE[:, 1:4] / 5)
    np.testing.assert_allclose(points, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("t", "w", "m", "a"), [(262144, 0.5, 4.5, 0), (10000, 1, 4, 0.5)])
def test_logicle_inverts_the_biexponential_function(t, w, m, a, tmp_path):
    pytest.importorskip("flowutils")
    points = read(
        write(tmp_path / "a.fcs"), ["CD3"], compensation="file", transform="logicle", logicle=(t, w, m, a)
    )
    x, b = points[:, 0].astype("f8"), (m + a) * np.log(10)
    W, x2 = w / (m + a), a / (m + a)
    x1, x0 = x2 + W, x2 + 2 * W
    # d solves 2 (ln d - ln b) + W (d + b) = 0, by bisection (Moore and Parks 2012, equation 11)
    low, high = 1e-9, b
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * np.log(middle / b) + W * (middle + b) < 0 else (low, middle)
    d = low
    c_a = np.exp(x0 * (b + d))
    f_a = np.exp(b * x1) - c_a * np.exp(-d * x1)
    scale = t / (np.exp(b) - f_a - c_a * np.exp(-d))
    above = np.maximum(x, 2 * x1 - x)  # the scale is odd about x1, where the value is 0
    biexponential = np.sign(x - x1) * scale * (np.exp(b * above) - c_a * np.exp(-d * above) - f_a)
    # float32 rounds the result to 2^-24, and the slope is at most t b
    np.testing.assert_allclose(biexponential, TRUE[:, 1], atol=t * b * 2.0**-24 + 1e-3)


@pytest.mark.parametrize("transform", ["none", "arcsinh", "logicle"])
def test_values_equal_flowutils_applied_to_a_file_of_flowio(transform, tmp_path):
    flowio, flowutils = pytest.importorskip("flowio"), pytest.importorskip("flowutils")
    path = tmp_path / "written_by_flowio.fcs"
    metadata = {"spill": TEXT, "p2g": "2.0"}
    with open(path, "wb") as file:
        flowio.create_fcs(file, OBSERVED.ravel().tolist(), NAMES, ["", "CD3", "CD4", "CD8", ""], metadata)
    raw = flowio.FlowData(str(path))
    matrix, detectors = flowutils.compensate.get_spill(raw.text["spill"])
    events = flowutils.compensate.compensate(
        raw.as_array(preprocess=True), matrix, [NAMES.index(name) for name in detectors]
    )
    if transform == "arcsinh":  # its scale: (arcsinh(x sinh(m log 10) / t) + a log 10) / ((m + a) log 10)
        t, m, a = 262144, 4, 0.5
        cofactor = t / np.sinh(m * np.log(10))
        events = flowutils.transforms.asinh(events, [1, 2, 3], t, m, a)
        events[:, 1:4] = events[:, 1:4] * (m + a) * np.log(10) - a * np.log(10)
        options = {"cofactor": cofactor}
    else:
        options = {}
        if transform == "logicle":
            events = flowutils.transforms.logicle(events, [1, 2, 3])
    points = read(path, NAMES, compensation="file", transform=transform, **options)
    np.testing.assert_allclose(points, events, rtol=1e-6, atol=1e-6 * np.abs(events).max(axis=0).min())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"a.fcs cannot be compensated: it has no spillover matrix \(\$SPILLOVER, \$SPILL, SPILL\)"),
        ("2,FL1-A,FL9-A,1,0,0,1", "no channel 'FL9-A'; it has FSC-A, FL1-A"),
        ("2,FL1-A,FL2-A,1,0,0", r"\$SPILLOVER must be a number n, n channels and n \* n values; got 5 items"),
        ("two,FL1-A", "got 1 items after 'two'"),
        ("1,FL1-A,x", "must hold numbers after the channels"),
        ("2,FL1-A,FL1-A,1,0,0,1", "channels of .* must be unique"),
        ("2,FL1-A,FL2-A,1,2,2,4", r"must be invertible; it has rank 1 of 2"),
        ("1,FL1-A,nan", "must be a finite matrix"),
    ],
)
def test_unusable_matrices_are_refused_by_name(text, message, tmp_path):
    path = write(tmp_path / "a.fcs", text=text)
    with pytest.raises(dk.SourceError, match=message):
        read(path, compensation="file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compensation": "yes"}, "compensation must be 'none', 'file' or a pandas DataFrame; got 'yes'"),
        ({"compensation": pd.DataFrame(SPILL, list("abc"), list("abd"))}, "same channels as index"),
        ({"compensation": pd.DataFrame(SPILL[:2], list("ab"), list("abc"))}, "same channels as index"),
        ({"transform": "log"}, "transform must be one of 'none', 'arcsinh', 'logicle'; got 'log'"),
        ({"transform": "arcsinh", "cofactor": 0}, "cofactor must be a positive number; got 0"),
        ({"cofactor": 5}, "cofactor requires transform='arcsinh'"),
        ({"logicle": (1, 2)}, r"logicle must be four numbers \(t, w, m, a\)"),
        ({"logicle": (1, 3, 4, 0)}, "0 <= w <= m / 2"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dk.CytometryReader(**options)


def test_the_command_line_compensates_and_scales(tmp_path, capsys):
    path = write(tmp_path / "a.fcs")
    options = ["--compensate", "--transform", "arcsinh", "--cofactor", "5", "--points", "CD3,CD4"]
    assert main(["import", str(path), str(tmp_path / "s.zarr"), *options]) == 0
    expected = read(path, ["CD3", "CD4"], compensation="file", transform="arcsinh", cofactor=5)
    np.testing.assert_array_equal(dk.open_sets(tmp_path / "s.zarr")[0], expected)
    (tmp_path / "t.csv").write_text("id,a\n1,2\n")
    assert main(["import", str(tmp_path / "t.csv"), str(tmp_path / "t.zarr"), "--compensate"]) == 2
    assert "--compensate applies to FCS files only" in capsys.readouterr().err.replace("cytometry", "FCS")
