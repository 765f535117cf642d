"""Base class of the SGD estimators: parameter limits, runs of epochs, checkpoints and single passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
from dkdist._base.parameter_checks import RandomStateLike, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64
from dkdist._runtime.blocks import Blocks, row_blocks
from dkdist._runtime.cache import cached_blocks
from dkdist._runtime.checkpoint import Checkpoint, digest
from dkdist._runtime.map_reduce import map_blocks
from dkdist._runtime.process import warn
from dkdist._runtime.run import plan_cache
from dkdist.linear._tuning import (
    MAX_UNTRAINED_STEPS,
    MIN_AUTO_STEPS,
    MIN_LOSS_REDUCTION,
    N_STEP_SIZE_ROWS,
)
from dkdist.linear.epochs import (
    BatchSampler,
    StoppingRule,
    TrainingConfig,
    TrainingState,
    choose_materialization,
    choose_n_lanes,
    run_epochs,
)
from dkdist.linear.held_out import choose_held_out_present
from dkdist.linear.lanes import run_lanes
from dkdist.linear.problems import LinearLearner, as_problem, feature_dtype
from dkdist.linear.rows import RowLabels, check_block, exclude, n_blocks_to_shuffle
from dkdist.linear.sgd_steps import LOSSES, Objective, State, constant_loss, step_size

# Upper limits detect typing errors. 1e300 times MAX_SCORE of _tuning.py, the largest score, is a finite float64.
MAX_EPOCHS, MAX_PARAMETER = 10**6, 1e300


class IncrementalSGD(LinearLearner):
    """Base class of the SGD estimators, with fits to encoded targets."""

    by_sums = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alpha": [Interval(Real, 0, MAX_PARAMETER, closed="left")],
        "eta0": [StrOptions({"auto"}), Interval(Real, 0, MAX_PARAMETER, closed="neither")],
        "n_epochs": [StrOptions({"auto"}), Interval(Integral, 1, MAX_EPOCHS, closed="both")],
        "n_lanes": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
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
        n_lanes: int | str = 1,
        average: bool = True,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        checkpoint: str | PathLike[str] | None = None,
        cache: str | PathLike[str] | bool = "auto",
        random_state: RandomStateLike = None,
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
        """Fit from scratch, or resume from the checkpoint of the same fit.

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
        """Unit of the SGD loss, in squared units of the targets."""
        return 1.0

    def _problem(self, y: NDArray[Any], sample_weight: Any) -> tuple[NDArray[Any], F64 | None, int]:
        """Return encoded targets, weights with mean 1 (None: all 1), and the number of classes."""
        raise NotImplementedError

    def _train(self, X: Any, targets: NDArray[Any], weights: F64 | None, n_classes: int) -> TrainingState:
        """Run all epochs that are not in the checkpoint, and store the model; ``weights`` have mean 1."""
        if self.patience is not None and self.validation_fraction == 0.0:
            raise ValueError(
                f"patience={self.patience} requires held-out rows; got validation_fraction=0. Set validation_fraction "
                "(for example 0.1) or patience=None."
            )
        blocks, dtype = row_blocks(X), feature_dtype(X)
        checkpoint = self._open_checkpoint(blocks, X, targets, weights)
        saved = checkpoint.load() if checkpoint is not None else None
        metadata: dict[str, Any] = saved[1] if saved else {"seed": draw_seed(self.random_state)}
        if saved and checkpoint is not None:
            _check_metadata(checkpoint, metadata)
        if not saved:
            metadata["eta0"] = self._step(blocks, dtype, metadata["seed"], weights)
        seed, objective = metadata["seed"], self.objective(metadata["eta0"], n_classes)
        labels = RowLabels(targets, np.zeros(len(targets), np.bool_), weights)
        if self.validation_fraction:
            fraction, classes = float(self.validation_fraction), targets if n_classes else None
            held_out = choose_held_out_present(labels.present, fraction, (seed, RngStream.HELD_OUT), classes)
            labels = labels._replace(held_out=held_out)
        n_shuffled = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
        if "n_lanes" not in metadata:
            n_lanes = choose_n_lanes(blocks, n_shuffled, dtype.itemsize)
            metadata["n_lanes"] = n_lanes if self.n_lanes == "auto" else int(self.n_lanes)
        stopping = StoppingRule.from_params(self.n_epochs, self.patience, _n_training_rows(labels))
        state = TrainingState(State.start(objective.n_outputs, blocks.n_columns, dtype))
        if saved and checkpoint is not None:
            state = _restore(checkpoint, state, *saved)
        cache_plan = plan_cache(blocks, self.cache, stopping.max_epochs)
        with cached_blocks(blocks, cache_plan) if cache_plan.location else nullcontext(blocks) as cached:
            epoch_blocks = choose_materialization(cached, metadata["n_lanes"])
            sampler = BatchSampler(
                epoch_blocks, labels, seed, n_shuffled, metadata["n_lanes"], should_skip(self)
            )
            config = TrainingConfig(sampler, objective, dtype, stopping, self._loss_unit)
            plan = cache_plan.add_to(config.plan(f"fit {type(self).__name__}", stopping.max_epochs))
            with plan.run(self.verbose) as progress, self._errors_in_row_order(blocks, dtype):
                final_state = run_epochs(
                    config, state, progress, lambda reached: _save(checkpoint, reached, metadata), run_lanes
                )
                reason = progress.pop_reason()
        self._finish(config, final_state, reason)
        self._warn_if_untrained(blocks, config, final_state)
        return final_state

    def _warn_if_untrained(self, blocks: Blocks, config: TrainingConfig, final_state: TrainingState) -> None:
        """Warn if the model is no better than a constant and steps are too short for half of the columns."""
        objective, labels = config.objective, config.sampler.labels
        trained = labels.part(np.flatnonzero(labels.present & ~labels.held_out))
        constant = constant_loss(
            objective.loss, trained.targets, trained.weights, objective.n_classes, objective.epsilon
        )
        if not final_state.losses or final_state.losses[-1] <= (1 - MIN_LOSS_REDUCTION) * constant:
            return
        block = int(np.argmax(np.diff(blocks.bounds)))
        deviation_of_block = partial(_median_spread, config.dtype, should_skip(self))
        deviation = map_blocks(
            blocks, deviation_of_block, _block_shapes(blocks), only=[block], label="sgd_spread", quiet=True
        )[0]
        n_steps = _n_training_rows(labels) * final_state.epoch
        # a column of variance v needs about 1 / (eta v) steps, with eta for unit curvature
        eta = objective.eta0 / LOSSES[objective.loss].step
        if eta * deviation**2 * max(n_steps, MIN_AUTO_STEPS) < MAX_UNTRAINED_STEPS:
            warn(
                f"SGD reduced the training loss by less than {MIN_LOSS_REDUCTION:.0%} of a constant's. Steps of "
                f"eta0={objective.eta0:.3g} are too short for columns of standard deviation {deviation:.3g}. "
                "Standardize the features (mean 0, variance 1), or use IncrementalRidge or IncrementalRidgeClassifier."
            )

    def _finish(self, config: TrainingConfig, final_state: TrainingState, reason: str) -> None:
        """Set the fitted attributes; ``reason`` is the error of the first skipped set, if known."""
        labels = config.sampler.labels
        require_rows(_n_training_rows(labels) - _n_training_rows(labels.part(final_state.skipped)))
        self.set_model(final_state.model)
        self._stream = (config.sampler.seed, config.objective, final_state.model, final_state.epoch)
        self.eta0_, self.n_iter_, self.n_epochs_ = config.objective.eta0, final_state.epoch, final_state.epoch
        self.n_lanes_ = config.sampler.n_lanes
        self.skipped_ = final_state.skipped
        fate = "left out of fit (see skipped_)"
        warn_nonfinite_rows(final_state.skipped, len(labels.targets), fate, reason)

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
            **{k: _to_json(v) for k, v in parameters.items()},
            "features": digest(X) if blocks.local else blocks.name,
            "shape": [blocks.n_rows, blocks.n_columns],
            "dtype": str(X.dtype),
            "blocks": digest(blocks.bounds),
            "targets": digest(targets),
            "weights": None if weights is None else digest(weights),
        }
        return Checkpoint(self.checkpoint, fingerprint)

    def _step(self, blocks: Blocks, dtype: np.dtype[Any], seed: int, weights: F64 | None) -> float:
        """Return ``eta0``, or estimate it from one random block with at least one finite row.

        A weight c multiplies the curvature of a row, so R^2 is multiplied by E c^2 / E c.
        """
        if self.eta0 != "auto":
            return float(self.eta0)
        curvature_ratio = 1.0 if weights is None else float(weights @ weights / weights.sum())
        filled = np.flatnonzero(np.diff(blocks.bounds))
        rng = np.random.default_rng((seed, RngStream.ROW_ORDER))
        sample = partial(_step_of_block, self.loss, dtype, should_skip(self))
        shapes = _block_shapes(blocks)
        for i in chain([rng.choice(filled)], rng.permutation(filled)):
            with self._errors_in_row_order(blocks, dtype):
                step = map_blocks(blocks, sample, shapes, only=[int(i)], label="sgd_step_size", quiet=True)[0]
            if step is not None:
                return float(step) / curvature_ratio
        raise no_finite_rows_error()

    @contextmanager
    def _errors_in_row_order(self, blocks: Blocks, dtype: np.dtype[Any]) -> Iterator[None]:
        """Replace the error of the first invalid row in training order by that of the first one in X.

        This takes a further pass, up to the first block with an invalid row.
        """
        try:
            yield
        except ValueError:
            work = partial(_require_valid, dtype, should_skip(self))
            try:
                map_blocks(blocks, work, _block_shapes(blocks), label="sgd_errors", quiet=True)
            except ValueError as error:  # internal frames would hide the message
                raise error.with_traceback(None) from error.__cause__
            raise

    def settle_targets(
        self, y: NDArray[Any], classes: NDArray[Any] | None, weights: F64 | None = None
    ) -> tuple[NDArray[Any], int]:
        """Return encoded targets and the number of classes (0 for regression); store the encoding."""
        raise NotImplementedError

    def set_model(self, state: State) -> None:
        """Set the coefficients from a state."""
        raise NotImplementedError

    def objective(self, eta0: float, n_classes: int) -> Objective:
        """Return the objective with step ``eta0``."""
        return Objective(self.loss, float(self.alpha), eta0, n_classes, bool(self.average))

    def _train_once(
        self, X: Any, targets: NDArray[Any], weights: F64 | None, n_classes: int, reset: bool
    ) -> None:
        """Run one pass over the rows, starting from the state of earlier calls."""
        blocks, dtype = row_blocks(X), feature_dtype(X)
        if reset:
            seed = draw_seed(self.random_state)
            objective = self.objective(self._step(blocks, dtype, seed, weights), n_classes)
            model, n_epochs = State.start(objective.n_outputs, blocks.n_columns, dtype), 0
        else:
            seed, objective, model, n_epochs = self._stream
        dtype = model.coef.dtype
        n_shuffled = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
        labels = RowLabels(targets, np.zeros(len(targets), np.bool_), weights)
        sampler = BatchSampler(
            choose_materialization(blocks, 1), labels, seed, n_shuffled, skip=should_skip(self)
        )
        config = TrainingConfig(sampler, objective, dtype, StoppingRule(1, 1))
        plan = config.plan(f"fit {type(self).__name__} in part", 1)
        with plan.run(self.verbose) as progress, self._errors_in_row_order(blocks, dtype):
            final_state = run_epochs(
                config, TrainingState(model, epoch=n_epochs), progress, lambda _: None, run_lanes
            )
            reason = progress.pop_reason()
        self._finish(config, final_state, reason)


def _n_training_rows(labels: RowLabels) -> int:
    return int(np.count_nonzero(labels.present & ~labels.held_out))


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(_to_json(label)): _to_json(weight) for label, weight in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _step_of_block(
    loss: str, dtype: np.dtype[Any], skip: bool, block: Any, first_row_and_shape: tuple[int, tuple[int, int]]
) -> float | None:
    X, invalid = check_block(block, dtype, *first_row_and_shape, skip=skip)
    if len(invalid):
        X = X[exclude(np.arange(len(X)), invalid)]
    return step_size(loss, X[:N_STEP_SIZE_ROWS]) if len(X) else None


def _require_valid(
    dtype: np.dtype[Any], skip: bool, block: Any, first_row_and_shape: tuple[int, tuple[int, int]]
) -> None:
    check_block(block, dtype, *first_row_and_shape, skip=skip)


def _block_shapes(blocks: Blocks) -> list[tuple[int, tuple[int, int]]]:
    """Return (first row, shape) of every block."""
    slices = map(blocks.rows, range(len(blocks)))
    return [(rows.start, (rows.stop - rows.start, blocks.n_columns)) for rows in slices]


def _median_spread(
    dtype: np.dtype[Any], skip: bool, block: Any, first_row_and_shape: tuple[int, tuple[int, int]]
) -> float:
    """Return the median of positive column standard deviations in the first rows; infinity if all are constant."""
    X, invalid = check_block(block, dtype, *first_row_and_shape, skip=skip)
    sample = X[exclude(np.arange(len(X)), invalid)][:N_STEP_SIZE_ROWS]
    if len(sample) == 0:
        return np.inf
    deviations = sample.std(axis=0, dtype=np.float64)
    varying = deviations[deviations > 0]
    return float(np.median(varying)) if len(varying) else np.inf


def _save(checkpoint: Checkpoint | None, state: TrainingState, metadata: dict[str, Any]) -> None:
    if checkpoint is None:
        return
    arrays = state.model.arrays() | {"skipped": state.skipped}
    if state.velocity is not None:
        arrays["velocity"] = state.velocity
    position = {"epoch": state.epoch, "done": state.n_batches}
    curves = {"losses": state.losses, "held_out_losses": state.held_out_losses}
    checkpoint.save(arrays, metadata | position | curves)


def _check_metadata(checkpoint: Checkpoint, metadata: dict[str, Any]) -> None:
    """Raise ValueError unless the checkpoint metadata are consistent with this run."""
    for name in ("seed", "epoch", "done", "eta0"):
        value: Any = metadata.get(name)
        if type(value) is not (float if name == "eta0" else int) or not 0 <= value < np.inf:
            raise checkpoint.damaged(f"its {name} is {value!r:.80}")
    n_lanes = metadata.get("n_lanes", 1)  # checkpoints of earlier versions do not contain it
    if type(n_lanes) is not int or n_lanes < 1:
        raise checkpoint.damaged(f"its n_lanes is {n_lanes!r:.80}")
    for name in ("losses", "held_out_losses"):
        if type(metadata.get(name)) is not list:
            raise checkpoint.damaged(f"its {name} are {metadata.get(name)!r:.80}")
    invalid = [v for name in ("losses", "held_out_losses") for v in metadata[name] if type(v) is not float]
    if invalid or not len(metadata["losses"]) == len(metadata["held_out_losses"]) == metadata["epoch"]:
        raise checkpoint.damaged(f"its losses are not those of {metadata['epoch']} epochs")


def _restore(
    checkpoint: Checkpoint, state: TrainingState, arrays: dict[str, NDArray[Any]], metadata: dict[str, Any]
) -> TrainingState:
    """Return the saved state; ValueError unless its arrays have the same dtypes and shapes as in ``state``."""
    K, D = state.model.coef.shape
    expected = {name: (array.dtype, array.shape) for name, array in state.model.arrays().items()}
    expected["velocity"] = np.dtype(np.float64), (K, D + 1)
    expected["skipped"] = np.dtype(np.int64), np.shape(arrays.get("skipped", 0))
    for name in expected.keys() | arrays.keys():
        array = arrays.get(name)
        if array is None and name == "velocity":
            continue
        if array is None or name not in expected or (array.dtype, array.shape) != expected[name]:
            raise checkpoint.damaged(f"its array {name!r:.80} does not fit this run")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise checkpoint.damaged(f"its array {name!r} is not finite")
    velocity, skipped = arrays.pop("velocity", None), arrays.pop("skipped")
    if skipped.ndim != 1 or (np.diff(skipped) <= 0).any():
        raise checkpoint.damaged("its array 'skipped' is not a sorted list of rows")
    curves = tuple(metadata["losses"]), tuple(metadata["held_out_losses"])
    return TrainingState(State(**arrays), velocity, metadata["epoch"], metadata["done"], *curves, skipped)
