"""How many nodes or functions a bandwidth needs, and the least bandwidth that so many of them resolve.

q midpoint nodes take the cosine of degree 2q for a constant: with h >= 1 / (2 q) the Gaussian has damped it to
exp(-(2 pi q h)^2 / 2) <= .7 %, and d^2 of Jensen-Shannon, Hellinger and total variation is integrated to 1 % (root mean
square over pairs). Series of q functions leave out degree q, which h >= .683 / q damps to a tenth: a hundredth of its
part of a squared distance.
"""

from __future__ import annotations

import numpy as np

from dkdist.densities.divergence_spec import finest_bandwidth, lattice_size

RESOLVED = 0.5  # bandwidth over node spacing from which d^2 is integrated to a percent
SEEN = 0.3  # below it points between nodes are hardly seen by any
RESOLVED_SERIES = float(np.sqrt(2 * np.log(10)) / np.pi)
MOST_NODES = 11**3  # of a set: 36 in each of two dimensions, 11 in each of three
LEAST_NODES, USUAL_NODES = 4, 10  # of a dimension


def most_nodes(structure: str, d: int) -> int:
    """The most nodes of a dimension, or functions, that leave rows useful: 1,331 for a set, but 10 in any case.

    From four joint dimensions on, 10: it stands for 1,024 nodes.
    """
    most = {"marginal": MOST_NODES / d, "tensor": MOST_NODES ** (1 / d), "ball": USUAL_NODES}[structure]
    return max(USUAL_NODES, int(most + 1e-9))


def nodes_for(h: float, resolved: float, most: int) -> int:
    """The number that resolves the bandwidth h, no more than ``most``."""
    return int(np.clip(np.ceil(resolved / h - 1e-9), LEAST_NODES, most))


def finest_on_lattice(n_basis: int, d: int) -> float:
    """The least bandwidth that the nodes and the terms of a joint density in d >= 4 dimensions resolve."""
    return max(float(lattice_size(n_basis) ** (-1 / d)), finest_bandwidth(d))
