"""Points as they were given, of which sums take tiles: no copy of them all."""
