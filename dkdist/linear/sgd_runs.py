"""What both SGD estimators share: limits of parameters, a run of epochs, its checkpoint, single passes."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import chain
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor
from sklearn.utils._param_validation import Interval, Options, StrOptions

from dkdist._base.invalid_sets import no_finite_rows_error, require_rows, should_skip, warn_nonfinite_rows
from dkdist._base.parameter_checks import draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist._runtime.blocks import Blocks, row_blocks
from dkdist._runtime.cache import cached_blocks
from dkdist._runtime.checkpoint import Checkpoint, digest
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.process import warn
from dkdist._runtime.run import plan_cache
from dkdist.linear.epochs import (
    LEAST_STEPS,
    BatchSampler,
    Stopping,
    TrainingConfig,
    TrainingState,
    choose_materialization,
    run_epochs,
)
from dkdist.linear.held_out import held_out_among
from dkdist.linear.problems import LinearLearner, as_problem, feature_dtype
from dkdist.linear.rows import RowLabels, checked, n_blocks_to_shuffle, without
from dkdist.linear.sgd_steps import LOSSES, Objective, State, constant_loss, step_size

MOST_EPOCHS = 10**6
MOST_REAL = 1e300  # of a parameter
MIN_LOSS_REDUCTION = (
    0.2  # of the loss of a constant; losses are measured on 128 rows of each batch, hence noisy
)
MAX_UNTRAINED_STEPS = 0.1  # in units of 1 / (eta v) for variance v: a column is not learned in fewer
SAMPLE_ROWS = 1024  # rows that the default step is estimated from


class IncrementalSGD(LinearLearner):
    """The part of fitting that does not care what the targets mean."""

    by_sums = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [Interval(Real, 0, MOST_REAL, closed="left")],
        "eta0": [StrOptions({"auto"}), Interval(Real, 0, MOST_REAL, closed="neither")],
        "n_epochs": [StrOptions({"auto"}), Interval(Integral, 1, MOST_EPOCHS, closed="both")],
        "n_lanes": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "patience": [None, Interval(Integral, 1, None, closed="left")],
        "checkpoint": [None, str, PathLike],
        "cache": [str, PathLike, Options(bool, {False})],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
    }

    def __init__(
        self,
        loss: str = "log_loss",
        *,
        alpha: float = 1e-6,
        eta0: float | str = "auto",
        n_epochs: int | str = "auto",
        n_lanes: int = 1,
        average: bool = True,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        cache: str | PathLike[str] | bool = "auto",
        random_state: Any = None,
        verbose: bool = False,
        on_error: str = "raise",
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.eta0 = eta0
        self.n_epochs = n_epochs
        self.n_lanes = n_lanes
        self.average = average
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.checkpoint = checkpoint
        self.cache = cache
        self.random_state = random_state
        self.verbose = verbose
        self.on_error = on_error

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit from scratch, or from the checkpoint of this very fit; returns itself.

        Parameters
        ----------
        X : ndarray or dask array of shape (n, n_features)
        y : array-like or dask collection of shape (n,)
        sample_weight : array-like of shape (n,) or None
        """
        self._validate_params()
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        X, y = as_problem(self, X, y, numeric=is_regressor(self))
        end = self._train(X, *self._problem(y, sample_weight))
        self.loss_curve_ = self._loss_unit * np.array(end.losses)
        self.validation_loss_curve_ = self._loss_unit * np.array(end.held_out_losses)
        return self

    @property
    def _loss_unit(self) -> float:
        """A loss of one of descent, in the units of the targets."""
        return 1.0

    def _problem(self, y: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], F64 | None, int]:
        """Targets as descent takes them, weights of mean one (None for none), and the number of classes."""
        raise NotImplementedError

    def _train(self, X: Any, targets: NDArray[Any], weights: F64 | None, n_classes: int) -> TrainingState:
        """Run all epochs, or what a checkpoint leaves of them, and keep the model; ``weights`` have mean one."""
        if self.patience is not None and self.validation_fraction == 0.0:
            raise ValueError(
                f"patience={self.patience} stops on held-out rows but validation_fraction=0 holds out none: "
                "set validation_fraction (0.1 is usual), or patience=None"
            )
        blocks, dtype = row_blocks(X), feature_dtype(X)
        checkpoint = self._open_checkpoint(blocks, X, targets, weights)
        saved = checkpoint.load() if checkpoint is not None else None
        notes: dict[str, Any] = saved[1] if saved else {"seed": draw_seed(self.random_state)}
        if saved and checkpoint is not None:
            _require_notes(checkpoint, notes)
        if not saved:
            notes["eta0"] = self._step(blocks, dtype, notes["seed"], weights)
        seed, objective = notes["seed"], self.objective(notes["eta0"], n_classes)
        known = RowLabels(targets, np.zeros(len(targets), np.bool_), weights)
        if self.validation_fraction:
            share, classes = float(self.validation_fraction), targets if n_classes else None
            held_out = held_out_among(known.present, share, (seed, RngStream.HELD_OUT), classes)
            known = known._replace(held_out=held_out)
        n_mixed = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
        stopping = Stopping.of(self.n_epochs, self.patience, _n_trained(known))
        start = TrainingState(State.start(objective.n_outputs, blocks.n_columns, dtype))
        if saved and checkpoint is not None:
            start = _restored(checkpoint, start, *saved)
        keep = plan_cache(blocks, self.cache, stopping.most)
        with cached_blocks(blocks, keep) if keep.location else nullcontext(blocks) as found:
            taken = choose_materialization(found, self.n_lanes)
            order = BatchSampler(taken, known, seed, n_mixed, self.n_lanes, should_skip(self))
            course = TrainingConfig(order, objective, dtype, stopping)
            plan = keep.add_to(course.plan(f"fit {type(self).__name__}", stopping.most))
            with plan.run(self.verbose) as progress:
                end = run_epochs(course, start, progress, lambda position: _save(checkpoint, position, notes))
        self._finish(course, end)
        self._warn_if_untrained(blocks, course, end)
        return end

    def _warn_if_untrained(self, blocks: Blocks, course: TrainingConfig, end: TrainingState) -> None:
        """Warn if the loss is that of a constant and the steps are too short for the scale of half of the columns."""
        objective, known = course.objective, course.order.known
        part = known.part(np.flatnonzero(known.present & ~known.held_out))
        constant = constant_loss(
            objective.loss, part.targets, part.weights, objective.n_classes, objective.epsilon
        )
        if not end.losses or end.losses[-1] <= (1 - MIN_LOSS_REDUCTION) * constant:
            return
        block = int(np.argmax(np.diff(blocks.bounds)))
        spread = partial(_median_spread, course.dtype, should_skip(self))
        deviation = map_blocks(blocks, spread, _places(blocks), only=[block], label="sgd_spread")[0]
        n_steps = _n_trained(known) * end.epoch
        # a column of variance v is learned in about 1 / (eta v) steps, with eta for unit curvature
        eta = objective.eta0 / LOSSES[objective.loss].step
        if eta * deviation**2 * max(n_steps, LEAST_STEPS) < MAX_UNTRAINED_STEPS:
            warn(
                f"SGD reduced the training loss by less than {MIN_LOSS_REDUCTION:.0%} of a constant's. Steps of "
                f"eta0={objective.eta0:.3g} are too short for columns of standard deviation {deviation:.3g}. "
                "Standardize the features (mean 0, variance 1), or use IncrementalRidge or IncrementalRidgeClassifier."
            )

    def _finish(self, course: TrainingConfig, end: TrainingState) -> None:
        """Keep what a run has settled, unless it found nothing to learn from."""
        known = course.order.known
        require_rows(_n_trained(known) - _n_trained(known.part(end.skipped)))
        self.set_model(end.state)
        self._stream = (course.order.seed, course.objective, end.state, end.epoch)
        self.eta0_, self.n_iter_, self.n_epochs_ = course.objective.eta0, end.epoch, end.epoch
        self.skipped_ = end.skipped
        warn_nonfinite_rows(end.skipped, len(known.targets), "left out of fit (see skipped_)")

    def _open_checkpoint(
        self, blocks: Blocks, X: Any, targets: NDArray[Any], weights: F64 | None
    ) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        parameters = {
            k: v for k, v in self.get_params().items() if k not in ("checkpoint", "verbose", "cache")
        }
        if not isinstance(self.random_state, (int, np.integer)):
            parameters["random_state"] = type(self.random_state).__name__
        fingerprint = {
            "estimator": type(self).__name__,
            **{k: _plain(v) for k, v in parameters.items()},
            "features": digest(X) if blocks.local else blocks.name,
            "shape": [blocks.n_rows, blocks.n_columns],
            "dtype": str(X.dtype),
            "blocks": digest(blocks.bounds),
            "targets": digest(targets),
            "weights": None if weights is None else digest(weights),
        }
        return Checkpoint(self.checkpoint, fingerprint)

    def _step(self, blocks: Blocks, dtype: np.dtype[Any], seed: int, weights: F64 | None) -> float:
        """``eta0``, or the loss's own for the rows of one block, chosen by the seed; of another if all were skipped.

        A weight c makes a row's curvature c times as large: R^2 is multiplied by E c^2 / E c.
        """
        if self.eta0 != "auto":
            return float(self.eta0)
        longer = 1.0 if weights is None else float(weights @ weights / weights.sum())
        filled = np.flatnonzero(np.diff(blocks.bounds))
        rng = np.random.default_rng((seed, RngStream.ROW_ORDER))
        sample = partial(_sampled_step, self.loss, dtype, should_skip(self))
        shapes = _places(blocks)
        for i in chain([rng.choice(filled)], rng.permutation(filled)):
            step = map_blocks(blocks, sample, shapes, only=[int(i)], label="sgd_step_size")[0]
            if step is not None:
                return float(step) / longer
        raise no_finite_rows_error()

    def settle_targets(
        self, y: NDArray[Any], classes: NDArray[Any] | None, weights: F64 | None = None
    ) -> tuple[NDArray[Any], int]:
        """Targets as descent takes them, and the number of classes (0 for numbers); what they mean is kept."""
        raise NotImplementedError

    def set_model(self, state: State) -> None:
        """Predict with the model of a state."""
        raise NotImplementedError

    def objective(self, eta0: float, n_classes: int) -> Objective:
        """What these parameters minimise, with a step."""
        return Objective(self.loss, float(self.alpha), eta0, n_classes, bool(self.average))

    def _train_once(
        self, X: Any, targets: NDArray[Any], weights: F64 | None, n_classes: int, reset: bool
    ) -> None:
        """One pass over a batch of rows, from the state that earlier calls have left."""
        blocks, dtype = row_blocks(X), feature_dtype(X)
        if reset:
            seed = draw_seed(self.random_state)
            objective = self.objective(self._step(blocks, dtype, seed, weights), n_classes)
            state, calls = State.start(objective.n_outputs, blocks.n_columns, dtype), 0
        else:
            seed, objective, state, calls = self._stream
        dtype = state.coef.dtype
        mix = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
        known = RowLabels(targets, np.zeros(len(targets), np.bool_), weights)
        order = BatchSampler(choose_materialization(blocks, 1), known, seed, mix, skip=should_skip(self))
        course = TrainingConfig(order, objective, dtype, Stopping(1, 1))
        with course.plan(f"fit {type(self).__name__} in part", 1).run(self.verbose) as progress:
            end = run_epochs(course, TrainingState(state, epoch=calls), progress, lambda position: None)
        self._finish(course, end)


def _n_trained(known: RowLabels) -> int:
    """Rows that are trained on."""
    return int(np.count_nonzero(known.present & ~known.held_out))


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, dict):
        return {str(_plain(label)): _plain(weight) for label, weight in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _sampled_step(
    loss: str, dtype: np.dtype[Any], skip: bool, block: Any, place: tuple[int, tuple[int, int]]
) -> float | None:
    X, bad = checked(block, dtype, *place, skip=skip)
    if len(bad):
        X = X[without(np.arange(len(X)), bad)]
    return step_size(loss, X[:SAMPLE_ROWS]) if len(X) else None


def _places(blocks: Blocks) -> list[tuple[int, tuple[int, int]]]:
    """The first row and the shape of every block."""
    every = map(blocks.rows, range(len(blocks)))
    return [(rows.start, (rows.stop - rows.start, blocks.n_columns)) for rows in every]


def _median_spread(dtype: np.dtype[Any], skip: bool, block: Any, place: tuple[int, tuple[int, int]]) -> float:
    """Return the median standard deviation > 0 of the columns in the first rows; infinity if all are constant."""
    X, bad = checked(block, dtype, *place, skip=skip)
    sample = X[without(np.arange(len(X)), bad)][:SAMPLE_ROWS]
    if len(sample) == 0:
        return np.inf
    deviations = sample.std(axis=0, dtype=np.float64)
    varying = deviations[deviations > 0]
    return float(np.median(varying)) if len(varying) else np.inf


def _save(checkpoint: Checkpoint | None, position: TrainingState, notes: dict[str, Any]) -> None:
    if checkpoint is None:
        return
    arrays = position.state.arrays() | {"skipped": position.skipped}
    if position.velocity is not None:
        arrays["velocity"] = position.velocity
    place = {"epoch": position.epoch, "done": position.done}
    curves = {"losses": position.losses, "held_out_losses": position.held_out_losses}
    checkpoint.save(arrays, notes | place | curves)


def _require_notes(checkpoint: Checkpoint, notes: dict[str, Any]) -> None:
    """Refuse notes of a saved position that no run has made."""
    for name in ("seed", "epoch", "done", "eta0"):
        value: Any = notes.get(name)
        if type(value) is not (float if name == "eta0" else int) or not 0 <= value < np.inf:
            raise checkpoint.damaged(f"its {name} is {value!r:.80}")
    for name in ("losses", "held_out_losses"):
        if type(notes.get(name)) is not list:
            raise checkpoint.damaged(f"its {name} are {notes.get(name)!r:.80}")
    odd = [v for name in ("losses", "held_out_losses") for v in notes[name] if type(v) is not float]
    if odd or not len(notes["losses"]) == len(notes["held_out_losses"]) == notes["epoch"]:
        raise checkpoint.damaged(f"its losses are not those of {notes['epoch']} epochs")


def _restored(
    checkpoint: Checkpoint, start: TrainingState, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]
) -> TrainingState:
    """The saved position; ValueError unless its arrays are those that this run has at ``start``."""
    K, D = start.state.coef.shape
    expected = {name: (array.dtype, array.shape) for name, array in start.state.arrays().items()}
    expected["velocity"] = np.dtype(np.float64), (K, D + 1)
    expected["skipped"] = np.dtype(np.int64), np.shape(arrays.get("skipped", 0))
    for name in expected.keys() | arrays.keys():
        found = arrays.get(name)
        if found is None and name == "velocity":
            continue
        if found is None or name not in expected or (found.dtype, found.shape) != expected[name]:
            raise checkpoint.damaged(f"its array {name!r:.80} is not that of this run")
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise checkpoint.damaged(f"its array {name!r} is not finite")
    velocity, skipped = arrays.pop("velocity", None), arrays.pop("skipped")
    if skipped.ndim != 1 or (np.diff(skipped) <= 0).any():
        raise checkpoint.damaged("its array 'skipped' is no list of rows")
    curves = tuple(notes["losses"]), tuple(notes["held_out_losses"])
    return TrainingState(State(**arrays), velocity, notes["epoch"], notes["done"], *curves, skipped)
