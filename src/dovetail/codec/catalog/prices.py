"""Decoders of price files: CSV with ``#`` comments, of users and bundled."""

import csv
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from dovetail.errors import CatalogError, InvalidInputError, ValidationError
from dovetail.model.cloud.prices import PriceBook, PriceKey
from dovetail.model.frozen import FrozenDict

COLUMNS = ("instance_type", "region", "zone_id", "on_demand_usd_per_hour", "spot_usd_per_hour")
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]+")
_ZONE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-az[0-9]+|[a-z]{2,4}(-[a-z0-9]+)+-[0-9]+[a-z]")
_MAX_USD_PER_HOUR = 10_000.0
"""The most expensive instance types cost a few hundred USD per hour."""
_MAX_ERRORS = 25
"""A wrong column causes an error in every row."""


class _Row:
    """One row of the file; collects its errors."""

    def __init__(self, file: str, line: int, cells: dict[str, str]) -> None:
        self.line = line
        self.errors: list[ValidationError] = []
        self._file, self._cells = file, cells
        self.instance_type = self._matching("instance_type", _TYPE, "m5.large")
        self.region = self._matching("region", _REGION, "us-east-1")
        self.zone = self._matching("zone_id", _ZONE, "use1-az4")
        self.on_demand = self._price("on_demand_usd_per_hour")
        self.spot = self._price("spot_usd_per_hour")

    def add_error(self, field: str, message: str) -> None:
        self.errors.append(ValidationError(self._file, self.line, field, message))

    def _matching(self, field: str, pattern: re.Pattern[str], example: str) -> str:
        value = self._cells[field].strip()
        if not pattern.fullmatch(value):
            problem = f"{value!r} is invalid" if value else "missing"
            self.add_error(field, f"{problem}; write it as in {example}")
        return value

    def _price(self, field: str) -> float | None:
        text = self._cells[field].strip()
        if not text:
            return None
        try:
            price = float(text)
        except ValueError:
            self.add_error(field, f"{text!r} is not a number{_number_hint(text)}")
            return None
        if not 0 < price <= _MAX_USD_PER_HOUR:  # Also catches "nan" and "inf".
            self.add_error(field, f"{text!r} is not a price per hour; leave it empty if there is none")
        return price


class _PriceTable:
    """Prices decoded so far; a zone may occur twice, but not with two prices."""

    def __init__(self) -> None:
        self.on_demand: dict[PriceKey, float] = {}
        self.spot: dict[PriceKey, float] = {}
        self.rows: set[PriceKey] = set()
        self._lines: dict[tuple[str, PriceKey], int] = {}

    def add_row(self, row: _Row) -> None:
        key = (row.instance_type, row.zone)
        self.rows.add((row.instance_type, row.region))
        self._set("spot_usd_per_hour", self.spot, key, row.spot, row)
        self._set("on_demand_usd_per_hour", self.on_demand, key, row.on_demand, row)
        if row.on_demand is not None:
            # Local zones are more expensive: the lowest price is that of the region.
            region = (row.instance_type, row.region)
            self.on_demand[region] = min(self.on_demand.get(region, row.on_demand), row.on_demand)

    def _set(
        self, field: str, prices: dict[PriceKey, float], key: PriceKey, price: float | None, row: _Row
    ) -> None:
        if price is None:
            return
        first_line = self._lines.setdefault((field, key), row.line)
        if prices.setdefault(key, price) != price:
            row.add_error(field, f"{price} contradicts line {first_line}, which says {prices[key]}")


def read_prices(file: str, data: bytes, *, date: str = "") -> PriceBook:
    """Decode a price file; raises ``InvalidInputError`` with all errors.

    An empty price means that the zone does not offer that capacity type.
    ``zone_id`` can also be a zone name. Lines that begin with ``#`` are comments;
    ``# date: 2026-08-22`` sets the date of the prices, which is ``date`` otherwise.
    """
    lines = _split_lines(file, data)
    header, columns = _read_header(lines, file)
    errors: list[ValidationError] = []
    book = _PriceTable()
    for line, cells in _data_rows(lines, header):
        if len(cells) != len(columns):
            message = f"{len(cells)} fields where the header has {len(columns)}"
            errors.append(ValidationError(file, line, "", message))
            continue
        row = _Row(file, line, dict(zip(columns, cells, strict=True)))
        if not row.errors:
            book.add_row(row)
        errors.extend(row.errors)
    if not book.on_demand and not book.spot and not errors:
        errors.append(ValidationError(file, header, "", "no prices below the header"))
    if errors:
        raise InvalidInputError(_limit_errors(errors, file))
    return PriceBook(
        source=file,
        date=_comment_value(lines, "date") or date,
        on_demand_prices=FrozenDict(book.on_demand),
        spot_prices=FrozenDict(book.spot),
        rows=frozenset(book.rows),
    )


def _split_lines(file: str, data: bytes) -> list[str]:
    try:
        return [line.rstrip("\r") for line in data.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            [ValidationError(file, line, "", "not UTF-8 text; save it as CSV in UTF-8")]
        ) from None


def _read_header(lines: Sequence[str], file: str) -> tuple[int, list[str]]:
    """Return line number and column names of the header."""
    number, line = next(_content_lines(lines), (0, ""))
    if not number:
        raise InvalidInputError(
            [ValidationError(file, 0, "", f"is empty; the first line must be {','.join(COLUMNS)}")]
        )
    columns = [cell.strip() for cell in _split_cells(line)]
    missing = [column for column in COLUMNS if column not in columns]
    if missing:
        raise InvalidInputError([_missing_column(column, columns, file, number) for column in missing])
    return number, columns


def _missing_column(column: str, columns: list[str], file: str, line: int) -> ValidationError:
    unknown = [name for name in columns if name not in COLUMNS]
    close = get_close_matches(column, unknown, n=1)
    hint = f"; is {close[0]!r} meant?" if close else f"; the header must be {','.join(COLUMNS)}"
    return ValidationError(file, line, column, f"column missing{hint}")


def _data_rows(lines: Sequence[str], header: int) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row; a row never spans lines."""
    for number, line in _content_lines(lines):
        if number > header:
            yield number, _split_cells(line)


def _split_cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line])) if '"' in line else line.split(",")
    except csv.Error:  # A field above the size limit of the csv module.
        return [line]


def _content_lines(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def _comment_value(lines: Sequence[str], key: str) -> str:
    for line in lines:
        if not line.startswith("#"):
            return ""
        name, _, value = line[1:].partition(":")
        if name.strip().lower() == key:
            return value.strip()
    return ""


def _number_hint(text: str) -> str:
    number = text.strip("$ ").removesuffix("USD").strip().replace(",", ".")
    try:
        float(number)
    except ValueError:
        return "; write it as in 0.096"
    return f"; write {number}"


def _limit_errors(errors: list[ValidationError], file: str) -> list[ValidationError]:
    omitted = len(errors) - _MAX_ERRORS
    if omitted <= 0:
        return errors
    return [*errors[:_MAX_ERRORS], ValidationError(file, 0, "", f"and {omitted} more errors like these")]


def decode_table(text: str, *, columns: tuple[str, ...], file: str) -> dict[str, tuple[str, ...]]:
    """Decode a bundled price table: first column → other columns, in file order."""
    rows = csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
    header = tuple(next(rows, []))
    if header != columns:
        raise CatalogError(f"{file}: the header must be {','.join(columns)}")
    table: dict[str, tuple[str, ...]] = {}
    for row in rows:
        if len(row) != len(columns):
            raise CatalogError(f"{file}: {','.join(row)!r} has not {len(columns)} fields")
        table[row[0]] = tuple(row[1:])
    return table


def comment_value(text: str, key: str) -> str:
    """Return the value of a ``# key: value`` comment; empty if there is none."""
    for line in text.splitlines():
        name, _, value = line.removeprefix("#").partition(":")
        if line.startswith("#") and name.strip() == key:
            return value.strip()
    return ""
