"""Sets to sets in other units: by the pooled points of all, or each set by its own; and columns beside the points."""
