"""`SetClassifier`: classes of sample sets with no choice to make, and how sure, and why."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dkdist.automatic.set_learner import SetLearner, as_weights
from dkdist.base.inputs import check_sets
from dkdist.base.row_ids import in_row_order
from dkdist.learners.calibration import calibrated, probabilities_of
from dkdist.learners.descent.sgd_steps import signs
from dkdist.learners.uncertainty.prediction_sets import PredictionSets, fit_prediction_sets
from dkdist.linear.problems import as_classes
from dkdist.linear.ridge.ridge_classifier import IncrementalRidgeClassifier
from dkdist.loops.array_types import F64, I64


class SetClassifier(ClassifierMixin, SetLearner):
    """Classify sample sets with no choice to make: representation, kernel and penalty are chosen by cross-validation.

    Tries what the sets allow (sizes, means, moments, Hellinger distances of densities, joint and by dimension and with
    symmetries of the axes, sliced Wasserstein distances, kernel means; edit distances for strings; time warping for
    points in order) with kernel ridge regression, and averages those that complete each other.

    Parameters
    ----------
    candidates : "auto" or list, default="auto"
        Families to try: "hellinger", "marginals", "pairs", "components", "symmetric", "moments", "sliced-wasserstein",
        "kernel-mean", "modified-hausdorff", "dtw", "levenshtein"; or embeddings of your own. Baselines are always
        tried.
    class_weight : None, "balanced" or dict, default=None
        As in scikit-learn: "balanced" lets every class count the same, however many sets it has.
    scoring : str, callable or None, default=None
        What candidates are chosen by and the leaderboard shows. None chooses by log loss, which is steadier, and
        shows accuracy.
    cv : "auto", int or splitter, default="auto"
        "auto" is ten folds, repeated up to five times for fewer than a thousand sets.
    budget : None, seconds, or dict of "seconds" and "memory" (bytes), default=None
        No candidate is begun when half of the time is gone; what is running comes to its end. The final fit takes as
        many candidates and random features as its guessed time allows, and a warning says so if one alone will take
        longer. Where memory is short fewer sets are compared and fewer random features made; blocks of sets come on
        top. With a budget of time, what is chosen depends on the machine.
    random_state : int, Generator or None, default=None
        Decides the folds, the sets that choices are made by, and random directions and features.

    Attributes
    ----------
    classes_ : (n_classes,) array
    leaderboard_ : list of dicts
        Best first: "name", "score", "std_error", "seconds", "n_features", "kernel", "alpha", "baseline". "this model"
        is the average that predicts.
    leads_ : dict
        By baseline: how much better the model is, and the standard error of that.
    judged_ : int64 array
        Sets that the scores are of, each left out in turn.
    best_estimator_ : Pipeline
        The best single candidate, fitted, of public parts. `save_model` keeps it, and the whole model too: a loaded
        model has the same ``best_estimator_``.
    best_name_ : str
        What the leaderboard calls it.
    background_ : SampleSets, or None of strings
        Up to 16 of the sets, of up to 512 points each, that `explain` compares dimensions with.
    n_features_in_ : int

    Raises
    ------
    ValueError
        For one class, weights or groups that do not fit, unknown candidates, a budget too small for one.
    SampleSetError, StoreFormatError
        As embeddings do, naming the set.

    Notes
    -----
    Scores are by the same sets that chose the model, so the best is flattered a little; sets that ``fit`` never saw
    are the last word. Up to 4,000 sets kernels are exact, and chosen by up to 2,000 sets; more are learned from in one
    pass of random features, the score then being that of a tenth that was held out. Up to 1,024 sets are read to fit
    representations, up to 2,000 to choose, and all to fit; a store is read block by block. Cost: that of the
    embeddings, and some 200 n^3 operations for n sets compared. Memory: the rows of all candidates, and up to eight
    n x n matrices of float64 (32 MB each for 2,000 sets) for each of those tried at once, as many as there are cores,
    but four at most; with a budget of memory one at a time.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> sets = [rng.normal(0, 1 + c, (40, 1)) for c in y]
    >>> model = dk.SetClassifier(random_state=0).fit(sets[:40], y[:40])
    >>> model.score(sets[40:], y[40:]) > 0.9
    True
    """

    _score_name = "accuracy"
    saved_attributes: ClassVar[dict[str, Any]] = SetLearner.saved_attributes | {
        "classes_": NDArray[np.generic], "calibration_": F64, "sets_": PredictionSets, "_labels": NDArray[np.generic],
    }  # fmt: skip

    def __init__(
        self,
        candidates: Any = "auto",
        *,
        class_weight: Any = None,
        scoring: Any = None,
        cv: Any = "auto",
        budget: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(candidates, scoring=scoring, cv=cv, budget=budget, random_state=random_state)
        self.class_weight = class_weight

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> SetClassifier:
        """Choose and fit.

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
        X, y, sample_weight, groups = in_row_order(X, y=y, sample_weight=sample_weight, groups=groups)
        sets, labels = check_sets(X, text=True), column_or_1d(y, warn=True)
        if len(labels) != len(sets):
            raise ValueError(
                f"X has {len(sets)} sets but y has {len(labels)} targets: give one for every set"
            )
        self.classes_, index = as_classes(labels)
        weights = as_weights(sample_weight, len(sets))
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        as_classes(labels[weights > 0])
        n_classes = len(self.classes_)
        score = self._scored_by(labels)
        judged = self._learn(sets, signs(index, n_classes), index, weights, groups, score)
        self._labels = labels[self._used]
        values, truth = judged.values.mean(axis=0), index[self.judged_]
        self.calibration_ = calibrated(values, truth, n_classes, judged.held.weights)
        self.sets_ = fit_prediction_sets(probabilities_of(values, self.calibration_), truth)
        return self

    def check_loaded(self) -> None:
        """Raise ValueError unless loaded attributes fit each other and can be shown."""
        k, t = len(self.classes_), self.machine_.n_outputs
        found = t, len(self.sets_.by_class), self.calibration_.shape, self.classes_.shape, self._labels.shape
        if k < 2 or found != (1 if k == 2 else k, k, (2,), (k,), self._used.shape):
            raise ValueError(
                f"the model has {k} classes, {t} outputs, sets of {found[1]} classes, a calibration of shape "
                f"{found[2]} and labels of shape {found[4]}, which do not fit"
            )
        super().check_loaded()

    def _learner(self, rows: Any, part: Any) -> IncrementalRidgeClassifier:
        made = IncrementalRidgeClassifier(alphas=self._best.alpha, random_state=self._seed)
        if rows is not None:
            return made.fit(rows, self._labels, sample_weight=self._weights)
        made.coef_, made.intercept_, made.alpha_ = part.W, part.b, self._best.alpha
        made.classes_, made.n_features_in_, made.calibration_ = (
            self.classes_,
            part.W.shape[1],
            self.calibration_,
        )
        made.multilabel_ = False
        return made

    def _scored_by(self, labels: NDArray[Any]) -> Any:
        """The score of predictions (n, t) for some sets."""
        classes = self.classes_
        if self.scoring is None:
            return lambda values, rows: float((classes[largest(values)] == labels[rows]).mean())
        scorer = check_scoring(_Fixed(classes), self.scoring)
        self._score_name = self.scoring if isinstance(self.scoring, str) else "score"
        return lambda values, rows: float(scorer(_Fixed(classes), values, labels[rows]))

    def decision_function(self, X: Any) -> F64:
        """Decision values: (n,), positive for ``classes_[1]``, or (n, n_classes).

        Parameters
        ----------
        X : sets

        Returns
        -------
        (n,) or (n, n_classes) float64 array
        """
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every set, (n,): that of the largest decision value."""
        values = self._values(X)
        return np.asarray(self.classes_[largest(values)])

    def predict_proba(self, X: Any) -> F64:
        """Probabilities (n, n_classes) of the classes, calibrated on sets that were left out; rows sum to one."""
        return np.asarray(probabilities_of(self._values(X), self.calibration_))

    def predict_set(
        self, X: Any, coverage: float = 0.9, class_conditional: bool = False
    ) -> NDArray[np.bool_]:
        """Which classes it may be: (n, n_classes) bool, the true one among them with a probability of ``coverage``.

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

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the sets whose class is predicted right, or what ``scoring`` says."""
        check_is_fitted(self)
        X, y, sample_weight = in_row_order(X, y=y, sample_weight=sample_weight)
        if self.scoring is None:
            return float(super().score(X, y, sample_weight))
        return float(check_scoring(self, self.scoring)(self, X, y))


def largest(values: F64) -> I64:
    """The index of each row's class, from decision values (n, 1) or (n, n_classes)."""
    return (values[:, 0] > 0).astype(np.int64) if values.shape[1] == 1 else values.argmax(axis=1)


class _Fixed(ClassifierMixin, BaseEstimator):
    """A classifier whose sets are decision values already, for scorers."""

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
        return np.asarray(probabilities_of(X, np.append(2.0, np.zeros(X.shape[1]))))
