"""CRDs on a real API server: validation, defaults, printer columns and scale."""

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
from tests.codec.crds import accepted, rejected
from tests.codec.crds.extremes import UNREADABLE, extremes
from tests.codec.crds.objects import (
    Object,
    Rejected,
    a_claim,
    a_class,
    a_pool,
    requirement,
    with_requirements,
    with_template,
)
from tests.codec.crds.test_decoders import decode_errors
from tests.live.admission import admission_errors
from tests.live.cluster import Cluster, wait_for
from tests.live.crds import install_crds

ROOT = Path(__file__).parents[2]
KINDS = ("NodePool", "NodeClaim", "EC2NodeClass", "NodeOverlay", "CapacityBuffer")


@pytest.fixture(scope="module")
def cluster(live_cluster: Cluster) -> Cluster:
    install_crds(live_cluster)
    return live_cluster


def named(obj: Object, name: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "name": name}}


@pytest.fixture(scope="module")
def rejected_errors(cluster: Cluster) -> list[str]:
    return admission_errors(cluster, [case.object for case in rejected.REJECTED])


@pytest.mark.parametrize(
    ("index", "case"),
    list(enumerate(rejected.REJECTED)),
    ids=[case.description for case in rejected.REJECTED],
)
def test_an_invalid_object_is_rejected_with_a_message(
    rejected_errors: list[str], index: int, case: Rejected
) -> None:
    assert case.message in (rejected_errors[index] or "accepted")


@pytest.fixture(scope="module")
def accepted_errors(cluster: Cluster) -> list[str]:
    return admission_errors(cluster, [obj for _, obj in accepted.ACCEPTED])


@pytest.mark.parametrize(
    "index", range(len(accepted.ACCEPTED)), ids=[description for description, _ in accepted.ACCEPTED]
)
def test_a_valid_object_is_accepted(accepted_errors: list[str], index: int) -> None:
    assert accepted_errors[index] == ""


def test_the_server_and_the_decoders_accept_the_same_extremes_of_every_field(cluster: Cluster) -> None:
    cases = extremes()
    errors = admission_errors(cluster, [case.object for case in cases])

    differences = [
        f"{case.description}: the server says {error[:300] or 'valid'!r}, we say {decode_errors(case.object)}"
        for case, error in zip(cases, errors, strict=True)
        if bool(error) != bool(decode_errors(case.object)) and (error or case.value not in UNREADABLE)
    ]

    assert len(cases) > 4_000
    assert differences == []


@pytest.mark.parametrize(
    "case", rejected.REJECTED_CHANGES, ids=[case.description for case in rejected.REJECTED_CHANGES]
)
def test_an_immutable_field_cannot_be_changed(cluster: Cluster, case: rejected.RejectedChange) -> None:
    index = rejected.REJECTED_CHANGES.index(case)
    cluster.apply(named(case.before, f"crd-kept-{index}"))

    after = json.dumps(named(case.after, f"crd-kept-{index}"))
    result = cluster.try_kubectl("replace", "-f", "-", stdin=after)

    assert case.message in result.stderr


@pytest.mark.parametrize(
    "case", accepted.ALLOWED_CHANGES, ids=[case.description for case in accepted.ALLOWED_CHANGES]
)
def test_a_mutable_field_can_be_changed(cluster: Cluster, case: accepted.Change) -> None:
    index = accepted.ALLOWED_CHANGES.index(case)
    cluster.apply(named(case.before, f"crd-free-{index}"))

    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(named(case.after, f"crd-free-{index}")))


def objects_in(path: Path) -> list[Object]:
    """Return a file's objects of Dovetail's kinds, converted to the current version."""
    text = path.read_text(encoding="utf-8")
    documents = [document for document in yaml.safe_load_all(text) if document]
    scenarios = [document["manifests"] for document in documents if "manifests" in document]
    plain = "---\n".join(yaml.safe_dump(obj) for objects in scenarios for obj in objects) or text
    converted = convert_files([(path.name, plain.encode())])
    return [document.value for document in converted if document.value.get("kind") in KINDS]


MANIFESTS = [
    ROOT / "src/dovetail/data/sandbox.yaml",
    *sorted((ROOT / "src/dovetail/data/scenarios").glob("*.yaml")),
    *sorted((ROOT / "examples/manifests").glob("node*.yaml")),
    *sorted((ROOT / "tests/codec/crds/manifests").glob("*.yaml")),
]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_real_manifests_are_accepted(cluster: Cluster, path: Path) -> None:
    objects = objects_in(path)

    assert objects
    assert admission_errors(cluster, objects) == [""] * len(objects)


def doubled(schema: Any) -> Any:
    """Return a schema that allows lists and maps of twice the length."""
    if isinstance(schema, dict):
        bounds = ("maxItems", "maxProperties")
        return {
            name: value * 2 if name in bounds and isinstance(value, int) else doubled(value)
            for name, value in schema.items()
        }
    return [doubled(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_validation_rules_cost_half_of_the_budget_at_most(cluster: Cluster, definition: Definition) -> None:
    """The cost estimate differs between Kubernetes versions, so there must be headroom."""
    schema = json.dumps(doubled(definition.encode()))

    result = cluster.try_kubectl("apply", "--dry-run=server", "-f", "-", stdin=schema)

    assert "exceeds budget" not in result.stderr
    assert result.returncode == 0


def test_unset_fields_get_defaults(cluster: Cluster) -> None:
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


def test_set_fields_stay_and_only_unset_ones_get_defaults(cluster: Cluster) -> None:
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


def test_an_unknown_field_is_rejected(cluster: Cluster) -> None:
    misspelt = named(with_template(expiresAfter="1h"), "crd-misspelt")

    result = cluster.try_kubectl("create", "-f", "-", stdin=json.dumps(misspelt))

    assert 'unknown field "spec.template.spec.expiresAfter"' in result.stderr


def test_kubectl_explains_every_field(cluster: Cluster) -> None:
    explanation = cluster.kubectl("explain", "nodepool.spec.disruption.budgets.nodes")

    assert "Maximum number of nodes disrupted at the same time" in explanation


def columns(cluster: Cluster, *arguments: str) -> list[str]:
    header = cluster.kubectl("get", *arguments).splitlines()[0]
    return header.split()


@pytest.mark.parametrize(
    ("kind", "shown", "wide"),
    [
        ("nodepools", "NAME NODECLASS NODES READY AGE", "WEIGHT CPU MEMORY"),
        ("nodeclaims", "NAME TYPE CAPACITY ZONE NODE READY AGE", "IMAGEID ID NODEPOOL NODECLASS DRIFTED"),
        ("ec2nodeclasses", "NAME READY AGE", "ROLE"),
        ("nodeoverlays", "NAME READY AGE", "WEIGHT"),
    ],
)
def test_kubectl_get_shows_the_printer_columns(cluster: Cluster, kind: str, shown: str, wide: str) -> None:
    objects = {"nodepools": a_pool(), "nodeclaims": a_claim(), "ec2nodeclasses": a_class()}
    overlay = accepted.OVERLAYS["the least"]
    cluster.apply(named(objects.get(kind, overlay), "crd-shown"))

    assert columns(cluster, kind, "crd-shown") == shown.split()
    assert columns(cluster, kind, "crd-shown", "-o", "wide") == [*shown.split(), *wide.split()]


def test_kubectl_get_shows_the_printer_columns_of_capacity_buffers(cluster: Cluster) -> None:
    cluster.apply(named(accepted.BUFFERS["of a template"], "crd-shown"))

    shown = columns(cluster, "cb", "-n", "default", "crd-shown")

    assert shown == ["NAME", "STRATEGY", "PODTEMPLATE", "REPLICAS", "READY", "AGE"]


def test_kubectl_get_shows_node_class_nodes_and_readiness_of_a_node_pool(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(weight=10), "crd-row"))
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "", "message": ""}
    status = {
        "nodes": 3,
        "resources": {"cpu": "12"},
        "conditions": [{"type": "Ready", "status": "True", **since}],
    }
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "nodepool", "crd-row", "--subresource=status", "--type=merge", "-p", patch)

    row = cluster.kubectl("get", "nodepool", "crd-row", "-o", "wide").splitlines()[1].split()

    assert row[:4] == ["crd-row", "default", "3", "True"]
    assert row[5:7] == ["10", "12"]


def test_kinds_have_short_names_and_a_category(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(), "crd-found"), named(a_class(), "crd-found"))

    together = cluster.kubectl("get", "karpenter", "-o", "name")

    assert "nodepool.karpenter.sh/crd-found" in together
    assert "ec2nodeclass.karpenter.k8s.aws/crd-found" in together
    for short in ("ec2nc", "ec2ncs"):
        assert cluster.read(short, "crd-found")["kind"] == "EC2NodeClass"
    assert cluster.kubectl("get", "overlays", "-o", "name") is not None


def test_kubectl_scales_a_static_node_pool(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(replicas=1), "crd-scaled"))

    cluster.kubectl("scale", "nodepool", "crd-scaled", "--replicas=4")

    assert cluster.read("nodepool", "crd-scaled")["spec"]["replicas"] == 4


def test_kubectl_cannot_scale_a_dynamic_node_pool(cluster: Cluster) -> None:
    cluster.apply(named(a_pool(), "crd-unscaled"))

    result = cluster.try_kubectl("scale", "nodepool", "crd-unscaled", "--replicas=4")

    assert result.returncode != 0
    assert "replicas" not in cluster.read("nodepool", "crd-unscaled")["spec"]


def test_status_is_a_subresource_and_keeps_all_its_fields(cluster: Cluster) -> None:
    cluster.apply(named(a_class(), "crd-status"))
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    status: dict[str, Any] = {
        "subnets": [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}],
        "securityGroups": [{"id": "sg-1", "name": "nodes"}],
        "amis": [
            {"id": "ami-1", "name": "a", "requirements": [requirement("kubernetes.io/arch", "In", "arm64")]}
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
        "conditions": [{"type": "Ready", "status": "False", "reason": "A", "message": "b", **since}],
    }

    patch = json.dumps({"status": status, "spec": {"role": "others"}})
    cluster.kubectl(
        "patch", "ec2nodeclass", "crd-status", "--subresource=status", "--type=merge", "-p", patch
    )

    read = cluster.read("ec2nodeclass", "crd-status")
    assert read["status"] == status
    assert read["spec"]["role"] == "nodes"


def test_an_object_older_than_a_validation_rule_can_still_be_updated(cluster: Cluster) -> None:
    definition = msgspec.structs.replace(NODE_POOL, group="older.example.com", categories=()).encode()
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax = deepcopy(definition)
    lax["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": open_object}
    invalid = named(with_requirements(requirement("karpenter.sh/custom", "In", "a")), "crd-older")
    invalid["apiVersion"] = "older.example.com/v1"
    cluster.apply(lax)
    cluster.kubectl("wait", "--for=condition=Established", "crd/nodepools.older.example.com")
    wait_for("the API server serves the kind", lambda: accepts(cluster, invalid))
    cluster.apply(definition)
    another = named(invalid, "crd-newer")
    wait_for("the validation rules are active", lambda: not accepts(cluster, another))

    kind = "nodepools.older.example.com"
    cluster.kubectl("annotate", kind, "crd-older", "example.com/seen=true")
    cluster.kubectl("patch", kind, "crd-older", "--type=merge", "-p", '{"spec":{"weight":7}}')

    assert cluster.read(kind, "crd-older")["spec"]["weight"] == 7


def accepts(cluster: Cluster, obj: Object) -> bool:
    result = cluster.try_kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(obj))
    return result.returncode == 0
