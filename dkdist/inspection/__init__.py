"""Inspection of fitted models: averaged gradients and tables of contributions."""
