"""The demo: its accuracy, its output files, and the commands that it suggests."""

from __future__ import annotations

import contextlib
import io
import re
import shlex

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import demo, main, parser


@pytest.fixture(scope="module")
def demo_output(tmp_path_factory):
    """Return the printed text and the output folder of the demo."""
    folder = tmp_path_factory.mktemp("demo") / "output"
    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert main(["demo", "--output", str(folder)]) == 0
    return text.getvalue(), folder


def test_the_split_is_reproducible_stratified_and_complete():
    labels = load_digits(return_X_y=True)[1]
    train, test = demo.split_digits(labels, demo.SEED)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(1797))
    assert len(test) == 450
    assert np.ptp(np.bincount(labels[test]) / np.bincount(labels)) < 0.01
    assert np.array_equal(demo.split_digits(labels, demo.SEED)[1], test)


def test_accuracies_and_times_are_printed(demo_output):
    text, _ = demo_output
    accuracy = dict(re.findall(r"^  (Ridge|SGD) +(0\.\d{4})$", text, re.MULTILINE))
    assert float(accuracy["Ridge"]) >= 0.985
    assert float(accuracy["SGD"]) >= 0.97
    assert len(re.findall(r" \d+\.\d s$", text, re.MULTILINE)) == 5


def test_the_confusion_matrix_is_drawn(demo_output):
    _, folder = demo_output
    assert (folder / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_the_suggested_commands_work(demo_output, capsys):
    text, _ = demo_output
    commands = [line.strip() for line in text.splitlines() if line.startswith("  dkdist ")]
    assert len(commands) == 4
    for command in commands[:2]:
        assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out
    assert "target 'digit'" in printed
    held_out = float(re.search(r"Ridge +(0\.\d+)", text)[1])
    everywhere = float(re.search(r"accuracy (0\.\d+) \(standard error 0\.\d+\) on 1,797 sets", printed)[1])
    assert everywhere > held_out - 0.01
    built = parser.build_parser()
    assert built.parse_args(shlex.split(commands[2])[1:]).divergence == "chi2"


def test_the_demo_can_be_rerun_in_the_same_folder(demo_output):
    _, folder = demo_output
    before = dk.open_features(folder / "features.zarr").compute()
    assert main(["demo", "--output", str(folder)]) == 0
    assert np.array_equal(dk.open_features(folder / "features.zarr").compute(), before)


def test_missing_matplotlib_is_reported_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert main(["demo", "--output", str(tmp_path / "new")]) == 2
    assert "pip install 'dkdist[plots]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_accuracy_holds_on_average_over_splits():
    sets, digits = dk.datasets.load_digits_as_sets()
    scores = []
    for seed in range(1, 6):
        train, test = demo.split_digits(digits, seed)
        features = make_pipeline(*demo.build_feature_steps(seed)).fit(sets[train])
        rows = features.transform(sets)
        models = demo.build_learners(seed).values()
        scores.append([m.fit(rows[train], digits[train]).score(rows[test], digits[test]) for m in models])
    ridge, sgd = np.mean(scores, axis=0)
    assert ridge >= 0.985
    assert sgd >= 0.97
