"""From a store to predictions: info, verify, embed, fit, predict and score, locally and on a cluster."""

from __future__ import annotations

import csv
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import main
from dkdist.cli.scores import format_score, score_document

RNG = np.random.default_rng(0)
N_SETS = 120
SPREAD = RNG.uniform(0.3, 1, N_SETS)
SETS = [RNG.normal(0, s, (40, 2)) for s in SPREAD]
WIDE = np.where(np.median(SPREAD) < SPREAD, "wide", "narrow")
COUNT = (WIDE == "wide").astype(int)
SMALL = ["--features", "60", "--domain=-5,5"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "bags.zarr"
    targets = {"wide": WIDE, "count": COUNT, "spread": SPREAD, "flag": COUNT == 1}
    dk.write_sets(path, SETS, targets=targets, ids=[f"bag {i}" for i in range(N_SETS)])
    return str(path)


def test_info_describes_the_store(store, capsys):
    assert main(["info", store]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    text = {name.strip(): value.strip() for name, value in lines.items()}
    assert text["sets"] == "120"
    assert text["points"] == "4,800"
    assert text["points per set"] == "40 to 40 (median 40)"
    assert text["target 'wide'"] == "text, 2 classes: narrow (60), wide (60)"
    assert text["target 'spread'"] == f"float64, {SPREAD.min():.6g} to {SPREAD.max():.6g}"
    assert text["ids"] == "text, 120 distinct values, bag 0 to bag 99"


def test_verify_finds_a_flipped_bit(tmp_path, capsys):
    store = tmp_path / "s.zarr"
    dk.write_sets(store, SETS)
    assert main(["verify", str(store)]) == 0
    assert capsys.readouterr().out.startswith("no damage: 120 sets, 4,800 points")
    chunk = next(p for p in (store / "points").rglob("*") if p.is_file() and p.name != "zarr.json")
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 4
    chunk.write_bytes(content)
    assert main(["verify", str(store)]) == 2
    assert "points" in capsys.readouterr().err


def test_embed_writes_the_features_of_the_estimators(store, tmp_path, capsys):
    output = str(tmp_path / "f.zarr")
    command = [
        "embed",
        store,
        output,
        "--divergence",
        "chi2",
        "--bandwidth",
        "0.2,0.3",
        "--seed",
        "3",
        *SMALL,
    ]
    assert main(command) == 0
    model = make_pipeline(
        dk.DivergenceEmbedding("chi2", bandwidth=(0.2, 0.3), domain=(-5, 5)),
        dk.RandomFourierFeatures(60, random_state=3),
    )
    expected = model.fit(dk.open_sets(store)).transform(dk.open_sets(store)).compute()
    assert np.array_equal(dk.open_features(output).compute(), expected)
    capsys.readouterr()
    assert main(["info", output]) == 0
    assert "store of  features" in capsys.readouterr().out
    assert main(command) == 2
    assert "already holds features. Pass --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert main(["embed", store, output, "--features", "0"]) == 2
    assert main(["embed", store, output, "--features", "0", "--overwrite"]) == 0
    n_features = dk.DivergenceEmbedding().fit(dk.open_sets(store)).spec_.n_features
    assert dk.open_features(output).shape == (N_SETS, n_features)


@pytest.mark.parametrize(
    ("target", "options", "learner"),
    [
        ("wide", [], dk.IncrementalRidgeClassifier(random_state=0)),
        (
            "count",
            ["--learner", "sgd", "--epochs", "3"],
            dk.IncrementalSGDClassifier(n_epochs=3, random_state=0),
        ),
        ("flag", ["--alphas", "0.1,1"], dk.IncrementalRidgeClassifier(alphas=(0.1, 1.0), random_state=0)),
        ("spread", [], dk.IncrementalRidge(random_state=0)),
        (
            "spread",
            ["--learner", "sgd", "--alpha", "1e-3"],
            dk.IncrementalSGDRegressor(alpha=1e-3, random_state=0),
        ),
        ("count", ["--task", "regress", "--alpha", "2"], dk.IncrementalRidge(alphas=2.0, random_state=0)),
    ],
)
def test_fit_trains_the_requested_pipeline(target, options, learner, store, tmp_path):
    path = str(tmp_path / "m.npz")
    assert main(["fit", store, "--target", target, "--model", path, *SMALL, *options]) == 0
    sets = dk.open_sets(store)
    features = [dk.DivergenceEmbedding(domain=(-5, 5)), dk.RandomFourierFeatures(60, random_state=0)]
    expected = make_pipeline(*features, learner).fit(sets, sets.targets[target]).predict(sets)
    assert np.array_equal(dk.load_model(path).predict(sets), expected)


def test_fit_without_random_features_and_a_held_out_part(store, tmp_path, capsys):
    path = str(tmp_path / "m.npz")
    command = [
        "fit",
        store,
        "--target",
        "wide",
        "--model",
        path,
        "--features",
        "0",
        "--train-fraction",
        "0.75",
        "--domain=-5,5",
    ]
    assert main([*command, "--no-progress"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert [name for name, _ in dk.load_model(path).steps] == [
        "divergenceembedding",
        "incrementalridgeclassifier",
    ]
    lines = captured.out.splitlines()
    assert lines[0] == "task        classify 'wide' with ridge"
    assert lines[1].startswith("trained on  90 sets in ")
    assert lines[2].startswith("held out    accuracy 0.9")
    assert lines[2].endswith(" on 30 sets; always the largest class: 0.5000")


def test_fit_keeps_a_checkpoint_and_shows_progress(store, tmp_path, capsys):
    command = [
        "fit",
        store,
        "--target",
        "wide",
        "--learner",
        "sgd",
        "--checkpoint",
        str(tmp_path / "c"),
        *SMALL,
    ]
    assert main([*command, "--model", str(tmp_path / "a.npz"), "--progress"]) == 0
    assert "IncrementalSGDClassifier" in capsys.readouterr().err
    assert (tmp_path / "c").is_dir()
    assert main([*command, "--model", str(tmp_path / "b.npz")]) == 0
    assert main([*command, "--model", str(tmp_path / "b.npz"), "--overwrite", "--epochs", "2"]) == 2
    assert "different run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "height"], "no target 'height'; it has count, flag, spread, wide"),
        (["--target", "wide", "--epochs", "3"], "--epochs is for --learner sgd"),
        (["--target", "wide", "--learner", "sgd", "--alphas", "1,2"], "takes one --alpha"),
        (["--target", "wide", "--features", "0", "--sigma", "2"], "--sigma requires random features"),
        (["--target", "wide", "--domain", "0,1"], "outside the given domain"),
        (["--target", "spread", "--task", "classify"], "--task classify needs classes"),
    ],
)
def test_unfittable_targets_and_options_are_refused(options, message, store, tmp_path, capsys):
    assert main(["fit", store, "--model", str(tmp_path / "m.npz"), *options]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [["--domain", "x"], ["--bandwidth", "thin"], ["--divergence", "kl"], ["--sigma", ""]]
)
def test_options_that_cannot_be_read_are_refused(options, store, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["fit", store, "--target", "wide", "--model", "m.npz", *options])
    assert options[0] in capsys.readouterr().err


def test_a_model_path_in_a_missing_folder_is_refused_before_any_work(store, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dk, "open_sets", None)
    assert main(["fit", store, "--target", "wide", "--model", str(tmp_path / "no" / "m.npz")]) == 2
    assert "Pass a file in an existing directory" in capsys.readouterr().err


@pytest.fixture(scope="module")
def models(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for target in ("wide", "spread"):
        main(["fit", store, "--target", target, "--model", str(folder / f"{target}.npz"), *SMALL])
    return folder


def test_predictions_in_three_forms(store, models, tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.cli.predict.PREDICT_BATCH_SETS", 50)
    expected = dk.load_model(models / "spread.npz").predict(dk.open_sets(store))
    for name in ("p.csv", "p.npz", "p.npy"):
        command = ["predict", store, "--model", str(models / "spread.npz"), "--output", str(tmp_path / name)]
        assert main(command) == 0
    assert np.array_equal(np.load(tmp_path / "p.npy"), expected)
    with np.load(tmp_path / "p.npz") as result:
        assert np.array_equal(result["prediction"], expected)
        assert result["ids"].tolist() == [f"bag {i}" for i in range(N_SETS)]
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["set", "prediction"]
    assert [row[0] for row in rows[1:]] == [f"bag {i}" for i in range(N_SETS)]
    assert np.array_equal([float(row[1]) for row in rows[1:]], expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.csv", "p.npy", "p.npz"]


def test_other_outputs_and_models_are_refused(store, models, tmp_path, capsys):
    wide = str(models / "wide.npz")
    assert main(["predict", store, "--model", wide, "--output", str(tmp_path / "p.xlsx")]) == 2
    assert "must end in one of .csv, .npz, .npy" in capsys.readouterr().err
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    assert (
        main(["predict", store, "--model", str(tmp_path / "other.npz"), "--output", str(tmp_path / "p.csv")])
        == 2
    )
    assert "is not a model file" in capsys.readouterr().err


def test_scores_are_those_of_scikit_learn(store, models, capsys):
    sets = dk.open_sets(store)
    for target, oracle, start in (("wide", accuracy_score, "accuracy"), ("spread", r2_score, "R2")):
        model = models / f"{target}.npz"
        assert main(["score", store, "--model", str(model), "--target", target]) == 0
        expected = oracle(sets.targets[target], dk.load_model(model).predict(sets))
        assert capsys.readouterr().out.startswith(f"{start} {expected:.4f}")
    for target, other in (("wide", "spread"), ("spread", "wide"), ("wide", "count")):
        assert main(["score", store, "--model", str(models / f"{target}.npz"), "--target", other]) == 2
        assert "that the model was trained on" in capsys.readouterr().err


def test_the_score_of_constant_targets_is_nan():
    result = score_document(dk.IncrementalRidge(), np.ones(3), np.zeros(3))
    assert format_score(result).startswith("R2 nan, root mean squared error 1 ")


def test_an_unreachable_scheduler_fails_within_seconds(store, tmp_path, capsys):
    command = ["fit", store, "--target", "wide", "--model", str(tmp_path / "m.npz"), "--scheduler"]
    for address in ("tcp://127.0.0.1:9", "nonsense", "bag://127.0.0.1:8786"):
        start = time.monotonic()
        assert main([*command, address]) == 2
        assert time.monotonic() - start < 60  # the limit is 5 seconds on an idle machine
        assert f"no Dask scheduler answers at '{address}'" in capsys.readouterr().err


def test_commands_run_on_a_cluster(store, models, tmp_path, capsys):
    """The cluster runs in a separate process; the model is bit-identical to the local one."""
    code = (
        "import sys\n"
        "from distributed import LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address='127.0.0.1:0') as cluster:\n"
        "        print(cluster.scheduler_address, flush=True)\n"
        "        sys.stdin.read()\n"
    )
    script = tmp_path / "cluster.py"
    script.write_text(code)
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        address = cluster.stdout.readline().strip()
        on = ["--scheduler", address]
        try:
            assert (
                main(["fit", store, "--target", "wide", "--model", str(tmp_path / "m.npz"), *SMALL, *on]) == 0
            )
            assert f"running on {address}: 1 workers, 1 threads" in capsys.readouterr().err
            assert main(["score", store, "--model", str(tmp_path / "m.npz"), "--target", "wide", *on]) == 0
        finally:
            cluster.stdin.close()
    alone, together = dk.load_model(models / "wide.npz"), dk.load_model(tmp_path / "m.npz")
    assert alone[-1].coef_.tobytes() == together[-1].coef_.tobytes()
