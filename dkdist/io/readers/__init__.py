"""Readers of other file formats: tables, NumPy arrays, FCS, LAS and LAZ."""
