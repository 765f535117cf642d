"""Coresets: few points that stand for many, by the kernel distance between them."""
