"""A preview as one HTML file, and as Markdown."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dovetail.cli.output.html_page import (
    BOTTOM,
    HEIGHT,
    TOP,
    WIDTH,
    Points,
    draw_steps,
    format_page,
    format_section,
)
from dovetail.cli.output.sections import Section
from dovetail.codec.text.suggestions import pluralize
from dovetail.preview.report import BrokenLimit, Course, Preview, Wave

_ESCAPES: Final = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "\n": " "})
MARKER: Final = "<!-- dovetail preview -->"
"""First line of the Markdown: scripts find their own comment on a merge request by it."""


def format_html(preview: Preview, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    return format_page(
        "Preview of a change",
        *_draw_charts(preview),
        '<p class="dim">Solid: with the change. Dashed: without it. Shaded: waves.</p>',
        *map(format_section, sections),
    )


def _draw_charts(preview: Preview) -> Iterator[str]:
    """Draw both plays, with waves as bands."""
    end = max(preview.course.duration, preview.course_without.duration, 60.0) * 1.05

    def draw_bands(x: Callable[[float], float]) -> str:
        return "".join(_band(wave, x) for wave in preview.waves if wave.started < end)

    for title, field, form in (
        ("Nodes", "nodes", "{:,.0f}"),
        ("USD per hour", "price", "{:,.2f}"),
        ("Pods without a node", "pending", "{:,.0f}"),
    ):
        lines = [
            ("without", _get_points(preview.course_without, field)),
            ("with", _get_points(preview.course, field)),
        ]
        yield draw_steps(title, lines, end=end, form=form, draw_bands=draw_bands)


def _get_points(course: Course, field: str) -> Points:
    return [(sample.at, getattr(sample, field)) for sample in course.samples]


def _band(wave: Wave, x: Callable[[float], float]) -> str:
    left = x(wave.started)
    right = x(wave.finished) if wave.finished is not None else float(WIDTH)
    nodes = pluralize(wave.nodes, "node")
    return (
        f'<rect class="wave" x="{left:.1f}" width="{max(right - left, 1):.1f}" y="{TOP}" '
        f'height="{HEIGHT - TOP - BOTTOM}"><title>Wave {wave.number}: {nodes}</title></rect>'
    )


def format_markdown(preview: Preview, sections: Sequence[Section], broken: Sequence[BrokenLimit]) -> str:
    """Return a comment for a merge request: the outcome first, details folded."""
    difference = preview.difference
    percent = f" ({difference.price_percent:+.1f} %)" if difference.price_percent else ""
    cost = f"{'-' if difference.price_per_month < 0 else '+'}${abs(difference.price_per_month):,.0f}"
    outcome = "❌ breaks a limit" if broken else "✅"
    lines = [
        MARKER,
        f"### Preview of this change on the cluster: {outcome}",
        "",
        f"**{difference.nodes:+,} nodes**, **{cost} a month**{percent}, "
        f"{pluralize(preview.course.evictions, 'eviction')}, "
        f"pods without a node: {difference.pods_without_node:+,}.",
    ]
    for section in sections:
        is_long = section.title in ("Waves", "Workloads", "Basis")
        title = _escape(section.title)
        lines += ["", f"<details><summary>{title}</summary>" if is_long else f"#### {title}", ""]
        lines += [f"- {_escape(line)}" for line in section.lines]
        if section.rows:
            lines += ["", *_markdown_table(section)]
        lines += [_escape(line) for line in section.footer]
        lines += ["", "</details>"] if is_long else []
    return "\n".join(lines)


def _markdown_table(section: Section) -> Iterator[str]:
    count = len(section.header)
    is_text = [at < section.left or (section.last_left and at == count - 1) for at in range(count)]
    yield f"| {' | '.join(name.lower() for name in section.header)} |"
    yield f"|{'|'.join('---' if text else '---:' for text in is_text)}|"
    for row in section.rows:
        yield f"| {' | '.join(_escape(cell) for cell in row)} |"


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
