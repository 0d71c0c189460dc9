"""Savings: the bill of a cluster and cheaper fleets, whatever launched its nodes."""
