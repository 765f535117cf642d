"""Tuned constants of `align`; comments give trade-offs and the commands that measure them."""

# The search without a guarantee (python benchmarks/alignment.py prints success rates and times).
MAX_ALIGNED_POINTS = 4096  # maximum points of a set; larger sets are replaced by coresets
ALIGN_CORESET_SIZE = 2048  # larger coresets are more accurate for noisy samples, but slower
# sigma / length of the shorter set; has the highest success rate on held-out shapes of the benchmark
AUTO_SIGMA_RATIO = 0.025
# points farther from the median than this multiple of the median distance are outliers: the length omits them
OUTLIER_RATIO = 10
# maximum width of a set / sigma; float32 coordinates keep 0.1 sigma (tests/kernel/test_align.py)
MAX_WIDTH_PER_SIGMA = 1e6
SQUARED_DISTANCE_TOL = 1e-8  # error of D^2 of large sets, relative to the squared total weight
N_ROTATIONS = {2: 48, 3: 320}  # rotations of the scan by dimension; a multiple of 4 in the plane
# smallest sigma of the rotation scan / radius of the sets, by dimension
COARSE_SIGMA_RATIOS = {1: 1 / 8, 2: 1 / 8, 3: 1 / 5}
# means of regions that represent a set in the rotation scan, by dimension
N_COARSE_MEANS = {1: 64, 2: 64, 3: 32}
N_STAGE_MEANS = (128, 256)  # means of regions in the next stages; the last stage uses all points
# (number of starts, power of the coarse sigma, maximum Newton steps, length of the last step in sigma)
# by dimension; one dimension uses the stages of two
STAGES = {
    2: ((24, 1.0, 4, 0.2), (6, 0.5, 6, 0.2), (3, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
    3: ((24, 1.0, 4, 0.2), (12, 0.5, 6, 0.2), (4, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
}
# motions within one sigma and this difference of each matrix entry count as one start
MIN_ROTATION_DIFFERENCE = 0.1
MIN_OVERLAP_RATIO = 0.8  # starts with a smaller fraction of the best overlap are dropped
MAX_FREQUENCY_SIGMAS = 2.5  # maximum frequency times sigma; higher frequencies have weights below exp(-3.1)
ROTATION_BATCH_SIZE = 16  # rotations per matrix product; larger batches need more memory
N_MEAN_SHIFTS = 3  # mean-shift steps per rotation in space

# Newton's method (tests/kernel/test_align.py).
MIN_STEP_SIGMAS = 1e-5
MIN_CURVATURE_RATIO = 1e-3  # smaller eigenvalue ratios are raised to this value, to limit steps
MAX_HALVINGS = 12  # maximum halvings of a step that does not increase the overlap

# The local search in more than three dimensions (tests/kernel/test_align_local.py).
MAX_RIGID_DIMS = 6  # 15 angles; more dimensions need more starts than a search can try in a second
COARSE_SPACE_RATIO = 1 / 4  # sigma of the first stage / radius of the sets
MIN_GRADIENT = 1e-7  # BFGS stops at smaller slopes of the relative overlap, per sigma
N_RANDOM_ROTATIONS, N_RANDOM_SHIFTS = 512, 512  # random starts, which are ranked by their overlap
MAX_REFINEMENT_ITERATIONS = 200  # of BFGS with all points
# (number of regional means, None for all points; power of the coarse sigma; number of starts; BFGS iterations)
LOCAL_STAGES: tuple[tuple[int | None, float, int, int], ...] = (
    (64, 1.0, 24, 20), (128, 0.5, 8, 30), (256, 0.0, 3, 40), (None, 0.0, 1, 200),
)  # fmt: skip

# The guaranteed search (python benchmarks/alignment.py; tests/kernel/test_align_certified.py).
DEFAULT_MAX_SECONDS = 60.0
MIN_CORESET_SIZE = 32  # doubled until the coresets change f by at most a quarter of the slack eps / 2
CELL_BATCH_SIZE = 1024  # cells split per compiled call
MIN_ESTIMATE_CELLS = 4096  # searches that need fewer cells run without an estimate
N_PROBE_PATHS = 128  # random paths of the estimate; more paths are slower but more accurate
SQUARED_NORM_TOL = 1e-9  # error of squared kernel distances of the coresets
