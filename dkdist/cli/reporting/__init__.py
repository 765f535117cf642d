"""`dkdist report`: one HTML page of a model and a store, with all it shows inside."""
