"""Reports as one HTML file: no scripts, no network, light and dark."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from dovetail import __version__
from dovetail.cli.output.sections import Section
from dovetail.preview.durations import find_round_part, format_duration

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 860, 150, 64, 8, 22
"""Of a chart, in pixels, with the room for its labels."""
_MAX_POINTS: Final = 1500
_MAX_PARTS: Final = 8
"""Parts of the time axis between labels."""
_HALF_LABEL: Final = 24
"""Room for half of a label, in pixels: labels nearer to the end would be cut off."""
_STYLE: Final = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #656d76; --line: #d0d7de;
  --with: #0969da; --without: #8c959f; --wave: #0969da18; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #e6edf3; --dim: #8d96a0;
  --line: #30363d; --with: #4493f8; --without: #6e7681; --wave: #4493f822; --bad: #f85149; } }
body { background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
ul { padding-left: 1.2rem; margin: .3rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 500; font-size: .85em; }
th.text, td.text { text-align: left; }
.bad { color: var(--bad); } .dim { color: var(--dim); font-size: .85em; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font-size: 11px; }
.axis { stroke: var(--line); } .with { stroke: var(--with); } .without { stroke: var(--without);
  stroke-dasharray: 4 3; } .with, .without { fill: none; stroke-width: 1.8; } .wave { fill: var(--wave); }
"""


Points = Sequence[tuple[float, float]]
"""Seconds and value; each value holds until the next."""


def format_page(title: str, *parts: str) -> str:
    """Return a whole page."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n"
        f'<p class="dim">dovetail {escape(__version__)}</p>\n</body></html>'
    )


def format_section(section: Section) -> str:
    """Return a section as HTML."""
    style = ' class="bad"' if section.is_bad else ""
    parts = [f"<h2{style}>{escape(section.title)}</h2>"]
    if section.lines:
        parts.append("<ul>" + "".join(f"<li>{escape(line)}</li>" for line in section.lines) + "</ul>")
    if section.rows:
        parts.append(_format_rows(section))
    parts += [f'<p class="dim">{escape(line)}</p>' for line in section.footer]
    return "\n".join(parts)


def _format_rows(section: Section) -> str:
    count = len(section.header)

    def cell(tag: str, at: int, text: str) -> str:
        is_text = at < section.left or (section.last_left and at == count - 1)
        style = ' class="text"' if is_text else ""
        return f"<{tag}{style}>{escape(text)}</{tag}>"

    def line(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(cell(tag, at, text) for at, text in enumerate(cells)) + "</tr>"

    head = line("th", [name.capitalize() for name in section.header])
    body = "".join(line("td", row) for row in section.rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'


def draw_steps(
    title: str,
    lines: Sequence[tuple[str, Points]],
    *,
    end: float,
    form: str,
    draw_bands: Callable[[Callable[[float], float]], str] = lambda _: "",
) -> str:
    """Draw lines as steps over time, each with its CSS class.

    ``draw_bands`` draws behind them; its argument maps seconds to pixels.
    """
    top = max((value for _, points in lines for _, value in points), default=0.0) or 1.0

    def x(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT) * min(seconds, end) / end

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    paths = "".join(f'<path class="{name}" d="{_steps(points, x, y, end)}"/>' for name, points in lines)
    part = find_round_part(end, _MAX_PARTS)
    ticks = "".join(
        f'<text x="{x(at):.1f}" y="{HEIGHT - 6}" text-anchor="middle">{format_duration(at)}</text>'
        for at in (part * number for number in range(1, _MAX_PARTS))
        if x(at) < WIDTH - _HALF_LABEL
    )
    return (
        f'<h2>{escape(title)}</h2><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)} over time">{draw_bands(x)}'
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y(top):.1f}" y2="{y(top):.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y(top) + 9:.1f}" text-anchor="end">{form.format(top)}</text>'
        f'<text x="{LEFT - 6}" y="{y(0):.1f}" text-anchor="end">0</text>{ticks}{paths}</svg>'
    )


def _steps(points: Points, x: Callable[[float], float], y: Callable[[float], float], end: float) -> str:
    """Return the path of a step function; of many points some are left out."""
    stride = -(-len(points) // _MAX_POINTS) or 1
    kept = [point for at, point in enumerate(points) if at % stride == 0 or at == len(points) - 1]
    parts = []
    for at, (seconds, value) in enumerate(kept):
        if seconds > end:
            break
        parts.append(f"{'H' if at else 'M'}{x(seconds):.1f}{'V' if at else ' '}{y(value):.1f}")
    return "".join(parts) + f"H{x(end):.1f}" if parts else ""
