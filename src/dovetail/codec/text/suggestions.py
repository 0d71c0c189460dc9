"""Wording: guesses at what a user meant, and counts of things."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Return the known word most like ``word``, upper and lower case being alike."""
    by_fold = {_fold(one): one for one in known}
    folded = _fold(word)
    if folded in by_fold:
        return by_fold[folded]
    found = get_close_matches(folded, by_fold, n=1, cutoff=likeness)
    return by_fold[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: a suggestion, or the words that are known."""
    choices = [str(one) for one in known]
    guess = nearest(word, choices, likeness=0.6)
    if guess is not None:
        return f"; did you mean {guess!r}?"
    return f"; known are {', '.join(choices)}" if len(choices) <= 10 else ""


def count_of(number: int, what: str) -> str:
    """Return "1 pod", "2 pods"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def some_of(names: Sequence[str], shown: int = 5) -> str:
    """Return the first few names, and how many there are besides."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def _fold(word: str) -> str:
    return word.replace("_", "").replace("-", "").replace(" ", "").lower()
