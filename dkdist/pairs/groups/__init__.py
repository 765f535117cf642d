"""Groups of sets: whether they come from one distribution over sets."""
