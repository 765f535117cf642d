"""Tuned constants of kernel distances and features; comments give trade-offs and the commands that measure them."""

# Method selection of kernel_distance. Costs `_NS` are nanoseconds on one core with 512-bit vectors, per pair, point,
# cell, frequency or search. Inaccurate values cost time but do not change error bounds (tests/kernel/
# test_certified_errors.py forces each method by them). `python benchmarks/kernel.py growth` shows the selected methods.
PAIR_NS = 1.0
PAIR_GRADIENT_NS = 1.4  # one pair: kernel and gradient (python benchmarks/kernel.py gradient)
CELL_NS, EMPTY_CELL_NS = 0.5, 2.0  # a cell that a point contributes to; an allocated cell
BLOCK_CELL_NS = 0.5
TREE_POINT_NS = 3000.0  # one point, in a tree whose boxes are far apart
FREQUENCY_NS = 0.05
MESH_SEARCH_NS, GRID_SEARCH_NS = 4e6, 2e7
GAUSSIAN_PLAN_NS = 5e6  # planning the sum of one Gaussian of a mixture (python benchmarks/kernel.py kinds)
WIDE_POINT_NS, NARROW_POINT_NS = 200.0, 2500.0  # one point, for one wide or narrow Gaussian of a mixture
# minimum (bandwidth / diameter of the points) of a wide Gaussian, by dimension
MIN_WIDE_RATIOS = {1: 1e-5, 2: 1e-3, 3: 1e-2}
POINT_SCAN_NS = 2000.0  # plans cheaper than this per point skip the search for connected components
# time of a field with gradients over that of an energy: two transforms, splines and their derivatives
MESH_FIELD_RATIO = 3.0

# Largest numbers of points for which all pairs are summed.
# about 2 ms; for fewer points, planning costs more than it saves (python benchmarks/kernel.py exact)
MAX_DIRECT_POINTS = 2000
# takes less than 1 s in double-double arithmetic (tests/kernel/test_kernel_twofold.py)
MAX_DOUBLE_DOUBLE_POINTS = 4000
# an energy of 1e4 times its rounding error has four correct digits and is not refined
MIN_SUM_PER_ROUNDING = 1e4

# Memory (tests/kernel/test_kernel_memory.py measures peaks).
MAX_MODES = 2**26  # maximum float64 numbers of a mesh or of cells: 512 MiB
# maximum float64 numbers of a mesh and its transform: 128 MiB for each block in flight
MAX_MESH_NUMBERS = 2**24
MAX_SMALL_SET_BYTES = 1e7  # for smaller sets (float32 bytes of the points), the size of a mesh is not limited
# mesh bytes / float32 bytes of the points; with tiles, the sum is less than half of the points
MAX_MESH_RATIO = 0.43
MAX_COPIED_NUMBERS = 2**20  # point sets up to this size are copied once, not tiled again for each Gaussian
COMPONENT_BATCH_POINTS = 2**16  # points per compiled call that sums small components
CHECK_ROWS = 2**16  # rows per finiteness check; keeps the boolean mask small
# pairs per batch; 2 MiB of distances stay in the L2 cache (python benchmarks/kernel.py kinds)
PAIRS_PER_BATCH = 2**18

# Error bounds and rounding errors.
# kernel between components / allowed error of k; smaller values find fewer components
COMPONENT_TOL_RATIO = 0.1
MAX_KERNEL_TOL = 0.1  # error of k in a plan, even if eps allows more: bounds hold for small errors
# error of k in float32 sums; three times the maximum in tests/kernel/test_kernel_bounds.py
GRID_ROUNDING = 1e-6
MAX_TRUNCATION_RATIO = 10.0  # truncated weight / tolerance above which no grid is searched
MAX_GRID_FREQUENCIES = 8192  # limits the time of the grid search (python benchmarks/kernel.py fourier)
# maximum -D^2 / (kappa(P,P) + kappa(Q,Q)); rounding gives 1e-15, and an indefinite kernel larger values
MAX_NEGATIVE_RATIO = 1e-9
# smaller differences of total weights are rounding errors (tests/kernel/test_other_kernels.py)
TOTALS_RELATIVE_TOL = 1e-9
MIN_DISTANCE = 1e-100  # replaces distance 0 in quotients, so that the gradient at equal points is 0

# method="taylor" and method="rff" (tests/kernel/test_kernel_bounds.py).
MAX_TAYLOR_TERMS = 20_000  # maximum multiply-adds and float64 numbers per point
# the estimate of the standard error then has a relative error of 1 / sqrt(2 * 15) = 18 %
N_RFF_REPLICATES = 16
MAX_RFF_FREQUENCIES = 2**18
# replicates share a pass if they have at most one frequency per 32 points
POINTS_PER_RFF_FREQUENCY = 32
MAX_RFF_ROUNDING = 1e-4  # error of k of one pair from float32 phases; it averages out over all pairs

# MeanEmbedding (stage `embed` of python benchmarks/coresets.py; tests/kernel/test_mean_embedding.py).
SET_BATCH_SIZE = 64  # sets per batch; their float64 sums stay in the L2 cache
MIN_GRID_ERROR = 1e-7  # smallest error requested from a Fourier grid, because rows are float32
MAX_AUTO_GRID_ERROR = 1e-2  # error of k for "auto": MMD^2 is off by 0.1 %, with random features by 2 to 4 %
WARN_KERNEL_ERROR = 0.1  # larger errors of k, which is at most 1, raise a warning
# margin on each side / width: large margins need more frequencies, small ones clip more points
DOMAIN_MARGIN_RATIO = 0.05
# frequencies in a box / those in its ball; a larger ratio means corrupt parameters
MAX_BOX_TO_BALL_RATIO = 16

# Random Fourier features (python benchmarks/speed.py; tests/kernel/test_random_fourier_features.py).
MAX_DENSE_INPUTS = 64  # above, structured frequencies are faster; at 64: 3.8 against 5.3 us per row
# features of a tile stay in the L2 cache until they are used
TILE_BYTES, TILE_ROWS = 2**20, (32, 512)
# smaller tiles for structured frequencies, which are read once per four rows
STEP_BYTES, STEP_ROWS = 2**18, (16, 512)
MEDIAN_SAMPLE_SIZE = 512  # rows, or points per set, for a median distance; its time is quadratic
# 512 rows in runs of adjacent rows, so that few blocks of a lazy array are computed
N_MEDIAN_RUNS, MEDIAN_RUN_ROWS = 32, 16
