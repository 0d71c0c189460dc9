"""Adapters to the operating system: clock, event loop, threads, randomness, log."""
