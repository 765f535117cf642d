"""`group_test`: a permutation test of the hypothesis that all groups of sets have the same distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist._base.design_columns import StudyDesign, check_names, target_column
from dkdist._base.embedding import transform_sets
from dkdist._base.inputs import Sets, SetsLike, check_sets, summarize
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, draw_seed
from dkdist._base.row_ids import align_to_index
from dkdist._numba.arrays import F32, F64
from dkdist._runtime.blocks import is_lazy, row_blocks
from dkdist._runtime.map_reduce import map_blocks
from dkdist.linear.rows import check_block
from dkdist.two_sample._tuning import MAX_PERMUTATIONS, MIN_DIRECTIONS
from dkdist.two_sample.combined_p_values import combine_p_values, log_p_values, standardize
from dkdist.two_sample.group_labels import (
    contrast_text,
    contrast_weights,
    encode_labels,
    note_positions,
    ranks,
)
from dkdist.two_sample.group_rows import GroupRowsSpec, centre_and_scale, representations
from dkdist.two_sample.moderated_f import max_f_statistic
from dkdist.two_sample.permutation_design import PermutationDesign, design_permutations
from dkdist.two_sample.permutations import kernel_statistic, p_value, permuted_statistics

PARTS_BY_STATISTIC = {
    "distribution": ("distribution",),
    "location": ("axis means",),
    "spread": ("spread", "axis spreads"),
    "shape": ("shape",),
    "extremes": ("axis extremes", "radius"),
}
# Weights of p-values in their harmonic mean. Means differ most often and have the largest weight; larger weights for
# other parts reduce the power for means: `python benchmarks/group_test_power.py` shows the balance (2 cores, 2026-11).
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
AXIS_PARTS = "axis means", "axis spreads", "axis extremes", "radius"


@dataclass(frozen=True)
class GroupTest:
    """Result of `group_test`.

    ``statistics`` maps names to -log10 of p-values, without correction for multiple comparisons; the largest value
    shows the clearest difference. ``statistic`` is -log10 of their weighted harmonic mean. ``p_value`` is the fraction
    of labellings, including the observed one, with a ``statistic`` at least as large. ``design`` states what was
    permuted, and the adjustment.
    """

    statistic: float
    p_value: float
    n_permutations: int
    statistics: dict[str, float]
    design: str = ""


def group_test(
    sets: SetsLike,
    groups: Any,
    n_permutations: int = 999,
    statistic: Any = "auto",
    random_state: RandomStateLike = None,
    blocks: Any = None,
    adjust: Any = None,
    contrast: Any = None,
) -> GroupTest:
    """Test whether several groups of sets have the same distribution, by permutations of sets.

    The test permutes sets, which are the sampling units (patients, not their cells): points of one set depend on each
    other, so a test of pooled points would reject true null hypotheses too often. Groups may differ in the location,
    width or shape of sets, or in the variation between the sets of a group.

    Parameters
    ----------
    sets : sets
        `SampleSets`, a `SetStore` (read twice, block by block), or a list of (n_i, d) arrays, weighted or not.
    groups : (n_sets,) array-like
        The group of each set, numbers or text: at least two groups of at least two sets each, no missing labels.
    n_permutations : int, default=999
        Number of random permutations of the labels.
    statistic : {"auto", "distribution", "location", "spread", "shape", "extremes"} or an embedding, default="auto"
        Features to compare, in units of the median interquartile range of the sets along each axis. "distribution":
        quantiles of projections, compared by sliced Wasserstein distance; "location": means along each axis; "spread":
        standard deviations along each axis, and of projections; "shape": quantiles of each set, centred and scaled by
        its own mean and spread; "extremes": largest distances of a set's points above and below its mean along each
        axis, and from the centre of all sets, which detect a single outlier per set. "auto": all five, with an exact
        level for their combination. An embedding is cloned and fitted on the sets without their groups, and its rows
        are compared; sets of strings or series require one.
    random_state : int, Generator or None, default=None
        Seed of the permutations and of the directions.
    blocks : (n_sets,) array-like or str, optional
        Labels of sets that depend on each other, such as donors, pairs, batches or hospitals, or the name of a column
        of the sets' targets. If some block has several groups (patients before and after, hospitals), labels are
        permuted within blocks: differences between blocks are ignored, and blocks of one group do not count. If every
        block has one group (donors with repeated visits), rows are averaged over each block, and whole blocks are
        permuted, among blocks of equal size if at least 1,000 labellings remain.
    adjust : list of str, optional
        Names of columns of the sets' targets, such as age and batch, whose linear effects are removed from the rows.
        Text, booleans and integers with at least five sets per value are categories, with a column each. Numbers are
        standardised; missing ones are replaced by the mean and marked. Labels are permuted within categories if at
        least 1,000 labellings remain.
    contrast : dict, optional
        Weights of groups by label, which sum to 0, such as {"before": -1, "after": 1}, or {0: -1, 1: 0, 2: 1} for a
        trend over time. The test is for this weighted sum of groups alone: other differences between groups are
        nuisance columns. Groups of weight 0 add to the estimate of the variation between sets. Sets of groups without
        a weight are not used.

    Returns
    -------
    GroupTest

    Raises
    ------
    ValueError
        For a single group, groups of one set or block, missing labels or a wrong number of them, unknown columns,
        columns of ``adjust`` that determine the groups or leave no degrees of freedom, and contrasts with unknown
        labels, without weights other than 0, with weights that do not sum to 0, or of groups without common blocks.
    SampleSetError, StoreFormatError
        As raised by embeddings. The message names the set.

    Notes
    -----
    "distribution", "shape", the "spread" of projections and embeddings have the statistic
    ``sum_g 1/n_g sum_{i, j in g} k(r_i, r_j)``, for two groups the squared maximum mean discrepancy, with a Gaussian
    kernel whose bandwidth is the median distance between rows. For means, standard deviations and extremes along
    axes, the statistic is the largest moderated F statistic of an axis.

    Several statistics are combined by the weighted harmonic mean of their p-values: weights are 0.6 for means, 0.1 for
    spread of projections, 0.15 for spread along axes, and 0.0375 for each of distribution, shape, extremes along axes
    and the farthest point from the centre of all sets. p-values are tails of Pearson distributions of type III with the
    moments of all other labellings. The p-value of the test is the rank of the mean among those of all labellings.
    Tests with ``adjust``, or a contrast of more than two groups, omit the farthest point: shifts change it nonlinearly.

    The level is exact for any number of sets: if the sets are exchangeable (within blocks), or whole blocks are,
    p_value <= a with probability at most a. With ``adjust``, residual rows are compared, and the residuals of
    the groups are permuted. The level is then exact within categories and approximate otherwise (measured in
    benchmarks/studies_groups.py). Nonlinear effects of numbers remain. A contrast with two weights has the level of
    a test of these two groups. With more weights the level is approximate, and requires that sets vary equally around
    the means of their groups. An embedding that samples the sets in ``fit`` may depend slightly on their order, and the
    level with it. If sizes of sets differ between groups, the test may reject because noise and extremes depend on the
    size.

    Memory: one row of 16 max(32, d) + 20 d numbers per set. Cost for n sets and B permutations of G groups: n^2 B G
    multiply-adds up to 2,048 sets and 1,024 n B G beyond, where random features approximate the kernel; three times
    that for "auto", and 4 d n B G for the axes (1,000 sets: a few seconds).

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Rizzo, Szekely: DISCO analysis (2010), for several groups. Smyth:
    Linear models and empirical Bayes methods (2004), for moderated F. Wilson: The harmonic mean p-value (2019).
    Minas, Montana: Distance-based analysis of variance (2014), for tails. Dekker, Krackhardt,
    Snijders: Sensitivity of MRQAP tests to collinearity and autocorrelation conditions (2007), for adjusted tests;
    Winkler et al.: Permutation inference for the general linear model (2014), for blocks. Pesarin, Salmaso:
    Permutation tests for complex data (2010), for combining. Phipson, Smyth: Permutation p-values should never be zero
    (2010).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> healthy = [rng.normal(rng.normal(), 1, size=(40, 2)) for _ in range(15)]
    >>> ill = [rng.laplace(rng.normal(), 0.7, size=(40, 2)) for _ in range(15)]
    >>> result = dk.group_test(healthy + ill, ["healthy"] * 15 + ["ill"] * 15, random_state=0)
    >>> result.p_value < 0.05, max(result.statistics, key=result.statistics.get)
    (True, 'shape')

    Healthy donors are younger here, and age shifts the cells:

    >>> ill = np.arange(40) % 2
    >>> age = rng.normal(40 + 20 * ill, 10)
    >>> cells = [rng.normal(a / 10, 1, size=(40, 2)) for a in age]
    >>> sets = dk.SampleSets.from_arrays(cells, targets={"age": age})
    >>> result = dk.group_test(sets, ill, adjust=["age"], random_state=0)
    >>> dk.group_test(sets, ill, random_state=0).p_value, result.p_value > 0.1
    (0.001, True)
    >>> result.design
    'labels of 40 sets permuted, adjusted for age'

    Does the treatment have an effect, whatever happened at a third visit?

    >>> visit, donor = np.tile(["before", "after", "later"], 12), np.repeat(np.arange(12), 3)
    >>> shift = rng.normal(size=12)[donor] + 3.0 * (visit == "later")
    >>> cells = [rng.normal(s, 1, size=(40, 2)) for s in shift]
    >>> result = dk.group_test(cells, visit, blocks=donor, contrast={"before": -1, "after": 1}, random_state=0)
    >>> dk.group_test(cells, visit, blocks=donor, random_state=0).p_value, result.p_value > 0.1
    (0.001, True)
    """
    is_embedding = hasattr(statistic, "fit_transform")
    names = ("embedding",) if is_embedding else _selected_statistics(statistic)
    n_permutations, seed = (
        check_int("n_permutations", n_permutations, maximum=MAX_PERMUTATIONS),
        draw_seed(random_state),
    )
    sets, groups, blocks = align_to_index(sets, groups=groups, blocks=blocks)
    sets = check_sets(sets, text=is_embedding)
    n_sets = len(sets)
    labels, codes = encode_labels("groups", groups, n_sets)
    if isinstance(blocks, str):
        blocks = target_column(sets, blocks, "blocks")
    block_codes = None if blocks is None else encode_labels("blocks", blocks, n_sets)[1]
    variables = StudyDesign.of(sets, (), check_names(None, adjust)[1])
    weights, text = None, ""
    if contrast is not None:
        weights = contrast_weights(contrast, labels)
        text = f", contrast {contrast_text(weights, labels)}"
        is_used = ~np.isnan(weights)[codes]
        sets, variables, codes = sets[is_used], variables[is_used], ranks(codes[is_used])
        block_codes = None if block_codes is None else ranks(block_codes[is_used])
        weights = weights[~np.isnan(weights)]
    with note_positions(len(sets), n_sets):
        design = design_permutations(codes, block_codes, variables, weights)
        rows = {"embedding": _embed_sets(statistic, sets)} if is_embedding else _representations(sets, seed)
    parts_by_name = {name: _linear_parts(name, design) for name in names}
    parts = [part for some in parts_by_name.values() for part in some]
    functions = {part: _statistic(part, rows[part], design, seed) for part in parts}
    values = permuted_statistics(
        functions, design.basis, design.exchangeable, n_permutations, seed, design.nuisance
    )
    log_p = {part: log_p_values(values[part]) for part in parts}
    evidence = combine_p_values(log_p, WEIGHTS)
    by_name = {
        name: float(combine_p_values({part: log_p[part] for part in some}, WEIGHTS)[0])
        for name, some in parts_by_name.items()
    }
    # p-values of small statistics are all 1 and would be tied
    ranked = evidence if len(parts) > 1 else standardize(values[parts[0]])
    return GroupTest(float(evidence[0]), p_value(ranked), n_permutations, by_name, design.description + text)


def _linear_parts(name: str, design: PermutationDesign) -> list[str]:
    """Return the parts of a statistic; with nuisance columns, without the part whose rows are not linear in shifts."""
    # with the radius, "age, five ill of twenty" in benchmarks/studies_groups.py had a level of 0.069 instead of 0.050
    return [
        part for part in PARTS_BY_STATISTIC.get(name, (name,)) if design.nuisance is None or part != "radius"
    ]


def _statistic(part: str, rows: F32, design: PermutationDesign, seed: int) -> Callable[[F64], F64]:
    rows = design.unit_rows(rows)
    if part in AXIS_PARTS:
        return max_f_statistic(rows, design.strata, design.n_contrasts, design.nuisance)
    return kernel_statistic(rows, design.strata, seed, design.nuisance)


def _selected_statistics(statistic: Any) -> tuple[str, ...]:
    if not isinstance(statistic, str):
        raise ValueError(
            f"statistic must be 'auto', one of {', '.join(map(repr, PARTS_BY_STATISTIC))}, or an embedding; got "
            f"{statistic!r:.200}."
        )
    name = str(check_choice("statistic", statistic, ("auto", *PARTS_BY_STATISTIC)))
    return tuple(PARTS_BY_STATISTIC) if name == "auto" else (name,)


def _representations(sets: Sets, seed: int) -> dict[str, F32]:
    summarize(sets, None, skip=False)
    d = sets.n_dims
    along_axes = GroupRowsSpec((0.0,) * d, (1.0,) * d, 0, seed)
    centre, scale = centre_and_scale(
        _in_memory(transform_sets(along_axes, sets, "group_axes", skip=False)), d
    )
    n_directions = 0 if d == 1 else max(MIN_DIRECTIONS, d)
    spec = GroupRowsSpec(tuple(centre.tolist()), tuple(scale.tolist()), n_directions, seed)
    return representations(_in_memory(transform_sets(spec, sets, "group_rows", skip=False)), d)


def _embed_sets(embedding: Any, sets: Sets) -> F32:
    rows = _in_memory(clone(embedding).fit_transform(sets))
    if rows.ndim != 2 or len(rows) != len(sets):
        raise ValueError(f"statistic must return rows of shape ({len(sets)}, m); got {rows.shape}.")
    return np.asarray(check_block(rows, np.dtype(np.float32), 0, rows.shape, skip=False)[0])


def _in_memory(rows: Any) -> F32:
    if not is_lazy(rows):
        return np.asarray(rows, np.float32)
    blocks = row_blocks(rows)
    return np.concatenate(map_blocks(blocks, _block, blocks.bounds[:-1].tolist(), label="group_test"))


def _block(block: Any, start: int) -> F32:
    return np.asarray(block, np.float32)
