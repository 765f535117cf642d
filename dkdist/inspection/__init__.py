"""Explanations of predictions by points, dimensions and places."""
