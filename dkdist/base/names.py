"""Names of dimensions, as scikit-learn has them: learnt in fit, and compared with those of other sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.execution.processes.warn import warn
from dkdist.sets import SampleSetError


def learn_names(estimator: Any, sets: Any) -> None:
    """Keep the names of the dimensions of the sets of ``fit`` as ``feature_names_in_``; none if they have none."""
    if sets.names is not None:
        estimator.feature_names_in_ = np.array(sets.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def require_names(estimator: Any, sets: Any) -> None:
    """Refuse sets whose dimensions have other names than those of ``fit``, or the same in another order.

    One of both has names at least; where the other has none, a warning says so.
    """
    kind = type(estimator).__name__
    given, known = sets.names, getattr(estimator, "feature_names_in_", None)
    if known is None:
        warn(f"X has feature names, but {kind} was fitted without feature names")
    elif given is None:
        warn(f"X does not have valid feature names, but {kind} was fitted with feature names")
    elif list(given) != list(known):
        how = (
            "be in the same order as they were"
            if sorted(given) == sorted(known)
            else "match those that were passed"
        )
        raise SampleSetError(
            f"the sets have the dimensions {', '.join(given)}, but {kind} was fitted with {', '.join(known)}: feature "
            f"names must {how} in fit. Give the columns of fit, in their order"
        )
