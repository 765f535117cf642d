"""Stochastic gradient descent over blocks: accuracy, reproducibility, checkpoints and invalid input."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

import dkdist._runtime.map_reduce
from dkdist import IncrementalRidge, IncrementalSGDClassifier, IncrementalSGDRegressor
from dkdist._base.parameter_checks import draw_seed
from dkdist._base.random_streams import RngStream
from dkdist.linear.held_out import choose_held_out
from dkdist.linear.sgd_steps import average_replicas, constant_loss, signs
from tests.simulated_kill import SimulatedKill, kill_after_saves

from .problems import smooth_problem


def small(n: int = 700, d: int = 8, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype("f4")
    y = X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
    return X, y, np.digitize(y, [-1.0, 1.0])


def model_bits(model: Any) -> bytes:
    return pickle.dumps([model.coef_, model.intercept_, model.loss_curve_, model.validation_loss_curve_])


@pytest.fixture(scope="module")
def problem() -> Any:
    return smooth_problem()


@pytest.fixture(scope="module")
def best(problem: Any) -> tuple[float, float]:
    """Return test scores of the exact solutions."""
    exact = LogisticRegression(C=100.0, max_iter=300).fit(problem.X, problem.c)
    ridge = Ridge(alpha=0.1).fit(problem.X.astype("f8"), problem.y)
    return exact.score(problem.X_test, problem.c_test), ridge.score(problem.X_test, problem.y_test)


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_defaults_approach_exact_solutions(problem: Any, best: Any, order: str) -> None:
    rank = np.argsort(problem.y) if order == "sorted" else np.arange(len(problem.y))
    lazy = da.from_array(problem.X[rank], chunks=(500, -1))
    c = IncrementalSGDClassifier(random_state=0).fit(lazy, problem.c[rank])
    r = IncrementalSGDRegressor(random_state=0).fit(lazy, problem.y[rank])
    assert c.score(problem.X_test, problem.c_test) > best[0] - 0.01
    assert r.score(problem.X_test, problem.y_test) > best[1] - 0.03
    assert c.loss_curve_[-1] < c.loss_curve_[0] < np.log(2)


def test_averaging_improves_the_score(problem: Any) -> None:
    scores = [
        IncrementalSGDRegressor(average=average, random_state=0)
        .fit(problem.X, problem.y)
        .score(problem.X_test, problem.y_test)
        for average in (True, False)
    ]
    assert scores[0] > scores[1] + 0.02


@pytest.mark.parametrize("n_lanes", [1, 3])
def test_schedulers_give_identical_results(n_lanes: int) -> None:
    X, _, c = small()
    lazy = da.from_array(X, chunks=(50, -1))
    fit = IncrementalSGDClassifier(n_epochs=2, n_lanes=n_lanes, validation_fraction=0.1, random_state=0).fit
    bits = [model_bits(fit(lazy, c))]
    for workers in (1, 5):
        with dask.config.set(num_workers=workers):
            bits.append(model_bits(fit(lazy, c)))
    with dask.config.set(scheduler="synchronous"):
        bits.append(model_bits(fit(lazy, c)))
    assert len(set(bits)) == 1


def test_numpy_and_dask_give_identical_results() -> None:
    X, y, _ = small(2500)
    a = IncrementalSGDRegressor(random_state=0).fit(X, y)
    b = IncrementalSGDRegressor(random_state=0).fit(da.from_array(X, chunks=(1024, -1)), y)
    assert model_bits(a) == model_bits(b)
    lazy = da.from_array(X, chunks=(300, -1))
    assert isinstance(b.predict(lazy), np.ndarray)
    np.testing.assert_allclose(b.predict(lazy), b.predict(X), rtol=1e-5)


def test_block_size_changes_the_result_slightly() -> None:
    X, y, _ = small(4000)
    chunks = [da.from_array(X, chunks=(rows, -1)) for rows in (64, 1000)]
    a, b = (IncrementalSGDRegressor(validation_fraction=0.1, random_state=0).fit(lazy, y) for lazy in chunks)
    assert not np.array_equal(a.coef_, b.coef_)
    exact = Ridge(alpha=1e-6 * len(X)).fit(X.astype("f8"), y).score(X, y)
    assert min(a.score(X, y), b.score(X, y)) > exact - 0.001
    refitted = IncrementalSGDRegressor(validation_fraction=0.1, random_state=0).fit(chunks[0].persist(), y)
    assert model_bits(refitted) == model_bits(a)
    # The Gram matrix is well-conditioned, and sums of n products in any order differ by about sqrt(n) roundoffs of
    # their size, so coefficients differ by that share of the largest one, however small they are themselves.
    ridges = [IncrementalRidge(alphas=[1.0]).fit(lazy, y).coef_ for lazy in chunks]
    roundoff = float(np.finfo("f4").eps) / 2
    np.testing.assert_allclose(*ridges, rtol=0, atol=np.sqrt(len(X)) * roundoff * np.abs(ridges[0]).max())


def test_n_lanes_changes_the_result_slightly() -> None:
    X, y, _ = small(4000)
    lazy = da.from_array(X, chunks=(200, -1))
    single, several = (IncrementalSGDRegressor(n_lanes=k, random_state=0).fit(lazy, y) for k in (1, 4))
    assert not np.array_equal(single.coef_, several.coef_)
    assert min(single.score(X, y), several.score(X, y)) > 0.98


def test_averaging_frequency_of_replicas_depends_on_rows(monkeypatch: Any) -> None:
    averaging_calls = list[int]()
    monkeypatch.setattr(
        "dkdist.linear.lanes.average_replicas",
        lambda *value: averaging_calls.append(1) or average_replicas(*value),
    )
    for n, rows, n_calls in (
        (2**17, 2**11, 8),
        (30 * 2**11, 2**11, 8),
        (2**20, 2**15, 8),
        (2**21, 2**16, 16),
    ):
        y = np.arange(n) % 2  # last case: an eighth of an epoch is two blocks per replica, 131,072 rows
        X = da.from_array((y[:, None] * [1.0, -1.0]).astype("f4"), chunks=(rows, -1))
        averaging_calls.clear()
        IncrementalSGDClassifier(n_epochs=1, n_lanes=2, eta0=0.1, random_state=0).fit(X, y)
        assert len(averaging_calls) == n_calls


def test_held_out_rows_are_not_used_for_training() -> None:
    """Swapping two targets changes the model unless both rows are held out."""
    X, y, _ = small(600)
    held = choose_held_out(600, 0.5, (draw_seed(0), RngStream.HELD_OUT))
    reference = IncrementalSGDRegressor(validation_fraction=0.5, n_epochs=5, random_state=0, alpha=0.0).fit(
        X, y
    )
    n_equal = 0
    for i in range(0, 600, 25):
        changed_model = y.copy()
        changed_model[[i, i + 1]] = y[[i + 1, i]]
        n_equal += np.array_equal(clone(reference).fit(X, changed_model).coef_, reference.coef_)
    assert n_equal == sum(held[i] and held[i + 1] for i in range(0, 600, 25)) > 0
    assert reference.validation_loss_curve_.shape == (5,)
    assert 0 < reference.validation_loss_curve_[-1] < 0.05 * y.var()


def test_patience_stops_without_improvement() -> None:
    X, _, _ = small(600)
    noise = np.random.default_rng(1).integers(0, 2, 600)
    fit = IncrementalSGDClassifier(
        n_epochs=40, validation_fraction=0.2, patience=2, average=False, random_state=0
    ).fit(X, noise)
    curve = fit.validation_loss_curve_
    assert fit.n_iter_ == len(curve) == int(np.argmin(curve)) + 3 < 40
    with pytest.raises(ValueError, match="validation_fraction"):
        IncrementalSGDClassifier(patience=2).fit(X, noise)


def test_partial_fit_continues_fit() -> None:
    X, y, c = small()
    once = IncrementalSGDClassifier(n_epochs=1, random_state=3).fit(X, c)
    partial = IncrementalSGDClassifier(random_state=3).partial_fit(X, c, classes=[0, 1, 2])
    np.testing.assert_array_equal(partial.coef_, once.coef_)
    twice = IncrementalSGDClassifier(n_epochs=2, random_state=3).fit(X, c)
    np.testing.assert_array_equal(partial.partial_fit(X, c).coef_, twice.coef_)
    np.testing.assert_array_equal(once.partial_fit(X, c).coef_, twice.coef_)
    stream = IncrementalSGDRegressor(random_state=0)
    for a in range(0, 700, 100):
        stream.partial_fit(da.from_array(X[a : a + 100], chunks=(30, -1)), y[a : a + 100])
    assert stream.score(X, y) > 0.95
    with pytest.raises(ValueError, match="got 7 in row 1"):
        partial.partial_fit(X[:3], [0, 7, 1])
    with pytest.raises(ValueError, match="first call"):
        IncrementalSGDClassifier().partial_fit(X, c)


def test_predict_proba_depends_on_loss() -> None:
    X, _, c = small()
    lazy = da.from_array(X, chunks=(50, -1))
    for loss in ("log_loss", "modified_huber"):
        model = IncrementalSGDClassifier(loss, random_state=0).fit(lazy, c)
        np.testing.assert_allclose(model.predict_proba(lazy).sum(axis=1), 1.0, rtol=1e-5)
        np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))
    for loss in ("hinge", "squared_hinge"):
        assert not hasattr(IncrementalSGDClassifier(loss), "predict_proba")
        assert IncrementalSGDClassifier(loss, random_state=0).fit(X, c).score(X, c) > 0.8


def test_fit_is_invariant_to_shift_and_scale_of_targets() -> None:
    X, y, _ = small()
    plain = IncrementalSGDRegressor(random_state=0).fit(X, y)
    moved = IncrementalSGDRegressor(random_state=0).fit(X, 1e5 + 1e3 * y)
    np.testing.assert_allclose(moved.coef_, 1e3 * plain.coef_, rtol=1e-3)
    assert moved.score(X, 1e5 + 1e3 * y) > 0.98
    np.testing.assert_allclose(moved.loss_curve_, 1e6 * plain.loss_curve_, rtol=1e-2)


def test_huber_loss_is_robust_to_outliers() -> None:
    X, y, _ = small(2000)
    y_with_outliers = y + np.where(np.arange(2000) % 10 == 0, 100.0, 0.0)
    squared = IncrementalSGDRegressor(random_state=0).fit(X, y_with_outliers)
    huber = IncrementalSGDRegressor("huber", epsilon=1.0, n_epochs=20, random_state=0).fit(X, y_with_outliers)
    assert np.abs(huber.predict(X) - y).mean() < 0.2 * np.abs(squared.predict(X) - y).mean()
    for loss, epsilon in (("huber", None), ("squared_error", 1.0)):
        with pytest.raises(ValueError, match="epsilon"):
            IncrementalSGDRegressor(loss, epsilon=epsilon).fit(X, y)


def test_invalid_input_raises_before_blocks_are_computed() -> None:
    X, y, c = small(100)

    def fail(block: Any) -> Any:
        raise AssertionError("a block was computed")

    lazy = da.map_blocks(fail, da.from_array(X, chunks=(20, -1)), dtype="f4", meta=np.zeros((0, 0), "f4"))
    fitted = IncrementalSGDClassifier(random_state=0).fit(X, c)
    for call, message in (
        (lambda: clone(fitted).fit(lazy, c[:-1]), "100 rows of X; got 99 targets"),
        (lambda: clone(fitted).fit(lazy, np.zeros(100)), "1 class"),
        (lambda: clone(fitted).fit(lazy, None), "requires y"),
        (lambda: IncrementalSGDRegressor().fit(lazy, np.append(y[:-1], np.nan)), "NaN"),
        (lambda: clone(fitted).fit(lazy, da.from_array(c[:-1])), "100 rows of X; got 99 targets"),
        (lambda: clone(fitted).set_params(alpha=-1.0).fit(lazy, c), "'alpha' parameter"),
        (lambda: fitted.predict(lazy[:, :5]), "5 features.*8 features"),
        (lambda: fitted.partial_fit(lazy[:, :5], c), "5 features.*8 features"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(NotFittedError):
        clone(fitted).predict(lazy)


def test_nonfinite_rows_raise_in_fit_and_predict() -> None:
    X, _, c = small(100)
    fitted = IncrementalSGDClassifier(random_state=0).fit(X, c)
    X[57, 3] = np.nan
    lazy = da.from_array(X, chunks=(20, -1))
    for call in (lambda: clone(fitted).fit(lazy, c), lambda: fitted.predict(lazy)):
        with pytest.raises(ValueError, match="got nan in row 57, column 3"):
            call()


@pytest.mark.parametrize("n_lanes", [1, 3])
@pytest.mark.parametrize("random_state", [0, None])
def test_interrupted_run_gives_identical_results(
    tmp_path: Path, monkeypatch: Any, n_lanes: int, random_state: Any
) -> None:
    monkeypatch.setattr(dkdist._runtime.map_reduce, "MAX_GRAPH_JOBS", 4)
    monkeypatch.setattr("dkdist.linear.epochs.MAX_BATCHES_PER_SYNC", 2)
    X, _, c = small()
    lazy = da.from_array(X, chunks=(40, -1))
    model = IncrementalSGDClassifier(
        n_epochs=3, n_lanes=n_lanes, validation_fraction=0.1, random_state=random_state
    )
    rng, remaining, kills = np.random.default_rng(n_lanes), [0], 0
    kill_after_saves(monkeypatch, remaining)
    interrupted = clone(model).set_params(checkpoint=tmp_path / "ck")
    while True:
        remaining[0] = int(rng.integers(1, 4))
        try:
            interrupted.fit(lazy, c)
            break
        except SimulatedKill:
            kills += 1
    assert kills >= 3
    uninterrupted = clone(model).set_params(checkpoint=tmp_path / "other")
    if random_state is None:  # the seed that the checkpoint stores
        seed = interrupted._stream[0]
        monkeypatch.setattr("dkdist.linear.sgd_runs.draw_seed", lambda _: seed)
    remaining[0] = 10**9
    assert model_bits(uninterrupted.fit(lazy, c)) == model_bits(interrupted)


def test_finished_checkpoint_is_reused_and_other_runs_raise(tmp_path: Path) -> None:
    X, _, c = small()
    output: list[int] = []

    def count(block: Any) -> Any:
        output.append(len(block))
        return block

    lazy = da.map_blocks(count, da.from_array(X, chunks=(100, -1)), name="counted", meta=X[:0], dtype="f4")
    model = IncrementalSGDClassifier(checkpoint=tmp_path, random_state=0, n_epochs=2, cache=False)
    first = model_bits(model.fit(lazy, c))
    assert len(output) == 2 * 7 + 1  # one block to find the step
    assert model_bits(clone(model).fit(lazy, c)) == first
    assert len(output) == 15
    changed_rows = X.copy()
    changed_rows[0, 0] += 1
    for changed_model, data, targets, name in (
        (model, lazy, c[::-1], "targets"),
        (model, X, c, "features"),
        (clone(model).set_params(alpha=0.1), lazy, c, "alpha: expected 0.1, got 1e-06"),
        (clone(model).set_params(random_state=1), lazy, c, "random_state: expected 1, got 0"),
    ):
        with pytest.raises(ValueError, match=name):
            changed_model.fit(data, targets)
    in_memory = clone(model).set_params(checkpoint=tmp_path / "numpy").fit(X, c)
    with pytest.raises(ValueError, match="features"):
        in_memory.fit(changed_rows, c)


SCRIPT = """
    import os, signal, sys
    import dask.array as da, numpy as np
    from dkdist import IncrementalSGDClassifier
    from dkdist._runtime.checkpoint import Checkpoint
    import dkdist._runtime.map_reduce
    dkdist._runtime.map_reduce.MAX_GRAPH_JOBS = 3
    die_after, path = int(sys.argv[1]), sys.argv[2]
    save = Checkpoint.save
    def save_and_die(self, *state):
        global die_after
        save(self, *state)
        die_after -= 1
        if die_after == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    Checkpoint.save = save_and_die
    X = np.random.default_rng(0).standard_normal((400, 5)).astype("f4")
    model = IncrementalSGDClassifier(n_epochs=2, random_state=0, checkpoint=path)
    print(model.fit(da.from_array(X, chunks=(40, -1)), X[:, 0] > 0).coef_.tobytes().hex())
"""


def test_killed_process_is_resumed(tmp_path: Path) -> None:
    def start(die_after: int, path: str) -> subprocess.CompletedProcess[str]:
        script = textwrap.dedent(SCRIPT)
        command = [sys.executable, "-c", script, str(die_after), str(tmp_path / path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    killed = start(3, "ck")
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout == ""
    resumed, uninterrupted = start(0, "ck"), start(0, "other")
    assert resumed.returncode == uninterrupted.returncode == 0, resumed.stderr
    assert resumed.stdout == uninterrupted.stdout != ""


def test_targets_with_infinite_squares_raise():
    x = np.random.default_rng(0).standard_normal((40, 3))
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="y must have finite squares"):
        IncrementalSGDRegressor(random_state=0).fit(x, 1e160 * x[:, 0])


@pytest.mark.parametrize("learner", [IncrementalSGDClassifier, IncrementalSGDRegressor])
@pytest.mark.parametrize("change", [lambda X: X + 1e3, lambda X: X * 1e-8], ids=["offset", "scale"])
def test_unsuitable_scale_warns(learner: Any, change: Any) -> None:
    X, y, _ = small()
    y = y > 0 if learner is IncrementalSGDClassifier else y
    with pytest.warns(UserWarning, match="Steps of eta0=.* are too short for columns of standard deviation"):
        learner(random_state=0, n_epochs=20).fit(change(X), y)
    learner(random_state=0, n_epochs=20).fit(X, y)  # no warning


def test_targets_without_signal_do_not_warn() -> None:
    X, _, _ = small(n=5000)
    y = np.random.default_rng(1).permutation(np.arange(5000) % 2)
    IncrementalSGDClassifier(random_state=0, n_epochs=3).fit(X, y)
    IncrementalSGDRegressor(random_state=0, n_epochs=3).fit(X, y)


VALUE_OF_MARGIN = {
    "log_loss": lambda z: np.log1p(np.exp(-z)),
    "hinge": lambda z: np.maximum(0, 1 - z),
    "squared_hinge": lambda z: np.maximum(0, 1 - z) ** 2,
    "modified_huber": lambda z: np.where(z >= -1, np.maximum(0, 1 - z) ** 2, -4 * z),
}


@pytest.mark.parametrize("loss", VALUE_OF_MARGIN)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_constant_loss_is_the_minimum(loss: str, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    y, weights = rng.integers(0, n_classes, 50), rng.uniform(0.1, 2, 50)
    scores = np.linspace(-4, 4, 8001)
    margins = signs(y, n_classes)[..., None] * scores
    minimum = np.average(VALUE_OF_MARGIN[loss](margins), axis=0, weights=weights).min(axis=1).sum()
    assert constant_loss(loss, y, weights, n_classes, 1.0) == pytest.approx(minimum, rel=1e-6)


def test_constant_loss_of_regression_predicts_zero() -> None:
    y = np.array([-3.0, 0.5, 2.5])
    assert constant_loss("squared_error", y, None, 0, 1.0) == pytest.approx((9 + 0.25 + 6.25) / 6)
    assert constant_loss("huber", y, None, 0, 1.0) == pytest.approx((2.5 + 0.125 + 2.0) / 3)
