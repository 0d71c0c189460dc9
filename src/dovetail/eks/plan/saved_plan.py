"""Saved plans: ``apply`` executes the steps that ``plan`` has shown, no others.

The file has no value of any resource, only fingerprints, because values can be
secret (chart values, user data). Fingerprints are keyed with the content of the
cluster file: without it no guess can be tested against them.

A saved plan fits the account as long as every step that is still to be done was in
it: with the same desired resource, and for an update from the same observed values.
Steps that were done in the meantime are no longer needed, so an interrupted
``apply`` can be repeated.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.text.json_reader import JSON_ERRORS
from dovetail.eks.plan.diff import PropertyChange
from dovetail.eks.plan.planner import Action, Plan, Step
from dovetail.eks.plan.resource import Account, DesiredResource
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.errors import DovetailError

FORMAT: Final = "dovetail cluster plan"
VERSION: Final = 1
_IN_SUBNETS: Final = ("eks-node-group", "eks-fargate-profile")
"""Kinds whose subnets follow from the account: those in use, once the resource exists."""


class SavedPlanError(DovetailError):
    """A file is not a saved plan that this version can apply."""


class StalePlanError(DovetailError):
    """A saved plan does not fit the file or the account any more."""


class SavedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One step: what it does to which resource, and fingerprints of both states."""

    action: Action
    address: str
    desired: str = ""
    """Fingerprint of the desired properties and tags; empty for a deletion."""
    observed: str = ""
    """Fingerprint of the identity of a resource that is deleted."""
    changes: dict[str, str] = {}
    """For an update, path of each value that changes → fingerprint of the value before."""


class SavedPlan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A plan as it is saved."""

    format: str
    version: int
    dovetail: str
    """Version of Dovetail that made the plan."""
    cluster: str
    region: str
    account: str
    file: str
    """Path of the cluster file, as it was given."""
    digest: str
    """SHA-256 of the cluster file's content."""
    steps: tuple[SavedStep, ...] = ()


def save_plan(plan: Plan, *, cluster: str, account: Account, file: str, content: bytes, dovetail: str) -> str:
    """Return the text of a file with the plan; ``content`` is that of the cluster file."""
    saved = SavedPlan(
        format=FORMAT,
        version=VERSION,
        dovetail=dovetail,
        cluster=cluster,
        region=account.region,
        account=account.account,
        file=file,
        digest=content_digest(content),
        steps=tuple(_save_step(step, content) for step in plan.steps),
    )
    return json.dumps(msgspec.to_builtins(saved), indent=2, ensure_ascii=False) + "\n"


def is_plan(data: bytes) -> bool:
    """Return True for the content of a saved plan, of any version of the format."""
    return _decode(data) is not None


def _decode(data: bytes) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode(data)
    except JSON_ERRORS:
        return None
    return document if isinstance(document, dict) and document.get("format") == FORMAT else None


def read_plan(file: str, data: bytes) -> SavedPlan:
    """Return a saved plan; raises ``SavedPlanError`` for any other file."""
    document = _decode(data)
    if document is None:
        raise SavedPlanError(
            f"{file}: is not a saved plan; save one with: dovetail cluster plan -f cluster.yaml --out {file}"
        )
    if document.get("version") != VERSION:
        raise SavedPlanError(
            f"{file}: has version {document.get('version')!r} of the format, made by dovetail "
            f"{document.get('dovetail', '?')}; this dovetail reads version {VERSION}: plan again"
        )
    try:
        return msgspec.convert(document, SavedPlan)
    except msgspec.ValidationError as error:
        raise SavedPlanError(f"{file}: is damaged: {error}; plan again") from error


def content_digest(content: bytes) -> str:
    """Return the digest of a cluster file's content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def check_file(saved: SavedPlan, *, file: str, content: bytes) -> None:
    """Raise ``StalePlanError`` if the cluster file is not the one of the plan."""
    if content_digest(content) != saved.digest:
        raise StalePlanError(f"{file} was changed after the plan was saved; plan again; nothing was changed")


def check_account(saved: SavedPlan, account: Account) -> None:
    """Raise ``StalePlanError`` if the credentials belong to another account."""
    if (saved.account, saved.region) != (account.account, account.region):
        raise StalePlanError(
            f"the plan is for account {saved.account} in {saved.region}, but the credentials belong to "
            f"{account.account} in {account.region}; nothing was changed"
        )


def check_steps(saved: SavedPlan, plan: Plan, *, content: bytes, dovetail: str) -> None:
    """Raise ``StalePlanError`` if a step of ``plan`` was not in the saved plan."""
    by_address: dict[str, list[SavedStep]] = {}
    for saved_step in saved.steps:
        by_address.setdefault(saved_step.address, []).append(saved_step)
    problems = [
        f"  {step.action} {KINDS[step.kind].display_name} {step.name}: {problem}"
        for step in plan.steps
        if (problem := _find_problem(step, by_address.get(step.address, []), content)) is not None
    ]
    if not problems:
        return
    head = "the plan no longer fits the account; this would be done now, but was not shown:"
    tail = "nothing was changed; plan again"
    if saved.dovetail != dovetail:
        tail += f" (the plan was made by dovetail {saved.dovetail}, this is {dovetail})"
    raise StalePlanError("\n".join([head, *problems, tail]))


def _find_problem(step: Step, saved_steps: list[SavedStep], content: bytes) -> str | None:
    """Return why a step is not one of the saved plan; None if it is."""
    by_action = {saved_step.action: saved_step for saved_step in saved_steps}
    if not by_action:
        return "the plan left it as it was" + _describe_changes(step.changes)
    # A creation that was interrupted is completed by an update.
    saved = by_action.get(step.action)
    if saved is None and step.action is Action.UPDATE:
        saved = by_action.get(Action.CREATE)
    if saved is None:
        planned = " and ".join(by_action)
        return f"the plan would {planned} it" + _describe_changes(step.changes)
    current = _save_step(step, content)
    if current.observed != saved.observed:
        return "it is another resource than the one that was planned to be deleted"
    if current.desired != saved.desired:
        return "it would get other properties than planned"
    if saved.action is Action.UPDATE:
        new = [path for path, before in current.changes.items() if saved.changes.get(path) != before]
        if new:
            changed = [change for change in step.changes if set(_leaves(change)).intersection(new)]
            return "it was changed since" + _describe_changes(changed)
    return None


def _describe_changes(changes: Any) -> str:
    return f" ({'; '.join(str(change) for change in changes)})" if changes else ""


def _save_step(step: Step, content: bytes) -> SavedStep:
    changes: dict[str, str] = {}
    if step.action is Action.UPDATE:
        for change in step.changes:
            changes |= {path: _fingerprint(value, content) for path, value in _leaves(change).items()}
    return SavedStep(
        action=step.action,
        address=step.address,
        desired=_fingerprint(_desired_state(step.desired), content) if step.desired else "",
        observed=_fingerprint(_identity(step), content) if step.action is Action.DELETE else "",
        changes=changes,
    )


def _desired_state(resource: DesiredResource) -> dict[str, Any]:
    kind = KINDS[resource.kind]
    properties = {**kind.defaults, **resource.properties}
    if resource.kind in _IN_SUBNETS:
        properties.pop("Subnets", None)
    return {"properties": properties, "tags": dict(resource.tags) if kind.taggable else {}}


def _identity(step: Step) -> dict[str, Any]:
    """Return what identifies a resource: its ids, without what every update changes."""
    attributes = step.observed.attributes if step.observed is not None else {}
    return {name: attributes[name] for name in attributes if name not in KINDS[step.kind].volatile}


def _leaves(change: PropertyChange) -> dict[str, Any]:
    """Return the values before a change by path; a later plan may know some of them only."""
    return dict(_flatten(change.path, change.before))


def _flatten(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flatten((*path, str(key)), inner)
    else:
        yield ".".join(path), value


def _fingerprint(value: Any, content: bytes) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hmac.new(hashlib.sha256(content + b"\0plan").digest(), text.encode(), hashlib.sha256).hexdigest()[
        :32
    ]
