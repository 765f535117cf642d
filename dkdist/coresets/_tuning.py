"""Tuned constants of coresets; comments give trade-offs and the commands that measure them."""

# Selection (python benchmarks/coresets.py; tests/kernel/test_coreset.py). More candidates, features and rounds give a
# smaller distance and take more time and memory.
MAX_CANDIDATES = 2**14  # candidates of halving and swaps; larger sets have one per region
N_GLOBAL_CANDIDATES = 256  # swap candidates from the whole set, in addition to the region of the point
N_SWAP_ROUNDS = 2  # each point may be replaced once per round
MAX_GRID_FEATURES = 1024  # features per candidate from a Fourier grid; 64 MiB for 2**14 candidates
N_RANDOM_FEATURES = 1024  # random features per candidate if no grid is accurate enough
TRUNCATION_RATIO = 0.01  # allowed weight of the truncated frequencies, times the size of the coreset
MAX_GRID_ERROR = 1e-2  # kernel error above which random features replace the grid

# Distances (tests/kernel/test_coreset_kernels.py compares estimates with exact sums).
MAX_EXACT_POINTS = 30_000  # distances of more points are estimated instead of summed over all pairs
N_DISTANCE_FEATURES = 4096  # random features of an estimate; its standard error is 2 to 5 %
MAX_KERNEL_ROUNDING = 1e-2  # largest rounding error of k from float32 features
MEDIAN_SAMPLE_SIZE = 1024  # points for the median distance; its time is quadratic

# Sets that are read piece by piece (python benchmarks/coresets.py).
CELL_KERNEL_TOL = 2.5e-9  # error of k on cells; the error of D^2 is then (W + W)^2 times this, 1e-8 W^2
MAX_CELLS = 2**22  # cells per piece in flight; their float64 sums take 32 MiB

# Merging and streams (python benchmarks/merged_coresets.py). Larger intermediate coresets are more
# accurate and slower.
MERGE_SIZE_RATIO = 8  # size of an intermediate coreset / final size
MAX_EXTRA_MERGE_POINTS = 1024  # maximum points of an intermediate coreset beyond the final size
MAX_SWAP_ROUNDS = 8  # rounds of swaps in a merge; fewer if no swap improves the coreset
BLOCK_POINTS = 2**15  # buffered points of a stream per new coreset
