"""Patches: merge, JSON and strategic merge patch, server-side apply, managed fields."""
