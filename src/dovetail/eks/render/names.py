"""Names for resources inside a rendering, made from their addresses."""

import re


def camel(address: str) -> str:
    """Return letters and digits only, each word with a capital: for CloudFormation."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^0-9A-Za-z]+", address))


def snake(name: str) -> str:
    """Return letters, digits and underscores, not beginning with a digit: for Terraform."""
    text = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
    return text if text[:1].isalpha() else f"r_{text}"
