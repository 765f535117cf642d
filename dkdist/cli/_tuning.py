"""Tuned values of the commands: the trade-off of each, and the tests or commands that measure it."""

# Limits of printed lists: longer ones hide the lines around them; --json prints everything.
MAX_SHOWN_WARNINGS = 5  # further warnings are only counted (tests/cli/test_command_line.py)
MAX_LISTED_CLASSES = 20  # classes of a target, printed with their counts (tests/cli/test_for_scripts.py)
# tests/cli/test_model_info.py
MAX_REPR_ITEMS, MAX_REPR_KEYS, MAX_REPR_CHARACTERS, MAX_REPR_DEPTH = (
    8,
    12,
    80,
    4,
)
HELP_WIDTH = 76  # characters per line; terminals have 80 (tests/cli/test_command_line.py checks the limit)

# Larger batches need more memory, smaller ones start more Dask runs (tests/cli/test_predictions.py).
PREDICT_BATCH_SETS = 2**14
# Bytes written to test an output folder: more bytes detect more full disks but take longer (tests/cli/test_outputs.py).
PROBE_BYTES = 2**16

# Example sets of `dkdist warm`: only large sets call the compiled functions of grids and of sampling.
# With fewer sets or points, a later fit still has to compile some functions (tests/cli/test_compiling.py).
N_WARM_SETS, SMALL_SET_POINTS, LARGE_SET_POINTS = 24, 20, 3000

# Limits of reports: larger ones show more, but pages are larger and take longer (tests/cli/test_report.py).
MAX_MAP_SETS = 1000
MAX_FIGURE_POINTS = 10**7  # points of a drawn example set, which is read into memory
MAX_EXPLAINED_POINTS = 20_000  # points of an example set
MAX_SHAPLEY_SETS, MAX_SHAPLEY_DIMS, MAX_SHAPLEY_POINTS = 8, 20, 2000  # 8 sets, also in the background
MAX_LISTED_POINTS = 5  # points of an example in the table of contributions
MAX_LISTED_VALUES = 12  # entries shown of a parameter that is a tuple or an array
MAX_CONFUSION_CLASSES, MAX_COUNTED_CLASSES = 30, 12  # classes in a figure; classes in a figure with counts
MAX_SCATTER_SETS = 2000
# Bootstrap samples: more reduce the noise of interval ends. Large stores use fewer, because one sample costs O(n).
N_RESAMPLES, N_RESAMPLES_LARGE, MAX_FULLY_RESAMPLED_SETS = 999, 199, 10_000
