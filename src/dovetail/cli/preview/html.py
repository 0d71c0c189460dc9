"""A preview as one HTML file: no scripts, no network, light and dark."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from dovetail import __version__
from dovetail.cli.preview.sections import Section
from dovetail.preview.limits import format_duration
from dovetail.preview.report import Preview, Sample, Wave

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860, 150, 64, 8, 22
_MAX_POINTS: Final = 1500
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


def format_html(preview: Preview, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    end = max(preview.course.duration, preview.course_without.duration, 60.0) * 1.05
    body = "\n".join(_format_section(section) for section in sections)
    charts = "\n".join(
        _chart(title, preview, get, end, form)
        for title, get, form in (
            ("Nodes", _nodes, "{:,.0f}"),
            ("USD per hour", _price, "{:,.2f}"),
            ("Pods without a node", _pending, "{:,.0f}"),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Preview of a change</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Preview of a change</h1>\n{charts}\n"
        '<p class="dim">Solid: with the change. Dashed: without it. Shaded: waves.</p>\n'
        f'{body}\n<p class="dim">dovetail {escape(__version__)}</p>\n</body></html>'
    )


def _nodes(sample: Sample) -> float:
    return sample.nodes


def _price(sample: Sample) -> float:
    return sample.price


def _pending(sample: Sample) -> float:
    return sample.pending


def _format_section(section: Section) -> str:
    style = ' class="bad"' if section.title == "Broken limits" else ""
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


def _chart(title: str, preview: Preview, get: Callable[[Sample], float], end: float, form: str) -> str:
    """Draw both plays as steps, with waves as bands."""
    both = (preview.course_without.samples, preview.course.samples)
    top = max((get(sample) for samples in both for sample in samples), default=0.0) or 1.0

    def x(seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT) * min(seconds, end) / end

    def y(value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / top)

    bands = "".join(_band(wave, x) for wave in preview.waves if wave.started < end)
    lines = "".join(
        f'<path class="{name}" d="{_steps(samples, get, x, y, end)}"/>'
        for name, samples in zip(("without", "with"), both, strict=True)
    )
    ticks = "".join(
        f'<text x="{x(end * share):.1f}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{format_duration(end * share)}</text>"
        for share in (0.25, 0.5, 0.75)
    )
    return (
        f'<h2>{escape(title)}</h2><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)} over time">{bands}'
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>'
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(top):.1f}" y2="{y(top):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(top) + 9:.1f}" text-anchor="end">{form.format(top)}</text>'
        f'<text x="{_LEFT - 6}" y="{y(0):.1f}" text-anchor="end">0</text>{ticks}{lines}</svg>'
    )


def _band(wave: Wave, x: Callable[[float], float]) -> str:
    left = x(wave.started)
    right = x(wave.finished) if wave.finished is not None else float(_WIDTH)
    return (
        f'<rect class="wave" x="{left:.1f}" width="{max(right - left, 1):.1f}" y="{_TOP}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}"><title>Wave {wave.number}: {wave.nodes:,} nodes</title></rect>'
    )


def _steps(
    samples: Sequence[Sample],
    get: Callable[[Sample], float],
    x: Callable[[float], float],
    y: Callable[[float], float],
    end: float,
) -> str:
    """Return the path of a step function; of many samples some are left out."""
    stride = -(-len(samples) // _MAX_POINTS) or 1
    kept = [sample for at, sample in enumerate(samples) if at % stride == 0 or at == len(samples) - 1]
    parts = []
    for at, sample in enumerate(kept):
        if sample.at > end:
            break
        parts.append(f"{'H' if at else 'M'}{x(sample.at):.1f}{'V' if at else ' '}{y(get(sample)):.1f}")
    return "".join(parts) + f"H{x(end):.1f}" if parts else ""
