"""Validation of label keys and values, with suggestions for common mistakes.

The checks apply to strict decoding only. An object of a live cluster may follow
the rules of a newer API and is not checked.
"""

import re

from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest_match
from dovetail.model import labels as keys

NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
"""Name part of a label key, and a non-empty value: at most 63 characters."""
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ZONE_ID = re.compile(r"[a-z]{2,5}[0-9]-az[0-9]+")
_ARCHITECTURES = {
    "x86_64": "amd64",
    "x86-64": "amd64",
    "x64": "amd64",
    "x86": "amd64",
    "intel": "amd64",
    "aarch64": "arm64",
    "arm": "arm64",
    "graviton": "arm64",
    "armv8": "arm64",
}
_OTHER_ARCHITECTURES = ("386", "loong64", "mips64le", "ppc64le", "riscv64", "s390x")
"""Architectures of Kubernetes that EC2 does not have; charts for all clusters list them."""
CLOSED_LABELS = {
    keys.CAPACITY_TYPE: keys.CAPACITY_TYPES,
    f"{keys.AWS_DOMAIN}/instance-tenancy": ("default", "dedicated"),
}
"""Labels with a closed set of values: a NodePool must name at least one of them."""
_OS_GUESSES = {"bottlerocket": "linux", "ubuntu": "linux", "win": "windows"}


def check_key(field: Field, key: str) -> bool:
    """Add an error if ``key`` is not a valid label key."""
    if not field.context.strict:
        return True
    domain, slash, name = key.rpartition("/")
    good_name = NAME.fullmatch(name)
    good_domain = not slash or (len(domain) <= 253 and DOMAIN.fullmatch(domain))
    if good_name and good_domain:
        return True
    field.add_error(f"{key[:80]!r} is not a label key; write it as in 'team' or 'example.com/team'")
    return False


def check_value(field: Field, value: str) -> bool:
    """Add an error if ``value`` is not a valid label value."""
    if not field.context.strict:
        return True
    if value == "" or NAME.fullmatch(value):
        return True
    field.add_error(
        f"{value[:80]!r} is not a label value: at most 63 letters, digits, '-', '_', '.', "
        "starting and ending with a letter or digit"
    )
    return False


def check_well_known_value(field: Field, key: str, value: str) -> bool:
    """Add an error, or a note in a pod, if a well-known label cannot have this value.

    The API server accepts any value in the selectors of a pod.
    """
    context = field.context
    guessing = context.strict and not context.api_rules_only
    problem = _value_error(keys.normalize_key(key), value) if guessing else None
    if problem is not None and context.typos_are_notes:
        if value not in _OTHER_ARCHITECTURES:
            context.add_note(field.path, problem)
        return True
    if problem is not None:
        field.add_error(problem)
        return False
    return True


def note_old_label(field: Field, key: str) -> None:
    """Add a note if a pod selects a label that Karpenter has removed or renamed."""
    context = field.context
    if not (context.strict and context.typos_are_notes) or context.api_rules_only:
        return
    if key in keys.REMOVED_LABELS:
        context.add_note(field.path, f"{key!r} {keys.REMOVED_LABELS[key]}")
    elif key in keys.RENAMED_LABELS:
        context.add_note(field.path, f"{key!r} was renamed in v1beta1; use {keys.RENAMED_LABELS[key]!r}")


def check_any_known_value(field: Field, key: str) -> None:
    """Add an error if no value is in the closed set of the label."""
    allowed = CLOSED_LABELS.get(keys.normalize_key(key))
    context = field.context
    checked_individually = allowed is keys.CAPACITY_TYPES and not context.api_rules_only
    if allowed is None or checked_individually or not context.strict:
        return
    values = [item for item in field.items() if isinstance(item.value, str)]
    if values and not any(value.value in allowed for value in values):
        given = ", ".join(value.value for value in values)
        field.add_error(f"none of {given} is a value of {key}; known are {', '.join(allowed)}")


def _value_error(key: str, value: str) -> str | None:
    if key == keys.CAPACITY_TYPE and value not in keys.CAPACITY_TYPES:
        architecture = _architecture_of(value)
        if architecture is not None:
            hint = f"did you mean '{keys.ARCH}: {architecture}'?"
            return f"{value!r} is an architecture, not a capacity type; {hint}"
        guess = nearest_match(value, keys.CAPACITY_TYPES, cutoff=0.6)
        return f"{value!r} is not a capacity type{_suggestion(guess, keys.CAPACITY_TYPES)}"
    if key == keys.ARCH and value not in ("amd64", "arm64"):
        guess = _architecture_of(value) or nearest_match(value, ("amd64", "arm64"))
        capacity_type = None if guess else nearest_match(value, keys.CAPACITY_TYPES, cutoff=0.9)
        if capacity_type is not None:
            hint = f"did you mean '{keys.CAPACITY_TYPE}: {capacity_type}'?"
            return f"{value!r} is a capacity type, not an architecture; {hint}"
        return f"{value!r} is not an architecture{_suggestion(guess, ('amd64', 'arm64'))}"
    if key == keys.OS and value not in ("linux", "windows"):
        guess = _OS_GUESSES.get(value.lower()) or nearest_match(value, ("linux", "windows"))
        return f"{value!r} is not an operating system{_suggestion(guess, ('linux', 'windows'))}"
    if key == keys.ZONE and _ZONE_ID.fullmatch(value):
        return f"{value!r} is a zone ID, not a zone name; use {keys.ZONE_ID!r} for it"
    return None


def _architecture_of(value: str) -> str | None:
    """Return the architecture that a word other than its name stands for."""
    word = value.lower()
    return word if word in ("amd64", "arm64") else _ARCHITECTURES.get(word)


def _suggestion(guess: str | None, known: tuple[str, ...]) -> str:
    return f"; did you mean {guess!r}?" if guess else f"; known are {', '.join(known)}"


def check_allowed_in_nodepool(field: Field, key: str, *, claim: bool = False) -> bool:
    """Add an error if NodePools (or NodeClaims) may not use this label."""
    if not field.context.strict:
        return True
    stable = keys.normalize_key(key)
    if stable == keys.NODEPOOL and not claim:
        field.add_error(f"{key!r} is set by the NodePool itself; remove it")
        return False
    if stable == keys.HOSTNAME:
        field.add_error(f"{key!r} is unknown before the node exists; remove it")
        return False
    domain = stable.rpartition("/")[0]
    if stable in keys.WELL_KNOWN or not (keys.is_restricted(stable) or domain == keys.AWS_DOMAIN):
        return True
    if stable in keys.REMOVED_LABELS:
        field.add_error(f"{key!r} {keys.REMOVED_LABELS[stable]}")
        return False
    guess = nearest_match(stable, sorted(keys.WELL_KNOWN), cutoff=0.85)
    hint = f"; did you mean {guess!r}?" if guess else ""
    field.add_error(f"{key!r} is not a label of {domain}{hint}")
    return False
