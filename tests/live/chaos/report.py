"""Figures of a run, their limits, and the table that shows them."""

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec


class Figure(msgspec.Struct, kw_only=True):
    """Values that a run measured, and the most that each may be."""

    attack: str
    name: str
    values: list[float]
    unit: str = ""
    limit: float | None = None
    """None: reported only."""
    details: list[str] = []
    """The first things that were counted."""

    @property
    def is_held(self) -> bool:
        return self.limit is None or all(value <= self.limit for value in self.values)


class ChaosReport(msgspec.Struct, kw_only=True):
    """Result of a run."""

    seed: int
    minutes: float
    """Measured, with the end in which everything is deleted."""
    rounds: int
    slack: float
    """Factor of all time limits."""
    load_average: list[float]
    """Of the host, one minute, at the start and the end."""
    figures: list[Figure]

    @property
    def broken(self) -> list[Figure]:
        return [figure for figure in self.figures if not figure.is_held]

    def table(self) -> str:
        """Return the figures as a Markdown table."""
        rows = [("attack", "figure", "n", "median", "max", "limit", ""), ("---",) * 7]
        for figure in self.figures:
            values = figure.values
            rows.append(
                (
                    figure.attack,
                    f"{figure.name}, {figure.unit}" if figure.unit else figure.name,
                    str(len(values)),
                    _number(median(values)) if values else "–",
                    _number(max(values)) if values else "–",
                    "–" if figure.limit is None else _number(figure.limit),
                    "" if figure.limit is None else "ok" if figure.is_held else "BROKEN",
                )
            )
        return "\n".join(_aligned(rows))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (
            "-" * width if cell == "---" else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        yield f"| {' | '.join(cells)} |"
