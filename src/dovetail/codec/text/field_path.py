"""Paths of fields inside an object."""

FieldPath = tuple[str | int, ...]


def format_path(path: FieldPath) -> str:
    """Format a path: ``spec.values[2]``; keys with dots or slashes in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step or "/" in step or not step:
            text += f"[{step!r}]"
        else:
            text += f".{step}" if text else step
    return text
