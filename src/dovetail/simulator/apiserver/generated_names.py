"""Names and uids that the server makes up: unlike each other, the same in every run."""

from typing import Final
from zlib import crc32

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 5
_NAMES: Final = len(_ALPHABET) ** _LENGTH
# Coprime to the number of names, so that counting up visits every name once.
_STRIDE: Final = 8_675_309
_LONGEST_PREFIX: Final = 253 - _LENGTH


class Naming:
    """Counts per prefix, so that a name does not depend on what else was created."""

    def __init__(self) -> None:
        self._uids = 0
        self._counts: dict[str, int] = {}

    def uid(self) -> str:
        self._uids += 1
        return f"{self._uids:08x}-0000-4000-8000-{self._uids:012x}"

    def name(self, prefix: str) -> str:
        """Return ``prefix`` (a generateName) with five characters more."""
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        number = (crc32(prefix.encode()) + count * _STRIDE) % _NAMES
        suffix = ""
        for _ in range(_LENGTH):
            number, letter = divmod(number, len(_ALPHABET))
            suffix += _ALPHABET[letter]
        return prefix[:_LONGEST_PREFIX] + suffix
