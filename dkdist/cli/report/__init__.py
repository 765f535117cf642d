"""Report of a model on a store, as one HTML page."""
