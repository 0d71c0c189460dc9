"""Field paths: how a place inside an object is written down."""

Path = tuple[str | int, ...]


def show(path: Path) -> str:
    """Write a path as users know it: ``spec.values[2]``, odd keys in brackets."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step or "/" in step or not step:
            text += f"[{step!r}]"
        else:
            text += f".{step}" if text else step
    return text
