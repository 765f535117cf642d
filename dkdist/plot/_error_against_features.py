"""`plot.error_against_features`: what more random features buy."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from dkdist._base.parameter_checks import real_matrix
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, add_grid, add_legend, get_axes, style_axes
from dkdist.theory.kernel_error import KernelError


def error_against_features(n_features: Any, errors: Any, *, ax: Any = None) -> Axes:
    """Draw the error of a kernel against the number D of its random features, beside what falls as D^(-1/2).

    Parameters
    ----------
    n_features : (k,) array of int
        Numbers of features D, different ones.
    errors : list of KernelError, or (k,) array
        What `kernel_error` found with each of them; or root mean square errors alone, without intervals.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
        Both axes logarithmic. The faint line is the curve through the first error with slope -1/2; a part that does
        not fall (that of the rows, ``distance_rms``) is drawn as well.

    Raises
    ------
    ValueError, TypeError
        For numbers that are not above 0, other lengths, and axes that are none.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.pipeline import make_pipeline
    >>> sets = [np.random.default_rng(i).beta(1 + i % 3, 2, (60, 1)) for i in range(20)]
    >>> def error(D):
    ...     model = make_pipeline(dk.DivergenceEmbedding(), dk.RandomFourierFeatures(D, random_state=0)).fit(sets)
    ...     return dk.kernel_error(model, sets, random_state=0)
    >>> ax = dk.plot.error_against_features([50, 200, 800], [error(D) for D in (50, 200, 800)])
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    D = _check_positive("n_features", n_features)
    if isinstance(errors, KernelError):
        errors = [errors]
    found = list(errors) if np.iterable(errors) and not isinstance(errors, str) else [errors]
    measured = bool(found) and all(isinstance(error, KernelError) for error in found)
    rms = _check_positive("errors", [error.rms for error in found] if measured else found)
    if len(rms) != len(D):
        raise ValueError(f"errors must be one for each of the {len(D)} numbers of features; found {len(rms)}")
    order = np.argsort(D, kind="stable")
    axes = get_axes(ax)
    axes.set_xscale("log")
    axes.set_yscale("log")
    D, rms, found = D[order], rms[order], [found[i] for i in order]
    axes.plot(D, rms[0] * np.sqrt(D[0] / D), "--", color=MUTED_COLOUR, linewidth=1.2, label=r"slope $-1/2$")
    low, high = ([e.low for e in found], [e.high for e in found]) if measured else (rms, rms)
    ends = np.maximum([rms - np.array(low), np.array(high) - rms], 0)
    axes.errorbar(
        D, rms, ends if measured else None, color=PALETTE[0], marker="o", markersize=5, linewidth=1.8, elinewidth=1.2,
        capsize=3, label="error (95 % interval)" if measured else "error",
    )  # fmt: skip
    rows = np.array([e.distance_rms for e in found]) if measured else np.zeros(0)
    if rows.any():
        axes.plot(D, rows, ":", color=PALETTE[1], marker="s", markersize=4, label="of which rows")
    style_axes(axes, "", "random features D", "root mean square error of the kernel")
    axes.set_xticks(D)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    add_grid(axes)
    add_legend(axes)
    return axes


def _check_positive(name: str, values: Any) -> F64:
    numbers = real_matrix(name, values)
    if numbers.ndim != 1 or len(numbers) == 0 or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(f"{name} must be finite numbers above 0, one or more; found {values!r:.100}")
    return numbers
