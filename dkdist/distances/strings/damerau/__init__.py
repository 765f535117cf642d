"""The edit distance where neighbours may be swapped and edited again, a metric: in lanes."""
