"""Steps, states and replicas of stochastic gradient descent, compared with plain loops."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dkdist.linear.rows import RowBatch, RowLabels
from dkdist.linear.sgd_steps import (
    LOSSES,
    Batch,
    LocalSGDUpdate,
    Objective,
    State,
    average_replicas,
    fit_replica,
    prepare,
    probabilities,
    step,
    step_size,
)


def row_labels(y: Any, held_out: Any = None) -> RowLabels:
    return RowLabels(y, np.zeros(len(y), bool) if held_out is None else held_out)


def batch(n: int, d: int, n_classes: int, seed: int = 0, dtype: str = "f4") -> Batch:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = rng.integers(0, n_classes, n) if n_classes else rng.standard_normal(n)
    return Batch(X, row_labels(y), np.arange(n), np.arange(0))


def row_batch(n: int, d: int, held_out: np.ndarray | None = None, **k: Any) -> RowBatch:
    options = {"starts": (0,), "sizes": (n,), "targets": np.arange(n), "seed": (1, 2)} | k
    return RowBatch(n_features=d, labels=row_labels(options.pop("targets"), held_out), **options)


GRADIENTS = {
    "log_loss": lambda p, y: -y / (1 + np.exp(y * p)),
    "hinge": lambda p, y: -y * (y * p <= 1),
    "squared_hinge": lambda p, y: -2 * y * max(0.0, 1 - y * p),
    "squared_error": lambda p, y: p - y,
    "huber": lambda p, y: np.clip(p - y, -0.3, 0.3),
}


@pytest.mark.parametrize("loss", sorted(GRADIENTS))
def test_step_matches_plain_sgd_averaged_every_256_rows(loss: str) -> None:
    n_classes = 0 if loss in ("squared_error", "huber") else 2
    b, alpha, eta = batch(600, 5, n_classes, dtype="f8"), 0.01, 0.05
    w, c, W, C, n = np.zeros(5), 0.0, np.zeros(5), 0.0, 0
    for i, (x, target) in enumerate(zip(b.X, b.labels.targets, strict=True)):
        y = 2.0 * target - 1.0 if n_classes else target
        g = GRADIENTS[loss](x @ w + c, y)
        w, c = (1 - eta * alpha) * w - eta * g * x, c - eta * g
        if (i + 1) % 256 == 0 or i == len(b.X) - 1:
            n += 1
            W, C = W + 2 / (n + 1) * (w - W), C + 2 / (n + 1) * (c - C)
    objective = Objective(loss, alpha, eta, n_classes, epsilon=0.3)
    s = step(objective, State.start(1, 5, b.X.dtype), b)
    np.testing.assert_allclose(s.coef[0], w, rtol=1e-9)
    np.testing.assert_allclose(s.mean_coef[0], W, rtol=1e-9)
    np.testing.assert_allclose([s.intercept[0], s.mean_intercept[0]], [c, C], rtol=1e-9)


def test_classes_are_fitted_one_versus_rest() -> None:
    b = batch(500, 4, 3)
    updates = step(Objective("log_loss", 0.0, 0.5, 3), State.start(3, 4, b.X.dtype), b)
    for k in range(3):
        update = replace(b, labels=row_labels((b.labels.targets == k).astype(np.int64)))
        s = step(Objective("log_loss", 0.0, 0.5, 2), State.start(1, 4, b.X.dtype), update)
        np.testing.assert_array_equal(updates.mean_coef[k], s.mean_coef[0])


def test_step_is_pure_and_reproducible() -> None:
    b, objective = batch(300, 4, 2), Objective("log_loss", 1e-3, 0.01, 2)
    first = step(objective, State.start(1, 4, b.X.dtype), b)
    before = pickle.dumps((first, b))
    once, twice = step(objective, first, b), step(objective, first, b)
    assert pickle.dumps((first, b)) == before
    assert pickle.dumps(once) == pickle.dumps(twice)
    assert once.coef.dtype == once.mean_coef.dtype == np.float32
    assert not np.array_equal(once.coef, first.coef)


def test_step_with_overflowing_products() -> None:
    b = batch(300, 4, 2)

    def coefficients(far: float) -> Any:
        objective = Objective("log_loss", 0.0, 0.5 / far**2, 2)
        return far * step(objective, State.start(1, 4, b.X.dtype), replace(b, X=b.X * np.float32(far))).coef

    np.testing.assert_allclose(coefficients(2.0**64), coefficients(2.0**30), rtol=1e-4)


def test_step_size_of_too_large_rows_raises() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    assert step_size("log_loss", X * 1e70) == pytest.approx(step_size("log_loss", X * 1e60) / 1e20)
    for far in (1e100, 1e153, 1e200):
        with pytest.raises(ValueError, match=r"too large for a gradient step"):
            step_size("log_loss", X * far)


def test_losses_are_measured_before_the_step() -> None:
    b, objective = batch(300, 4, 2), Objective("log_loss", 0.0, 1.0, 2)
    untrained = step(objective, State.start(1, 4, b.X.dtype), replace(b, held_out_rows=np.arange(50)))
    assert untrained.losses() == pytest.approx((np.log(2), np.log(2)))
    assert untrained.sums[1] == 128
    assert untrained.sums[3] == 50
    y = 2.0 * b.labels.targets[:50] - 1.0
    scores = b.X[:50] @ untrained.mean_coef[0] + untrained.mean_intercept[0]
    held = step(objective, untrained.next_epoch(), replace(b, held_out_rows=np.arange(50))).losses()[1]
    assert held == pytest.approx(np.log1p(np.exp(-y * scores)).mean())


def test_replica_matches_sequential_steps() -> None:
    objective, start = Objective("squared_error", 0.0, 0.1), State.start(1, 3, np.dtype("f4"))
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((40, 3)).astype("f4") for _ in range(2)]
    work = [row_batch(40, 3, targets=rng.standard_normal(40), seed=(i,)) for i in range(2)]
    replica = fit_replica(objective, np.dtype("f4"), start, iter(blocks), work)
    state = start
    for block, rows in zip(blocks, work, strict=True):
        state = step(objective, state, prepare(np.dtype("f4"), iter([block]), rows))
    update = LocalSGDUpdate.of(start, state, np.zeros(0, np.int64))
    assert pickle.dumps(replica) == pickle.dumps(update)
    averaged, _ = average_replicas(start, replica, np.zeros((1, 4)), 0.0)
    assert pickle.dumps(averaged.arrays()) == pickle.dumps(state.arrays())


def test_averaged_replicas_continue_with_momentum() -> None:
    rng = np.random.default_rng(0)

    def state(n: int, *sums: float) -> State:
        W, b = rng.standard_normal((2, 3)).astype("f4"), rng.standard_normal(2)
        return State(W, b, 2 * W, 3 * b, np.asarray(n), np.array(sums))

    common, replicas = state(4, 1, 2, 3, 4), [state(6, 2, 3, 4, 5), state(8, 5, 5, 5, 5)]
    velocity = rng.standard_normal((2, 4))
    skipped = np.array([5]), np.array([2, 3])
    updates = [LocalSGDUpdate.of(common, *replica) for replica in zip(replicas, skipped, strict=True)]
    averaged, new = average_replicas(common, merged := updates[0].merge(updates[1]), velocity, 0.5)
    assert merged.skipped.tolist() == [5, 2, 3]
    mean = np.mean([np.column_stack([replica.coef, replica.intercept]) for replica in replicas], axis=0)
    start = np.column_stack([common.coef, common.intercept])
    np.testing.assert_allclose(new, 0.5 * velocity + mean - start, rtol=1e-6)
    np.testing.assert_allclose(np.column_stack([averaged.coef, averaged.intercept]), start + new, rtol=1e-5)
    np.testing.assert_allclose(
        averaged.mean_coef, (replicas[0].mean_coef + replicas[1].mean_coef) / 2, rtol=1e-6
    )
    np.testing.assert_allclose(
        averaged.mean_intercept, (replicas[0].mean_intercept + replicas[1].mean_intercept) / 2
    )
    assert averaged.n_averaged == 7
    assert averaged.sums.tolist() == [1 + 1 + 4, 2 + 1 + 3, 3 + 1 + 2, 4 + 1 + 1]
    assert averaged.coef.dtype == averaged.mean_coef.dtype == np.float32


def test_prepare_shuffles_all_blocks_and_keeps_targets_aligned() -> None:
    n = 60
    X = np.arange(n, dtype="f4")[:, None].repeat(2, axis=1)
    held = np.arange(n) % 10 == 0
    rows = row_batch(n, 2, held, starts=(0, 25), sizes=(25, 35), targets=np.arange(n) * 3)
    b = prepare(np.dtype("f4"), iter([X[:25], X[25:]]), rows)
    np.testing.assert_array_equal(b.labels.targets, 3 * b.X[:, 0])
    np.testing.assert_array_equal(b.held_out_rows, np.arange(0, n, 10))
    assert sorted(b.train_rows) == np.flatnonzero(~held).tolist()
    assert np.abs(np.corrcoef(b.train_rows, np.arange(len(b.train_rows)))[0, 1]) < 0.5
    assert b.X.flags.c_contiguous


def test_prepare_does_not_copy_a_single_block() -> None:
    X = np.ones((20, 2), "f4")
    assert prepare(X.dtype, iter([X]), row_batch(20, 2)).X is X


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X.__setitem__((7, 1), np.nan), "got nan in row 107, column 1"),
        (lambda X: X.__setitem__((3, 0), -np.inf), "got -inf in row 103, column 0"),
    ],
)
def test_prepare_nonfinite_rows_raise(change: Any, message: str) -> None:
    X = np.ones((20, 2), "f4")
    change(X)
    with pytest.raises(ValueError, match=message):
        prepare(np.dtype("f4"), iter([X]), row_batch(20, 2, starts=(100,)))


def test_prepare_block_of_wrong_shape_raises() -> None:
    with pytest.raises(ValueError, match=r"shape \(20, 2\); got \(19, 2\)"):
        prepare(np.dtype("f4"), iter([np.ones((19, 2), "f4")]), row_batch(20, 2))


def test_step_size_decreases_with_scale() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 9))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert step_size("log_loss", X) == pytest.approx(4.0)
    assert step_size("squared_error", X.astype("f4")) == pytest.approx(0.5, rel=1e-5)
    assert step_size("squared_error", 100 * X) == pytest.approx(1 / 10001)
    heavy = X * rng.pareto(2.0, 200)[:, None]
    q = (heavy**2).sum(axis=1) + 1
    assert step_size("squared_error", heavy) == pytest.approx(q.mean() / (q**2).mean())


def test_too_large_eta0_raises() -> None:
    for dtype in ("f4", "f8"):
        for eta0 in (1e2, 1e30):  # diverging scores, and overflowing coefficients
            b = batch(300, 4, 0, dtype=dtype)
            with pytest.raises(
                ValueError, match=r"eta0=1.* is too large.*Scale the features .* or reduce eta0"
            ):
                step(Objective("squared_error", 0.0, eta0), State.start(1, 4, b.X.dtype), b)


def one_step(loss: str, p: float, y: int) -> State:
    """Return the state after one tiny step on one row, whose score is p at the start."""
    start = State(*(np.array([[p]]), np.zeros(1)) * 2, np.zeros((), np.int64), np.zeros(4))
    one = Batch(np.ones((1, 1)), row_labels(np.array([y])), np.arange(1), np.arange(0))
    return step(Objective(loss, 0.0, 1e-6, 0 if loss in VALUES_OF_NUMBERS else 2, epsilon=0.9), start, one)


VALUES_OF_NUMBERS: dict[str, Any] = {
    "squared_error": lambda r: r**2 / 2,
    "huber": lambda r: r**2 / 2 if abs(r) <= 0.9 else 0.9 * (abs(r) - 0.45),
}
VALUES_OF_CLASSES: dict[str, Any] = {
    "log_loss": lambda z: np.logaddexp(0, -z),
    "hinge": lambda z: max(0, 1 - z),
    "squared_hinge": lambda z: max(0, 1 - z) ** 2,
    "modified_huber": lambda z: -4 * z if z < -1 else max(0, 1 - z) ** 2,
}
SCORES = (-800.0, -1.7, -0.4, 0.31, 1.6, 3.0, 800.0)


def test_all_losses_are_tested() -> None:
    assert {*VALUES_OF_NUMBERS, *VALUES_OF_CLASSES} == {*LOSSES}


@pytest.mark.parametrize("p", SCORES)
@pytest.mark.parametrize("y", [0, 1])
def test_losses_match_formulas(p: float, y: int) -> None:
    for loss, value in VALUES_OF_NUMBERS.items():
        assert one_step(loss, p, y).losses()[0] == pytest.approx(value(p - y))
    for loss, value in VALUES_OF_CLASSES.items():
        assert one_step(loss, p, y).losses()[0] == pytest.approx(value(p * (2 * y - 1)))


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_gradients_match_differences_of_losses(loss: str) -> None:
    """A tiny step changes the score by -eta l'(p), which is compared with differences of the loss."""
    h = 1e-5
    for p in (-1.7, -0.4, 0.31, 1.6):
        up, down = (one_step(loss, p + e, 1).losses()[0] for e in (h, -h))
        assert (p - one_step(loss, p, 1).coef[0, 0]) / 1e-6 == pytest.approx((up - down) / (2 * h), abs=1e-3)


def test_probabilities_sum_to_one_and_follow_scores() -> None:
    scores = np.array([[2.0, -1.0, 0.0], [-3.0, -3.0, -3.0]])
    for loss in ("log_loss", "modified_huber"):
        p = probabilities(loss, scores)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert list(p[0].argsort()) == [1, 2, 0]
        np.testing.assert_allclose(p[1], 1 / 3)
    np.testing.assert_allclose(probabilities("log_loss", np.array([np.log(3.0)])), [[0.25, 0.75]])
