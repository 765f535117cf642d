"""Tuned values of explanations: the trade-off of each, and the command that measures it."""

# Trades exponentials per training set for accuracy of averaged gradients. 16 nodes integrate Gaussians with a sigma of
# one sixth of the path length to 1e-9; the narrowest kernel of an automatic model has about one third.
# tests/inspection/test_path_gradients.py measures it; any machine.
N_PATH_NODES = 16

# Number of training sets of a kernel member at which paths start: enough to include a class with 2 % of the sets; each
# costs one prediction per call.
MAX_BACKGROUND_ROWS = 256

# Explanations by dimension: time is proportional to the number of background sets and of coalitions, noise falls with
# both (python benchmarks/explanations.py; tests/explaining/test_dimension_contributions.py).
MAX_BACKGROUND_SETS = 32  # larger backgrounds are subsampled
MAX_EXACT_DIMS = 6  # for at most this many dimensions all 2^d coalitions are evaluated
POINTS_PER_BATCH = 2**20  # points of coalitions per evaluation: bounds memory
