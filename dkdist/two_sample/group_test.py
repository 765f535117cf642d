"""`group_test`: whether the sets of several groups come from one distribution over sets.

The largest moderated F statistic of columns between groups, such as the means of sets along each axis.

    F_j = between_j / (G - 1) / ((d0 s0^2 + total_j - between_j) / (d0 + f)),   between_j = sum_g n_g m_gj^2

for the group means m_gj of columns that are centred in each stratum, and f residual degrees of freedom. The prior d0,
s0^2 is that of limma: fitted to the variances total_j of all columns, which permutations do not change. A column
alone has no prior: F as it is.

Smyth: Linear models and empirical Bayes methods for assessing differential expression (2004), for the prior.

Labels of groups and strata: what they must be, and whether they can be arranged otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from sklearn.base import clone

from dkdist._base.embedding import transform_sets
from dkdist._base.inputs import Sets, check_sets, summarize
from dkdist._base.parameter_checks import draw_seed, one_of, whole
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.blocks import is_lazy, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist.linear.rows import checked
from dkdist.two_sample.combined_p_values import combined, log_p_values, standardized
from dkdist.two_sample.group_rows import GroupRowsSpec, centre_and_scale, representations
from dkdist.two_sample.permutations import kernel_statistic, p_value, permuted_statistics, within_strata

MIN_RELATIVE_VARIANCE = 1e-16  # of a column's largest square: below, its values differ by rounding alone
MAX_PRIOR_DEGREES = 1e6  # of freedom, where variances differ by no more than chance


def largest_f(columns: F32 | F64, strata: I64, n_groups: int) -> Callable[[F64], F64]:
    """A function of indicators of groups (n, b, G), divided by root sizes: the largest F of b labellings (b,)."""
    columns = columns.astype(np.float64)
    X = within_strata(columns, strata)
    total = (X**2).sum(axis=0)
    varies = total > MIN_RELATIVE_VARIANCE * len(X) * (columns**2).max(axis=0)
    X, total = X[:, varies], total[varies]
    n_free = len(X) - len(np.unique(strata))
    n_residual = max(n_free - n_groups + 1, 1)
    prior_degrees, prior_variance = fitted_prior(total / n_free, n_free)

    def largest(shares: F64) -> F64:
        n, n_labellings, _ = shares.shape
        if not len(total):
            return np.zeros(n_labellings)
        sums = X.T @ shares.reshape(n, -1)
        between = (sums.reshape(len(total), n_labellings, n_groups) ** 2).sum(axis=2)
        rest = prior_degrees * prior_variance + np.maximum(total[:, None] - between, 0)
        smallest = MIN_RELATIVE_VARIANCE * total[:, None]  # columns that groups explain wholly
        F = between / (n_groups - 1) / np.maximum(rest, smallest) * (prior_degrees + n_residual)
        return np.asarray(F.max(axis=0))

    return largest


def fitted_prior(variances: F64, n_free: int) -> tuple[float, float]:
    """Degrees of freedom d0 and variance s0^2 of the prior that variances (k,) on ``n_free`` degrees seem to have."""
    if len(variances) < 2:
        return 0.0, 0.0
    logs = np.log(variances) - digamma(n_free / 2) + np.log(n_free / 2)
    excess = logs.var(ddof=1) - polygamma(1, n_free / 2)
    if excess <= polygamma(1, MAX_PRIOR_DEGREES / 2):
        return MAX_PRIOR_DEGREES, float(np.exp(logs.mean()))
    half = float(np.exp(brentq(lambda x: polygamma(1, np.exp(x)) - excess, -50, np.log(MAX_PRIOR_DEGREES))))
    return 2 * half, float(np.exp(logs.mean() + digamma(half) - np.log(half)))


def group_codes(name: str, labels: Any, n_sets: int) -> I64:
    """(n_sets,) the number of each label among the sorted ones; ValueError for missing labels or another length."""
    try:
        given = np.asarray(labels)
    except Exception as error:  # other libraries' objects raise what they like
        raise ValueError(f"{name} cannot be made an array ({error}): give one label for each set") from error
    if given.shape != (n_sets,):
        raise ValueError(
            f"{name} must have one label for each of the {n_sets} sets; found shape {given.shape}: give a flat list"
        )
    missing = _missing(given)
    if missing.any():
        raise ValueError(f"{name} has no label for set {int(np.argmax(missing))}: leave out sets without one")
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise ValueError(f"{name} must be of one kind, numbers or text ({error}): convert them") from error


def require_arrangements(groups: I64, strata: I64) -> None:
    """Refuse a single group, groups of one set, and strata within which no two sets could change places."""
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError("groups holds a single label: a test compares two groups or more. Check the labels")
    if sizes.min() < 2:
        alone = int(np.flatnonzero(groups == np.argmin(sizes))[0])
        raise ValueError(
            f"groups gives set {alone} a label that no other set has: each group needs two sets or more, as one does "
            "not tell how sets of a group differ. Leave it out, or join groups"
        )
    pairs = np.unique(np.stack([strata, groups]), axis=1)
    if np.bincount(pairs[0]).max() < 2:
        raise ValueError(
            "blocks has sets of one group alone in every stratum, so that nothing can be permuted: groups and strata "
            "cannot be told apart. Take larger strata"
        )


def _missing(labels: Any) -> Any:
    """Which labels are None, NaN or another library's "missing", none of which equals itself."""
    if labels.dtype != object:
        return labels != labels
    return np.array([label is None or not _is_itself(label) for label in labels.tolist()], bool)


def _is_itself(label: Any) -> bool:
    try:
        return bool(label == label)
    except (TypeError, ValueError):  # pandas' NA is neither; an array is no label
        return False


MOST_PERMUTATIONS = 10**6
LEAST_DIRECTIONS = 32
PARTS = {
    "distribution": ("distribution",),
    "location": ("axis means",),
    "spread": ("spread", "axis spreads"),
    "shape": ("shape",),
    "extremes": ("axis extremes", "radius"),
}
# Of p-values in their harmonic mean. Most is for means, which differ most often; more for other parts takes power from
# them: `python benchmarks/group_test_power.py` shows the balance (2 cores, 2026-11).
WEIGHTS = {
    "axis means": 0.6,
    "spread": 0.1,
    "axis spreads": 0.15,
    "distribution": 0.0375,
    "shape": 0.0375,
    "axis extremes": 0.0375,
    "radius": 0.0375,
    "embedding": 1.0,
}
AXIS_PARTS = ("axis means", "axis spreads", "axis extremes", "radius")


@dataclass(frozen=True)
class GroupTest:
    """Result of `group_test`.

    ``statistics``, by what was compared, are minus the decimal logarithms of p-values: the largest names where the
    groups differ most, without a correction for the number of comparisons. ``statistic`` is that of their weighted
    harmonic mean. ``p_value`` is the fraction of labellings, the given one among them, with a ``statistic`` as large.
    """

    statistic: float
    p_value: float
    n_permutations: int
    statistics: dict[str, float]


def group_test(
    sets: Any,
    groups: Any,
    n_permutations: int = 999,
    statistic: Any = "auto",
    random_state: Any = None,
    blocks: Any = None,
) -> GroupTest:
    """Test whether the sets of several groups come from one distribution over sets, by permutations of sets.

    The sets are what was sampled (patients, not their cells): points of one set are like each other, and pooled they
    would reject what is true. Groups may differ in where sets lie, how wide or what shape they are, or how much the
    sets of a group differ among themselves.

    Parameters
    ----------
    sets : sets
        `SampleSets`, a `SetStore` (read twice, block by block), or a list of (n_i, d) arrays, weighted or not.
    groups : (n_sets,) array-like
        The group of each set, numbers or words: two groups or more, of two sets or more each, none missing.
    n_permutations : int, default=999
        Random permutations of the groups among the sets.
    statistic : {"auto", "distribution", "location", "spread", "shape", "extremes"} or an embedding, default="auto"
        What is compared, in units of the median interquartile range of the sets along each axis. "distribution":
        quantiles of projections, at sliced Wasserstein distance; "location": means along each axis; "spread": standard
        deviations along each axis, and of projections; "shape": the quantiles of each set from its own mean in units of
        its own spread; "extremes": how far the farthest points of a set lie above and below its mean along each axis,
        and from the centre of all sets, so that one odd point in each set counts. "auto": all five; the level counts
        all of them. An embedding is cloned and fitted on the sets without their groups, and its rows are compared: what
        strings and series need.
    random_state : int, Generator or None, default=None
        Seed of the permutations and of the directions.
    blocks : (n_sets,) array-like, optional
        Strata, such as batches or hospitals: groups are permuted within each, and sets compared with those of their
        own, so that differences between strata do not count.

    Returns
    -------
    GroupTest

    Raises
    ------
    ValueError
        For a single group, groups of one set, missing or another number of labels, strata of which none has two groups.
    SampleSetError, StoreFormatError
        As embeddings do, naming the set.

    Notes
    -----
    "distribution", "shape", projected "spread" and embeddings have the statistic ``sum_g 1/n_g sum_{i, j in g}
    k(r_i, r_j)``, of two groups the squared maximum mean discrepancy, with a Gaussian kernel of the median distance
    between rows. Means, standard deviations and extremes along axes have the largest moderated F statistic of an axis.

    Several statistics are combined by the weighted harmonic mean of their p-values: weights are 0.6 for means, 0.1 for
    spread of projections, 0.15 for spread along axes, and 0.0375 for each of distribution, shape, extremes along axes
    and the farthest point from the centre of all sets. p-values are tails of Pearson distributions of type III with the
    moments of all other labellings. The mean is ranked among those of the same permutations.

    The level is exact for any number of sets: if the sets are exchangeable (within strata), p_value <= a with
    probability at most a. (An embedding that looks at a sample of the sets in ``fit`` keeps that but for the little by
    which its choices depend on the order of the sets.) Sets whose sizes differ between groups differ in their noise,
    and in their extremes, which is a difference.

    Cost: one row of 16 max(32, d) + 20 d numbers of each set is kept. Of n sets and B permutations of G groups: n^2 B G
    multiply-adds up to 2,048 sets and 1,024 n B G beyond, where random features stand for the kernel; three times for
    "auto", and 4 d n B G for the axes (1,000 sets: some seconds).

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Rizzo, Szekely: DISCO analysis (2010), for several groups. Smyth:
    Linear models and empirical Bayes methods (2004), for moderated F. Wilson: The harmonic mean p-value (2019).
    Minas, Montana: Distance-based analysis of variance (2014), for tails. Pesarin, Salmaso: Permutation tests for
    complex data (2010), for combining. Phipson, Smyth: Permutation p-values should never be zero (2010).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> healthy = [rng.normal(rng.normal(), 1, size=(40, 2)) for _ in range(15)]
    >>> ill = [rng.laplace(rng.normal(), 0.7, size=(40, 2)) for _ in range(15)]
    >>> found = dk.group_test(healthy + ill, ["healthy"] * 15 + ["ill"] * 15, random_state=0)
    >>> found.p_value < 0.05, max(found.statistics, key=found.statistics.get)
    (True, 'shape')
    """
    embedded = hasattr(statistic, "fit_transform")
    names = ("embedding",) if embedded else _names(statistic)
    count, seed = whole("n_permutations", n_permutations, most=MOST_PERMUTATIONS), draw_seed(random_state)
    sets, groups, blocks = align_to_index(sets, groups=groups, blocks=blocks)
    sets = check_sets(sets, text=embedded)
    labels = group_codes("groups", groups, len(sets))
    strata = np.zeros_like(labels) if blocks is None else group_codes("blocks", blocks, len(sets))
    require_arrangements(labels, strata)
    rows = {"embedding": _rows_of(statistic, sets)} if embedded else _representations(sets, seed)
    parts = [part for name in names for part in PARTS.get(name, (name,))]
    n_groups = int(labels.max()) + 1
    functions = {
        part: (
            largest_f(rows[part], strata, n_groups)
            if part in AXIS_PARTS
            else kernel_statistic(rows[part], strata, seed)
        )
        for part in parts
    }
    values = permuted_statistics(functions, labels, strata, count, seed)
    log_p = {part: log_p_values(values[part]) for part in parts}
    evidence = combined(log_p, WEIGHTS)
    by_name = {
        name: float(combined({part: log_p[part] for part in PARTS.get(name, (name,))}, WEIGHTS)[0])
        for name in names
    }
    ranked = (
        evidence if len(parts) > 1 else standardized(values[parts[0]])
    )  # tails of small statistics are all 1
    return GroupTest(float(evidence[0]), p_value(ranked), count, by_name)


def _names(statistic: Any) -> tuple[str, ...]:
    if not isinstance(statistic, str):
        raise ValueError(
            f"statistic must be 'auto', one of {', '.join(map(repr, PARTS))}, or an embedding; found {statistic!r:.200}"
        )
    chosen = str(one_of("statistic", statistic, ("auto", *PARTS)))
    return tuple(PARTS) if chosen == "auto" else (chosen,)


def _representations(sets: Sets, seed: int) -> dict[str, F32]:
    """One pass for the units of the dimensions, and one for the rows."""
    summarize(sets, None, skip=False)
    d = sets.n_dims
    along_axes = GroupRowsSpec((0.0,) * d, (1.0,) * d, 0, seed)
    centre, scale = centre_and_scale(
        _in_memory(transform_sets(along_axes, sets, "group_axes", skip=False)), d
    )
    n_directions = 0 if d == 1 else max(LEAST_DIRECTIONS, d)
    spec = GroupRowsSpec(tuple(centre.tolist()), tuple(scale.tolist()), n_directions, seed)
    return representations(_in_memory(transform_sets(spec, sets, "group_rows", skip=False)), d)


def _rows_of(embedding: Any, sets: Sets) -> F32:
    rows = _in_memory(clone(embedding).fit_transform(sets))
    if rows.ndim != 2 or len(rows) != len(sets):
        raise ValueError(f"statistic must give one row for each of {len(sets)} sets; found {rows.shape}")
    return np.asarray(checked(rows, np.dtype(np.float32), 0, rows.shape, skip=False)[0])


def _in_memory(rows: Any) -> F32:
    """Rows of features, made block by block if they are lazy."""
    if not is_lazy(rows):
        return np.asarray(rows, np.float32)
    blocks = row_blocks(rows)
    return np.concatenate(map_blocks(blocks, _block, blocks.bounds[:-1].tolist(), label="group_test"))


def _block(block: Any, start: int) -> F32:
    return np.asarray(block, np.float32)
