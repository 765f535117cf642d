"""Chunks and their places: checksums, the table of a commit, and the tails of appends."""
