"""Tuned numbers of pairwise matrices: what each trades off, and a command that shows the effect."""

# Tiles of a matrix. Wrong values cost time and change no bit (tests/pairs/test_staircase.py counts the extra pairs).
MIN_THREADED_PRODUCTS = 2**17  # products of coordinates; below, starting threads costs more than the work
N_TIMED_SETS = 3  # of each side, whose pairs are timed for the plan of verbose=True
N_TIMED_OBJECTS = 16  # of each side, whose distances are timed for it
MAX_TILE_SIDE = (
    512  # rows or columns of a task: smaller tiles prepare columns more often, larger ones balance worse
)
TARGET_TASKS = 8  # more tasks balance threads better and prepare columns more often
MIN_SPLIT_ROWS = 24  # computing both halves of fewer rows costs less than another call
MIN_ROWS_PER_PREPARE_COST = 8  # a task has this many rows per unit of `CostModel.prepare_cost`

# Runs of rows of a tile, between which Ctrl-C is handled (tests/execution/test_threads.py).
TARGET_RUN_SECONDS = 0.5  # delay of Ctrl-C against the overhead of a run
FIRST_RUN_PRODUCTS = 2**26  # products of coordinates: about 0.05 s of a quick distance
MIN_RUN_ROWS = 4  # compiled functions compare four rows at a time

# Nearest rows (python benchmarks/nearest.py).
PIECES_PER_CORE = 2  # that rows in memory are searched in
MAX_BLOCKS_IN_MEMORY = 64  # of lazily computed rows
CELLS_PER_SQRT_ROWS = 2.0  # balances comparisons with centres and with rows of cells
TRAINING_ROWS_PER_CELL = 40  # fewer make centres noisy, more cost time
N_KMEANS_ITERATIONS = 10  # quality of centres against the time of fit
N_RECALL_QUERIES = (
    256  # standard error of the recall (reported in `recall_`) against the cost of exact neighbours
)

# Accepted rounding of input matrices (tests/pairs/test_psd.py, tests/pairs/test_pseudo_euclidean.py).
KERNEL_SYMMETRY_TOL = 1e-8  # of the largest entry
DISTANCE_SYMMETRY_TOL = 1e-6  # of the largest distance: distances are float32
DIAGONAL_TOL = 1e-3  # of the largest distance: roots of rounding errors
EIGENVALUE_TOL = 1e-6  # of the largest eigenvalue: smaller ones are rounding of float32 distances
