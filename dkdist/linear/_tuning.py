"""Tuned numbers of linear models: what each trades off, and the command that shows it."""

# SGD replicas (lanes). Rare averaging saves messages; frequent averaging keeps the accuracy of one replica
# (python benchmarks/lanes.py shows the log loss, python benchmarks/simulate.py table the time).
MAX_BATCHES_PER_SYNC = 32
MAX_ROWS_PER_SYNC = 2**16
MIN_SYNCS_PER_EPOCH = 8  # where an epoch has enough batches

# n_epochs="auto". More steps lower the loss and take time (python benchmarks/defaults.py). The limits are rows used
# over all epochs; tests/linear/test_sgd.py compares the result with exact minimisers.
MIN_AUTO_STEPS, MAX_AUTO_STEPS = 40_000, 2_000_000
MIN_AUTO_EPOCHS, MIN_AUTO_EPOCH_LIMIT, MAX_AUTO_EPOCHS = 2, 5, 100
CONVERGENCE_RTOL = 2e-3  # of the first epoch's loss: smaller gains end a run

# With more cores, threads compute blocks of features ahead of the steps; with fewer, features are computed in the step
# and stay in the cache (python benchmarks/roofline.py fused, tests/linear/test_made_rows.py).
MAX_LAZY_ROW_CORES = 2

# SGD steps. Averaging every 256 rows is as accurate as every row and costs less (python benchmarks/speed.py).
ROWS_PER_AVERAGE = 256
N_MONITOR_ROWS = (
    128  # rows of a batch whose loss is measured: time of a step against noise (tests/linear/test_sgd.py)
)
N_LAST_ROWS = (
    16  # rows checked for divergence, at most a tile of lazy rows (tests/learners/test_sgd_learner.py)
)
N_STEP_SIZE_ROWS = 1024  # rows that R^2 of the default step is estimated from (tests/linear/test_sgd.py)
# Scores and coefficients above this limit have diverged: float32 no longer separates targets of order 1
# (tests/learners/test_sgd_learner.py, tests/linear/test_search.py).
MAX_SCORE = 1e8
# The warning about scales of columns: rare on data without signal, certain on scales that prevent learning
# (tests/linear/test_sgd.py). The reduction is relative to a constant; steps are in units of 1 / (eta v), variance v.
MIN_LOSS_REDUCTION = 0.2
MAX_UNTRAINED_STEPS = 0.1
MAX_SHUFFLED_BLOCKS = (
    8  # blocks of a batch for sorted targets: memory against bias (tests/learners/test_rows.py)
)

# Ridge regression. Tasks that sum statistics: more tasks balance workers, fewer send fewer Gram matrices
# (tests/linear/test_ridge.py, python benchmarks/roofline.py ridge).
N_RIDGE_JOBS, MAX_RIDGE_JOBS = 32, 256
MAX_TREE_LEVELS = 8  # log2(MAX_RIDGE_JOBS): Gram matrices that the tree of sums holds
MAX_UNMERGED_BYTES = 2 * 2**30  # statistics that wait to be added, per process (python benchmarks/memory.py)
MAX_ONE_THREAD_COLUMNS = (
    1024  # threads do not speed up smaller equations (python benchmarks/roofline.py ridge)
)
MAX_LEAVE_ONE_OUT_ROWS = 4000  # a held-out tenth of fewer rows is noise (tests/linear/test_ridge_parts.py)
N_CALIBRATION_ROWS = 1024  # rows that probabilities are fitted on (tests/linear/test_ridge_parts.py)
MAX_CHOLESKY_ALPHAS = (
    12  # more factors cost more than one eigendecomposition (python benchmarks/roofline.py ridge)
)

# Products of ridge regression. Large tiles are added in float64 less often; small pieces stay in the cache
# (python benchmarks/roofline.py ridge; tests/learners/test_ridge_learner.py checks their accuracy).
MIN_ROWS_PER_TILE, MAX_ROWS_PER_TILE = 1024, 4096
MAX_TILE_BYTES = 2**27
COPY_BYTES = 2**20  # rows that are copied to a tile at a time
COLUMNS_PER_PRODUCT = 1024  # of a Gram matrix D x D
COLUMNS_PER_DUAL_PRODUCT = 512  # of a kernel matrix n x n
ROWS_PER_STRIP = 64  # rows of a Gram matrix that are updated at a time
ROWS_PER_LEAVE_ONE_OUT_TILE = 1024
MAX_STACKED_NUMBERS = 2**20  # columns multiplied in one call, 8 MiB: a call per fold costs more than its sums

# OnePassSearch (python benchmarks/search.py). Shared passes: more steps cost time for every candidate.
N_AUTO_SEARCH_STEPS = 100_000
ROWS_PER_SEARCH_TILE = (
    128  # rows of a block whose features are alive at the same time (python benchmarks/memory.py)
)
N_SEARCH_RIDGE_JOBS, MAX_SEARCH_TREE_LEVELS, MAX_WAITING_SUMS = 16, 4, 4  # 4 = log2(16) levels of sums
