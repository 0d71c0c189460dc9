"""Changes to a fork: images, versions, outages, interruptions and applied objects."""

import json
from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODE_POOLS, NODES
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Action, Apply, Interrupt, NewImages, Upgrade, ZoneOutage
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, wait
from tests.support.simulator.recorded import a_running_cluster, fork, of_kind, record


@pytest.fixture(scope="module")
def recorded() -> SimulatedCluster:
    return a_running_cluster(node_group=2)


def with_images(objects: list[dict[str, Any]], *terms: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects with other selector terms of the node class, resolved to the same images."""
    (node_class,) = of_kind(objects, "EC2NodeClass")
    node_class["spec"]["amiSelectorTerms"] = list(terms)
    node_class["spec"]["amiFamily"] = "AL2023"
    for image in node_class["status"]["amis"]:
        image["name"] = f"{image['name']}-v20260101"
    # The hash was computed for the earlier spec.
    hashes = [key for key in node_class["metadata"]["annotations"] if "ec2nodeclass-hash" in key]
    for obj in (node_class, *of_kind(objects, "NodeClaim")):
        for key in hashes:
            obj["metadata"]["annotations"].pop(key, None)
    return objects


def claims(cluster: SimulatedCluster) -> set[str]:
    return {claim["metadata"]["uid"] for claim in cluster.api.list(NODE_CLAIMS).items}


@pytest.mark.parametrize(
    ("term", "action", "replaced"),
    [
        ({"alias": "al2023@latest"}, NewImages(), True),
        ({"tags": {"team": "platform"}}, NewImages(), True),
        ({"name": "my-image-*", "owner": "self"}, NewImages(), True),
        ({"alias": "al2023@v20260101"}, NewImages(), False),
        ({"id": "ami-0123"}, NewImages(), False),
        ({"alias": "al2023@latest"}, NewImages(("other",)), False),
        ({"alias": "al2023@latest"}, Upgrade("1.37"), True),
        ({"alias": "al2023@v20260101"}, Upgrade("1.37"), True),
        ({"tags": {"team": "platform"}}, Upgrade("1.37"), False),
        ({"id": "ami-0123"}, Upgrade("1.37"), False),
    ],
)
def test_new_images_replace_nodes_whose_class_selects_them(
    recorded: SimulatedCluster, term: dict[str, Any], action: Action, replaced: bool
) -> None:
    forked = fork(with_images(record(recorded), term), recorded)
    before = claims(forked)

    perform(action, forked)
    wait(forked, 2400)

    assert not (claims(forked) & before) if replaced else claims(forked) == before
    assert forked.recorder.running == recorded.recorder.running
    assert forked.recorder.drifted == set()


def test_new_nodes_have_the_version_of_the_upgraded_control_plane(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)

    perform(Upgrade("1.37"), forked)
    wait(forked, 2400)

    versions = {
        node["status"]["nodeInfo"]["kubeletVersion"]
        for node in forked.api.list(NODES).items
        if "karpenter.sh/nodepool" in node["metadata"]["labels"]
    }
    assert versions == {"v1.37.0"}


@pytest.mark.parametrize(
    ("version", "running", "is_assumed"),
    [("", "v1.34.2", True), ("1.34", "v1.34.2", False), ("1.35", "v1.35.0", False)],
)
def test_new_nodes_have_the_version_of_the_control_plane_or_of_the_newest_node(
    recorded: SimulatedCluster, version: str, running: str, is_assumed: bool
) -> None:
    objects = record(recorded)
    nodes = of_kind(objects, "Node")
    for node in nodes:
        node["status"]["nodeInfo"]["kubeletVersion"] = "v1.33.9-eks-3025e55"
    nodes[0]["status"]["nodeInfo"]["kubeletVersion"] = "v1.34.2-eks-3025e55"

    forked = fork(objects, recorded, version=version)

    assert forked.fork is not None
    assert forked.kubelets.version == forked.fork.version == running
    assert forked.fork.version_is_assumed is is_assumed


def test_zone_outage_loses_all_nodes_of_the_zone_and_replaces_them_elsewhere(
    recorded: SimulatedCluster,
) -> None:
    forked = fork(record(recorded), recorded)
    zone_label = "topology.kubernetes.io/zone"
    zones = [node["metadata"]["labels"][zone_label] for node in forked.api.list(NODES).items]
    managed = [instance.choice.offering.zone for instance in forked.ec2.instances()]
    zone = managed[0]

    perform(ZoneOutage(zone), forked)
    lost = [launch for launch in forked.unmanaged.values() if launch.terminated is not None]
    wait(forked, 1800)

    after = [node["metadata"]["labels"][zone_label] for node in forked.api.list(NODES).items]
    assert zone in zones
    assert zone not in after
    assert len(lost) == sum(launch.zone == zone for launch in recorded.unmanaged.values())
    assert forked.recorder.running == 3
    assert forked.ec2.billing.instance_count == len(after)


def test_interruption_of_all_spot_instances_replaces_them(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)
    before = claims(forked)

    perform(Interrupt(1.0), forked)
    wait(forked, 1800)

    assert not claims(forked) & before
    assert forked.recorder.running == 3


def applied(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as ``kubectl apply`` has stored it."""
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(obj)}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotation}}


def test_field_that_the_changed_file_lacks_is_removed_as_by_kubectl_apply(recorded: SimulatedCluster) -> None:
    pool = a_pool(limits={"cpu": "100"}, weight=7)
    objects = [obj for obj in record(recorded) if obj["kind"] != "NodePool"]
    (old,) = of_kind(record(recorded), "NodePool")
    pool["metadata"] |= {"uid": old["metadata"]["uid"]}
    pool["status"] = old["status"]
    forked = fork([*objects, applied(pool)], recorded)

    perform(Apply((a_pool(weight=7),)), forked)

    spec = forked.api.get(NODE_POOLS, "default")["spec"]
    assert "limits" not in spec
    assert spec["weight"] == 7


def test_field_of_another_manager_stays_when_a_changed_file_is_applied(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    (deployment,) = of_kind(objects, "Deployment")
    deployment["metadata"].pop("managedFields", None)
    deployment["spec"]["minReadySeconds"] = 3
    forked = fork(objects, recorded)

    perform(Apply((an_app(replicas=4),)), forked)

    spec = forked.api.get(DEPLOYMENTS, "web", "default")["spec"]
    assert (spec["replicas"], spec["minReadySeconds"]) == (4, 3)


def test_changed_security_group_selector_replaces_all_nodes(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)
    before = claims(forked)
    changed = a_node_class()
    changed["spec"]["securityGroupSelectorTerms"] = [{"id": "sg-0new"}]

    perform(Apply((changed,)), forked)
    wait(forked, 2400)

    assert not claims(forked) & before


def test_alias_pinned_to_the_version_that_runs_replaces_nothing_but_the_hash(
    recorded: SimulatedCluster,
) -> None:
    forked = fork(with_images(record(recorded), {"alias": "al2023@latest"}), recorded)
    wait(forked, 60)
    images = [instance.image_id for instance in forked.ec2.instances()]

    changed = a_node_class()
    changed["spec"]["amiFamily"] = "AL2023"
    changed["spec"]["amiSelectorTerms"] = [{"alias": "al2023@v20260101"}]
    perform(Apply((changed,)), forked)
    wait(forked, 2400)

    assert [instance.image_id for instance in forked.ec2.instances()] == images
