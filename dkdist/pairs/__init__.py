"""All pairs of sets: matrices of divergences and distances, what kernels need of them, nearest sets."""
