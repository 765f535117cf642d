"""Results of the public interface match stored results: from memory, from stores, and with two worker processes."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

import dkdist as dk

from .all_cases import CASES
from .harness import ALL_FORMS, ARCHIVES, FOLDER, Tolerance, differences, load, summaries
from .inputs import Inputs

# a busy machine, whose workers are heard late
pytestmark = pytest.mark.filterwarnings("ignore:worker .* has not answered:RuntimeWarning")

MAX_ARCHIVE_BYTES = 500_000
RUNS = [(name, form) for form in ALL_FORMS for name, case in CASES.items() if form in case.forms]
WITHOUT_CASES = {
    "DistanceProfiles": "compared with SciPy in tests/embeddings/test_rotations.py",
    "PrincipalAxes": "compared with NumPy in tests/embeddings/test_rotations.py",
    "GaussianDivergence": "compared with integrals and POT in tests/pairs/test_gaussian_divergences.py",
    "PositionEmbedding": "compared with scikit-learn in tests/embeddings/test_positions.py",
    "SampleSetError": "an error; tests/base/test_bad_sets.py",
    "SourceError": "an error; tests/store/test_file_readers.py",
    "StoreFormatError": "an error; tests/places/test_refusals.py",
    "as_sets": "gives the results of arrays in memory; tests/inputs",
    "import_anndata": "compared with anndata and pandas in tests/store/test_annotated_files.py",
    "open_anndata": "compared with anndata and pandas in tests/store/test_annotated_files.py",
    "NestedReader": "compared with awkward and pyarrow in tests/store/test_nested_files.py",
    "HDF5Reader": "compared with h5py in tests/store/test_tile_features.py",
    "LazySets": "made by as_sets; tests/inputs",
    "fold": "results of a function of the user; tests/execution/test_collection_fold.py",
    "IncrementalWrapper": "results of estimators of others; tests/linear/test_incremental_wrapper.py",
    "lazy_predict": "results of estimators of others; tests/linear/test_lazy_predict.py",
    "PredictedDensity": "made by DensityRegressor; tests/linear/test_predicted_density.py",
    "SetSurvival": "compared with formulas and simulations in tests/linear/test_cox.py, tests/auto",
    "SeriesWindowEmbedding": "compared with explicit windows and SciPy in tests/distances/test_series_windows.py",
    "group_test_power": "p-values of group_test; tests/two_sample/test_group_test_power.py",
    "plot": "figures, not numbers; tests/plot",
    "Kernel": "a record; tests/examples/test_examples.py",
    "GaussianMixture": "a record; tests/kernel/test_gaussian_mixtures.py",
    "register_kernel": "returns nothing; tests/examples/test_examples.py",
    "register_distance": "returns nothing; tests/distances/test_register_distance.py",
}


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return {archive: load(archive) for archive in ARCHIVES}


@pytest.mark.parametrize(("name", "form"), RUNS, ids=[f"{name}-{form}" for name, form in RUNS])
def test_results_match_golden_results(
    name: str, form: str, golden: dict[str, Any], store_folder: Path, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    is_on_cluster = form == "workers"
    with request.getfixturevalue("two_workers").as_current() if is_on_cluster else nullcontext():
        results = case.compute(Inputs(form, store_folder))
        reports = list(differences(case, results, golden[case.archive]))
    assert reports == []


def process_id(points: Any, weights: Any = None) -> Any:
    return np.array([os.getpid()])


def test_cases_on_the_cluster_run_in_its_workers(two_workers: Client, store_folder: Path) -> None:
    embedding = dk.FunctionEmbedding(process_id)
    with two_workers.as_current():
        sets = Inputs("workers", store_folder).sets("plane")
        processes = set(np.asarray(embedding.fit(sets).transform(sets)).ravel().astype(int))
    assert processes <= set(two_workers.run(os.getpid).values())


def test_every_public_name_has_a_case_or_a_reason() -> None:
    source = "".join(path.read_text() for path in FOLDER.glob("*_cases.py"))
    named = set(re.findall(r"\bdk\.(\w+)", source))
    assert set(dk.__all__) - named == WITHOUT_CASES.keys()
    assert set(dk.datasets.__all__) <= set(re.findall(r"\bdk\.datasets\.(\w+)", source))


def test_archives_contain_exactly_the_cases(golden: dict[str, Any]) -> None:
    for archive in ARCHIVES:
        expected = {name for name, case in CASES.items() if case.archive == archive}
        assert {key.split("/")[0] for key in golden[archive]} == expected
    assert sum((FOLDER / f"{archive}.npz").stat().st_size for archive in ARCHIVES) < MAX_ARCHIVE_BYTES


def test_differences_beyond_the_tolerance_are_reported() -> None:
    case = replace(CASES["moments"], tolerance=Tolerance(1e-6, "a test"))
    rows, counts = np.random.default_rng(0).normal(size=(30, 40)), np.arange(5)
    golden = summaries(case, {"rows": rows, "counts": counts})

    def reported(rows: Any, counts: Any = counts) -> bool:
        return bool(list(differences(case, {"rows": rows, "counts": counts}, golden)))

    assert not reported(rows)
    assert not reported(rows * (1 + 9e-7))
    assert reported(rows * (1 + 2e-6))
    assert reported(np.where(rows == rows[-1, -1], np.nan, rows))
    assert reported(rows[:, :39])
    assert reported(rows, counts + 1)
    assert list(differences(case, {"rows": rows}, golden))
