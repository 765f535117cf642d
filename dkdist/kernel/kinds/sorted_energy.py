"""Energies of kernels for which sorting is enough: exponential ones on a line, one of them in the plane."""

from __future__ import annotations

import numpy as np

from dkdist.kernel.kinds.kernel_kinds import KINDS
from dkdist.kernel.kinds.line_loops import line_sums
from dkdist.kernel.kinds.plane_loops import plane_energy
from dkdist.loops.array_types import F64


def sorted_energy(x: F64, z: F64, kernel: str) -> float:
    """sum_ij k(x_i, x_j) <z_i, z_j> of scaled points (n, d), exactly in n log n, where `can_be_sorted`."""
    line = KINDS[kernel].line
    if line is not None and x.shape[1] == 1:
        return float((z * line_sums(x[:, 0], z, *line)[0]).sum())
    return plane_energy(np.log(2) * x, z)
