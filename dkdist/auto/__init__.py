"""Automatic models: selection, nested cross-validation, verdicts and reports."""

from dkdist._base.deferred_imports import import_sklearn_base

import_sklearn_base()
