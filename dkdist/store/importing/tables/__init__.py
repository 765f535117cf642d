"""Long tables, one point a row: what is in them, who is in them, and where each row goes."""
