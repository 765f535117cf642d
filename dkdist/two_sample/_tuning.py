"""Tuned numbers of two-sample tests: what each trades off, and a command that shows the effect."""

MAX_PERMUTATIONS = 10**6  # relative standard error of a p-value of 0.001: 3 % (binomial)

# two_sample_test (python benchmarks/two_sample.py; tests/two_sample/test_aggregated_test.py).
MAX_DENSE_POINTS = 512  # 40 MiB of kernel values; also the number of pooled points that determine parameters
MAX_BINS = 4096  # of both samples: a permutation costs 4,096 additions for each feature
N_FREQUENCIES = 25  # of each bandwidth, for MAX_BINS bins; fewer bins allow more at the same cost
PERMUTATION_BATCH_SIZE = 64  # permutations per matrix product: larger batches take more memory
RELATIVE_TIE_TOL = 1e-12  # of the diagonal: statistics that differ by less are equal
COMBINED_TIE_TOL = 1e-4  # combined statistics that differ by less are equal: sums over bins are float32
CONSTANT_TOL = 1e-5  # of a bin's size: features whose sums over bins differ by less are constant

# Pooled statistics (python benchmarks/two_sample.py power).
N_BANDWIDTHS = 10  # of each kernel, as in MMDAgg (Schrab et al. 2023)
SCALE_QUANTILE = 0.9  # of the nonzero deviations of a coordinate from its median: its unit
MAX_DEVIATION = 2.0  # units, 3.3 standard deviations of normal points: points farther out are clipped
MAX_PAIRS = 253  # products of coordinates: all pairs of 23, so that moments cost less than frequencies
BATCH_COORDINATES = 2**16  # of points whose features are computed together: products of 23 take 6 MiB
MIN_BANDWIDTH_RATIO = 1e-6  # of the smallest to the largest: float32 coordinates have no more digits

# group_test (python benchmarks/group_test_power.py; tests/two_sample/test_group_test.py).
MIN_RELATIVE_VARIANCE = 1e-16  # of a column's largest square: smaller variances are rounding
MAX_PRIOR_DEGREES = 1e6  # of freedom, if variances do not differ significantly
MIN_DIRECTIONS = 32  # of projections: power against cost
MAX_DENSE_ROWS = 2048  # 32 MiB of kernel values
N_KERNEL_FEATURES = 1024  # of the kernel beyond MAX_DENSE_ROWS
ROW_TIE_TOL = 1e-6  # combined statistics that differ by less are equal
N_QUANTILES = 16  # of each projection
MIN_RELATIVE_DEVIATION = 1e-8  # of a statistic over labellings: smaller deviations are rounding
