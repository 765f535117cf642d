"""Checks of the parameter ``kernel``, with the reason and an alternative for unsupported kernels."""

from __future__ import annotations

from typing import Any

from dkdist._base.parameter_checks import check_choice
from dkdist.kernels.registry import KERNELS, get_kernel, names_with

# Alternatives to kernels that some functions do not support.
_ALTERNATIVES = {
    "energy": "which has no random frequencies. Use 'matern12' with sigma = 3 times the width of the points: its D^2 "
    "times sigma is that of 'energy' within 1 %.",
    "epanechnikov": "which is not positive definite and has no random frequencies. Use 'gaussian' or 'matern52'.",
    "ball": "which is piecewise constant, not positive definite and without random frequencies. Use 'matern12', or "
    "'triangle' on a line.",
    "linear": "which only kernel_distance supports. Its features are the coordinates, and D is the distance of the "
    "means: use FunctionEmbedding(lambda points: points.mean(axis=0)).",
    "identity": "which only kernel_distance supports. Use 'laplace' with a sigma far below the distance of different "
    "points.",
}


def check_kernel(kernel: Any, field: str | None = None) -> str:
    """Return the name of a kernel that has the field ``field``; errors state the reason and an alternative."""
    names = tuple(KERNELS) if field is None else names_with(field)
    if isinstance(kernel, str) and kernel not in names and kernel in _ALTERNATIVES:
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, names))}; got {kernel!r}, {_ALTERNATIVES[kernel]}"
        )
    return str(check_choice("kernel", kernel, names))


def require_frequencies(kernel: str, n_dims: int) -> None:
    """Require random frequencies in this dimension."""
    max_dims = get_kernel(kernel).max_frequency_dims
    if max_dims is not None and n_dims > max_dims:
        raise ValueError(
            f"kernel={kernel!r} requires points of {max_dims} dimension; got {n_dims}, where it is not positive "
            "definite and has no random frequencies. Use 'matern12'."
        )
