"""Dumps: no secrets, no names if wanted, and the same decisions."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.node_group_cluster import node_group_cluster
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.dump.anonymise import anonymise
from dovetail.dump.strip import strip_object, strip_objects
from dovetail.savings.analysis import SavingsInput, analyse
from dovetail.savings.report import Savings

Object = dict[str, Any]


def report_on(objects: list[Object]) -> Savings:
    catalog = bundled_catalog()
    return analyse(
        SavingsInput(
            objects=objects,
            now=datetime(2026, 11, 1, 12, 5, tzinfo=UTC),
            catalog=catalog,
            prices=bundled_prices(),
            region=catalog.regions["us-east-1"],
        )
    ).report


def a_pod() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "db-0",
            "namespace": "shop",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "vault.example.com/token": "s3cret",
                "karpenter.sh/do-not-disrupt": "true",
            },
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1"}],
        },
        "spec": {
            "nodeName": "ip-10-0-0-1",
            "imagePullSecrets": [{"name": "s3cret"}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/shop/db:1",
                    "env": [{"name": "PASSWORD", "value": "s3cret"}],
                    "envFrom": [{"secretRef": {"name": "s3cret"}}],
                    "command": ["run", "--password=s3cret"],
                    "args": ["s3cret"],
                    "livenessProbe": {"exec": {"command": ["s3cret"]}},
                    "resources": {"requests": {"cpu": "1"}},
                    "ports": [{"containerPort": 80, "hostPort": 80}],
                }
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
                {"name": "token", "secret": {"secretName": "s3cret"}},
                {"name": "config", "configMap": {"name": "s3cret"}},
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": "True", "message": "s3cret"}],
        },
    }


def test_nothing_secret_of_a_pod_gets_into_a_dump() -> None:
    stripped = strip_object(a_pod())

    assert "s3cret" not in json.dumps(stripped)
    assert stripped["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert stripped["spec"]["containers"] == [
        {
            "name": "main",
            "image": "registry.example.com/shop/db:1",
            "resources": {"requests": {"cpu": "1"}},
            "ports": [{"containerPort": 80, "hostPort": 80}],
        }
    ]
    assert stripped["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data-db-0"}


@pytest.mark.parametrize(
    "obj",
    [
        {
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"template": {"spec": a_pod()["spec"], "metadata": a_pod()["metadata"]}},
        },
        {
            "kind": "CronJob",
            "metadata": {"name": "web"},
            "spec": {"jobTemplate": {"spec": {"template": {"spec": a_pod()["spec"]}}}},
        },
        {
            "kind": "ControllerRevision",
            "metadata": {"name": "web"},
            "data": {"spec": {"template": {"spec": a_pod()["spec"]}}},
        },
        {
            "kind": "Secret",
            "metadata": {"name": "web"},
            "data": {"a": "s3cret"},
            "stringData": {"b": "s3cret"},
        },
        {"kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "s3cret"}},
        {"kind": "EC2NodeClass", "metadata": {"name": "web"}, "spec": {"userData": "s3cret", "role": "r"}},
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {
                "csi": {"driver": "ebs.csi.aws.com", "nodeStageSecretRef": {"name": "s3cret"}},
                "nfs": {"server": "s3cret", "path": "/s3cret"},
                "mountOptions": ["addr=s3cret"],
            },
        },
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5, "description": "s3cret"},
        {
            "kind": "CSINode",
            "metadata": {"name": "ip-10-0-0-1"},
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "s3cret"}]},
        },
        {
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "ports": [{"name": "s3cret", "containerPort": 80}],
                        "resources": {"claims": [{"name": "s3cret"}]},
                    }
                ]
            },
        },
    ],
    ids=lambda obj: obj["kind"],
)
def test_nothing_secret_of_other_kinds_gets_into_a_dump(obj: Object) -> None:
    assert "s3cret" not in json.dumps(strip_object(obj))


@pytest.mark.slow
def test_a_stripped_dump_gives_the_same_savings() -> None:
    objects = node_group_cluster(9, 120)

    assert report_on(strip_objects(objects)) == report_on(objects)


@pytest.mark.slow
def test_an_anonymised_dump_gives_the_same_sums() -> None:
    objects = strip_objects(node_group_cluster(12, 160))

    original, anonymous = report_on(objects), report_on(anonymise(objects))

    for field in ("nodes", "pods", "today", "consolidated", "from_scratch", "bound"):
        assert getattr(anonymous, field) == pytest.approx(getattr(original, field)), field
    assert [line.price for line in anonymous.blockers] == [line.price for line in original.blockers]


def test_no_name_of_the_user_is_left() -> None:
    text = json.dumps(anonymise(strip_objects(node_group_cluster(6, 80))))

    for word in ("shop", "app-", "team-", "ip-10", "checkout", "batch", "agent"):
        assert word not in text, word
    for fact in ("m5.xlarge", "us-east-1a", "ON_DEMAND", "nginx:1.27", "kube-system"):
        assert fact in text, fact


def test_no_account_key_or_snapshot_of_a_node_class_is_left() -> None:
    account = "123456789012"
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": {"karpenter.sh/checked": account}},
        "spec": {
            "amiSelectorTerms": [{"owner": account, "name": "golden-*"}, {"ssmParameter": "/golden/ami"}],
            "capacityReservationSelectorTerms": [{"ownerID": account}, {"ownerID": "self"}],
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "ebs": {
                        "kmsKeyID": f"arn:aws:kms:us-east-1:{account}:key/golden",
                        "snapshotID": "snap-0123456789abcdef0",
                        "volumeSize": "20Gi",
                    },
                }
            ],
        },
    }

    (changed,) = anonymise([strip_object(node_class)])

    text = json.dumps(changed)
    for word in (account, "golden", "snap-0123456789abcdef0"):
        assert word not in text, word
    assert changed["spec"]["capacityReservationSelectorTerms"][1] == {"ownerID": "self"}
    assert changed["spec"]["blockDeviceMappings"][0]["ebs"]["volumeSize"] == "20Gi"


def test_the_size_that_fargate_bills_stays() -> None:
    size = {"CapacityProvisioned": "4vCPU 16GB"}
    pod = {"kind": "Pod", "metadata": {"name": "web", "annotations": size}, "spec": {"containers": []}}

    (changed,) = anonymise([strip_object(pod)])

    assert changed["metadata"]["annotations"] == size


def test_names_that_are_composed_of_others_still_are() -> None:
    pod = strip_object(a_pod())
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-db-0", "namespace": "shop"}}
    owner = {"kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"}}
    node = {"kind": "Node", "metadata": {"name": "ip-10-0-0-1"}}

    new_pod, new_claim, new_owner, new_node = anonymise([pod, claim, owner, node])

    assert new_pod["metadata"]["name"] == f"{new_owner['metadata']['name']}-0"
    assert new_pod["metadata"]["ownerReferences"][0]["name"] == new_owner["metadata"]["name"]
    volume = new_pod["spec"]["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == new_claim["metadata"]["name"]
    assert new_pod["metadata"]["namespace"] == new_claim["metadata"]["namespace"] != "shop"
    assert new_pod["spec"]["nodeName"] == new_node["metadata"]["name"] == "node-1"


def test_nodeclaims_of_a_node_class_with_user_data_do_not_seem_to_drift() -> None:
    from dovetail.codec.fields import DecodeContext, Field
    from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
    from dovetail.core.nodeclass.hash import compute_nodeclass_hash

    key = "karpenter.k8s.aws/ec2nodeclass-hash"

    def hash_of(obj: Object) -> str:
        return compute_nodeclass_hash(decode_nodeclass(Field(obj, DecodeContext(strict=False))))

    node_class: Object = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {"userData": "#!/bin/sh", "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "r"},
    }
    node_class["metadata"]["annotations"] = {key: hash_of(node_class)}
    claim = {"kind": "NodeClaim", "metadata": {"name": "c", "annotations": {key: hash_of(node_class)}}}

    stripped, stripped_claim = strip_objects([node_class, claim])

    assert hash_of(stripped) != hash_of(node_class)
    assert stripped_claim["metadata"]["annotations"][key] == hash_of(stripped)
