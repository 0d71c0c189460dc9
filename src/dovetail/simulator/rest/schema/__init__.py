"""Fields and types of all kinds, and the decoding of objects by them."""
