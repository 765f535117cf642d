"""What all compiled loops share: how they are compiled, elementary functions, products, neighbours."""
