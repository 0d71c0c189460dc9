"""Spread over nodes (hostname), and over nodes and zones at once."""

from collections import Counter

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import TopologySpreadConstraint
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import a_pod, cluster, host_spread, pods, spread, zone_spread
from tests.support.scheduling.instance_types import ON_DEMAND, SPOT, ZONES
from tests.support.scheduling.plans import pods_per_node, running_per, settled, skew
from tests.support.scheduling.solver import after, packed, solved

APP = {"app": "web"}
ZONE, HOST, CAPACITY = label_keys.ZONE, label_keys.HOSTNAME, label_keys.CAPACITY_TYPE


def test_four_pods_that_may_not_share_a_node_get_four_nodes() -> None:
    # T14
    snapshot = cluster(pods(4, labels=APP, spreads=[host_spread(APP)]))

    assert pods_per_node(solved(snapshot)) == [1, 1, 1, 1]


def test_four_pods_with_a_skew_of_four_share_one_node() -> None:
    # T14
    snapshot = cluster(pods(4, labels=APP, spreads=[host_spread(APP, 4)]))

    assert pods_per_node(packed(snapshot)) == [4]


def test_two_workloads_that_spread_over_nodes_share_their_nodes() -> None:
    # T14
    snapshot = cluster(
        [
            a_pod(f"{app}{i}", labels={"app": app}, spreads=[host_spread({"app": app})])
            for app in "ab"
            for i in range(2)
        ]
    )

    assert pods_per_node(packed(snapshot)) == [2, 2]


def test_two_workloads_of_different_architecture_cannot_share_nodes() -> None:
    # T14
    snapshot = cluster(
        [
            a_pod(
                f"{arch}{i}",
                labels={"app": arch},
                spreads=[host_spread({"app": arch})],
                node_selector={label_keys.ARCH: arch},
            )
            for arch in ("amd64", "arm64")
            for i in range(2)
        ]
    )

    assert pods_per_node(packed(snapshot)) == [1, 1, 1, 1]


def test_a_later_batch_that_spreads_over_nodes_gets_new_ones() -> None:
    # T15
    rule = [host_spread(APP)]
    snapshot = cluster(pods(4, "first", labels=APP, spreads=rule))

    final = after(snapshot, pods(5, "second", labels=APP, spreads=rule))

    assert sorted(running_per(final, HOST).values()) == [1] * 9


def test_zone_and_node_spread_hold_together_over_successive_batches() -> None:
    # T18
    rules = [zone_spread(APP), host_spread(APP, 3)]
    snapshot = cluster()
    counts = []
    for number, size in enumerate([2, 3, 5, 11]):
        snapshot = after(snapshot, pods(size, f"batch{number}", labels=APP, spreads=rules))
        counts.append(skew(running_per(snapshot, ZONE)))

        assert max(running_per(snapshot, HOST).values()) <= 3

    assert counts == [[1, 1], [1, 2, 2], [3, 3, 4], [7, 7, 7]]


@pytest.mark.parametrize(
    "keys",
    [(CAPACITY, HOST), (CAPACITY, ZONE), (CAPACITY, ZONE, HOST)],
    ids=["capacity type and host", "capacity type and zone", "all three"],
)
def test_several_spreads_never_exceed_any_of_their_skews(keys: tuple[str, ...]) -> None:
    # T20
    skews = {CAPACITY: 1, ZONE: 2, HOST: 3}
    rules = [spread(key, APP, skews[key]) for key in keys]
    snapshot = cluster()
    for size in range(1, 15):
        snapshot = after(snapshot, pods(size, f"batch{size}", labels=APP, spreads=rules))
        for key in keys:
            assert _widest(snapshot, key) <= skews[key], (size, key)


def _widest(snapshot: ClusterSnapshot, key: str) -> int:
    domains = {CAPACITY: (SPOT, ON_DEMAND), ZONE: ZONES, HOST: ()}[key]
    counts = Counter(dict.fromkeys(domains, 0)) + running_per(snapshot, key)
    least = min((running_per(snapshot, key)[domain] for domain in domains), default=0)
    return max(counts.values(), default=0) - least


def test_revisions_spread_each_by_itself() -> None:
    # T21
    rule = host_spread(APP, match_label_keys=("rev",))
    snapshot = cluster(
        [a_pod(f"{rev}{i}", labels={**APP, "rev": rev}, spreads=[rule]) for rev in "ab" for i in range(2)]
    )

    assert pods_per_node(packed(snapshot)) == [2, 2]


def test_a_match_label_key_that_pods_do_not_have_is_ignored() -> None:
    # T21
    rule = host_spread(APP, match_label_keys=("rev",))
    snapshot = cluster(pods(4, labels=APP, spreads=[rule]))

    assert pods_per_node(packed(snapshot)) == [1, 1, 1, 1]


@pytest.mark.parametrize("rule", [host_spread(APP, required=False)])
def test_a_soft_spread_over_nodes_is_kept_while_nodes_can_be_launched(rule: TopologySpreadConstraint) -> None:
    snapshot = cluster(pods(3, labels=APP, spreads=[rule]))

    assert pods_per_node(solved(snapshot)) == [1, 1, 1]


def test_a_pod_counted_by_a_hostname_spread_may_join_while_the_skew_holds() -> None:
    snapshot = cluster(
        [*pods(2, "owner", labels=APP, spreads=[host_spread(APP, 2)]), *pods(2, "free", labels=APP)]
    )

    plan = packed(snapshot)

    assert max(pods_per_node(plan)) <= 2
    assert settled(snapshot, plan).nodes
