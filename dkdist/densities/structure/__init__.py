"""Which dimensions have a density together: all, each alone, or each alone beside some that depend on each other."""
