"""The Gaussian kernel between points: its sums, random features, distances of sets (P3), coresets and alignment."""
