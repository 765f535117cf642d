"""Tuned constants of `_base`, with the trade-off of each and the command that measures it."""

# Sizes of the samples from which fit chooses bandwidths and units. More sets and points reduce the sampling error
# but increase the time and reads of fit: python benchmarks/defaults.py compares fits with the resulting defaults.
MAX_SAMPLE_SETS = 256
MAX_SAMPLE_POINTS = 2**22
N_SAMPLE_RUNS = 8  # runs of consecutive sets; fewer runs read fewer blocks but may miss parts of the data
# float64 points at a time for moments of sampled sets, bounded because there are three copies: 2^21 points of 30
# dimensions took 1.2 GB (python benchmarks/studies_ondisk.py, 2 cores of an AMD EPYC, 2026-11)
MOMENTS_BYTES = 2**25
N_PAIRED_POINTS = 1024  # points of the median heuristic, in 500,000 pairs (tests/base/test_medians.py)

# Pooled samples of points for quantiles. With 65,536 points the fraction below the median has a standard error of
# 0.5 / sqrt(65536) = 0.2 %. Fewer points are sampled in many dimensions, to limit memory (tests/base/test_domains.py).
MAX_POOLED_POINTS, MIN_POOLED_POINTS = 2**16, 2**12
MAX_POOLED_VALUES = 2**22  # maximum number of coordinates in a sample

# Memory estimates of cli/fit_plan.py; the origin of the values is unknown.
COPIES_PER_BLOCK = 3  # copies of a block in memory: decoded chunks, points, and intermediate arrays
BYTES_PER_SAMPLED_COORDINATE = 28  # float32 coordinates, and their sorted float64 values and weights

# Points of leave-one-out sets embedded at once; limits memory (tests/explaining/test_point_contributions.py).
POINTS_PER_BATCH = 2**18

# Adjusted integers are categories if each has this many sets on average: codes of batches have no order. Fewer sets
# per category leave too few degrees of freedom.
MIN_SETS_PER_CATEGORY = 5
