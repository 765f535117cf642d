"""Tuned constants of error estimates, with the trade-off of each and the command that measures it."""

# Nodes per axis of reference integrals, by number of dimensions. More nodes increase accuracy, time and memory
# (python -m pytest tests/theory/test_kernel_error.py).
MIN_REFERENCE_NODES_BY_DIM = {1: 512, 2: 96, 3: 32}
MAX_PAIRS = 10**7  # limits the memory of kernel_error (tests/theory/test_kernel_error.py)
CONFIDENCE = 0.95  # level of the interval of kernel_error (tests/theory/test_kernel_error.py)

# Terms of the theta series of the reflected kernel, sufficient for bandwidths of at least 2e-4: the last term is
# exp(-(pi 10^4 2e-4)^2) = 7e-18 (tests/theory/test_hdd_bound.py).
N_SERIES_TERMS = 10_000

# Limits of parameters; their squares are finite positive floats (tests/theory/test_n_features_for.py).
MIN_NUMBER, MAX_NUMBER = 1e-100, 1e100
MAX_GRID_FEATURES = 2**17  # maximum size of a grid (tests/theory/test_n_features_for.py)
