"""Requests that EC2 refuses and moto accepts.

Limits of sizes and tags, references to what does not exist, and settings that an
instance type does not support. Facts of instance types are moto's own: they share
nothing with the catalogue under test.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.iam.models import iam_backends

MAX_TAGS = 50
MAX_TAG_KEY, MAX_TAG_VALUE = 128, 256
MAX_USER_DATA = 16384
"""Bytes before Base64."""
MAX_FLEET_TEMPLATES = 50
MAX_OVERRIDES = 300
"""Of fleets of type ``request`` and ``maintain``; instant ones have no such limit."""
MAX_FILTER_VALUES = 200
_TEMPLATE_NAME = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
_EFA = ("efa", "efa-only")

Data = Mapping[str, Any]


def check_tags(specifications: Iterable[Data] | None) -> None:
    """Refuse tags beyond EC2's limits; ``specifications`` are TagSpecifications."""
    for specification in specifications or ():
        tags = specification.get("Tags") or []
        keys = [tag["Key"] for tag in tags]
        if len(keys) > MAX_TAGS:
            raise EC2ClientError("TagLimitExceeded", "The maximum number of Tags for a resource is 50")
        if len(set(keys)) < len(keys):
            raise EC2ClientError("InvalidParameterValue", "Duplicate tag key specified")
        for tag in tags:
            check_tag(tag["Key"], tag.get("Value") or "")


def check_tag(key: str, value: str) -> None:
    if key.lower().startswith("aws:"):
        message = "Tag keys starting with 'aws:' are reserved for internal use"
        raise EC2ClientError("InvalidParameterValue", message)
    if not 1 <= len(key) <= MAX_TAG_KEY:
        raise EC2ClientError("InvalidParameterValue", f"Tag key exceeds the maximum length of {MAX_TAG_KEY}")
    if len(value) > MAX_TAG_VALUE:
        message = f"Tag value exceeds the maximum length of {MAX_TAG_VALUE} characters"
        raise EC2ClientError("InvalidParameterValue", message)


def check_fleet(request: Data) -> None:
    """Refuse a CreateFleet request that is too large, or has a wrong tag."""
    configs = request["LaunchTemplateConfigs"] or []
    overrides = sum(len(config.get("Overrides") or []) for config in configs)
    if len(configs) > MAX_FLEET_TEMPLATES:
        message = f"LaunchTemplateConfigs must have at most {MAX_FLEET_TEMPLATES} items"
        raise EC2ClientError("InvalidParameterValue", message)
    if overrides > MAX_OVERRIDES and request["Type"] != "instant":
        raise EC2ClientError("InvalidParameterValue", f"at most {MAX_OVERRIDES} overrides are allowed")
    check_tags(request["TagSpecifications"])


def check_template(name: str, data: Data, specifications: Iterable[Data] | None) -> None:
    """Refuse a launch template; EC2 checks few of its parameters before a launch."""
    if not _TEMPLATE_NAME.fullmatch(name):
        raise EC2ClientError("InvalidLaunchTemplateName.MalformedException", f"{name} is not a valid name")
    check_user_data(data.get("UserData"))
    check_tags(data.get("TagSpecifications"))
    check_tags(specifications)


def check_user_data(encoded: str | None) -> None:
    if encoded and len(b64decode(encoded)) > MAX_USER_DATA:
        message = f"User data is limited to {MAX_USER_DATA} bytes"
        raise EC2ClientError("InvalidParameterValue", message)


def check_filters(filters: Mapping[str, Sequence[str]]) -> None:
    if any(len(values) > MAX_FILTER_VALUES for values in filters.values()):
        message = f"The maximum number of filter values specified on a single call is {MAX_FILTER_VALUES}"
        raise EC2ClientError("FilterLimitExceeded", message)


def check_profile(data: Data, hidden: Iterable[str]) -> None:
    """Refuse an instance profile that EC2 does not see; ``hidden``: created just now."""
    profile = data.get("IamInstanceProfile") or {}
    name = profile.get("Name") or str(profile.get("Arn", "")).rpartition("/")[2]
    known = {
        entry.name
        for backend in iam_backends[DEFAULT_ACCOUNT_ID].values()
        for entry in backend.instance_profiles.values()
    }
    if name and (name not in known or name in hidden):
        message = f"Value ({name}) for parameter iamInstanceProfile.name is invalid."
        raise EC2ClientError("InvalidParameterValue", f"{message} Invalid IAM Instance Profile name")


def check_instance_type(name: str, data: Data, *, strategy: str = "") -> None:
    """Refuse settings that an instance type does not support.

    ``data`` is a launch template with the parameters of the request; ``strategy`` is
    that of its placement group.
    """
    facts = INSTANCE_TYPES.get(name)
    if facts is None:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    for problem in _unsupported(name, facts, data, strategy):
        raise EC2ClientError("InvalidParameterCombination", problem)
    interfaces = data.get("NetworkInterfaces") or []
    limit = facts["NetworkInfo"]["MaximumNetworkInterfaces"]
    if len(interfaces) > limit:
        message = f"Interface count {len(interfaces)} exceeds the limit for {name}"
        raise EC2ClientError("AttachmentLimitExceeded", message)


def _unsupported(name: str, facts: Data, data: Data, strategy: str) -> Iterable[str]:
    strategies = facts.get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    if strategy and strategy not in strategies:
        yield f"Placement groups of strategy {strategy} may not be used with instances of type '{name}'."
    nested = (data.get("CpuOptions") or {}).get("NestedVirtualization")
    features = facts.get("ProcessorInfo", {}).get("SupportedFeatures", [])
    if nested == "enabled" and "nested-virtualization" not in features:
        yield f"The instance type '{name}' does not support nested virtualization."
    if (data.get("EnclaveOptions") or {}).get("Enabled") and facts["NitroEnclavesSupport"] != "supported":
        yield f"The instance type '{name}' does not support enclaves."
    yield from _unsupported_interfaces(name, facts, data.get("NetworkInterfaces") or [])


def _unsupported_interfaces(name: str, facts: Data, interfaces: Sequence[Data]) -> Iterable[str]:
    network = facts["NetworkInfo"]
    cards = {card["NetworkCardIndex"]: card["MaximumNetworkInterfaces"] for card in network["NetworkCards"]}
    for interface in interfaces:
        card = int(interface.get("NetworkCardIndex") or 0)
        if card not in cards:
            yield f"Network card index {card} is not valid for instance type '{name}'."
            return
        used = sum(int(other.get("NetworkCardIndex") or 0) == card for other in interfaces)
        if used > cards[card]:
            yield f"Network card {card} of '{name}' supports at most {cards[card]} interfaces."
        if interface.get("ConnectionTrackingSpecification") and facts.get("Hypervisor") != "nitro":
            yield f"Connection tracking timeouts are not supported by instance type '{name}'."
    if any(interface.get("InterfaceType") in _EFA for interface in interfaces):
        efas = sum(interface.get("InterfaceType") in _EFA for interface in interfaces)
        if efas > network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0):
            yield f"The instance type '{name}' does not support {efas} EFA interfaces."


def check_disks(data: Data, snapshots: Mapping[str, int], root: tuple[str, int]) -> None:
    """Refuse a disk smaller than its snapshot: snapshot → GiB, and root device and GiB."""
    for mapping in data.get("BlockDeviceMappings") or []:
        disk = mapping.get("Ebs") or {}
        size, snapshot = disk.get("VolumeSize"), disk.get("SnapshotId") or ""
        least = snapshots.get(snapshot, 0)
        if not snapshot and mapping.get("DeviceName") == root[0]:
            least, snapshot = root[1], "of the image"
        if size is not None and int(size) < least:
            message = (
                f"Volume of size {size}GB is smaller than snapshot '{snapshot}', expect size>= {least}GB"
            )
            raise EC2ClientError("InvalidBlockDeviceMapping", message)
