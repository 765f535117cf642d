"""Sets of classes: coverage by simulation, laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from dkdist.auto.conformal import fit_prediction_sets


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


def rare(rng, n):
    """Three classes, one of them a tenth of all and often taken for the first."""
    labels = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    logits = rng.normal(size=(n, 3)) + 2.0 * np.eye(3)[labels] + [1.0, 0, 0]
    return softmax(logits, axis=1), labels


def test_every_class_is_covered_by_itself_if_asked():
    """200 repeats; in each some 60 held-out rows of the rare class: a standard error of .04 over sqrt(200)."""
    rng, together, alone = np.random.default_rng(0), [], []
    for _ in range(200):
        model = fit_prediction_sets(*rare(rng, 600))
        p, labels = rare(rng, 600)
        for result, conditional in ((together, False), (alone, True)):
            held = model.members(p, 0.9, conditional)[np.arange(600), labels]
            result.append([held[labels == c].mean() for c in range(3)])
    assert np.mean(together, axis=0)[2] < 0.8  # nine tenths of all, and fewer of the rare
    # at least .9; at most 1 / 61 more by conformal counting, and the likeliest class is always held
    assert (np.mean(alone, axis=0) > 0.9 - 0.012).all()
    assert np.mean(alone, axis=0)[2] < 0.9 + 1 / 61 + 0.012


def test_a_class_of_too_few_rows_is_in_every_set():
    p, labels = drawn(np.random.default_rng(2), 100, n_classes=3)
    few = labels < 2
    few[np.flatnonzero(~few)[:5]] = True  # five rows of the last class: nine are needed
    assert fit_prediction_sets(p[few], labels[few]).members(p, 0.9, True)[:, 2].all()
    none = labels < 2
    assert fit_prediction_sets(p[none], labels[none]).members(p, 0.9, True)[:, 2].all()


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
