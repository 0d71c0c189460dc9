"""The wanted resources of AWS as Terraform JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.eks.plan.references import AWS, Reference, parts
from dovetail.eks.plan.resource import Resource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.render.names import snake
from dovetail.eks.render.terraform_schema import LOOKUPS, SHAPES

_FACTS: Final = {
    "account": "${data.aws_caller_identity.current.account_id}",
    "partition": "${data.aws_partition.current.partition}",
    "dns-suffix": "${data.aws_partition.current.dns_suffix}",
}
_ATTACHMENT: Final = "aws_iam_role_policy_attachment"


class _Expression(str):
    """Text that Terraform is to evaluate; all other text is taken as it is."""

    __slots__ = ()


Blocks = dict[str, dict[str, dict[str, Any]]]
"""Type → label → arguments."""


def terraform(
    region: str, resources: Iterable[Resource], outputs: Mapping[str, Any]
) -> tuple[str, list[Resource]]:
    """Return a Terraform module as JSON, and the resources that are not in it.

    Kubernetes objects and charts are not: in one state with the cluster their
    providers are asked before there is a cluster to ask.
    """
    rendering = _Rendering(region, resources)
    made, data, left = rendering.blocks()
    module: dict[str, Any] = {
        "terraform": {
            "required_providers": {"aws": {"source": "hashicorp/aws", "version": ">= 5.80"}}
        },
        "provider": {"aws": {"region": region}},
        "data": {
            "aws_caller_identity": {"current": {}},
            "aws_partition": {"current": {}},
            **data,
        },
        "resource": made,
        "output": {
            snake(_words(name)): {"value": rendering.value(value)}
            for name, value in outputs.items()
        },
    }
    return json.dumps(module, indent=2, ensure_ascii=False) + "\n", left


class _Rendering:
    def __init__(self, region: str, resources: Iterable[Resource]) -> None:
        self._region = region
        self._resources = {one.address: one for one in resources}

    def blocks(self) -> tuple[Blocks, Blocks, list[Resource]]:
        """Return resource blocks, data blocks, and what has neither."""
        made: Blocks = {}
        data: Blocks = {}
        left: list[Resource] = []
        for one in self._resources.values():
            kind = KINDS[one.kind].terraform
            label = snake(one.name)
            if one.given:
                look_up = LOOKUPS[one.kind](one.name, one.properties)
                data.setdefault(kind, {})[label] = self.value(look_up)
                if one.kind == "subnet-selection":
                    first = {"id": f"${{data.aws_subnets.{label}.ids[0]}}"}
                    data.setdefault("aws_subnet", {})[label] = first
            elif one.kind == "ec2-tags":
                self._add_tags(made, one)
            elif one.kind in SHAPES:
                made.setdefault(kind, {})[label] = self._arguments(one)
                for more, name, arguments in self._besides(one):
                    made.setdefault(more, {})[name] = self.value(arguments)
            else:
                left.append(one)
        return made, data, left

    def _arguments(self, one: Resource) -> dict[str, Any]:
        found: dict[str, Any] = self.value(SHAPES[one.kind](one.properties))
        if KINDS[one.kind].tagged and one.tags:
            found["tags"] = self.value(dict(sorted(one.tags.items())))
        waits = [f"{KINDS[kind].terraform}.{snake(name)}" for kind, name in self._others(one)]
        if one.kind.startswith("eks-"):
            # A role is of no use to EKS before its policies are attached.
            waits += [
                f"{_ATTACHMENT}.{label}"
                for need in one.needs()
                for _, label, _ in self._attachments(self._resources[need])
            ]
        if waits:
            found["depends_on"] = sorted(set(waits))
        return found

    def _others(self, one: Resource) -> Iterator[tuple[str, str]]:
        for need in one.depends_on:
            other = self._resources[need]
            if not other.given and other.kind in SHAPES:
                yield other.kind, other.name

    def _besides(self, one: Resource) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Hand out what CloudFormation has inside a resource and Terraform beside it."""
        yield from self._attachments(one)
        if one.kind == "iam-policy":
            for role in one.properties.get("Roles", ()):
                policy = _Expression(f"${{aws_iam_policy.{snake(one.name)}.arn}}")
                yield _ATTACHMENT, snake(f"{role}-{one.name}"), {"role": role, "policy_arn": policy}
        if one.kind == "eks-access-entry":
            for number, policy in enumerate(one.properties.get("AccessPolicies", ())):
                arguments = {
                    "cluster_name": one.properties["ClusterName"],
                    "principal_arn": _Expression(
                        f"${{aws_eks_access_entry.{snake(one.name)}.principal_arn}}"
                    ),
                    "policy_arn": policy["PolicyArn"],
                    "access_scope": {"type": policy["AccessScope"]["Type"]},
                }
                label = snake(f"{one.name}-{number}")
                yield "aws_eks_access_policy_association", label, arguments
        if one.kind == "event-rule":
            for target in one.properties["Targets"]:
                arguments = {
                    "rule": _Expression(f"${{aws_cloudwatch_event_rule.{snake(one.name)}.name}}"),
                    "target_id": target["Id"],
                    "arn": target["Arn"],
                }
                yield "aws_cloudwatch_event_target", snake(one.name), arguments

    def _attachments(self, one: Resource) -> Iterator[tuple[str, str, dict[str, Any]]]:
        if one.kind != "iam-role" or one.given:
            return
        for policy in one.properties["ManagedPolicyArns"]:
            name = parts(policy)[-1]
            last = name.address if isinstance(name, Reference) else name
            label = snake(f"{one.name}-{last.rpartition('/')[2]}")
            role = _Expression(f"${{aws_iam_role.{snake(one.name)}.name}}")
            yield _ATTACHMENT, label, {"role": role, "policy_arn": policy}

    def _add_tags(self, made: Blocks, one: Resource) -> None:
        ids = self.value(one.properties["ResourceIds"])
        each = ids if isinstance(ids, list) else f"${{toset({ids[2:-1]})}}"
        for key, value in one.properties["Tags"].items():
            made.setdefault("aws_ec2_tag", {})[snake(f"{one.name}-{key}")] = {
                "for_each": f"${{toset({json.dumps(each)})}}" if isinstance(each, list) else each,
                "resource_id": "${each.value}",
                "key": key,
                "value": value,
            }

    def value(self, value: Any) -> Any:
        """Return a value with its references as expressions."""
        if isinstance(value, _Expression):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(key): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value

    def _text(self, text: str) -> str:
        return "".join(
            _escaped(one) if isinstance(one, str) else self._expression(one) for one in parts(text)
        )

    def _expression(self, reference: Reference) -> str:
        if reference.address == AWS:
            return _FACTS.get(reference.attribute, self._region)
        one = self._resources[reference.address]
        facts = KINDS[one.kind]
        source = "data." if one.given else ""
        label = snake(one.name)
        if one.kind == "subnet-selection" and reference.attribute == "vpc-id":
            return f"${{data.aws_subnet.{label}.vpc_id}}"
        attribute = facts.attributes[reference.attribute].terraform
        path = f"{source}{facts.terraform}.{label}.{attribute}"
        if reference.attribute == "issuer":
            return f'${{replace({path}, "https://", "")}}'
        return f"${{{path}}}"


def _escaped(text: str) -> str:
    return text.replace("${", "$${").replace("%{", "%%{")


def _words(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
