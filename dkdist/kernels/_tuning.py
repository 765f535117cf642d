"""Tuned numbers of kernel distances and kernel features: what each trades off, and the command that shows it."""

# Method selection of kernel_distance. Costs in nanoseconds on one core with 512-bit vectors: `_NS` of a pair, point,
# cell or frequency, or of a search. Wrong values cost time and change no error bound (tests/kernel/
# test_certified_errors.py forces each method by them). `python benchmarks/kernel.py growth` shows the selected methods.
PAIR_NS = 1.0
PAIR_GRADIENT_NS = 1.4  # kernel and gradient (python benchmarks/kernel.py gradient)
CELL_NS, EMPTY_CELL_NS = 0.5, 2.0  # a cell that a point reaches; an allocated cell
BLOCK_CELL_NS = 0.5
TREE_POINT_NS = 3000.0  # a point of a tree whose boxes are far apart
FREQUENCY_NS = 0.05
MESH_SEARCH_NS, GRID_SEARCH_NS = 4e6, 2e7
GAUSSIAN_PLAN_NS = 5e6  # planning one Gaussian of a mixture (python benchmarks/kernel.py kinds)
WIDE_POINT_NS, NARROW_POINT_NS = 200.0, 2500.0  # a point of one wide or narrow Gaussian of a mixture
# bandwidth / diameter of the points by dimension; smaller ratios are narrow
MIN_WIDE_RATIOS = {1: 1e-5, 2: 1e-3, 3: 1e-2}
POINT_SCAN_NS = 2000.0  # per point: cheaper plans run without a search for connected components
# time of a field with gradients to that of an energy: two transforms, splines with slopes
MESH_FIELD_RATIO = 3.0

# Sizes up to which all pairs are summed.
# about 2 ms; below, planning costs more than it saves (python benchmarks/kernel.py exact)
MAX_DIRECT_POINTS = 2000
MAX_DOUBLE_DOUBLE_POINTS = 4000  # below one second in double-double (tests/kernel/test_kernel_twofold.py)
# an energy this many times its rounding has four correct digits, and is not refined
MIN_SUM_PER_ROUNDING = 1e4

# Memory (tests/kernel/test_kernel_memory.py measures peaks).
MAX_MODES = 2**26  # float64 numbers of a mesh or of cells: 512 MiB
MAX_MESH_NUMBERS = 2**24  # of a mesh and its transform: 128 MiB for each block in flight
MAX_SMALL_SET_BYTES = 1e7  # float32 bytes of the points up to which the size of a mesh is not limited
MAX_MESH_RATIO = 0.43  # mesh bytes over float32 point bytes: with tiles, less than half of the points
MAX_COPIED_NUMBERS = 2**20  # smaller point sets are copied once instead of tiled again for each Gaussian
COMPONENT_BATCH_POINTS = 2**16  # points of small components that are summed in one compiled call
CHECK_ROWS = 2**16  # rows checked at a time: the boolean mask stays small
# 2 MiB of distances stay in the second-level cache (python benchmarks/kernel.py kinds)
PAIRS_PER_BATCH = 2**18

# Errors.
COMPONENT_TOL_RATIO = 0.1  # kernel between components over the allowed error: smaller finds fewer components
MAX_KERNEL_TOL = 0.1  # largest error of k that a plan uses, whatever eps allows: bounds hold for small errors
GRID_ROUNDING = 1e-6  # k in float32 sums; three times the largest in tests/kernel/test_kernel_bounds.py
MAX_TRUNCATION_RATIO = 10.0  # truncated weight over the tolerance beyond which no grid is searched
MAX_GRID_FREQUENCIES = 8192  # limits the time of the grid search (python benchmarks/kernel.py fourier)
# -D^2 over kappa(P,P) + kappa(Q,Q): rounding is 1e-15; more is an indefinite kernel
MAX_NEGATIVE_RATIO = 1e-9
# difference of two total weights that counts as rounding (tests/kernel/test_other_kernels.py)
TOTALS_RELATIVE_TOL = 1e-9
MIN_DISTANCE = 1e-100  # replaces distance 0 in quotients: the gradient at equal points is 0

# method="taylor" and method="rff" (tests/kernel/test_kernel_bounds.py).
MAX_TAYLOR_TERMS = 20_000  # multiply-adds and float64 numbers per point
N_RFF_REPLICATES = 16  # relative error of the standard error: 1 / sqrt(2 * 15) = 18 %
MAX_RFF_FREQUENCIES = 2**18
# replicates share a pass if their frequencies take less than 1 / 32 of the points
POINTS_PER_RFF_FREQUENCY = 32
MAX_RFF_ROUNDING = 1e-4  # of k between two points, from float32 phases; it averages out over all pairs

# Mean embeddings (python benchmarks/coresets.py, stage embed; tests/kernel/test_mean_embedding.py).
SET_BATCH_SIZE = 64  # float64 sums of a batch stay in the second-level cache
MIN_GRID_ERROR = 1e-7  # requested of a grid: rows are float32
MAX_AUTO_GRID_ERROR = 1e-2  # of k; MMD^2 is then off by 0.1 %, with random features by 2 to 4 %
WARN_KERNEL_ERROR = 0.1  # of k(x, x) = 1: larger errors give a warning
# of the width on each side: wider grids need more frequencies, narrower ones clip more
DOMAIN_MARGIN_RATIO = 0.05
MAX_BOX_TO_BALL_RATIO = 16  # functions of a box over those of its ball, at most; rejects corrupt parameters

# Random Fourier features (python benchmarks/speed.py; tests/kernel/test_random_fourier_features.py).
MAX_DENSE_INPUTS = 64  # structured frequencies win above: 3.8 against 5.3 us a row at 64
# features of a tile stay in the second-level cache until they are used
TILE_BYTES, TILE_ROWS = 2**20, (32, 512)
# smaller for structured frequencies, which are read once for four rows
STEP_BYTES, STEP_ROWS = 2**18, (16, 512)
MEDIAN_SAMPLE_SIZE = 512  # rows, or points of each set, for a median distance: time grows with its square
N_MEDIAN_RUNS, MEDIAN_RUN_ROWS = 32, 16  # 512 rows in runs of neighbours: a lazy array computes few blocks
