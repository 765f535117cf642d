"""Learning from distributions: classifiers, regressors, kernels and distances over collections of sample sets."""

from __future__ import annotations

__version__ = "0.1.0"
