"""How long the fit of what was chosen will take, and how much of it a budget of time has room for.

Kernels of n sets take n^3 operations where a trial took n_tried^3 for each penalty; rows take as long a set as they
took for those that were compared. One pass of random features multiplies rows of D features with each other, n D^2
operations for each member, and solves for five penalties; how fast this machine multiplies is measured. All is a guess
of some factor: where not even the least has room, a warning says what to expect.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

import numpy as np

from dkdist.automatic.budgets import Budget
from dkdist.automatic.trials import Average, Trial
from dkdist.plain.user_line import user_level

MEASURED = 768  # rows of the matrices that are multiplied to see how fast that is
FEWEST = 512  # random features, below which members are given up instead
SOLUTIONS = 5  # penalties of each member in a pass: D^3 / 3 multiplications each, and an inverse's some more


@dataclass(frozen=True)
class FinalFit:
    """A fit on ``n`` sets, after ``n_tried`` of them were compared, whose rows took ``row_seconds``."""

    budget: Budget
    n: int
    n_tried: int
    row_seconds: float

    def of_kernels(self, average: Average) -> Average:
        """As many members, the best first, as there is time for; one at least."""
        if np.isinf(self.budget.seconds):
            return average
        rows = self._rows * (1 - self.n_tried / self.n)  # the others are there
        for k in range(len(average.members), 0, -1):
            kept = average.first(k)
            needed = rows + sum(map(self._kernel, kept.members))
            if needed <= self.budget.left:
                return kept
        self._tell(needed)
        return kept

    def of_features(self, average: Average, most: int) -> tuple[Average, int]:
        """As many members, and as many random features of each up to ``most``, as there is time for."""
        if np.isinf(self.budget.seconds):
            return average, most
        each = seconds_a_product()
        for k in range(len(average.members), 0, -1):
            for D in _halves(most):
                needed = self._rows + k * each * (self.n * D**2 + SOLUTIONS * D**3)
                if needed <= self.budget.left:
                    return average.first(k), D
        self._tell(needed)
        return average.first(1), D

    @property
    def _rows(self) -> float:
        return self.row_seconds * self.n / self.n_tried

    def _kernel(self, trial: Trial) -> float:
        return trial.seconds / trial.n_penalties * (self.n / self.n_tried) ** 3

    def _tell(self, needed: float) -> None:
        warnings.warn(
            f"the fit of the best candidate on {self.n} sets will take some {needed:.2g} s, and {self.budget.left:.2g} "
            f"of the budget of {self.budget.seconds:.3g} s are left: give more, fewer sets, or candidates that take "
            "less",
            stacklevel=user_level(),
        )


def _halves(most: int) -> list[int]:
    """Even numbers: the most, its half, and so on while there are some five hundred."""
    found = [most]
    while found[-1] >= 2 * FEWEST:
        found.append(found[-1] // 4 * 2)
    return found


def seconds_a_product() -> float:
    """Of one multiplication and addition within a product of matrices, on this machine."""
    A = np.ones((MEASURED, MEASURED))
    _ = A @ A  # wakes what has to be woken
    start = time.perf_counter()
    _ = A @ A
    return (time.perf_counter() - start) / MEASURED**3
