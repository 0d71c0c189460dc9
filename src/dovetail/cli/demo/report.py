"""Report of a scenario as text or JSON."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import price_source
from dovetail.codec.text.suggestions import pluralize
from dovetail.model.cloud.prices import PriceBook
from dovetail.simulator.scenario.model import Phase, Scenario, Wait
from dovetail.simulator.scenario_runner import PhaseReport, Report, StartupBreakdown

_NUMBERS: Final = frozenset(range(1, 9))
"""Right-aligned columns of the table of phases."""
_CHANGE_COLUMNS: Final = 6
"""First of the columns that narrow terminals get in a line below."""
_STARTUP_COLUMNS: Final = (
    ("WAITING", "waiting"),
    ("DECIDING", "deciding"),
    ("EC2", "launching"),
    ("BOOT", "booting"),
    ("JOINING", "registering"),
    ("POD START", "starting"),
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario run with its result."""

    scenario: Scenario
    report: Report
    violations: Sequence[str]
    wall_seconds: float

    @property
    def is_good(self) -> bool:
        return self.report.reached and not self.violations


def outcome_json(outcome: Outcome, prices: PriceBook) -> str:
    """Return the report as JSON; all times except ``wall_seconds`` are virtual."""
    report = outcome.report
    document = {
        "scenario": report.scenario,
        "region": outcome.scenario.region,
        "seed": outcome.scenario.seed,
        "reached": report.reached,
        "phases": [_phase_json(phase) for phase in report.phases],
        "cost": report.cost,
        "cost_over_time": [
            {"seconds": elapsed, "price_per_hour": price} for elapsed, price in report.price_steps
        ],
        "own_seconds": report.own_seconds,
        "wall_seconds": round(outcome.wall_seconds, 3),
        "invariant_violations": list(outcome.violations),
        "prices": price_source(prices, outcome.scenario.region),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _phase_json(phase: PhaseReport) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(phase)
    if phase.startup is not None:
        plain["startup"]["total"] = _total(phase.startup)
        plain["startup"]["own"] = phase.startup.own
    return plain


def outcome_lines(outcome: Outcome, prices: PriceBook, width: int | None = None) -> list[Text]:
    """Return the report as lines of text; ``width`` is that of the terminal, None for a pipe."""
    return [
        *_phases(outcome.report.phases, width),
        *_startup_table(outcome, width),
        *_footer(outcome, prices),
    ]


def wall_line(outcome: Outcome) -> Text:
    """Return the line with the real time, which differs from run to run."""
    virtual = sum(phase.virtual_seconds for phase in outcome.report.phases)
    duration = f"{_span(virtual)} of virtual time in {outcome.wall_seconds:.1f} s"
    return Text(f"Simulated: {duration} on this computer, including all decisions.")


def _phases(phases: Sequence[PhaseReport], width: int | None) -> Iterator[Text]:
    """Yield a line per phase, or two if the terminal is too narrow for one."""
    head = "PHASE TIME PODS NODES $/HOUR COST LAUNCHED TERMINATED EVICTIONS".split()
    rows = [[*head, "INSTANCE TYPES"], *(_phase_row(phase) for phase in phases)]
    header, *lines = columns(rows, _NUMBERS)
    is_narrow = width is not None and max(map(len, (header, *lines))) > width
    if is_narrow:
        header, *lines = columns([row[:_CHANGE_COLUMNS] for row in rows], _NUMBERS)
    yield Text(header, style="bold")
    for phase, line in zip(phases, lines, strict=True):
        style = "" if phase.reached else "red"
        yield Text(line, style=style)
        if is_narrow:
            yield Text(f"  {_describe_changes(phase)}", style=style or "dim")


def _describe_changes(phase: PhaseReport) -> str:
    types = _format_types(phase)
    launched = f"{phase.launched} launched" + (f" ({types})" if types else "")
    return f"{launched}, {phase.terminated} terminated, {pluralize(phase.evictions, 'eviction')}"


def _format_types(phase: PhaseReport) -> str:
    return ", ".join(f"{count} × {name}" for name, count in phase.instance_types.items())


def _phase_row(phase: PhaseReport) -> list[str]:
    return [
        phase.name,
        _seconds(phase.virtual_seconds) if phase.virtual_seconds < 3600 else _span(phase.virtual_seconds),
        str(phase.pods_running),
        str(phase.nodes),
        f"{phase.price_per_hour:.4f}",
        f"${phase.cost:.4f}",
        str(phase.launched),
        str(phase.terminated),
        str(phase.evictions),
        _format_types(phase),
    ]


def _startup_table(outcome: Outcome, width: int | None) -> Iterator[Text]:
    """Yield the table of start-up times of the last pod.

    Where a phase itself waits before it creates pods, that wait does not count.
    A terminal too narrow for all columns gets the title in a line of its own,
    and no column of zeros.
    """
    startups = []
    for phase, planned in zip(outcome.report.phases, outcome.scenario.phases, strict=True):
        startup = phase.startup
        if startup is not None and any(isinstance(action, Wait) for action in planned.actions):
            startup = msgspec.structs.replace(startup, waiting=0.0)
        if startup is not None:
            startups.append((phase.name, startup))
    if not startups:
        return
    title = "UNTIL THE LAST POD RAN"
    head = [title, *(name for name, _ in _STARTUP_COLUMNS), "IN ALL", "DOVETAIL'S OWN"]
    rows = [head, *(_startup_row(name, startup) for name, startup in startups)]
    flush_right = frozenset(range(1, len(head)))
    header, *lines = columns(rows, flush_right)
    yield Text()
    if width is not None and len(header) > width:
        yield Text(title, style="bold")
        head[0] = "PHASE"
        kept = [at for at in range(len(head)) if any(row[at] != _seconds(0.0) for row in rows[1:])]
        header, *lines = columns([[row[at] for at in kept] for row in rows], flush_right)
    yield Text(header, style="bold")
    yield from (Text(line) for line in lines)


def _startup_row(name: str, startup: StartupBreakdown) -> list[str]:
    total = _total(startup)
    own_time = f"{_seconds(startup.own)} ({startup.own / total:.0%})" if total else _seconds(startup.own)
    parts = (_seconds(getattr(startup, field)) for _, field in _STARTUP_COLUMNS)
    return [name, *parts, _seconds(total), own_time]


def _footer(outcome: Outcome, prices: PriceBook) -> Iterator[Text]:
    report = outcome.report
    yield Text()
    for phase, planned in zip(report.phases, outcome.scenario.phases, strict=True):
        if not phase.reached:
            message = f"Not reached: {phase.name}: {_goal(planned)} within "
            yield Text(message + _span(planned.limit.total_seconds()), style="bold red")
    for violation in outcome.violations:
        yield Text(f"Invariant broken: {violation}", style="bold red")
    if not outcome.violations:
        yield Text("Invariants: none broken.")
    virtual = sum(phase_report.virtual_seconds for phase_report in report.phases)
    yield Text(
        f"Cost: ${report.cost:.4f} for {_span(virtual)}. Prices: {prices.describe(outcome.scenario.region)}."
    )


def _goal(phase: Phase) -> str:
    until = phase.until
    counts = ((until.running, "pods running"), (until.nodes, "nodes"), (until.drifted, "claims drifted"))
    goals = [f"{count} {unit}" for count, unit in counts if count is not None]
    if until.quiet is not None:
        goals.append(f"no launches or terminations for {_span(until.quiet.total_seconds())}")
    return " and ".join(goals)


def _total(startup: StartupBreakdown) -> float:
    total: float = sum(msgspec.structs.astuple(startup))
    return round(total, 3)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _span(seconds: float) -> str:
    """Format a duration."""
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"
