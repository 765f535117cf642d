"""Ridge regression over blocks: what is asked for, one pass, and what is found."""
