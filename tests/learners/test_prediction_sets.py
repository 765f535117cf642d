"""Sets of classes: coverage by simulation, laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from dkdist.learners.uncertainty.prediction_sets import fit_prediction_sets


def drawn(rng, n, n_classes=4, wrong=1.0):
    """Classes drawn from probabilities, and probabilities that are more or less sure than these."""
    logits = rng.normal(size=(n, n_classes)) * 1.2
    p = softmax(logits, axis=1)
    labels = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    return softmax(wrong * logits, axis=1), np.minimum(labels, n_classes - 1)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("wrong", [0.3, 1.0, 4.0])
def test_sets_cover_what_they_say_whatever_the_probabilities(coverage, wrong):
    rng, hits = np.random.default_rng(0), []
    for _ in range(20):
        p, labels = drawn(rng, 400, wrong=wrong)
        p1, labels1 = drawn(rng, 2000, wrong=wrong)
        held = fit_prediction_sets(p, labels).members(p1, coverage)
        assert held.any(axis=1).all()
        hits.append(held[np.arange(2000), labels1].mean())
    assert coverage - 0.02 <= np.mean(hits) <= coverage + 0.02


def test_sets_are_nested_and_hold_the_likeliest():
    p, labels = drawn(np.random.default_rng(1), 300)
    model = fit_prediction_sets(p, labels)
    before = np.zeros_like(p, bool)
    for coverage in (0.05, 0.5, 0.9, 0.99, 0.999):
        held = model.members(p, coverage)
        assert (held >= before).all()
        assert held[np.arange(300), p.argmax(axis=1)].all()
        before = held
    assert before.all()  # 300 rows are too few for .999


def test_bad_labels_are_refused_by_name():
    with pytest.raises(ValueError, match="3 indices of 3 classes"):
        fit_prediction_sets(np.eye(3), np.array([0, 1, 3]))
