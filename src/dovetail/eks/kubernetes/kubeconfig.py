"""Kubeconfig files: a temporary one with a token, and contexts in the user's file."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from dovetail.eks.kubernetes.api import ApiEndpoint
from dovetail.errors import DovetailError

_LISTS: Final = ("clusters", "contexts", "users")


def kubeconfig_with_token(endpoint: ApiEndpoint, token: str) -> dict[str, Any]:
    """Return a kubeconfig that is valid for as long as the token."""
    return _kubeconfig("now", endpoint, {"token": token})


def kubeconfig_with_aws_cli(name: str, region: str, endpoint: ApiEndpoint) -> dict[str, Any]:
    """Return a kubeconfig that gets its tokens from the AWS CLI."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": _token_arguments(name, region),
        "installHint": "kubectl gets its token from the AWS CLI: install version 2 of it",
    }
    return _kubeconfig(name, endpoint, {"exec": plugin})


def merge_context(path: Path, kubeconfig: Mapping[str, Any]) -> None:
    """Add the entries of a kubeconfig to a file, and make its context current."""
    document = _read(path)
    for key in _LISTS:
        names = {entry["name"] for entry in kubeconfig[key]}
        others = [entry for entry in document[key] if entry.get("name") not in names]
        document[key] = [*others, *kubeconfig[key]]
    document["current-context"] = kubeconfig["current-context"]
    _write(path, document)


def remove_context(path: Path, name: str, *, region: str) -> bool:
    """Remove the entries of a cluster; False if they are absent or not ours."""
    document = _read(path)
    users = [entry.get("user") for entry in document["users"] if entry.get("name") == name]
    if not any(_uses_aws_cli(user, name, region) for user in users):
        return False
    for key in _LISTS:
        document[key] = [entry for entry in document[key] if entry.get("name") != name]
    if document.get("current-context") == name:
        document["current-context"] = ""
    _write(path, document)
    return True


def _uses_aws_cli(user: Any, name: str, region: str) -> bool:
    plugin = user.get("exec") if isinstance(user, dict) else None
    return isinstance(plugin, dict) and plugin.get("args") == _token_arguments(name, region)


def _token_arguments(name: str, region: str) -> list[str]:
    return ["--region", region, "eks", "get-token", "--cluster-name", name]


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
