"""How long ago something was, as kubectl writes it."""

from datetime import datetime, timedelta

UNKNOWN = "<unknown>"


def age(since: object, now: datetime) -> str:
    """Return the time from a timestamp of the wire format until now."""
    if not isinstance(since, str):
        return UNKNOWN
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        return UNKNOWN
    return UNKNOWN if moment.tzinfo is None else span(now - moment)


def span(length: timedelta) -> str:
    """Write a length of time in at most two units, the coarser the longer it is."""
    seconds = int(length.total_seconds())
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 2:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _in_days(days, hours)


def _in_days(days: int, hours: int) -> str:
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"
