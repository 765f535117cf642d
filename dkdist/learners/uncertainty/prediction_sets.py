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
from dkdist.loops.array_types import I64
from dkdist.plain.kept import kept


@kept
@dataclass(frozen=True)
class PredictionSets:
    """Conformal scores of held-out rows, one less the probability of their class."""

    scores: ConformalScores

    def members(self, probabilities: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """(n, n_classes) which classes the set of each row holds, from ``probabilities`` (n, n_classes).

        All where too few rows were held out for the coverage. Raises ValueError for another coverage than between 0
        and 1.
        """
        p = finite_rows("probabilities", probabilities, 2)
        held = 1 - p <= self.scores.quantile(coverage)
        held[np.arange(len(p)), p.argmax(axis=1)] = True
        return np.asarray(held)


def fit_prediction_sets(probabilities: Any, labels: I64) -> PredictionSets:
    """Learn from held-out rows: ``probabilities`` (n, n_classes) by models that did not see them, and ``labels`` (n,),
    the index of each one's class.

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
    return PredictionSets(conformal_scores(1 - p[np.arange(len(p)), labels]))
