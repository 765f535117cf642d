"""Linear learners on blocks of features: SGD, ridge regression, one-pass search."""
