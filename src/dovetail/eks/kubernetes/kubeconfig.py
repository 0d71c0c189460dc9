"""Kubeconfigs: one for a moment with a token, and the user's own with a way to get one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from dovetail.errors import DovetailError

_LISTS: Final = ("clusters", "contexts", "users")


def kubeconfig_with_token(endpoint: str, authority: str, token: str) -> dict[str, Any]:
    """Return a kubeconfig that is good for some minutes; ``authority`` is in base64."""
    return _config("now", endpoint, authority, {"token": token})


def kubeconfig_with_aws(name: str, *, region: str, endpoint: str, authority: str) -> dict[str, Any]:
    """Return a kubeconfig that asks the AWS CLI for a token whenever one is needed."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": _token_arguments(name, region),
        "installHint": "kubectl gets its token from the AWS CLI: install it, version 2",
    }
    return _config(name, endpoint, authority, {"exec": plugin})


def merge_into(path: Path, added: Mapping[str, Any]) -> None:
    """Put a kubeconfig's entries into a file that may have others, and make them current."""
    whole = _read(path)
    for key in _LISTS:
        names = {one["name"] for one in added[key]}
        kept = [one for one in whole[key] if one.get("name") not in names]
        whole[key] = [*kept, *added[key]]
    whole["current-context"] = added["current-context"]
    _write(path, whole)


def take_out_of(path: Path, name: str, *, region: str) -> bool:
    """Remove the entries of a cluster that is gone; False: they are not there, or not ours."""
    whole = _read(path)
    users = [one.get("user") for one in whole["users"] if one.get("name") == name]
    if not any(_asks_for(one, name, region) for one in users):
        return False
    for key in _LISTS:
        whole[key] = [one for one in whole[key] if one.get("name") != name]
    if whole.get("current-context") == name:
        whole["current-context"] = ""
    _write(path, whole)
    return True


def _asks_for(user: Any, name: str, region: str) -> bool:
    plugin = user.get("exec") if isinstance(user, dict) else None
    return isinstance(plugin, dict) and plugin.get("args") == _token_arguments(name, region)


def _token_arguments(name: str, region: str) -> list[str]:
    return ["--region", region, "eks", "get-token", "--cluster-name", name]


def _write(path: Path, whole: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and moved: a reader, or a full disk, never sees half of it.
        beside = path.with_name(f".{path.name}.new")
        beside.touch(mode=0o600)
        beside.write_text(yaml.safe_dump(dict(whole), sort_keys=False), encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise DovetailError(f"{path} cannot be written: {error.strerror}") from error


def _config(name: str, endpoint: str, authority: str, user: Mapping[str, Any]) -> dict[str, Any]:
    cluster = {"server": endpoint, "certificate-authority-data": authority}
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
        whole = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise DovetailError(f"{path} cannot be read as a kubeconfig: {error}") from error
    if not isinstance(whole, dict):
        raise DovetailError(f"{path} is no kubeconfig")
    for key in _LISTS:
        entries = whole.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise DovetailError(f"{path} is no kubeconfig: {key} must be a list of objects")
        whole[key] = entries
    return whole
