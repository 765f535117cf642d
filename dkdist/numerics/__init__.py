"""Arrays in, arrays out: one file for each idea, formulas in the symbols of the papers."""
