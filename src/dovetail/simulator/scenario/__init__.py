"""Scenarios: a cluster, what happens to it, and how far each phase must come."""
