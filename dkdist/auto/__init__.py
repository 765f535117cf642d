"""Automatic models: training data, nested evaluation, verdicts and reports."""
