"""What may be off, and by how much: errors of kernels, bounds, numbers of features."""
