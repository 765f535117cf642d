"""`group_test`: whether the sets of several groups come from one distribution over sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import clone

from dkdist.base.embedding import transform_sets
from dkdist.base.inputs import Sets, check_sets, survey
from dkdist.base.parameter_checks import draw_seed, one_of, whole
from dkdist.base.row_ids import in_row_order
from dkdist.execution.blocks import is_lazy, row_blocks
from dkdist.execution.passes import collect
from dkdist.learners.rows import checked
from dkdist.loops.array_types import F32
from dkdist.pairs.groups.group_labels import group_codes, require_arrangements
from dkdist.pairs.groups.group_rows_spec import GroupRowsSpec, centre_and_scale, representations
from dkdist.pairs.groups.permutations import p_value, standardised_statistics

MOST_PERMUTATIONS = 10**6
LEAST_DIRECTIONS = 32
NAMES = ("distribution", "location", "spread", "shape")


@dataclass(frozen=True)
class GroupTest:
    """What `group_test` found.

    ``statistics``, by what was compared, are in standard deviations of their permutations from the mean of these: the
    largest, ``statistic``, names where the groups differ most. ``p_value`` is the share of labellings, the given one
    among them, with a ``statistic`` as large.
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
    statistic : {"auto", "distribution", "location", "spread", "shape"} or an embedding, default="auto"
        What is compared. "distribution": quantiles of projections, at sliced Wasserstein distance, in units of the
        sets' interquartile ranges; "location" and "spread": means and standard deviations of these quantiles, each
        column in units of its own variation between sets; "shape": the quantiles of each set from its own location in
        units of its spread. "auto": all four; the level counts all of them. An embedding is cloned and fitted on the
        sets without their groups, and its rows are compared: what strings and series need.
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
    Statistic: ``sum_g 1/n_g sum_{i, j in g} k(r_i, r_j)``, of two groups the squared maximum mean discrepancy, with a
    Gaussian kernel of the median distance between rows; over several representations the largest of the standardised
    ones. The level is exact for any number of sets: if the sets are exchangeable (within strata), p_value <= a with
    probability at most a. (An embedding that looks at a sample of the sets in ``fit`` keeps that but for the little by
    which its choices depend on the order of the sets.) Sets whose sizes differ between groups differ in their noise,
    which is a difference.

    Cost: one row of 16 max(32, d) + 16 d numbers of each set is kept. Of n sets and B permutations of G groups: n^2 B G
    multiply-adds up to 2,048 sets and 1,024 n B G beyond, where random features stand for the kernel; each four times
    for "auto" (1,000 sets: some seconds).

    References
    ----------
    Gretton et al.: A kernel two-sample test (2012). Schrab et al.: MMD aggregated two-sample test (2023), for
    combining kernels. Rizzo, Szekely: DISCO analysis (2010), for several groups. Phipson, Smyth: Permutation p-values
    should never be zero (2010).

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
    sets, groups, blocks = in_row_order(sets, groups=groups, blocks=blocks)
    sets = check_sets(sets, text=embedded)
    labels = group_codes("groups", groups, len(sets))
    strata = np.zeros_like(labels) if blocks is None else group_codes("blocks", blocks, len(sets))
    require_arrangements(labels, strata)
    rows = {"embedding": _rows_of(statistic, sets)} if embedded else _representations(sets, seed)
    found = {name: standardised_statistics(rows[name], labels, strata, count, seed) for name in names}
    largest = reduce(np.maximum, found.values())
    own = {name: float(values[0]) for name, values in found.items()}
    return GroupTest(float(largest[0]), p_value(largest), count, own)


def _names(statistic: Any) -> tuple[str, ...]:
    if not isinstance(statistic, str):
        raise ValueError(
            f"statistic must be 'auto', one of {', '.join(map(repr, NAMES))}, or an embedding; found {statistic!r:.200}"
        )
    chosen = str(one_of("statistic", statistic, ("auto", *NAMES)))
    return NAMES if chosen == "auto" else (chosen,)


def _representations(sets: Sets, seed: int) -> dict[str, F32]:
    """One pass for the units of the dimensions, and one for the rows."""
    survey(sets, None, skip=False)
    d = sets.n_dims
    along_axes = GroupRowsSpec((0.0,) * d, (1.0,) * d, 0, seed)
    centre, scale = centre_and_scale(_in_memory(transform_sets(along_axes, sets, "group_axes", skip=False)))
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
    return np.concatenate(collect(blocks, _block, blocks.bounds[:-1].tolist(), label="group_test"))


def _block(block: Any, start: int) -> F32:
    return np.asarray(block, np.float32)
