"""What commands say and write: lines or one JSON document, and tables of predictions."""
