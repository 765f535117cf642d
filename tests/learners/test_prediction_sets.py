"""Prediction sets of classes: coverage by simulation, nesting, rare classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from dkdist.auto.conformal import fit_prediction_sets


def draw_labels(rng, n, n_classes=4, logit_factor=1.0):
    """Return probabilities of miscalibrated logits, and classes drawn from the true ones."""
    logits = rng.normal(size=(n, n_classes)) * 1.2
    p = softmax(logits, axis=1)
    labels = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    return softmax(logit_factor * logits, axis=1), np.minimum(labels, n_classes - 1)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("logit_factor", [0.3, 1.0, 4.0])
def test_sets_cover_for_miscalibrated_probabilities(coverage, logit_factor):
    rng, hits = np.random.default_rng(0), []
    for _ in range(20):
        p, labels = draw_labels(rng, 400, logit_factor=logit_factor)
        p1, labels1 = draw_labels(rng, 2000, logit_factor=logit_factor)
        members = fit_prediction_sets(p, labels).members(p1, coverage)
        assert members.any(axis=1).all()
        hits.append(members[np.arange(2000), labels1].mean())
    assert coverage - 0.02 <= np.mean(hits) <= coverage + 0.02


def draw_rare_class(rng, n):
    """Return three classes, one of which has a frequency of 0.1 and is often confused with the first."""
    labels = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    logits = rng.normal(size=(n, 3)) + 2.0 * np.eye(3)[labels] + [1.0, 0, 0]
    return softmax(logits, axis=1), labels


def test_each_class_is_covered_on_request():
    """200 repeats with about 60 held-out rows of the rare class: standard error 0.04 / sqrt(200)."""
    rng, marginal, per_class = np.random.default_rng(0), [], []
    for _ in range(200):
        model = fit_prediction_sets(*draw_rare_class(rng, 600))
        p, labels = draw_rare_class(rng, 600)
        for result, conditional in ((marginal, False), (per_class, True)):
            members = model.members(p, 0.9, conditional)[np.arange(600), labels]
            result.append([members[labels == c].mean() for c in range(3)])
    assert np.mean(marginal, axis=0)[2] < 0.8  # 90 % of all rows, but fewer of the rare class
    # at least 0.9; at most 1 / 61 more by conformal counting, and the likeliest class is always included
    assert (np.mean(per_class, axis=0) > 0.9 - 0.012).all()
    assert np.mean(per_class, axis=0)[2] < 0.9 + 1 / 61 + 0.012


def test_class_with_too_few_rows_is_in_every_set():
    p, labels = draw_labels(np.random.default_rng(2), 100, n_classes=3)
    selected = labels < 2
    selected[np.flatnonzero(~selected)[:5]] = True  # five rows of the last class: nine are needed
    assert fit_prediction_sets(p[selected], labels[selected]).members(p, 0.9, True)[:, 2].all()
    without_last_class = labels < 2
    assert (
        fit_prediction_sets(p[without_last_class], labels[without_last_class])
        .members(p, 0.9, True)[:, 2]
        .all()
    )


def test_sets_are_nested_and_contain_the_likeliest_class():
    p, labels = draw_labels(np.random.default_rng(1), 300)
    model = fit_prediction_sets(p, labels)
    smaller_sets = np.zeros_like(p, bool)
    for coverage in (0.05, 0.5, 0.9, 0.99, 0.999):
        members = model.members(p, coverage)
        assert (members >= smaller_sets).all()
        assert members[np.arange(300), p.argmax(axis=1)].all()
        smaller_sets = members
    assert smaller_sets.all()  # 300 rows are too few for 0.999


def test_invalid_labels_raise():
    with pytest.raises(ValueError, match="3 indices of 3 classes"):
        fit_prediction_sets(np.eye(3), np.array([0, 1, 3]))
