"""Dumps: the objects of a cluster without secrets, and without names if wanted."""
