"""Wording of messages: suggestions for misspelled words, counts and lists of names."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest_match(word: str, choices: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the choice most similar to ``word``, ignoring case and separators.

    Of similar choices, one with the same letters is preferred: the word has two swapped.
    """
    by_normalized = {_normalize(choice): choice for choice in choices}
    normalized = _normalize(word)
    if normalized in by_normalized:
        return by_normalized[normalized]
    matches = get_close_matches(normalized, by_normalized, n=3, cutoff=cutoff)
    if not matches:
        return None
    swapped = (match for match in matches if sorted(match) == sorted(normalized))
    return by_normalized[next(swapped, matches[0])]


def suggest(word: str, choices: Iterable[str]) -> str:
    """Return the end of an error message: the nearest choice, or the list of choices."""
    known = [str(choice) for choice in choices]
    match = nearest_match(word, known, cutoff=0.6)
    if match is not None:
        return f"; did you mean {match!r}?"
    return f"; known are {', '.join(known)}" if len(known) <= 10 else ""


def pluralize(number: int, noun: str) -> str:
    """Return "1 pod", "2 pods"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def join_first(names: Sequence[str], limit: int = 5) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _normalize(word: str) -> str:
    return word.replace("_", "").replace("-", "").replace(" ", "").lower()
