"""Whether two samples are of one distribution: tests by permutations, their power, and many of them at once."""
