"""Events of EC2 without an effect on a cluster, and why they have none."""

from collections.abc import Callable, Iterable, Mapping
from functools import singledispatch
from typing import Any, Final

from dovetail.codec.text.suggestions import join_first
from dovetail.model.labels import SPOT
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.nodeclass_resolver import selects_by_alias, selects_latest_image
from dovetail.simulator.scenario.model import Action, Interrupt, NewImages, Upgrade

_NO_CLASS: Final = "there is no EC2NodeClass: with which AMI nodes are launched is not known"


@singledispatch
def explain_no_effect(action: Action, cluster: SimulatedCluster) -> str:
    """Return why an event changes nothing in a fork; empty: it may change something."""
    return ""


@explain_no_effect.register
def _(action: NewImages, cluster: SimulatedCluster) -> str:
    classes = {
        name: recorded.spec
        for name, recorded in cluster.ec2.recorded_nodeclasses.items()
        if not action.node_classes or name in action.node_classes
    }
    return _explain_classes(
        classes, cluster, selects=selects_latest_image, otherwise="no EC2NodeClass selects the latest AMI"
    )


@explain_no_effect.register
def _(action: Upgrade, cluster: SimulatedCluster) -> str:
    classes = {name: recorded.spec for name, recorded in cluster.ec2.recorded_nodeclasses.items()}
    return _explain_classes(
        classes,
        cluster,
        selects=selects_by_alias,
        otherwise="AMIs follow the version only if an alias selects them",
    )


@explain_no_effect.register
def _(action: Interrupt, cluster: SimulatedCluster) -> str:
    is_spot = any(instance.choice.offering.capacity_type == SPOT for instance in cluster.ec2.instances())
    return "" if is_spot else "no NodePool has a spot instance"


def _explain_classes(
    classes: Mapping[str, Mapping[str, Any]],
    cluster: SimulatedCluster,
    *,
    selects: Callable[[Mapping[str, Any]], bool],
    otherwise: str,
) -> str:
    """Return why no node has an EC2NodeClass that selects other AMIs now; empty: one has."""
    if not classes:
        return _NO_CLASS
    selecting = [name for name, spec in classes.items() if selects(spec)]
    if not selecting:
        pinned = [f"{name} selects {_describe_terms(spec)}" for name, spec in sorted(classes.items())]
        return f"{otherwise}: {join_first(pinned)}"
    return _find_unused(selecting, cluster)


def _find_unused(names: Iterable[str], cluster: SimulatedCluster) -> str:
    used = {claim.node_class.name for claim in cluster.operator.cache.claims()}
    unused = sorted(set(names) - used)
    if used & set(names):
        return ""
    return f"no NodeClaim uses EC2NodeClass {join_first(unused)}"


def _describe_terms(spec: Mapping[str, Any]) -> str:
    terms = [
        f"{key} {value if isinstance(value, str) else ', '.join(map(str, value))}"
        for term in spec.get("amiSelectorTerms") or ()
        for key, value in term.items()
    ]
    return join_first(terms) if terms else "no AMI"
