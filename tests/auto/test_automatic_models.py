"""Conventions of the automatic models: errors, warnings, progress, routing, weights and permutation p-values."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GroupKFold, cross_validate

import dkdist as dk

RNG = np.random.default_rng(0)
Y = np.arange(40) % 2
SETS = [RNG.normal(2 * c, 1, (15, 2)) for c in Y]


@pytest.fixture(scope="module")
def fitted() -> dk.SetClassifier:
    return dk.SetClassifier(["means"], random_state=0).fit(SETS, Y)


def test_class_with_one_set_raises() -> None:
    labels = np.array(["a", "b"], dtype=object)[Y]
    labels[3] = "rare"
    with pytest.raises(ValueError, match=r"got 1 of class 'rare'"):
        dk.SetClassifier(["means"]).fit(SETS, labels)
    labels[4] = "rare"
    with pytest.raises(ValueError, match=r"got 1 of class 'rare'"):
        dk.SetClassifier(["means"]).fit(SETS, labels, sample_weight=np.arange(40) != 4)


def test_fewer_than_twenty_sets_give_one_warning() -> None:
    with pytest.warns(UserWarning, match="at least 20 sets; got 12") as caught:
        model = dk.SetClassifier(["means"], random_state=0).fit(SETS[:12], Y[:12])
    assert len(caught) == 1
    assert len(model.judged_) == 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.SetClassifier(["means"], random_state=0).fit(SETS[:20], Y[:20])


def test_summary_of_unbalanced_classes_shows_balanced_accuracy() -> None:
    y = (np.arange(40) % 8 == 0).astype(int)
    sets = [RNG.normal(3 * c, 1, (15, 2)) for c in y]
    model = dk.SetClassifier(["means"], random_state=0).fit(sets, y)
    assert (
        "balanced accuracy (mean recall) of this model is 1.0000, next to 1.0000 accuracy" in model.summary()
    )
    assert 'class_weight="balanced"' in model.summary()
    weighted = dk.SetClassifier(["means"], class_weight="balanced", random_state=0).fit(sets, y)
    assert "balanced accuracy" in weighted.summary()
    assert "class_weight" not in weighted.summary()


def test_summary_of_balanced_classes_omits_balanced_accuracy(fitted: dk.SetClassifier) -> None:
    assert "balanced accuracy" not in fitted.summary()


def test_progress_is_shown_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    dk.SetClassifier(["means"], random_state=0).fit(SETS, Y)
    assert capsys.readouterr() == ("", "")
    dk.SetClassifier(["means"], random_state=0, verbose=True).fit(SETS, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "SetClassifier: 11 selections in" in err
    with pytest.raises(TypeError, match="verbose must be True or False; got 'yes'"):
        dk.SetClassifier(["means"], verbose="yes").fit(SETS, Y)


def test_score_uses_sample_weight_with_any_scorer(fitted: dk.SetClassifier) -> None:
    labels = np.where(np.arange(40) < 10, Y, 1 - Y)
    weights = np.where(np.arange(40) < 10, 1.0, 0.5)
    expected = accuracy_score(labels, fitted.predict(SETS), sample_weight=weights)
    for scoring in (None, "accuracy", get_scorer("accuracy")):
        fitted.set_params(scoring=scoring)
        assert fitted.score(SETS, labels, sample_weight=weights) == pytest.approx(expected)
    fitted.set_params(scoring=None)


def test_metadata_routing_of_groups_and_weights() -> None:
    groups = np.arange(40) // 4
    with config_context(enable_metadata_routing=True):
        model = dk.SetClassifier(["means"], random_state=0).set_fit_request(groups=True, sample_weight=True)
        model.set_score_request(sample_weight=True)
        result = cross_validate(
            model, np.array(SETS), Y, cv=GroupKFold(2), params={"groups": groups, "sample_weight": np.ones(40)},
            return_estimator=True,
        )  # fmt: skip
    for fold in result["estimator"]:
        assert len(fold.judged_) == 20
        assert "5 outer folds" in fold.summary()  # five groups of four sets


def test_summary_names_the_selection_criterion(fitted: dk.SetClassifier) -> None:
    assert "selected by log loss" in fitted.summary() or len(fitted.leaderboard_) == 4
    by_auc = dk.SetClassifier(["means", "kernel-mean"], scoring="roc_auc", random_state=0).fit(SETS, Y)
    assert "Candidates were selected by roc_auc." in by_auc.summary()
    assert "roc_auc on 10 outer folds" in by_auc.summary()


def test_permutation_p_value_is_exact() -> None:
    model = dk.SetClassifier(["means"], n_permutations=9, random_state=0).fit(SETS, Y)
    assert model.p_value_ == 0.1
    noise = [np.random.default_rng(i).normal(size=(15, 2)) for i in range(40)]
    assert dk.SetClassifier(["means"], n_permutations=9, random_state=0).fit(noise, Y).p_value_ > 0.1
    with pytest.raises(ValueError, match="n_permutations"):
        dk.SetClassifier(["means"], n_permutations=0).fit(SETS, Y)


def test_fallback_to_the_constant() -> None:
    noise = [np.random.default_rng(i).normal(size=(15, 2)) for i in range(40)]
    y = np.random.default_rng(3).permutation(np.arange(40) % 4 == 0)
    model = next(
        m for s in range(20) if (m := dk.SetClassifier(["means"], random_state=s).fit(noise, y)).fallback_
    )
    assert model.fallback_ == "constant"
    assert len(np.unique(model.decision_function(noise))) == 1
    np.testing.assert_allclose(model.predict_proba(noise)[:, 1], 0.25, atol=0.03)
    assert "no ensemble beat the constant" in model.summary()
    assert set(model.verdicts_.values()) == {"not established"}
    assert model.best_estimator_.predict(noise).shape == (40,)
    assert all(not c.any() or np.isfinite(c).all() for c in model.explain(noise[:3]))


def test_hold_out_scores_the_fitted_model(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr("dkdist.auto._tuning.MAX_NESTED_SETS", 30)
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 30)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 128)
    y = np.arange(100) % 2
    sets = [np.random.default_rng(i).normal(c, 1, (15, 2)) for i, c in enumerate(y)]
    model = dk.SetClassifier(["means"], random_state=0).fit(sets, y)
    held_out = model.judged_
    assert len(held_out) == 20
    assert "accuracy on 20 held-out sets" in model.summary()
    reported_score = next(entry["score"] for entry in model.leaderboard_ if entry["name"] == "this model")
    assert reported_score == model.score([sets[i] for i in held_out], y[held_out])
    assert not set(held_out) & set(model._used)
