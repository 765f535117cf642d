"""Features whose inner products are kernels: random Fourier features of rows, kernel means of sets."""
