"""Tuned numbers of `align`: what each trades off, and the command that shows it."""

# The search without a guarantee (python benchmarks/alignment.py prints success rates and times).
MAX_ALIGNED_POINTS = 4096  # of a set; larger sets are replaced by coresets
ALIGN_CORESET_SIZE = 2048  # larger is more exact for noisy samples and slower
# of the length of the shorter set; largest success rate on held-out shapes of the benchmark
AUTO_SIGMA_RATIO = 0.025
# points this many times as far from the median as half of the points do not count for the length
OUTLIER_RATIO = 10
MAX_WIDTH_PER_SIGMA = 1e6  # of a set: float32 keeps 0.1 sigma (tests/kernel/test_align.py)
SQUARED_DISTANCE_TOL = 1e-8  # of D^2 of large sets, relative to the squared total weight
N_ROTATIONS = {2: 48, 3: 320}  # by dimension; a multiple of 4 in the plane
COARSE_SIGMA_RATIOS = {
    1: 1 / 8,
    2: 1 / 8,
    3: 1 / 5,
}  # smallest sigma of the rotation scan over the radius of the sets
N_COARSE_MEANS = {1: 64, 2: 64, 3: 32}  # means of regions in the rotation scan
N_STAGE_MEANS = (128, 256)  # in the next stages; the last stage has all points
# number of starts, power of the coarse sigma, maximal Newton steps, length of the last step in sigma
STAGES = {
    2: ((24, 1.0, 4, 0.2), (6, 0.5, 6, 0.2), (3, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
    3: ((24, 1.0, 4, 0.2), (12, 0.5, 6, 0.2), (4, 0.0, 8, 0.1), (1, 0.0, 50, 1e-4)),
}  # one dimension uses the stages of two
# of an entry of the matrix; closer motions (within one sigma) count as one start
MIN_ROTATION_DIFFERENCE = 0.1
MIN_OVERLAP_RATIO = 0.8  # of the best overlap; starts below are dropped
MAX_FREQUENCY_SIGMAS = 2.5  # frequencies up to 2.5 / sigma: those beyond have weights below exp(-3.1)
ROTATION_BATCH_SIZE = 16  # rotations per matrix product: larger needs more memory
N_MEAN_SHIFTS = 3  # per rotation in space

# Newton's method (tests/kernel/test_align.py).
MIN_STEP_SIGMAS = 1e-5
MIN_CURVATURE_RATIO = 1e-3  # smaller eigenvalues, relative to the largest, are raised: bounds the step
MAX_HALVINGS = 12  # of a step that does not increase the overlap

# The guaranteed search (python benchmarks/alignment.py; tests/kernel/test_align_certified.py).
DEFAULT_MAX_SECONDS = 60.0
MIN_CORESET_SIZE = 32  # doubled until the coresets change f by at most a quarter of the slack eps / 2
CELL_BATCH_SIZE = 1024  # cells split per compiled call
MIN_ESTIMATE_CELLS = 4096  # searches that need fewer cells run without an estimate
N_PROBE_PATHS = 128  # random paths of the estimate: more are slower and more exact
SQUARED_NORM_TOL = 1e-9  # of squared kernel distances of the coresets
