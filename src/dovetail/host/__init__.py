"""The machine we run on, behind as little code as possible."""
