"""`make_cells`: measured cells of donors in two groups, of which a few cells tell the groups apart."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import draw_seed, whole
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool
from dkdist.sets import SampleSets

MARKERS = ("CD3", "CD4", "CD8", "CD38")
TARGETS = ("group", "age", "severity")
KIND_MEANS = np.array(
    [
        [4.0, 4.0, 0.5, 1.0],  # T helper cells
        [4.0, 0.5, 4.0, 1.0],  # killer T cells
        [0.5, 1.0, 0.5, 2.0],  # other cells
        [4.0, 0.5, 4.0, 4.0],  # active killer cells: what differs between the groups
    ]
)
KIND_SDS = np.array([0.5, 0.5, 0.9, 0.5])
MEAN_FRACTIONS = np.array([0.50, 0.27, 0.23])  # of the first three kinds, on average
OTHER_CELLS, ACTIVE_CELLS = 2, 3
MEAN_ACTIVE_FRACTION = {"healthy": 0.01, "ill": 0.05}  # share of active cells, on average
FRACTION_CONCENTRATION, ACTIVE_CONCENTRATION = 40.0, 400.0  # how little shares vary between donors
DONOR_SHIFT_SD, OTHER_CELLS_SHIFT_SD = (
    0.15,
    0.8,
)  # of a donor's measurements, and of the other cells, against another's
MIN_AGE_YEARS, MAX_AGE_YEARS = 20.0, 80.0  # years
MAX_COUNT = 10**6  # donors, or cells of one


class Donor(NamedTuple):
    """One donor: the group, the age in years, how severe, and the cells."""

    group: str
    age: float
    severity: float
    cells: F64


def make_cells(
    n_donors: int = 60, n_cells: int = 300, *, as_frame: bool = False, random_state: Any = None
) -> tuple[Any, Any]:
    """Simulate cells of healthy and ill donors, as a cytometer measures them: who is ill, and which cells tell?

    Four markers of every cell. All donors have the same kinds of cells, in shares that vary; of the cells of the ill
    some 5 % instead of 1 % are active killer cells (CD8 and CD38 near 4). Measurements of one donor are shifted
    against another's by as much as it takes for means to tell little: the simulation was tuned so that they fail.

    Parameters
    ----------
    n_donors : int, default=60
        Half of them healthy, half ill; 2 or more.
    n_cells : int, default=300
        Cells of a donor on average; each has between half and one and a half times as many.
    as_frame : bool, default=False
        Whether to return data frames, as such data come; needs pandas.
    random_state : int, Generator or None, default=None
        Seed of everything.

    Returns
    -------
    sets, y : SampleSets, (n_donors,) array of str
        A set for each donor with a point for each cell, and "healthy" or "ill". The sets know the donors as ids, the
        markers as names of dimensions, and "group", "age" and "severity" as targets.
    cells, donors : DataFrame, DataFrame
        With ``as_frame=True``. ``cells`` has a row for each cell: "donor", and the markers "CD3", "CD4", "CD8" and
        "CD38" as arcsinh of intensities. ``donors``, in another order, has a row for each donor, with the donor as
        index: "group", "age" in years, and "severity": 50 times the share of active killer cells, plus .06 for every
        year above 20, plus noise of standard deviation .3.

    Raises
    ------
    ValueError
        For numbers that are not whole, below 2 or above a million.
    TypeError
        If ``as_frame`` is no boolean.
    ImportError
        If ``as_frame`` is asked for and pandas is not there.

    Notes
    -----
    The data are simulated and say nothing of any illness. Cost: .1 ms a donor of 300 cells.

    Examples
    --------
    >>> import dkdist as dk
    >>> sets, y = dk.datasets.make_cells(random_state=0)
    >>> len(sets), sets.names, y[:3].tolist()
    (60, ('CD3', 'CD4', 'CD8', 'CD38'), ['healthy', 'ill', 'healthy'])
    >>> cells, donors = dk.datasets.make_cells(random_state=0, as_frame=True)
    >>> cells.columns.tolist(), donors.columns.tolist()
    (['donor', 'CD3', 'CD4', 'CD8', 'CD38'], ['group', 'age', 'severity'])
    """
    n, size = whole("n_donors", n_donors, 2, MAX_COUNT), whole("n_cells", n_cells, 2, MAX_COUNT)
    framed, rng = check_bool("as_frame", as_frame), np.random.default_rng(draw_seed(random_state))
    groups = rng.permutation(np.resize(list(MEAN_ACTIVE_FRACTION), n))
    donors = [_simulate_donor(str(group), size, rng) for group in groups]
    ids = np.array([f"D{i:03d}" for i in rng.permutation(n) + 1])
    if framed:
        return _to_frames(donors, ids)
    targets = {name: np.array([getattr(one, name) for one in donors]) for name in TARGETS}
    return SampleSets.from_arrays([d.cells for d in donors], ids=ids, names=MARKERS, targets=targets), groups


def _simulate_donor(group: str, n_cells: int, rng: np.random.Generator) -> Donor:
    mean = MEAN_ACTIVE_FRACTION[group]
    active = rng.beta(mean * ACTIVE_CONCENTRATION, (1 - mean) * ACTIVE_CONCENTRATION)
    shares = (1 - active) * rng.dirichlet(MEAN_FRACTIONS * FRACTION_CONCENTRATION)
    counts: I64 = rng.multinomial(rng.integers(n_cells // 2, 3 * n_cells // 2 + 1), [*shares, active])
    kind = rng.permutation(np.repeat(np.arange(len(KIND_MEANS)), counts))
    means = KIND_MEANS + rng.normal(0, DONOR_SHIFT_SD, len(MARKERS))
    means[OTHER_CELLS] += rng.normal(0, OTHER_CELLS_SHIFT_SD, len(MARKERS))
    cells = means[kind] + KIND_SDS[kind, None] * rng.standard_normal((len(kind), len(MARKERS)))
    age = rng.uniform(MIN_AGE_YEARS, MAX_AGE_YEARS)
    severity = 50 * float(np.mean(kind == ACTIVE_CELLS)) + 0.06 * (age - MIN_AGE_YEARS) + rng.normal(0, 0.3)
    return Donor(group, age, severity, cells)


def _to_frames(donors: list[Donor], ids: NDArray[np.str_]) -> tuple[Any, Any]:
    """Cells in the order in which donors were measured, and donors in the order of their names."""
    if find_spec("pandas") is None:
        raise ImportError("as_frame=True needs pandas: pip install 'dkdist[frames]'")
    import pandas as pd

    cells = pd.DataFrame(np.concatenate([one.cells for one in donors]), columns=list(MARKERS))
    cells.insert(0, "donor", np.repeat(ids, [len(one.cells) for one in donors]))
    rows = [one[: len(TARGETS)] for one in donors]
    told = pd.DataFrame(rows, columns=list(TARGETS), index=pd.Index(ids, name="donor"))
    return cells, told.sort_index()
