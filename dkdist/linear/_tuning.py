"""Tuned constants of linear models, with their trade-offs and the commands that measure them."""

# SGD replicas (lanes): rare averaging reduces communication, frequent averaging is as accurate as one replica
# (log loss: python benchmarks/lanes.py; time: python benchmarks/simulate.py table).
MAX_BATCHES_PER_SYNC = 32
MAX_ROWS_PER_SYNC = 2**16
MIN_SYNCS_PER_EPOCH = 8  # for epochs with at least this number of batches
# A round of parallel lanes waits for messages of a cluster, as long as computing so many bytes of features (10 ms).
# One lane on several workers is so many times as fast as on one. Lanes that would be slower take turns
# (simulated: python benchmarks/simulate.py table; AMD EPYC, 2026-11).
ROUND_OVERHEAD_BYTES = 28 * 2**20
ONE_LANE_SPEEDUP = 1.7
MAX_AUTO_LANES = 8  # more replicas reduce the accuracy
# Batches in a graph of rounds: the death of a worker repeats a graph, each graph costs messages.
MAX_GRAPH_BATCHES = 256

# n_epochs="auto". More steps reduce the loss but take time (python benchmarks/defaults.py). A step is one row;
# tests/linear/test_sgd.py compares the result with exact minimisers.
MIN_AUTO_STEPS, MAX_AUTO_STEPS = 40_000, 2_000_000
MIN_AUTO_EPOCHS, MIN_AUTO_EPOCH_LIMIT, MAX_AUTO_EPOCHS = 2, 5, 100
CONVERGENCE_RTOL = 2e-3  # a run ends when the gain is smaller than this fraction of the first epoch's loss

# With more cores, threads prefetch blocks of features. Otherwise each step computes its features, which stay in the
# CPU cache (python benchmarks/roofline.py fused, tests/linear/test_made_rows.py).
MAX_LAZY_ROW_CORES = 2

# SGD steps. Averaging every 256 rows is as accurate as after every row and cheaper (python benchmarks/speed.py).
ROWS_PER_AVERAGE = 256
N_MONITOR_ROWS = 128  # rows per batch for the training loss: time against noise (tests/linear/test_sgd.py)
# Last rows of a batch that are checked for divergence; at most one tile of lazy rows
# (tests/learners/test_sgd_learner.py)
N_LAST_ROWS = 16
N_STEP_SIZE_ROWS = 1024  # rows for estimating R^2 of the default step (tests/linear/test_sgd.py)
# Scores and coefficients above this limit have diverged: float32 no longer separates targets of order 1
# (tests/learners/test_sgd_learner.py, tests/linear/test_search.py).
MAX_SCORE = 1e8
# Limits of the warning about column scales: rarely issued for data without signal, always for scales that prevent
# learning (tests/linear/test_sgd.py). Loss reduction is relative to a constant model; steps are in units of 1 / (eta v)
# for a column of variance v.
MIN_LOSS_REDUCTION = 0.2
MAX_UNTRAINED_STEPS = 0.1
# Blocks per batch if targets are sorted: memory against bias (tests/learners/test_rows.py).
MAX_SHUFFLED_BLOCKS = 8

# Ridge regression: more tasks balance workers better, fewer tasks send fewer Gram matrices
# (tests/linear/test_ridge.py, python benchmarks/roofline.py ridge).
N_RIDGE_JOBS, MAX_RIDGE_JOBS = 32, 256
MAX_TREE_LEVELS = 8  # log2(MAX_RIDGE_JOBS): Gram matrices in memory in the tree of sums
MAX_UNMERGED_BYTES = 2 * 2**30  # statistics per process that are not yet merged (python benchmarks/memory.py)
# With fewer columns, threads do not speed up the solution (python benchmarks/roofline.py ridge).
MAX_ONE_THREAD_COLUMNS = 1024
# With fewer rows, errors on 10 % of the rows are too noisy (tests/linear/test_ridge_parts.py).
MAX_LEAVE_ONE_OUT_ROWS = 4000
N_CALIBRATION_ROWS = 1024  # rows for fitting probabilities (tests/linear/test_ridge_parts.py)
# More Cholesky factors cost more than one eigendecomposition (python benchmarks/roofline.py ridge).
MAX_CHOLESKY_ALPHAS = 12

# Matrix products of ridge regression: large tiles need fewer float64 additions, small tiles stay in the cache
# (python benchmarks/roofline.py ridge; tests/learners/test_ridge_learner.py checks their accuracy).
MIN_ROWS_PER_TILE, MAX_ROWS_PER_TILE = 1024, 4096
MAX_TILE_BYTES = 2**27
COPY_BYTES = 2**20  # size of the pieces that are copied to a tile
COLUMNS_PER_PRODUCT = 1024  # panel width for the Gram matrix (D x D)
COLUMNS_PER_DUAL_PRODUCT = 512  # panel width for the kernel matrix (n x n)
ROWS_PER_STRIP = 64  # rows of the Gram matrix per update
ROWS_PER_LEAVE_ONE_OUT_TILE = 1024
MAX_STACKED_NUMBERS = 2**20  # values per batched product (8 MiB), which avoids one call per fold

# OnePassSearch (python benchmarks/search.py). Candidates share passes, so more steps cost time for every candidate.
N_AUTO_SEARCH_STEPS = 100_000
ROWS_PER_SEARCH_TILE = 128  # rows per block if all its features are in memory (python benchmarks/memory.py)
# The tree of sums has 4 = log2(16) levels.
N_SEARCH_RIDGE_JOBS, MAX_SEARCH_TREE_LEVELS, MAX_WAITING_SUMS = 16, 4, 4

# DensityRegressor (python benchmarks/papers/density_regression.py, 2 cores, 2026-11).
# The cost is proportional to it. 100, 300, 1,000 and 3,000 features have errors of 0.0198, 0.0189, 0.0185 and 0.0184 in
# the setting "rotation" (200 sets of 50 points), and equal errors within 4 % in the others.
N_RANDOM_FEATURES = 1000
# The penalty is selected for responses damped at this fraction of the bandwidth of a single set, as the bandwidth that
# is selected afterwards is 0.4 to 0.8 of it. Ratios from 0.25 to 1 select the same penalties in these settings.
PILOT_BANDWIDTH_RATIO = 0.5
MIN_PILOT_DAMPING = 1e-3  # smaller factors would underflow in float32 coefficients
# Candidate bandwidths relative to that of a single set, and functions for the smallest of them.
MAX_BANDWIDTH_RATIO, MIN_BANDWIDTH_RATIO = 2.0, 0.25
# Grid of a predicted density, by dimension: interpolation error against time and memory.
GRID_POINTS_PER_FUNCTION = {1: 16, 2: 8, 3: 4}
MIN_GRID_POINTS = {1: 256, 2: 64, 3: 32}

# Cox regression: a step that lowers the objective by less than this fraction of the number of events is not taken. Log
# hazards are then exact to about sqrt(COX_RTOL) standard errors.
COX_RTOL = 1e-12
MAX_COX_STEPS = 50
# Intervals of time of the bound of the Hessian: more take time and save steps.
MAX_TIME_INTERVALS = 64
# Newton steps by conjugate gradients: fewer iterations of 3 n^2 operations against more steps. With 4,000 rows and a
# Gaussian kernel, four to seven steps of 4 to 45 iterations take 5 to 11 s; a factor of K takes 80 to 120 s (2026-11).
CG_RTOL, MAX_CG_STEPS = 1e-3, 500
