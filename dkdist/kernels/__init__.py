"""Kernels, their sums over all pairs of points, the kernel distance (MMD), and random Fourier features."""
