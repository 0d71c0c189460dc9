"""Charts, objects and policies as files, with a script that installs them."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from dovetail.eks.plan.references import AWS, Reference, resolve_references
from dovetail.eks.plan.resolver import predict_attributes
from dovetail.eks.plan.resource import Account, DesiredResource

Files = dict[str, str]
"""Path below the output directory → text."""


class ValueResolver:
    """Resolves references to known values, or to ``${NAMES}`` for envsubst."""

    def __init__(self, resources: Iterable[DesiredResource], *, region: str, account: str | None) -> None:
        self._resources = {resource.address: resource for resource in resources}
        self._region = region
        self._account = Account(account=account, region=region) if account else None
        self.variables: dict[str, Reference] = {}
        """Variables that the user must set, and the references they stand for."""

    def resolve(self, value: Any) -> Any:
        """Return a value without references."""
        return resolve_references(value, self._look_up)

    def _look_up(self, reference: Reference) -> Any:
        if reference.address == AWS and reference.attribute == "region":
            return self._region
        if self._account is not None:
            if reference.address == AWS:
                return self._account.attribute(reference.attribute)
            resource = self._resources[reference.address]
            attributes = {} if resource.external else predict_attributes(resource, self._account)
            if reference.attribute in attributes:
                return attributes[reference.attribute]
        name = re.sub(r"[^A-Z0-9]+", "_", f"{reference.address}_{reference.attribute}".upper())
        self.variables[name] = reference
        return f"${{{name}}}"


def policy_files(resources: Iterable[DesiredResource], values: ValueResolver) -> Files:
    """Return every IAM document: permissions and trust policies."""
    files: Files = {}
    for resource in resources:
        if resource.external:
            continue
        if resource.kind == "iam-policy":
            text = values.resolve(resource.properties["PolicyDocument"])
            files[f"policies/{resource.name}.json"] = _dump_json(text)
        if resource.kind == "iam-role":
            text = values.resolve(resource.properties["AssumeRolePolicyDocument"])
            files[f"policies/{resource.name}.trust.json"] = _dump_json(text)
        if resource.kind == "sqs-queue-policy":
            text = values.resolve(resource.properties["PolicyDocument"])
            files[f"policies/{resource.name}.queue.json"] = _dump_json(text)
    return files


def install_files(resources: Iterable[DesiredResource], values: ValueResolver) -> Files:
    """Return Helm values, manifests, and install.sh with the commands in order."""
    files: Files = {}
    commands: list[str] = []
    for resource in resources:
        if resource.kind == "helm-release":
            path = f"values/{resource.name.replace('/', '-')}.yaml"
            files[path], read_command = _template_file(resource.properties["values"], values, path)
            commands.append(f"{read_command} | {_helm_command(resource)}")
        elif resource.kind == "kubernetes-object":
            path = f"manifests/{resource.name.replace('/', '-').lower()}.yaml"
            files[path], read_command = _template_file(resource.properties, values, path)
            commands.append(f"{read_command} | kubectl apply --server-side -f -")
        elif resource.kind == "service-linked-role":
            service = resource.properties["AWSServiceName"]
            commands.append(
                f"aws iam get-role --role-name {resource.name} > /dev/null 2>&1 || "
                f"aws iam create-service-linked-role --aws-service-name {service}"
            )
        elif resource.kind == "ec2-tags":
            commands.extend(_tag_commands(values.resolve(resource.properties)))
    header = [
        "#!/bin/sh",
        "# Installs what the templates do not create, in dependency order.",
        "# Chart directories are relative to the current directory.",
        "set -eu",
        'here=$(dirname "$0")',
    ]
    checks = [
        f': "${{{name}:?the {_reference_text(reference)}}}"'
        for name, reference in sorted(values.variables.items())
    ]
    exported = [f"export {' '.join(sorted(values.variables))}"] if values.variables else []
    files["install.sh"] = "\n".join([*header, *checks, *exported, *commands]) + "\n"
    return files


def _reference_text(resource: Reference) -> str:
    kind, _, name = resource.address.partition("/")
    return f"{resource.attribute} of {kind} {name}".strip()


def _template_file(value: Any, values: ValueResolver, path: str) -> tuple[str, str]:
    """Return a file's text, and the command that prints it with variables set."""
    text = dump_yaml(values.resolve(value))
    names = " ".join(f"${{{name}}}" for name in sorted(values.variables) if f"${{{name}}}" in text)
    # Only our variables: user data can contain dollar signs too.
    return text, f"envsubst '{names}' < \"$here/{path}\"" if names else f'cat "$here/{path}"'


def _helm_command(resource: DesiredResource) -> str:
    namespace, _, release = resource.name.partition("/")
    chart = resource.properties
    arguments = ["helm", "upgrade", "--install", release, chart["chart"], "--namespace", namespace]
    if chart.get("createNamespace"):
        arguments.append("--create-namespace")
    if chart.get("repository"):
        arguments += ["--repo", chart["repository"]]
    if chart.get("version"):
        arguments += ["--version", chart["version"]]
    return shlex.join([*arguments, "--wait", "--values", "-"])


def _tag_commands(properties: Mapping[str, Any]) -> list[str]:
    ids = properties["ResourceIds"]
    # A list that is not known yet is a variable.
    what = shlex.join(ids) if isinstance(ids, list) else str(ids)
    tags = [f"Key={key},Value={value}" for key, value in properties["Tags"].items()]
    return [f"aws ec2 create-tags --resources {what} --tags {shlex.join(tags)}"]


def _dump_json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(value: Any) -> str:
    """Return a value as YAML, with the order of keys kept."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
