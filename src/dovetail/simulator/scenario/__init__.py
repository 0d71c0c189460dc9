"""Scenarios: a cluster, actions on it, and the goal of each phase."""
