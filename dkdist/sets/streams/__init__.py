"""Sets that come in pieces: rows are kept as they pass, and what they came in is forgotten."""
