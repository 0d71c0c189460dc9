"""How much a cluster could save, whatever launched its nodes; it is only read."""
