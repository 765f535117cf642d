"""Coresets: few weighted points whose kernel distance to many is small."""
