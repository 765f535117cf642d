"""What both ridge estimators share: parameters, what a fit asks for, and the state of ``partial_fit``."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from dkdist.base.bad_sets import skips, tell_skipped_rows
from dkdist.base.parameter_checks import draw_seed, real_matrix
from dkdist.base.roles import Role
from dkdist.execution.blocks import Job, row_blocks
from dkdist.learners.held_out import held_out_in_stream, keys_in_stream
from dkdist.learners.ridge_sums import Sums, merge_sums
from dkdist.learners.rows import Known, no_rows
from dkdist.linear.problems import LinearLearner, feature_dtype
from dkdist.linear.ridge.ridge_pass import RidgePass, RidgeStream, RidgeTargets, jobs_of
from dkdist.linear.ridge.ridge_solving import (
    GIVEN,
    HELD_OUT,
    LEAVE_ONE_OUT,
    Ask,
    Found,
    found_from_stream,
)
from dkdist.loops.array_types import F64, I64

ALPHAS = tuple(10.0**k for k in range(-4, 4))
FEW_ROWS = 4000  # up to which leave-one-out errors choose: a held-out tenth of fewer rows is noise
SAMPLE_ROWS = 1024  # rows that probabilities are fitted on, where there are more rows than features


class RidgeLearner(LinearLearner):
    """The part of fitting that does not care what the targets mean."""

    by_sums = True
    calibrates: ClassVar[bool] = False
    """Whether values of rows by models that had not learned from them are wanted."""
    not_saved: ClassVar[tuple[str, ...]] = ("_sums",)
    """What model files leave out: predicting needs no sums."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "alphas": ["array-like", Interval(Real, 0, 1e300, closed="neither")],
        "fit_intercept": ["boolean"],
        "selection": [StrOptions({"auto", HELD_OUT, LEAVE_ONE_OUT})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["boolean", Interval(Integral, 0, None, closed="left")],
        "on_error": [StrOptions({"raise", "skip"})],
    }

    def __init__(
        self,
        alphas: ArrayLike = ALPHAS,
        *,
        fit_intercept: bool = True,
        selection: str = "auto",
        validation_fraction: float = 0.1,
        random_state: Any = None,
        verbose: bool = False,
        on_error: str = "raise",
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.selection = selection
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose
        self.on_error = on_error

    def penalties(self) -> F64:
        """The ``alphas`` to choose from, (n_alphas,); ValueError unless all are positive."""
        alphas = np.atleast_1d(real_matrix("alphas", self.alphas))
        if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0.0)).all():
            raise ValueError(f"alphas must be one or more positive numbers, found {self.alphas!r}")
        return alphas

    def _solve(self, X: Any, targets: RidgeTargets) -> Found:
        """Fit all rows in one pass, or in two where more rows than features are left out one by one."""
        for name in ("_sums", "n_samples_seen_"):
            if hasattr(self, name):
                delattr(self, name)
        ask = self._ask(len(targets.present))
        seed, offset = draw_seed(self.random_state), _offset(targets, ask)
        run = self._run(X, targets.about(offset), ask, 0, seed)
        if ask.split:
            _require_split(run.jobs, self.validation_fraction, len(targets.present))
        with run.plan(f"fit {type(self).__name__}").announced(self.verbose) as progress:
            found, skipped = run.by_rows(progress) if run.few else run.by_sums(progress)
        return self._keep(found, offset, skipped, len(targets.given))

    def _solve_more(self, X: Any, targets: RidgeTargets) -> Found:
        """Add some more rows to the sums, and solve for all."""
        before: RidgeStream | None = getattr(self, "_sums", None)
        ask = self._ask(None)
        if before is None:
            first, seed, offset = 0, draw_seed(self.random_state), _offset(targets, ask)
        else:
            first, seed, offset = before.n_rows, before.seed, before.offset
        run = self._run(X, targets.about(offset), ask, first, seed)
        with run.plan(f"fit {type(self).__name__} in part").announced(self.verbose) as progress:
            sums = run.sums(progress)
        skipped = sums.skipped
        sums = sums if before is None else merge_sums(before.sums, sums)
        sums = Sums(sums.parts, sums.sample.with_smallest_keys(SAMPLE_ROWS), no_rows())
        found = found_from_stream(sums, ask)
        self.n_samples_seen_ = first + len(targets.present)
        self._sums = RidgeStream(seed, offset, sums, self.n_samples_seen_)
        return self._keep(found, offset, skipped, len(targets.given))

    def _require_stream(self) -> bool:
        """Whether this is the first call of ``partial_fit``; ValueError where sums were not kept."""
        if self.selection == LEAVE_ONE_OUT:
            raise ValueError(
                "selection='leave-one-out' looks at every row again, which partial_fit cannot: choose 'auto' or "
                "'held-out'"
            )
        if hasattr(self, "n_samples_seen_") and not hasattr(self, "_sums"):
            raise ValueError(
                "a model file holds no sums that partial_fit could add to (they take 16 D^2 bytes): keep the model as "
                "a pickle, or call partial_fit from the first rows on, of a clone of it"
            )
        return not hasattr(self, "_sums")

    def _ask(self, n_rows: int | None) -> Ask:
        """What is asked of so many rows; None for a stream, whose rows are never seen again."""
        alphas, way = self.penalties(), str(self.selection)
        if way == "auto":
            way = LEAVE_ONE_OUT if n_rows is not None and n_rows <= FEW_ROWS else HELD_OUT
        return Ask(alphas, way if len(alphas) > 1 else GIVEN, bool(self.fit_intercept), self.calibrates)

    def _run(self, X: Any, targets: RidgeTargets, ask: Ask, first: int, seed: int) -> RidgePass:
        """A pass over rows that come after ``first`` others: which are held out, and which are sampled."""
        n, present, blocks = len(targets.given), targets.present, row_blocks(X)
        held_out, keys = np.zeros(n, np.bool_), None
        if ask.split:
            share = float(self.validation_fraction)
            held_out[present] = held_out_in_stream(first, len(present), share, (seed, Role.HELD_OUT))
        if ask.unseen:
            keys = np.full(n, np.inf)
            keys[present] = keys_in_stream(first, len(present), (seed, Role.CALIBRATION))
            keys[np.argsort(keys, kind="stable")[SAMPLE_ROWS:]] = np.inf
        known = Known(targets.given, held_out, targets.weights, keys)
        return RidgePass(blocks, jobs_of(blocks, known, skips(self)), feature_dtype(X), targets, ask)

    def _keep(self, found: Found, offset: F64, skipped: I64, n_rows: int) -> Found:
        """Keep what was found, but for coefficients; targets and values are those before the offset again."""
        self.alpha_, self.alpha_errors_ = found.alpha, found.errors
        self.skipped_ = np.sort(skipped)
        tell_skipped_rows(self.skipped_, n_rows, "left out of fit (see skipped_)")
        return replace(
            found,
            intercept=found.intercept + offset,
            unseen=found.unseen + offset,
            targets=found.targets + offset,
        )


def _offset(targets: RidgeTargets, ask: Ask) -> F64:
    mean = targets.mean()
    return mean if ask.centre else np.zeros_like(mean)


def _require_split(jobs: list[Job], fraction: float, n_rows: int) -> None:
    """Refuse to choose on no rows, or to learn from none."""
    n_held = sum(int(job.extra.known.held_out.sum()) for job in jobs)
    if not 0 < n_held < n_rows:
        raise ValueError(
            f"validation_fraction={fraction} of n_samples={n_rows} holds out {n_held or 'no'} row(s): "
            "give more rows, another fraction, or selection='leave-one-out'"
        )
