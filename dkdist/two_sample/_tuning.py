"""Tuned constants of two-sample tests; comments give trade-offs and the commands that measure them."""

MAX_PERMUTATIONS = 10**6  # a p-value of 0.001 then has a relative standard error of 3 % (binomial)

# two_sample_test (python benchmarks/two_sample.py; tests/two_sample/test_aggregated_test.py).
MAX_DENSE_POINTS = 512  # 40 MiB of kernel values; also the number of pooled points for parameters
MAX_BINS = 4096  # bins of both samples; a permutation takes 4,096 additions per feature
N_FREQUENCIES = 25  # frequencies per bandwidth for MAX_BINS bins; fewer bins allow more at the same cost
PERMUTATION_BATCH_SIZE = 64  # permutations per matrix product; larger batches need more memory
RELATIVE_TIE_TOL = 1e-12  # statistics that differ by less than this fraction of the diagonal are tied
COMBINED_TIE_TOL = 1e-4  # combined statistics that differ by less are tied, because bin sums are float32
CONSTANT_TOL = 1e-5  # features whose bin sums differ by less than this fraction of a bin's size are constant

# Pooled statistics (python benchmarks/two_sample.py power).
N_BANDWIDTHS = 10  # bandwidths per kernel, as in MMDAgg (Schrab et al. 2023)
SCALE_QUANTILE = 0.9  # quantile of a coordinate's nonzero deviations from the median; defines its unit
MAX_DEVIATION = 2.0  # in units, 3.3 standard deviations of normal points; larger deviations are clipped
# products of coordinates: all pairs of 23 dimensions; then moments cost less than frequencies
MAX_PAIRS = 253
BATCH_COORDINATES = 2**16  # coordinates per batch of points; products in 23 dimensions take 6 MiB
MIN_BANDWIDTH_RATIO = 1e-6  # smallest / largest bandwidth; float32 coordinates have no more digits

# group_test (python benchmarks/group_test_power.py; tests/two_sample/test_group_test.py).
MIN_RELATIVE_VARIANCE = 1e-16  # variance / largest square of a column; smaller ratios are rounding errors
MAX_PRIOR_DEGREES = 1e6  # degrees of freedom of the prior if variances do not differ significantly
MIN_DIRECTIONS = 32  # minimum directions of projection: more have higher power and cost
MAX_DENSE_ROWS = 2048  # maximum rows with an exact kernel: 32 MiB of values
N_KERNEL_FEATURES = 1024  # random features of the kernel above MAX_DENSE_ROWS
ROW_TIE_TOL = 1e-6  # combined statistics that differ by less are tied
N_QUANTILES = 16  # quantiles per projection
# relative deviation of a statistic over labellings; smaller ones are rounding errors
MIN_RELATIVE_DEVIATION = 1e-8
# adjusted and blocked group_test (python benchmarks/studies_groups.py)
# Distinct labellings that must remain if labels are permuted within categories and block sizes
MIN_LABELLINGS = 1000
# Singular values of columns of order 1; smaller ones are linear dependence and rounding
MIN_RELATIVE_NORM = 1e-6
