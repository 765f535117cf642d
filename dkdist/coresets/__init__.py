"""Coresets: small weighted subsets with a small kernel distance to a point set."""
