"""Memory that loops work in, kept between them."""
