"""Tuned values of the figures: the trade-off of each, and the tests that measure it (``pytest tests/plot``)."""

# Drawn items. More show more detail, but overlap and take longer; the rest is subsampled with a fixed seed.
MAX_MAP_SETS = 3000  # tests/plot/test_pictures_of_collections.py
MAX_MATRIX_SETS = 5000  # a screen has fewer pixels, and clustering takes n^2 memory
MAX_OPTIMALLY_ORDERED_SETS = 300  # optimal leaf ordering takes n^3 steps
MAX_INTERVALS = 500
MAX_DRAWN_POINTS = 3000  # per set (tests/plot/test_pictures_of_sets.py)
DEFAULT_N_SETS = 6  # panels of `plot.sets`
MAX_BINS = 1000  # of calibration; each needs at least one set
MAX_HISTOGRAM_BINS = 60  # also symbols that are labelled

# Labels. Longer or more labels overlap (tests/plot/test_every_picture.py).
MAX_LABEL_CHARACTERS = 72
LABEL_LINE_CHARACTERS = 36  # of the leaderboard; longer names take several lines
MAX_LABELLED_SETS = 40
MAX_LABELLED_SYMBOLS = 120

# Densities. More points and nodes are more accurate; kernel estimates cost their product.
MAX_DENSITY_POINTS, MIN_DENSITY_POINTS = 1000, 10  # fewer points have no reliable density
DENSITY_GRID_SIZE, DENSITY_LINE_SIZE = 60, 200  # nodes per side in two dimensions, nodes in one
WITNESS_LINE_SIZE, WITNESS_GRID_SIZE = 300, 90  # nodes in one dimension, per side in two
N_WITNESS_LEVELS = 14

# Layout.
PAD_INCHES = 0.08  # around each panel
MARGIN_RATIO = 0.1  # of the range of the points, around them
HISTOGRAM_HEIGHT_RATIO = 0.14  # of a calibration figure; higher bars hide the points

# Types of values. Integers with more distinct values are numbers on a colour scale, otherwise classes.
MAX_INTEGER_CLASSES = 12  # docs/plots.md states it
MIN_LOG_AXIS_RATIO = 50.0  # of the largest to the smallest value, from which an axis is logarithmic

# Numerical limits.
SYMMETRY_TOL = 1e-6  # of the largest distance; larger differences are not rounding errors of float32
MIN_WITNESS_RANGE = 1e-9  # smallest range of the value axis: below it values are rounding errors
