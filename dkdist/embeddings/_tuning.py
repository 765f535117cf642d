"""Tuning constants of embeddings, with the trade-off of each and the command that measures it."""

# Tiles. Cosine coefficients and densities of a tile of sets fit in the L2 cache; larger tiles need fewer calls of
# compiled functions. Results do not depend on these values (python -m pytest tests/densities/test_divergence_spec.py).
# `python benchmarks/roofline.py` measures the time.
MIN_SETS_PER_TILE, MAX_SETS_PER_TILE = 64, 1024
COEFFICIENTS_PER_TILE = 2**15  # maximum number of coefficients per tile
DIRECT_SETS_PER_TILE = 1024  # sets per tile if densities are computed without coefficients
CELLS_PER_TILE = 2**18  # maximum number of histogram cells per tile
POINTS_PER_PCA_BATCH = 2**16  # points per matrix product of SetPCA; limits memory
POINTS_PER_NOISE_BATCH = 4096  # points per matrix product in `row_noise`; limits memory
MAX_NOISE_PRODUCTS = 2**24  # float64 numbers of a batch: 128 MiB; reduces the batch of large grids
LATTICE_POINTS_PER_NOISE_BATCH = 256  # the same for a lattice, with up to 4,096 terms per point
# Larger sets use cosine coefficients on a grid, which is faster (python benchmarks/roofline.py;
# tests/densities/test_tensor_loops.py tests sizes on both sides of the limit).
MAX_DIRECT_POINTS = 8192

# Memory limits. Larger requests raise an error before memory is allocated (tests/densities).
MAX_COEFFICIENTS = 2**20  # float32 coefficients per set: 4 MiB
MAX_TABLE_NUMBERS = 2**27  # float32 entries in the table of terms at uniform nodes: 0.5 GiB
MAX_NODES = 2**27  # float64 node weights per set: 1 GiB
MAX_HISTOGRAM_CELLS = 2**20  # float32 cells per set: 4 MiB
# Nodes in d >= 4 joint dimensions: n_basis of at most 16, 9 or 6 in d = 4, 5 or 6. Time and row length are
# proportional to them.
MAX_GRID_NODES = 2**16
# Cosine products in d >= 4 dimensions. More terms resolve finer bandwidths but cost time and memory.
MAX_BALL_TERMS = 4096

# Numbers of nodes. More nodes resolve finer bandwidths; row length and training time are proportional to them.
# `python benchmarks/structure.py` and `python benchmarks/defaults.py` compare the scores of learners.
# Maximum nodes per set for n_basis="auto": 36, 11, 6, 4 or 3 per dimension in d = 2, 3, 4, 5 or 6.
MAX_AUTO_NODES = 11**3
MIN_NODES_PER_DIM, DEFAULT_NODES_PER_DIM = 4, 10
MAX_TOTAL_PAIR_NODES = 2**13  # maximum nodes per set over all pairs: 81 pairs with 10 nodes per dimension
MIN_GROUP_NODES_PER_DIM = 10
MAX_GROUP_NODES_PER_DIM = {2: 36, 3: 11}  # for pairs and groups of three: about MAX_AUTO_NODES in total
# More uniform nodes reduce the Monte Carlo error but cost time (tests/densities/test_uniform_nodes.py).
DEFAULT_UNIFORM_NODES = 4000
MAX_JOINT_DIMS = 6  # the smallest bandwidth that 1,331 nodes or 4,096 terms resolve grows with d

# Ratios of bandwidth to node spacing.
# At this ratio the integration error of d^2 is 1 % (tests/densities/test_cross_validation.py).
RESOLVED_BANDWIDTH_PER_SPACING = 0.5
# The same for a grid in d >= 4 of at least 3 nodes per dimension. A larger ratio is more accurate but smooths more. At
# 0.6, 0.7 and 0.8 the error of d^2 is up to 2.8, 2.1 and 1.6 % for 3^4 nodes, 1.7, 1.4 and 1.1 % for 3^6, and below 1 %
# for 6^4 and 4^5 (root mean square over pairs; Hellinger, Jensen-Shannon and total variation; python -m pytest
# tests/densities/test_joint_densities.py; two-core Xeon, November 2026).
RESOLVED_GRID_BANDWIDTH_PER_SPACING, MIN_RESOLVING_GRID_NODES_PER_DIM = 0.75, 3
# For series of L2 embeddings in d >= 4, where more degrees of a ball have similar norms than in d <= 3. A larger ratio
# is more accurate but lengthens rows. At 0.8, 1 and 1.05 the errors of d^2 are up to 12, 2.1 and 1 % (python -m pytest
# tests/densities/test_joint_densities.py; November 2026).
JOINT_SERIES_BANDWIDTH_PER_SPACING = 1.05
# Minimum for Scott's rule with a given n_basis: error 0.25 % (tests/densities/test_divergence_embedding.py).
SCOTT_BANDWIDTH_PER_SPACING = 0.8
MIN_BANDWIDTH_PER_SPACING = 0.3  # narrower Gaussians miss points between nodes

# Bandwidth search (embeddings/cross_validation.py). Larger samples and finer steps give a more accurate bandwidth but
# slow down fit; python -m pytest tests/densities/test_cross_validation.py compares with the optimal bandwidths.
MAX_BANDWIDTH = 0.25  # wider Gaussians remove differences that learners can use
CANDIDATES_PER_OCTAVE = 8
FALLBACK_BANDWIDTH = 0.08  # used if no set has two distinct points
MIN_SEARCH_DEGREES = 16
MAX_DEGREES_BY_DIM = {1: 256, 2: 128, 3: 32}
MAX_BANDWIDTH_SEARCH_SETS = 64
MAX_BANDWIDTH_SEARCH_COORDINATES = 2**21
COEFFICIENTS_PER_BATCH = 2**21  # float32 coefficients computed at once: 8 MiB
MAX_COORDINATE_ROUNDS = 8  # maximum number of passes of coordinate descent over the dimensions
MAX_TIED_FRACTION = 0.1  # ties with a larger weight fraction are atoms and are omitted
MAX_CONCENTRATION = 0.9  # sets with a larger sum of squared weights are nearly one point and are omitted
# Memory estimates of the search (tests/cli). Per coordinate: scaled, deduplicated and folded copies, with weights.
# Per coefficient: coefficients of points and folded points, their squares, and unbiased estimates of the squares.
BYTES_PER_COORDINATE, BYTES_PER_COEFFICIENT = 48, 44

# Pair search (embeddings/pair_selection.py). More cosines and points detect weaker or finer dependence but cost time;
# python -m pytest tests/densities/test_structure.py detects simulated pairs.
N_COSINES = 3
MIN_SET_POINTS, MAX_SET_POINTS = 8, 1024  # points per tested set; larger sets are subsampled
MIN_TESTED_SETS = 4  # the t-test has S - 2 degrees of freedom
MIN_VARIANCE = 1e-12  # smaller variances of T are rounding errors
MAX_PAIR_SEARCH_DIMS = 512  # 130,816 pairs
MAX_PAIR_SEARCH_SETS = 1024
MAX_PAIR_SEARCH_COORDINATES = 2**22
MAX_PAIR_SEARCH_SUMS = 2**27  # number of sums T over all sets: n_sets (3 d)^2

# Frequencies (embeddings/frequencies.py; tests/densities/test_frequencies.py). Fewer frequencies shorten rows.
TRUNCATED_MASS_FRACTION = 1e-10  # omitted tail of mu; otherwise Gauss rules need 25 frequencies instead of 13
MIN_LOG_RATIO_SPREAD = 0.05  # fits of non-smooth kappa cover densities that differ by at least 5 %
RIDGE = 1e-6  # regularizes the inner least squares, which are singular for nearly equal frequencies
# Target errors of n_frequencies="auto" for a smooth kappa and for a kappa with a kink.
SMOOTH_RTOL, ROUGH_RTOL = 1e-3, 1e-2
# Maximum number of frequencies for "auto". More than 16 fitted frequencies would fit rounding errors.
MAX_FREQUENCIES_BY_RULE = {"fitted": 16, "gauss": 64, "stratified": 256}
N_RANDOM_FREQUENCIES = 64

# Symmetries. Time is proportional to the order of the group (tests/moments/test_invariant.py).
MAX_GROUP_ORDER = 1024
MAX_AXES_BY_GROUP = {"reflections": 10, "permutations": 6, "all": 4}  # group orders 1,024, 720 and 384

# Rank knots of SetScaler. The error of a rank is at most the spacing of knots (tests/scaling/test_set_scaler.py).
MAX_KNOTS, MIN_KNOTS = 129, 17  # knots per column
MAX_TOTAL_KNOTS = 1024  # knots of all columns together

# Strings (embeddings/ngrams.py; tests/embeddings/test_ngrams.py).
N_BUCKETS = 2**22  # hash buckets: 2 % of the 91,000 n-grams of 27,000 names share a bucket with another
MAX_SYMBOLS = 2**18  # symbols hashed at once; limits the memory for long strings to about 30 MB per thread
MAX_POSITION_COLUMNS = 2**20  # 4 MiB per row of PositionEmbedding

# Summaries (embeddings/summary.py; tests/embeddings/test_summary.py).
BATCH_VALUES = 2**16  # values sorted at once; copies fit in the L2 cache
MAX_COLUMN_VALUES = 2**22  # larger sets are processed a few dimensions at a time to limit memory

# Gaussian fits (embeddings/gaussian_fits.py): a batch in float64 fits the L2 cache; larger batches need fewer calls.
POINTS_PER_GAUSSIAN_BATCH = 2**14
# Up to this dimension, covariances of a batch are computed one pair of columns at a time, otherwise one set at a time.
MAX_COLUMNWISE_DIMS = 8

# Codebooks (embeddings/codebook.py; tests/embeddings/test_codebook.py). Fewer points per word fit words worse, more
# take longer: the mean squared distance of new points is about 1 % above that with 1,024 points per word (0.5 % and
# 1.2 % for 64 words in 16 and 2 dimensions, 2026-11-29, AMD EPYC, 2 cores).
POINTS_PER_WORD = 256

# Distance profiles (embeddings/rotations.py; tests/embeddings/test_rotations.py). More points to which distances are
# measured have smaller errors in large sets and take more time: a set of 10,000 points takes 2.2, 3.5 or 7 ms with
# 128, 256 or 512 (2026-11-29, AMD EPYC, AVX-512, one core; a sliced Wasserstein row takes 2.2 ms).
MAX_REFERENCE_POINTS = 256
N_DISTANCES_PER_BATCH = 2**16  # weighted distances sorted at once; they fit in the L2 cache
# Bandwidth of the densities of profiles. Accuracy of kernel ridge regression for 70 classes of rotated outlines and 8
# rotated solids: 0.840 and 0.867 with 0.03; 0.834 and 0.892 with 0.06; 0.803 and 0.875 with "auto" (2026-11-29).
PROFILE_BANDWIDTH = 0.06
