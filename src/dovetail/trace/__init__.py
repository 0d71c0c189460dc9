"""Traces: the demand on a cluster over time, in one file."""
