"""What a process that computes should be: memory, BLAS threads, kind of processor, forks, warnings."""
