"""``dkdist fit --automatic``: prints the summary of the automatic model and saves its best candidate."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main
from dkdist.cli.fit import split_train_test


@pytest.fixture
def one_candidate(monkeypatch):
    """Restrict the automatic model to one candidate, so that it is fast."""

    kind = dk.SetClassifier

    def classifier(**options):
        return kind(["moments"], **options)

    monkeypatch.setattr(dk, "SetClassifier", classifier)
    return classifier


def test_the_best_candidate_is_saved_and_the_summary_printed(bags, one_candidate, tmp_path, capsys):
    path = str(tmp_path / "m.npz")
    command = ["fit", bags, "--target", "wide", "--model", path, "--automatic", "--train-fraction", "0.75"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.startswith("SetClassifier: ")
    assert "(baseline)" in out
    assert "task        classify 'wide' with automatic" in out
    assert main([*command, "--overwrite", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    result = json.loads(line)
    sets = dk.open_sets(bags)
    train, test = split_train_test(sets.targets["wide"], "classify", 0.75, 0)
    model = one_candidate(random_state=0).fit(sets[train], sets.targets["wide"][train])
    loaded = dk.load_model(path)
    points = sets.load()
    assert np.array_equal(loaded.predict(points), model.best_estimator_.predict(points))
    assert result["saved"] == model.best_name_
    assert [one["name"] for one in result["leaderboard"]] == [one["name"] for one in model.leaderboard_]
    held = np.mean(loaded.predict(points[test]) == sets.targets["wide"][test])
    assert result["held_out"]["accuracy"] == pytest.approx(held)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--automatic", "--divergence", "hellinger"], "Omit --divergence, or --automatic"),
        (["--automatic", "--features", "2000", "--n-basis", "5"], "Omit --n-basis, --features"),
        (["--automatic", "--learner", "ridge"], "Omit --learner"),
        (["--automatic", "--progress"], "shows no progress"),
        (["--budget", "3"], "--budget requires --automatic"),
    ],
)
def test_incompatible_options_are_refused(options, message, bags, tmp_path, capsys):
    command = ["fit", bags, "--target", "wide", "--model", str(tmp_path / "m.npz")]
    assert main([*command, *options]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_best_candidate_of_set_sizes_is_not_saved(tmp_path, capsys, monkeypatch):
    y = np.arange(40) % 2
    dk.write_sets(tmp_path / "s.zarr", [np.ones((2 + 3 * label, 1)) for label in y], targets=y)
    classifier = dk.SetClassifier
    monkeypatch.setattr(dk, "SetClassifier", lambda **options: classifier(["moments"], **options))
    command = ["fit", str(tmp_path / "s.zarr"), "--target", "y", "--model", str(tmp_path / "m.npz")]
    assert main([*command, "--automatic"]) == 2
    captured = capsys.readouterr()
    assert "the best candidate is set sizes" in captured.err
    assert captured.out.startswith("SetClassifier: ")
    assert not (tmp_path / "m.npz").exists()
