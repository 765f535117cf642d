"""Why: what each point of a set adds to a prediction."""
