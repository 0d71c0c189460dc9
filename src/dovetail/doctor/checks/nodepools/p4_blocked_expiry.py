"""P4: nodes expire while pods on them may not go."""

from collections.abc import Iterator, Mapping

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.requirements import selector
from dovetail.doctor.blocking_pdbs import blocking
from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, label, name_of, namespace_of, pools, shown
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_client import Object


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out pools whose nodes expire without an end to draining, and who blocks it."""
    pool_of = {name_of(one): label(one, label_keys.NODEPOOL) for one in facts.of(NODES)}
    held: dict[str, list[str]] = {}
    budgets = list(blocking(facts))
    for pod in facts.of(PODS):
        pool = pool_of.get(str(at(pod, "spec", "nodeName") or ""), "")
        if pool and _stays(pod, budgets):
            held.setdefault(pool, []).append(f"{namespace_of(pod)}/{name_of(pod)}")
    for one in pools(facts):
        template = one.template
        if template.expire_after is None or template.termination_grace_period is not None:
            continue
        if one.name in held:
            yield Symptom(
                about=f"NodePool/{one.name}",
                seen=f"expireAfter is set, terminationGracePeriod is not; pods that stay: "
                f"{shown(held[one.name])}",
                wrong="an expired node takes no new pods and never ends: it is paid for nothing",
                fix=f"kubectl patch nodepool {one.name} --type merge -p "
                '\'{"spec":{"template":{"spec":{"terminationGracePeriod":"24h"}}}}\'',
            )


def _stays(pod: Object, budgets: list[Object]) -> bool:
    annotations = at(pod, "metadata", "annotations") or {}
    if annotations.get(label_keys.DO_NOT_DISRUPT) == "true":
        return True
    labels = at(pod, "metadata", "labels") or {}
    return any(namespace_of(one) == namespace_of(pod) and _selects(one, labels) for one in budgets)


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    field = Field(at(budget, "spec", "selector"), Findings(written_by_hand=False))
    chosen = selector(field)
    return chosen is not None and chosen.is_valid and chosen.matches(labels)


CHECK = Check(
    code="P4",
    title="expireAfter with pods that block",
    severity=Severity.RISK,
    how="NodePools with expireAfter and no terminationGracePeriod, and pods that may not go",
    mend="set terminationGracePeriod",
    needs=(NODE_POOLS, NODES, PODS, POD_DISRUPTION_BUDGETS),
    find=find,
)
