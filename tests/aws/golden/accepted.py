"""Reads the accepted differences from the table in docs/behaviours/aws-requests.md."""

import re
from pathlib import Path

from tests.aws.golden.compare import ABSENT, AcceptedDifference

PAGE = Path(__file__).parents[3] / "docs" / "behaviours" / "aws-requests.md"
_PATTERN = re.compile(r"`([^`]*)`")
_COLUMNS = ("Id", "Where", "Karpenter", "Dovetail", "Reason", "Cases")


def read_accepted(page: str) -> list[AcceptedDifference]:
    """Return the rows of the table; raise ``ValueError`` for one that cannot be read."""
    rows = [line for line in page.splitlines() if line.startswith("|")]
    header, _, *body = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    if tuple(header) != _COLUMNS:
        raise ValueError(f"the columns are {header}, not {list(_COLUMNS)}")
    accepted = [_read_row(cells) for cells in body]
    ids = [row.id for row in accepted]
    if len(set(ids)) < len(ids):
        raise ValueError(f"an id is not unique: {sorted(ids)}")
    return accepted


def _read_row(cells: list[str]) -> AcceptedDifference:
    if len(cells) != len(_COLUMNS) or not all(cells):
        raise ValueError(f"row {cells} needs {len(_COLUMNS)} cells that are not empty")
    name, where, karpenter, dovetail, _, cases = cells
    return AcceptedDifference(
        id=name.strip("`"),
        where=_patterns(name, where),
        karpenter=_patterns(name, karpenter),
        dovetail=_patterns(name, dovetail),
        cases=("*",) if cases == "all" else _patterns(name, cases),
    )


def _patterns(row: str, cell: str) -> tuple[str, ...]:
    patterns = tuple(_PATTERN.findall(cell)) or ((ABSENT,) if cell == ABSENT else ())
    if not patterns:
        raise ValueError(f"row {row}: {cell!r} is neither {ABSENT} nor has a pattern in backticks")
    return patterns
