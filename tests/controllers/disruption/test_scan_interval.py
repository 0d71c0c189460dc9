"""Scan interval: how often a method evaluates the whole cluster."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dovetail.controllers.disruption.scan_interval import MAX_INTERVAL, MIN_INTERVAL, ScanInterval

NOW = datetime(2026, 1, 1, 9, tzinfo=UTC)


def scan(
    interval: ScanInterval, *, nodes: int = 10, found_commands: bool = False, **more: datetime
) -> ScanInterval:
    interval.start_scan()
    interval.finish_scan(NOW, nodes=nodes, found_commands=found_commands, **more)
    return interval


def test_first_scan_runs_at_once() -> None:
    assert ScanInterval().next_scan_at(NOW) <= NOW


def test_unchanged_cluster_is_scanned_after_five_minutes() -> None:
    assert scan(ScanInterval()).next_scan_at(NOW) == NOW + MAX_INTERVAL


def test_change_is_scanned_after_the_interval_and_is_first_only_once() -> None:
    interval = scan(ScanInterval())

    first_changes = [interval.notify_change(), interval.notify_change()]

    assert first_changes == [True, False]
    assert interval.next_scan_at(NOW) == NOW + MIN_INTERVAL


def test_interval_grows_while_scans_find_nothing() -> None:
    interval = ScanInterval()
    intervals = []
    for _ in range(4):
        scan(interval).notify_change()
        intervals.append(interval.next_scan_at(NOW) - NOW)

    assert intervals == [MIN_INTERVAL, 2 * MIN_INTERVAL, 3 * MIN_INTERVAL, 3 * MIN_INTERVAL]


def test_after_commands_small_clusters_are_scanned_sooner() -> None:
    intervals = [
        scan(ScanInterval(), nodes=n, found_commands=True).next_scan_at(NOW) - NOW for n in (10, 2_000)
    ]

    assert intervals == [timedelta(seconds=0.15), timedelta(minutes=1)]


def test_large_cluster_is_scanned_sooner_while_commands_wait_for_a_budget() -> None:
    interval = scan(ScanInterval(), nodes=2_000, found_commands=True, rescan_at=NOW)

    assert interval.next_scan_at(NOW) == NOW + timedelta(seconds=30)


def test_large_clusters_are_scanned_every_half_to_one_minute() -> None:
    intervals = []
    for nodes in (99, 100, 150, 1_000):
        interval = scan(ScanInterval(), nodes=nodes)
        interval.notify_change(freed_nodes=1)
        intervals.append(int((interval.next_scan_at(NOW) - NOW).total_seconds()))

    assert intervals == [10, 30, 45, 60]


def test_two_thousand_nodes_are_scanned_every_four_minutes_while_scans_find_nothing() -> None:
    interval = ScanInterval()
    intervals = []
    for _ in range(6):
        scan(interval, nodes=2_000).notify_change()
        intervals.append(int((interval.next_scan_at(NOW) - NOW).total_seconds()))

    assert intervals == [60, 60, 80, 160, 240, 240]


def test_large_cluster_is_scanned_sooner_once_the_pods_of_a_node_have_left() -> None:
    interval = ScanInterval()
    for _ in range(6):
        scan(interval, nodes=500)

    may_run_earlier = [interval.notify_change(freed_nodes=0.4) for _ in range(4)]

    assert may_run_earlier == [True, False, True, False]
    assert interval.next_scan_at(NOW) == NOW + 6 * MIN_INTERVAL


def test_pods_that_left_before_a_scan_do_not_make_the_next_one_sooner() -> None:
    interval = ScanInterval()
    for _ in range(6):
        interval.notify_change(freed_nodes=5)
        scan(interval, nodes=500)

    interval.notify_change()

    assert interval.next_scan_at(NOW) == NOW + 12 * MIN_INTERVAL


def test_frequent_scans_of_a_large_cluster_run_every_ten_to_thirty_seconds() -> None:
    interval = ScanInterval(is_frequent=True)
    intervals = []
    for _ in range(4):
        scan(interval, nodes=500).notify_change()
        intervals.append(interval.next_scan_at(NOW) - NOW)

    assert intervals == [factor * MIN_INTERVAL for factor in (1, 2, 3, 3)]


def test_reset_allows_a_scan_at_once() -> None:
    interval = scan(ScanInterval())

    interval.reset()

    assert interval.next_scan_at(NOW) <= NOW


@given(st.integers(0, 20_000), st.integers(1, 10))
def test_interval_grows_with_the_cluster_up_to_a_maximum(nodes: int, times: int) -> None:
    small, large = ScanInterval(), ScanInterval()
    for _ in range(times):
        scan(small, nodes=nodes).notify_change()
        scan(large, nodes=2 * nodes).notify_change()

    assert MIN_INTERVAL <= small.next_scan_at(NOW) - NOW <= large.next_scan_at(NOW) - NOW <= MAX_INTERVAL


def test_rescan_time_is_kept_but_not_before_the_interval_ends() -> None:
    soon, late = NOW + timedelta(seconds=1), NOW + timedelta(seconds=100)

    assert scan(ScanInterval(), rescan_at=late).next_scan_at(NOW) == late
    assert scan(ScanInterval(), rescan_at=soon).next_scan_at(NOW) == NOW + MIN_INTERVAL
