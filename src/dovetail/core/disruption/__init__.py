"""Which nodes may be taken away, and when."""
