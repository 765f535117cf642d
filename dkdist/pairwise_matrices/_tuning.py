"""Tuned constants of pairwise matrices, with their trade-offs and commands that show the effect."""

# Tiles of a matrix. Values affect only the run time, not results (tests/pairs/test_staircase.py counts extra pairs).
MIN_THREADED_PRODUCTS = 2**17  # coordinate products; below this, starting threads costs more than the work
N_TIMED_SETS = 3  # sets per side in the timing of divergences for the plan of verbose=True
N_TIMED_OBJECTS = 16  # objects per side in the timing of distances for this plan
# Rows or columns per task: small tiles prepare columns more often, large tiles balance worse.
MAX_TILE_SIDE = 512
TARGET_TASKS = 8  # more tasks balance threads better but prepare columns more often
MIN_SPLIT_ROWS = 24  # with fewer rows, computing both halves costs less than another call
MIN_ROWS_PER_PREPARE_COST = 8  # minimum rows of a task per unit of `CostModel.prepare_cost`

# Rows of a tile are computed in runs; Ctrl-C is handled between runs (tests/execution/test_threads.py).
TARGET_RUN_SECONDS = 0.5  # trades the delay of Ctrl-C against the overhead per run
FIRST_RUN_PRODUCTS = 2**26  # coordinate products: about 0.05 s for a fast distance
MIN_RUN_ROWS = 4  # compiled functions process four rows at a time

# Nearest-neighbour search (python benchmarks/nearest.py).
PIECES_PER_CORE = 2  # blocks per core for rows in memory
MAX_BLOCKS_IN_MEMORY = 64  # maximum number of blocks of lazy rows
CELLS_PER_SQRT_ROWS = 2.0  # balances comparisons with centres and with rows in cells
TRAINING_ROWS_PER_CELL = 40  # fewer rows make centres noisy, more rows cost time
N_KMEANS_ITERATIONS = 10  # trades the quality of centres against the time of fit
BOUND_BATCH_NUMBERS = 2**20  # distances of queries to centres per batch: 8 MiB of float64 numbers each
N_RECALL_QUERIES = 256  # trades the standard error of `recall_` against the cost of exact neighbours

# SetSmoother. Fewer candidates choose a coarser bandwidth, more take longer; 40 over a range of 10^3 are 19 % apart.
# The leave-one-out error of 4,096 sets has a relative standard error of about 2 % (tests/pairs/test_set_smoother.py).
N_BANDWIDTHS = 40
MAX_LEAVE_ONE_OUT_SETS = 4096
MAX_NEIGHBOUR_VALUES = 2**22  # 32 MiB: targets of the neighbours of a batch of sets

# Tolerances for rounding errors of input matrices (tests/pairs/test_psd.py, tests/pairs/test_pseudo_euclidean.py).
KERNEL_SYMMETRY_TOL = 1e-8  # relative to the largest entry
DISTANCE_SYMMETRY_TOL = 1e-6  # relative to the largest distance; distances are float32
DIAGONAL_TOL = 1e-3  # relative to the largest distance; square roots of rounding errors
EIGENVALUE_TOL = 1e-6  # relative to the largest eigenvalue; smaller ones are rounding errors of float32

# Gaussian divergences (tests/pairs/test_gaussian_divergences.py).
PAIR_BATCH_VALUES = 2**19  # float64 values per temporary array of a batch of pairs: 4 MiB
# Smallest variance of a dimension conditional on the previous ones, as a fraction of its variance; less is rounding
# error.
MIN_CONDITIONAL_VARIANCE = 1e-12

# Nyström features: values of rows of an embedding that a thread holds, 4 MiB; smaller tiles need more calls.
# Does not affect results (python benchmarks/papers/embeddings_seconds.py).
ROW_VALUES_PER_TILE = 2**20
