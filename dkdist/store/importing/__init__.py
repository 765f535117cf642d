"""Sources that stores are imported from: NumPy files, tables, functions."""
