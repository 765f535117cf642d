"""What `SetClassifier` and `SetRegressor` share: what they are told, what they show, and predictions of sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dkdist.automatic.choosing import N_COMPONENTS, choose
from dkdist.automatic.leaderboard import Judged, entries_of
from dkdist.automatic.learned.best_pipeline import best_pipeline
from dkdist.automatic.learned.machine_terms import set_function
from dkdist.automatic.learned.machines import LinearMachine
from dkdist.automatic.question import Question
from dkdist.automatic.verdicts import in_words
from dkdist.base.embedding import known_sets
from dkdist.base.inputs import Sets
from dkdist.base.names import learn_names
from dkdist.base.parameter_checks import draw_seed, real_matrix
from dkdist.explaining.answers import answer
from dkdist.explaining.subject import Subject
from dkdist.loops.array_types import F64, I64

ScoreOf = Callable[[F64, I64], float]


class SetLearner(MetaEstimatorMixin, BaseEstimator):
    """Base of models without choices; a subclass says what targets mean, and how predictions are scored."""

    _score_name: str
    _takes_text = True

    def __init__(
        self,
        candidates: Any = "auto",
        *,
        scoring: Any = None,
        cv: Any = "auto",
        budget: Any = None,
        random_state: Any = None,
    ) -> None:
        self.candidates = candidates
        self.scoring = scoring
        self.cv = cv
        self.budget = budget
        self.random_state = random_state

    def _learn(
        self, sets: Sets, y: F64, classes: I64 | None, weights: F64, groups: Any, score: ScoreOf
    ) -> Judged:
        """Choose and fit by targets (n, t) of sets, and weights (n,); ``score`` is of (predictions, sets)."""
        used = np.flatnonzero(weights)
        if len(used) < 2:
            raise ValueError(f"at least 2 sets must have a weight above 0; found {len(used)}")
        own_groups = None if groups is None else as_groups(groups, len(sets))[used]

        def score_of_used(values: F64, rows: I64) -> float:
            return score(values, used[rows])

        question = Question(
            sets if len(used) == len(sets) else sets[used], y[used], None if classes is None else classes[used],
            weights[used] / weights[used].mean(), own_groups, self.cv, draw_seed(self.random_state),
            None if self.scoring is None else score_of_used,
        )  # fmt: skip
        self.n_features_in_, self.origin_ = sets.n_dims, sets.origin
        learn_names(self, sets)
        learned = choose(question, self.candidates, self.budget)
        self.machine_, self.scaler_, self.background_ = learned.machine, learned.scaler, learned.background
        self.leaderboard_, self.leads_ = entries_of(learned.judged, score_of_used)
        self.judged_ = used[learned.judged.held.rows]
        self._best, self._used, self._seed = learned.best.alone(), used, question.seed
        self._weights = question.weights
        return learned.judged

    def summary(self) -> str:
        """What was tried, how well it does on sets that were left out, and whether it beats what is simpler.

        Returns
        -------
        str
            Scores with their standard errors, best first, which baseline is the best, and a sentence for each: what is
            said of the shape is over the means.
        """
        check_is_fitted(self)
        n = len(self.machine_.parts)
        what = f"{type(self).__name__}: {len(self.leaderboard_) - 1} candidates, {n} of them in the model"
        return in_words(
            self.leaderboard_, self.leads_, what, f"{self._score_name} on sets that were left out"
        )

    @property
    def best_estimator_(self) -> Pipeline:
        """The best single candidate as a fitted pipeline of public parts, with 4,096 random features for its kernel."""
        check_is_fitted(self)
        if self._best.view.entry.embedding is None:
            raise AttributeError("the best candidate is the size of sets, which no public embedding gives")
        part = self.machine_.parts[0]
        n_components = part.W.shape[1] if isinstance(part, LinearMachine) else N_COMPONENTS
        before, rows = best_pipeline(self.scaler_, self._best, part, n_components, self._seed)
        return Pipeline([*before.steps, ("learner", self._learner(rows, part))])

    @property
    def best_name_(self) -> str:
        """What the leaderboard calls the best single candidate."""
        check_is_fitted(self)
        return self._best.view.entry.name

    def _learner(self, rows: Any, part: Any) -> Any:
        """The learner of ``best_estimator_``, fitted on rows, or by what a pass found."""
        raise NotImplementedError

    def _values(self, X: Any) -> F64:
        """Predictions (n, t); a store's blocks are read, used and let go."""
        check_is_fitted(self)
        return self.machine_.values(self._scaled(X))

    def explain(
        self,
        X: Any,
        *,
        by: str = "point",
        at: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        background: Any = None,
        random_state: Any = None,
        as_frame: bool = False,
    ) -> Any:
        """Explain predictions: what each point, or each dimension, adds, or what points elsewhere would add.

        `dkdist.explain` defines these numbers and says how they sum to the prediction.

        Parameters
        ----------
        X : sets
            A store is read block by block.
        by : {"point", "dimension"}, default="point"
            What the prediction is divided among.
        at : (q, d) array, optional
            Places: how fast each prediction would rise if points came in there. This is a derivative at the set, and
            close to zero where the model is flat.
        reference : number or (k,) array, optional
            Prediction that contributions of points are counted from. By default 0 for decision values, so that
            contributions sum to these, and the mean of the targets for numbers.
        background : sets, optional
            Sets to compare with. By point, by default up to 256 of the training sets, or ``background_`` where the
            model holds no training sets; by dimension ``background_``. At most 32 of those given are used.
        random_state : int, Generator or None, default=None
            For dimensions, and for the choice among more than 32 background sets; by default that of the model.
        as_frame : bool, default=False
            Whether to return a pandas DataFrame, as `dkdist.explain` describes it.

        Returns
        -------
        list of (n_i,) float64 arrays, or (n_i, k)
            By point: towards ``classes_[1]`` of two classes, else towards each class; for each of several targets.
            Gradients are averaged along a path from the background to the set (Sundararajan, Taly, Yan 2017).
        (n_sets, d) or (n_sets, q) float64 array, or with a last axis k
            By dimension, and at places.
        pandas.DataFrame
            With ``as_frame``.
        """
        check_is_fitted(self)
        seed = self._seed if random_state is None else draw_seed(random_state)
        return answer(self._subject(), X, by, at, reference, background, seed, as_frame)

    def _subject(self) -> Subject:
        """The model as what is explained."""
        scale, shift, single = self._units()
        scalers = () if self.scaler_ is None else (self.scaler_,)
        function = set_function(self.machine_)
        outputs = getattr(self, "classes_", range(len(scale)))
        return Subject(function, self, scalers, shift, scale, shift, single, outputs, self.background_)

    def _units(self) -> tuple[F64, F64, bool]:
        """What the machine's values are multiplied by, what is added, and whether predictions have one output."""
        raise NotImplementedError

    def _scaled(self, X: Any) -> Sets:
        sets = self._sets(X)
        return sets if self.scaler_ is None else self.scaler_.transform(sets)

    def _sets(self, X: Any) -> Sets:
        return known_sets(self, X, text=True)


def as_weights(given: ArrayLike | None, n: int) -> F64:
    """Weights (n,) of sets, not negative and not all zero; ones where none are given."""
    if given is None:
        return np.ones(n)
    weights = real_matrix("sample_weight", given)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number for each of {n} sets; found shape {weights.shape}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        i = int(np.argmax(~(np.isfinite(weights) & (weights >= 0))))
        raise ValueError(
            "sample_weight must be finite, not negative, and not all zero; found "
            f"{'zeros alone' if not weights.any() else f'{weights[i]} for set {i}'}"
        )
    return weights


def as_groups(given: Any, n: int) -> NDArray[Any]:
    """Labels of the groups of n sets, two or more of them, as numbers."""
    groups = np.asarray(given)
    if groups.shape != (n,):
        raise ValueError(f"groups must be one label for each of {n} sets; found shape {groups.shape}")
    names, index = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            f"groups must be 2 at least, to leave one out; found {names.tolist()[0]!r} for all sets"
        )
    return index
