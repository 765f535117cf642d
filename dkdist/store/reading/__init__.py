"""Reading a committed store: its arrays, rows and targets, and whether all of it is sound."""
