"""Model files and feature stores."""
