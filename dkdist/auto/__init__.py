"""Automatic models: selection, nested cross-validation, verdicts and reports."""
