"""Room for pods that are not there yet: CB1–CB7, X4, X5, EM14–EM18 of the checklists."""

from typing import Any

import pytest

from dovetail.model.settings import Gates
from dovetail.ports.api_resources import (
    CAPACITY_BUFFERS,
    DEPLOYMENTS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POD_TEMPLATES,
    PODS,
)
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.cluster import Box
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, wait

ON = Gates(CapacityBuffer=True)


def a_buffer(**spec: Any) -> dict[str, Any]:
    """Room for pods like those of ``web``, each of which needs a node of its own."""
    usual = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": usual | spec,
    }


def a_cluster(*more: dict[str, Any], replicas: int = 0, gates: Gates = ON, **pool: Any) -> Box:
    objects = (a_node_class(), a_pool(**pool), an_app(replicas=replicas), *more)
    box = a_box(a_story(objects=objects, home=0), gates=gates)
    wait(box, 60)
    return box


def nodes(box: Box) -> int:
    return len(box.api.list(NODES).items)


def told(box: Box, kind: str) -> tuple[str, str]:
    known = box.api.get(CAPACITY_BUFFERS, "spare", "default").get("status", {})
    found = [one for one in known.get("conditions", ()) if one["type"] == kind]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def scale(box: Box, replicas: int) -> None:
    box.api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, PatchType.MERGE, "default")


def test_room_is_bought_for_pods_that_are_not_there_and_stays() -> None:
    box = a_cluster(a_buffer(replicas=2))
    before = nodes(box)

    wait(box, 3600)

    assert before == 2
    assert nodes(box) == 2
    assert box.api.list(PODS).items == []
    assert told(box, "ReadyForProvisioning") == ("True", "Resolved")
    assert told(box, "Provisioning") == ("True", "FitsExistingCapacity")
    assert box.api.get(CAPACITY_BUFFERS, "spare", "default")["status"]["replicas"] == 2
    assert box.invariants.violations == []


def test_while_nodes_are_on_their_way_nothing_is_bought_twice() -> None:
    box = a_cluster(a_buffer(replicas=2))

    assert box.ec2.ledger.machines == 2
    assert len(box.api.list(NODE_CLAIMS).items) == 2


def test_a_pod_that_comes_finds_its_place_at_once_and_the_room_is_filled_up_again() -> None:
    box = a_cluster(a_buffer(replicas=1))

    scale(box, 1)
    wait(box, 5)
    (pod,) = box.api.list(PODS).items
    at_once = pod["spec"].get("nodeName", "")
    wait(box, 60)

    assert at_once
    assert nodes(box) == 2


def test_a_buffer_that_is_taken_away_lets_its_nodes_go() -> None:
    box = a_cluster(a_buffer(replicas=2))

    box.api.delete(CAPACITY_BUFFERS, "spare", "default")
    wait(box, 120)

    assert nodes(box) == 0


def test_a_smaller_buffer_gives_back_what_it_no_longer_needs() -> None:
    box = a_cluster(a_buffer(replicas=3))

    box.api.patch(CAPACITY_BUFFERS, "spare", {"spec": {"replicas": 1}}, PatchType.MERGE, "default")
    wait(box, 120)

    assert nodes(box) == 1


def test_a_share_of_a_workload_grows_with_it() -> None:
    box = a_cluster(a_buffer(percentage=50), replicas=2)
    before = nodes(box)

    scale(box, 4)
    wait(box, 120)

    assert before == 3
    assert nodes(box) == 6


def test_limits_of_the_pool_hold_for_buffers_too() -> None:
    box = a_cluster(a_buffer(replicas=5), limits={"nodes": "2"})

    wait(box, 300)

    assert nodes(box) == 2
    assert told(box, "Provisioning") == ("False", "RequiresNewCapacity")


def test_the_template_of_a_pod_will_do_instead_of_a_workload() -> None:
    template = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "web", "namespace": "default"},
        "template": an_app()["spec"]["template"],
    }
    spec = {"podTemplateRef": {"name": "web"}, "replicas": 2, "scalableRef": None}
    buffer = a_buffer(**spec)
    del buffer["spec"]["scalableRef"]

    box = a_cluster(template, buffer)

    assert nodes(box) == 2
    box.api.delete(POD_TEMPLATES, "web", "default")
    wait(box, 120)
    assert told(box, "ReadyForProvisioning") == ("False", "PodTemplateNotFound")
    assert nodes(box) == 0


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ({"apiGroup": "apps", "kind": "Deployment", "name": "gone"}, "ScalableRefNotFound"),
        ({"apiGroup": "apps", "kind": "DaemonSet", "name": "web"}, "ResolutionFailed"),
        ({"apiGroup": "example.com", "kind": "Deployment", "name": "web"}, "ResolutionFailed"),
    ],
)
def test_what_cannot_be_found_is_told_and_keeps_no_room(ref: dict[str, str], reason: str) -> None:
    box = a_cluster(a_buffer(scalableRef=ref, replicas=2))

    assert told(box, "ReadyForProvisioning") == ("False", reason)
    assert told(box, "Provisioning") == ("False", "NotReadyForProvisioning")
    assert nodes(box) == 0


def test_a_workload_that_appears_later_is_found_within_half_a_minute() -> None:
    ref = {"apiGroup": "apps", "kind": "Deployment", "name": "late"}
    box = a_cluster(a_buffer(scalableRef=ref, replicas=1))

    box.apply([an_app("late")])
    wait(box, 60)

    assert told(box, "ReadyForProvisioning") == ("True", "Resolved")
    assert nodes(box) == 1


def test_controllers_that_start_anew_keep_the_room_and_buy_nothing_twice() -> None:
    box = a_cluster(a_buffer(replicas=2))
    wait(box, 600)

    box.restart()
    wait(box, 120)

    assert nodes(box) == 2
    assert box.ec2.ledger.machines == 2


def test_a_buffer_of_another_kind_is_somebody_elses() -> None:
    box = a_cluster(a_buffer(replicas=2, provisioningStrategy="example.com/other"))

    assert nodes(box) == 0
    assert told(box, "ReadyForProvisioning") == ("", "")


def test_it_is_off_unless_switched_on() -> None:
    box = a_cluster(a_buffer(replicas=2), gates=Gates())

    assert nodes(box) == 0
    assert told(box, "ReadyForProvisioning") == ("", "")


def test_nothing_is_written_when_nothing_changes() -> None:
    box = a_cluster(a_buffer(replicas=1))
    before = {
        (kind.plural, one["metadata"]["name"]): one["metadata"]["resourceVersion"]
        for kind in (CAPACITY_BUFFERS, NODE_CLAIMS, NODE_POOLS)
        for one in box.api.list(kind).items
    }
    wait(box, 60)

    after = {
        (kind.plural, one["metadata"]["name"]): one["metadata"]["resourceVersion"]
        for kind in (CAPACITY_BUFFERS, NODE_CLAIMS, NODE_POOLS)
        for one in box.api.list(kind).items
    }
    assert after == before
