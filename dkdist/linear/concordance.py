"""Harrell's concordance of risk scores with censored times, in n log^2 n operations.

A pair of rows is comparable if the row with the earlier time has an event; at equal times, if exactly one of the two
has an event, which counts as the earlier. The concordance is the weighted fraction of comparable pairs in which the
earlier row has the larger risk; equal risks count one half (Harrell, Califf, Pryor, Lee, Rosati 1982, JAMA 247, 2543).
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64, I64
from dkdist.linear.cox import Survival


def comparable_pairs(y: Survival) -> float:
    """Return the number of comparable pairs; a pair has the product of the weights of its rows."""
    rank = _outcome_rank(y)
    order = np.argsort(rank, kind="stable")
    rank, later, events = rank[order], y.weights[order], (y.weights * y.event)[order]
    return _products(np.zeros_like(rank), events, later) - _products(rank, events, later)


def concordance(y: Survival, risk: F64) -> float:
    """Return the concordance of risk scores (n,); 0.5 without comparable pairs."""
    n_pairs = comparable_pairs(y)
    if n_pairs == 0:
        return 0.5
    outcome, (_, score) = _outcome_rank(y), np.unique(risk, return_inverse=True)
    order = np.lexsort((outcome, score))
    both = np.cumsum(np.append(0, (np.diff(outcome[order]) != 0) | (np.diff(score[order]) != 0)))
    later, events = y.weights[order], (y.weights * y.event)[order]
    equal = _products(score[order], events, later) - _products(both, events, later)
    # Equal outcomes are in the order of their scores, so that a smaller score after a larger one has a later outcome.
    order = np.lexsort((score, outcome))
    score, later, events = score[order], y.weights[order], (y.weights * y.event)[order]
    larger = 0.0
    for bit in range(int(score.max()).bit_length()):  # the highest bit in which two scores differ
        prefix, is_one = score >> (bit + 1), (score >> bit) & 1
        groups = np.argsort(prefix, kind="stable")
        larger += _products(prefix[groups], (events * is_one)[groups], (later * (1 - is_one))[groups])
    return float((larger + 0.5 * equal) / n_pairs)


def _outcome_rank(y: Survival) -> I64:
    """Return ranks (n,) of times; at equal times events precede censoring."""
    _, rank = np.unique(y.time, return_inverse=True)
    return np.asarray(2 * rank + ~y.event, np.int64)


def _products(group: I64, first: F64, second: F64) -> float:
    """Return the sum of first_i second_j over j after i in the same group; ``group`` is ascending."""
    total = np.cumsum(second)
    last = np.searchsorted(group, group, side="right") - 1
    return float(first @ (total[last] - total))
