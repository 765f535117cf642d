"""Pictures of data: one set or several, a collection, distances, where two sets differ, which points matter."""
