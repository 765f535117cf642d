"""Automatic models: selection, nested cross-validation, verdicts and reports.

SetClassifier.fit ─> nested_evaluation: all sets, and the sets without each outer fold ─> selection: preparation,
rounds (successive_halving), final fit (candidate_rows: exact; large_collections: with landmarks), baselines
"""

from dkdist._base.deferred_imports import import_sklearn_base

import_sklearn_base()
