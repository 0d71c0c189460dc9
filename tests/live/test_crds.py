"""An API server with our definitions: what it takes, refuses, fills in and shows."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.codec.crds.nodepool import NODE_POOL
from dovetail.codec.rewrite.files import convert_files
from tests.codec.crds import accepted, refused
from tests.codec.crds.objects import (
    Object,
    Refused,
    a_claim,
    a_class,
    a_pool,
    demand,
    requiring,
    templated,
)
from tests.live.cluster import Cluster, wait_for
from tests.live.crds import install_crds
from tests.live.refusing import refusals

ROOT = Path(__file__).parents[2]
KINDS = ("NodePool", "NodeClaim", "EC2NodeClass", "NodeOverlay", "CapacityBuffer")


@pytest.fixture(scope="module")
def cluster(live_cluster: Cluster) -> Cluster:
    install_crds(live_cluster)
    return live_cluster


def named(obj: Object, name: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": name}}


@pytest.fixture(scope="module")
def told_of_bad_ones(cluster: Cluster) -> list[str]:
    return refusals(cluster, [one.object for one in refused.REFUSED])


@pytest.mark.parametrize(
    ("at", "one"), list(enumerate(refused.REFUSED)), ids=[one.what for one in refused.REFUSED]
)
def test_what_makes_no_sense_is_refused_in_words(
    told_of_bad_ones: list[str], at: int, one: Refused
) -> None:
    assert one.told in (told_of_bad_ones[at] or "it is taken")


@pytest.fixture(scope="module")
def told_of_good_ones(cluster: Cluster) -> list[str]:
    return refusals(cluster, [one for _, one in accepted.ACCEPTED])


@pytest.mark.parametrize(
    "at", range(len(accepted.ACCEPTED)), ids=[what for what, _ in accepted.ACCEPTED]
)
def test_what_makes_sense_is_taken(told_of_good_ones: list[str], at: int) -> None:
    assert told_of_good_ones[at] == ""


@pytest.mark.parametrize(
    "one", refused.FORBIDDEN_CHANGES, ids=[one.what for one in refused.FORBIDDEN_CHANGES]
)
def test_what_must_stay_cannot_be_changed(cluster: Cluster, one: refused.Change) -> None:
    at = refused.FORBIDDEN_CHANGES.index(one)
    cluster.apply(named(one.before, f"crd-kept-{at}"))

    after = json.dumps(named(one.after, f"crd-kept-{at}"))
    told = cluster.try_kubectl("replace", "-f", "-", stdin=after)

    assert one.told in told.stderr


@pytest.mark.parametrize(
    "one", accepted.ALLOWED_CHANGES, ids=[one.what for one in accepted.ALLOWED_CHANGES]
)
def test_all_else_can_be_changed(cluster: Cluster, one: accepted.Change) -> None:
    at = accepted.ALLOWED_CHANGES.index(one)
    cluster.apply(named(one.before, f"crd-free-{at}"))

    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(named(one.after, f"crd-free-{at}")))


def objects_in(path: Path) -> list[Object]:
    """Return what is of our kinds in a file, older versions as they are today."""
    text = path.read_text(encoding="utf-8")
    documents = [one for one in yaml.safe_load_all(text) if one]
    lists = [one["manifests"] for one in documents if "manifests" in one]
    plain = "---\n".join(yaml.safe_dump(one) for many in lists for one in many) or text
    converted = convert_files([(path.name, plain.encode())])
    return [one.value for one in converted if one.value.get("kind") in KINDS]


MANIFESTS = [
    ROOT / "src/dovetail/data/sandbox.yaml",
    *sorted((ROOT / "src/dovetail/data/scenarios").glob("*.yaml")),
    *sorted((ROOT / "examples/manifests").glob("node*.yaml")),
    *sorted((ROOT / "tests/codec/crds/manifests").glob("*.yaml")),
]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_that_people_have_are_taken(cluster: Cluster, path: Path) -> None:
    found = objects_in(path)

    assert found
    assert refusals(cluster, found) == [""] * len(found)


def larger(schema: Any) -> Any:
    """Return a schema in which lists and maps may be twice as long."""
    if isinstance(schema, dict):
        bounds = ("maxItems", "maxProperties")
        return {
            name: one * 2 if name in bounds and isinstance(one, int) else larger(one)
            for name, one in schema.items()
        }
    return [larger(one) for one in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("one", DEFINITIONS, ids=lambda one: one.kind)
def test_rules_cost_far_less_than_an_api_server_allows(cluster: Cluster, one: Definition) -> None:
    """How cost is reckoned differs from version to version; there must be room."""
    doubled = json.dumps(larger(one.written()))

    told = cluster.try_kubectl("apply", "--dry-run=server", "-f", "-", stdin=doubled)

    assert "exceeds budget" not in told.stderr
    assert told.returncode == 0


def test_what_is_not_said_is_filled_in(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(), "crd-filled"), named(a_claim(), "crd-filled"))
    cluster.apply(named(a_class(), "crd-filled"))

    pool = cluster.read("nodepool", "crd-filled")["spec"]
    claim = cluster.read("nodeclaim", "crd-filled")["spec"]
    node_class = cluster.read("ec2nodeclass", "crd-filled")["spec"]

    assert pool["disruption"] == {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }
    assert pool["template"]["spec"]["expireAfter"] == claim["expireAfter"] == "720h"
    assert node_class["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }


def test_what_is_said_stays_and_only_the_rest_is_filled_in(cluster: Cluster) -> None:
    pool = a_pool(disruption={"consolidateAfter": "5m", "budgets": [{"reasons": ["Empty"]}]})
    node_class = a_class(metadataOptions={"httpTokens": "optional"})

    cluster.apply(named(pool, "crd-partly"), named(node_class, "crd-partly"))

    assert cluster.read("nodepool", "crd-partly")["spec"]["disruption"] == {
        "consolidateAfter": "5m",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%", "reasons": ["Empty"]}],
    }
    options = cluster.read("ec2nodeclass", "crd-partly")["spec"]["metadataOptions"]
    assert (options["httpTokens"], options["httpEndpoint"]) == ("optional", "enabled")


def test_a_field_that_there_is_not_is_told(cluster: Cluster) -> None:
    misspelt = named(templated(expiresAfter="1h"), "crd-misspelt")

    told = cluster.try_kubectl("create", "-f", "-", stdin=json.dumps(misspelt))

    assert 'unknown field "spec.template.spec.expiresAfter"' in told.stderr


def test_kubectl_explains_every_field(cluster: Cluster) -> None:
    told = cluster.kubectl("explain", "nodepool.spec.disruption.budgets.nodes")

    assert "How many nodes of the pool may go at once" in told


def columns(cluster: Cluster, *arguments: str) -> list[str]:
    header = cluster.kubectl("get", *arguments).splitlines()[0]
    return header.split()


@pytest.mark.parametrize(
    ("kind", "shown", "wide"),
    [
        ("nodepools", "NAME NODECLASS NODES READY AGE", "WEIGHT CPU MEMORY"),
        (
            "nodeclaims",
            "NAME TYPE CAPACITY ZONE NODE READY AGE",
            "IMAGEID ID NODEPOOL NODECLASS DRIFTED",
        ),
        ("ec2nodeclasses", "NAME READY AGE", "ROLE"),
        ("nodeoverlays", "NAME READY AGE", "WEIGHT"),
    ],
)
def test_kubectl_shows_what_matters(cluster: Cluster, kind: str, shown: str, wide: str) -> None:
    good = {"nodepools": a_pool(), "nodeclaims": a_claim(), "ec2nodeclasses": a_class()}
    overlay = accepted.OVERLAYS["the least"]
    cluster.apply(named(good.get(kind, overlay), "crd-shown"))

    assert columns(cluster, kind, "crd-shown") == shown.split()
    assert columns(cluster, kind, "crd-shown", "-o", "wide") == [*shown.split(), *wide.split()]


def test_buffers_are_shown_in_their_namespace(cluster: Cluster) -> None:
    cluster.apply(named(accepted.BUFFERS["of a template"], "crd-shown"))

    shown = columns(cluster, "cb", "-n", "default", "crd-shown")

    assert shown == ["NAME", "STRATEGY", "PODTEMPLATE", "REPLICAS", "READY", "AGE"]


def test_a_pool_shows_its_class_its_nodes_and_whether_it_is_ready(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(weight=10), "crd-row"))
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "", "message": ""}
    status = {
        "nodes": 3,
        "resources": {"cpu": "12"},
        "conditions": [{"type": "Ready", "status": "True", **since}],
    }
    patch = json.dumps({"status": status})
    cluster.kubectl(
        "patch", "nodepool", "crd-row", "--subresource=status", "--type=merge", "-p", patch
    )

    row = cluster.kubectl("get", "nodepool", "crd-row", "-o", "wide").splitlines()[1].split()

    assert row[:4] == ["crd-row", "default", "3", "True"]
    assert row[5:7] == ["10", "12"]


def test_everything_of_ours_is_found_by_short_names_and_category(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(), "crd-found"), named(a_class(), "crd-found"))

    together = cluster.kubectl("get", "karpenter", "-o", "name")

    assert "nodepool.karpenter.sh/crd-found" in together
    assert "ec2nodeclass.karpenter.k8s.aws/crd-found" in together
    for short in ("ec2nc", "ec2ncs"):
        assert cluster.read(short, "crd-found")["kind"] == "EC2NodeClass"
    assert cluster.kubectl("get", "overlays", "-o", "name") is not None


def test_kubectl_scales_a_static_pool(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(replicas=1), "crd-scaled"))

    cluster.kubectl("scale", "nodepool", "crd-scaled", "--replicas=4")

    assert cluster.read("nodepool", "crd-scaled")["spec"]["replicas"] == 4


def test_kubectl_cannot_scale_a_pool_that_follows_its_pods(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(), "crd-unscaled"))

    done = cluster.try_kubectl("scale", "nodepool", "crd-unscaled", "--replicas=4")

    assert done.returncode != 0
    assert "replicas" not in cluster.read("nodepool", "crd-unscaled")["spec"]


def test_a_status_is_written_apart_and_nothing_of_it_is_lost(cluster: Cluster) -> None:
    cluster.apply(named(a_class(), "crd-status"))
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    status: dict[str, Any] = {
        "subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "amis": [
            {
                "id": "ami-1",
                "name": "a",
                "requirements": [demand("kubernetes.io/arch", "In", "arm64")],
            }
        ],
        "capacityReservations": [
            {
                "id": "cr-1",
                "ownerID": "012345678901",
                "instanceType": "m5.large",
                "availabilityZone": "us-east-1a",
                "instanceMatchCriteria": "open",
                "reservationType": "default",
                "interruptible": False,
                "state": "active",
                "endTime": "2026-02-01T00:00:00Z",
                "availableInstanceCount": 3,
            }
        ],
        "instanceProfile": "p",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "A", "message": "b", **since}
        ],
    }

    patch = json.dumps({"status": status, "spec": {"role": "others"}})
    cluster.kubectl(
        "patch", "ec2nodeclass", "crd-status", "--subresource=status", "--type=merge", "-p", patch
    )

    read = cluster.read("ec2nodeclass", "crd-status")
    assert read["status"] == status
    assert read["spec"]["role"] == "nodes"


def test_what_was_there_before_its_rule_can_still_be_worked_on(cluster: Cluster) -> None:
    ours = msgspec.structs.replace(NODE_POOL, group="older.example.com", categories=()).written()
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax = deepcopy(ours)
    lax["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": open_object}
    bad = named(requiring(demand("karpenter.sh/custom", "In", "a")), "crd-older")
    bad["apiVersion"] = "older.example.com/v1"
    cluster.apply(lax)
    cluster.kubectl("wait", "--for=condition=Established", "crd/nodepools.older.example.com")
    wait_for("the API serves it", lambda: accepts(cluster, bad))
    cluster.apply(ours)
    another = named(bad, "crd-newer")
    wait_for("the rules hold", lambda: not accepts(cluster, another))

    kind = "nodepools.older.example.com"
    cluster.kubectl("annotate", kind, "crd-older", "example.com/seen=true")
    cluster.kubectl("patch", kind, "crd-older", "--type=merge", "-p", '{"spec":{"weight":7}}')

    assert cluster.read(kind, "crd-older")["spec"]["weight"] == 7


def accepts(cluster: Cluster, obj: Object) -> bool:
    done = cluster.try_kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(obj))
    return done.returncode == 0
