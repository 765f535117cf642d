"""When a run of SGD ends: after so many epochs, when held-out rows no longer improve, or when it has arrived.

An averaged iterate approaches its limit about as c / e after e epochs, so that what the second half of the epochs has
gained is what is still to be gained. A run has arrived when that is less than a part of what predicting a constant
loses; the loss is measured on the same rows in every epoch, so that their noise does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_STEPS, MOST_STEPS = 40_000, 2_000_000  # rows that are used, over all epochs
LEAST_EPOCHS, FEW_EPOCHS, MOST_EPOCHS = 2, 5, 100
TOLERANCE = 2e-3  # of the first epoch's loss


@dataclass(frozen=True)
class Stopping:
    """At most ``most`` epochs, at least ``least``; ``patience`` as the estimators have it; ``arrives`` for "auto"."""

    least: int
    most: int
    patience: int | None = None
    arrives: bool = False

    @classmethod
    def of(cls, n_epochs: int | str, patience: int | None, n_rows: int) -> Stopping:
        """What the parameters say of a run over so many training rows."""
        if not isinstance(n_epochs, str):
            return cls(1 if patience is not None else int(n_epochs), int(n_epochs), patience)
        least, most = (
            epochs_for(n_rows, LEAST_STEPS, LEAST_EPOCHS),
            epochs_for(n_rows, MOST_STEPS, FEW_EPOCHS),
        )
        return cls(least, most, patience, arrives=True)

    def is_over(self, losses: Sequence[float], held_out: Sequence[float]) -> bool:
        """Whether the epochs whose losses these are have been enough."""
        n = len(losses)
        if n < self.least or n >= self.most:
            return n >= self.most
        return self._stalled(held_out) or (self.arrives and self._arrived(losses))

    def certain(self, n_done: int) -> int:
        """How many more epochs there will be at least, after ``n_done`` that were not enough."""
        return max(1, self.least - n_done)

    def _stalled(self, held_out: Sequence[float]) -> bool:
        """Whether the held-out loss has not improved for ``patience`` epochs."""
        n = len(held_out)
        return self.patience is not None and n > 0 and n - 1 - int(np.argmin(held_out)) >= self.patience

    def _arrived(self, losses: Sequence[float]) -> bool:
        """Whether the second half of the epochs has gained next to nothing."""
        n = len(losses)
        if n < 2:
            return False
        quarter = max(1, n // 4)
        before, now = np.mean(losses[n // 2 - quarter : n // 2]), np.mean(losses[n - quarter :])
        return bool(before - now <= TOLERANCE * losses[0])


def epochs_for(n_rows: int, steps: int, least: int) -> int:
    """Epochs in which so many steps are taken: ``least`` to 100."""
    return int(np.clip(-(-steps // max(1, n_rows)), least, MOST_EPOCHS))
