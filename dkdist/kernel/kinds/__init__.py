"""Kinds of kernels: what is known of each beside its values, and the sums that this makes fast."""
