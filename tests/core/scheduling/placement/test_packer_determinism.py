"""Equal snapshots give equal plans, in every process."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.plan import Plan
from dovetail.model.settings import Packing, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import (
    a_daemon_set,
    a_node,
    a_pool,
    affinity,
    cluster,
    node_term,
    pods,
    prefer_node,
    taint,
    zone_spread,
)
from tests.support.scheduling.instance_types import GPU_A, Z1, Z2

ROOT = Path(__file__).parents[4]
A, B, C = {"app": "a"}, {"app": "b"}, {"app": "c"}


def a_bit_of_everything() -> ClusterSnapshot:
    some = [
        *pods(7, "free", cpu="700m"),
        *pods(5, "pinned", cpu="300m", node_selector={label_keys.ZONE: Z2}),
        *pods(6, "spread", cpu="200m", labels=A, spreads=[zone_spread(A)]),
        *pods(4, "apart", cpu="400m", labels=B, anti_affinity=[affinity(B)]),
        *pods(2, "zonal", labels=C, anti_affinity=[affinity(C, label_keys.ZONE)]),
        *pods(2, "near", affinity=[affinity(A, label_keys.ZONE)]),
        *pods(3, "team", node_terms=[node_term(("team", "In", ["red", "green", "blue"]))]),
        *pods(2, "any-team", node_terms=[node_term(("team", "Exists"))]),
        *pods(2, "preference", preferred_node_terms=[prefer_node(9, ("x", "Exists"))]),
        *pods(2, "ports", ports=[80]),
        *pods(2, "gpu", more={GPU_A: 1}),
        *pods(2, "too-large", cpu="99"),
    ]
    pools = [
        a_pool("a", [("team", "In", ["red", "green"])], weight=3),
        a_pool("b", labels={"team": "blue"}),
        a_pool("c", [("rank", "Exists")], taints=[taint("k", effect="PreferNoSchedule")]),
    ]
    nodes = [a_node("n1", zone=Z1, pool="a"), a_node("n2", zone=Z2)]
    return cluster(some, pools, nodes=nodes, daemon_sets=[a_daemon_set("agent", cpu="50m")])


def digest(plan: Plan) -> str:
    """Return a digest of a plan."""
    said = [
        [
            (
                node.name,
                [kind.name for kind in node.instance_types],
                node.offering,
                [pod.name for pod in node.pods],
                str(node.requirements),
                sorted(node.labels.items()),
                sorted(node.requested.items()),
            )
            for node in plan.nodes
        ],
        [(taken.node, [pod.name for pod in taken.pods]) for taken in plan.existing],
        [(entry.pod.name, entry.reasons) for entry in plan.unschedulable],
    ]
    return hashlib.sha256(repr(said).encode()).hexdigest()


@pytest.mark.parametrize("packing", list(Packing))
def test_a_second_call_gives_the_same_plan(packing: Packing) -> None:
    settings = SchedulingSettings(packing=packing)

    assert digest(solve(a_bit_of_everything(), settings)) == digest(solve(a_bit_of_everything(), settings))


def test_another_process_gives_the_same_plan() -> None:
    # Sets of strings are walked in another order in each process; no choice may depend on it.
    answers = {
        subprocess.run(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(answers) == 1


if __name__ == "__main__":
    for each in Packing:
        sys.stdout.write(digest(solve(a_bit_of_everything(), SchedulingSettings(packing=each))))
