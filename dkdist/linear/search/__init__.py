"""`OnePassSearch`: many candidates learned from the same pass over the data."""
