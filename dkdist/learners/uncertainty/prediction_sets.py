"""Sets of classes that hold the true one with a given probability: the least ambiguous ones.

    classes with 1 - p_c <= q(coverage), and the likeliest one;   q of the scores 1 - p_(true class) of held-out rows

Of all sets that cover as much these hold the fewest classes on average, if the probabilities are right. The likeliest
class is always among them, so that none is empty: where single classes are right more often than was asked for, so are
the sets. (Sadinle, Lei, Wasserman: Least ambiguous set-valued classifiers (2019), theorem 1.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.learners.uncertainty.conformal_scores import ConformalScores, conformal_scores, finite_rows
from dkdist.loops.array_types import F64, I64
from dkdist.plain.flags import as_flag
from dkdist.plain.kept import kept


@kept
@dataclass(frozen=True)
class PredictionSets:
    """Conformal scores of held-out rows, one less the probability of their class: of all, and of every class."""

    scores: ConformalScores
    by_class: tuple[ConformalScores, ...]

    def members(
        self, probabilities: Any, coverage: float = 0.9, class_conditional: bool = False
    ) -> NDArray[np.bool_]:
        """(n, n_classes) which classes the set of each row holds, from ``probabilities`` (n, n_classes).

        With ``class_conditional`` every class is covered by itself. A class of which too few rows were held out for
        the coverage is in all sets, and so is every class where too few were in all. Raises ValueError for another
        coverage than between 0 and 1.
        """
        p = finite_rows("probabilities", probabilities, 2)
        scores = self.by_class if as_flag("class_conditional", class_conditional) else (self.scores,)
        held = 1 - p <= np.array([own.quantile(coverage) for own in scores])
        held[np.arange(len(p)), p.argmax(axis=1)] = True
        return np.asarray(held)


def fit_prediction_sets(probabilities: Any, labels: I64, groups: Any = None) -> PredictionSets:
    """Learn from held-out rows: ``probabilities`` (n, n_classes) by models that did not see them, and ``labels`` (n,),
    the index of each one's class. Rows of one of the ``groups`` (n,) count as much as one row.

    Examples
    --------
    >>> import numpy as np
    >>> from dkdist.learners.uncertainty.prediction_sets import fit_prediction_sets
    >>> p = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.55, 0.45]])
    >>> fit_prediction_sets(p, np.array([0, 0, 1, 1])).members([[0.9, 0.1], [0.5, 0.5]], 0.8)
    array([[ True, False],
           [ True,  True]])
    """
    p = finite_rows("probabilities", probabilities, 2)
    if len(labels) != len(p) or labels.min(initial=0) < 0 or labels.max(initial=0) >= p.shape[1]:
        raise ValueError(
            f"labels must be {len(p)} indices of {p.shape[1]} classes; found shape {np.shape(labels)}"
        )
    scores = 1 - p[np.arange(len(p)), labels]
    by_class = tuple(_scores_of(scores, groups, labels == c) for c in range(p.shape[1]))
    return PredictionSets(_scores_of(scores, groups, np.ones(len(p), np.bool_)), by_class)


def _scores_of(scores: F64, groups: Any, rows: NDArray[np.bool_]) -> ConformalScores:
    if not rows.any():
        return ConformalScores(0, ())
    return conformal_scores(scores[rows], None if groups is None else np.asarray(groups)[rows])
