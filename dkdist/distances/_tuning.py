"""Tuning constants of distances, with the trade-off of each and the command that measures it."""

# Sliced Wasserstein embeddings (python benchmarks/roofline_stages.py measures their speed).
# Points per set up to which a sorting network sorts projections; NumPy sorts larger sets. Does not affect results.
# The network needs 64 bytes times the next power of two; at 200,000 points it takes 53 ms, NumPy 380 (2026-11,
# AMD EPYC, AVX-512).
MAX_NETWORK_POINTS = 2**18
# The error of the mean over L directions is proportional to L^(-1/2), the cost to L.
MIN_DIRECTIONS = 64

# Dynamic time warping. Affects only speed, not results (python benchmarks/sequence_distances.py dtw growth).
# Maximum number of long series compared one by one; more fill a padded pack of 16. Both take equally long for 7 series
# in one variable, 4 in three (2026-11, AMD EPYC, AVX-512).
MAX_UNPACKED_SERIES = 5
DIAGONAL_OVERHEAD_POINTS = 100  # fixed cost of a diagonal, in points of a series

# Landmarks (python benchmarks/distance_defaults.py).
DEFAULT_N_LANDMARKS = 1024  # the error of the kernel is proportional to R^(-1/2), the cost to R
N_NAMED_DIRECTIONS = 50  # directions of "sliced-wasserstein"; more reduce the error but cost time
MAX_PIECE_POINTS = {"codes": 64, "ordered": 32, "sets": 16}  # maximum for lengths="auto"
# sampler="auto" uses whole objects up to this median size, and pieces above it, because the cost is quadratic.
MAX_WHOLE_OBJECT_POINTS = {"codes": 256, "ordered": 0, "sets": 64}
MAX_TESTED_POINTS = 256  # lengths were compared up to this median size; larger objects raise a warning
MAX_SPREAD_RATIO = 100  # a larger ratio of standard deviations of two columns raises a warning
AUTO_GAMMA_RATIOS = {"strings": 1.0, "others": 0.3}  # gamma="auto" is this over the median distance
MAX_SCALE_OBJECTS = 256  # sampled objects for gamma and scales; the cost is this times R distances

# Selection of landmarks (tests/distances/test_own_objects.py, tests/distances/test_explaining_objects.py).
RELATIVE_PENALTY = 1e-3  # ridge penalty over the mean squared norm of a feature; larger is smoother
MIN_CANDIDATES = 512  # candidates (at least 2 R); all pairs of candidates are compared
MIN_EIGENVALUE_RATIO = 1e-6  # smaller eigenvalues are rounding errors of float32 features; dropped
N_BISECTIONS = 60  # bisection steps for the penalty; converges to float64 precision
MIN_RELATIVE_DEVIATION = 1e-6  # relative to the mean; smaller deviations are float32 rounding errors
N_VALIDATED_OBJECTS = 8  # objects on whose pairs a user's function is validated

# Optimal transport (tests/distances/test_wasserstein.py).
MAX_SIMPLEX_STEPS = 10_000_000  # iteration limit of POT; limits the time per pair
RELATIVE_GAP_TOL = 1e-8  # duality gap over the cost; smaller than float32 rounding
# Ratio of successive limits to which costs are clipped; the solver resolves about 1e-13 of the largest cost.
CLIP_RATIO = 2.0**-8

# Strings. Affects only speed, not results (python benchmarks/distance_peers.py strings edits long).
COLUMNS_PER_CHECK = 64  # columns between two checks of the minimum of a band
FIRST_BAND_EDITS = 31  # edits covered by the first band; a wider band wastes time on nearly equal strings
FIRST_BAND_INDELS = 62
MAX_UNBANDED_WORDS = 2  # columns of up to this many words are computed without a band
MAX_UNBANDED_INDEL_WORDS = 8
MAX_UNBANDED_SYMBOLS = 256  # limit for the shorter of two texts: columns of four words
MAX_BANDED_CHAINS = 12  # fewer long strings are compared one by one, in bands
PAIR_OVERHEAD_CELLS = 120_000  # fixed cost of a pair, in cells of a table
MIN_BANDED_CELLS = 2**20  # smaller tables are computed without a band
MIN_LENGTH_PER_EDIT = 16  # maximum edits of a band: the length divided by this
MAX_NARROW_TILES = 2  # this many narrow tiles are still faster than one wide tile
WORD_FILL_RATIO = 0.92  # average fraction of bits in use if strings of different lengths share words
MAX_PAIRS = 16  # maximum for the fast path; packed words are faster for more pairs
MAX_SYMBOLS = 2**15  # maximum total length for the fast path; threads are faster above it
MAX_PEER_SYMBOLS = 100  # length of the shorter text up to which rapidfuzz is faster
MAX_PEER_UNICODE_SYMBOLS = 500  # the same for the total length of non-ASCII texts, which must be converted

# Windows of series. Accuracy with ridge regression, mean of two seeds, for ArrowHead, PickupGestureWiimoteZ,
# ItalyPowerDemand, JapaneseVowels, OSULeaf, ACSF1, PigCVP (official splits, 2026-11):
#   64 filters, 16 levels   0.863 0.880 0.960 0.991 0.934 0.915 0.954
#   128 filters, 8 levels   0.854 0.890 0.965 0.996 0.940 0.920 0.966    (twice the time for equal columns)
#   256 filters, 8 levels   0.860 0.890 0.965 0.996 0.944 0.920 0.964
# Quantiles instead of fractions lose 0.03 on ArrowHead and 0.1 on PickupGestureWiimoteZ. If all filters have sum zero,
# as those of MiniRocket, these lose 0.02 and 0.06.
MAX_DILATIONS = 10  # 1 to 512: each has 1,024 columns; windows of 9 points span up to 4,097 points
# Sample of windows for thresholds: the standard error of a level is 0.008 for independent windows. Each fold
# of a model repeats the choice, so it must be fast (0.07 s).
MAX_THRESHOLD_SETS, MAX_THRESHOLD_POINTS, MAX_THRESHOLD_WINDOWS = 256, 2**16, 2**12
# Margin of thresholds, above rounding errors of float32 thresholds (6e-8) and float64 outputs.
THRESHOLD_RTOL = 1e-6
