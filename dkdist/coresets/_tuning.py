"""Tuned numbers of coresets: what each trades off, and the command that shows it."""

# Selection (python benchmarks/coresets.py; tests/kernel/test_coreset.py). More candidates, features and rounds give a
# smaller distance and take more time and memory.
MAX_CANDIDATES = 2**14  # points that halving and swaps choose from: one per region of larger sets
N_GLOBAL_CANDIDATES = 256  # swap candidates from the whole set, in addition to the region of the point
N_SWAP_ROUNDS = 2  # each point may be replaced once per round
MAX_GRID_FEATURES = 1024  # features per candidate from a Fourier grid; with 2**14 candidates 64 MiB
N_RANDOM_FEATURES = 1024  # random features per candidate, where no grid is accurate enough
TRUNCATION_RATIO = 0.01  # weight of the truncated frequencies times the size of the coreset
MAX_GRID_ERROR = 1e-2  # kernel error above which random features replace the grid

# Distances (tests/kernel/test_coreset_kernels.py compares estimates with exact sums).
MAX_EXACT_POINTS = 30_000  # of a distance by all pairs; beyond, it is estimated
N_DISTANCE_FEATURES = 4096  # random features of an estimate: standard error 2 to 5 %
MAX_KERNEL_ROUNDING = 1e-2  # of k between two points by float32 features
MEDIAN_SAMPLE_SIZE = 1024  # points for the median distance: time grows with its square

# Sets that are read piece by piece (python benchmarks/coresets.py).
CELL_KERNEL_TOL = 2.5e-9  # of cells: (W + W)^2 times it is 1e-8 W^2
MAX_CELLS = 2**22  # float64 sums: 32 MiB for each piece in flight

# Merging and streams (python benchmarks/merged_coresets.py). Larger intermediate coresets lose less and take longer.
MERGE_SIZE_RATIO = 8  # points of an intermediate coreset over the final size,
MAX_EXTRA_MERGE_POINTS = 1024  # but at most this many more than the final size
MAX_SWAP_ROUNDS = 8  # of swaps in a merge; stops earlier without improvement
BLOCK_POINTS = 2**15  # points of a stream that are buffered before they become a coreset
