"""Authorisations that AWS requires for a call: actions, resources, conditions.

By the service authorization reference of EC2, IAM, SQS, SSM, EKS, Pricing and ARC. A
launch is authorised once for each resource that it uses or creates; tags at creation
are authorised as CreateTags with ``ec2:CreateAction``; a role is passed to EC2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tests.support.iam.calls import Call
from tests.support.iam.evaluator import Request

Tags = Mapping[str, str]
_LAUNCHED_TYPES = ("instance", "volume", "network-interface")
_DELETED_BATCH = {"DeleteMessageBatch": "DeleteMessage"}
_NO_PERMISSION = {("sts", "GetCallerIdentity")}
"""Calls that every principal may make."""


class Account(msgspec.Struct, kw_only=True):
    """Resources of an account whose tags and contents authorisation needs."""

    id: str = "123456789012"
    partition: str = "aws"
    instances: dict[str, Tags] = msgspec.field(default_factory=dict)
    templates: dict[str, tuple[Tags, Mapping[str, Any]]] = msgspec.field(default_factory=dict)
    """Name → tags and data."""
    profiles: dict[str, tuple[str, Tags, str]] = msgspec.field(default_factory=dict)
    """Name → path, tags and role."""
    snapshots: dict[str, str] = msgspec.field(default_factory=dict)
    """Image → snapshot of its root disk."""

    def learn(self, call: Call) -> None:
        """Record the launch template or instance profile that a call creates."""
        parameters = call.parameters
        if call.operation == "CreateLaunchTemplate":
            tags = _specified_tags(parameters, "launch-template")
            self.templates[parameters["LaunchTemplateName"]] = (tags, parameters["LaunchTemplateData"])
        elif call.operation == "CreateInstanceProfile":
            path = parameters.get("Path", "/")
            self.profiles[parameters["InstanceProfileName"]] = (path, _tags(parameters.get("Tags")), "")
        elif call.operation == "AddRoleToInstanceProfile":
            path, tags, _ = self.profiles.get(parameters["InstanceProfileName"], ("/", {}, ""))
            self.profiles[parameters["InstanceProfileName"]] = (path, tags, parameters["RoleName"])

    def arn(self, service: str, resource: str, *, region: str = "", account: str | None = None) -> str:
        owner = self.id if account is None else account
        return f"arn:{self.partition}:{service}:{region}:{owner}:{resource}"

    def profile_arn(self, name: str) -> str:
        path, _, _ = self.profiles.get(name, ("/", {}, ""))
        return self.arn("iam", f"instance-profile{path}{name}")


def authorizations(call: Call, account: Account) -> list[Request]:
    """Return what the caller must be allowed to do; all of it is needed."""
    if (call.service, call.operation) in _NO_PERMISSION:
        return []
    derive = _DERIVATIONS.get(call.operation, _unscoped)
    everywhere = {"aws:RequestedRegion": call.region, "aws:SecureTransport": "true"}
    # Overrides of a fleet share most of their resources.
    distinct = {
        (request.action, request.resource, str(request.context)): request for request in derive(call, account)
    }
    return [
        msgspec.structs.replace(request, context={**everywhere, **request.context})
        for request in distinct.values()
    ]


def _unscoped(call: Call, _: Account) -> Iterator[Request]:
    """An action without resource: Describe, List and GetProducts."""
    assert call.operation.startswith(("Describe", "List", "GetProducts")), call.operation
    yield Request(action=f"{call.service}:{call.operation}")


def _create_template(call: Call, account: Account) -> Iterator[Request]:
    tags = _specified_tags(call.parameters, "launch-template")
    resource = account.arn("ec2", "launch-template/*", region=call.region)
    yield Request(action="ec2:CreateLaunchTemplate", resource=resource, context=_request_tags(tags))
    yield from _tag_at_creation(call, {"launch-template": tags}, account)


def _delete_template(call: Call, account: Account) -> Iterator[Request]:
    tags, _ = account.templates.get(call.parameters["LaunchTemplateName"], ({}, {}))
    resource = account.arn("ec2", "launch-template/lt-1", region=call.region)
    yield Request(action="ec2:DeleteLaunchTemplate", resource=resource, context=_resource_tags(tags))


def _create_fleet(call: Call, account: Account) -> Iterator[Request]:
    """A fleet, and the launches of instances that it makes for the caller."""
    parameters = call.parameters
    fleet_tags = _specified_tags(parameters, "fleet")
    fleet = account.arn("ec2", "fleet/*", region=call.region)
    yield Request(action="ec2:CreateFleet", resource=fleet, context=_request_tags(fleet_tags))
    yield from _tag_at_creation(call, {"fleet": fleet_tags}, account)
    for config in parameters["LaunchTemplateConfigs"]:
        name = config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        used = ("ImageId", "SubnetId")
        distinct = {
            tuple((field, override[field]) for field in used if field in override)
            for override in config.get("Overrides", [])
        }
        for override in sorted(distinct):
            for action in ("ec2:CreateFleet", "ec2:RunInstances"):
                yield from _launch(call, account, action, name, dict(override))


def _run_instances(call: Call, account: Account) -> Iterator[Request]:
    name = call.parameters.get("LaunchTemplate", {}).get("LaunchTemplateName", "")
    yield from _launch(call, account, "ec2:RunInstances", name, call.parameters)


def _launch(
    call: Call, account: Account, action: str, template: str, parameters: Mapping[str, Any]
) -> Iterator[Request]:
    """Every resource that a launch uses or creates; parameters override the template."""
    template_tags, data = account.templates.get(template, ({}, {}))
    merged = {**data, **parameters}
    ec2 = lambda resource, owner=None: account.arn("ec2", resource, region=call.region, account=owner)  # noqa: E731
    if template:
        resource = ec2("launch-template/lt-1")
        yield Request(action=action, resource=resource, context=_resource_tags(template_tags))
    yield Request(action=action, resource=ec2(f"image/{merged['ImageId']}", ""))
    for snapshot in _snapshots(merged, account):
        yield Request(action=action, resource=ec2(f"snapshot/{snapshot}", ""))
    for used in _used_resources(merged):
        yield Request(action=action, resource=ec2(used))
    created = list(_LAUNCHED_TYPES)
    if _is_spot(call):
        created.append("spot-instances-request")
    tags = {kind: _specified_tags(call.parameters, kind) or _specified_tags(data, kind) for kind in created}
    for kind in created:
        yield Request(action=action, resource=ec2(f"{kind}/*"), context=_request_tags(tags[kind]))
    yield from _tag_at_creation(call, tags, account)
    profile = (merged.get("IamInstanceProfile") or {}).get("Name", "")
    if profile and account.profiles.get(profile, ("", {}, ""))[2]:
        yield from _pass_role(account.profiles[profile][2], account)


def _used_resources(data: Mapping[str, Any]) -> Iterator[str]:
    interfaces = data.get("NetworkInterfaces") or []
    groups = {group for interface in interfaces for group in interface.get("Groups") or []}
    yield from (f"security-group/{group}" for group in sorted(groups))
    subnets = {interface.get("SubnetId") for interface in interfaces} | {data.get("SubnetId")}
    yield from (f"subnet/{subnet}" for subnet in sorted(filter(None, subnets)))
    placement = data.get("Placement") or {}
    if group := placement.get("GroupName") or placement.get("GroupId"):
        yield f"placement-group/{group}"
    reservation = data.get("CapacityReservationSpecification") or {}
    if target := (reservation.get("CapacityReservationTarget") or {}).get("CapacityReservationId"):
        yield f"capacity-reservation/{target}"


def _snapshots(data: Mapping[str, Any], account: Account) -> Iterator[str]:
    if data["ImageId"] in account.snapshots:
        yield account.snapshots[data["ImageId"]]
    for disk in data.get("BlockDeviceMappings") or []:
        if snapshot := (disk.get("Ebs") or {}).get("SnapshotId"):
            yield snapshot


def _is_spot(call: Call) -> bool:
    target = call.parameters.get("TargetCapacitySpecification", {})
    return target.get("DefaultTargetCapacityType") == "spot"


def _tag_at_creation(call: Call, tags: Mapping[str, Tags], account: Account) -> Iterator[Request]:
    """The tags of each created resource that has some."""
    for kind, pairs in tags.items():
        if pairs:
            yield Request(
                action="ec2:CreateTags",
                resource=account.arn("ec2", f"{kind}/*", region=call.region),
                context={**_request_tags(pairs), "ec2:CreateAction": call.operation},
            )


def _create_tags(call: Call, account: Account) -> Iterator[Request]:
    tags = _tags(call.parameters["Tags"])
    for name in call.parameters["Resources"]:
        yield Request(
            action="ec2:CreateTags",
            resource=account.arn("ec2", f"instance/{name}", region=call.region),
            context={**_request_tags(tags), **_resource_tags(account.instances.get(name, {}))},
        )


def _terminate(call: Call, account: Account) -> Iterator[Request]:
    for name in call.parameters["InstanceIds"]:
        resource = account.arn("ec2", f"instance/{name}", region=call.region)
        context = _resource_tags(account.instances.get(name, {}))
        yield Request(action="ec2:TerminateInstances", resource=resource, context=context)


def _create_profile(call: Call, account: Account) -> Iterator[Request]:
    name, path = call.parameters["InstanceProfileName"], call.parameters.get("Path", "/")
    resource = account.arn("iam", f"instance-profile{path}{name}")
    tags = _request_tags(_tags(call.parameters.get("Tags")))
    yield Request(action="iam:CreateInstanceProfile", resource=resource, context=tags)


def _on_profile(call: Call, account: Account) -> Iterator[Request]:
    name = call.parameters["InstanceProfileName"]
    _, tags, _ = account.profiles.get(name, ("/", {}, ""))
    yield Request(
        action=f"iam:{call.operation}", resource=account.profile_arn(name), context=_resource_tags(tags)
    )
    if call.operation == "AddRoleToInstanceProfile":
        yield from _pass_role(call.parameters["RoleName"], account)


def _pass_role(role: str, account: Account) -> Iterator[Request]:
    service = "ec2.amazonaws.com.cn" if account.partition == "aws-cn" else "ec2.amazonaws.com"
    yield Request(
        action="iam:PassRole",
        resource=account.arn("iam", f"role/{role}"),
        context={"iam:PassedToService": service},
    )


def _on_queue(call: Call, account: Account) -> Iterator[Request]:
    name = call.parameters.get("QueueName") or call.parameters["QueueUrl"].rpartition("/")[2]
    action = _DELETED_BATCH.get(call.operation, call.operation)
    yield Request(action=f"sqs:{action}", resource=account.arn("sqs", name, region=call.region))


def _get_parameter(call: Call, account: Account) -> Iterator[Request]:
    name = call.parameters["Name"]
    owner = "" if name.startswith("/aws/") else None
    resource = account.arn("ssm", f"parameter/{name.removeprefix('/')}", region=call.region, account=owner)
    yield Request(action="ssm:GetParameter", resource=resource)


def _describe_cluster(call: Call, account: Account) -> Iterator[Request]:
    resource = account.arn("eks", f"cluster/{call.parameters['name']}", region=call.region)
    yield Request(action="eks:DescribeCluster", resource=resource)


def _get_managed_resource(call: Call, _: Account) -> Iterator[Request]:
    arn = call.parameters["resourceIdentifier"]
    context = {"arc-zonal-shift:ResourceIdentifier": arn}
    yield Request(action="arc-zonal-shift:GetManagedResource", resource=arn, context=context)


_DERIVATIONS: Mapping[str, Callable[[Call, Account], Iterator[Request]]] = {
    "CreateLaunchTemplate": _create_template,
    "DeleteLaunchTemplate": _delete_template,
    "CreateFleet": _create_fleet,
    "RunInstances": _run_instances,
    "CreateTags": _create_tags,
    "TerminateInstances": _terminate,
    "CreateInstanceProfile": _create_profile,
    "GetInstanceProfile": _on_profile,
    "AddRoleToInstanceProfile": _on_profile,
    "RemoveRoleFromInstanceProfile": _on_profile,
    "DeleteInstanceProfile": _on_profile,
    "GetQueueUrl": _on_queue,
    "ReceiveMessage": _on_queue,
    "DeleteMessage": _on_queue,
    "DeleteMessageBatch": _on_queue,
    "GetParameter": _get_parameter,
    "DescribeCluster": _describe_cluster,
    "GetManagedResource": _get_managed_resource,
}


def _tags(pairs: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    return {pair["Key"]: pair.get("Value", "") for pair in pairs or ()}


def _specified_tags(parameters: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the tags for a resource type in TagSpecifications."""
    tags: dict[str, str] = {}
    for specification in parameters.get("TagSpecifications") or []:
        if specification["ResourceType"] == kind:
            tags |= _tags(specification["Tags"])
    return tags


def _request_tags(tags: Tags) -> dict[str, str | list[str]]:
    keys: dict[str, str | list[str]] = {"aws:TagKeys": sorted(tags)} if tags else {}
    return {**keys, **{f"aws:RequestTag/{key}": value for key, value in tags.items()}}


def _resource_tags(tags: Tags) -> dict[str, str | list[str]]:
    return {f"aws:ResourceTag/{key}": value for key, value in tags.items()}
