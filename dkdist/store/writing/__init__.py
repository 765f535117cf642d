"""Writing a store: who may, arrays that grow, planned stores that many tasks write."""
