"""The definition of NodePools."""

import re
from typing import Final

from dovetail.codec.crds.definition import AGE, READY, Column, Definition
from dovetail.codec.crds.labels import pool_labels, requirements
from dovetail.codec.crds.schema import (
    Schema,
    amounts,
    choice,
    listing,
    mapping,
    matching,
    record,
    rule,
    text,
    whole,
)
from dovetail.codec.crds.shared import SPAN_OR_NEVER, node_parts, status
from dovetail.codec.karpenter.nodepools import (
    BUDGET_DURATION,
    BUDGET_NODES,
    CRON,
    HEAVIEST,
    MOST_BUDGETS,
    REASONS,
)
from dovetail.codec.quantities import show_duration
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, Disruption
from dovetail.model.kube.resources import NODES

_USUAL: Final = Disruption()
_SHARE: Final = matching(
    BUDGET_NODES, "must be a number of nodes or a share of them from 0% to 100%, as text: '10%'"
)
_SCHEDULE: Final = matching(
    re.compile(rf"\s*({CRON.pattern})\s*"),
    "must be a cron schedule of five fields, or a word such as @daily; in UTC",
)
_LENGTH: Final = matching(BUDGET_DURATION, "must be hours and minutes, as in 8h, 30m or 1h30m")


def _budgets() -> Schema:
    fields = {
        "nodes": text(
            "How many nodes of the pool may go at once: a number, or a share of them.",
            _SHARE,
            default=Budget().nodes,
        ),
        "schedule": text("When the budget begins to hold, as in a CronJob, in UTC.", _SCHEDULE),
        "duration": text("How long it holds each time.", _LENGTH),
        "reasons": listing(
            "The reasons for which it holds; all of them if none is named.",
            choice("A reason to take a node away.", REASONS),
            most=MOST_BUDGETS,
            distinct=True,
        ),
    }
    together = rule(
        "has(self.schedule) == has(self.duration)",
        "schedule and duration go together; give both or neither",
    )
    one = record("How many nodes may go at once.", fields, together)
    shown = listing("The smallest of those that hold counts.", one, most=MOST_BUDGETS)
    return {**shown, "default": [{"nodes": each.nodes} for each in _USUAL.budgets]}


def _disruption() -> Schema:
    fields = {
        "consolidationPolicy": choice(
            "Which nodes may be given back, or replaced by cheaper ones. Of no effect with "
            "replicas.",
            ConsolidationPolicy,
            default=str(_USUAL.policy),
        ),
        "consolidateAfter": text(
            "How long pods must have neither come nor gone before a node is looked at, or Never. "
            "Of no effect with replicas.",
            SPAN_OR_NEVER,
            default=show_duration(_USUAL.consolidate_after),
        ),
        "budgets": _budgets(),
    }
    return record("How nodes are given back.", fields, default={})


def _template() -> Schema:
    metadata = record(
        "What nodes get beside the labels of their own.",
        {
            "labels": pool_labels("Labels of every node of the pool."),
            "annotations": mapping("Annotations of every node of the pool.", {"type": "string"}),
        },
    )
    spec = record(
        "What nodes are bought by.",
        {
            "requirements": requirements(
                "Which instance types, zones and capacity types are allowed; [] for all.",
                nodepool=False,
            ),
            **node_parts(fixed_class=True),
        },
        required=("requirements", "nodeClassRef"),
    )
    return record(
        "What every node of the pool is made from.",
        {"metadata": metadata, "spec": spec},
        required=("spec",),
    )


def _spec() -> Schema:
    fields = {
        "template": _template(),
        "disruption": _disruption(),
        "limits": amounts(
            "No node is bought with which the pool would have more than that. A pool with replicas "
            f"can limit {NODES} only."
        ),
        "weight": whole(
            "Pools of more weight are used first; one without has 0.", low=1, high=HEAVIEST
        ),
        "replicas": whole(
            "Keep exactly so many nodes, whatever pods there are. Alpha.", low=0, size="int64"
        ),
    }
    return record(
        "Which nodes may be bought, and how they are given back.",
        fields,
        rule(
            "has(self.replicas) == has(oldSelf.replicas)",
            "replicas can be neither added to a pool nor removed from it; make a new pool instead",
        ),
        rule(
            "!has(self.replicas) || !has(self.weight)",
            "weight and replicas exclude each other: pods do not choose a pool of fixed size",
        ),
        rule(
            f"!has(self.replicas) || !has(self.limits) || self.limits.all(name, name == '{NODES}')",
            f"a pool with replicas can have a limit on {NODES} only",
        ),
        required=("template",),
    )


def _status() -> Schema:
    return status(
        "What the pool has.",
        {
            "nodes": whole("How many nodes there are.", default=0, size="int64"),
            "resources": amounts("What all nodes have together."),
            "nodeClassObservedGeneration": whole(
                "Generation of the node class for which nodes were last seen to register.",
                size="int64",
            ),
        },
    )


NODE_POOL: Final = Definition(
    group="karpenter.sh",
    version="v1",
    kind="NodePool",
    plural="nodepools",
    about="Nodes that are bought alike, for pods that fit nowhere else.",
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
