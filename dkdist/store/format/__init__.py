"""The format "dkdist.sets": which arrays there are, how they are cut and coded, and the commit record."""
