"""`plot.error_against_features`: the error of a kernel against the number of random features."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, ScalarFormatter

from dkdist._base.parameter_checks import check_real_array
from dkdist._numba.arrays import F64
from dkdist.plot._canvas import MUTED_COLOUR, PALETTE, add_grid, add_legend, get_axes, style_axes
from dkdist.theory.kernel_error import KernelError


def error_against_features(n_features: Any, errors: Any, *, ax: Any = None) -> Axes:
    """Draw the error of a kernel against the number D of random features, with a line of slope -1/2.

    Parameters
    ----------
    n_features : (k,) array of int
        Numbers of features D, without repetitions.
    errors : list of KernelError, or (k,) array
        Results of `kernel_error` for each D; or root mean square errors, without intervals.
    ax : Axes, optional
        Axes to draw on, by default new ones.

    Returns
    -------
    Axes
        Both axes are logarithmic. The grey line has slope -1/2 and starts at the first error. The part of the error
        that does not depend on D (``distance_rms``, the error of the rows) is drawn as well.

    Raises
    ------
    ValueError, TypeError
        If a number is not above 0, or lengths or axes do not match.

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
    entries = list(errors) if np.iterable(errors) and not isinstance(errors, str) else [errors]
    has_intervals = bool(entries) and all(isinstance(error, KernelError) for error in entries)
    rms = _check_positive("errors", [error.rms for error in entries] if has_intervals else entries)
    if len(rms) != len(D):
        raise ValueError(
            f"errors must have one entry for each of the {len(D)} values of n_features; got {len(rms)}"
        )
    order = np.argsort(D, kind="stable")
    axes = get_axes(ax)
    axes.set_xscale("log")
    axes.set_yscale("log")
    D, rms, entries = D[order], rms[order], [entries[i] for i in order]
    axes.plot(D, rms[0] * np.sqrt(D[0] / D), "--", color=MUTED_COLOUR, linewidth=1.2, label=r"slope $-1/2$")
    low, high = ([e.low for e in entries], [e.high for e in entries]) if has_intervals else (rms, rms)
    ends = np.maximum([rms - np.array(low), np.array(high) - rms], 0)
    axes.errorbar(
        D, rms, ends if has_intervals else None, color=PALETTE[0], marker="o", markersize=5, linewidth=1.8,
        elinewidth=1.2, capsize=3, label="error (95 % interval)" if has_intervals else "error",
    )  # fmt: skip
    distance_rms = np.array([e.distance_rms for e in entries]) if has_intervals else np.zeros(0)
    if distance_rms.any():
        axes.plot(D, distance_rms, ":", color=PALETTE[1], marker="s", markersize=4, label="part of the rows")
    style_axes(axes, "", "random features D", "root mean square error of the kernel")
    axes.set_xticks(D)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    add_grid(axes)
    add_legend(axes)
    return axes


def _check_positive(name: str, values: Any) -> F64:
    numbers = check_real_array(name, values)
    if numbers.ndim != 1 or len(numbers) == 0 or not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(f"{name} must be one or more finite numbers > 0; got {values!r:.100}")
    return numbers
