"""Normal form of requests and results, of recordings and of our own runs.

- Tags and tag specifications are mappings; filters are sorted strings; lists of scalars are sorted.
- Client tokens, times, instance ids, names of launch templates and of instance profiles are placeholders.
- User data is decoded: parts of MIME with NodeConfig as a mapping, TOML, or a script without empty lines.
- A CreateFleet has its launch templates in it; CreateLaunchTemplate stays a request of its own only
  where no fleet uses the template.
- The instance type of a dry run is any that fits: ``<sample>``, and its number of pods ``<of sample>``.
  Fields that a dry run repeats from its launch template are ``<as in the template>``.
"""

import base64
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from email import message_from_string
from itertools import zip_longest
from typing import Any

import msgspec
import yaml

Facts = dict[str, Any]
SAMPLE, OF_SAMPLE, AS_IN_TEMPLATE = "<sample>", "<of sample>", "<as in the template>"
_PLACEHOLDERS = {"ClientToken": "<token>", "StartTime": "<time>"}
_PROFILE = re.compile(r"rec_(?:[0-9a-z]+|<number>)")
_INSTANCE = re.compile(r"(?<![a-z])i-[0-9a-f]{17}")
_NODE_LABELS = re.compile(r'--node-labels="([^"]*)"')
_MAX_PODS = re.compile(r"(--max-pods=)\d+")
_TEMPLATE_FIELDS = ("LaunchTemplateName", "LaunchTemplateNames")
_ORDERED = ("NetworkInterfaces",)
_SUFFIXES = {"m": Decimal("0.001"), "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9)}
_SUFFIXES |= {"T": Decimal(10**12), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30)}
_SUFFIXES |= {"Ti": Decimal(2**40)}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([A-Za-z]*)")
_HASH = "karpenter.k8s.aws/ec2nodeclass-hash"


class PlainRequest(msgspec.Struct, frozen=True):
    """A request before normalization; user data may be decoded already, as in the recordings."""

    service: str
    operation: str
    region: str
    code: str
    params: Mapping[str, Any]


def normalize_requests(phases: Mapping[str, Sequence[PlainRequest]]) -> Facts:
    """Return phase → requests, each ``{"operation", "region", "answer", "params"}``."""
    created = {
        request.params["LaunchTemplateName"]: _normalize_template(request.params)
        for requests in phases.values()
        for request in requests
        if request.operation == "CreateLaunchTemplate"
    }
    used = {name for requests in phases.values() for name in _fleet_templates(requests)}
    return {
        phase: [
            {
                "operation": f"{request.service}:{request.operation}",
                "region": request.region,
                "answer": request.code,
                "params": _normalize_params(request, created, _fleet_templates(requests)),
            }
            for request in requests
            if request.operation != "CreateLaunchTemplate" or request.params["LaunchTemplateName"] not in used
        ]
        for phase, requests in phases.items()
    }


def sample_types(requests: Iterable[PlainRequest]) -> set[str]:
    """Return the instance types of dry runs."""
    return {
        str(request.params["InstanceType"]) for request in requests if request.operation == "RunInstances"
    }


def normalize_nodeclass(status: Mapping[str, Any], conditions: Mapping[str, tuple[str, str]]) -> Facts:
    """Return status and conditions of a node class."""
    facts: Facts = {
        "instanceProfile": _normalize_text(status.get("instanceProfile", "")),
        "amis": sorted(_describe_ami(ami) for ami in status.get("amis", ())),
        "conditions": {
            kind: "True" if state == "True" else f"{state} {reason}"
            for kind, (state, reason) in conditions.items()
        },
    }
    for field in ("subnets", "securityGroups", "capacityReservations"):
        facts[field] = {
            entry["id"]: {key: value for key, value in entry.items() if key != "id"}
            for entry in status.get(field) or ()
        }
    return facts


def normalize_nodeclaim(
    *,
    image_id: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    capacity: Mapping[str, str],
    allocatable: Mapping[str, str],
) -> Facts:
    """Return what a launch writes to a NodeClaim; quantities are numbers."""
    return {
        "imageID": image_id,
        "labels": dict(labels),
        "annotations": {key: _normalize_text(text) for key, text in annotations.items() if key != _HASH},
        "capacity": {name: _number(quantity) for name, quantity in capacity.items()},
        "allocatable": {name: _number(quantity) for name, quantity in allocatable.items()},
    }


def _describe_ami(ami: Mapping[str, Any]) -> str:
    requirements = sorted(
        " ".join([entry["key"], entry["operator"], ",".join(sorted(entry.get("values", ())))]).strip()
        for entry in ami["requirements"]
    )
    return " | ".join([ami["id"], ami["name"], *requirements])


def _number(quantity: str) -> str:
    match = _QUANTITY.fullmatch(quantity)
    assert match is not None, quantity
    amount = Decimal(match[1]) * (_SUFFIXES[match[2]] if match[2] else 1)
    return f"{amount.normalize():f}"


def _fleet_templates(requests: Sequence[PlainRequest]) -> set[str]:
    return {
        config["LaunchTemplateSpecification"]["LaunchTemplateName"]
        for request in requests
        if request.operation == "CreateFleet"
        for config in request.params["LaunchTemplateConfigs"]
    }


def _normalize_template(params: Mapping[str, Any]) -> Facts:
    normalized = _normalize({key: value for key, value in params.items() if key not in _TEMPLATE_FIELDS})
    normalized.pop("ClientToken", None)
    facts: Facts = normalized
    return facts


def _normalize_params(request: PlainRequest, templates: Mapping[str, Facts], of_fleets: set[str]) -> Facts:
    params = dict(request.params)
    if request.operation == "CreateLaunchTemplate":
        return _normalize_template(params)
    configs = params.pop("LaunchTemplateConfigs", ())
    launched_from = params.get("LaunchTemplate", {}).get("LaunchTemplateName")
    facts: Facts = _normalize(params)
    if request.operation == "CreateFleet":
        is_dry = bool(params.get("DryRun"))
        facts["Configs"] = [_normalize_config(config, templates, is_dry=is_dry) for config in configs]
    if request.operation == "RunInstances":
        template = templates[launched_from]["LaunchTemplateData"]
        facts["InstanceType"] = SAMPLE
        facts["LaunchTemplate"]["LaunchTemplateName"] = (
            "<template of the fleet>" if launched_from in of_fleets else "<another template>"
        )
        interfaces = zip_longest(facts["NetworkInterfaces"], template["NetworkInterfaces"], fillvalue={})
        facts["NetworkInterfaces"] = [_as_in_template(*pair) for pair in interfaces]
        facts = _as_in_template(facts, {"ImageId": template["ImageId"]})
    for field in _TEMPLATE_FIELDS:
        if field in facts:
            facts[field] = "<template>"
    return facts


def _normalize_config(config: Mapping[str, Any], templates: Mapping[str, Facts], *, is_dry: bool) -> Facts:
    specification = config["LaunchTemplateSpecification"]
    template = templates[specification["LaunchTemplateName"]]
    groups: dict[tuple[tuple[str, Any], ...], Facts] = {}
    for override in config["Overrides"]:
        name = SAMPLE if is_dry else override["InstanceType"]
        fields = {key: value for key, value in override.items() if key not in ("InstanceType", "Priority")}
        if is_dry:
            fields = _as_in_template(fields, template["LaunchTemplateData"])
        groups.setdefault(tuple(sorted(fields.items())), {})[name] = override.get("Priority")
    return {
        "version": specification["Version"],
        "template": _without_sample(template) if is_dry else template,
        "overrides": [{**dict(fields), "types": types} for fields, types in sorted(groups.items())],
    }


def _as_in_template(fields: Facts, template: Facts) -> Facts:
    """Replace the fields that a dry run repeats from its template."""
    return {key: AS_IN_TEMPLATE if template.get(key) == value else value for key, value in fields.items()}


def _without_sample(value: Any, field: str = "") -> Any:
    """Replace the number of pods, which depends on the instance type."""
    if isinstance(value, dict):
        return {key: _without_sample(entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_sample(entry) for entry in value]
    if field in ("maxPods", "max-pods"):
        return OF_SAMPLE
    return _MAX_PODS.sub(rf"\g<1>{OF_SAMPLE}", value) if isinstance(value, str) else value


def _normalize(value: Any, field: str = "") -> Any:
    if field in _PLACEHOLDERS:
        return _PLACEHOLDERS[field]
    if field == "UserData":
        return _normalize_user_data(value)
    if isinstance(value, Mapping):
        return {key: _normalize(entry, key) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return _normalize_list(value, field)
    return _normalize_text(value) if isinstance(value, str) else value


def _normalize_list(values: Sequence[Any], field: str) -> Any:
    keys = set(values[0]) if values and isinstance(values[0], Mapping) else set()
    if keys == {"Key", "Value"}:
        return {entry["Key"]: entry["Value"] for entry in values}
    if "ResourceType" in keys:
        return {entry["ResourceType"]: _normalize_list(entry.get("Tags", ()), "Tags") for entry in values}
    if keys == {"Name", "Values"}:
        return sorted(
            _normalize_text(f"{entry['Name']}={','.join(sorted(entry['Values']))}") for entry in values
        )
    if keys == {"Field", "Type", "Value"}:
        return sorted(f"{entry['Field']}={entry['Value']}" for entry in values)
    entries = [_normalize(entry) for entry in values]
    return entries if field in _ORDERED else sorted(entries, key=lambda entry: msgspec.json.encode(entry))


def _normalize_text(text: str) -> str:
    return _INSTANCE.sub("<instance>", _PROFILE.sub("<profile>", text))


def _normalize_user_data(value: Any) -> Facts:
    decoded = _decode_user_data(value) if isinstance(value, str) else value
    if "mime" in decoded:
        return {"parts": [_normalize_part(part) for part in decoded["mime"]]}
    if "toml" in decoded:
        return {"toml": decoded["toml"]}
    return _normalize_script(decoded["text"]) if decoded else {}


def _decode_user_data(encoded: str) -> Facts:
    text = base64.b64decode(encoded).decode()
    if not text:
        return {}
    if text.startswith("MIME-Version"):
        return {"mime": [_decode_part(part) for part in message_from_string(text).get_payload()]}
    try:
        return {"toml": tomllib.loads(text)}
    except tomllib.TOMLDecodeError:
        return {"text": text}


def _decode_part(part: Any) -> Facts:
    content = part.get_payload()
    body = {"yaml": yaml.safe_load(content)} if "node.eks.aws" in part["Content-Type"] else {"text": content}
    return {"headers": dict(part.items()), **body}


def _normalize_part(part: Mapping[str, Any]) -> Facts:
    kind = part["headers"]["Content-Type"]
    if "yaml" not in part:
        return {"type": kind, **_normalize_script(part["text"])}
    config = dict(part["yaml"])
    kubelet = config["spec"].get("kubelet", {})
    if "flags" in kubelet:
        flags = sorted(flag for entry in kubelet["flags"] for flag in _split_flag(entry))
        config["spec"] = {**config["spec"], "kubelet": {**kubelet, "flags": flags}}
    return {"type": kind, "NodeConfig": config}


def _split_flag(flag: Any) -> list[str]:
    """Return ``--node-labels`` as one entry per label; the recordings have it split."""
    prefix = "--node-labels="
    labels = flag.removeprefix(prefix).strip('"').split(",") if isinstance(flag, str) else flag
    is_labels = not isinstance(flag, str) or flag.startswith(prefix)
    return [f"{prefix}{label}" for label in labels] if is_labels else [str(flag)]


def _normalize_script(text: str) -> Facts:
    labels = sorted(label for flag in _NODE_LABELS.findall(text) for label in flag.split(","))
    lines = [line.rstrip() for line in _NODE_LABELS.sub("--node-labels=", text).splitlines() if line.strip()]
    return {"script": "\n".join(lines), **({"node-labels": labels} if labels else {})}
