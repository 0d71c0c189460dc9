"""Karpenter's Deployment, settings, role and Lease, and webhooks that it left."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.doctor.controller_deployment import controllers
from dovetail.doctor.iam_policies import ACTIONS_SINCE
from dovetail.doctor.object_fields import age, get_field, get_list, label, name_of, namespace_of
from dovetail.kube.leaderelection.elector import IDENTITY_MARK
from dovetail.kube.preflight import KARPENTER_LEASE
from dovetail.migration.facts import WEBHOOKS, MigrationFacts
from dovetail.migration.report import Area, Item, Level
from dovetail.migration.settings import Support, map_settings
from dovetail.ports.api_resources import DEPLOYMENTS, LEASES, SERVICE_ACCOUNTS

NEWEST_KNOWN: Final = (1, 14)
_EXPIRY: Final = timedelta(minutes=1)
_WEBHOOK_NAME: Final = re.compile(r"(validation|defaulting)\.webhook\.(config\.)?karpenter\.(sh|k8s\.aws)")
_LEVELS: Final = {
    Support.SAME: Level.OK,
    Support.UNNEEDED: Level.OK,
    Support.UNSUPPORTED: Level.WARNING,
    Support.REJECTED: Level.BLOCKER,
}


def deployment(facts: MigrationFacts) -> Iterator[Item]:
    """Yield version and replicas of Karpenter."""
    karpenter = facts.karpenter
    if karpenter is None:
        if DEPLOYMENTS not in facts.facts.unseen:
            text = "there is no Deployment of Karpenter; its version and settings are unknown"
            yield Item(area=Area.KARPENTER, level=Level.WARNING, about="Deployment", text=text)
        return
    chart, image = label(karpenter.deployment, "helm.sh/chart"), str(karpenter.container.get("image") or "")
    ready = int(get_field(karpenter.deployment, "status", "readyReplicas") or 0)
    text = f"version {version_text(facts) or 'unknown'} ({chart or image or 'no chart or image'}), "
    text += f"{ready} of {pluralize(karpenter.replicas, 'replica')} ready"
    level = Level.OK
    if karpenter.version and karpenter.version < (1,):
        level, text = Level.BLOCKER, f"{text}; upgrade to Karpenter 1.x first: older versions do not store v1"
    elif not karpenter.version or karpenter.version[:2] > NEWEST_KNOWN:
        level, text = Level.WARNING, f"{text}; known are versions 1.0 to 1.14"
    yield Item(area=Area.KARPENTER, level=level, about=karpenter.about, text=text)
    for controller in controllers(facts.facts):
        if controller.about == karpenter.about:
            continue
        is_karpenter = controller.kind == "karpenter"
        yield Item(
            area=Area.KARPENTER,
            level=Level.WARNING if is_karpenter else Level.NOTE,
            about=controller.about,
            text="a second Deployment of Karpenter: scale it to zero, too"
            if is_karpenter
            else f"Dovetail is installed, {pluralize(controller.replicas, 'replica')}",
        )


def version_text(facts: MigrationFacts) -> str:
    """Return Karpenter's version; empty if unknown."""
    return "" if facts.karpenter is None else ".".join(map(str, facts.karpenter.version))


def settings(facts: MigrationFacts) -> Iterator[Item]:
    """Yield each setting with its equivalent."""
    if facts.karpenter is None:
        return
    for setting in map_settings(facts.karpenter, facts.check_option):
        yield Item(area=Area.SETTINGS, level=_LEVELS[setting.support], about=setting.about, text=setting.text)
    if get_list(facts.karpenter.container, "envFrom"):
        text = "variables of ConfigMaps and Secrets are not read; compare them with `dovetail run --help`"
        yield Item(area=Area.SETTINGS, level=Level.WARNING, about="envFrom", text=text)
    elif not get_list(facts.karpenter.container, "env"):
        text = "its environment variables are unknown: `dovetail dump` leaves them out; read the live cluster"
        yield Item(area=Area.SETTINGS, level=Level.WARNING, about=facts.karpenter.about, text=text)


def permissions(facts: MigrationFacts) -> Iterator[Item]:
    """Yield the role, and actions that the policy of an older version lacks."""
    karpenter = facts.karpenter
    if karpenter is None:
        return
    if SERVICE_ACCOUNTS not in facts.facts.unseen:
        account = f"ServiceAccount/{karpenter.namespace}/{karpenter.service_account}"
        role = karpenter.role_arn or "Pod Identity or the node's role (no annotation)"
        text = f"{role}; trusts this service account, so Dovetail runs with it"
        yield Item(area=Area.PERMISSIONS, level=Level.OK, about=account, text=text)
    newer = [action for since, action in ACTIONS_SINCE if karpenter.version and karpenter.version < since]
    if newer:
        text = (
            f"the policy of Karpenter {version_text(facts)} may lack {', '.join(newer)}, which Karpenter's "
        )
        text += "newest policy has; check with: dovetail doctor --only I4"
        yield Item(area=Area.PERMISSIONS, level=Level.WARNING, about="policy", text=text)
    else:
        text = "no action beyond Karpenter's policy is needed"
        yield Item(area=Area.PERMISSIONS, level=Level.OK, about="policy", text=text)


def leases(facts: MigrationFacts) -> Iterator[Item]:
    """Yield the holder of the leader's Lease."""
    name = KARPENTER_LEASE
    if facts.karpenter is not None:
        name = facts.karpenter.setting("LEADER_ELECTION_NAME") or name
    for lease in facts.facts.of(LEASES):
        if name_of(lease) != name:
            continue
        about = f"Lease/{namespace_of(lease)}/{name}"
        holder = str(get_field(lease, "spec", "holderIdentity") or "")
        is_fresh = age(facts.facts, get_field(lease, "spec", "renewTime")) < _EXPIRY
        text = f"held by {holder}" if holder and is_fresh else "held by no process"
        if holder and is_fresh:
            text += ": Dovetail leads" if IDENTITY_MARK in holder else "; released when Karpenter stops"
        yield Item(area=Area.LEASES, level=Level.OK, about=about, text=text)
        if namespace_of(lease) != facts.namespace and is_fresh:
            text = f"not in {facts.namespace}: two controllers could lead at once"
            fix = f"--set settings.leaderElectionNamespace={namespace_of(lease)}"
            yield Item(area=Area.LEASES, level=Level.WARNING, about=about, text=text, fix=fix)


def webhooks(facts: MigrationFacts) -> Iterator[Item]:
    """Yield admission webhooks of Karpenter: nothing serves them once it has stopped."""
    for resource in WEBHOOKS:
        for configuration in facts.facts.of(resource):
            name = name_of(configuration)
            if not _WEBHOOK_NAME.fullmatch(name):
                continue
            policies = {
                str(hook.get("failurePolicy") or "Fail") for hook in get_list(configuration, "webhooks")
            }
            is_blocking = "Fail" in policies
            yield Item(
                area=Area.LEASES,
                level=Level.BLOCKER if is_blocking else Level.WARNING,
                about=f"{resource.kind}/{name}",
                text="left by a Karpenter before 1.1; without it, "
                + ("writes of its kinds fail" if is_blocking else "each write waits for its timeout"),
                fix=f"kubectl delete {resource.plural.removesuffix('s')} {name}",
            )
