"""Densities as cosine series: coefficients of points, smoothing, and values at the nodes of a rule."""
