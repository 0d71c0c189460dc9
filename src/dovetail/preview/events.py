"""Events of EC2 without an effect on a cluster, and why they have none."""

from collections.abc import Callable, Iterable, Mapping
from functools import singledispatch
from typing import Any, Final

from dovetail.codec.text.suggestions import join_first
from dovetail.eks.versions import VERSIONS, VersionError, parse_minor, validate_upgrade
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
    running = _running_version(cluster)
    if running and parse_minor(action.version) == parse_minor(running):
        return f"the cluster runs 1.{parse_minor(running)} already{_describe_source(cluster)}"
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


@singledispatch
def validate_event(action: Action, cluster: SimulatedCluster) -> None:
    """Raise ``DovetailError`` if an event cannot happen to a cluster."""


@validate_event.register
def _(action: Upgrade, cluster: SimulatedCluster) -> None:
    running = _running_version(cluster)
    if not running:
        return
    try:
        validate_upgrade(running, action.version)
    except VersionError as error:
        raise VersionError(f"{error}{_describe_source(cluster)}") from None


@singledispatch
def name_unknowns(action: Action) -> str:
    """Return what is not known of an event that is played, as a sentence; empty: nothing."""
    return ""


@name_unknowns.register
def _(action: Upgrade) -> str:
    if parse_minor(action.version) <= parse_minor(VERSIONS[-1]):
        return ""
    return (
        f"Kubernetes {action.version} is not known to this release, whose last one is {VERSIONS[-1]}. "
        "Its AMIs are assumed to boot the same instance types, and to leave pods as much room."
    )


def _running_version(cluster: SimulatedCluster) -> str:
    return "" if cluster.fork is None else cluster.fork.version


def _describe_source(cluster: SimulatedCluster) -> str:
    """Return where the running version is from, unless the API server reports it."""
    is_assumed = cluster.fork is not None and cluster.fork.version_is_assumed
    return "; a dump has only the version of its nodes" if is_assumed else ""


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
