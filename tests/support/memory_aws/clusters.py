"""EKS in memory: clusters, node groups and Fargate profiles.

New resources are CREATING, and changed ones UPDATING, until they are described
once. It refuses what EKS refuses: updates that change nothing or several things,
changes of what is immutable, the deletion of a cluster that has nodes.
"""

import json
from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from tests.support.memory_aws.iam import ACCOUNT
from tests.support.memory_aws.refusals import Raw, refusal

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount

CREATOR: Final = f"arn:aws:iam::{ACCOUNT}:user/operator"
ADMIN_POLICY: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
_MODES: Final = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_ENTRY_TYPES: Final = {"nodegroup": "EC2_LINUX", "fargate": "FARGATE_LINUX"}
_SUBNET_KEYS: Final = {"subnetIds", "securityGroupIds"}


class MemoryClusters:
    """Clusters by name; methods have the names and parameters of boto3's client."""

    def __init__(self, account: "MemoryAccount") -> None:
        self.account = account
        self.numbers = count(1)
        self.clusters: dict[str, Raw] = {}
        self.members: dict[str, dict[str, dict[str, Raw]]] = {}
        """Cluster → kind (nodegroup, fargate, addon, entry, association) → name → member."""

    # Users of resources in other services.

    def _networks(self) -> Iterable[tuple[str, list[str]]]:
        for name, cluster in self.clusters.items():
            yield f"cluster {name}", cluster["resourcesVpcConfig"]["subnetIds"]
            for kind in ("nodegroup", "fargate"):
                for key, member in self.members[name][kind].items():
                    yield f"{kind} {key}", member["subnets"]

    def users_of_subnet(self, subnet: str) -> list[str]:
        return [user for user, subnets in self._networks() if subnet in subnets]

    def users_of_group(self, group: str) -> list[str]:
        return [
            f"cluster {name}"
            for name, cluster in self.clusters.items()
            if group
            in (
                cluster["resourcesVpcConfig"]["clusterSecurityGroupId"],
                *cluster["resourcesVpcConfig"]["securityGroupIds"],
            )
        ]

    def users_of_template(self, template: str) -> list[str]:
        return [
            name
            for members in self.members.values()
            for name, group in members["nodegroup"].items()
            if group.get("launchTemplate", {}).get("id") == template
        ]

    def users_of_role(self, arn: str) -> list[str]:
        users = [f"cluster {name}" for name, cluster in self.clusters.items() if cluster["roleArn"] == arn]
        for members in self.members.values():
            for kind, key in (
                ("nodegroup", "nodeRole"),
                ("fargate", "podExecutionRoleArn"),
                ("association", "roleArn"),
            ):
                users += [f"{kind} {name}" for name, member in members[kind].items() if member[key] == arn]
        return users

    # Clusters.

    def create_cluster(
        self, *, name: str, version: str, roleArn: str, resourcesVpcConfig: Raw, **more: Any
    ) -> Raw:
        if name in self.clusters:
            raise refusal("ResourceInUseException", f"Cluster already exists with name: {name}")
        self.check_role(roleArn, "eks.amazonaws.com")
        network = {
            "securityGroupIds": [],
            "endpointPublicAccess": True,
            "endpointPrivateAccess": False,
            **resourcesVpcConfig,
        }
        vpc = self._check_subnets(network["subnetIds"])
        _check_endpoint(network)
        group = self.account.ec2.create_security_group(
            GroupName=f"eks-cluster-sg-{name}", Description="made by EKS", VpcId=vpc
        )
        number = next(self.numbers)
        access = {"authenticationMode": "CONFIG_MAP", **more.pop("accessConfig", {})}
        is_admin = access.pop("bootstrapClusterCreatorAdminPermissions", True)
        self.clusters[name] = {
            "name": name,
            "version": version,
            "roleArn": roleArn,
            "resourcesVpcConfig": {**network, "clusterSecurityGroupId": group["GroupId"], "vpcId": vpc},
            "arn": f"arn:aws:eks:us-east-1:{ACCOUNT}:cluster/{name}",
            "status": "CREATING",
            "endpoint": f"https://{number:08x}.eks.us-east-1.amazonaws.com",
            "certificateAuthority": {"data": "LS0t"},
            "identity": {"oidc": {"issuer": f"https://oidc.eks.us-east-1.amazonaws.com/id/{number:08X}"}},
            "accessConfig": access,
            "upgradePolicy": {"supportType": "EXTENDED"},
            **{key: value for key, value in more.items() if key != "bootstrapSelfManagedAddons"},
            "tags": more.get("tags", {}),
        }
        self.members[name] = {kind: {} for kind in ("nodegroup", "fargate", "addon", "entry", "association")}
        self.account.kube.start(name)
        self._write_logs(self.clusters[name])
        if is_admin and access["authenticationMode"] != "CONFIG_MAP":
            self.add_entry(name, CREATOR, "STANDARD", {ADMIN_POLICY: {"type": "cluster"}})
        return {"cluster": self.settle(self.clusters[name])}

    def _write_logs(self, cluster: Raw) -> None:
        """EKS creates the log group if it writes logs and there is none."""
        group = f"/aws/eks/{cluster['name']}/cluster"
        setups = cluster.get("logging", {}).get("clusterLogging", ())
        if any(setup["enabled"] for setup in setups) and group not in self.account.logs.groups:
            self.account.logs.create_log_group(logGroupName=group)

    def check_role(self, arn: str, service: str) -> None:
        role = self.account.iam.roles.get(arn.rpartition("/")[2])
        if role is None or role["Arn"] != arn:
            raise refusal("InvalidParameterException", f"Role with arn: {arn}, does not exist.")
        trusted = json.dumps(role["AssumeRolePolicyDocument"])
        if service not in trusted:
            message = f"Role with arn: {arn}, could not be assumed because it does not trust {service}"
            raise refusal("InvalidParameterException", message)

    def _check_subnets(self, subnets: list[str]) -> str:
        existing = [self.account.ec2.resources.get(subnet) for subnet in subnets]
        if None in existing:
            raise refusal("InvalidParameterException", f"The subnet ID does not exist: {subnets}")
        zones = {subnet["AvailabilityZone"] for subnet in existing}
        vpcs = {subnet["VpcId"] for subnet in existing}
        if len(zones) < 2 or len(vpcs) != 1:
            message = "Subnets specified must be in at least two different AZs of one VPC"
            raise refusal("InvalidParameterException", message)
        return str(vpcs.pop())

    def cluster(self, name: str) -> Raw:
        if name not in self.clusters:
            raise refusal("ResourceNotFoundException", f"No cluster found for name: {name}.")
        return self.clusters[name]

    def settle(self, resource: Raw) -> Raw:
        """Return a copy; the next one shows the end of a transition."""
        shown = dict(resource)
        if resource.get("status") in ("CREATING", "UPDATING"):
            resource["status"] = "ACTIVE"
        return shown

    def describe_cluster(self, *, name: str) -> Raw:
        return {"cluster": self.settle(self.cluster(name))}

    def list_clusters(self) -> Raw:
        return {"clusters": sorted(self.clusters)}

    def delete_cluster(self, *, name: str) -> Raw:
        cluster = self.cluster(name)
        members = self.members[name]
        if members["nodegroup"] or members["fargate"]:
            raise refusal("ResourceInUseException", "Cluster has nodegroups attached")
        group = cluster["resourcesVpcConfig"]["clusterSecurityGroupId"]
        del self.clusters[name], self.members[name]
        self.account.ec2.delete_security_group(GroupId=group)
        self.account.kube.stop(name)
        return {"cluster": {**cluster, "status": "DELETING"}}

    def update_cluster_version(self, *, name: str, version: str) -> Raw:
        cluster = self.updatable(self.cluster(name))
        if _minor(version) != _minor(cluster["version"]) + 1:
            message = f"Unsupported Kubernetes minor version update from {cluster['version']} to {version}"
            raise refusal("InvalidParameterException", message)
        cluster["version"] = version
        return {"update": {"id": "1", "status": "InProgress"}}

    def update_cluster_config(self, *, name: str, **changes: Any) -> Raw:
        cluster = self.updatable(self.cluster(name))
        if len(changes) != 1:
            raise refusal("InvalidParameterException", "Only one type of update can be allowed.")
        for key, value in changes.items():
            if key == "resourcesVpcConfig":
                self._update_network(cluster, value)
            elif key == "accessConfig":
                _update_access(cluster, value["authenticationMode"])
            elif key == "logging":
                if _enabled_logs(value) == _enabled_logs(cluster.get("logging") or {}):
                    raise refusal("InvalidParameterException", "No changes needed for the logging config")
                cluster["logging"] = value
                self._write_logs(cluster)
            elif key == "upgradePolicy":
                if value == cluster["upgradePolicy"]:
                    raise refusal("InvalidParameterException", "No changes needed for the upgrade policy")
                cluster["upgradePolicy"] = value
            else:
                raise AssertionError(f"update of {key}")
        cluster["status"] = "UPDATING"
        return {"update": {"id": "1", "status": "InProgress"}}

    def _update_network(self, cluster: Raw, changes: Raw) -> None:
        network = cluster["resourcesVpcConfig"]
        if _SUBNET_KEYS.intersection(changes) and set(changes) - _SUBNET_KEYS:
            message = "Cannot update subnets and endpoint access in the same request"
            raise refusal("InvalidParameterException", message)
        merged = {**network, **changes}
        if all(_as_set(network.get(key)) == _as_set(value) for key, value in changes.items()):
            raise refusal("InvalidParameterException", f"Cluster is already at the configuration {changes}")
        if self._check_subnets(merged["subnetIds"]) != network["vpcId"]:
            raise refusal("InvalidParameterException", "Provided subnets belong to a different VPC")
        _check_endpoint(merged)
        cluster["resourcesVpcConfig"] = merged

    def updatable(self, resource: Raw) -> Raw:
        if resource["status"] != "ACTIVE":
            raise refusal("ResourceInUseException", "cannot be updated: it has an update in progress")
        return resource

    def associate_encryption_config(self, *, clusterName: str, encryptionConfig: Any) -> Raw:
        cluster = self.updatable(self.cluster(clusterName))
        if cluster.get("encryptionConfig"):
            raise refusal("InvalidRequestException", "Encryption is already enabled with this cluster")
        cluster["encryptionConfig"] = encryptionConfig
        cluster["status"] = "UPDATING"
        return {"update": {"id": "1", "status": "InProgress"}}

    def describe_update(self, **_: Any) -> Raw:
        return {"update": {"id": "1", "status": "Successful"}}

    def tag_resource(self, *, resourceArn: str, tags: dict[str, str]) -> Raw:
        for resource in self._by_arn(resourceArn):
            resource["tags"] = {**resource["tags"], **tags}
        return {}

    def untag_resource(self, *, resourceArn: str, tagKeys: list[str]) -> Raw:
        for resource in self._by_arn(resourceArn):
            resource["tags"] = {key: value for key, value in resource["tags"].items() if key not in tagKeys}
        return {}

    def _by_arn(self, arn: str) -> list[Raw]:
        every = [*self.clusters.values()]
        every += [
            member for kinds in self.members.values() for kind in kinds.values() for member in kind.values()
        ]
        existing = [resource for resource in every if arn in resource.values()]
        if len(existing) != 1:
            raise refusal("ResourceNotFoundException", f"no resource {arn}")
        return existing

    # Members in general.

    def members_of(self, cluster: str, kind: str) -> dict[str, Raw]:
        self.cluster(cluster)
        return self.members[cluster][kind]

    def member(self, cluster: str, kind: str, name: str) -> Raw:
        members = self.members_of(cluster, kind)
        if name not in members:
            raise refusal("ResourceNotFoundException", f"No {kind} found for name: {name}.")
        return members[name]

    def create_member(self, kind: str, cluster: str, name: str, arn_key: str, fields: Raw) -> Raw:
        members = self.members_of(cluster, kind)
        if name in members:
            raise refusal("ResourceInUseException", f"{kind} already exists with name {name}")
        self.require_active(cluster)
        arn = f"arn:aws:eks:us-east-1:{ACCOUNT}:{kind}/{cluster}/{name}"
        members[name] = {**fields, "clusterName": cluster, arn_key: arn, "tags": fields.get("tags") or {}}
        return members[name]

    def require_active(self, cluster: str) -> None:
        if self.clusters[cluster]["status"] == "CREATING":
            raise refusal("ResourceInUseException", f"Cluster {cluster} is not in ACTIVE status")

    # Node groups and Fargate profiles.

    def create_nodegroup(
        self, *, clusterName: str, nodegroupName: str, nodeRole: str, subnets: list[str], **more: Any
    ) -> Raw:
        self.check_role(nodeRole, "ec2.amazonaws.com")
        for subnet in subnets:
            self.account.ec2.find(subnet)
        template = more.get("launchTemplate")
        if template is not None:
            data = self.account.ec2.templates[self.account.ec2.find(template["id"])["LaunchTemplateId"]][-1]
            if "diskSize" in more and "BlockDeviceMappings" in data:
                raise refusal(
                    "InvalidParameterException", "Disk size must be specified in the launch template"
                )
        _check_scaling(more["scalingConfig"])
        fields = {
            "nodegroupName": nodegroupName,
            "nodeRole": nodeRole,
            "subnets": list(subnets),
            "version": self.cluster(clusterName)["version"],
            "updateConfig": {"maxUnavailable": 1},
            "labels": {},
            "taints": [],
            **({} if template else {"diskSize": 20}),
            **more,
            "status": "CREATING",
        }
        group = self.create_member("nodegroup", clusterName, nodegroupName, "nodegroupArn", fields)
        self._add_node_entry(clusterName, nodeRole, "nodegroup")
        return {"nodegroup": dict(group)}

    def list_nodegroups(self, *, clusterName: str) -> Raw:
        return {"nodegroups": list(self.members_of(clusterName, "nodegroup"))}

    def describe_nodegroup(self, *, clusterName: str, nodegroupName: str) -> Raw:
        return {"nodegroup": self.settle(self.member(clusterName, "nodegroup", nodegroupName))}

    def update_nodegroup_config(
        self, *, clusterName: str, nodegroupName: str, labels: Any = None, taints: Any = None, **more: Any
    ) -> Raw:
        group = self.updatable(self.member(clusterName, "nodegroup", nodegroupName))
        assert set(more) <= {"scalingConfig", "updateConfig"}, more
        if "scalingConfig" in more:
            _check_scaling(more["scalingConfig"])
        if "updateConfig" in more:
            assert len(more["updateConfig"]) == 1, "maxUnavailable or maxUnavailablePercentage"
        if labels is not None:
            merged = {**group["labels"], **labels.get("addOrUpdateLabels", {})}
            removed = labels.get("removeLabels", [])
            group["labels"] = {key: value for key, value in merged.items() if key not in removed}
        if taints is not None:
            group["taints"] = _updated_taints(group["taints"], taints)
        group.update(more)
        group["status"] = "UPDATING"
        return {"update": {"id": "1"}}

    def update_nodegroup_version(self, *, clusterName: str, nodegroupName: str, **changes: Any) -> Raw:
        group = self.updatable(self.member(clusterName, "nodegroup", nodegroupName))
        changes.pop("force", None)
        template = changes.get("launchTemplate")
        if template is not None:
            if group.get("launchTemplate", {}).get("id") != template["id"]:
                message = "You cannot specify a different launch template, or add one to a node group"
                raise refusal("InvalidParameterException", message)
            latest = len(self.account.ec2.templates[template["id"]])
            assert 1 <= int(template["version"]) <= latest, template
        if changes.get("version"):
            cluster = _minor(self.cluster(clusterName)["version"])
            if not _minor(group["version"]) <= _minor(changes["version"]) <= cluster:
                raise refusal("InvalidParameterException", f"unsupported version {changes['version']}")
        group.update(changes)
        group["status"] = "UPDATING"
        return {"update": {"id": "1"}}

    def delete_nodegroup(self, *, clusterName: str, nodegroupName: str) -> Raw:
        self.member(clusterName, "nodegroup", nodegroupName)
        del self.members[clusterName]["nodegroup"][nodegroupName]
        return {}

    def create_fargate_profile(
        self, *, clusterName: str, fargateProfileName: str, podExecutionRoleArn: str, **more: Any
    ) -> Raw:
        self.check_role(podExecutionRoleArn, "eks-fargate-pods.amazonaws.com")
        if any(member["status"] == "CREATING" for member in self.members_of(clusterName, "fargate").values()):
            raise refusal("ResourceInUseException", "another Fargate profile is being created")
        for subnet in more["subnets"]:
            if self.account.ec2.find(subnet)["MapPublicIpOnLaunch"]:
                raise refusal("InvalidParameterException", f"Subnet {subnet} is not a private subnet")
        fields = {
            "fargateProfileName": fargateProfileName,
            "podExecutionRoleArn": podExecutionRoleArn,
            **more,
            "status": "CREATING",
        }
        profile = self.create_member("fargate", clusterName, fargateProfileName, "fargateProfileArn", fields)
        self._add_node_entry(clusterName, podExecutionRoleArn, "fargate")
        return {"fargateProfile": dict(profile)}

    def list_fargate_profiles(self, *, clusterName: str) -> Raw:
        return {"fargateProfileNames": list(self.members_of(clusterName, "fargate"))}

    def describe_fargate_profile(self, *, clusterName: str, fargateProfileName: str) -> Raw:
        return {"fargateProfile": self.settle(self.member(clusterName, "fargate", fargateProfileName))}

    def delete_fargate_profile(self, *, clusterName: str, fargateProfileName: str) -> Raw:
        self.member(clusterName, "fargate", fargateProfileName)
        del self.members[clusterName]["fargate"][fargateProfileName]
        return {}

    def add_entry(self, cluster: str, principal: str, kind: str, policies: Raw) -> None:
        arn = f"arn:aws:eks:us-east-1:{ACCOUNT}:access-entry/{cluster}/{principal}"
        entry = {"principalArn": principal, "type": kind, "kubernetesGroups": [], "policies": policies}
        entry |= {"clusterName": cluster, "accessEntryArn": arn, "username": "", "tags": {}}
        self.members[cluster]["entry"].setdefault(principal, entry)

    def _add_node_entry(self, cluster: str, role: str, kind: str) -> None:
        """EKS gives access to the nodes that it starts."""
        if self.clusters[cluster]["accessConfig"]["authenticationMode"] != "CONFIG_MAP":
            self.add_entry(cluster, role, _ENTRY_TYPES[kind], {})


def _check_endpoint(network: Raw) -> None:
    if not (network["endpointPublicAccess"] or network["endpointPrivateAccess"]):
        raise refusal("InvalidParameterException", "Private and public endpoint access cannot be false")
    if not network["endpointPublicAccess"]:
        network["publicAccessCidrs"] = []
    elif not network.get("publicAccessCidrs"):
        network["publicAccessCidrs"] = ["0.0.0.0/0"]


def _update_access(cluster: Raw, mode: str) -> None:
    before = cluster["accessConfig"]["authenticationMode"]
    if _MODES.index(mode) <= _MODES.index(before):
        message = f"Unsupported authentication mode update from {before} to {mode}"
        raise refusal("InvalidParameterException", message)
    cluster["accessConfig"] = {**cluster["accessConfig"], "authenticationMode": mode}


def _enabled_logs(logging: Raw) -> set[str]:
    return {
        kind for setup in logging.get("clusterLogging", ()) if setup["enabled"] for kind in setup["types"]
    }


def _as_set(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _check_scaling(scaling: Raw) -> None:
    if not 0 <= scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"]:
        raise refusal("InvalidParameterException", f"Minimum capacity can't be greater: {scaling}")


def _updated_taints(before: list[Raw], change: Raw) -> list[Raw]:
    """Return the taints after an update; key and effect identify one."""
    added, removed = change.get("addOrUpdateTaints", []), change.get("removeTaints", [])
    keys = {(taint["key"], taint["effect"]) for taint in added}
    gone = {(taint["key"], taint["effect"]) for taint in removed}
    if keys & gone:
        raise refusal("InvalidParameterException", f"Taints are both added and removed: {keys & gone}")
    return [taint for taint in before if (taint["key"], taint["effect"]) not in keys | gone] + list(added)


def _minor(version: str) -> int:
    return int(version.partition(".")[2])
