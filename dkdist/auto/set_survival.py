"""`SetSurvival`: automatic models of censored times of sample sets, with evaluation, curves and lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dkdist.auto.set_learner import SetLearner, check_weights

if TYPE_CHECKING:  # methods import the rest, as in `SetLearner`
    from dkdist._base.inputs import SetsLike
    from dkdist._base.parameter_checks import RandomStateLike
    from dkdist._numba.arrays import F64, I64
    from dkdist.linear.ridge import IncrementalRidge


class SetSurvival(SetLearner):
    """Model of the time to an event of sample sets, some of them censored, selected and evaluated as `SetClassifier`.

    A time is censored if the event had not occurred when the observation of the set ended. Representations and kernels
    are selected by ridge regression on martingale residuals (events minus their expected number without the sets).
    The selected ones are fitted by penalised Cox regression, whose log hazards are averaged.

    Parameters
    ----------
    candidates, cv, budget, n_permutations, ordered, verbose, random_state, covariates, adjust
        As in `SetClassifier`.

    Attributes
    ----------
    leaderboard_, leads_, verdicts_, p_value_, fallback_, judged_
        As in `SetClassifier`; the score is Harrell's concordance, 0.5 for the constant.
    unique_times_ : (n_times,) array
        Event times of the held-out sets, at which `predict_survival_function` changes.
    cum_baseline_hazard_ : (n_times,) array
        Cumulative hazard of a risk score of 0 at these times.
    slope_ : float
        Coefficient of the held-out log hazards in a Cox regression; risk scores are multiplied by it. Below 1 for
        models that are too confident, and 0 for the constant.
    best_estimator_, background_, ordered_, nuisance_scores_, n_features_in_
        As in `SetClassifier`; ``best_estimator_`` predicts log hazards.

    Raises
    ------
    ValueError, SampleSetError, StoreFormatError
        As in `SetClassifier`, and for times that are not positive, no event, or fewer than 2 comparable pairs.

    Notes
    -----
    The Cox regression has Breslow's treatment of equal times. Up to 4,000 sets it is exact; larger collections use the
    kernels of m = 512 to 1,024 landmark sets in a few passes. Its memory is n numbers and an m x m matrix.
    Observation must end independently of the event, given the risk score; `predict_lower_bound` states more. See
    `SetClassifier` for evaluation and cost.

    Covariates and adjusted variables enter a Cox regression, whose held-out log hazards are the offset in those on the
    adjusted rows. Predictions include the part of the covariates alone.

    References
    ----------
    Cox: Regression models and life-tables (1972). Therneau, Grambsch, Fleming: Martingale-based residuals for survival
    models (1990). Verweij, van Houwelingen: Penalized likelihood in Cox regression (1994).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=160)
    >>> sets = [rng.normal(r, 1, (50, 1)) for r in risk]
    >>> death, end = rng.exponential(np.exp(-2 * risk)), rng.exponential(3, 160)
    >>> y = np.array(list(zip(death <= end, np.minimum(death, end))), dtype=[("event", bool), ("time", float)])
    >>> model = dk.SetSurvival(["means"], random_state=0).fit(sets[:60], y[:60])
    >>> model.score(sets[60:], y[60:]) > 0.7
    True
    >>> model.predict_survival_function(sets[60:]).shape == (100, len(model.unique_times_))
    True
    >>> model.predict_lower_bound(sets[60:], coverage=0.9).shape
    (100,)
    """

    _score_name = "concordance"
    _loss_name = "squared error of martingale residuals"

    @classmethod
    def saved_attributes(cls) -> dict[str, Any]:
        """Return types of the fitted attributes."""
        from dkdist._numba.arrays import F64
        from dkdist.auto.survival_curves import SurvivalCurves

        return super().saved_attributes() | {
            "slope_": float, "curves_": SurvivalCurves, "unique_times_": F64,
            "cum_baseline_hazard_": F64,
        }  # fmt: skip

    def __init__(
        self,
        candidates: str | Sequence[Any] = "auto",
        *,
        cv: Any = "auto",
        budget: float | None = None,
        n_permutations: int | None = None,
        ordered: str | bool = "auto",
        verbose: bool | int = False,
        random_state: RandomStateLike = None,
        covariates: Sequence[str] | None = None,
        adjust: Sequence[str] | None = None,
    ) -> None:
        self.candidates = candidates
        self.cv = cv
        self.budget = budget
        self.n_permutations = n_permutations
        self.ordered = ordered
        self.verbose = verbose
        self.random_state = random_state
        self.covariates = covariates
        self.adjust = adjust

    def fit(
        self, X: SetsLike, y: Any, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> SetSurvival:
        """Select and fit a model.

        Parameters
        ----------
        X : sets
            Any collection of sets; a store is read block by block.
        y : (n,) structured array, or data frame of two columns
            As in scikit-survival: first a bool, True if the event occurred, then the time of the event, or of the end
            of the observation. Times are above 0, in any unit.
        sample_weight, groups
            As in `SetClassifier.fit`.

        Returns
        -------
        SetSurvival
            The fitted estimator.
        """
        from dkdist.auto.survival_curves import fit_curves, fit_slope
        from dkdist.linear.concordance import comparable_pairs, concordance
        from dkdist.linear.cox import Survival

        sets, y, weights, groups = self._aligned(X, y, sample_weight, groups)
        event, time = check_survival(y, len(sets))
        used = np.flatnonzero(weights)
        survival = Survival(event[used], time[used], weights[used])
        if not survival.event.any():
            raise ValueError(
                f"y must have at least 1 event; got {len(used)} censored times. Observe the sets longer."
            )
        if (n_pairs := comparable_pairs(Survival(survival.event, survival.time, np.ones(len(used))))) < 2:
            raise ValueError(
                "y must have at least 2 comparable pairs, an event and a later time; got "
                f"{n_pairs:.0f}. Add sets with events, or observe sets longer."
            )
        residuals = np.zeros((len(sets), 1))
        residuals[used, 0] = survival.null_residuals()

        def score(values: F64, rows: I64) -> float:
            return concordance(Survival(event[rows], time[rows], np.ones(len(rows))), values[:, 0])

        outer = self._learn(sets, residuals, None, weights, groups, score, (event, time)).outer
        rows = outer.positions
        held_out, predictions = Survival(event[rows], time[rows], outer.data.weights), outer.predictions
        f = (predictions.ensemble if self.fallback_ is None else predictions.baselines[self.fallback_])[:, 0]
        if not held_out.event.any():
            raise ValueError(
                f"y must have an event among the {len(rows)} held-out sets; got only censored times there. Use more "
                "sets, or cv without a budget of seconds."
            )
        self.slope_ = max(0.0, fit_slope(f, held_out))  # 0 for the constant
        self.curves_ = fit_curves(self.slope_ * f, held_out, outer.data.groups)
        self.unique_times_, self.cum_baseline_hazard_ = self.curves_.times, self.curves_.hazards
        self._notes = (
            f"{int(survival.event.sum())} of {len(used)} sets have an event. Slope of held-out log hazards: "
            f"{self.slope_:.2f} (1: calibrated).",
            *self._notes,
        )
        return self

    def check_loaded(self) -> None:
        """Raise ValueError if loaded attributes are inconsistent."""
        if self.machine_.n_outputs != 1 or self.slope_ < 0:
            raise ValueError(
                f"A survival model must have 1 output and a slope_ >= 0; got {self.machine_.n_outputs} and "
                f"{self.slope_}."
            )
        curves = self.curves_
        if not np.array_equal(self.unique_times_, curves.times) or not np.array_equal(
            self.cum_baseline_hazard_, curves.hazards
        ):
            raise ValueError("unique_times_ and cum_baseline_hazard_ must equal those of curves_.")
        super().check_loaded()

    def _learner(self, rows: Any, part: Any) -> IncrementalRidge:
        """Return a linear model of log hazards that interpolates the part on its rows."""
        from dkdist.auto.best_pipeline import linear_part
        from dkdist.linear.ridge import IncrementalRidge

        linear = part if rows is None else linear_part(rows, part)
        output = IncrementalRidge(alphas=self._best.alpha, random_state=self._seed)
        output.coef_, output.intercept_ = linear.W[0], float(linear.b[0])
        output.alpha_, output.n_features_in_ = self._best.alpha, linear.W.shape[1]
        return output

    def predict(self, X: SetsLike) -> F64:
        """Return risk scores (n,): log hazards minus their mean over the training sets. Larger means earlier events."""
        return self._values(X)[:, 0] * self.slope_

    def predict_survival_function(self, X: SetsLike) -> F64:
        """Return probabilities (n, n_times) that the event occurs after each of ``unique_times_``.

        As in scikit-survival with ``return_array=True``. Curves are calibrated on held-out sets; they are constant
        after the last event time.
        """
        risk = self.predict(X)
        return self.curves_.survival(risk)

    def predict_lower_bound(self, X: SetsLike, coverage: float = 0.9) -> F64:
        """Return lower bounds (n,) of the times of the event, exceeded with probability at least ``coverage``.

        Conformal bounds from held-out sets, weighted by inverse probabilities of censoring. They do not need a correct
        model. Censoring must be independent of the event, given the risk score, with proportional hazards. Without
        censoring there is no assumption but that sets are exchangeable. Bounds are 0 with fewer than coverage / (1
        - coverage) held-out sets, and at most the last event time.

        References
        ----------
        Vovk, Gammerman, Shafer: Algorithmic learning in a random world (2005). Candès, Lei, Ren: Conformalized
        survival analysis (2023). Robins, Rotnitzky: Recovery of information (1992).
        """
        risk = self.predict(X)
        return self.curves_.lower_bounds(risk, coverage)

    def _units(self) -> tuple[F64, F64, bool]:
        return np.array([self.slope_]), np.zeros(1), True

    def score(self, X: SetsLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return Harrell's concordance: the fraction of comparable pairs whose earlier event has the larger risk."""
        return self._scored(self._concordance, X, y, sample_weight)

    def _concordance(self, X: SetsLike, y: Any, sample_weight: Any) -> float:
        from dkdist.linear.concordance import comparable_pairs, concordance
        from dkdist.linear.cox import Survival

        risk = self.predict(X)
        event, time = check_survival(y, len(risk))
        survival = Survival(event, time, check_weights(sample_weight, len(risk)))
        if comparable_pairs(survival) == 0:
            raise ValueError(
                "y must have a comparable pair, an event and a later time; got none, so concordance is undefined."
            )
        return concordance(survival, risk)


def check_survival(y: Any, n: int) -> tuple[NDArray[np.bool_], F64]:
    """Return events (n,) and times (n,) of a structured array or a data frame; errors name the set."""
    names: Any = getattr(getattr(y, "dtype", None), "names", None) or getattr(y, "columns", ())
    if len(names) != 2:
        raise ValueError(
            "y must be a structured array of events (bool) and times (float), as in scikit-survival; got "
            f"{type(y).__name__} with {len(names)} named columns. Use np.array(list(zip(event, time)), "
            "dtype=[('event', bool), ('time', float)])."
        )
    event, time = (np.asarray(y[name]) for name in names)
    if event.shape != (n,) or time.shape != (n,):
        raise ValueError(
            f"y must have one event and time for each of the {n} sets of X; got shape {event.shape}."
        )
    if event.dtype.kind != "b":
        raise ValueError(
            f"y must have a bool in its first column, {names[0]!r}, True for events; got {event.dtype}."
        )
    if time.dtype.kind not in "iuf":
        raise ValueError(f"y must have numbers in its second column, {names[1]!r}; got {time.dtype}.")
    time = time.astype(np.float64)
    if (bad := ~(np.isfinite(time) & (time > 0))).any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"y must have finite times above 0; got {time[i]} (set {i}). Drop such sets, or measure time from an "
            "earlier start."
        )
    return event, time
