"""Output of ``savings`` as a table and as Markdown."""

import textwrap
from collections.abc import Iterable
from typing import Final

from rich.text import Text

from dovetail.cli.output.console import columns
from dovetail.cli.output.plan_report import HOURS_PER_MONTH
from dovetail.codec.text.suggestions import pluralize
from dovetail.savings.report import Line, OtherCloud, Savings

_MAX_ROWS: Final = 10
_WIDTH: Final = 78
_NO_BILL: Final = "No price of a node is known: there is no bill to divide, and what can be saved is unknown."
_ON_EC2: Final = (
    "on-demand instances of c, m and r types from generation 5 on, of the nodes' architectures, in any zone "
    "of the region; node selectors and node affinity other than architecture and OS, taints and volumes "
    "are left out; change the region with --region"
)


def format_table(report: Savings, prices: str, *, pools_written: bool = False) -> Iterable[Text]:
    """Yield the report; lines fit 80 columns where names do."""
    yield from _section("Today's bill", [["GROUP", "NODES", "$/HOUR", "$/MONTH"], *_group_rows(report)])
    if report.other_cloud is not None:
        yield from _other_cloud(report, report.other_cloud)
        yield from _notes(report, prices)
        return
    yield from _unpriced(report)
    if not _is_priced(report):
        yield Text()
        yield from (Text(line) for line in textwrap.wrap(_NO_BILL, _WIDTH))
        yield from _notes(report, prices)
        return
    yield Text()
    yield from _section("What it could be", [["BILL", "NODES", "$/HOUR", "SAVES"], *_bill_rows(report)])
    yield Text()
    yield Text("Where today's bill goes", style="bold")
    yield from _lines(report.uses, report.today)
    yield Text()
    yield Text("From today's bill to the lower bound", style="bold")
    yield from _lines(report.steps, report.today)
    if report.blockers:
        yield Text()
        rows = [[f"{line.price:,.3f}", str(line.nodes), line.blocker] for line in report.blockers[:_MAX_ROWS]]
        yield from _section(
            "Blockers, by the price of their nodes", [["$/HOUR", "NODES", "BLOCKER"], *rows], {0, 1}
        )
        if len(report.blockers) > _MAX_ROWS:
            yield Text(f"and {len(report.blockers) - _MAX_ROWS:,} more")
    yield Text()
    yield Text("Further options, each alone, compared with the fleet from scratch", style="bold")
    yield from _lines(report.options, report.today)
    if report.inferred_pools:
        yield Text()
        yield Text(f"NodePools inferred from node groups: {', '.join(report.inferred_pools)}")
        if not pools_written:
            yield Text("Write them with --write-pools DIR.")
    yield from _notes(report, prices)


def format_markdown(report: Savings, prices: str) -> str:
    """Return the report for a merge request or an issue."""
    if report.other_cloud is not None:
        fleet = report.other_cloud
        parts = [
            f"## Savings: unknown, all nodes are of another cloud ({', '.join(fleet.clouds)})",
            _markdown_table(["Group", "Nodes", "$/hour", "$/month"], _group_rows(report)),
            describe_other_cloud(report, fleet),
            f"**The same pods on EC2: {_describe_fleet(fleet)}.** Assumes {_ON_EC2}.",
            "\n".join(f"- {note}" for note in (*_unschedulable(fleet), *report.notes, f"prices: {prices}")),
        ]
        return "\n\n".join(parts)
    if not _is_priced(report):
        parts = [
            "## Savings: unknown, no price of a node is known",
            _markdown_table(["Group", "Nodes", "$/hour", "$/month"], _group_rows(report)),
            _NO_BILL,
            _markdown_notes(report, prices),
        ]
        return "\n\n".join(parts)
    parts = [
        f"## Savings: ${report.today - report.consolidated:,.2f} per hour "
        f"(${_month(report.today - report.consolidated)} a month)",
        _markdown_table(["Group", "Nodes", "$/hour", "$/month"], _group_rows(report)),
        _markdown_table(["Bill", "Nodes", "$/hour", "Saves"], _bill_rows(report)),
        _markdown_lines("Where today's bill goes", report.uses),
        _markdown_lines("From today's bill to the lower bound", report.steps),
    ]
    if report.blockers:
        rows = [
            [line.blocker, str(line.nodes), f"{line.price:,.3f}", line.message]
            for line in report.blockers[:_MAX_ROWS]
        ]
        parts.append(_markdown_table(["Blocker", "Nodes", "$/hour", "Because"], rows))
    parts.append(_markdown_lines("Further options, each alone", report.options))
    parts.append(_markdown_notes(report, prices))
    return "\n\n".join(parts)


def _markdown_notes(report: Savings, prices: str) -> str:
    notes = [f"- {entry.node} ({entry.group}) has no price: {entry.message}" for entry in report.unpriced]
    notes += [f"- {note}" for note in report.notes]
    return "\n".join([*notes, f"- prices: {prices}"])


def _is_priced(report: Savings) -> bool:
    """Return False if there are nodes, and all without a price."""
    return not report.nodes or len(report.unpriced) < report.nodes


def _group_rows(report: Savings) -> list[list[str]]:
    rows = [
        [
            str(bill.group),
            f"{bill.nodes:,}",
            _price(bill.price, bill.unpriced, bill.nodes),
            "unknown" if bill.unpriced == bill.nodes else _month(bill.price),
        ]
        for bill in report.groups
    ]
    if report.other_cloud is not None or not _is_priced(report):
        return [*rows, ["total", f"{report.nodes:,}", "unknown", "unknown"]]
    return [*rows, ["total", f"{report.nodes:,}", f"{report.today:,.3f}", _month(report.today)]]


def _price(price: float, unpriced: int, nodes: int) -> str:
    if unpriced == nodes:
        return "unknown"
    return f"{price:,.3f}" + (f" + {unpriced} unknown" if unpriced else "")


def _bill_rows(report: Savings) -> list[list[str]]:
    def row(name: str, nodes: str, price: float) -> list[str]:
        share = 1 - price / report.today if report.today else 0.0
        return [name, nodes, f"{price:,.3f}", f"{share:.0%}"]

    return [
        row("today", f"{report.nodes:,}", report.today),
        row("after consolidation", f"{report.consolidated_nodes:,}", report.consolidated),
        row("planned from scratch", f"{report.from_scratch_nodes:,}", report.from_scratch),
        row(f"lower bound ({report.pods_bound.kind})", "", report.bound),
    ]


def describe_other_cloud(report: Savings, fleet: OtherCloud) -> str:
    """Return why there is no bill, in one sentence."""
    nodes = "The only node is" if report.nodes == 1 else f"All {report.nodes:,} nodes are"
    return (
        f"{nodes} of another cloud ({', '.join(fleet.clouds)}). Only AWS prices are known, and only EC2 "
        "instances can be replaced: there is no bill to divide and nothing to save here."
    )


def _other_cloud(report: Savings, fleet: OtherCloud) -> Iterable[Text]:
    yield Text()
    yield from (Text(line) for line in textwrap.wrap(describe_other_cloud(report, fleet), _WIDTH))
    yield Text()
    yield Text("The same pods on EC2", style="bold")
    yield Text(f"  {_describe_fleet(fleet)}")
    yield from (
        Text(line, style="dim")
        for line in textwrap.wrap(
            f"Assumes {_ON_EC2}.", _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    )
    for note in _unschedulable(fleet):
        yield from _wrap(f"  {note}")


def _describe_fleet(fleet: OtherCloud) -> str:
    pods, nodes = pluralize(fleet.pods, "pod"), pluralize(fleet.nodes_on_ec2, "node")
    month = _month(fleet.price_on_ec2)
    return f"{pods} on {nodes}: ${fleet.price_on_ec2:,.3f} per hour (${month} a month)"


def _unschedulable(fleet: OtherCloud) -> Iterable[str]:
    if fleet.unschedulable:
        fit = "fits" if fleet.unschedulable == 1 else "fit"
        yield f"{pluralize(fleet.unschedulable, 'more pod')} {fit} on no EC2 instance; {fleet.message}"


def _notes(report: Savings, prices: str) -> Iterable[Text]:
    yield Text()
    for note in report.notes:
        yield from _wrap(f"Note: {note}.")
    yield from _wrap(f"Prices: {prices}.")


def _unpriced(report: Savings) -> Iterable[Text]:
    if report.unpriced:
        count = len(report.unpriced)
        yield Text(f"{count:,} {'node' if count == 1 else 'nodes'} without a price, not in any sum:")
        for entry in report.unpriced[:_MAX_ROWS]:
            yield from _wrap(f"  {entry.node}: {entry.message}")
        if count > _MAX_ROWS:
            yield Text(f"  and {count - _MAX_ROWS:,} more")


def _section(title: str, rows: list[list[str]], right: Iterable[int] = (1, 2, 3)) -> Iterable[Text]:
    yield Text(title, style="bold")
    yield from (Text(line) for line in columns(rows, frozenset(right)))


def _lines(lines: Iterable[Line], total: float) -> Iterable[Text]:
    for line in lines:
        share = f"{line.price / total:4.0%}" if total else ""
        yield Text(f"{line.price:10,.3f}  {share}  {line.name}")
        for text in textwrap.wrap(line.assumes, _WIDTH - 18):
            yield Text(f"{'':18}{text}", style="dim")


def _wrap(text: str) -> Iterable[Text]:
    for part in textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False):
        yield Text(part, style="dim")


def _month(price: float) -> str:
    return f"{price * HOURS_PER_MONTH:,.0f}"


def _markdown_table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def _markdown_lines(title: str, lines: Iterable[Line]) -> str:
    rows = [[line.name, f"{line.price:,.3f}", line.assumes] for line in lines]
    return f"### {title}\n\n" + _markdown_table(["", "$/hour", "Assumes"], rows)
