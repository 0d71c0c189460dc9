"""``dovetail trace``."""
