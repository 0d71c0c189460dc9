"""The composition of a real process: adapters, controllers, and how they start and stop."""
