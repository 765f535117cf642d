"""Ways to see a set as a row, and kernels of such rows."""
