"""Linear learners in the manner of scikit-learn: ridge, stochastic gradient descent, search."""
