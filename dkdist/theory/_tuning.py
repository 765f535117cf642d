"""Tuned numbers of error estimates: what each trades off, and the command that shows it."""

# Nodes per dimension of reference integrals, by dimension: accuracy against time and memory
# (python -m pytest tests/theory/test_kernel_error.py).
MIN_REFERENCE_NODES_BY_DIM = {1: 512, 2: 96, 3: 32}
MAX_PAIRS = 10**7  # bounds the memory of kernel_error (tests/theory/test_kernel_error.py)
CONFIDENCE = 0.95  # of its interval, as its docstring states (tests/theory/test_kernel_error.py)

# Terms of the theta series of the reflected kernel: enough for bandwidths from 2e-4, whose last term is
# exp(-(pi 10^4 2e-4)^2) = 7e-18 (tests/theory/test_hdd_bound.py).
N_SERIES_TERMS = 10_000

# Limits whose squares are finite floats and above 0 (tests/theory/test_n_features_for.py).
MIN_NUMBER, MAX_NUMBER = 1e-100, 1e100
MAX_GRID_FEATURES = 2**17  # larger grids are not searched (tests/theory/test_n_features_for.py)
