"""The energy of a task by a method of `kernel_distance`."""

from __future__ import annotations

from dkdist.kernel.distance.energy_task import SMALL, Task, all_pairs

METHODS = ("auto", "exact", "fourier", "rff", "taylor", "tree", "wspd")


def energy_by(task: Task, method: str) -> float:
    """sum_ij k(x_i, x_j) <z_i, z_j>; what does less than all pairs is loaded when it is asked for."""
    small = task.kernel != "gaussian" or len(task.x) <= SMALL
    if method == "exact" or (method == "auto" and small):
        return all_pairs(task)
    if task.kernel != "gaussian":
        raise ValueError(
            f"method={method!r} is for kernel='gaussian': use 'exact' for kernel={task.kernel!r}"
        )
    from dkdist.kernel.distance.kernel_methods import BY_NAME

    return BY_NAME[method](task)
