"""CustomResourceDefinition of NodePools."""

import re
from typing import Final

from dovetail.codec.crds import schema
from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.labels import labels_schema, requirements_schema
from dovetail.codec.crds.schema import Schema
from dovetail.codec.crds.shared import DURATION_OR_NEVER_RULE, node_fields, status_schema
from dovetail.codec.karpenter.nodepools import BUDGET_DURATION, BUDGET_NODES, CRON, MAX_BUDGETS, MAX_WEIGHT
from dovetail.codec.quantities import encode_duration
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption, DisruptionReason
from dovetail.model.kube.resources import NODES

_DEFAULTS: Final = Disruption()
_BUDGET_NODES: Final = schema.full_match(
    BUDGET_NODES, "must be a number of nodes or a percentage from 0% to 100%, as a string: '10%'"
)
_SCHEDULE: Final = schema.full_match(
    re.compile(rf"\s*({CRON.pattern})\s*"),
    "must be a cron schedule with five fields, or a macro such as @daily; in UTC",
)
_BUDGET_DURATION: Final = schema.full_match(
    BUDGET_DURATION, "must be hours and minutes, such as 8h, 30m or 1h30m"
)


def _budgets() -> Schema:
    fields = {
        "nodes": schema.string(
            "Maximum number of nodes disrupted at the same time, or a percentage of the nodes.",
            _BUDGET_NODES,
            default=Budget().nodes,
        ),
        "schedule": schema.string("Cron schedule, in UTC, at which the budget becomes active.", _SCHEDULE),
        "duration": schema.string("How long the budget stays active.", _BUDGET_DURATION),
        "reasons": schema.array(
            "Disruption reasons that the budget limits; all if empty.",
            schema.enum("A disruption reason.", tuple(DisruptionReason)),
            most=MAX_BUDGETS,
            distinct=True,
        ),
    }
    together = schema.rule(
        "has(self.schedule) == has(self.duration)", "schedule and duration must be set together"
    )
    item = schema.struct("Limit of nodes disrupted at the same time.", fields, together)
    budgets = schema.array("The most restrictive active budget applies.", item, most=MAX_BUDGETS)
    return {**budgets, "default": [{"nodes": budget.nodes} for budget in _DEFAULTS.budgets]}


def _disruption() -> Schema:
    fields = {
        "consolidationPolicy": schema.enum(
            "Nodes that consolidation deletes or replaces with cheaper nodes. Ignored with replicas.",
            ConsolidationPolicy,
            default=str(_DEFAULTS.policy),
        ),
        "consolidateAfter": schema.string(
            "Time without pod changes on a node before it is consolidated, or Never. Ignored with replicas.",
            DURATION_OR_NEVER_RULE,
            default=encode_duration(_DEFAULTS.consolidate_after),
        ),
        "budgets": _budgets(),
    }
    return schema.struct("Disruption settings of the nodes.", fields, default={})


def _template() -> Schema:
    metadata = schema.struct(
        "Labels and annotations of the nodes.",
        {
            "labels": labels_schema("Labels of every node."),
            "annotations": schema.mapping("Annotations of every node.", {"type": "string"}),
        },
    )
    spec = schema.struct(
        "Requirements and settings of the nodes.",
        {
            "requirements": requirements_schema(
                "Allowed instance types, zones and capacity types; [] allows all.", nodepool=False
            ),
            **node_fields(fixed_class=True),
        },
        required=("requirements", "nodeClassRef"),
    )
    return schema.struct(
        "Template of the NodeClaims of the NodePool.",
        {"metadata": metadata, "spec": spec},
        required=("spec",),
    )


def _spec() -> Schema:
    fields = {
        "template": _template(),
        "disruption": _disruption(),
        "limits": schema.quantities(
            f"Maximum total resources of the nodes. A NodePool with replicas can limit {NODES} only."
        ),
        "weight": schema.integer(
            "NodePools with a higher weight are used first; the default is 0.", low=1, high=MAX_WEIGHT
        ),
        "replicas": schema.integer(
            "Number of nodes, independent of pods (static capacity). Alpha.", low=0, size="int64"
        ),
    }
    return schema.struct(
        "Template, limits and disruption settings of the nodes.",
        fields,
        schema.rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "replicas cannot be added to or removed from a NodePool; create a new one",
        ),
        schema.rule(
            "!has(self.replicas) || !has(self.weight)",
            "weight and replicas exclude each other: pods do not select a static NodePool",
        ),
        schema.rule(
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == '{NODES}')",
            f"a NodePool with replicas can have a limit on {NODES} only",
        ),
        required=("template",),
    )


def _status() -> Schema:
    return status_schema(
        "Nodes and resources of the NodePool.",
        {
            "nodes": schema.integer("Number of nodes.", default=0, size="int64"),
            "resources": schema.quantities("Total capacity of the nodes."),
            "nodeClassObservedGeneration": schema.integer(
                "Generation of the node class when NodeRegistrationHealthy was last reset.", size="int64"
            ),
        },
    )


NODE_POOL: Final = Definition(
    group="karpenter.sh",
    version="v1",
    kind="NodePool",
    plural="nodepools",
    about="Nodes that are launched from one template for unschedulable pods.",
    spec=_spec(),
    status=_status(),
    columns=(
        Column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
        Column("Nodes", ".status.nodes", "integer"),
        READY,
        AGE,
        Column("Weight", ".spec.weight", "integer", wide=True),
        Column("CPU", ".status.resources.cpu", wide=True),
        Column("Memory", ".status.resources.memory", wide=True),
    ),
    scale=(".spec.replicas", ".status.nodes"),
)
