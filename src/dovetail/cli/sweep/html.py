"""A sweep as one HTML file: cost against evictions, with the Pareto front."""

from collections.abc import Sequence
from html import escape
from typing import Final

from dovetail.cli.output.html_page import format_page, format_section
from dovetail.cli.output.sections import Section, format_usd
from dovetail.codec.text.suggestions import pluralize
from dovetail.replay.sweep.choice import SweptPoint
from dovetail.replay.sweep.report import Sweep

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 420, 70, 20, 16, 44
_CENT: Final = 0.01
_STEPS: Final = 4
"""Labels of an axis, without the first."""


def format_html(sweep: Sweep, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    legend = (
        '<p class="dim">Line: Pareto front. Ring: the current settings. Large point: the chosen ones. '
        "Point at a dot to see its settings.</p>"
    )
    return format_page("Sweep of a trace", _draw(sweep), legend, *map(format_section, sections))


class _Scale:
    """Maps values to pixels, with some room at both ends."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        low, high = min(values), max(values)
        room = (high - low) * 0.06 or abs(high) * 0.06 or 1.0
        self.low, self.high = max(0.0, low - room), high + room
        self._first, self._last = first, last

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._first + (self._last - self._first) * share

    def labels(self) -> list[float]:
        return [self.low + (self.high - self.low) * step / _STEPS for step in range(_STEPS + 1)]


def _draw(sweep: Sweep) -> str:
    outcomes = [point.outcome for point in sweep.points]
    x = _Scale([outcome.evictions for outcome in outcomes], _LEFT, _WIDTH - _RIGHT)
    y = _Scale([outcome.cost for outcome in outcomes], _HEIGHT - _BOTTOM, _TOP)
    front = "L".join(
        f"{x.place(point.outcome.evictions):.1f} {y.place(point.outcome.cost):.1f}" for point in sweep.front
    )
    # The front and what is chosen are drawn last: above all other points.
    dots = "".join(
        _dot(point, sweep, x, y) for point in sorted(sweep.points, key=lambda point: point.on_front)
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Cost against evictions">'
        f"{_axes(x, y)}"
        f'<path class="with" d="M{front}"/>{dots}</svg>'
    )


def _axes(x: _Scale, y: _Scale) -> str:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [
        f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>',
        f'<line class="axis" x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{bottom}"/>',
        f'<text x="{right}" y="{_HEIGHT - 6}" text-anchor="end">evictions</text>',
        f'<text x="{_LEFT + 6}" y="{_TOP + 6}">USD</text>',
    ]
    # Evictions are whole numbers: a short axis has fewer labels.
    parts += [
        f'<text x="{x.place(value):.1f}" y="{bottom + 16}" text-anchor="middle">{value:,}</text>'
        for value in sorted({round(value) for value in x.labels()})
        if x.low <= value <= x.high
    ]
    decimals = 2 if y.high - y.low >= _STEPS * _CENT else 4
    parts += [
        f'<text x="{_LEFT - 6}" y="{y.place(value) + 4:.1f}" text-anchor="end">{value:,.{decimals}f}</text>'
        for value in y.labels()
    ]
    return "".join(parts)


def _dot(point: SweptPoint, sweep: Sweep, x: _Scale, y: _Scale) -> str:
    outcome = point.outcome
    is_chosen = sweep.chosen is not None and point.values == sweep.chosen.values
    colour = "var(--with)" if point.on_front else "var(--without)"
    at = f'cx="{x.place(outcome.evictions):.1f}" cy="{y.place(outcome.cost):.1f}"'
    evictions = pluralize(outcome.evictions, "eviction")
    title = f"<title>{escape(point.name)}: {format_usd(outcome.cost)}, {evictions}</title>"
    dot = f'<circle {at} r="{7 if is_chosen else 4}" fill="{colour}">{title}</circle>'
    if not point.values:
        dot += f'<circle {at} r="10" fill="none" stroke="var(--bad)" stroke-width="2">{title}</circle>'
    return dot
