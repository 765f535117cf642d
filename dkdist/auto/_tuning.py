"""Tuned numbers of the automatic models: what each trades off, and the evidence."""

# Inner cross-validation. Kohavi (1995): ten folds balance bias and variance of a choice by error.
MAX_INNER_FOLDS = 10
MIN_PREDICTIONS = 1000  # repeats of the folds stop at so many predictions: repeats cost n^3 / n_folds each
MAX_REPEATS = 5

# Outer evaluation: folds trade the training share of each model against the time of a fit, which they multiply.
MIN_BALANCED_FOLDS = 5  # fewer folds are taken down to here if they divide every class evenly,
MAX_BALANCED_SETS = (
    100  # up to so many sets: in uneven folds noise scores 1 / n_test too low, 0.05 at 100 sets
)
MAX_SETS_BY_FOLDS = {10: 300, 5: 600, 3: 2000}  # 1,000 sets of 200 x 10 numbers stay below 15 s on two cores
MAX_NESTED_SETS = max(
    MAX_SETS_BY_FOLDS.values()
)  # beyond, one hold-out: its standard error is below 0.025 for any accuracy
HOLD_OUT_SHARE = 0.2  # where the final model learns from all sets
MIN_HOLD_OUT_SETS, MAX_HOLD_OUT_SETS = (
    500,
    10_000,
)  # of a tenth, where it does not: standard errors 0.022 and 0.005

# Verdicts.
SIGNIFICANCE_Z = 2.0  # differences beyond this many standard errors are significant (5 % two-sided)
EQUIVALENCE_MARGIN = 0.02  # of a score: a smaller lead changes no decision; reported in every summary
MIN_SETS_WITHOUT_WARNING = 20  # standard error of an accuracy: 0.11 at 20 sets
MIN_CLASS_RATIO = 0.25  # smallest to largest class; below, accuracy hides the small class
MAX_JACKKNIFE_BLOCKS = 50  # relative error of a standard error: 1 / sqrt(2 * 49) = 10 %

# Candidates on threads. Below, two threads are slower than one: most time is Python code. 60, 120 and 250 sets of 200 x
# 10 numbers: 3.8, 6.4 and 12.2 s on one thread, 5.1, 8.2 and 13.5 s on two; 500: 12.8 and 10.8 s
# (python benchmarks/automatic_seconds.py, 2 cores, 2026-11).
MIN_PARALLEL_ROWS = 300

# N-grams of many strings. Of 16,000 first names, 4,096, 30,001 columns: accuracy 0.874, 0.883 (ridge, tf-idf); sparse
# rows cost 35 products a name whatever the number (2026-11).
MAX_NGRAMS = 2**15

# Successive halving. Small rounds save n^3 operations per penalty and may drop the best candidate
# (python benchmarks/defaults.py; tests/automatic/test_rounds.py).
FIRST_ROUND_SETS, SECOND_ROUND_SETS = 400, 900
MAX_SELECTION_SETS = 2000  # sets by which candidates are compared
MAX_EXACT_SETS = 4000  # larger collections use random features instead of kernel matrices
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # kernels have a mean diagonal of 1
PENALTY_FACTORS = (0.1, 0.3, 1.0, 3.0)  # times the best penalty of the previous round
STREAMED_PENALTY_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the best penalty on fewer sets
WIDTH_FACTORS = (0.25, 0.5, 1.0, 2.0)  # Gaussian widths in units of the median distance of rows
# Ensemble selection: more steps weight members more finely, and fit noise (tests/automatic/test_ensemble_selection.py).
MAX_ENSEMBLE_STEPS = 10
MIN_RELATIVE_GAIN = 1e-3  # smallest reduction of the loss for which a member is added
MAX_WIDENED_MEMBERS = 4  # members of a streamed ensemble with added kernel widths: time against accuracy

# Samples that representations are fitted on: bounds time and memory (python benchmarks/automatic_seconds.py).
MAX_FIT_SETS, MAX_FIT_POINTS = 512, 2**21
MAX_FIT_STRINGS = 2**14  # frequent n-grams need more strings (tests/auto/test_sparse_ngrams.py)
MAX_BACKGROUND_SETS, MAX_BACKGROUND_POINTS = 16, 512  # stored in the model for explanations by dimension
N_COMPONENTS = (
    4096  # random features per member: accuracy against n D^2 operations (python benchmarks/defaults.py)
)
HELD_OUT_FRACTION = 0.1  # of streamed sets, on which members are weighted

# Budgets (tests/automatic/test_budgets.py, tests/automatic/test_final_fit.py).
SELECTION_FRACTION = 0.5  # of the time; the rest is for the final fit
N_KERNEL_MATRICES = 8  # n x n matrices in memory during a trial
N_GRAM_MATRICES = 16  # D x D matrices in memory per member, while two threads sum statistics
MIN_COMPONENTS, MIN_SELECTION_SETS = 16, 50
MIN_TRIMMED_COMPONENTS = 512  # members are dropped before they have fewer random features
N_STREAMED_ALPHAS = 5  # solutions per member: D^3 / 3 multiplications each
BENCHMARK_ROWS = 768  # of the matrix product that measures this machine
ROWS_PER_PRODUCT = 1024  # rows of a prediction that are multiplied with training rows at a time

# Representations (python benchmarks/defaults.py; tests/automatic/test_representations.py). Narrower densities are noise
# for a learner, wider ones are close to moments; nodes for one, two and three dimensions.
BANDWIDTHS = (0.03, 0.06, 0.12)
N_BASIS_BY_BANDWIDTH = {0.03: (40, 24), 0.06: (24, 14, 10), 0.12: (12, 10, 8)}
PAIR_BANDWIDTH = 0.12
MIN_PCA_DIMS = (
    8  # dimensions from which principal components are tried (tests/automatic/test_pairs_and_components.py)
)
MAX_COMPONENTS = 64
MAX_COVARIANCE_DIMS = 128  # rows with all products of dimensions grow with d^2
MAX_MEAN_SIZE = 128  # points per set up to which distances to other sets are cheap
MIN_SERIES_CORRELATION = 0.3  # serial correlation from which sets are treated as series
MAX_TREE_DIMS = 256  # summaries of a dimension give nine columns
MAX_REFERENCE_SETS, MAX_REFERENCE_STRINGS = 512, 1024  # sets and strings that distances are measured to

# Conformal scores: stored quantiles resolve 1e-4 of the coverage (tests/learners/test_prediction_intervals.py).
MAX_SCORES = 10_000
MAX_SCORING_STEPS = 50  # of Fisher scoring, which converges in about 10
VARIANCE_RTOL = 1e-9
MIN_VARIANCE_RATIO = 1e-6  # smallest variance of a residual in units of the mean squared residual

# Calibration of log losses by Newton's method (tests/automatic/test_evaluation_set.py).
MAX_NEWTON_STEPS, BETA_RTOL = 8, 1e-3
MAX_BETA = 100.0  # inverse temperature of perfectly separated classes

# Extremely randomised trees: noise of predictions against time. Out-of-bag predictions (56 trees) have a noise of about
# 0.1 standard deviations of the target (tests/auto/test_bagged_trees.py).
DEFAULT_N_TREES = 150
