"""How fine densities are taken: the bandwidth that data ask for, and the nodes and functions that it needs."""
