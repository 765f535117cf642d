"""Tuned numbers of explanations: what each trades off, and the command that shows it."""

# Exponentials per training set against the accuracy of averaged gradients. 16 nodes integrate Gaussians whose sigma is
# a sixth of the path's length to 1e-9; the narrowest kernel of an automatic model has about a third of it.
# tests/inspection/test_path_gradients.py measures it; any machine.
N_PATH_NODES = 16

# Training sets among which paths start, of those that a kernel member holds: enough that a class with a fiftieth of the
# sets is among them, at the cost of as many predictions in each call.
MAX_BACKGROUND_ROWS = 256

# Explanations by dimension: time is proportional to the number of background sets and of coalitions, noise falls with
# both (python benchmarks/explanations.py; tests/explaining/test_dimension_contributions.py).
MAX_BACKGROUND_SETS = 32  # of those that a user gives
MAX_EXACT_DIMS = 6  # up to here all 2^d coalitions are evaluated
POINTS_PER_BATCH = 2**20  # points of coalitions that are evaluated together: bounds memory
