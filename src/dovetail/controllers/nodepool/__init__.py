"""What NodePools say of themselves: hash, readiness, validity, usage, health."""
