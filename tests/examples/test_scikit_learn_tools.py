"""The table of docs/scikit-learn.md: which tools of scikit-learn accept lists of arrays, `SampleSets` and stores.

Every entry is tested, and the table must match. `DKDIST_WRITE_TABLES=1 pytest` on this file writes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import dkdist as dk

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"
KINDS = ("list", "SampleSets", "store")
HEAD = "| tool | lists of arrays | `SampleSets` | stores |\n|---|---|---|---|\n"
N = 40
Y = np.arange(N) % 2
AGE = 50 + 10 * Y + np.arange(N) % 3
GRID = {"momentembedding__degree": [1, 2]}


def _arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(0, 1 + label, (int(rng.integers(20, 40)), 2)) for label in Y]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    arrays = _arrays()
    store = tmp_path_factory.mktemp("tools") / "bags.zarr"
    return {
        "list": arrays,
        "SampleSets": dk.SampleSets.from_arrays(arrays, targets={"age": AGE}),
        "store": dk.write_sets(store, arrays, {"age": AGE}),
    }


def _classifier():
    return make_pipeline(dk.MomentEmbedding(2), dk.IncrementalRidgeClassifier(alphas=[0.1]))


def _regressor():
    return make_pipeline(dk.MomentEmbedding(2), dk.IncrementalRidge(alphas=[0.1]))


def _pair():
    other = make_pipeline(dk.HistogramEmbedding(6), dk.IncrementalRidgeClassifier(alphas=[0.1]))
    return [("moments", _classifier()), ("histograms", other)]


def _embed(X):
    """Return the features of the sets in memory, for tools that need columns."""
    return np.asarray(dk.MomentEmbedding(2).fit_transform(X))


def _union():
    return make_union(dk.MomentEmbedding(), make_pipeline(dk.SetColumns(["age"]), StandardScaler()))


def _with_columns():
    return make_pipeline(_union(), dk.IncrementalRidgeClassifier(alphas=[0.1]))


def _bagged_columns(X):
    bagged = BaggingClassifier(_classifier()[-1], 3, max_features=2, random_state=0)
    return make_pipeline(_union(), bagged).fit(X, Y).score(X, Y)


def _importance_of_columns(X):
    """Return 1.0 if the age has the largest permutation importance, since only the age is informative."""
    model = _with_columns().fit(X, Y)
    rows = np.asarray(model[:-1].transform(X))
    result = permutation_importance(model[-1], rows, Y, n_repeats=3, random_state=0).importances_mean
    names = model[:-1].get_feature_names_out().tolist()
    return float(names[int(result.argmax())] == "pipeline__age")


def _routed(X):
    with config_context(enable_metadata_routing=True):
        learner = dk.IncrementalRidgeClassifier(alphas=[0.1]).set_fit_request(sample_weight=True)
        model = make_pipeline(dk.MomentEmbedding(2), learner.set_score_request(sample_weight=True))
        weights = np.where(Y == 1, 2.0, 1.0)
        return cross_val_score(model, X, Y, cv=2, params={"sample_weight": weights}).mean()


def _importance(model, X):
    result = permutation_importance(model, X, Y, n_repeats=3, random_state=0).importances_mean
    return 0.9 if result.max() > 0.1 else 0.0


TOOLS = {
    "`cross_val_score`, `cross_val_predict`": lambda X: min(
        cross_val_score(_classifier(), X, Y, cv=2).mean(),
        np.mean(cross_val_predict(_classifier(), X, Y, cv=2) == Y),
    ),
    "`cross_val_score` with `GroupKFold`": lambda X: cross_val_score(
        _classifier(), X, Y, cv=GroupKFold(2), groups=np.arange(N) // 4
    ).mean(),
    "`learning_curve`": lambda X: learning_curve(
        _classifier(), X, Y, cv=2, train_sizes=[1.0], shuffle=True, random_state=0
    )[2][-1].mean(),
    "`GridSearchCV`": lambda X: GridSearchCV(_classifier(), GRID, cv=2).fit(X, Y).best_score_,
    "`HalvingGridSearchCV`": lambda X: (
        HalvingGridSearchCV(_classifier(), GRID, cv=2, random_state=0).fit(X, Y).score(X, Y)
    ),
    "`clone`, `set_params`": lambda X: (
        clone(_classifier()).set_params(momentembedding__degree=2).fit(X, Y).score(X, Y)
    ),
    "`FeatureUnion` of embeddings": lambda X: (
        make_pipeline(make_union(dk.MomentEmbedding(2), dk.HistogramEmbedding(6)), _classifier()[-1])
        .fit(X, Y)
        .score(X, Y)
    ),
    "`CalibratedClassifierCV`": lambda X: CalibratedClassifierCV(_classifier(), cv=2).fit(X, Y).score(X, Y),
    "`VotingClassifier`": lambda X: VotingClassifier(_pair(), voting="soft").fit(X, Y).score(X, Y),
    "`StackingClassifier`": lambda X: StackingClassifier(_pair(), cv=2).fit(X, Y).score(X, Y),
    "`BaggingClassifier` around a pipeline": lambda X: (
        BaggingClassifier(_classifier(), 3, random_state=0).fit(X, Y).score(X, Y)
    ),
    "`BaggingClassifier` on rows, after the embedding": lambda X: (
        BaggingClassifier(_classifier()[-1], 3, random_state=0).fit(_embed(X), Y).score(_embed(X), Y)
    ),
    "`permutation_importance` of a pipeline": lambda X: _importance(_classifier().fit(X, Y), X),
    "`permutation_importance` on rows, after the embedding": lambda X: _importance(
        _classifier()[-1].fit(_embed(X), Y), _embed(X)
    ),
    "`cross_val_score` of a union with `SetColumns`": lambda X: cross_val_score(
        _with_columns(), X, Y, cv=2
    ).mean(),
    "`BaggingClassifier` around a union with `SetColumns`": lambda X: (
        BaggingClassifier(_with_columns(), 3, random_state=0).fit(X, Y).score(X, Y)
    ),
    "`BaggingClassifier` after a union with `SetColumns`": _bagged_columns,
    "`permutation_importance` after a union with `SetColumns`": _importance_of_columns,
    "`MultiOutputRegressor`": lambda X: (
        MultiOutputRegressor(_regressor())
        .fit(X, np.column_stack([Y, 1 - Y]))
        .score(X, np.column_stack([Y, 1 - Y]))
    ),
    "metadata routing of `sample_weight`": _routed,
}


def table_entry(tool, X):
    """Return "yes" if the tool accepts X and learns, "no" if it raises an error."""
    try:
        score = tool(X)
    except (TypeError, ValueError, AttributeError):
        return "no"
    assert score > 0.8
    return "yes"


def test_table_is_current(data):
    rows = {name: [table_entry(tool, data[kind]) for kind in KINDS] for name, tool in TOOLS.items()}
    table = HEAD + "".join(f"| {name} | {' | '.join(result)} |\n" for name, result in rows.items())
    page = PAGE.read_text()
    current = re.search(re.escape(HEAD) + r"(?:\|.*\n)*", page)
    if os.environ.get("DKDIST_WRITE_TABLES"):
        PAGE.write_text(page.replace(current[0], table))
    else:
        assert current[0] == table


def test_tools_that_need_columns_raise(data):
    """NumPy's error says that lists have no shape; errors of collections suggest an embedding."""
    for kind in ("SampleSets", "store"):
        for name in TOOLS:
            if table_entry(TOOLS[name], data[kind]) == "no":
                with pytest.raises(TypeError, match=r"not a 2-D array.*after an embedding"):
                    TOOLS[name](data[kind])
    with pytest.raises(
        ValueError, match=r"columns must be targets of the sets, \[\]; got 'age'. Add targets with from_frame"
    ):
        _bagged_columns(data["list"])
