"""Models that need no choice: what may be tried on a collection of sets, tried, and the best of it averaged."""
