"""CustomResourceDefinition of CapacityBuffers."""

from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.definition import AGE, Column, Definition, condition_column
from dovetail.codec.crds.schema import Schema
from dovetail.codec.crds.shared import status_schema
from dovetail.model.karpenter.capacitybuffer import ACTIVE_CAPACITY
from dovetail.model.karpenter.condition_types import READY_FOR_PROVISIONING


def _template(about: str) -> Schema:
    return schema.struct(about, {"name": schema.string("Its name.", shortest=1)}, required=("name",))


def _scalable() -> Schema:
    fields = {
        "apiGroup": schema.string("Its API group, as in apps."),
        "kind": schema.string("Its kind, as in Deployment.", shortest=1),
        "name": schema.string("Its name.", shortest=1),
    }
    return schema.struct(
        "The workload whose pods the buffer reserves capacity for.", fields, required=("kind", "name")
    )


def _spec() -> Schema:
    fields = {
        "provisioningStrategy": schema.string("How capacity is reserved.", default=ACTIVE_CAPACITY),
        "podTemplateRef": _template("The PodTemplate whose pods the buffer reserves capacity for."),
        "scalableRef": _scalable(),
        "replicas": schema.integer("Number of pods to reserve capacity for.", low=0),
        "percentage": schema.integer(
            "Number of pods to reserve capacity for, in percent of the pods of scalableRef.", low=0
        ),
        "limits": schema.quantities(
            "Maximum capacity to reserve; the exact capacity if no number of pods is set."
        ),
    }
    return schema.struct(
        "The capacity to reserve.",
        fields,
        schema.rule(
            "has(self.podTemplateRef) != has(self.scalableRef)",
            "needs podTemplateRef or scalableRef, exactly one",
        ),
        schema.rule(
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "podTemplateRef needs replicas or limits",
        ),
    )


def _status() -> Schema:
    return status_schema(
        "The reserved capacity.",
        {
            "podTemplateRef": _template("The PodTemplate in use."),
            "podTemplateGeneration": schema.integer("Its generation.", size="int64"),
            "provisioningStrategy": schema.string("How capacity is reserved."),
            "replicas": schema.integer("Number of pods that capacity is reserved for."),
        },
    )


CAPACITY_BUFFER: Final = Definition(
    group="autoscaling.x-k8s.io",
    version="v1beta1",
    kind="CapacityBuffer",
    plural="capacitybuffers",
    about="Reserved capacity for future pods, so that they do not wait for a node.",
    spec=_spec(),
    status=_status(),
    columns=(
        Column("Strategy", ".spec.provisioningStrategy"),
        Column("PodTemplate", ".status.podTemplateRef.name"),
        Column("Replicas", ".status.replicas", "integer"),
        condition_column(READY_FOR_PROVISIONING, name="Ready"),
        AGE,
    ),
    short_names=("cb",),
    categories=("autoscaling",),
    namespaced=True,
)
