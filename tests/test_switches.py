"""Boolean parameters of the public interface accept only booleans: `overwrite="no"` raises.

The parameters are collected from the signatures of all public names. Each needs a call in `calls`, so that new
parameters without a check fail.
"""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

import dkdist as dk

RESULTS = {"Alignment"}  # created by the library, not by users
SCIKIT_LEARN_METHOD = "get_params"
POINTS = np.random.default_rng(0).standard_normal((12, 2))
SETS = [POINTS[:4], POINTS[4:8], POINTS[8:]]
X, Y = POINTS.astype("f4"), np.arange(12) % 2
TWENTY, LABELS = list(np.random.default_rng(1).standard_normal((20, 3, 2))), np.arange(20) % 2
CLASSIFIER = dk.SetClassifier(["means"], random_state=0).fit(TWENTY, LABELS)
REGRESSOR = dk.SetRegressor(["means"], random_state=0).fit(TWENTY, LABELS)
TIMES = np.array(list(zip(LABELS, np.arange(1, 21), strict=True)), dtype=[("event", bool), ("time", float)])
SURVIVAL = dk.SetSurvival(["means"], random_state=0).fit(TWENTY, TIMES)
SQUARE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


def boolean_parameters():
    """Return (public callable, parameter) of all parameters that default to a boolean or are called verbose."""
    result = []
    public_names = {name: getattr(dk, name) for name in dk.__all__}
    for module in (dk.datasets, dk.plot):
        public_names |= {f"{module.__name__}.{name}"[7:]: getattr(module, name) for name in module.__all__}
    for name, obj in public_names.items():
        calls = {name: obj} if callable(obj) and name not in RESULTS else {}
        if inspect.isclass(obj) and not issubclass(obj, Exception):
            methods = inspect.getmembers(obj, callable)
            calls |= {
                f"{name}.{n}": m for n, m in methods if not n.startswith("_") and n != SCIKIT_LEARN_METHOD
            }
        for title, call in calls.items():
            result += [
                (title, p.name)
                for p in _parameters(call)
                if isinstance(p.default, bool) or p.name == "verbose"
            ]
    return sorted(result)


def _parameters(call):
    try:
        return list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return []


def write_store(tmp_path):
    return dk.write_sets(tmp_path / "s", SETS, targets=[0, 1, 0], overwrite=True)


def calls(tmp_path):
    """Return functions that call each public callable with boolean parameters."""
    search = dk.IncrementalRidgeClassifier()
    npz = tmp_path / "a.npz"
    np.savez(npz, values=np.zeros((3, 4, 2)))
    return {
        "Chamfer": dk.Chamfer,
        "Curve": lambda **s: dk.Curve(SQUARE, **s),
        "DamerauLevenshtein": dk.DamerauLevenshtein,
        "DivergenceEmbedding": lambda **s: dk.DivergenceEmbedding("total-variation", **s).fit(SETS),
        "DynamicTimeWarping": dk.DynamicTimeWarping,
        "Energy": dk.Energy,
        "IncrementalWrapper": lambda **s: dk.IncrementalWrapper(SGDClassifier(), **s).fit(X, Y),
        "fold": lambda **s: dk.fold(X, lambda state, block: state, 0, **s),
        "IncrementalRidge": lambda **s: dk.IncrementalRidge(**s).fit(X, Y),
        "IncrementalRidgeClassifier": lambda **s: dk.IncrementalRidgeClassifier(**s).fit(X, Y),
        "IncrementalSGDClassifier": lambda **s: dk.IncrementalSGDClassifier(n_epochs=1, **s).fit(X, Y),
        "IncrementalSGDRegressor": lambda **s: dk.IncrementalSGDRegressor(n_epochs=1, **s).fit(X, Y),
        "Kernel": lambda **s: dk.register_kernel(dk.Kernel("switched", np.cos, **s)),
        "Levenshtein": dk.Levenshtein,
        "SoftDTW": dk.SoftDTW,
        "GlobalAlignment": dk.GlobalAlignment,
        "NearestSets.kneighbors": lambda **s: dk.NearestSets(2).fit(X).kneighbors(**s),
        "OnePassSearch": lambda **s: dk.OnePassSearch(search, {"alphas": [[1.0]]}, **s).fit(X, Y),
        "PseudoEuclideanEmbedding": lambda **s: dk.PseudoEuclideanEmbedding(**s).fit(1.0 - np.eye(3)),
        "NGramEmbedding": lambda **s: dk.NGramEmbedding(**s).fit(["abc", "abd"]),
        "SetClassifier": lambda **s: dk.SetClassifier(["means"], **s).fit(TWENTY, LABELS),
        "SetClassifier.explain": lambda **s: CLASSIFIER.explain(TWENTY, **s),
        "SetClassifier.predict_set": lambda **s: CLASSIFIER.predict_set(TWENTY, **s),
        "SetRegressor": lambda **s: dk.SetRegressor(["means"], **s).fit(TWENTY, LABELS),
        "SetRegressor.explain": lambda **s: REGRESSOR.explain(TWENTY, **s),
        "SetSurvival": lambda **s: dk.SetSurvival(["means"], **s).fit(TWENTY, TIMES),
        "SetSurvival.explain": lambda **s: SURVIVAL.explain(TWENTY, **s),
        "SetPCA": lambda **s: dk.SetPCA(**s).fit(SETS),
        "SetScaler": lambda **s: dk.SetScaler(**s).fit(SETS),
        "SetWriter": lambda **s: dk.SetWriter(tmp_path / "w", 2, **s),
        "Surface": lambda **s: dk.Surface(CORNERS, [[0, 1, 2]], **s),
        "TableReader": lambda **s: dk.TableReader("id", **s),
        "align": lambda **s: dk.align(POINTS, POINTS, sigma=1.0, guarantee=1.0, **s),
        "compact": lambda **s: dk.compact(write_store(tmp_path), tmp_path / "c", **s),
        "coreset": lambda **s: dk.coreset(POINTS, 3, sigma=1.0, **s),
        "merge_coresets": lambda **s: dk.merge_coresets([dk.coreset(POINTS, 3, sigma=1.0)] * 2, 3, **s),
        "RunningCoreset.coreset": lambda **s: dk.RunningCoreset(3, sigma=1.0).add(POINTS).coreset(**s),
        "datasets.make_cells": lambda **s: dk.datasets.make_cells(2, 2, **s),
        "explain": lambda **s: dk.explain(CLASSIFIER, TWENTY, **s),
        "distance_matrix": lambda **s: dk.distance_matrix(SETS, **s),
        "divergence_matrix": lambda **s: dk.divergence_matrix(SETS, "hellinger", **s),
        "import_anndata": lambda **s: dk.import_anndata(tmp_path / "a", None, "id", **s),
        "import_frame": lambda **s: dk.import_frame(tmp_path / "f", None, "id", **s),
        "import_sets": lambda **s: dk.import_sets(tmp_path / "i", [npz], **s),
        "kernel_distance": lambda **s: dk.kernel_distance(POINTS, SQUARE, sigma=1.0, **s),
        "pairwise": lambda **s: dk.pairwise(abs, **s),
        "plot.collection": lambda **s: dk.plot.collection(SQUARE, **s),
        "verify_sets": lambda **s: dk.verify_sets(write_store(tmp_path), **s),
        "save_model": lambda **s: dk.save_model(dk.IncrementalRidge().fit(X, Y), tmp_path / "m.npz", **s),
        "write_features": lambda **s: dk.write_features(tmp_path / "z", X, **s),
        "write_sets": lambda **s: dk.write_sets(tmp_path / "v", SETS, **s),
    }


def test_all_boolean_parameters_are_tested(tmp_path):
    assert {title for title, _ in boolean_parameters()} == set(calls(tmp_path))


@pytest.mark.parametrize(("title", "name"), boolean_parameters())
def test_boolean_parameters_reject_other_values(title, name, tmp_path):
    call = calls(tmp_path)[title]
    invalid_values = ["no", "yes", "", None, [], 0.5, -1]
    for value in invalid_values if name == "verbose" else [*invalid_values, 0, 1]:
        with pytest.raises((TypeError, ValueError), match=name):
            call(**{name: value})
    assert {p.name for p in tmp_path.iterdir()} <= {"a.npz", "s"}


def test_strings_for_overwrite_do_not_replace_a_store(tmp_path):
    dk.write_sets(tmp_path / "s", SETS)
    for overwrite in (
        lambda: dk.write_sets(tmp_path / "s", SETS[:1], overwrite="no"),
        lambda: dk.SetWriter(tmp_path / "s", 2, overwrite="no"),
        lambda: dk.import_sets(tmp_path / "s", [0], lambda source: SETS[:1], overwrite="no"),
        lambda: dk.compact(dk.open_sets(tmp_path / "s")[:1], tmp_path / "s", overwrite="no"),
    ):
        with pytest.raises(TypeError, match="overwrite must be True or False; got 'no'"):
            overwrite()
    assert len(dk.open_sets(tmp_path / "s")) == 3


def test_numpy_booleans_are_accepted(tmp_path):
    dk.write_sets(tmp_path / "s", SETS, overwrite=np.False_)
    assert len(dk.write_sets(tmp_path / "s", SETS[:1], overwrite=np.True_)) == 1
