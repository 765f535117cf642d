"""What is predicted, and how far predictions are from it: the squared error of numbers, the log loss of classes.

Squared errors of decision values prefer narrow kernels, which say little of any set, to wider ones that tell more of
them right. So classes are judged by their probabilities softmax(beta v), with the one beta that does best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dkdist.loops.array_types import F64, I64

CLEARLY = 2.0  # standard errors of a difference, beyond which it is none of chance
STEPS, NEAR = 8, 1e-3  # of Newton's method, and the relative change of beta that ends it
LARGEST, LEAST = 100.0, 1e-12  # beta of classes that nothing confuses, and a variance that is none
MOST_EXPONENT = 500.0  # beyond which exponentials, and sums of them, are no floats

Repeats = Sequence[Sequence[I64]]


@dataclass(frozen=True)
class Truth:
    """What is predicted: targets (n, t), weights (n,) with a mean of one, and the folds that are left out.

    ``rows`` are the sets it speaks of; ``classes`` (n,) their classes, None of numbers. A ``criterion`` of
    (predictions, rows), if there is one, is to be large.
    """

    y: F64
    weights: F64
    repeats: Repeats
    rows: I64
    classes: I64 | None = None
    criterion: Callable[[F64, I64], float] | None = None

    def loss(self, values: F64) -> float:
        """Of predictions (n_repeats, n, t): the mean of their errors, or what the criterion says, with a minus."""
        if self.criterion is not None:
            return -float(np.mean([self.criterion(own, self.rows) for own in values]))
        return float(self._errors(values) @ self.weights / len(self.y))

    def clearly_behind(self, values: F64, others: F64) -> bool:
        """Whether predictions are worse than others by several standard errors of the difference."""
        if self.criterion is not None:
            return False
        more = (self._errors(values) - self._errors(others)) * self.weights
        return bool(more.mean() > CLEARLY * more.std() / np.sqrt(len(more)))

    def _errors(self, values: F64) -> F64:
        """(n,) of the rows, the mean over repeats."""
        if self.classes is None:
            return np.asarray(((values - self.y) ** 2).sum(axis=2).mean(axis=0))
        return log_losses(values, self.classes, self.weights)


def log_losses(values: F64, classes: I64, weights: F64) -> F64:
    """(n,) mean over repeats of -log p of each row's class, of decision values (n_repeats, n, t).

    A share of 1 / (n + 2) of each row is counted for the other classes (Platt 1999): few rows that are all right say
    little of how sure one may be.
    """
    v = np.moveaxis(values, 2, 0)  # classes first: sums over a few of them are sums of long rows
    v = np.concatenate([-v, v]) if len(v) == 1 else v
    own = np.broadcast_to(classes, (1, *v.shape[1:]))
    ahead = np.subtract(v, np.take_along_axis(v, own, axis=0), order="C")
    doubt = ahead.sum(axis=0) / ((len(v) - 1) * (len(classes) + 2))
    beta = 1.0
    for _ in range(STEPS):
        p = _exponentials(beta * ahead)
        p /= p.sum(axis=0)
        p *= ahead
        mean = p.sum(axis=0)
        p *= ahead
        variance = p.sum(axis=0) - mean**2
        step = ((mean - doubt) @ weights).sum() / max(float((variance @ weights).sum()), LEAST)
        before, beta = beta, float(np.clip(beta - step, beta / 4, min(4 * beta, LARGEST)))
        if abs(beta - before) < NEAR * beta:
            break
    return np.asarray((np.log(_exponentials(beta * ahead).sum(axis=0)) - beta * doubt).mean(axis=0))


def _exponentials(z: F64) -> F64:
    return np.exp(np.minimum(z, MOST_EXPONENT, out=z), out=z)
