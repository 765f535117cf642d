"""`SetClassifier`: automatic classification of sample sets with evaluation, probabilities and explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import column_or_1d

from dkdist._utils.validation import check_bool
from dkdist.auto._tuning import MIN_CLASS_RATIO
from dkdist.auto.set_learner import SetLearner

if TYPE_CHECKING:  # methods import the rest, as in `SetLearner`
    from dkdist._base.inputs import SetsLike
    from dkdist._base.parameter_checks import RandomStateLike
    from dkdist._numba.arrays import F64, I64
    from dkdist.linear.ridge_classifier import IncrementalRidgeClassifier


class SetClassifier(ClassifierMixin, SetLearner):
    """Classifier of sample sets that selects representation, kernel and penalty, and evaluates itself.

    Compares representations by kernel ridge regression, also tries bagged trees, and averages candidates that
    complement each other. Representations of points: sizes, means, moments, Hellinger distances of densities (joint, by
    dimension, or with symmetries of the axes), sliced Wasserstein distances and kernel means; in two and three
    dimensions principal axes and distance profiles, which rotations do not change; for ordered points filters of
    windows and dynamic time warping; for strings edit distances, n-grams and positions. The whole selection is repeated
    without each outer fold, and reported scores use only predictions for these folds.

    Parameters
    ----------
    candidates : "auto" or list, default="auto"
        Families to try: "sizes", "means", "moments", "hellinger", "marginals", "pairs", "components", "symmetric",
        "rotation", "sliced-wasserstein", "kernel-mean", "modified-hausdorff", "windows", "dtw" (ordered points),
        "trees", "levenshtein", "ngrams", "positions" (aligned strings: 90 % of the lengths within 10 % of the median);
        or embeddings and other transformers of sets. Baselines are always tried.
    ordinal : bool, default=False
        Whether classes are ordered, such as stages: numbers by value, other labels as an ordered pandas categorical.
        Selection by the squared error of mid-ranks, probabilities by the proportional-odds model of held-out values.
        Thresholds of accuracies on the leaderboard are fitted to the values that they classify. `summary` adds the mean
        absolute error of ranks; ``scoring`` must be None, and ``best_estimator_`` does not exist.
    class_weight : None, "balanced" or dict, default=None
        As in scikit-learn; "balanced" gives all classes the same total weight.
    scoring : str, callable or None, default=None
        Score that the selection maximises and the leaderboard shows. None: select by log loss, which is less noisy,
        and show accuracy.
    cv : "auto", int or splitter, default="auto"
        Outer folds with "auto": ten up to 300 sets, five up to 600 and three up to 2,000. Up to 100 sets the number may
        be five to nine if that divides all classes evenly. Larger collections use one hold-out: 20 % of the sets, or
        above 4,000 sets 10 % (500 to 10,000 sets). Inner folds: ten, repeated up to five times for fewer than 1,000
        sets. Both numbers are at most the size of the smallest class, or the number of groups. A splitter defines the
        outer folds (up to 2,000 sets); each selection uses the remaining folds as its inner folds.
    budget : None, seconds, or dict of "seconds" and "memory" (bytes), default=None
        A limit of seconds allows one outer hold-out of 20 %, which gets a third of the time. No candidate starts after
        half of the time of a selection; running candidates finish. The final fit uses as many candidates and random
        features as its estimated time allows, and a warning is issued if one candidate takes longer. The selection
        then depends on the speed of the machine. A limit of memory reduces the number of compared sets and of random
        features; blocks of sets take additional memory.
    n_permutations : None or int, default=None
        Number of permutations of the targets for an exact ``p_value_``; each repeats selection and evaluation. None: a
        conservative p-value from the outer predictions, at no cost.
    ordered : {"auto", True, False}, default="auto"
        Whether the points of a set have an order that candidates may use, as in a time series (windows, time warping).
        With False, permuting the points of a set changes predictions only by rounding. "auto" is True for strings, if
        such a candidate is requested, or if the correlation of points 1, 2, 4 or 8 apart in up to 64 sets is above 0.3,
        unless sets are scans of a grid: one dimension sorted in every set, with at least half of consecutive values
        equal. Points with weights have no order. `summary` states the result.
    verbose : bool, default=False
        Show progress, and a message while functions are compiled.
    random_state : int, Generator or None, default=None
        Seed of the folds, of the sets for the selection, and of random directions and features.
    covariates : list of str or None, default=None
        Names of targets of the sets, such as age and sex, that predict next to the sets; they are also a baseline,
        "covariates". X must have these targets in `fit` and in predictions.
    adjust : list of str or None, default=None
        Names of targets of the sets, such as batch and site, that are removed from the rows of all representations. See
        Notes.

    Attributes
    ----------
    classes_ : (n_classes,) array
    leaderboard_ : list of dicts
        "name", "score", "std_error", "evaluation", "seconds", "n_features", "kernel", "alpha", "baseline". First, by
        descending score, the entries with "evaluation" equal to "outer folds": "this model" and the baselines. Then the
        other candidates, with "evaluation" equal to "selection": these scores are optimistic, because the same sets
        were used to select them.
    leads_ : dict
        Lead of the model over each baseline on the outer folds, and its paired standard error.
    verdicts_ : dict
        For each baseline "better", "not better" (a lead of 0.02 in accuracy is excluded) or "not established".
    p_value_ : float
        P-value of the hypothesis that sets and targets are independent.
    fallback_ : None or str
        "constant" if the model predicts a constant, because the ensemble was not better by one standard error on the
        inner folds. With covariates "covariates", if the model predicts from these alone. Also if adjusted variables
        explain 90 % of the variance of y.
    judged_ : int64 array
        Positions of the sets with outer-fold predictions.
    best_estimator_ : Pipeline
        The best single candidate as a fitted pipeline of public estimators; `save_model` accepts it.
    best_name_ : str
        Name of the best single candidate on the leaderboard.
    ordered_ : bool
        Whether candidates could use the order of points.
    nuisance_scores_ : dict of dicts
        For each adjusted variable the score of its prediction for held-out sets: from "adjusted" rows, from
        "unadjusted" rows and by "chance". The mean recall of categories, or R^2 of numbers.
    background_ : SampleSets, or None for strings
        Up to 16 of the sets, with up to 512 points each, for `explain` by dimension.
    n_features_in_ : int

    Raises
    ------
    ValueError
        If there is only one class or a class has fewer than 2 sets, for ``ordinal`` classes of text without an order,
        if weights or groups have another length, for unknown candidates, for a requested family that cannot be tried,
        or if the budget is too small for one candidate; for covariates and adjusted variables that the sets do not
        have.
    SampleSetError, StoreFormatError
        For invalid sets or stores, as in embeddings; the message names the set.

    Warns
    -----
    UserWarning
        For fewer than 20 sets; if adjusted variables explain half of the variance of y; in predictions, for categories
        of covariates and adjusted variables that are new; and if equal sets, or sets of one group, are on both sides of
        a split (strings, and more than 4,000 sets of a store, are not compared).

    Notes
    -----
    Covariates C and adjusted variables A: text and booleans are one-hot columns. So are adjusted integers with at least
    five sets per value, because codes of batches have no order. Other numbers are standardised; missing ones are
    replaced by the mean and marked by another column. Least squares on (C, A) is removed from all rows, fitted in each
    fold on its training sets; for linear models this equals the joint fit of rows and variables. Predictions are the
    sum of the model of the rows and of a ridge regression on C, adjusted for A. New categories count as the mean. Only
    effects on means of rows are removed; ``nuisance_scores_`` show others. The p-value is that of independence of sets
    and targets given C and A. More than 4,000 sets are fitted on a random sample of 4,000.

    Up to 4,000 sets kernels are exact and the final model is fitted on all sets; at most 2,000 are used for selection.
    Larger collections are fitted in one pass with the kernels of 1,024 landmark sets, or 512 above 65,536 sets (Nyström
    approximation; Rudi, Camoriano, Rosasco 2015), without the hold-out that scores the model. They are fitted on at
    most 262,144 random sets, with at least one of each class; a quarter, at most 5,000, determines penalties and
    weights. Above 16,000 sets, distances to reference sets are only used if they reduce the loss by 10 %. More than
    2,000 strings are fitted by a linear model of up to 131,072 n-grams alone, if other candidates are significantly
    worse on 6,000 strings; its last fit uses all strings. 27,000 names take 2 s.
    Probabilities and prediction sets are calibrated on the outer predictions; with ``groups`` each group has the weight
    of one set. Standard errors are jackknife errors over sets, or over groups. Up to 512 sets are read to fit
    representations, and up to 2,000 to compare them; a store is read block by block. Cost: the
    embeddings, and about 200 n^3 operations for n compared sets, in each outer fold and in the final selection. Memory:
    the rows of all candidates, and up to eight n x n matrices of float64 (32 MB each for 2,000 sets) per concurrent
    candidate. One candidate runs per core, up to four; with a limit of memory one at a time.

    References
    ----------
    Varma, Simon: Bias in error estimation when using cross-validation for model selection (2006). Caruana et al.:
    Ensemble selection from libraries of models (2004). Rudi et al.: Less is more, Nyström computational regularization
    (2015).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> sets = [rng.normal(0, 1 + c, (40, 1)) for c in y]
    >>> model = dk.SetClassifier(random_state=0).fit(sets[:40], y[:40])
    >>> model.score(sets[40:], y[40:]) > 0.9
    True
    >>> model.verdicts_["constant"], model.p_value_ < 0.05
    ('better', True)
    """

    _score_name = "accuracy"
    _loss_name = "log loss"

    @classmethod
    def saved_attributes(cls) -> dict[str, Any]:
        """Return types of the fitted attributes."""
        from dkdist._numba.arrays import F64
        from dkdist.auto.conformal import PredictionSets

        return super().saved_attributes() | {
            "classes_": NDArray[np.generic], "calibration_": F64, "prior_": F64, "shrinkage_": float,
            "sets_": PredictionSets, "_labels": NDArray[np.generic], "_loss_name": str | None,
        }  # fmt: skip

    def __init__(
        self,
        candidates: str | Sequence[Any] = "auto",
        *,
        ordinal: bool = False,
        class_weight: str | dict[Any, float] | None = None,
        scoring: str | Callable[..., float] | None = None,
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
        self.ordinal = ordinal
        self.class_weight = class_weight
        self.scoring = scoring
        self.cv = cv
        self.budget = budget
        self.n_permutations = n_permutations
        self.ordered = ordered
        self.verbose = verbose
        self.random_state = random_state
        self.covariates = covariates
        self.adjust = adjust

    def fit(
        self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> SetClassifier:
        """Select and fit a model.

        Parameters
        ----------
        X : sets
            Any collection of sets; a store is read block by block.
        y : (n,) array
            Class labels.
        sample_weight : (n,) array, optional
            Weights of the sets; sets of weight 0 are not used.
        groups : (n,) array, optional
            Group labels; sets of one group (such as a donor or a site) are always in the same fold.

        Returns
        -------
        SetClassifier
            The fitted estimator.
        """
        from sklearn.utils.class_weight import compute_sample_weight

        from dkdist.auto import ordinal
        from dkdist.auto.conformal import fit_prediction_sets
        from dkdist.linear import calibration
        from dkdist.linear.problems import as_classes
        from dkdist.linear.sgd_steps import signs

        is_ordinal = check_bool("ordinal", self.ordinal)
        sets, y, weights, groups = self._aligned(X, y, sample_weight, groups)
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(sets):
            raise ValueError(
                f"y must have one target for each of the {len(sets)} sets of X; got {len(labels)} targets."
            )
        self.classes_, index = as_classes(labels)
        if is_ordinal:
            self.classes_, index = ordinal.ordered_classes(y, self.classes_, index)
        n_classes = len(self.classes_)
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        class_sizes = self._class_sizes(index[weights > 0])
        if is_ordinal:
            if self.scoring is not None:
                raise ValueError(f"scoring must be None with ordinal=True; got {self.scoring!r:.200}.")
            self._loss_name, score = "squared error of mid-ranks", ordinal.ordinal_score(index, n_classes)
            result = self._learn(sets, ordinal.mid_ranks(index, weights), None, weights, groups, score)
        else:
            score = self._scored_by(labels)
            result = self._learn(sets, signs(index, n_classes), index, weights, groups, score)
        self._labels = labels[self._used]
        outer = result.outer
        truth, values, weights = index[outer.positions], outer.predictions.ensemble, outer.data.weights
        self.prior_ = calibration.class_prior(truth, n_classes, weights)
        if is_ordinal:
            self.calibration_ = ordinal.fit_proportional_odds(values, truth, n_classes, weights)
            logits = ordinal.ordinal_log_probabilities(values, self.calibration_)
        else:
            power = calibration.fit_power(values, truth, weights)
            logits = log_softmax(power * values, axis=1)
            self.calibration_ = np.asarray(result.model.calibration) * [power, 1.0]
        self.shrinkage_ = 0.0  # the constant predicts class frequencies
        if self.fallback_ != "constant":
            p = np.exp(logits[np.arange(len(truth)), truth])
            self.shrinkage_ = calibration.shrinkage(p, self.prior_[truth], weights, outer.variance_factor)
        self.sets_ = fit_prediction_sets(self._shrunk(logits), truth, groups=outer.data.groups)
        if is_ordinal:
            note = ordinal.rank_error_note(truth, self._shrunk(logits).argmax(axis=1))
            self._notes = (note, *self._notes)
        elif class_sizes.min() < MIN_CLASS_RATIO * class_sizes.max():
            self._notes = (self._imbalance_note(truth, largest(outer.predictions.model)), *self._notes)
        return self

    def _class_sizes(self, index: I64) -> I64:
        """Return the number of sets of each class; ValueError for a class with fewer than 2."""
        sizes = np.bincount(index, minlength=len(self.classes_))
        if sizes.min() < 2:
            small = int(np.argmin(sizes >= 2))
            raise ValueError(
                f"y must have at least 2 sets of weight above 0 per class; got {sizes[small]} of class "
                f"{self.classes_.tolist()[small]!r}. Add sets of this class or remove it."
            )
        return sizes

    def _imbalance_note(self, truth: I64, predicted: I64) -> str:
        recalls = [(predicted[truth == c] == c).mean() for c in np.unique(truth)]
        note = (
            f"Classes are unbalanced: balanced accuracy (mean recall) of this model is {np.mean(recalls):.4f}, next to "
            f"{(predicted == truth).mean():.4f} accuracy."
        )
        advice = ' class_weight="balanced" lets each class count the same.'
        return note + (advice if self.class_weight is None else "")

    def check_loaded(self) -> None:
        """Raise ValueError if loaded attributes are inconsistent."""
        k, t = len(self.classes_), self.machine_.n_outputs
        shapes = t, len(self.sets_.by_class), self.calibration_.shape, self.classes_.shape, self._labels.shape
        n_outputs, n_numbers = (1, k) if self.ordinal else (1 if k == 2 else k, 2)
        if k < 2 or shapes != (n_outputs, k, (n_numbers,), (k,), self._used.shape):
            raise ValueError(
                f"The model has {k} classes, {t} outputs, sets of {shapes[1]} classes, a calibration of shape "
                f"{shapes[2]} and labels of shape {shapes[4]}, which are inconsistent."
            )
        if self.prior_.shape != (k,) or not (self.prior_ > 0).all() or not 0 <= self.shrinkage_ <= 1:
            raise ValueError(
                f"prior_ must be {k} probabilities and shrinkage_ between 0 and 1; got {self.prior_!r:.80} and "
                f"{self.shrinkage_}."
            )
        super().check_loaded()

    def _learner(self, rows: Any, part: Any) -> IncrementalRidgeClassifier:
        from dkdist.linear.ridge_classifier import IncrementalRidgeClassifier

        if self.ordinal:
            raise AttributeError("best_estimator_ does not exist: no public learner has ordered classes.")
        output = IncrementalRidgeClassifier(alphas=self._best.alpha, random_state=self._seed)
        if rows is not None:
            return output.fit(rows, self._labels, sample_weight=self._weights)
        output.coef_, output.intercept_, output.alpha_ = part.W, part.b, self._best.alpha
        output.n_features_in_, output.multilabel_ = part.W.shape[1], False
        output.classes_, output.calibration_ = self.classes_, self.calibration_
        return output

    def _scored_by(self, labels: NDArray[Any]) -> Any:
        """Return a function that scores predictions (n, t) of a selection of sets."""
        from sklearn.metrics import check_scoring

        classes = self.classes_
        if self.scoring is None:
            return lambda values, rows: float((classes[largest(values)] == labels[rows]).mean())
        scorer = check_scoring(_Fixed(classes), self.scoring)
        self._score_name = self.scoring if isinstance(self.scoring, str) else "score"
        return lambda values, rows: float(scorer(_Fixed(classes), values, labels[rows]))

    def decision_function(self, X: SetsLike) -> F64:
        """Return decision values (n,), positive for ``classes_[1]``, or (n, n_classes); (n,) scores of ordered classes.

        Parameters
        ----------
        X : sets

        Returns
        -------
        (n,) or (n, n_classes) float64 array
        """
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: SetsLike) -> NDArray[Any]:
        """Return the class with the largest decision value of every set, (n,); the most probable of ordered classes."""
        values = self._values(X)
        best = self._probabilities(values).argmax(axis=1) if self.ordinal else largest(values)
        return self.classes_[best]

    def predict_proba(self, X: SetsLike) -> F64:
        """Return class probabilities (n, n_classes), calibrated on held-out sets."""
        return self._probabilities(self._values(X))

    def _probabilities(self, values: F64) -> F64:
        from dkdist.auto.ordinal import ordinal_log_probabilities
        from dkdist.linear.calibration import log_probabilities

        if self.ordinal:
            return self._shrunk(ordinal_log_probabilities(values, self.calibration_))
        return self._shrunk(log_probabilities(values, self.calibration_))

    def _shrunk(self, logits: F64) -> F64:
        """Return calibrated probabilities (n, n_classes), shrunk towards the class frequencies."""
        return np.asarray(
            softmax(self.shrinkage_ * logits + (1 - self.shrinkage_) * np.log(self.prior_), axis=1)
        )

    def predict_set(
        self, X: SetsLike, coverage: float = 0.9, class_conditional: bool = False
    ) -> NDArray[np.bool_]:
        """Return prediction sets (n, n_classes) bool that contain the true class with probability ``coverage``.

        These are the least ambiguous sets (Sadinle, Lei, Wasserman 2019), calibrated by conformal prediction on
        held-out sets; they are never empty. With ``class_conditional`` the coverage is valid for every class, and
        prediction sets are larger; use it if a rare class must not be missed. A class with fewer than
        coverage / (1 - coverage) held-out sets (9 for 0.9) is then in all prediction sets.
        """
        chances = self.predict_proba(X)
        return self.sets_.members(chances, coverage, class_conditional)

    def _units(self) -> tuple[F64, F64, bool]:
        t = self.machine_.n_outputs
        return np.ones(t), np.zeros(t), t == 1

    def score(self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, or the score defined by ``scoring``."""
        return self._scored(super().score, X, y, sample_weight)


def largest(values: F64) -> I64:
    """Return class indices (n,) of decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class _Fixed(ClassifierMixin, BaseEstimator):
    """Classifier whose input X already contains the decision values; for scikit-learn scorers."""

    def __init__(self, classes: Any = ()) -> None:
        self.classes = classes
        self.classes_ = classes

    def fit(self, X: Any, y: Any) -> _Fixed:
        return self

    def decision_function(self, X: F64) -> F64:
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X: F64) -> NDArray[Any]:
        return np.asarray(self.classes_[largest(X)])

    def predict_proba(self, X: F64) -> F64:
        from dkdist.linear.calibration import probabilities_of

        return probabilities_of(X, np.append(2.0, np.zeros(X.shape[1])))
