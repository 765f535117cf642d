"""Tuned values of the commands: the trade-off of each, and the tests or commands that measure it."""

# Lines for people. More entries hide the lines around them; scripts get the rest by --json.
MAX_SHOWN_WARNINGS = 5  # the rest are counted (tests/cli/test_command_line.py)
MAX_LISTED_CLASSES = 20  # of a column of targets, with their counts (tests/cli/test_for_scripts.py)
MAX_REPR_ITEMS, MAX_REPR_KEYS, MAX_REPR_CHARACTERS, MAX_REPR_DEPTH = (
    8,
    12,
    80,
    4,
)  # tests/cli/test_model_info.py
HELP_WIDTH = 76  # characters; terminals have 80 (tests/cli/test_command_line.py checks the limit)

# Work. Larger batches hold more predictions at a time, smaller ones start more runs (tests/cli/test_predictions.py).
PREDICT_BATCH_SETS = 2**14
# Larger probes detect more disks that are nearly full, and take longer (tests/cli/test_outputs.py).
PROBE_BYTES = 2**16

# Example sets of `dkdist warm`: large sets take the compiled functions of grids, and their pooled points are sampled.
# Fewer sets or points leave functions to compile in a fit (tests/cli/test_compiling.py).
N_WARM_SETS, SMALL_SET_POINTS, LARGE_SET_POINTS = 24, 20, 3000

# Reports. Larger limits show more, and make larger pages that take longer (tests/cli/test_report.py).
MAX_MAP_SETS = 1000
MAX_FIGURE_POINTS = 10**7  # per example set that is drawn: it is read into memory
MAX_EXPLAINED_POINTS = 20_000  # per example set
MAX_SHAPLEY_SETS, MAX_SHAPLEY_DIMS, MAX_SHAPLEY_POINTS = 8, 20, 2000  # as many sets are the background
MAX_LISTED_VALUES = 12  # of a tuple or an array among the parameters
MAX_CONFUSION_CLASSES, MAX_COUNTED_CLASSES = 30, 12  # classes of the figure; up to the second, with counts
MAX_SCATTER_SETS = 2000
# Bootstrap samples: more make the ends of an interval steadier. Large stores get fewer, because a sample costs n.
N_RESAMPLES, N_RESAMPLES_LARGE, MAX_FULLY_RESAMPLED_SETS = 999, 199, 10_000
