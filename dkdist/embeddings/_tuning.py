"""Tuned numbers of embeddings: what each trades off, and the command that shows it."""

# Tiles. Cosine coefficients and densities of a tile of sets stay in the second-level cache; larger tiles save calls of
# compiled functions. No value changes a bit (python -m pytest tests/densities/test_divergence_spec.py).
# `python benchmarks/roofline.py` shows the time.
MIN_SETS_PER_TILE, MAX_SETS_PER_TILE = 64, 1024
COEFFICIENTS_PER_TILE = 2**15  # coefficients of all sets of a tile
DIRECT_SETS_PER_TILE = 1024  # sets whose densities are computed without coefficients
CELLS_PER_TILE = 2**18  # histogram cells of all sets of a tile
POINTS_PER_PCA_BATCH = 2**16  # points per matrix product of SetPCA: bounds the memory of copies
POINTS_PER_NOISE_BATCH = 4096  # points per matrix product of the noise of rows: bounds memory
LATTICE_POINTS_PER_NOISE_BATCH = 256  # the same with up to 4,096 terms per point
# Larger sets are cheaper through cosine coefficients on a grid (python benchmarks/roofline.py;
# tests/densities/test_tensor_loops.py checks both sides of the limit).
MAX_DIRECT_POINTS = 8192

# Memory limits. Larger values raise an error before memory is allocated (tests/densities).
MAX_COEFFICIENTS = 2**20  # float32 numbers of one set: 4 MiB
MAX_TABLE_NUMBERS = 2**27  # float32 numbers of a table of terms at uniform nodes: 0.5 GiB
MAX_NODES = 2**27  # float64 weights of the nodes of one set: 1 GiB
MAX_HISTOGRAM_CELLS = 2**20  # cells of one set: 4 MiB
MAX_BALL_TERMS = 4096  # cosine products in d >= 4 dimensions: time and table size against resolution

# Numbers of nodes. More nodes resolve finer bandwidths; rows and the time of learners are proportional to them.
# `python benchmarks/structure.py` and `python benchmarks/defaults.py` compare scores of learners.
MAX_AUTO_NODES = 11**3  # nodes of a set for n_basis="auto": 36 per dimension in d = 2, 11 in d = 3
MIN_NODES_PER_DIM, DEFAULT_NODES_PER_DIM = 4, 10
MAX_TOTAL_PAIR_NODES = 2**13  # nodes of all pairs of a set: 81 pairs with 10 nodes per dimension
MIN_GROUP_NODES_PER_DIM = 10
MAX_GROUP_NODES_PER_DIM = {2: 36, 3: 11}  # of a pair and of a group of three, as MAX_AUTO_NODES
DEFAULT_UNIFORM_NODES = 4000  # Monte Carlo error against time (tests/densities/test_uniform_nodes.py)
MAX_JOINT_DIMS = 6  # the resolved bandwidth of 4,096 terms grows with d (`min_ball_bandwidth`)

# Bandwidth over node spacing.
# From here on d^2 is integrated to 1 % (tests/densities/test_cross_validation.py).
RESOLVED_BANDWIDTH_PER_SPACING = 0.5
# Scott's rule with a given n_basis: 0.25 % (tests/densities/test_divergence_embedding.py)
SCOTT_BANDWIDTH_PER_SPACING = 0.8
MIN_BANDWIDTH_PER_SPACING = 0.3  # narrower Gaussians miss points between nodes

# Bandwidth search (embeddings/cross_validation.py). Larger samples and finer steps reduce the error of the bandwidth
# and cost time in fit: python -m pytest tests/densities/test_cross_validation.py compares with the best bandwidths.
MAX_BANDWIDTH = 0.25  # wider Gaussians remove differences that learners can average over many sets
CANDIDATES_PER_OCTAVE = 8
FALLBACK_BANDWIDTH = 0.08  # if no set has two distinct points
MIN_SEARCH_DEGREES = 16
MAX_DEGREES_BY_DIM = {1: 256, 2: 128, 3: 32}
MAX_BANDWIDTH_SEARCH_SETS = 64
MAX_BANDWIDTH_SEARCH_COORDINATES = 2**21
COEFFICIENTS_PER_BATCH = 2**21  # of several sets, float32: 8 MiB
MAX_COORDINATE_ROUNDS = 8  # rounds of coordinate descent over dimensions
MAX_TIED_FRACTION = 0.1  # ties of more weight are an atom, not part of a density
MAX_CONCENTRATION = 0.9  # sum of squared weights; sets that are nearly one point have no density
# Memory estimates of the search (tests/cli): coordinates on the unit cube, without ties and folded, with weights;
# coefficients of points and folded points, their squares and unbiased products.
BYTES_PER_COORDINATE, BYTES_PER_COEFFICIENT = 48, 44

# Pair search (embeddings/pair_selection.py). More cosines and points find weaker or finer dependence and cost time:
# python -m pytest tests/densities/test_structure.py plants pairs.
N_COSINES = 3
MIN_SET_POINTS, MAX_SET_POINTS = 8, 1024  # points of a tested set; more points are subsampled
MIN_TESTED_SETS = 4  # the t-test has S - 2 degrees of freedom
MIN_VARIANCE = 1e-12  # smaller variances of T are rounding
MAX_PAIR_SEARCH_DIMS = 512  # 130,816 pairs
MAX_PAIR_SEARCH_SETS = 1024
MAX_PAIR_SEARCH_COORDINATES = 2**22
MAX_PAIR_SEARCH_SUMS = 2**27  # (3 d)^2 numbers of each set

# Frequencies (embeddings/frequencies.py; tests/densities/test_frequencies.py). Fewer frequencies shorten rows.
TRUNCATED_MASS_FRACTION = (
    1e-10  # of mu at its far end: Gauss rules of all of mu need 25 instead of 13 frequencies
)
MIN_LOG_RATIO_SPREAD = 0.05  # fits of non-smooth kappa serve densities that differ by 5 % and more
RIDGE = 1e-6  # of the inner least squares: nearly equal frequencies would make it singular
SMOOTH_RTOL, ROUGH_RTOL = 1e-3, 1e-2  # targets of n_frequencies="auto": smooth kappa, kappa with a kink
# Largest numbers that "auto" tries. Beyond 16 fitted frequencies the fit follows rounding.
MAX_FREQUENCIES_BY_RULE = {"fitted": 16, "gauss": 64, "stratified": 256}
N_RANDOM_FREQUENCIES = 64

# Symmetries: time is proportional to the order of the group (tests/moments/test_invariant.py).
MAX_GROUP_ORDER = 1024
MAX_AXES_BY_GROUP = {"reflections": 10, "permutations": 6, "all": 4}  # orders 1,024, 720 and 384

# Rank knots of SetScaler: the error of a rank is the spacing of knots (tests/scaling/test_set_scaler.py).
MAX_KNOTS, MIN_KNOTS = 129, 17  # per column
MAX_TOTAL_KNOTS = 1024  # of all columns

# Strings (embeddings/ngrams.py; tests/embeddings/test_ngrams.py).
N_BUCKETS = 2**22  # of the 91,000 n-grams of 27,000 names, 2 % share a bucket with another
MAX_SYMBOLS = 2**18  # symbols hashed at once: bounds the memory of long strings to about 30 MB per thread

# Summaries (embeddings/summary.py; tests/embeddings/test_summary.py).
BATCH_VALUES = 2**16  # numbers sorted together: their copies stay in the second-level cache
MAX_COLUMN_VALUES = 2**22  # larger sets are processed a few dimensions at a time: bounds the memory of copies
