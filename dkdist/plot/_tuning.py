"""Tuned values of the figures: the trade-off of each, and the tests that measure it (``pytest tests/plot``)."""

# Limits of drawn items: more items overlap and take longer. Larger data are sampled with a fixed seed or rejected.
MAX_MAP_SETS = 3000  # tests/plot/test_pictures_of_collections.py
MAX_MATRIX_SETS = 5000  # screens have fewer pixels, and clustering needs O(n^2) memory
MAX_OPTIMALLY_ORDERED_SETS = 300  # optimal leaf ordering takes O(n^3) time
MAX_INTERVALS = 500
MAX_DRAWN_POINTS = 3000  # points per set (tests/plot/test_pictures_of_sets.py)
DEFAULT_N_SETS = 6  # number of panels of `plot.sets`
MAX_BINS = 1000  # bins of `plot.calibration`; each needs at least one set
MAX_HISTOGRAM_BINS = 60  # also the maximum number of labelled symbols

# Labels. Longer or more labels overlap (tests/plot/test_every_picture.py).
MAX_LABEL_CHARACTERS = 72
LABEL_LINE_CHARACTERS = 36  # line length of the leaderboard; longer names take several lines
MAX_LABELLED_SETS = 40
MAX_LABELLED_SYMBOLS = 120

# Densities: more points and nodes are more accurate; the cost is proportional to their product.
MAX_DENSITY_POINTS, MIN_DENSITY_POINTS = 1000, 10  # fewer points give no reliable density
DENSITY_GRID_SIZE, DENSITY_LINE_SIZE = 60, 200  # nodes per side in two dimensions; nodes in one dimension
WITNESS_LINE_SIZE, WITNESS_GRID_SIZE = 300, 90  # nodes in one dimension; nodes per side in two dimensions
N_WITNESS_LEVELS = 14

# Layout.
PAD_INCHES = 0.08  # padding around each panel
MARGIN_RATIO = 0.1  # margin around the points, relative to their range
HISTOGRAM_HEIGHT_RATIO = 0.14  # maximum height of bars in a calibration figure; higher bars hide the points

# Integers with more distinct values are drawn as numbers on a colour scale, otherwise as classes.
MAX_INTEGER_CLASSES = 12  # docs/plots.md states it
MIN_LOG_AXIS_RATIO = 50.0  # an axis is logarithmic from this ratio of the largest to the smallest value

# Numerical limits.
SYMMETRY_TOL = 1e-6  # relative to the largest distance; larger differences are not float32 rounding errors
MIN_WITNESS_RANGE = 1e-9  # minimum range of the value axis; smaller values are rounding errors
