"""A fake EKS for what moto lacks: add-ons, access entries, Pod Identity, updates.

It runs in front of moto and handles EKS requests only. New resources are CREATING
until they are described once. It rejects what EKS rejects: the deletion of a
cluster with nodes, and concurrent creation of Fargate profiles.
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

from tests.support.moto.middleware import Wsgi

Raw = dict[str, Any]


class EksError(Exception):
    """An error response of EKS."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class MemberKind(msgspec.Struct, frozen=True):
    """One kind of cluster members: keys in requests and responses."""

    key: str
    member: str
    plural: str
    arn: str
    lists_names: bool = True


MEMBER_KINDS = {
    "node-groups": MemberKind("nodegroupName", "nodegroup", "nodegroups", "nodegroupArn"),
    "fargate-profiles": MemberKind(
        "fargateProfileName", "fargateProfile", "fargateProfileNames", "fargateProfileArn"
    ),
    "addons": MemberKind("addonName", "addon", "addons", "addonArn"),
    "access-entries": MemberKind("principalArn", "accessEntry", "accessEntries", "accessEntryArn"),
    "pod-identity-associations": MemberKind(
        "associationId", "association", "associations", "associationArn", lists_names=False
    ),
}
_CREATED_AT = 1_700_000_000
_ENTRIES = {"node-groups": "EC2_LINUX", "fargate-profiles": "FARGATE_LINUX"}
_KUBELET_SKEW = 3
_ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
ADDON_VERSIONS: dict[str, Callable[[str], list[str]]] = {
    "kube-proxy": lambda version: [f"v{version}.3-eksbuild.2", f"v{version}.10-eksbuild.1"],
    "coredns": lambda version: [f"v1.{_minor(version) - 21}.1-eksbuild.{build}" for build in (2, 10)],
}
"""Versions of an add-on that fit a Kubernetes version; other add-ons have the same for all."""
_STATELESS = ("access-entries", "pod-identity-associations")


class Eks:
    """A WSGI application around moto's that handles EKS requests."""

    instant = False
    """True if resources are ACTIVE at once, for tests that poll in real time."""
    endpoint: str = "https://127.0.0.1:1"
    authority: str = ""
    _numbers: ClassVar[Any] = count(1)

    def __init__(self, inner: Wsgi) -> None:
        self._inner = inner
        self._lock = Lock()
        self.reset()

    def reset(self) -> None:
        self._regions: dict[str, tuple[dict[str, Raw], dict[str, dict[str, dict[str, Raw]]]]] = {}
        self._select_region("us-east-1")
        self.creator = ""
        """Principal for which EKS makes an access entry with each cluster; none by default."""
        self.failed: set[str] = set()
        """Names of clusters and members whose creation failed."""
        self.failed_updates: dict[str, list[Raw]] = {}
        """Names of members whose updates fail and change nothing → errors of the updates."""
        self.creators: dict[str, str] = {}
        """Cluster → access key of its creator."""

    def _select_region(self, region: str) -> None:
        """Set the clusters and members to those of a region: the last request's."""
        self.clusters, self.parts = self._regions.setdefault(region, ({}, {}))

    def seen(self) -> dict[str, tuple[Raw, dict[str, dict[str, Raw]]]]:
        """Return copies of clusters and their members."""
        with self._lock:
            return {name: deepcopy((cluster, self.parts[name])) for name, cluster in self.clusters.items()}

    def __call__(self, environ: Raw, start: Callable[..., Any]) -> Iterable[bytes]:
        raw = str(environ.get("RAW_URI") or environ["PATH_INFO"])
        path, _, query = raw.partition("?")
        names = [unquote(segment) for segment in path.strip("/").split("/")]
        if names[0] == "tags":
            is_eks = ":eks:" in names[1]
        else:
            is_eks = names[0] == "clusters" or names == ["addons", "supported-versions"]
        if not is_eks:
            return self._inner(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].split("/")
        params: Raw = {key: values[0] for key, values in parse_qs(query).items()}
        params["tagKeys"] = parse_qs(query).get("tagKeys", [])
        params |= json.loads(body) if body else {}
        region = scope[2] if len(scope) > 2 else "us-east-1"
        try:
            with self._lock:
                self._select_region(region)
                response = self._handle(environ["REQUEST_METHOD"], names, params, region)
            if names == ["clusters"] and "name" in params:
                self.creators[params["name"]] = scope[0]
            status = 200
        except EksError as error:
            status, response = error.status, {"message": str(error), "code": error.code}
            extra = [("x-amzn-ErrorType", error.code)]
        else:
            extra = []
        text = json.dumps(response).encode()
        head = [("Content-Type", "application/json"), ("Content-Length", str(len(text))), *extra]
        start(f"{status} EKS", head)
        return [text]

    def _handle(self, method: str, names: list[str], params: Raw, region: str) -> Raw:
        if names[0] == "tags":
            return self._tag(names[1], params.get("tags", {}), params["tagKeys"])
        if names[0] == "addons":
            return _supported_versions(params["addonName"], params["kubernetesVersion"])
        if len(names) == 1:
            return self._create_cluster(params, region) if method == "POST" else self._list_clusters()
        cluster = self.clusters.get(names[1])
        if cluster is None:
            raise EksError(404, "ResourceNotFoundException", f"No cluster found: {names[1]}.")
        if len(names) == 2:
            return self._cluster(method, cluster)
        if method == "GET" and names[2] == "updates":
            return {"update": self._described_update(names[3])}
        if names[2] in ("update-config", "updates"):
            return self._update(cluster, params)
        if names[2:] == ["encryption-config", "associate"]:
            return self._associate_encryption(cluster, params)
        return self._part(method, cluster, names[2], names[3:], params)

    def _described_update(self, update_id: str) -> Raw:
        errors = self.failed_updates.get(update_id, [])
        return {"id": update_id, "status": "Failed" if errors else "Successful", "errors": errors}

    def _list_clusters(self) -> Raw:
        return {"clusters": sorted(self.clusters)}

    def _create_cluster(self, params: Raw, region: str) -> Raw:
        name = params["name"]
        if name in self.clusters:
            raise EksError(409, "ResourceInUseException", f"Cluster already exists: {name}")
        network = dict(params["resourcesVpcConfig"])
        ec2 = ec2_backends[DEFAULT_ACCOUNT_ID][region]
        vpc = ec2.get_subnet(network["subnetIds"][0]).vpc_id
        group = ec2.create_security_group(f"eks-cluster-sg-{name}", "made by EKS", vpc)
        network |= {"clusterSecurityGroupId": group.id, "vpcId": vpc}
        network.setdefault("securityGroupIds", [])
        self.clusters[name] = {
            **params,
            "resourcesVpcConfig": network,
            "arn": f"arn:aws:eks:{region}:{DEFAULT_ACCOUNT_ID}:cluster/{name}",
            "status": "CREATING",
            "endpoint": self.endpoint,
            "certificateAuthority": {"data": self.authority},
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{name.upper()}"}},
            "region": region,
            "platformVersion": "eks.1",
            "kubernetesNetworkConfig": _network_config(params.get("kubernetesNetworkConfig") or {}),
            "createdAt": _CREATED_AT,
        }
        self.parts[name] = {part: {} for part in MEMBER_KINDS}
        if self.creator:
            entry = {"principalArn": self.creator, "type": "STANDARD", "kubernetesGroups": [], "tags": {}}
            arn = self.clusters[name]["arn"].replace(":cluster/", ":access-entry/")
            entry |= {"clusterName": name, "accessEntryArn": f"{arn}/creator"}
            entry["username"] = _default_username(self.creator)
            if params["accessConfig"].get("bootstrapClusterCreatorAdminPermissions", True):
                policy = {"policyArn": _ADMIN_POLICY, "accessScope": {"type": "cluster"}}
                entry["policies"] = {_ADMIN_POLICY: policy}
            self.parts[name]["access-entries"][self.creator] = entry
        if self.instant:
            self.clusters[name]["status"] = "ACTIVE"
        return {"cluster": self.clusters[name]}

    def _cluster(self, method: str, cluster: Raw) -> Raw:
        described = {"cluster": dict(cluster)}
        if method == "DELETE":
            kept = self.parts[cluster["name"]]
            if kept["node-groups"] or kept["fargate-profiles"]:
                raise EksError(409, "ResourceInUseException", "Cluster has nodegroups attached")
            ec2 = ec2_backends[DEFAULT_ACCOUNT_ID][cluster["region"]]
            ec2.delete_security_group(group_id=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"])
            del self.clusters[cluster["name"]], self.parts[cluster["name"]]
            self.failed.discard(cluster["name"])
        cluster["status"] = "FAILED" if cluster["name"] in self.failed else "ACTIVE"
        return described

    def _update(self, cluster: Raw, params: Raw) -> Raw:
        if cluster["status"] != "ACTIVE":
            raise EksError(409, "ResourceInUseException", "Cluster has an update in progress")
        for key in ("resourcesVpcConfig", "accessConfig", "logging", "upgradePolicy"):
            if key in params:
                cluster[key] = {**cluster.get(key, {}), **params[key]}
        if "version" in params:
            self._check_cluster_version(cluster, params["version"])
            cluster["version"] = params["version"]
        cluster["status"] = "UPDATING"
        return {"update": {"id": "1", "status": "InProgress"}}

    def _check_cluster_version(self, cluster: Raw, version: str) -> None:
        if _minor(version) != _minor(cluster["version"]) + 1:
            raise EksError(400, "InvalidParameterException", f"Unsupported Kubernetes version {version}")
        for group in self.parts[cluster["name"]]["node-groups"].values():
            if _minor(version) - _minor(group["version"]) > _KUBELET_SKEW:
                message = f"Nodegroup {group['nodegroupName']} must be updated before the cluster"
                raise EksError(400, "InvalidRequestException", message)

    def _check_member_version(self, cluster: Raw, kind_name: str, name: str, params: Raw) -> None:
        """Reject node groups and add-ons that are newer than the control plane allows."""
        if kind_name == "node-groups" and _minor(params.get("version") or "1.0") > _minor(cluster["version"]):
            message = "Requested Nodegroup version must not be newer than the cluster's"
            raise EksError(400, "InvalidParameterException", message)
        version = str(params.get("addonVersion") or "")
        if name == "kube-proxy" and _minor(version or "v1.0") > _minor(cluster["version"]):
            raise EksError(400, "InvalidParameterException", "Addon version specified is not supported")

    def _associate_encryption(self, cluster: Raw, params: Raw) -> Raw:
        if cluster.get("encryptionConfig"):
            raise EksError(400, "InvalidRequestException", "Cluster already has an encryption config")
        cluster["encryptionConfig"] = params["encryptionConfig"]
        return {"update": {"id": "1", "status": "InProgress"}}

    def _part(self, method: str, cluster: Raw, kind_name: str, rest: list[str], params: Raw) -> Raw:
        kind, members = MEMBER_KINDS[kind_name], self.parts[cluster["name"]][kind_name]
        if not rest:
            if method == "POST":
                return self._create(cluster, kind_name, params)
            described = [member for member in members.values() if _matches(member, params)]
            names = [member[kind.key] if kind.lists_names else member for member in described]
            return {kind.plural: names}
        member = members.get(rest[0])
        if member is None:
            raise EksError(404, "ResourceNotFoundException", f"{kind.member} {rest[0]} not found")
        if len(rest) > 1 and rest[1] == "access-policies":
            return _policies(method, member, rest[2:], params)
        shown_one = {kind.member: {key: member[key] for key in member if key != "policies"}}
        if method == "DELETE":
            del members[rest[0]]
            self.failed.discard(rest[0])
        elif method == "POST":
            self._check_member_version(cluster, kind_name, rest[0], params)
            return {"update": self._update_part(member, rest[0], params), **shown_one}
        elif "status" in member:
            member["status"] = "ACTIVE"
        if rest[0] in self.failed:
            shown_one[kind.member]["status"] = "CREATE_FAILED"
        return shown_one

    def _update_part(self, member: Raw, name: str, params: Raw) -> Raw:
        if name not in self.failed_updates:
            if member.get("type", "STANDARD") != "STANDARD":
                raise EksError(400, "InvalidRequestException", "Only STANDARD access entries can be updated")
            _update_member(member, params)
            if "status" in member:
                member["status"] = "UPDATING"
        return {"id": name, "status": "InProgress"}

    def _create(self, cluster: Raw, kind_name: str, params: Raw) -> Raw:
        kind, members = MEMBER_KINDS[kind_name], self.parts[cluster["name"]][kind_name]
        if kind_name == "fargate-profiles" and any(
            member["status"] == "CREATING" for member in members.values()
        ):
            raise EksError(409, "ResourceInUseException", "another profile is being created")
        if kind_name == "pod-identity-associations":
            if any(_matches(member, params, ("namespace", "serviceAccount")) for member in members.values()):
                raise EksError(409, "ResourceInUseException", "Association already exists")
            params["associationId"] = f"a-{next(self._numbers)}"
        name = params[kind.key]
        if name in members:
            message = f"{kind.member} already exists: {name}"
            if kind_name == "access-entries":
                message = "The specified access entry resource is already in use on this cluster."
            raise EksError(409, "ResourceInUseException", message)
        self._check_member_version(cluster, kind_name, name, params)
        where = cluster["arn"].replace(":cluster/", f":{kind.member.lower()}/")
        member = {
            **params,
            "clusterName": cluster["name"],
            kind.arn: f"{where}/{name}",
            "createdAt": _CREATED_AT,
            "modifiedAt": _CREATED_AT,
        }
        if kind_name not in _STATELESS:
            member["status"] = "ACTIVE" if self.instant else "CREATING"
        _set_defaults(member, kind_name, cluster["version"])
        members[name] = member
        if kind_name in _ENTRIES:
            self._add_access_entry(cluster, kind_name, member)
        return {kind.member: member}

    def _add_access_entry(self, cluster: Raw, kind_name: str, part: Raw) -> None:
        """Add the access entry of nodes that EKS starts."""
        mode = (cluster.get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
        role = part.get("nodeRole") or part.get("podExecutionRoleArn")
        if mode != "CONFIG_MAP" and role:
            entry = {
                "principalArn": role,
                "clusterName": cluster["name"],
                "type": "EC2_WINDOWS" if "WINDOWS" in part.get("amiType", "") else _ENTRIES[kind_name],
                "kubernetesGroups": [],
                "accessEntryArn": cluster["arn"].replace(":cluster/", ":access-entry/"),
            }
            self.parts[cluster["name"]]["access-entries"].setdefault(role, entry)

    def _tag(self, arn: str, tags: dict[str, str], removed: list[str]) -> Raw:
        all_resources = [
            *self.clusters.values(),
            *(
                member
                for members in self.parts.values()
                for part in members.values()
                for member in part.values()
            ),
        ]
        for resource in all_resources:
            if arn in resource.values():
                merged = {**(resource.get("tags") or {}), **tags}
                resource["tags"] = {key: value for key, value in merged.items() if key not in removed}
        return {}


def _minor(version: str) -> int:
    """Return the minor version of "1.34" and of "v1.34.3-eksbuild.2"."""
    return int(version.split(".")[1])


def _set_defaults(member: Raw, kind_name: str, version: str) -> None:
    if kind_name == "addons":
        member.setdefault("addonVersion", "v1.0.0-eksbuild.1")
    elif kind_name == "node-groups":
        member.setdefault("version", version)
    elif kind_name == "access-entries" and member["type"] == "STANDARD":
        member.setdefault("username", _default_username(member["principalArn"]))
    elif kind_name == "access-entries":
        member |= {"username": "system:node:{{EC2PrivateDNSName}}", "kubernetesGroups": ["system:nodes"]}


def _default_username(principal: str) -> str:
    account, _, path = principal.removeprefix("arn:aws:iam::").partition(":")
    kind, name = path.split("/")[0], path.split("/")[-1]
    return principal if kind == "user" else f"arn:aws:sts::{account}:assumed-role/{name}/{{{{SessionName}}}}"


def supported_versions(addon: str, version: str) -> list[str]:
    """Return the versions of an add-on that fit a Kubernetes version; the newest is last."""
    if addon in ADDON_VERSIONS:
        return ADDON_VERSIONS[addon](version)
    return ["v1.9.0-eksbuild.3", "v1.19.2-eksbuild.1"]


def _supported_versions(addon: str, version: str) -> Raw:
    versions = [
        {"addonVersion": name, "compatibilities": [{"clusterVersion": version, "defaultVersion": False}]}
        for name in supported_versions(addon, version)
    ]
    return {"addons": [{"addonName": addon, "addonVersions": versions}]}


def _network_config(params: Raw) -> Raw:
    if params.get("ipFamily") == "ipv6":
        return {"ipFamily": "ipv6", "serviceIpv6Cidr": "fd00:ec2:1::/108"}
    return {"ipFamily": "ipv4", "serviceIpv4Cidr": "172.20.0.0/16", **params}


def _matches(member: Raw, params: Raw, keys: tuple[str, ...] = ("namespace", "serviceAccount")) -> bool:
    return all(member.get(key) == params[key] for key in keys if key in params)


def _update_member(member: Raw, params: Raw) -> None:
    labels, taints = params.pop("labels", None), params.pop("taints", None)
    if labels is not None:
        kept = {**member.get("labels", {}), **labels.get("addOrUpdateLabels", {})}
        removed = labels.get("removeLabels", ())
        member["labels"] = {key: value for key, value in kept.items() if key not in removed}
    if taints is not None:
        new = {(taint["key"], taint["effect"]): taint for taint in taints.get("addOrUpdateTaints", [])}
        removed = {(taint["key"], taint["effect"]) for taint in taints.get("removeTaints", [])}
        if removed & set(new):
            raise EksError(400, "InvalidParameterException", "Taints to update and to remove overlap")
        old = {(taint["key"], taint["effect"]): taint for taint in member.get("taints", [])}
        member["taints"] = [taint for key, taint in (old | new).items() if key not in removed]
    member.update(params)


def _policies(method: str, entry: Raw, rest: list[str], params: Raw) -> Raw:
    members: dict[str, Raw] = entry.setdefault("policies", {})
    if method == "GET":
        return {"associatedAccessPolicies": list(members.values())}
    if method == "DELETE":
        members.pop(rest[0], None)
        return {}
    members[params["policyArn"]] = params
    return {"associatedAccessPolicy": params}
