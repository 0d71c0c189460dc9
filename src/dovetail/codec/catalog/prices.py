"""Price books of the user's own, in CSV."""

import csv
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from dovetail.errors import BadInput, Mistake
from dovetail.model.cloud.prices import Place, PriceBook
from dovetail.model.frozen import FrozenDict

COLUMNS = (
    "instance_type",
    "region",
    "zone_id",
    "on_demand_usd_per_hour",
    "spot_usd_per_hour",
)
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_ZONE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-az[0-9]+|[a-z]{2,4}(-[a-z0-9]+)+-[0-9]+[a-z]")
_MOST_EXPENSIVE = 10_000.0
"""USD per hour; the largest machines cost a few hundred."""
_SHOWN = 25
"""Mistakes reported at most; a wrong column would otherwise fill the screen."""


class _Row:
    """One line of the file, read field by field; collects what is wrong with it."""

    def __init__(self, file: str, line: int, cells: dict[str, str]) -> None:
        self.line = line
        self.mistakes: list[Mistake] = []
        self._file, self._cells = file, cells
        self.machine = self._matching("instance_type", _TYPE, "m5.large")
        self.region = self._matching("region", _REGION, "us-east-1")
        self.zone = self._matching("zone_id", _ZONE, "use1-az4")
        self.on_demand = self._price("on_demand_usd_per_hour")
        self.spot = self._price("spot_usd_per_hour")

    def blame(self, field: str, message: str) -> None:
        self.mistakes.append(Mistake(self._file, self.line, field, message))

    def _matching(self, field: str, pattern: re.Pattern[str], example: str) -> str:
        value = self._cells[field].strip()
        if not pattern.fullmatch(value):
            said = f"{value!r} is none" if value else "missing"
            self.blame(field, f"{said}; write it as in {example}")
        return value

    def _price(self, field: str) -> float | None:
        text = self._cells[field].strip()
        if not text:
            return None
        try:
            price = float(text)
        except ValueError:
            self.blame(field, f"{text!r} is no number{_number_hint(text)}")
            return None
        if not 0 < price <= _MOST_EXPENSIVE:  # Also catches "nan" and "inf".
            self.blame(field, f"{text!r} is no price per hour; leave it empty if there is none")
        return price


class _Book:
    """The prices read so far; a place may be named twice, but not at two prices."""

    def __init__(self) -> None:
        self.on_demand: dict[Place, float] = {}
        self.spot: dict[Place, float] = {}
        self._lines: dict[tuple[str, Place], int] = {}

    def enter(self, row: _Row) -> None:
        place = (row.machine, row.zone)
        self._set("spot_usd_per_hour", self.spot, place, row.spot, row)
        self._set("on_demand_usd_per_hour", self.on_demand, place, row.on_demand, row)
        if row.on_demand is not None:
            # Local zones are dearer; the region's price is that of its own zones.
            region = (row.machine, row.region)
            self.on_demand[region] = min(self.on_demand.get(region, row.on_demand), row.on_demand)

    def _set(
        self,
        field: str,
        prices: dict[Place, float],
        place: Place,
        price: float | None,
        row: _Row,
    ) -> None:
        if price is None:
            return
        earlier = self._lines.setdefault((field, place), row.line)
        if prices.setdefault(place, price) != price:
            row.blame(field, f"{price} contradicts line {earlier}, which says {prices[place]}")


def read_prices(file: str, data: bytes, *, date: str = "") -> PriceBook:
    """Read a price book; raises ``BadInput`` with every mistake in it.

    Empty prices mean that the type is not sold that way there. ``zone_id`` may
    be a zone's name as well. Lines that begin with ``#`` are comments; one
    that reads ``# date: 2026-08-22`` dates the book, else ``date`` does.
    """
    lines = _lines(file, data)
    header, columns = _header(lines, file)
    mistakes: list[Mistake] = []
    book = _Book()
    for line, cells in _records(lines, header):
        if len(cells) != len(columns):
            found = f"{len(cells)} fields where the header has {len(columns)}"
            mistakes.append(Mistake(file, line, "", found))
            continue
        row = _Row(file, line, dict(zip(columns, cells, strict=True)))
        if not row.mistakes:
            book.enter(row)
        mistakes.extend(row.mistakes)
    if not book.on_demand and not book.spot and not mistakes:
        mistakes.append(Mistake(file, header, "", "no prices below the header"))
    if mistakes:
        raise BadInput(_capped(mistakes, file))
    return PriceBook(
        source=file,
        date=_comment(lines, "date") or date,
        on_demand_at=FrozenDict(book.on_demand),
        spot_at=FrozenDict(book.spot),
    )


def _lines(file: str, data: bytes) -> list[str]:
    try:
        return [line.rstrip("\r") for line in data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(
            [Mistake(file, line, "", "not UTF-8 text; save it as CSV in UTF-8")]
        ) from None


def _header(lines: Sequence[str], file: str) -> tuple[int, list[str]]:
    """Return the header's line number and its column names."""
    number, line = next(_meaningful(lines), (0, ""))
    if not number:
        raise BadInput([Mistake(file, 0, "", f"empty; the first line must be {','.join(COLUMNS)}")])
    columns = [cell.strip() for cell in _cells(line)]
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise BadInput([_missing_column(column, columns, file, number) for column in missing])
    return number, columns


def _missing_column(column: str, columns: list[str], file: str, line: int) -> Mistake:
    unknown = [one for one in columns if one not in COLUMNS]
    close = get_close_matches(column, unknown, n=1)
    hint = f"; is {close[0]!r} meant?" if close else f"; the header must be {','.join(COLUMNS)}"
    return Mistake(file, line, column, f"column missing{hint}")


def _records(lines: Sequence[str], header: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with its line number; records never span lines here."""
    for number, line in _meaningful(lines):
        if number > header:
            yield number, _cells(line)


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line])) if '"' in line else line.split(",")
    except csv.Error:  # A field beyond the module's limit: no price book has one.
        return [line]


def _meaningful(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def _comment(lines: Sequence[str], key: str) -> str:
    for line in lines:
        if not line.startswith("#"):
            return ""
        name, _, value = line[1:].partition(":")
        if name.strip().lower() == key:
            return value.strip()
    return ""


def _number_hint(text: str) -> str:
    bare = text.strip("$ ").removesuffix("USD").strip().replace(",", ".")
    try:
        float(bare)
    except ValueError:
        return "; write it as in 0.096"
    return f"; write {bare}"


def _capped(mistakes: list[Mistake], file: str) -> list[Mistake]:
    more = len(mistakes) - _SHOWN
    if more <= 0:
        return mistakes
    return [*mistakes[:_SHOWN], Mistake(file, 0, "", f"and {more} more mistakes like these")]
