"""`make_cells`: simulated cells of healthy and ill donors, who differ in the fraction of one kind of cells."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
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
        [4.0, 0.5, 4.0, 4.0],  # active killer T cells, whose fraction differs between the groups
    ]
)
KIND_SDS = np.array([0.5, 0.5, 0.9, 0.5])
MEAN_FRACTIONS = np.array([0.50, 0.27, 0.23])  # mean fractions of the first three kinds
OTHER_CELLS, ACTIVE_CELLS = 2, 3  # rows of KIND_MEANS (tests/datasets/test_datasets.py)
MEAN_ACTIVE_FRACTION = {"healthy": 0.01, "ill": 0.05}  # mean fraction of active cells, by group
# Larger concentrations make the fractions of donors more similar, larger shifts make means less informative. Values
# are tuned so that means do not separate the groups (python docs/tutorials/01_data_frame.py).
FRACTION_CONCENTRATION, ACTIVE_CONCENTRATION = 40.0, 400.0  # of the Dirichlet and beta distributions
# Standard deviations between donors of a shift of all measurements, and of an additional shift of the other cells
# (tuned with python docs/tutorials/01_data_frame.py)
DONOR_SHIFT_SD, OTHER_CELLS_SHIFT_SD = 0.15, 0.8
MIN_AGE_YEARS, MAX_AGE_YEARS = 20.0, 80.0  # range of ages, as documented (tests/datasets/test_datasets.py)
# donors, and cells per donor: larger values are typing errors (tests/datasets/test_datasets.py)
MAX_COUNT = 10**6


class Donor(NamedTuple):
    """Group, age in years, severity and cells (n_cells, 4) of a donor."""

    group: str
    age: float
    severity: float
    cells: F64


def make_cells(
    n_donors: int = 60, n_cells: int = 300, *, as_frame: bool = False, random_state: RandomStateLike = None
) -> tuple[Any, Any]:
    """Simulate cytometer measurements of cells of healthy and ill donors.

    Every cell has four markers. All donors have the same kinds of cells, in fractions that vary. About 5 % of the
    cells of ill donors, but only 1 % of those of healthy donors, are active killer T cells (CD8 and CD38 near 4).
    Measurements are shifted between donors, with shifts tuned so that models of means fail.

    Parameters
    ----------
    n_donors : int, default=60
        Number of donors, at least 2; half of them are healthy, half ill.
    n_cells : int, default=300
        Mean number of cells per donor; each has between 0.5 and 1.5 times as many.
    as_frame : bool, default=False
        Whether to return data frames; requires pandas.
    random_state : int, Generator or None, default=None
        Seed of all random numbers.

    Returns
    -------
    sets, y : SampleSets, (n_donors,) array of str
        A set per donor with a point per cell, and "healthy" or "ill". The sets have donors as ids, markers as names of
        dimensions, and "group", "age" and "severity" as targets.
    cells, donors : DataFrame, DataFrame
        With ``as_frame=True``. ``cells`` has a row per cell: "donor", and the markers "CD3", "CD4", "CD8" and "CD38" as
        arcsinh of intensities. ``donors``, in another order, has a row per donor, with the donor as index: "group",
        "age" in years, and "severity": 50 times the fraction of active killer T cells, plus 0.06 for every year above
        20, plus noise of standard deviation 0.3.

    Raises
    ------
    ValueError
        If a number is not whole, below 2 or above 1,000,000.
    TypeError
        If ``as_frame`` is not a boolean.
    ImportError
        If ``as_frame`` is true and pandas is not installed.

    Notes
    -----
    The data are simulated and carry no medical information. Cost: 0.1 ms per donor with 300 cells.

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
    n, size = check_int("n_donors", n_donors, 2, MAX_COUNT), check_int("n_cells", n_cells, 2, MAX_COUNT)
    as_frame, rng = check_bool("as_frame", as_frame), np.random.default_rng(draw_seed(random_state))
    groups = rng.permutation(np.resize(list(MEAN_ACTIVE_FRACTION), n))
    donors = [_simulate_donor(str(group), size, rng) for group in groups]
    ids = np.array([f"D{i:03d}" for i in rng.permutation(n) + 1])
    if as_frame:
        return _to_frames(donors, ids)
    targets = {name: np.array([getattr(donor, name) for donor in donors]) for name in TARGETS}
    return SampleSets.from_arrays([d.cells for d in donors], ids=ids, names=MARKERS, targets=targets), groups


def _simulate_donor(group: str, n_cells: int, rng: np.random.Generator) -> Donor:
    mean = MEAN_ACTIVE_FRACTION[group]
    active = rng.beta(mean * ACTIVE_CONCENTRATION, (1 - mean) * ACTIVE_CONCENTRATION)
    fractions = (1 - active) * rng.dirichlet(MEAN_FRACTIONS * FRACTION_CONCENTRATION)
    counts: I64 = rng.multinomial(rng.integers(n_cells // 2, 3 * n_cells // 2 + 1), [*fractions, active])
    kind = rng.permutation(np.repeat(np.arange(len(KIND_MEANS)), counts))
    means = KIND_MEANS + rng.normal(0, DONOR_SHIFT_SD, len(MARKERS))
    means[OTHER_CELLS] += rng.normal(0, OTHER_CELLS_SHIFT_SD, len(MARKERS))
    cells = means[kind] + KIND_SDS[kind, None] * rng.standard_normal((len(kind), len(MARKERS)))
    age = rng.uniform(MIN_AGE_YEARS, MAX_AGE_YEARS)
    severity = 50 * float(np.mean(kind == ACTIVE_CELLS)) + 0.06 * (age - MIN_AGE_YEARS) + rng.normal(0, 0.3)
    return Donor(group, age, severity, cells)


def _to_frames(donors: list[Donor], ids: NDArray[np.str_]) -> tuple[Any, Any]:
    """Return cells in the order of the donors, and donors in the order of their ids."""
    if find_spec("pandas") is None:
        raise ImportError("as_frame=True needs pandas: pip install 'dkdist[frames]'")
    import pandas as pd

    cells = pd.DataFrame(np.concatenate([donor.cells for donor in donors]), columns=list(MARKERS))
    cells.insert(0, "donor", np.repeat(ids, [len(donor.cells) for donor in donors]))
    rows = [donor[: len(TARGETS)] for donor in donors]
    donor_frame = pd.DataFrame(rows, columns=list(TARGETS), index=pd.Index(ids, name="donor"))
    return cells, donor_frame.sort_index()
