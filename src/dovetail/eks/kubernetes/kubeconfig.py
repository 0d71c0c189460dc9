"""Kubeconfig files: a temporary one with a token, and contexts in the user's file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dovetail.eks.kubernetes.api import ApiEndpoint
from dovetail.eks.plan.resolver import predict_attributes
from dovetail.eks.plan.resource import Account, DesiredResource
from dovetail.errors import DovetailError

_LISTS: Final = ("clusters", "contexts", "users")


class ClusterArn(msgspec.Struct, frozen=True):
    """The ARN of an EKS cluster, with the parts that the AWS CLI takes."""

    arn: str
    name: str
    region: str

    @classmethod
    def of(cls, account: Account, name: str) -> "ClusterArn":
        """Return the ARN of a cluster in the account's region."""
        resource = DesiredResource(kind="eks-cluster", name=name)
        return cls(predict_attributes(resource, account)["arn"], name, account.region)


def kubeconfig_with_token(endpoint: ApiEndpoint, token: str) -> dict[str, Any]:
    """Return a kubeconfig that is valid for as long as the token."""
    return _kubeconfig("now", endpoint, {"token": token})


def kubeconfig_with_aws_cli(
    cluster: ClusterArn, endpoint: ApiEndpoint, *, profile: str | None = None
) -> dict[str, Any]:
    """Return a kubeconfig that gets its tokens from the AWS CLI.

    The context has the name that ``aws eks update-kubeconfig`` gives it: the
    cluster's ARN. ``profile`` is the AWS profile to use, if not the default.
    """
    plugin: dict[str, Any] = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": _token_arguments(cluster),
        "installHint": "kubectl gets its token from the AWS CLI: install version 2 of it",
    }
    if profile:
        plugin["env"] = [{"name": "AWS_PROFILE", "value": profile}]
    return _kubeconfig(cluster.arn, endpoint, {"exec": plugin})


def merge_context(path: Path, kubeconfig: Mapping[str, Any]) -> None:
    """Add the entries of a kubeconfig to a file, and make its context current.

    Entries of the same cluster under an older name (the cluster's name) are removed.
    """
    document = _read(path)
    for user in kubeconfig["users"]:
        _remove_entries(document, _token_command(user.get("user")))
    for key in _LISTS:
        names = {entry["name"] for entry in kubeconfig[key]}
        others = [entry for entry in document[key] if entry.get("name") not in names]
        document[key] = [*others, *kubeconfig[key]]
    document["current-context"] = kubeconfig["current-context"]
    _write(path, document)


def remove_context(path: Path, cluster: ClusterArn) -> list[str]:
    """Remove the contexts of a cluster that we wrote; return their names."""
    document = _read(path)
    removed = _remove_entries(document, _token_arguments(cluster))
    if removed:
        _write(path, document)
    return removed


def _remove_entries(document: dict[str, Any], arguments: Any) -> list[str]:
    """Remove users that get tokens with these arguments, and what has their names."""
    names = [
        user["name"]
        for user in document["users"]
        if arguments and "name" in user and _token_command(user.get("user")) == arguments
    ]
    for key in _LISTS:
        document[key] = [entry for entry in document[key] if entry.get("name") not in names]
    if document.get("current-context") in names:
        document["current-context"] = ""
    return names


def _token_command(user: Any) -> Any:
    """Return the arguments of the plug-in that gets a user's token."""
    plugin = user.get("exec") if isinstance(user, dict) else None
    return plugin.get("args") if isinstance(plugin, dict) else None


def _token_arguments(cluster: ClusterArn) -> list[str]:
    return ["--region", cluster.region, "eks", "get-token", "--cluster-name", cluster.name]


def _kubeconfig(name: str, endpoint: ApiEndpoint, user: Mapping[str, Any]) -> dict[str, Any]:
    cluster = {"server": endpoint.url, "certificate-authority-data": endpoint.certificate_authority}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"apiVersion": "v1", "kind": "Config", **{key: [] for key in _LISTS}}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise DovetailError(f"{path} cannot be read as a kubeconfig: {error}") from error
    if not isinstance(document, dict):
        raise DovetailError(f"{path} is not a kubeconfig")
    for key in _LISTS:
        entries = document.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise DovetailError(f"{path} is not a kubeconfig: {key} must be a list of objects")
        document[key] = entries
    return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Write a new file and rename it: readers get no partial file, even if the disk is full.
        temporary = path.with_name(f".{path.name}.new")
        temporary.touch(mode=0o600)
        temporary.write_text(yaml.safe_dump(dict(document), sort_keys=False), encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error
