"""Tuned numbers of `_base`: what each trades off, and the command that shows it."""

# Samples of sets for choices that depend on the data (bandwidths, units). More sets and points reduce the sampling
# error and cost time and reads in fit: python benchmarks/defaults.py compares fits with the resulting defaults.
MAX_SAMPLE_SETS = 256
MAX_SAMPLE_POINTS = 2**22
N_SAMPLE_RUNS = 8  # runs of adjacent sets: few runs read few blocks, several cover the collection
N_PAIRED_POINTS = 1024  # points of the median heuristic: half a million pairs (tests/base/test_medians.py)

# Pooled samples of points for quantiles. With 65,536 points the fraction below the median has a standard error of
# 0.5 / sqrt(65536) = 0.2 %. Fewer points bound the memory in many dimensions (tests/base/test_domains.py).
MAX_POOLED_POINTS, MIN_POOLED_POINTS = 2**16, 2**12
MAX_POOLED_VALUES = 2**22  # coordinates of a sample

# Memory estimates of cli/fit_plan.py; the origin of the values is unknown.
COPIES_PER_BLOCK = 3  # decoded chunks, points, and intermediate arrays
BYTES_PER_SAMPLED_COORDINATE = 28  # float32 coordinates, and sorted float64 values with weights

POINTS_PER_BATCH = (
    2**18
)  # points of leave-out sets embedded at once: bounds memory (tests/explaining/test_point_contributions.py)
