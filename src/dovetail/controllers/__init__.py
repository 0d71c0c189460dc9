"""Reconcilers: look at the picture, decide in the core, act through the ports, tell."""
