"""Keys and screens of ``dovetail top``."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest
from textual.pilot import Pilot

from dovetail.cli.top.app import TopApp
from dovetail.dashboard.sources.source import SourceStatus
from dovetail.errors import DovetailError
from dovetail.view.document import ClusterInfo, NodeState, Notice, PodView, View
from tests.cli.top.views import NOW, FeedSource, many_nodes, node, small_view, view_of, workload

Steps = Callable[[Pilot[int], FeedSource], Awaitable[None]]


def screen_of(pilot: Pilot[int]) -> str:
    """Return the text on the terminal."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def run(view: View, steps: Steps, *, size: tuple[int, int] = (80, 24), **options: str) -> TopApp:
    source = FeedSource(view)

    async def open_source() -> FeedSource:
        return source

    app = TopApp(open_source, **options)

    async def play() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(pilot, source)
        assert source.is_closed

    asyncio.run(play())
    assert app.failure is None
    return app


def press(view: View, *keys: str, size: tuple[int, int] = (80, 24), **options: str) -> str:
    """Return the screen after these keys."""
    screens = []

    async def steps(pilot: Pilot[int], _: FeedSource) -> None:
        for key in keys:
            await pilot.press(key)
        await pilot.pause()
        screens.append(screen_of(pilot))

    run(view, steps, size=size, **options)
    return screens[0]


def names_on(screen: str) -> list[str]:
    return [line.split()[0] for line in screen.splitlines() if line.startswith("ip-")]


def test_nodes_are_listed_with_use_price_and_reason_the_most_expensive_first() -> None:
    screen = press(small_view())

    assert names_on(screen) == ["ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3"]
    row = next(line for line in screen.splitlines() if line.startswith("ip-10-0-0-1"))
    assert "m5.2xlarge" in row
    assert "25%" in row
    assert "0.3840" in row
    assert ": Pod default/db-0" in row


def test_the_summary_has_prices_pending_pods_bound_and_blocked_savings() -> None:
    screen = press(small_view(), size=(140, 24))

    assert "$0.4250/h = $310/month + 1 node without a price" in screen
    assert "1 pending" in screen
    assert "bound $0.2125, gap $0.2125" in screen
    assert "blocked savings $0.0321/h" in screen


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20), (40, 12), (200, 10)])
def test_no_line_is_wider_than_the_terminal(size: tuple[int, int]) -> None:
    for keys in ((), ("enter",), ("p",), ("d",), ("o",), ("b",), ("c",), ("n",), ("question_mark",)):
        screen = press(small_view(), *keys, size=size)

        assert screen.strip()
        assert max(map(len, screen.splitlines())) <= size[0]
        assert len(screen.splitlines()) <= size[1]


def test_keys_of_sort_change_the_order() -> None:
    by_cpu = press(small_view(), "s")
    reverse = press(small_view(), "s", "r")
    back = press(small_view(), "s", "S")

    assert names_on(by_cpu) == ["ip-10-0-0-1", "ip-10-0-0-3", "ip-10-0-0-2"]
    assert names_on(reverse) == ["ip-10-0-0-2", "ip-10-0-0-3", "ip-10-0-0-1"]
    assert names_on(back) == ["ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3"]
    assert "sort: cpu" in by_cpu


def test_a_typed_filter_selects_nodes_while_it_is_typed() -> None:
    screen = press(small_view(), "slash", *"pool=web")

    assert names_on(screen) == ["ip-10-0-0-2"]
    assert "1 of 3" in screen


def test_escape_clears_the_filter() -> None:
    screen = press(small_view(), "slash", *"spot", "enter", "escape")

    assert len(names_on(screen)) == 3


def test_letters_of_a_filter_are_no_commands() -> None:
    screen = press(small_view(), "slash", *"qpdn", "enter")

    assert "No node matches the filter." in screen


def test_a_wrong_field_of_a_filter_gets_a_suggestion() -> None:
    screen = press(small_view(), "slash", *"zoen=a")

    assert "'zoen' is not a field; did you mean 'zone'?" in screen


def test_enter_shows_why_a_node_stays_what_would_change_that_and_its_pods_by_workload() -> None:
    screen = press(small_view(), "enter")

    assert "why it stays: " in screen
    assert ": Pod default/db-0 has the annotation" in screen
    assert "blocker: Pod default/db-0" in screen
    assert "what would change that:" in screen
    assert "$0.3840/h = $280/month" in screen
    assert "StatefulSet default/db" in screen
    assert "web-1" in screen


def test_enter_on_a_workload_hides_and_shows_its_pods() -> None:
    hidden = press(small_view(), "enter", "enter")
    shown = press(small_view(), "enter", "enter", "enter")

    assert "db-0  " not in hidden
    assert "+ StatefulSet default/db" in hidden
    assert "db-0  " in shown


def test_enter_on_a_pod_shows_its_share_of_the_price() -> None:
    screen = press(small_view(), "enter", "down", "enter")

    assert "default/db-0" in screen
    assert "share of the node: 12% of its CPU, 12% of its memory: $0.0480/h" in screen
    assert "This pod keeps its node from being disrupted." in screen


def test_pending_pods_are_listed_with_the_reason_and_the_nearest_fit() -> None:
    listed, detail = press(small_view(), "p"), press(small_view(), "p", "enter")

    assert "default/gpu" in listed
    assert "NodePool default: no instan" in listed
    assert "nearest fit: a NodePool that allows g5.xlarge" in detail


def test_the_one_reason_of_a_pending_pod_is_shown_once() -> None:
    view = small_view()
    reason = "NodePool default: too large for every type"
    pod = msgspec.structs.replace(view.pending_pods["default/gpu"], messages=(reason,), nearest_fit=reason)
    view = msgspec.structs.replace(view, pending_pods={"default/gpu": pod})

    detail = press(view, "p", "enter", size=(120, 24))

    assert detail.count(reason) == 1


def test_control_characters_of_names_and_messages_do_not_reach_the_terminal() -> None:
    attack = "\x1b]0;title\x9c\x9b31m\u202e[red]"
    notice = Notice(code="unread", message=f"pods {attack}")
    odd = node("ip-10-0-0-9", message=attack, workloads=(workload(f"web{attack}", 1),))
    view = msgspec.structs.replace(view_of(odd), notices={"unread": notice})
    texts = []

    async def steps(pilot: Pilot[int], _: FeedSource) -> None:
        for key in ("up", "n", "enter", "escape", "escape", "enter", "down", "enter"):
            await pilot.press(key)
            await pilot.pause()
            texts.append(screen_of(pilot))

    run(view, steps, size=(160, 24))

    assert sum("?]0;title??31m?[red]" in text for text in texts) >= 4
    assert not any(character in text for text in texts for character in "\x1b\x9b\x9c\u202e")


def test_the_row_of_the_cursor_has_one_style_also_where_bars_are() -> None:
    styles = []

    async def steps(pilot: Pilot[int], _: FeedSource) -> None:
        strips = pilot.app.screen._compositor.render_strips()
        row = next(strip for strip in strips if strip.text.startswith("ip-10-0-0-1"))
        styles.extend({segment.style for segment in row if segment.style and segment.text.strip()})

    run(small_view(), steps)

    assert len(styles) == 1


def test_a_cluster_without_any_price_has_no_bill_of_zero() -> None:
    view = view_of(node("gke-0", pool="", price=None, code="", message=""))
    nodes = {
        key: msgspec.structs.replace(each, keep=None, state=NodeState.READY)
        for key, each in view.nodes.items()
    }
    totals = msgspec.structs.replace(view.totals, nodes=1, unpriced_nodes=1, price_per_hour=0.0)

    screen = press(msgspec.structs.replace(view, nodes=nodes, totals=totals))

    assert "no price of a node is known" in screen
    assert "of no NodePool" in screen
    assert "$0" not in screen


def test_decisions_are_listed_the_newest_first_with_the_real_saving() -> None:
    listed, detail = press(small_view(), "d"), press(small_view(), "d", "enter")

    lines = [line for line in listed.splitlines() if "consolidated" in line or "launched" in line]
    assert "consolidated" in lines[0]
    assert "+0.0450" in lines[0]
    assert "expected saving: $0.0500/h" in detail


def test_other_lists_show_nodepools_blockers_and_claims_in_flight() -> None:
    assert "default " in press(small_view(), "o")
    assert "Pod default/db-0" in press(small_view(), "b")
    assert "node not registered" in press(small_view(), "c", size=(120, 24))


def test_escape_returns_to_the_nodes_and_the_cursor_stays() -> None:
    screens = []

    async def steps(pilot: Pilot[int], _: FeedSource) -> None:
        for key in ("down", "enter", "escape", "p", "escape", "enter"):
            await pilot.press(key)
        await pilot.pause()
        screens.append(screen_of(pilot))

    run(small_view(), steps)

    assert screens[0].startswith("ip-10-0-0-2.ec2.internal")


def test_help_lists_the_keys() -> None:
    screen = press(small_view(), "question_mark")

    assert "pending pods" in screen
    assert "cpu<30" in screen


def test_a_newer_document_replaces_the_screen_and_the_cursor_follows_its_node() -> None:
    screens = []

    async def steps(pilot: Pilot[int], source: FeedSource) -> None:
        await pilot.press("down")
        await source.publish(view_of(node("ip-10-0-0-2", price=9.0), node("ip-10-0-0-7", price=1.0)))
        await pilot.pause()
        screens.append(screen_of(pilot))
        await pilot.press("enter")
        await pilot.pause()
        screens.append(screen_of(pilot))

    run(small_view(), steps)

    assert names_on(screens[0]) == ["ip-10-0-0-2", "ip-10-0-0-7"]
    assert screens[1].startswith("ip-10-0-0-2.ec2.internal")


def test_an_open_node_changes_with_the_cluster_and_says_when_it_is_gone() -> None:
    screens = []

    async def steps(pilot: Pilot[int], source: FeedSource) -> None:
        await pilot.press("enter")
        draining = node("ip-10-0-0-1", state=NodeState.DRAINING)
        for view in (view_of(draining), view_of()):
            await source.publish(view)
            await pilot.pause()
            screens.append(screen_of(pilot))

    run(small_view(), steps)

    assert "draining" in screens[0]
    assert "gone" in screens[1]
    assert "ip-10-0-0-1.ec2.internal" in screens[1]


def test_a_stale_document_says_so_on_every_screen() -> None:
    screens = []
    stale = SourceStatus(stale=True, reason="https://x does not answer", since=NOW - timedelta(seconds=9))

    async def steps(pilot: Pilot[int], source: FeedSource) -> None:
        await source.publish(small_view(), stale)
        for key in ("escape", "p", "d"):
            await pilot.press(key)
            await pilot.pause()
            screens.append(screen_of(pilot))

    run(small_view(), steps)

    for screen in screens:
        assert "STALE" in screen
        assert "does not answer" in screen


def test_what_cannot_be_shown_is_said_above_the_nodes() -> None:
    notices = {
        code: Notice(code=code, message=f"no rights to list {code}", remedy=f"grant list on {code}")
        for code in ("nodeclaims", "nodepools", "pods")
    }
    karpenter = ClusterInfo(name="prod", source="live", autoscaler="karpenter")

    nodes = press(view_of(node("ip-1"), notices=notices, cluster=karpenter))
    listed = press(view_of(notices=notices), "n", "enter")

    assert "karpenter" in nodes
    assert "! no rights to list nodeclaims" in nodes
    assert "! 2 more notices: press n" in nodes
    assert "what to do: grant list on nodeclaims" in listed


def test_a_long_name_of_the_cluster_keeps_its_end_and_takes_one_line() -> None:
    cluster = ClusterInfo(name="arn:aws:eks:us-east-1:123456789012:cluster/production", source="live")

    first, second, *_ = press(view_of(node("ip-1"), cluster=cluster)).splitlines()

    assert "/production (live)" in first
    assert first.rstrip().endswith("UTC")
    assert "1 node" in second


def test_a_cluster_without_nodes_is_shown() -> None:
    assert "There are no nodes." in press(view_of())


def test_names_are_shown_literally() -> None:
    hostile = msgspec.structs.replace(workload("x", 0), pods=(PodView(name="[red]a[/red]"),))

    screen = press(view_of(node("[bold]x", workloads=(hostile,))), "enter")

    assert "[bold]x.ec2.internal" in screen
    assert "[red]a[/red]" in screen


def test_q_and_ctrl_c_leave_with_their_exit_codes() -> None:
    async def quit_with(key: str) -> int | None:
        async def open_source() -> FeedSource:
            return FeedSource(small_view())

        app = TopApp(open_source)
        async with app.run_test() as pilot:
            await pilot.press(key)
        return app.return_value

    assert asyncio.run(quit_with("q")) == 0
    assert asyncio.run(quit_with("ctrl+c")) == 130


def test_a_source_that_cannot_be_read_ends_the_application_with_the_error() -> None:
    async def open_source() -> FeedSource:
        raise DovetailError("https://x gave no answer within 7s")

    async def play() -> TopApp:
        app = TopApp(open_source)
        async with app.run_test() as pilot:
            await pilot.pause()
        return app

    app = asyncio.run(play())

    assert str(app.failure) == "https://x gave no answer within 7s"


def test_the_last_of_many_nodes_is_reached_with_one_key() -> None:
    screen = press(many_nodes(300, pods=1), "end", size=(80, 24), sort="name")

    assert names_on(screen)[-1] == max(each.name for each in many_nodes(300, 1).nodes.values()).split(".")[0]


def test_no_color_writes_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    styles = []

    async def steps(pilot: Pilot[int], _: FeedSource) -> None:
        filters = pilot.app.get_line_filters()
        for strip in pilot.app.screen._compositor.render_strips():
            for segment in strip.apply_filter(filters[-1], pilot.app.ansi_theme.background_color):
                styles.append(segment.style)

    run(small_view(), steps)

    assert styles
    colours = {colour.name for style in styles if style for colour in (style.color, style.bgcolor) if colour}
    assert colours <= {"default"}
