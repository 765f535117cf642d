"""The kernel distance of point sets, curves and surfaces, and what is tested and shown with it."""
