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
