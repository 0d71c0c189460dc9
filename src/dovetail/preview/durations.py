"""Durations in reports: their text, and round lengths to divide them."""

from typing import Final

_ROUND_MINUTES: Final = (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440, 2880)


def format_duration(seconds: float) -> str:
    """Format a time span: ``45s``, ``12m30s``, ``3h05m``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}h{minutes % 60:02d}m"


def find_round_part(seconds: float, most: int) -> float:
    """Return the shortest round time span of which at most ``most`` cover the whole.

    A whole of many days has none, and is divided evenly.
    """
    least = seconds / most
    return next((minutes * 60.0 for minutes in _ROUND_MINUTES if minutes * 60.0 >= least), least)
