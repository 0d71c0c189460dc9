"""Rules for labels, and guesses at the values that people misremember.

They hold for files written by hand. What a live cluster has taken may follow
the rules of a newer API than ours, and is let pass.
"""

import re

from dovetail.codec.fields import Field
from dovetail.codec.text.suggestions import nearest
from dovetail.model import labels as keys

NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
"""The name in a label's key, and a value that is not empty: at most 63 characters."""
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
CLOSED = {
    keys.CAPACITY_TYPE: keys.CAPACITY_TYPES,
    f"{keys.AWS_DOMAIN}/instance-tenancy": ("default", "dedicated"),
}
"""Labels of which a pool must name at least one value that there is."""
_OS_GUESSES = {"bottlerocket": "linux", "ubuntu": "linux", "win": "windows"}


def check_key(field: Field, key: str) -> bool:
    """Note a mistake when ``key`` cannot be the key of a label."""
    if not field.findings.written_by_hand:
        return True
    domain, slash, name = key.rpartition("/")
    good_name = NAME.fullmatch(name)
    good_domain = not slash or (len(domain) <= 253 and DOMAIN.fullmatch(domain))
    if good_name and good_domain:
        return True
    field.mistake(f"{key[:80]!r} is no label key; write it as in 'team' or 'example.com/team'")
    return False


def check_value(field: Field, value: str) -> bool:
    """Note a mistake when ``value`` cannot be the value of a label."""
    if not field.findings.written_by_hand:
        return True
    if value == "" or NAME.fullmatch(value):
        return True
    field.mistake(
        f"{value[:80]!r} is no label value: at most 63 letters, digits, '-', '_', '.', "
        "starting and ending with a letter or digit"
    )
    return False


def check_meaning(field: Field, key: str, value: str) -> bool:
    """Note a mistake when a well-known label cannot have this value."""
    guessing = field.findings.written_by_hand and not field.findings.by_the_letter
    problem = _problem(keys.stable_key(key), value) if guessing else None
    if problem is not None:
        field.mistake(problem)
        return False
    return True


def check_any_known(field: Field, key: str) -> None:
    """Note a mistake when no value is one that this well-known label has."""
    known = CLOSED.get(keys.stable_key(key))
    findings = field.findings
    told_one_by_one = known is keys.CAPACITY_TYPES and not findings.by_the_letter
    if known is None or told_one_by_one or not findings.written_by_hand:
        return
    values = [one for one in field.items() if isinstance(one.value, str)]
    if values and not any(one.value in known for one in values):
        given = ", ".join(one.value for one in values)
        field.mistake(f"none of {given} is known to {key}; known are {', '.join(known)}")


def _problem(key: str, value: str) -> str | None:
    if key == keys.CAPACITY_TYPE and value not in keys.CAPACITY_TYPES:
        guess = nearest(value, keys.CAPACITY_TYPES, likeness=0.6)
        return f"{value!r} is no capacity type{_or_known(guess, keys.CAPACITY_TYPES)}"
    if key == keys.ARCH and value not in ("amd64", "arm64"):
        guess = _ARCHITECTURES.get(value.lower()) or nearest(value, ("amd64", "arm64"))
        return f"{value!r} is no architecture{_or_known(guess, ('amd64', 'arm64'))}"
    if key == keys.OS and value not in ("linux", "windows"):
        guess = _OS_GUESSES.get(value.lower()) or nearest(value, ("linux", "windows"))
        return f"{value!r} is no operating system{_or_known(guess, ('linux', 'windows'))}"
    if key == keys.ZONE and _ZONE_ID.fullmatch(value):
        return f"{value!r} is the id of a zone, not its name; ask for it with {keys.ZONE_ID!r}"
    return None


def _or_known(guess: str | None, known: tuple[str, ...]) -> str:
    return f"; did you mean {guess!r}?" if guess else f"; known are {', '.join(known)}"


def check_allowed_in_pool(field: Field, key: str, *, claim: bool = False) -> bool:
    """Note a mistake when NodePools (or claims) may not ask for this label."""
    if not field.findings.written_by_hand:
        return True
    stable = keys.stable_key(key)
    if stable == keys.NODEPOOL and not claim:
        field.mistake(f"{key!r} is set by the pool itself; leave it out")
        return False
    if stable == keys.HOSTNAME:
        field.mistake(f"{key!r} is not known before a node is there; leave it out")
        return False
    domain = stable.rpartition("/")[0]
    if stable in keys.WELL_KNOWN or not (keys.is_restricted(stable) or domain == keys.AWS_DOMAIN):
        return True
    guess = nearest(stable, sorted(keys.WELL_KNOWN), likeness=0.85)
    hint = f"; did you mean {guess!r}?" if guess else ""
    field.mistake(f"{key!r} is no label that {domain} defines{hint}")
    return False
