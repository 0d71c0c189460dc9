"""Parts of EC2 instance type names."""

import re

_SHAPE = re.compile(r"(?P<category>^[a-z]+)(-[0-9]+tb)?(?P<generation>[0-9]+).*\.")


def family_of(name: str) -> str:
    """Return the family: ``m5`` of ``m5.large``."""
    return name.partition(".")[0]


def size_of(name: str) -> str:
    """Return the size: ``large`` of ``m5.large``."""
    return name.partition(".")[2]


def category_and_generation(name: str) -> tuple[str, str] | None:
    """Return ("m", "5") for ``m5.large``; None for names of another form."""
    match = _SHAPE.match(name)
    return (match["category"], match["generation"]) if match else None


def previous_generation(family: str) -> str | None:
    """Return ``m8g`` of ``m9g``; None for a first generation and names of another form."""
    match = re.fullmatch(r"([a-z]+)([0-9]+)([a-z]*(?:-flex)?)", family)
    if match is None or int(match[2]) <= 1:
        return None
    return f"{match[1]}{int(match[2]) - 1}{match[3]}"


def is_flex(name: str) -> bool:
    """Return True for flex types, which deliver full CPU most of the time only."""
    return "-flex" in family_of(name)


def kebab(text: str) -> str:
    """Return ``text`` as a label value: lower case, dashes for spaces."""
    return text.lower().replace(" ", "-")
