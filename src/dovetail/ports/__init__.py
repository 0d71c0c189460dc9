"""What the controllers need of the outside, as protocols; each has a real and a simulated twin."""
