"""Commands of a migration, with the names of this cluster."""

from typing import Final

from dovetail.doctor.object_fields import get_field, label
from dovetail.kube.preflight import KARPENTER_LEASE
from dovetail.migration.facts import MigrationFacts
from dovetail.migration.report import Step

VALUES_FILE: Final = "karpenter-values.yaml"
_IMAGE: Final = "REGISTRY/dovetail"
_RELEASE: Final = "dovetail"
_INSTANCE: Final = "app.kubernetes.io/instance"
"""Label of the objects of a Helm release."""
_DEFAULT_REPLICAS: Final = 2
WAIT_FOR_LAUNCHES: Final = (
    "kubectl get nodeclaims -o name | xargs -r kubectl wait --for=condition=Launched --timeout 5m"
)
"""Succeeds without NodeClaims, unlike ``kubectl wait … --all``."""


def take_over(facts: MigrationFacts) -> tuple[Step, ...]:
    """Return the steps from Karpenter to Dovetail."""
    karpenter, namespace = facts.karpenter, facts.namespace
    name = karpenter.name if karpenter is not None else "karpenter"
    steps = [
        Step("Save the values of Karpenter's release", (_save_values(facts),)),
        Step(
            "Wait for launches in progress, and stop Karpenter",
            (
                WAIT_FOR_LAUNCHES.replace(" | ", " |\n    "),
                f"kubectl -n {namespace} scale --replicas 0 deployment {name}",
                f"kubectl -n {namespace} wait --for=delete pod --timeout 2m \\\n    -l {_pod_labels(facts)}",
            ),
        ),
        Step(f"Start Dovetail (image: replace {_IMAGE})", (_install(facts),)),
        Step(
            "Verify",
            (
                f"kubectl -n {namespace} rollout status --timeout 3m deployment {_RELEASE}",
                f"kubectl -n {namespace} get lease {KARPENTER_LEASE}",
                "kubectl get nodeclaims",
                "dovetail doctor",
            ),
        ),
    ]
    return tuple(steps)


def hand_back(facts: MigrationFacts) -> tuple[Step, ...]:
    """Return the steps from Dovetail back to Karpenter."""
    karpenter, namespace = facts.karpenter, facts.namespace
    name = karpenter.name if karpenter is not None else "karpenter"
    replicas = (karpenter.replicas if karpenter is not None else 0) or _DEFAULT_REPLICAS
    return (
        Step(
            "Stop Dovetail, and start Karpenter",
            (
                WAIT_FOR_LAUNCHES.replace(" | ", " |\n    "),
                f"kubectl -n {namespace} scale --replicas 0 deployment {_RELEASE}",
                f"kubectl -n {namespace} wait --for=delete pod --timeout 2m \\\n"
                f"    -l {_INSTANCE}={_RELEASE}",
                f"kubectl -n {namespace} scale --replicas {replicas} deployment {name}",
            ),
        ),
        Step("Remove Dovetail", (f"helm uninstall {_RELEASE} --namespace {namespace}",)),
    )


def _save_values(facts: MigrationFacts) -> str:
    deployment = facts.karpenter.deployment if facts.karpenter is not None else {}
    release = str(get_field(deployment, "metadata", "annotations", "meta.helm.sh/release-name") or "")
    release = release or label(deployment, _INSTANCE) or "karpenter"
    return f"helm get values {release} -n {facts.namespace} -o yaml > {VALUES_FILE}"


def _pod_labels(facts: MigrationFacts) -> str:
    deployment = facts.karpenter.deployment if facts.karpenter is not None else {}
    selector = get_field(deployment, "spec", "selector", "matchLabels") or {
        "app.kubernetes.io/name": "karpenter"
    }
    if _INSTANCE in selector:
        return f"{_INSTANCE}={selector[_INSTANCE]}"
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def _install(facts: MigrationFacts) -> str:
    """Return the Helm command.

    Names differ from those of Karpenter's release, which stays installed. The role
    trusts Karpenter's service account, so Dovetail uses it.
    """
    karpenter = facts.karpenter
    account = karpenter.service_account if karpenter is not None else "karpenter"
    values = [
        f"controller.image.repository={_IMAGE}",
        "controller.image.tag=",
        "controller.image.digest=",
        "nameOverride=",
        f"fullnameOverride={_RELEASE}",
        f"podDisruptionBudget.name={_RELEASE}",
        "serviceAccount.create=false",
        f"serviceAccount.name={account}",
    ]
    if karpenter is not None and (1, 0) <= karpenter.version < (1, 1):
        values.append("webhook.enabled=false")
    options = [
        f"--namespace {facts.namespace} --values {VALUES_FILE}",
        *(f"--set {value}" for value in values),
    ]
    return " \\\n    ".join([f"helm install {_RELEASE} deploy/charts/dovetail", *options])
