"""`SetClassifier`: automatic classification of sample sets with evaluation, probabilities and explanations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dkdist._base.inputs import SetsLike, check_sets
from dkdist._base.parameter_checks import RandomStateLike
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F64, I64
from dkdist.auto._tuning import MIN_CLASS_RATIO
from dkdist.auto.conformal import PredictionSets, fit_prediction_sets
from dkdist.auto.set_learner import SetLearner, check_weights, score_model
from dkdist.linear.calibration import (
    class_prior,
    fit_power,
    log_probabilities,
    probabilities_of,
    shrinkage,
)
from dkdist.linear.problems import as_classes
from dkdist.linear.ridge_classifier import IncrementalRidgeClassifier
from dkdist.linear.sgd_steps import signs


class SetClassifier(ClassifierMixin, SetLearner):
    """Classify sample sets: representation, kernel and penalty are selected, and the selection is evaluated.

    Compares representations that the sets allow (sizes, means, moments, Hellinger distances of densities, joint and by
    dimension and with symmetries of the axes, sliced Wasserstein distances, kernel means; edit distances and n-grams
    for strings; time warping for ordered points) with kernel ridge regression, tries bagged trees, and averages those
    that complement each other. The whole selection is repeated without each outer fold, and only predictions of these
    folds are reported.

    Parameters
    ----------
    candidates : "auto" or list, default="auto"
        Families to try: "sizes", "means", "moments", "hellinger", "marginals", "pairs", "components", "symmetric",
        "sliced-wasserstein", "kernel-mean", "modified-hausdorff", "dtw", "trees", "levenshtein", "ngrams"; or
        embeddings and other transformers of sets. Baselines are always tried.
    class_weight : None, "balanced" or dict, default=None
        As in scikit-learn; "balanced" gives all classes the same total weight.
    scoring : str, callable or None, default=None
        Score that the selection maximises and the leaderboard shows. None selects by log loss, which has less noise,
        and shows accuracy.
    cv : "auto", int or splitter, default="auto"
        Outer folds: ten up to 300 sets (up to 100 sets fewer, but five or more, if that divides the classes evenly),
        five up to 600, three up to 2,000, one hold-out beyond: a fifth of the sets, above 4,000 sets a tenth (500 to
        10,000 sets). Inner folds: ten, repeated up to five times for fewer than 1,000 sets. Both numbers fall to the
        size of the smallest class, or to the number of groups. A splitter gives the outer folds (up to
        2,000 sets); the inner folds are the remaining ones.
    budget : None, seconds, or dict of "seconds" and "memory" (bytes), default=None
        With a limit of seconds there is one outer hold-out of a fifth, which gets a third of the time. No candidate
        starts after half of the time of a selection; running ones finish. The final fit uses as many candidates and
        random features as its estimated time allows, and a warning reports if a single one takes longer. With a limit
        of memory, fewer sets are compared and fewer random features are used; blocks of sets take additional memory.
        With a limit of seconds, the selection depends on the machine.
    n_permutations : None or int, default=None
        Repeat selection and evaluation with this number of permutations of the targets for an exact ``p_value_``; each
        costs as much as the evaluation. None: a conservative p-value from the outer predictions at no cost.
    verbose : bool, default=False
        Show progress, and one line while functions are compiled.
    random_state : int, Generator or None, default=None
        Determines the folds, the sets for the selection, and random directions and features.

    Attributes
    ----------
    classes_ : (n_classes,) array
    leaderboard_ : list of dicts
        "name", "score", "std_error", "evaluation", "seconds", "n_features", "kernel", "alpha", "baseline". First the
        entries whose "evaluation" is "outer folds", best first: "this model" and the baselines. Then the other
        candidates, whose scores ("selection") come from the sets that selected them and are optimistic.
    leads_ : dict
        By baseline: the lead of the model on the outer folds, and its paired standard error.
    verdicts_ : dict
        By baseline: "better", "not better" (a lead of 0.02 in accuracy or more is excluded) or "not established".
    p_value_ : float
        Of the hypothesis that sets and targets are independent.
    fallback_ : None or str
        "constant" if no ensemble beat the constant by one standard error on the inner folds, so that the model predicts
        the constant.
    judged_ : int64 array
        Positions of the sets that the outer folds predicted.
    best_estimator_ : Pipeline
        The best single candidate as a fitted pipeline of public estimators. `save_model` saves it and the whole model.
    best_name_ : str
        Its name on the leaderboard.
    background_ : SampleSets, or None for strings
        Up to 16 of the sets, with up to 512 points each, for `explain` by dimension.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For a single class, a class of fewer than 2 sets, weights or groups of another length, unknown candidates, or a
        budget that is too small for one candidate.
    SampleSetError, StoreFormatError
        As embeddings do, naming the set.

    Warns
    -----
    UserWarning
        For fewer than 20 sets.

    Notes
    -----
    Up to 4,000 sets kernels are exact and the final model learns from all sets; candidates are compared on up to 2,000.
    More sets are learned in one pass of random features, without the hold-out that scores the model. Probabilities and
    prediction sets are calibrated on the outer predictions; with ``groups`` each group counts as much as one set.
    Standard errors are jackknife errors over sets, or over groups. Up to 512 sets are read to fit representations, up
    to 2,000 to compare them, and all to fit; a store is read block by block. Cost: that of the embeddings, and some
    200 n^3 operations for n sets compared, for each outer fold and once more. Memory: the rows of all candidates, and
    up to eight n x n matrices of float64 (32 MB each for 2,000 sets) for each of those tried at once, as many as there
    are cores, but four at most; with a budget of memory one at a time.

    References
    ----------
    Varma, Simon: Bias in error estimation when using cross-validation for model selection (2006). Caruana et al.:
    Ensemble selection from libraries of models (2004).

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
    saved_attributes: ClassVar[dict[str, Any]] = SetLearner.saved_attributes | {
        "classes_": NDArray[np.generic], "calibration_": F64, "prior_": F64, "shrinkage_": float,
        "sets_": PredictionSets, "_labels": NDArray[np.generic],
    }  # fmt: skip

    def __init__(
        self,
        candidates: str | Sequence[Any] = "auto",
        *,
        class_weight: str | dict[Any, float] | None = None,
        scoring: str | Callable[..., float] | None = None,
        cv: Any = "auto",
        budget: float | None = None,
        n_permutations: int | None = None,
        verbose: bool | int = False,
        random_state: RandomStateLike = None,
    ) -> None:
        super().__init__(
            candidates, scoring=scoring, cv=cv, budget=budget, n_permutations=n_permutations, verbose=verbose,
            random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(
        self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> SetClassifier:
        """Select and fit a model.

        Parameters
        ----------
        X : sets
            Anything that is a collection of sets; a store is read block by block.
        y : (n,) array
            Their classes.
        sample_weight : (n,) array, optional
            How much each set counts; sets of weight 0 are left out.
        groups : (n,) array, optional
            Sets of one group (a donor, a place) are left out together.

        Returns
        -------
        SetClassifier
            Itself.
        """
        X, y, sample_weight, groups = align_to_index(X, y=y, sample_weight=sample_weight, groups=groups)
        sets, labels = check_sets(X, text=True), column_or_1d(y, warn=True)
        if len(labels) != len(sets):
            raise ValueError(
                f"y must have one target for each of the {len(sets)} sets of X; got {len(labels)} targets."
            )
        self.classes_, index = as_classes(labels)
        n_classes = len(self.classes_)
        weights = check_weights(sample_weight, len(sets))
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        class_sizes = self._class_sizes(index[weights > 0])
        model, outer = self._learn(
            sets, signs(index, n_classes), index, weights, groups, self._scored_by(labels)
        )
        self._labels = labels[self._used]
        predictions, truth = outer.predictions, index[outer.positions]
        own = outer.data.weights
        self.prior_ = class_prior(truth, n_classes, own)
        power = fit_power(predictions.ensemble, truth, own)
        logits = log_softmax(power * predictions.ensemble, axis=1)
        self.calibration_ = np.asarray(model.calibration) * [power, 1.0]
        self.shrinkage_ = 0.0  # of the constant: frequencies of the classes
        if self.fallback_ is None:
            p = np.exp(logits[np.arange(len(truth)), truth])
            self.shrinkage_ = shrinkage(p, self.prior_[truth], own, outer.variance_factor)
        self.sets_ = fit_prediction_sets(self._shrunk(logits), truth, groups=outer.data.groups)
        if class_sizes.min() < MIN_CLASS_RATIO * class_sizes.max():
            self._notes = (self._imbalance_note(truth, largest(predictions.model)),)
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
        """Raise ValueError for inconsistent loaded attributes."""
        k, t = len(self.classes_), self.machine_.n_outputs
        shapes = t, len(self.sets_.by_class), self.calibration_.shape, self.classes_.shape, self._labels.shape
        if k < 2 or shapes != (1 if k == 2 else k, k, (2,), (k,), self._used.shape):
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
        output = IncrementalRidgeClassifier(alphas=self._best.alpha, random_state=self._seed)
        if rows is not None:
            return output.fit(rows, self._labels, sample_weight=self._weights)
        output.coef_, output.intercept_, output.alpha_ = part.W, part.b, self._best.alpha
        output.classes_, output.n_features_in_, output.calibration_ = (
            self.classes_,
            part.W.shape[1],
            self.calibration_,
        )
        output.multilabel_ = False
        return output

    def _scored_by(self, labels: NDArray[Any]) -> Any:
        """Return the score of predictions (n, t) for some sets."""
        classes = self.classes_
        if self.scoring is None:
            return lambda values, rows: float((classes[largest(values)] == labels[rows]).mean())
        scorer = check_scoring(_Fixed(classes), self.scoring)
        self._score_name = self.scoring if isinstance(self.scoring, str) else "score"
        return lambda values, rows: float(scorer(_Fixed(classes), values, labels[rows]))

    def decision_function(self, X: SetsLike) -> F64:
        """Return decision values (n,), positive for ``classes_[1]``, or (n, n_classes).

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
        """Return the class with the largest decision value of every set, (n,)."""
        values = self._values(X)
        return self.classes_[largest(values)]

    def predict_proba(self, X: SetsLike) -> F64:
        """Return class probabilities (n, n_classes), calibrated on held-out sets; rows sum to 1."""
        return self._probabilities(self._values(X))

    def _probabilities(self, values: F64) -> F64:
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

        The least ambiguous sets (Sadinle, Lei, Wasserman 2019), conformal by sets that were left out; never empty. With
        ``class_conditional`` that holds within every class, which costs larger sets: take it where a rare class must
        not be missed. Of .9 it takes nine sets of a class at least (coverage / (1 - coverage)), or the class is in
        every answer.
        """
        chances = self.predict_proba(X)
        return self.sets_.members(chances, coverage, class_conditional)

    def _units(self) -> tuple[F64, F64, bool]:
        t = self.machine_.n_outputs
        return np.ones(t), np.zeros(t), t == 1

    def score(self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, or the score by ``scoring``."""
        check_is_fitted(self)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        if self.scoring is None:
            return float(super().score(X, y, sample_weight))
        return score_model(self, X, y, sample_weight)


def largest(values: F64) -> I64:
    """Return class indices (n,) of decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class _Fixed(ClassifierMixin, BaseEstimator):
    """A classifier of decision values, for scorers."""

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
        return probabilities_of(X, np.append(2.0, np.zeros(X.shape[1])))
