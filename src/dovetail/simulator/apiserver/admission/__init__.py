"""Defaulting, admission and validation of objects before they are stored."""
