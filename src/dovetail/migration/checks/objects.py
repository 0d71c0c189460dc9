"""NodePools, node classes, NodeClaims and Nodes as Dovetail will read them."""

from collections.abc import Iterator

from dovetail.codec.text.suggestions import pluralize
from dovetail.doctor.object_fields import join_names, name_of
from dovetail.migration.commands import WAIT_FOR_LAUNCHES
from dovetail.migration.facts import MigrationFacts, older_objects
from dovetail.migration.report import Area, Item, Level
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.state.nodeclass_validation import find_nodeclass_problem


def nodepools(facts: MigrationFacts) -> Iterator[Item]:
    """Yield NodePools and node classes, and errors in them."""
    classes = {node_class.name: node_class for node_class in facts.objects.node_classes}
    for node_class in facts.objects.node_classes:
        text = f"AMI family {node_class.ami_family.value}, " + ("ready" if node_class.ready else "not ready")
        level = Level.OK if node_class.ready else Level.WARNING
        yield _item(level, f"EC2NodeClass/{node_class.name}", text)
    for pool in facts.objects.nodepools:
        about = f"NodePool/{pool.name}"
        reference = pool.template.node_class
        if not reference.is_supported:
            yield _item(Level.NOTE, about, f"node class {reference.kind} of another provider; ignored")
        elif reference.name not in classes and EC2_NODE_CLASSES not in facts.facts.unseen:
            yield _item(Level.WARNING, about, f"EC2NodeClass {reference.name} does not exist")
        else:
            claims = sum(claim.pool == pool.name for claim in facts.objects.claims)
            text = f"EC2NodeClass {reference.name}, weight {pool.weight}, {pluralize(claims, 'NodeClaim')}"
            yield _item(Level.OK, about, text)
    for about, error in facts.objects.errors:
        yield _item(Level.BLOCKER, about, f"cannot be read: {error}")


def older_versions(facts: MigrationFacts) -> Iterator[Item]:
    """Yield objects of v1beta1 and older, and what their conversion changes."""
    for resource, objects in older_objects(facts.facts).items():
        names = join_names(name_of(obj) for obj in objects)
        kind = f"{resource.plural}.{resource.version}.{resource.group}"
        yield _item(
            Level.BLOCKER,
            f"{resource.kind} ({resource.version})",
            f"{names}: Dovetail manages v1 only; upgrade to Karpenter 1.x, or apply the converted objects",
            f"kubectl get {kind} -o yaml | dovetail convert -f -",
        )
    for about, note in facts.objects.conversions:
        yield _item(Level.NOTE, about, note)


def kubelet_settings(facts: MigrationFacts) -> Iterator[Item]:
    """Yield kubelet settings that make a node class not ready, and expressions.

    Karpenter 1.14 ignores settings that the AMI family does not support.
    """
    for raw in facts.facts.of(EC2_NODE_CLASSES):
        reason, message = find_nodeclass_problem(raw, lambda _: ()) or ("", "")
        if "Kubelet" in reason:
            text = f"will not be ready ({reason}): {message}"
            yield _item(Level.BLOCKER, f"EC2NodeClass/{name_of(raw)}", text)
    for node_class in facts.objects.node_classes:
        settings = ", ".join(node_class.kubelet.expressions)
        if settings:
            text = f"spec.kubelet.{settings}: expressions need the feature gate NodeClassCEL, as in Karpenter"
            yield _item(Level.NOTE, f"EC2NodeClass/{node_class.name}", text)


def nodeclaims(facts: MigrationFacts) -> Iterator[Item]:
    """Yield NodeClaims that are not in a stable state, and nodes without one."""
    claims = facts.objects.claims
    if NODE_CLAIMS in facts.facts.unseen:
        return
    ready = sum(is_true(claim.conditions, INITIALIZED) and not claim.deleting for claim in claims)
    text = f"{ready} of {len(claims)} initialized; managed without a change"
    yield _claims_item(Level.OK, "NodeClaims", text)
    launching = [claim.name for claim in claims if not claim.provider_id and not claim.deleting]
    if launching:
        yield _claims_item(
            Level.WARNING,
            "without an instance",
            f"{join_names(launching)}: wait for them before Karpenter stops. An instance that Karpenter "
            "launched, but has not recorded, is launched again, and the first one is terminated",
            WAIT_FOR_LAUNCHES,
        )
    joining = [
        claim.name
        for claim in claims
        if claim.provider_id and not claim.deleting and not is_true(claim.conditions, INITIALIZED)
    ]
    if joining:
        yield _claims_item(Level.NOTE, "not initialized", f"{join_names(joining)}: Dovetail continues")
    deleting = [claim.name for claim in claims if claim.deleting]
    if deleting:
        yield _claims_item(
            Level.NOTE, "being deleted", f"{join_names(deleting)}: Dovetail continues the drain"
        )
    unprotected = [
        claim.name
        for claim in claims
        if claim.provider_id and label_keys.TERMINATION_FINALIZER not in claim.finalizers
    ]
    if unprotected:
        text = f"{join_names(unprotected)}: Dovetail adds {label_keys.TERMINATION_FINALIZER}"
        yield _claims_item(Level.NOTE, "without finalizer", text)
    yield from _lost_nodes(facts)


def _lost_nodes(facts: MigrationFacts) -> Iterator[Item]:
    claimed = {claim.provider_id for claim in facts.objects.claims}
    lost = [
        node.name
        for node in facts.objects.nodes
        if label_keys.NODEPOOL in node.labels and node.provider_id not in claimed
    ]
    if lost:
        text = f"{join_names(lost)}: no NodeClaim; garbage collection of either controller terminates them"
        yield _claims_item(Level.WARNING, "nodes without NodeClaim", text)
    pools = {pool.name for pool in facts.objects.nodepools}
    orphans = [claim.name for claim in facts.objects.claims if claim.pool not in pools]
    if orphans and NODE_POOLS not in facts.facts.unseen:
        text = f"{join_names(orphans)}: no disruption until they are deleted"
        yield _claims_item(Level.NOTE, "without NodePool", text)


def _item(level: Level, about: str, text: str, fix: str = "") -> Item:
    return Item(area=Area.OBJECTS, level=level, about=about, text=text, fix=fix)


def _claims_item(level: Level, about: str, text: str, fix: str = "") -> Item:
    return Item(area=Area.CLAIMS, level=level, about=about, text=text, fix=fix)
