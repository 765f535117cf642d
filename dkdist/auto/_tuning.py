"""Tuned constants of the automatic models, with their trade-offs and evidence."""

# Inner cross-validation. Kohavi (1995): ten folds balance bias and variance of error estimates.
MAX_INNER_FOLDS = 10
MIN_PREDICTIONS = 1000  # folds are repeated up to this number of predictions; a repeat costs n^3 / n_folds
MAX_REPEATS = 5

# Outer evaluation: more folds leave more training sets per model and multiply the time of a fit.
MIN_BALANCED_FOLDS = 5  # minimum number of folds, used if fewer folds divide every class evenly
MAX_BALANCED_SETS = 100  # uneven folds lower the score of noise by 1 / n_test: 0.05 for 100 sets
# Larger collections have fewer folds: 1,000 sets of 200 x 10 values take less than 15 s on two cores.
MAX_SETS_BY_FOLDS = {10: 300, 5: 600, 3: 2000}
# Larger collections use one hold-out: the standard error of any accuracy is below 0.025.
MAX_NESTED_SETS = max(MAX_SETS_BY_FOLDS.values())
HOLD_OUT_SHARE = 0.2  # fraction of the sets, if the final model is refitted on all sets
# Limits of a hold-out of 10 % without refit: standard errors of 0.022 and 0.005.
MIN_HOLD_OUT_SETS, MAX_HOLD_OUT_SETS = 500, 10_000

# Verdicts.
SIGNIFICANCE_Z = 2.0  # differences beyond this many standard errors are significant (5 % two-sided)
EQUIVALENCE_MARGIN = 0.02  # score differences below this are negligible; shown in every summary
MIN_SETS_WITHOUT_WARNING = 20  # 20 sets give an accuracy a standard error of 0.11
MIN_CLASS_RATIO = 0.25  # ratio of the smallest to the largest class; below it, accuracy hides the small class
MAX_JACKKNIFE_BLOCKS = 50  # relative error of a standard error: 1 / sqrt(2 * 49) = 10 %

# Minimum number of rows for two threads; with fewer, the GIL makes them slower than one. 60, 120, 250 and 500 sets of
# 200 x 10 values take 3.8, 6.4, 12.2 and 12.8 s on one thread, and 5.1, 8.2, 13.5 and 10.8 s on two
# (python benchmarks/automatic_seconds.py, 2 cores, 2026-11).
MIN_PARALLEL_ROWS = 300

# Maximum number of n-grams in sparse rows. Accuracy on 27,000 first names (ridge, tf-idf): 0.903 with 32,768 n-grams,
# 0.908 with all 90,005. The cost of 28 products per name does not depend on their number (2026-11, 2 cores).
MAX_NGRAMS = 2**17
MAX_NGRAM_COEFFICIENTS = 2**22  # of all classes: 32 MiB for each penalty
# Penalties of ridge regression on n-grams, tried until the loss increases: smaller ones take more iterations. The best
# ones are 1 for names and 0.3 for chain codes of digits (2026-11).
SPARSE_PENALTIES = (10.0, 3.0, 1.0, 0.5, 0.25, 0.1, 0.03)
# Conjugate gradients: 27,000 names have the same accuracy with 1e-4, in 1.4 times the time (2026-11, 2 cores).
SPARSE_RIDGE_TOL = 1e-3

# Strings and held-out fraction of the comparison of n-grams with other candidates. With fewer, n-grams
# of 27,000 names are less significantly better than edit distances (4 to 6 standard errors, three seeds), whose fit
# on all takes 18 s on two cores; the comparison takes 0.3 to 0.5 s of processor time (2026-11, 2 cores).
PILOT_SETS, PILOT_HELD_OUT_FRACTION = 6000, 0.25
PILOT_SYMBOLS = 2**19  # fewer strings if they are long: distances take the square of the length

# Successive halving. A penalty costs n^3 operations, but rounds with few sets may drop the best candidate
# (python benchmarks/defaults.py; tests/automatic/test_rounds.py).
FIRST_ROUND_SETS, SECOND_ROUND_SETS = 400, 900
MAX_SELECTION_SETS = 2000  # maximum number of sets for the comparison of candidates
MAX_EXACT_SETS = 4000  # larger collections use landmarks instead of kernel matrices
# In larger collections, distances to 512 or 1,024 reference sets, whose time is quadratic in the sizes of sets, must
# reduce the loss by this fraction: dynamic time warping to 512 series of 50 and 256 points takes 0.13 and 3.2 ms of
# processor time a set, windows take 0.11 and 0.42 ms (2026-11, 2 cores of an AMD EPYC).
MAX_QUADRATIC_SETS, MIN_QUADRATIC_GAIN = 16_000, 0.1
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # for kernel matrices with mean diagonal 1
PENALTY_FACTORS = (0.1, 0.3, 1.0, 3.0)  # multiples of the best penalty of the previous round
STREAMED_PENALTY_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # multiples of the best penalty on fewer sets
WIDTH_FACTORS = (0.25, 0.5, 1.0, 2.0)  # Gaussian widths in units of the median distance of rows
# Ensemble selection: more steps give finer weights but overfit (tests/automatic/test_ensemble_selection.py).
MAX_ENSEMBLE_STEPS = 10
MIN_RELATIVE_GAIN = 1e-3  # smallest reduction of the loss for which a member is added

# Size of the samples for fitting representations: limits time and memory (python benchmarks/automatic_seconds.py).
MAX_FIT_SETS, MAX_FIT_POINTS = 512, 2**21
# More than 256 sets are fitted on only up to 2^25 coordinates, 128 MiB in each of several copies
# (python benchmarks/studies_ondisk.py, 1,000 sets of 5,000 points in 30 dimensions, 2 cores, 2026-11).
MAX_FIT_COORDINATES, MIN_BOUNDED_SETS = 2**25, 256
MAX_FIT_STRINGS = 2**12  # frequent n-grams need more strings; larger fits count the n-grams of all strings
MAX_BACKGROUND_SETS, MAX_BACKGROUND_POINTS = 16, 512  # stored in the model for explanations by dimension
# Landmarks m of large collections: accuracy against n m^2 operations. Mixtures with 256, 384, 512 and 768 landmarks,
# 100,000 sets: accuracy 0.8718, 0.8720, 0.8729, 0.8732 in 9.0, 10.1, 11.3 and 14.5 s. 384, 512, 768 and 1,536
# landmarks, 8,000 sets: 0.8677, 0.8680, 0.8682, 0.8683 in 2.9, 3.2, 3.6 and 7.3 s
# (python benchmarks/automatic_large.py --landmarks 256 384 512 768 1536, one run, 2 cores of an AMD EPYC, 2026-11).
# Up to 16,000 sets, 512, 1,024 and 2,000 landmarks: chain codes of digits 0.981, 0.983, 0.985 (12,000 strings), images
# 0.673, 0.677, 0.685 (10,000), ten kinds of mixtures 0.432, 0.432, 0.435 (16,000); fits with 1,024 took 1.0 to 1.2
# times as long, with 2,000 1.4 to 2.4 times (tasks of benchmarks/honesty.py --lines 2 --seed 9001, 2026-11-30). From
# 16,384 to 65,536 sets, n m^2 is constant.
N_LANDMARKS, N_LANDMARKS_OF_MANY_SETS, LANDMARK_OPERATIONS = 1024, 512, 2**34
# Larger collections, except of strings, are fitted on a sample: time against accuracy. A million mixtures, 768
# landmarks: 65,536 sets take 12 s; 262,144 sets and 512 landmarks 30 s, with an accuracy lower by 0.0015 +- 0.0007,
# which is the error of the selection. 100,000 mixtures, 768 landmarks: 32,768 and 65,536 sets lose 0.0041 and 0.0017
# +- 0.0007 (python benchmarks/automatic_large.py --training-sets 32768 65536 262144, 2 cores, 2026-11).
MAX_STREAMED_SETS = 2**18
# Members of large collections: each takes 0.05 to 0.1 ms a set; four were not more accurate (2026-11, 2 cores).
MAX_STREAMED_MEMBERS = 3
# Added to the diagonal of the landmarks' kernel matrix, relative to its mean: above rounding errors of float32 kernels,
# and below the eigenvalues that matter with the smallest penalty.
LANDMARK_JITTER = 1e-6
# Random features of `best_estimator_`: accuracy against time (python benchmarks/defaults.py).
N_COMPONENTS = 4096
# Fraction of streamed sets that determine penalties and weights of members, before a fit on all, and their maximum
# number: a standard error of accuracies of 0.005.
HELD_OUT_FRACTION, MAX_HELD_OUT_SETS = 0.25, 5000

# Expected number of pairs of sets that are equal by coincidence, below which equal sets are reported as leakage: a
# 1 % probability of a false warning (tests/auto/test_leakage.py).
MAX_EXPECTED_COINCIDENCES = 0.01

# Budgets (tests/automatic/test_budgets.py, tests/automatic/test_final_fit.py).
SELECTION_FRACTION = 0.5  # fraction of the time budget; the rest is for the final fit
N_KERNEL_MATRICES = 8  # n x n matrices in memory during a trial
N_GRAM_MATRICES = 16  # m x m matrices in memory per member, with two threads
MIN_LANDMARKS, MIN_SELECTION_SETS = 16, 50
MIN_TRIMMED_LANDMARKS = 128  # with fewer landmarks, members are dropped instead
N_STREAMED_ALPHAS = 6  # penalties per member; each costs m^3 / 3 multiplications
BENCHMARK_ROWS = 768  # rows and columns of the matrices in the benchmark of this machine

# Representations (python benchmarks/defaults.py; tests/automatic/test_representations.py). Narrower densities are too
# noisy, wider ones are close to moments. Numbers of nodes are for one, two and three dimensions.
BANDWIDTHS = (0.03, 0.06, 0.12)
N_BASIS_BY_BANDWIDTH = {0.03: (40, 24), 0.06: (24, 14, 10), 0.12: (12, 10, 8)}
MAX_JOINT_DIMS = 3  # maximum number of dimensions of joint densities
PAIR_BANDWIDTH = 0.12
# Minimum number of dimensions for principal components (tests/automatic/test_pairs_and_components.py).
MIN_PCA_DIMS = 8
MAX_COMPONENTS = 64
MAX_COVARIANCE_DIMS = 128  # rows of covariances have d^2 columns
MAX_MEAN_SIZE = 128  # maximum mean number of points per set for distances between sets
MAX_MEAN_LENGTH = 2 * MAX_MEAN_SIZE  # maximum mean number of points per series for dynamic time warping
MIN_SERIES_CORRELATION = 0.3  # minimum serial correlation for treating sets as time series
# Lags of serial correlations: series that are sampled coarsely vary between consecutive points.
SERIES_LAGS = 1, 2, 4, 8
# Minimum share of equal consecutive values of a sorted column, if sets are scans of a grid.
MIN_TIED_SHARE = 0.5
MAX_ORDER_SETS = 64  # sets that decide whether points are ordered
MAX_PROFILE_SIZE = 2048  # maximum mean number of points per set for distance profiles
MAX_TREE_DIMS = 256  # each dimension has nine columns of summaries
MAX_REFERENCE_SETS, MAX_REFERENCE_STRINGS = 512, 1024  # reference sets and strings for distances
# Strings are aligned if the 5 % and 95 % quantiles of their lengths differ by at most this fraction of the median.
ALIGNED_LENGTHS_RTOL = 0.1
MAX_POSITION_COLUMNS = 2**14  # longer strings have no positions: rows are dense, 4 bytes per column

# Conformal scores: 10,000 stored quantiles resolve the coverage to 1e-4 (tests/learners/test_prediction_intervals.py).
MAX_SCORES = 10_000
MAX_SCORING_STEPS = 50  # Fisher scoring converges in about 10 steps
VARIANCE_RTOL = 1e-9
MIN_VARIANCE_RATIO = 1e-6  # minimum variance of a residual, relative to the mean squared residual

# Calibration of log losses by Newton's method (tests/automatic/test_evaluation_set.py).
MAX_NEWTON_STEPS, BETA_RTOL = 8, 1e-3
MAX_BETA = 100.0  # inverse temperature for perfectly separated classes

# Extremely randomised trees: more trees have less noise and take more time. Out-of-bag predictions (56 trees) have
# noise of about 0.1 standard deviations of the target (tests/auto/test_bagged_trees.py).
DEFAULT_N_TREES = 150
# Random projections of the targets, if there are more targets: fewer are faster, but splits are noisier. 2,000 sets of
# 400 classes (python benchmarks/large_cases.py --cases "1,000 classes"): 2.1 s of processor time and 127 MB instead of
# 18.8 s and 4.5 GB, accuracy 0.456 instead of 0.449, squared error 0.9 % larger (2026-11, 2 cores of an AMD EPYC).
MAX_SPLIT_TARGETS = 32

# Penalties of ridge regression on covariates, relative to the mean squared length of their columns.
OFFSET_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
MAX_COLUMNS_OF_PRODUCT = 1024  # columns of float32 rows that are converted to float64 at a time
# Sets with similar expected targets that exchange targets in permutations: smaller strata leave less of the dependence
# on the design, larger ones have more permutations. Five strata remove 90 % of a bias (Cochran 1968).
SETS_PER_STRATUM = 10
# Fractions of the target's variance that adjusted variables explain. Warning: half of the sets are lost (variance
# inflation 2). No statement about the sets: less than a tenth is left (variance inflation 10, Marquardt 1970).
WARN_EXPLAINED_VARIANCE, MAX_EXPLAINED_VARIANCE = 0.5, 0.9
# Prediction of adjusted variables from rows: folds, sets, and penalty of a kernel with mean diagonal 1.
N_NUISANCE_FOLDS, MAX_NUISANCE_SETS, NUISANCE_PENALTY = 5, 500, 0.1
# Penalty of Cox members, in units of the ridge penalty on residuals times the fraction of events. Concordance on new
# sets, mean of 32 simulations with 100 sets: 0.685, 0.688, 0.686, 0.688 and 0.686 with factors 1, 3, 5, 10 and 30
# (python benchmarks/studies_survival.py penalties, 2 cores, 2026-11). Ridge regression on the residuals instead of Cox
# regression had 0.683, where factors 0.3, 1, 3, 10 and 30 had 0.676, 0.683, 0.687, 0.687 and 0.684 (64 simulations).
COX_PENALTY_FACTOR = 5.0
# Steps of Cox members with landmarks take two passes over all sets; log hazards are exact to 0.001 standard errors.
COX_MEMBER_RTOL = 1e-6
# Iteratively reweighted fits of Poisson and quantile regressions (python benchmarks/studies_losses.py).
MAX_IRLS_STEPS = 30  # a step takes n^3 / 3 operations for n sets
# Fraction of a budget of seconds for the selection whose predictions define working responses
PILOT_SHARE = 0.4
IRLS_ATOL = 1e-3  # largest change of a fitted value in units of the targets' or residuals' standard deviation
MAX_LOG_MEAN = 50.0  # means of counts are between e^-50 and e^50, so that losses are finite
MAX_LOG_MEAN_STEP = 3.0  # larger steps of log means overflow after a count far above the mean
# Smaller residuals of quantiles, in standard deviations, have the weight of this one
MIN_RELATIVE_RESIDUAL = 0.01
