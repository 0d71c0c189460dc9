"""EKS as far as moto lacks it: add-ons, access entries, Pod Identity, updates, an endpoint.

Stands before moto and answers for EKS alone. What it makes is CREATING until it
has been looked at once, and it refuses what EKS refuses: a cluster that still
has nodes cannot go, and Fargate profiles are made one at a time.
"""

import json
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import count
from threading import Lock
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2 import ec2_backends

from tests.support.moto.door import Wsgi

Raw = dict[str, Any]


class Refusal(Exception):
    """An error in EKS's words."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Part(msgspec.Struct, frozen=True):
    """One collection of things inside a cluster."""

    key: str
    one: str
    many: str
    arn: str
    lists_names: bool = True


PARTS = {
    "node-groups": Part("nodegroupName", "nodegroup", "nodegroups", "nodegroupArn"),
    "fargate-profiles": Part(
        "fargateProfileName", "fargateProfile", "fargateProfileNames", "fargateProfileArn"
    ),
    "addons": Part("addonName", "addon", "addons", "addonArn"),
    "access-entries": Part("principalArn", "accessEntry", "accessEntries", "accessEntryArn"),
    "pod-identity-associations": Part(
        "associationId", "association", "associations", "associationArn", lists_names=False
    ),
}
_LONG_AGO = 1_700_000_000
_ENTRIES = {"node-groups": "EC2_LINUX", "fargate-profiles": "FARGATE_LINUX"}
_STATELESS = ("access-entries", "pod-identity-associations")


class Eks:
    """A WSGI application around moto's that answers for EKS."""

    instant = False
    """Whether things are there at once: for those who would have to wait in real time."""
    endpoint: str = "https://127.0.0.1:1"
    authority: str = ""
    _numbers: ClassVar[Any] = count(1)

    def __init__(self, inner: Wsgi) -> None:
        self._inner = inner
        self._lock = Lock()
        self.reset()

    def reset(self) -> None:
        self.clusters: dict[str, Raw] = {}
        self.failed: set[str] = set()
        """Names of parts that did not come up."""
        self.parts: dict[str, dict[str, dict[str, Raw]]] = {}
        self.creators: dict[str, str] = {}
        """Cluster → the access key with which it was made."""

    def seen(self) -> dict[str, tuple[Raw, dict[str, dict[str, Raw]]]]:
        """Return clusters and their parts as they are now, for those who look on."""
        with self._lock:
            return {name: deepcopy((one, self.parts[name])) for name, one in self.clusters.items()}

    def __call__(self, environ: Raw, start: Callable[..., Any]) -> Iterable[bytes]:
        raw = str(environ.get("RAW_URI") or environ["PATH_INFO"])
        path, _, query = raw.partition("?")
        names = [unquote(one) for one in path.strip("/").split("/")]
        if names[0] != "clusters" and not (names[0] == "tags" and ":eks:" in names[1]):
            return self._inner(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")
        asked = {key: one[0] for key, one in parse_qs(query).items()}
        asked |= json.loads(body) if body else {}
        region = scope[2] if len(scope) > 2 else "us-east-1"
        try:
            with self._lock:
                answer = self._answer(environ["REQUEST_METHOD"], names, asked, region)
            if names == ["clusters"] and "name" in asked:
                self.creators[asked["name"]] = scope[0]
            status = 200
        except Refusal as error:
            status, answer = error.status, {"message": str(error), "code": error.code}
            extra = [("x-amzn-ErrorType", error.code)]
        else:
            extra = []
        text = json.dumps(answer).encode()
        head = [("Content-Type", "application/json"), ("Content-Length", str(len(text))), *extra]
        start(f"{status} EKS", head)
        return [text]

    def _answer(self, method: str, names: list[str], asked: Raw, region: str) -> Raw:
        if names[0] == "tags":
            return self._tag(names[1], asked)
        if len(names) == 1:
            return self._create_cluster(asked, region) if method == "POST" else self._listed()
        cluster = self.clusters.get(names[1])
        if cluster is None:
            raise Refusal(404, "ResourceNotFoundException", f"No cluster found: {names[1]}.")
        if len(names) == 2:
            return self._cluster(method, cluster)
        if method == "GET" and names[2] == "updates":
            return {"update": {"id": names[3], "status": "Successful"}}
        if names[2] in ("update-config", "updates"):
            return self._update(cluster, asked)
        return self._part(method, cluster, names[2], names[3:], asked)

    def _listed(self) -> Raw:
        return {"clusters": sorted(self.clusters)}

    def _create_cluster(self, asked: Raw, region: str) -> Raw:
        name = asked["name"]
        if name in self.clusters:
            raise Refusal(409, "ResourceInUseException", f"Cluster already exists: {name}")
        network = dict(asked["resourcesVpcConfig"])
        ec2 = ec2_backends[DEFAULT_ACCOUNT_ID][region]
        vpc = ec2.get_subnet(network["subnetIds"][0]).vpc_id
        group = ec2.create_security_group(f"eks-cluster-sg-{name}", "made by EKS", vpc)
        network |= {"clusterSecurityGroupId": group.id, "vpcId": vpc}
        network.setdefault("securityGroupIds", [])
        self.clusters[name] = {
            **asked,
            "resourcesVpcConfig": network,
            "arn": f"arn:aws:eks:{region}:{DEFAULT_ACCOUNT_ID}:cluster/{name}",
            "status": "CREATING",
            "endpoint": self.endpoint,
            "certificateAuthority": {"data": self.authority},
            "identity": {
                "oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{name.upper()}"}
            },
            "region": region,
            "platformVersion": "eks.1",
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "createdAt": _LONG_AGO,
        }
        self.parts[name] = {one: {} for one in PARTS}
        if self.instant:
            self.clusters[name]["status"] = "ACTIVE"
        return {"cluster": self.clusters[name]}

    def _cluster(self, method: str, cluster: Raw) -> Raw:
        shown = {"cluster": dict(cluster)}
        if method == "DELETE":
            kept = self.parts[cluster["name"]]
            if kept["node-groups"] or kept["fargate-profiles"]:
                raise Refusal(409, "ResourceInUseException", "Cluster has nodegroups attached")
            ec2 = ec2_backends[DEFAULT_ACCOUNT_ID][cluster["region"]]
            ec2.delete_security_group(
                group_id=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
            )
            del self.clusters[cluster["name"]], self.parts[cluster["name"]]
        cluster["status"] = "ACTIVE"
        return shown

    def _update(self, cluster: Raw, asked: Raw) -> Raw:
        if cluster["status"] != "ACTIVE":
            raise Refusal(409, "ResourceInUseException", "Cluster has an update in progress")
        for key in ("resourcesVpcConfig", "accessConfig", "logging"):
            if key in asked:
                cluster[key] = {**cluster.get(key, {}), **asked[key]}
        if "version" in asked:
            cluster["version"] = asked["version"]
        cluster["status"] = "UPDATING"
        return {"update": {"id": "1", "status": "InProgress"}}

    def _part(self, method: str, cluster: Raw, what: str, rest: list[str], asked: Raw) -> Raw:
        kind, held = PARTS[what], self.parts[cluster["name"]][what]
        if not rest:
            if method == "POST":
                return self._create(cluster, what, asked)
            shown = [one for one in held.values() if _matches(one, asked)]
            names = [one[kind.key] if kind.lists_names else one for one in shown]
            return {kind.many: names}
        one = held.get(rest[0])
        if one is None:
            raise Refusal(404, "ResourceNotFoundException", f"{kind.one} {rest[0]} not found")
        if len(rest) > 1 and rest[1] == "access-policies":
            return _policies(method, one, rest[2:], asked)
        shown_one = {kind.one: {key: one[key] for key in one if key != "policies"}}
        if method == "DELETE":
            del held[rest[0]]
            self.failed.discard(rest[0])
        elif method == "POST":
            _amend(one, asked)
            if "status" in one:
                one["status"] = "UPDATING"
            return {"update": {"id": "1"}, **shown_one}
        elif "status" in one:
            one["status"] = "ACTIVE"
        if rest[0] in self.failed:
            shown_one[kind.one]["status"] = "CREATE_FAILED"
        return shown_one

    def _create(self, cluster: Raw, what: str, asked: Raw) -> Raw:
        kind, held = PARTS[what], self.parts[cluster["name"]][what]
        if what == "fargate-profiles" and any(one["status"] == "CREATING" for one in held.values()):
            raise Refusal(409, "ResourceInUseException", "another profile is being created")
        if what == "pod-identity-associations":
            if any(_matches(one, asked, ("namespace", "serviceAccount")) for one in held.values()):
                raise Refusal(409, "ResourceInUseException", "Association already exists")
            asked["associationId"] = f"a-{next(self._numbers)}"
        name = asked[kind.key]
        if name in held:
            raise Refusal(409, "ResourceInUseException", f"{kind.one} already exists: {name}")
        where = cluster["arn"].replace(":cluster/", f":{kind.one.lower()}/")
        made = {
            **asked,
            "clusterName": cluster["name"],
            kind.arn: f"{where}/{name}",
            "createdAt": _LONG_AGO,
            "modifiedAt": _LONG_AGO,
        }
        if what not in _STATELESS:
            made["status"] = "ACTIVE" if self.instant else "CREATING"
        if what == "addons":
            made.setdefault("addonVersion", "v1.0.0-eksbuild.1")
        held[name] = made
        if what in _ENTRIES:
            self._let_in(cluster, what, made)
        return {kind.one: made}

    def _let_in(self, cluster: Raw, what: str, part: Raw) -> None:
        """Let nodes join that EKS itself starts, where entries say who may."""
        mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        role = part.get("nodeRole") or part.get("podExecutionRoleArn")
        if mode != "CONFIG_MAP" and role:
            entry = {
                "principalArn": role,
                "clusterName": cluster["name"],
                "type": _ENTRIES[what],
                "kubernetesGroups": [],
                "accessEntryArn": cluster["arn"].replace(":cluster/", ":access-entry/"),
            }
            self.parts[cluster["name"]]["access-entries"].setdefault(role, entry)

    def _tag(self, arn: str, asked: Raw) -> Raw:
        everything = [
            *self.clusters.values(),
            *(
                one
                for held in self.parts.values()
                for part in held.values()
                for one in part.values()
            ),
        ]
        for one in everything:
            if arn in one.values():
                one["tags"] = {**(one.get("tags") or {}), **asked["tags"]}
        return {}


def _matches(one: Raw, asked: Raw, keys: tuple[str, ...] = ("namespace", "serviceAccount")) -> bool:
    return all(one.get(key) == asked[key] for key in keys if key in asked)


def _amend(one: Raw, asked: Raw) -> None:
    labels, taints = asked.pop("labels", None), asked.pop("taints", None)
    if labels is not None:
        kept = {**one.get("labels", {}), **labels.get("addOrUpdateLabels", {})}
        gone = labels.get("removeLabels", ())
        one["labels"] = {key: value for key, value in kept.items() if key not in gone}
    if taints is not None:
        new = taints.get("addOrUpdateTaints", [])
        old = [one_ for one_ in one.get("taints", []) if one_ not in taints.get("removeTaints", [])]
        one["taints"] = [*(kept for kept in old if kept not in new), *new]
    one.update(asked)


def _policies(method: str, entry: Raw, rest: list[str], asked: Raw) -> Raw:
    held: dict[str, Raw] = entry.setdefault("policies", {})
    if method == "GET":
        return {"associatedAccessPolicies": list(held.values())}
    if method == "DELETE":
        held.pop(rest[0], None)
        return {}
    held[asked["policyArn"]] = asked
    return {"associatedAccessPolicy": asked}
