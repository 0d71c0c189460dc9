"""Random valid cluster.yaml files, and edits of every field of the schema.

``VALUES`` says what a field can be. ``random_pair`` makes a file and a second one
that differs in a chosen field, and often in others.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from functools import cache
from random import Random  # noqa: TID251 - seeded
from typing import Any, Final

import msgspec
import yaml

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.validation.load import load_config
from dovetail.errors import InvalidInputError
from tests.support.eks.schema_fields import changed_fields, schema_fields

Document = dict[str, Any]
ABSENT: Final = "(absent)"
"""Stands for a field that the file does not have."""
_ACCOUNT: Final = "arn:aws:iam::123456789012"
_POLICY: Final = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"
_OWN_POLICY: Final = f"{_ACCOUNT}:policy/extra"
_CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap"}
_EXTRA: Final = {**_CONFIG_MAP, "metadata": {"name": "extra", "namespace": "default"}, "data": {"a": "b"}}
_CLASS: Final = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "written"},
    "spec": {
        "role": "Workers",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}],
        "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
    },
}
_POOL: Final = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "written"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }
        }
    },
}
_NAMESPACE: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
_TEAM: Final = {**_CONFIG_MAP, "metadata": {"name": "settings", "namespace": "team"}, "data": {"a": "b"}}
_DEPLOYMENT: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}
_STATEMENT: Final = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
_GROUP_VALUES: Final[dict[str, list[Any]]] = {
    "instanceTypes": [ABSENT, ["m5.large"], ["m6i.large", "m5.large"]],
    "architecture": [ABSENT, "amd64", "arm64"],
    "capacityType": [ABSENT, "on-demand", "spot"],
    "desired": [ABSENT, 2, 3],
    "min": [ABSENT, 1, 2],
    "max": [ABSENT, 3, 5],
    "maxUnavailablePercentage": [ABSENT, 33, 50],
    "diskGib": [ABSENT, 30, 50],
    "labels": [ABSENT, {"team": "a"}, {"team": "b", "tier": "web"}],
    "taints[]": [ABSENT, [{"key": "a"}], [{"key": "a"}, {"key": "b", "value": "x"}]],
    "taints[].key": ["team", "tier"],
    "taints[].value": [ABSENT, "x", "y"],
    "taints[].effect": [ABSENT, "NoSchedule", "NoExecute", "PreferNoSchedule"],
    "launchTemplate": [ABSENT, True, False],
    "image": [ABSENT, "al2023", "bottlerocket"],
}
VALUES: Final[dict[str, list[Any]]] = {
    "account": [ABSENT, "123456789012", "210987654321"],
    "version": ["1.32", "1.33", "1.34"],
    "tags": [ABSENT, {"team": "a"}, {"team": "b", "cost-center": "7"}, {"owner": "x"}],
    "vpc.create.cidr": [ABSENT, "10.0.0.0/16", "10.8.0.0/18"],
    "vpc.create.zones": [ABSENT, 2, 3, 4, ["us-east-1a", "us-east-1b"], ["us-east-1a", "us-east-1c"]],
    "vpc.create.privateSubnets": [
        ABSENT,
        ["10.0.0.0/20", "10.0.16.0/20"],
        ["10.0.0.0/20", "10.0.32.0/20"],
        ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"],
    ],
    "vpc.create.publicSubnets": [
        ABSENT,
        ["10.0.240.0/24", "10.0.241.0/24"],
        ["10.0.240.0/24", "10.0.242.0/24"],
        ["10.0.240.0/24", "10.0.241.0/24", "10.0.242.0/24"],
    ],
    "vpc.create.nat": [ABSENT, "single", "per-zone", "none"],
    "vpc.create.endpoints": [ABSENT, ["s3"], ["s3", "ecr.api"], ["sts"], ["dynamodb", "sqs"]],
    "vpc.existing.id": [ABSENT, "$vpc"],
    "vpc.existing.subnets.ids": [["$subnet-a", "$subnet-b"], ["$subnet-a", "$subnet-b", "$subnet-c"]],
    "vpc.existing.subnets.tags": [{"tier": "private"}, {"tier": "private", "zone-set": "small"}],
    "vpc.existing.controlPlaneSubnets": [ABSENT, ["$subnet-c", "$subnet-d"], ["$subnet-a", "$subnet-d"]],
    "vpc.existing.securityGroups.ids": [["$group-a"], ["$group-a", "$group-b"]],
    "vpc.existing.securityGroups.tags": [{"purpose": "nodes"}, {"purpose": "other"}],
    "vpc.existing.discovery": [ABSENT, "ids", "tags"],
    "endpoint.public": [ABSENT, True, False],
    "endpoint.private": [ABSENT, True, False],
    "endpoint.publicCidrs": [ABSENT, ["203.0.113.0/24"], ["198.51.100.0/24", "203.0.113.0/24"]],
    "endpoint.vpnCidrs": [ABSENT, ["10.99.0.0/16"], ["10.98.0.0/16", "10.99.0.0/16"], ["10.97.0.0/16"]],
    "ingress[]": [ABSENT, [{"ports": 443}], [{"ports": 443}, {"ports": "30000-32767", "protocol": "udp"}]],
    "ingress[].protocol": [ABSENT, "tcp", "udp"],
    "ingress[].ports": [443, "8000-8080", "80"],
    "ingress[].cidrs": [ABSENT, ["10.1.0.0/16"], ["10.2.0.0/16", "10.1.0.0/16"], ["10.3.0.0/16"]],
    "nodeSecurityGroup.tags": [ABSENT, {"team": "net"}, {"team": "sec", "audit": "yes"}],
    "support": [ABSENT, "standard", "extended"],
    "logging.types": [ABSENT, ["api"], ["api", "audit"], ["scheduler"]],
    "logging.retentionDays": [ABSENT, 7, 30],
    "home.name": [ABSENT, "controller", "system"],
    **{f"home.{name}": values for name, values in _GROUP_VALUES.items()},
    "home.kind": ["managed-node-group", "fargate"],
    "home.taint": [ABSENT, True, False],
    "home.selector": [ABSENT, {"role": "controller"}, {"role": "system"}],
    "home.namespaces": [ABSENT, ["kube-system", "batch"], ["kube-system", "web", "batch"]],
    "home.nodeRole": [ABSENT, "Workers", "Developers"],
    "home.ssm": [ABSENT, True, False],
    "home.oidcProvider": [ABSENT, "existing", "create"],
    "home.nodeSelector": [ABSENT, {"role": "system"}, {"role": "infra"}],
    "identity": [ABSENT, "pod-identity", "irsa"],
    "iam.prefix": [ABSENT, "team", "dev-team"],
    "iam.path": [ABSENT, "/", "/platform/"],
    "iam.permissionsBoundary": [ABSENT, _POLICY, f"{_ACCOUNT}:policy/boundary"],
    "iam.nodeRole.use": [ABSENT, "own", "home"],
    "iam.nodeRole.arn": [ABSENT, f"{_ACCOUNT}:role/Workers", f"{_ACCOUNT}:role/Developers"],
    "iam.nodeRole.policies": [ABSENT, [_POLICY], [_POLICY, _OWN_POLICY]],
    "iam.nodeRole.instanceProfile": [ABSENT, True, False],
    "access.mode": [ABSENT, "entries", "aws-auth"],
    "access.admins": [
        ABSENT,
        ["operator"],
        ["admin"],
        ["admin", f"{_ACCOUNT}:role/Viewers"],
        [f"{_ACCOUNT}:user/operator"],
    ],
    "access.roles[]": [
        ABSENT,
        [{"roleArn": f"{_ACCOUNT}:role/Developers"}],
        [{"roleArn": f"{_ACCOUNT}:role/Developers"}, {"roleArn": f"{_ACCOUNT}:role/Viewers"}],
    ],
    "access.roles[].roleArn": [f"{_ACCOUNT}:role/Developers", f"{_ACCOUNT}:role/Viewers"],
    "access.roles[].username": [ABSENT, "developer", "dev:{{SessionName}}"],
    "access.roles[].groups": [ABSENT, ["developers"], ["developers", "viewers"], ["system:masters"]],
    "access.users[]": [ABSENT, [{"userArn": f"{_ACCOUNT}:user/alice"}]],
    "access.users[].userArn": [f"{_ACCOUNT}:user/alice", f"{_ACCOUNT}:user/bob"],
    "access.users[].username": [ABSENT, "alice", "alice-admin"],
    "access.users[].groups": [ABSENT, ["viewers"], ["system:masters", "viewers"]],
    "access.*[].policies": [ABSENT, ["AmazonEKSViewPolicy"], ["AmazonEKSEditPolicy", "AmazonEKSViewPolicy"]],
    "access.*[].namespaces": [ABSENT, ["default"], ["default", "kube-system"]],
    "access.accounts": [ABSENT, ["210987654321"], ["210987654321", "310987654321"]],
    "access.creatorIsAdmin": [ABSENT, True, False],
    "access.consoleRoles": [ABSENT, ["Developers"], ["Developers", "Viewers"], ["Viewers"]],
    "controller.kind": ["dovetail", "karpenter"],
    "controller.version": [ABSENT, "1.2.3", "1.2.4"],
    "controller.image": ["registry.example.com/dovetail:1", "registry.example.com/dovetail:2"],
    "controller.chart": [
        ABSENT,
        "oci://registry.example.com/charts/dovetail",
        "oci://mirror.example.com/dovetail",
    ],
    "controller.crdChart": [ABSENT, "oci://registry.example.com/dovetail-crd"],
    "controller.release": [ABSENT, "scaler", "autoscaler"],
    "controller.namespace": [ABSENT, "kube-system", "scaling"],
    "controller.createNamespace": [ABSENT, True, False],
    "controller.serviceAccount": [ABSENT, "scaler", "nodes"],
    "controller.replicas": [ABSENT, 1, 2],
    "controller.interruptionQueue": [ABSENT, True, False],
    "controller.regionalSts": [ABSENT, True, False],
    "controller.resources": [ABSENT, {"requests": {"cpu": "2"}}, {"requests": {"cpu": "3"}}],
    "controller.settings": [ABSENT, {"batchMaxDuration": "5s"}, {"batchMaxDuration": "9s", "x": "y"}],
    "controller.values": [ABSENT, {"podLabels": {"a": "b"}}, {"logLevel": "debug"}],
    "nodeClasses[]": [ABSENT, [{"name": "default"}, {"name": "other"}], [{"name": "default"}, _CLASS]],
    "nodeClasses[].name": ["default", "general"],
    "nodeClasses[].image": [ABSENT, "al2023@latest", "bottlerocket@latest"],
    "nodeClasses[].imageFamily": ["AL2023", "Bottlerocket"],
    "nodeClasses[].diskGib": [ABSENT, 40, 80],
    "nodeClasses[].userData": [ABSENT, "[settings]\na = 1", "[settings]\na = 2"],
    "nodeClasses[].hopLimit": [ABSENT, 1, 2],
    "nodeClasses[].detailedMonitoring": [ABSENT, True, False],
    "nodeClasses[].tags": [ABSENT, {"team": "a"}, {"stage": "b"}],
    "nodePools[]": [
        [{"name": "default"}],
        [{"name": "default"}, {"name": "spot", "capacityTypes": ["spot"]}],
        [{"name": "default"}, _POOL],
    ],
    "nodePools[].name": ["default", "general"],
    "nodePools[].nodeClass": [ABSENT, "default", "other"],
    "nodePools[].architectures": [ABSENT, ["amd64"], ["amd64", "arm64"]],
    "nodePools[].capacityTypes": [ABSENT, ["spot"], ["spot", "on-demand"], ["reserved", "on-demand"]],
    "nodePools[].categories": [ABSENT, ["c", "m"], ["m"]],
    "nodePools[].families": [ABSENT, ["m5", "c5"], ["m6i"]],
    "nodePools[].sizes": [ABSENT, ["large"], ["large", "xlarge"]],
    "nodePools[].instanceTypes": [ABSENT, ["m5.large"], ["m5.large", "m6i.large"]],
    "nodePools[].newerThan": [ABSENT, 3, 4],
    "nodePools[].zones": [ABSENT, ["us-east-1a"], ["us-east-1a", "us-east-1b"]],
    "nodePools[].requirements": [
        ABSENT,
        [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["33"]}],
        [{"key": "team", "operator": "In", "values": ["a"]}],
    ],
    "nodePools[].limits.cpu": [ABSENT, 100, "200"],
    "nodePools[].limits.memory": [ABSENT, "100Gi", "200Gi"],
    "nodePools[].limits.nodes": [ABSENT, 5, 10],
    "nodePools[].ttlAfterEmpty": [ABSENT, 30, "1h"],
    "nodePools[].consolidateAfter": [ABSENT, "10s", 60],
    "nodePools[].expireAfter": [ABSENT, "Never", "24h"],
    "nodePools[].terminationGracePeriod": [ABSENT, "1h", 60],
    "nodePools[].budget": [ABSENT, "20%", "3"],
    "nodePools[].weight": [ABSENT, 10, 20],
    "nodePools[].labels": [ABSENT, {"team": "a"}, {"stage": "b"}],
    "nodePools[].*aints[]": [ABSENT, [{"key": "a"}], [{"key": "a"}, {"key": "b", "value": "x"}]],
    "nodePools[].*aints[].key": ["team", "tier"],
    "nodePools[].*aints[].value": [ABSENT, "x", "y"],
    "nodePools[].*aints[].effect": [ABSENT, "NoSchedule", "NoExecute"],
    "nodeGroups[]": [ABSENT, [{"name": "extra"}], [{"name": "extra"}, {"name": "more"}], [{"name": "more"}]],
    "nodeGroups[].name": ["extra", "batch"],
    **{f"nodeGroups[].{name}": values for name, values in _GROUP_VALUES.items()},
    "serviceAccounts[]": [
        ABSENT,
        [{"name": "reports", "policies": [_POLICY]}],
        [{"name": "reports", "policies": [_POLICY]}, {"name": "jobs", "statements": [_STATEMENT]}],
    ],
    "serviceAccounts[].name": ["reports", "sales"],
    "serviceAccounts[].namespace": [ABSENT, "default", "web", "batch"],
    "serviceAccounts[].policies": [ABSENT, [_POLICY], [_OWN_POLICY, _POLICY]],
    "serviceAccounts[].statements": [ABSENT, [_STATEMENT], [{**_STATEMENT, "Action": "s3:PutObject"}]],
    "serviceAccounts[].annotations": [ABSENT, {"team": "a"}, {"stage": "b"}],
    "addons.*.enabled": [ABSENT, True, False],
    "addons.*.version": [ABSENT, "1.2.3", "1.2.4"],
    "addons.*.values": [ABSENT, {"replicaCount": 2}, {"replicaCount": 3, "x": {"y": 1}}, {"z": 1}],
    "addons.*.namespace": [ABSENT, "monitoring", "tools"],
    "addons.*.repository": [ABSENT, "https://charts.example.com", "oci://registry.example.com/charts"],
    "objects": [
        ABSENT,
        [_EXTRA],
        [{**_EXTRA, "data": {"c": "d"}}],
        [_NAMESPACE, _TEAM],
        [_DEPLOYMENT, _EXTRA],
    ],
}
"""Pattern of a field → its values. The first pattern that matches counts."""
EXEMPT: Final = {
    "ipFamily": "EKS decides it at creation; a change is refused",
    "serviceCidr": "EKS decides it at creation; a change is refused",
    "secretsEncryption.keyArn": "EKS does not change the key of a cluster; a change is refused",
    "name": "another name is another cluster: tests/eks/apply/test_ownership.py",
    "region": "another region is another cluster: tests/eks/apply/test_ownership.py",
}
"""Fields that ``random_pair`` does not edit, and why."""
_FIRST_ELEMENTS: Final[dict[str, Any]] = {
    "ingress": {"ports": 443},
    "access.roles": {"roleArn": f"{_ACCOUNT}:role/Developers"},
    "access.users": {"userArn": f"{_ACCOUNT}:user/alice"},
    "nodeClasses": {"name": "default"},
    "nodePools": {"name": "default"},
    "nodeGroups": {"name": "extra"},
    "serviceAccounts": {"name": "reports", "policies": [_POLICY]},
    "*aints": {"key": "team"},
}
"""List → element that an edit of an element's field begins with."""
_HOMES: Final = {
    "fargate": ("home.namespaces",),
    "existing": ("home.nodeRole", "home.ssm", "home.oidcProvider", "home.nodeSelector"),
}
"""Kind of home → fields that only it has."""
_NEEDS: Final[dict[str, dict[str, Any]]] = {
    "vpc.create.privateSubnets": {"vpc.create.zones": 2},
    "vpc.create.publicSubnets": {"vpc.create.zones": 2},
    "vpc.existing.subnets.tags": {"vpc.existing.subnets.ids": ABSENT},
    "vpc.existing.securityGroups.tags": {"vpc.existing.securityGroups.ids": ABSENT},
    "iam.nodeRole.arn": {"iam.nodeRole.use": ABSENT},
    "access.accounts": {"access.mode": "aws-auth"},
    "access.roles[].namespaces": {"access.mode": ABSENT, "access.roles[].policies": ["AmazonEKSViewPolicy"]},
    "access.users[].namespaces": {"access.mode": ABSENT, "access.users[].policies": ["AmazonEKSViewPolicy"]},
    "access.creatorIsAdmin": {"access.admins": ["admin"]},
    "logging.retentionDays": {"logging.types": ["api"]},
    "nodePools[].nodeClass": {"nodeClasses[]": [{"name": "default"}, {"name": "other"}]},
    "nodeClasses[].userData": {"nodeClasses[].image": "bottlerocket@latest"},
    "nodeClasses[].imageFamily": {"nodeClasses[].image": "ami-0123456789abcdef0"},
    "addons.node-termination-handler.*": {"controller.interruptionQueue": False},
    "addons.pod-identity-agent.enabled": {"identity": "irsa"},
    "addons.vpc-cni.enabled": {"home": {"kind": "fargate"}, "identity": "irsa"},
    "home.kind": {"identity": "irsa"},
    "controller.image": {"controller.kind": "dovetail"},
    "controller.version": {
        "controller.chart": "oci://registry.example.com/charts/dovetail",
        "controller.crdChart": "oci://registry.example.com/charts/dovetail-crd",
    },
}
"""Pattern of a field → other fields that it needs to have an effect, or to be valid."""


class Pair(msgspec.Struct, frozen=True):
    """Two files: the second is an edit of the first."""

    field: str
    before: ClusterConfig
    after: ClusterConfig


def values_of(field: str) -> list[Any]:
    """Return the values of a field; empty if none are known."""
    return next((values for pattern, values in VALUES.items() if fnmatchcase(field, _glob(pattern))), [])


@cache
def _known_patterns() -> list[str]:
    """Return the patterns that match a field of the schema."""
    fields = schema_fields()
    return [pattern for pattern in VALUES if any(fnmatchcase(field, _glob(pattern)) for field in fields)]


def _glob(pattern: str) -> str:
    return pattern.replace("[]", "[[]]")


def config_of(document: Document, names: Mapping[str, str]) -> ClusterConfig:
    """Return the configuration; ``names`` are ids in the account, by placeholder."""
    text = json.dumps(document)
    for placeholder, resource_id in names.items():
        text = text.replace(f'"{placeholder}"', f'"{resource_id}"')
    return load_config("cluster.yaml", yaml.dump(json.loads(text), Dumper=yaml.CSafeDumper).encode())


def random_pair(field: str, random: Random, names: Mapping[str, str]) -> Pair:
    """Return a valid file and a valid edit of it in ``field``."""
    for _ in range(100):
        before = _random_document(field, random)
        after = deepcopy(before)
        old, new = random.sample(values_of(field), 2)
        _set(before, field, old)
        _set(after, field, new)
        for other in random.sample(_known_patterns(), random.choice((0, 0, 1, 3))):
            _set_random(after, other, field, random)
        try:
            first, second = config_of(before, names), config_of(after, names)
        except InvalidInputError:
            continue
        is_own_account = first.account in (None, "123456789012")
        if is_own_account and field in changed_fields(first, second):
            return Pair(field, first, second)
    raise AssertionError(f"no valid edit of {field}: add values or needs")


def _random_document(field: str, random: Random) -> Document:
    home = next((kind for kind, fields in _HOMES.items() if field.startswith(fields)), None)
    home = home or random.choice(("managed-node-group", "managed-node-group", "fargate"))
    if field.startswith(("home.", "iam.nodeRole.use")) and field not in sum(_HOMES.values(), ()):
        home = "managed-node-group"
    document: Document = {
        "name": "dev",
        "region": "us-east-1",
        "version": "1.33",
        "home": {"kind": home},
        "controller": {"image": "registry.example.com/dovetail:1"},
        "nodePools": [{"name": "default"}],
    }
    uses_existing = field.startswith("vpc.existing") or (
        not field.startswith("vpc.create") and (home == "existing" or random.random() < 0.3)
    )
    if uses_existing:
        document["vpc"] = {"existing": {"subnets": {"ids": ["$subnet-a", "$subnet-b", "$subnet-c"]}}}
    else:
        document["vpc"] = {"create": {"zones": random.choice((2, 3))}}
    for other in random.sample(_known_patterns(), random.choice((2, 5, 9))):
        _set_random(document, other, field, random)
    for pattern, needs in _NEEDS.items():
        if fnmatchcase(field, _glob(pattern)):
            for name, value in needs.items():
                _set(document, name, value)
    return document


def _set_random(document: Document, pattern: str, field: str, random: Random) -> None:
    """Set a field at random, unless it does not fit the kind of home and network."""
    other = pattern.replace("addons.*", f"addons.{random.choice(('keda', 'coredns', 'metrics-server'))}")
    other = other.replace("*aints", random.choice(("taints", "startupTaints")))
    other = other.replace("access.*", random.choice(("access.roles", "access.users")))
    kind = document["home"]["kind"]
    homes = [name for name, fields in _HOMES.items() if other in fields] or ["managed-node-group"]
    is_other_home = other.startswith("home.") and kind not in homes
    is_other_network = other.startswith("vpc.") and other.split(".")[1] not in document["vpc"]
    is_mode = other in ("home.kind", "account", "version", "vpc.create.cidr", "iam.prefix", "iam.path")
    is_chart = other.startswith("addons.coredns.") and other.endswith(("namespace", "repository"))
    if not (is_other_home or is_other_network or is_mode or is_chart or other == field):
        _set(document, other, random.choice(values_of(other)))


def _set(document: Document, field: str, value: Any) -> None:
    """Set a field, and create what contains it."""
    steps = field.removesuffix("[]").split(".")
    node: Any = document
    path = ""
    for step in steps[:-1]:
        name = step.removesuffix("[]")
        path = f"{path}.{name}" if path else name
        if step.endswith("[]"):
            items = node.setdefault(name, [])
            if not items or "apiVersion" in items[0]:
                first = next(item for key, item in _FIRST_ELEMENTS.items() if fnmatchcase(path, f"*{key}"))
                items.insert(0, deepcopy(first))
            node = items[0]
        else:
            if not isinstance(node.get(name), dict):
                node[name] = {}
            node = node[name]
    if value == ABSENT:
        node.pop(steps[-1], None)
    else:
        node[steps[-1]] = deepcopy(value)
    if field == "home.kind":
        document["home"] = {"kind": value}
