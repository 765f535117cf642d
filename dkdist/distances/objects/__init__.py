"""Random objects, which distances are measured to: drawn of the data or made up, chosen among the data, or given."""
