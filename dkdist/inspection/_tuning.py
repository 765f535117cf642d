"""Tuned constants of explanations, with the trade-off of each and the command that measures it."""

# Nodes of the integral along a path. More nodes make averaged gradients more accurate but need more exponentials. With
# 16 nodes the error is 1e-9 for Gaussians with a sigma of 1/6 of the path length; the narrowest kernel of an automatic
# model has about 1/3. tests/inspection/test_path_gradients.py measures it on any machine.
N_PATH_NODES = 16

# Maximum number of training sets of a kernel member from which paths start: sufficient to include a class with 2 % of
# the sets. Each start costs one prediction per call.
MAX_BACKGROUND_ROWS = 256

# Explanations by dimension: time is proportional to the number of background sets and of coalitions, and noise
# decreases with both (python benchmarks/explanations.py; tests/explaining/test_dimension_contributions.py).
MAX_BACKGROUND_SETS = 32  # larger backgrounds are subsampled
MAX_EXACT_DIMS = 6  # up to this number of dimensions all 2^d coalitions are evaluated
POINTS_PER_BATCH = 2**20  # points of coalitions per evaluation; limits memory
