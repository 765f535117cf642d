"""Parts of the automatic models that work on arrays of rows and targets."""
