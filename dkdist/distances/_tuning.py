"""Tuned numbers of distances: what each trades off, and a command that shows the effect."""

# Sliced Wasserstein embeddings (python benchmarks/roofline_stages.py shows their speed).
# per set on average: above, sorting by NumPy is worth one call per set; changes no bit
MIN_NUMPY_PROJECTIONS = 1600
# The error of the mean over directions falls as MIN_DIRECTIONS^(-1/2), the cost grows with it.
MIN_DIRECTIONS = 64

# Dynamic time warping. Wrong values cost time and change no bit (python benchmarks/sequence_distances.py dtw growth).
MAX_UNPACKED_SERIES = 50  # more remaining long series go into a padded pack
DIAGONAL_OVERHEAD_POINTS = 100  # fixed time per diagonal, in points of a series

# Landmarks (python benchmarks/distance_defaults.py).
DEFAULT_N_LANDMARKS = 1024  # the kernel's error falls as 1 / sqrt(R), the cost grows with R
N_NAMED_DIRECTIONS = 50  # of "sliced-wasserstein": error against cost of projections
MAX_PIECE_POINTS = {"codes": 64, "ordered": 32, "sets": 16}  # lengths="auto": longer pieces cost more
# longer objects are cut: the cost is quadratic
MAX_WHOLE_OBJECT_POINTS = {"codes": 256, "ordered": 0, "sets": 64}
MAX_TESTED_POINTS = 256  # median size up to which these lengths were compared; above, a warning is raised
MAX_SPREAD_RATIO = 100  # of standard deviations of columns; above, a warning: the widest column dominates
AUTO_GAMMA_RATIOS = {"strings": 1.0, "others": 0.3}  # gamma="auto" times the median distance
MAX_SCALE_OBJECTS = 256  # give gamma and scales, at the cost of MAX_SCALE_OBJECTS * R distances

# Selection of landmarks (tests/distances/test_own_objects.py, tests/distances/test_explaining_objects.py).
RELATIVE_PENALTY = 1e-3  # of a feature's mean square norm: larger selects smoother, smaller noisier landmarks
MIN_CANDIDATES = 512  # or twice the number of landmarks: all pairs of candidates are compared
MIN_EIGENVALUE_RATIO = 1e-6  # smaller eigenvalues are rounding of float32 features and are dropped
N_BISECTIONS = 60  # of the range of penalties: converges to rounding
MIN_RELATIVE_DEVIATION = 1e-6  # of a feature over its mean: smaller is rounding to float32
N_VALIDATED_OBJECTS = 8  # a user's function is checked on all pairs of these

# Optimal transport (tests/distances/test_wasserstein.py).
MAX_SIMPLEX_STEPS = 10_000_000  # of POT: limits the time of a pair
RELATIVE_GAP_TOL = 1e-8  # of the cost: below the rounding of float32 distances
CLIP_RATIO = (
    2.0**-8
)  # between successive limits of costs; the solver resolves about 1e-13 of the largest cost

# Strings. Wrong values cost time and change no bit (python benchmarks/distance_peers.py strings edits long).
COLUMNS_PER_CHECK = 64  # columns between two scans of a band for its minimum
FIRST_BAND_EDITS = 31  # width of the first band; wider ones waste cells on strings that are nearly equal
FIRST_BAND_INDELS = 62
MAX_UNBANDED_WORDS = 2  # columns of at most this many words are computed without a band
MAX_UNBANDED_INDEL_WORDS = 8
MAX_UNBANDED_SYMBOLS = 256  # of the shorter of two texts: columns of four words
MAX_BANDED_CHAINS = 12  # fewer long strings are compared pair by pair in bands
PAIR_OVERHEAD_CELLS = 120_000  # fixed time per pair, in cells of a table
MIN_BANDED_CELLS = 2**20  # smaller tables are not tried in a band
MIN_LENGTH_PER_EDIT = 16  # a band is tried for this fraction of the length in edits
MAX_NARROW_TILES = 2  # up to this many narrow tiles are faster than one wide tile
WORD_FILL_RATIO = 0.92  # of words that strings of different lengths share
MAX_PAIRS = 16  # of texts on the fast path; more pairs share packed words
MAX_SYMBOLS = 2**15  # of all texts on the fast path; beyond, threads share the work
MAX_PEER_SYMBOLS = 100  # of the shorter text: up to here rapidfuzz is faster than one compiled call
MAX_PEER_UNICODE_SYMBOLS = 500  # of both texts, if some are not ASCII: converting them takes longer
