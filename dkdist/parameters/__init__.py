"""What embeddings are made of: specifications in plain numbers, and the tables drawn from them."""
