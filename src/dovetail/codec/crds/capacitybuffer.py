"""The definition of CapacityBuffers."""

from typing import Final

from dovetail.codec.crds.definition import AGE, Column, Definition
from dovetail.codec.crds.schema import Schema, amounts, record, rule, text, whole
from dovetail.codec.crds.shared import status
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY


def _template(about: str) -> Schema:
    return record(about, {"name": text("Its name.", shortest=1)}, required=("name",))


def _scalable() -> Schema:
    fields = {
        "apiGroup": text("Its API group, as in apps."),
        "kind": text("Its kind, as in Deployment.", shortest=1),
        "name": text("Its name.", shortest=1),
    }
    return record("The workload to have room for more of.", fields, required=("kind", "name"))


def _spec() -> Schema:
    fields = {
        "provisioningStrategy": text("How room is kept free.", default=ACTIVE_CAPACITY),
        "podTemplateRef": _template("The PodTemplate of a pod to have room for."),
        "scalableRef": _scalable(),
        "replicas": whole("For how many pods there is to be room.", low=0),
        "percentage": whole(
            "For how many pods there is to be room, as a share of those of scalableRef.", low=0
        ),
        "limits": amounts("No more room than this, or so much if no number is given."),
    }
    return record(
        "The room that is kept free.",
        fields,
        rule(
            "has(self.podTemplateRef) != has(self.scalableRef)",
            "needs podTemplateRef or scalableRef, exactly one",
        ),
        rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "podTemplateRef needs replicas or limits",
        ),
    )


def _status() -> Schema:
    return status(
        "The room that there is.",
        {
            "podTemplateRef": _template("The PodTemplate that was used."),
            "podTemplateGeneration": whole("Its generation.", size="int64"),
            "provisioningStrategy": text("How room is kept free."),
            "replicas": whole("For how many pods there is to be room."),
        },
    )


CAPACITY_BUFFER: Final = Definition(
    group="autoscaling.x-k8s.io",
    version="v1beta1",
    kind="CapacityBuffer",
    plural="capacitybuffers",
    about="Room for pods that are not there yet, so that they need not wait for a node.",
    spec=_spec(),
    status=_status(),
    columns=(
        Column("Strategy", ".spec.provisioningStrategy"),
        Column("PodTemplate", ".status.podTemplateRef.name"),
        Column("Replicas", ".status.replicas", "integer"),
        Column("Ready", '.status.conditions[?(@.type=="ReadyForProvisioning")].status'),
        AGE,
    ),
    short_names=("cb",),
    categories=("autoscaling",),
    namespaced=True,
)
