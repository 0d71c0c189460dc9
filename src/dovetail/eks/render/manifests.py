"""Charts, objects and policies as files, for people who apply them by other means."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from dovetail.eks.plan.known_attributes import predicted
from dovetail.eks.plan.references import AWS, Reference, resolved
from dovetail.eks.plan.resource import Account, Resource

Files = dict[str, str]
"""What to write: path below the output directory → text."""


class Values:
    """What references stand for: known values, else ``${NAMES}`` that envsubst fills in."""

    def __init__(self, resources: Iterable[Resource], *, region: str, account: str | None) -> None:
        self._resources = {one.address: one for one in resources}
        self._region = region
        self._account = Account(account=account, region=region) if account else None
        self.open: dict[str, Reference] = {}
        """Names that are still to be filled in."""

    def of(self, value: Any) -> Any:
        """Return a value without references."""
        return resolved(value, self._look_up)

    def _look_up(self, reference: Reference) -> Any:
        if reference.address == AWS and reference.attribute == "region":
            return self._region
        if self._account is not None:
            if reference.address == AWS:
                return self._account.attribute(reference.attribute)
            one = self._resources[reference.address]
            known = {} if one.given else predicted(one, self._account)
            if reference.attribute in known:
                return known[reference.attribute]
        name = re.sub(r"[^A-Z0-9]+", "_", f"{reference.address}_{reference.attribute}".upper())
        self.open[name] = reference
        return f"${{{name}}}"


def policy_files(resources: Iterable[Resource], values: Values) -> Files:
    """Return every IAM document: what roles may do, and who may take them on."""
    found: Files = {}
    for one in resources:
        if one.given:
            continue
        if one.kind == "iam-policy":
            text = values.of(one.properties["PolicyDocument"])
            found[f"policies/{one.name}.json"] = _json(text)
        if one.kind == "iam-role":
            text = values.of(one.properties["AssumeRolePolicyDocument"])
            found[f"policies/{one.name}.trust.json"] = _json(text)
        if one.kind == "sqs-queue-policy":
            text = values.of(one.properties["PolicyDocument"])
            found[f"policies/{one.name}.queue.json"] = _json(text)
    return found


def software_files(resources: Iterable[Resource], values: Values) -> Files:
    """Return charts' values and objects, and the commands that put them in, in order."""
    found: Files = {}
    commands: list[str] = []
    for one in resources:
        if one.kind == "helm-release":
            path = f"values/{one.name.replace('/', '-')}.yaml"
            found[path], reading = _filled(one.properties["values"], values, path)
            commands.append(f"{reading} | {_helm(one)}")
        elif one.kind == "kubernetes-object":
            path = f"manifests/{one.name.replace('/', '-').lower()}.yaml"
            found[path], reading = _filled(one.properties, values, path)
            commands.append(f"{reading} | kubectl apply --server-side -f -")
        elif one.kind == "ec2-tags":
            commands.extend(_tagging(values.of(one.properties)))
    head = [
        "#!/bin/sh",
        "# What the templates do not make, in the order in which it can be made.",
        "# Charts in directories are looked for where you are.",
        "set -eu",
        'here=$(dirname "$0")',
    ]
    needed = [f': "${{{name}:?the {_asked(one)}}}"' for name, one in sorted(values.open.items())]
    exported = [f"export {' '.join(sorted(values.open))}"] if values.open else []
    found["install.sh"] = "\n".join([*head, *needed, *exported, *commands]) + "\n"
    return found


def _asked(one: Reference) -> str:
    kind, _, name = one.address.partition("/")
    return f"{one.attribute} of {kind} {name}".strip()


def _filled(value: Any, values: Values, path: str) -> tuple[str, str]:
    """Return a file's text, and the command that reads it with its names filled in."""
    text = yaml_text(values.of(value))
    names = " ".join(f"${{{name}}}" for name in sorted(values.open) if f"${{{name}}}" in text)
    # Only ours: a start-up script has dollar signs of its own.
    return text, f"envsubst '{names}' < \"$here/{path}\"" if names else f'cat "$here/{path}"'


def _helm(one: Resource) -> str:
    namespace, _, release = one.name.partition("/")
    chart = one.properties
    words = ["helm", "upgrade", "--install", release, chart["chart"], "--namespace", namespace]
    if chart.get("createNamespace"):
        words.append("--create-namespace")
    if chart.get("repository"):
        words += ["--repo", chart["repository"]]
    if chart.get("version"):
        words += ["--version", chart["version"]]
    return shlex.join([*words, "--wait", "--values", "-"])


def _tagging(properties: Mapping[str, Any]) -> list[str]:
    ids = properties["ResourceIds"]
    # A list that is only known later is a name for the shell to fill in.
    what = shlex.join(ids) if isinstance(ids, list) else str(ids)
    tags = [f"Key={key},Value={value}" for key, value in properties["Tags"].items()]
    return [f"aws ec2 create-tags --resources {what} --tags {shlex.join(tags)}"]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """Return a value as YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
