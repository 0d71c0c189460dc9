"""Terraform module (JSON) of the desired AWS resources."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.eks.plan.references import AWS, Reference, split_references
from dovetail.eks.plan.resource import DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.render.terraform_schema import CONVERTERS, DATA_SOURCES, snake_keys

_ACCOUNT_EXPRESSIONS: Final = {
    "account": "${data.aws_caller_identity.current.account_id}",
    "partition": "${data.aws_partition.current.partition}",
    "dns-suffix": "${data.aws_partition.current.dns_suffix}",
}
_ATTACHMENT: Final = "aws_iam_role_policy_attachment"


class _Expression(str):
    """Text that Terraform evaluates; all other text is escaped."""

    __slots__ = ()


Blocks = dict[str, dict[str, dict[str, Any]]]
"""Block type → label → arguments."""


def terraform(
    region: str, resources: Iterable[DesiredResource], outputs: Mapping[str, Any]
) -> tuple[str, list[DesiredResource]]:
    """Return a Terraform module as JSON, and the resources that are not in it.

    Kubernetes objects and charts are not included. In one state with the cluster,
    their providers would connect before the cluster exists.
    """
    rendering = _Rendering(region, resources)
    resource_blocks, data_blocks, remaining = rendering.blocks()
    module: dict[str, Any] = {
        "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.80"}}},
        "provider": {"aws": {"region": region}},
        "data": {"aws_caller_identity": {"current": {}}, "aws_partition": {"current": {}}, **data_blocks},
        "resource": resource_blocks,
        "output": {
            identifier(_to_snake_case(name)): {"value": rendering.value(value)}
            for name, value in outputs.items()
        },
    }
    return json.dumps(module, indent=2, ensure_ascii=False) + "\n", remaining


class _Rendering:
    def __init__(self, region: str, resources: Iterable[DesiredResource]) -> None:
        self._region = region
        self._resources = {resource.address: resource for resource in resources}

    def blocks(self) -> tuple[Blocks, Blocks, list[DesiredResource]]:
        """Return resource blocks, data blocks, and resources with neither."""
        blocks: Blocks = {}
        data: Blocks = {}
        remaining: list[DesiredResource] = []
        for resource in self._resources.values():
            kind = KINDS[resource.kind].terraform
            label = identifier(resource.name)
            if resource.external:
                arguments = DATA_SOURCES[resource.kind](resource.name, resource.properties)
                data.setdefault(kind, {})[label] = self.value(arguments)
                if resource.kind == "subnet-selection":
                    first = {"id": f"${{data.aws_subnets.{label}.ids[0]}}"}
                    data.setdefault("aws_subnet", {})[label] = first
            elif resource.kind == "ec2-tags":
                self._add_tags(blocks, resource)
            elif resource.kind in CONVERTERS:
                blocks.setdefault(kind, {})[label] = self._arguments(resource)
                for block_type, name, arguments in self._extra_blocks(resource):
                    blocks.setdefault(block_type, {})[name] = self.value(arguments)
            else:
                remaining.append(resource)
        return blocks, data, remaining

    def _arguments(self, resource: DesiredResource) -> dict[str, Any]:
        arguments: dict[str, Any] = self.value(CONVERTERS[resource.kind](resource.properties))
        if KINDS[resource.kind].taggable and resource.tags:
            arguments["tags"] = self.value(dict(sorted(resource.tags.items())))
        depends_on = [
            f"{KINDS[kind].terraform}.{identifier(name)}"
            for kind, name in self._explicit_dependencies(resource)
        ]
        if resource.kind.startswith("eks-"):
            # EKS cannot use a role before its policies are attached.
            depends_on += [
                f"{_ATTACHMENT}.{label}"
                for address in resource.dependencies()
                for _, label, _ in self._attachments(self._resources[address])
            ]
        if depends_on:
            arguments["depends_on"] = sorted(set(depends_on))
        return arguments

    def _explicit_dependencies(self, resource: DesiredResource) -> Iterator[tuple[str, str]]:
        for address in resource.depends_on:
            other = self._resources[address]
            if not other.external and other.kind in CONVERTERS:
                yield other.kind, other.name

    def _extra_blocks(self, resource: DesiredResource) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield blocks for parts of a resource that are resources in Terraform."""
        yield from self._attachments(resource)
        if resource.kind == "iam-policy":
            for role in resource.properties.get("Roles", ()):
                policy = _Expression(f"${{aws_iam_policy.{identifier(resource.name)}.arn}}")
                yield _ATTACHMENT, identifier(f"{role}-{resource.name}"), {"role": role, "policy_arn": policy}
        if resource.kind == "eks-access-entry":
            for number, policy in enumerate(resource.properties.get("AccessPolicies", ())):
                arguments = {
                    "cluster_name": resource.properties["ClusterName"],
                    "principal_arn": _Expression(
                        f"${{aws_eks_access_entry.{identifier(resource.name)}.principal_arn}}"
                    ),
                    "policy_arn": policy["PolicyArn"],
                    "access_scope": snake_keys(policy["AccessScope"]),
                }
                label = identifier(f"{resource.name}-{number}")
                yield "aws_eks_access_policy_association", label, arguments
        if resource.kind == "event-rule":
            for target in resource.properties["Targets"]:
                arguments = {
                    "rule": _Expression(f"${{aws_cloudwatch_event_rule.{identifier(resource.name)}.name}}"),
                    "target_id": target["Id"],
                    "arn": target["Arn"],
                }
                yield "aws_cloudwatch_event_target", identifier(resource.name), arguments

    def _attachments(self, resource: DesiredResource) -> Iterator[tuple[str, str, dict[str, Any]]]:
        if resource.kind != "iam-role" or resource.external:
            return
        for policy in resource.properties["ManagedPolicyArns"]:
            name = split_references(policy)[-1]
            last = name.address if isinstance(name, Reference) else name
            label = identifier(f"{resource.name}-{last.rpartition('/')[2]}")
            role = _Expression(f"${{aws_iam_role.{identifier(resource.name)}.name}}")
            yield _ATTACHMENT, label, {"role": role, "policy_arn": policy}

    def _add_tags(self, blocks: Blocks, resource: DesiredResource) -> None:
        ids = self.value(resource.properties["ResourceIds"])
        # A single reference is an expression already: ${…} without its delimiters.
        members = json.dumps(ids) if isinstance(ids, list) else ids[2:-1]
        for key, value in resource.properties["Tags"].items():
            blocks.setdefault("aws_ec2_tag", {})[identifier(f"{resource.name}-{key}")] = {
                "for_each": f"${{toset({members})}}",
                "resource_id": "${each.value}",
                "key": key,
                "value": value,
            }

    def value(self, value: Any) -> Any:
        """Return a value with its references as expressions."""
        if isinstance(value, _Expression):
            return value
        if isinstance(value, str):
            return self._encode_text(value)
        if isinstance(value, Mapping):
            return {self._encode_text(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def _encode_text(self, text: str) -> str:
        return "".join(
            _escape(part) if isinstance(part, str) else self._expression(part)
            for part in split_references(text)
        )

    def _expression(self, reference: Reference) -> str:
        if reference.address == AWS:
            return _ACCOUNT_EXPRESSIONS.get(reference.attribute, self._region)
        resource = self._resources[reference.address]
        kind = KINDS[resource.kind]
        source = "data." if resource.external else ""
        label = identifier(resource.name)
        if resource.kind == "subnet-selection" and reference.attribute == "vpc-id":
            return f"${{data.aws_subnet.{label}.vpc_id}}"
        attribute = kind.attributes[reference.attribute].terraform
        path = f"{source}{kind.terraform}.{label}.{attribute}"
        if resource.kind == "vpc-ipv6-block":
            return f"${{cidrsubnet({path}, 8, {reference.attribute.removeprefix('subnet-')})}}"
        if reference.attribute == "issuer":
            return f'${{replace({path}, "https://", "")}}'
        return f"${{{path}}}"


def _escape(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")


def _to_snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def identifier(name: str) -> str:
    """Return a Terraform identifier: letters, digits, underscores, no leading digit."""
    text = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_")
    return text if text[:1].isalpha() else f"r_{text}"
