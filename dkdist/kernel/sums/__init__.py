"""Sums of a kernel over all pairs of points: exactly, by Fourier series, meshes, trees and Taylor series."""
