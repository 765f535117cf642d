"""Rigid alignment of point sets by the kernel distance."""
