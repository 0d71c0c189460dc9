"""``dovetail explain``: why nodes stay and pods wait, and what it costs."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import click
import msgspec
from rich.text import Text

from dovetail.cli.explain.cluster_source import Looked, Source, look_options, looked
from dovetail.cli.explain.output import (
    Blockers,
    Nodes,
    NodeStory,
    PodStory,
    blocker_lines,
    node_lines,
    nodes_lines,
    pod_lines,
)
from dovetail.cli.output.console import progress, write, write_lines
from dovetail.core.disruption.command import Stay
from dovetail.core.pod.eligibility import blocking_budget, is_reschedulable, protection
from dovetail.core.provisioning import is_provisionable, is_usable
from dovetail.core.scheduling.pod_outlook import prospect_of
from dovetail.errors import DovetailError
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import PROMISED_TO
from dovetail.model.node import NodeObject
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.state.explain.blockers import Objects, held_by, in_the_end, reckoned
from dovetail.state.explain.nodes import explain_nodes
from dovetail.state.pods.assignments import Promises
from dovetail.state.snapshot import Picture

_MOST_RECKONED = 20
"""Each takes a pass over the whole cluster."""
_EPILOG = "Exit codes: 0 explained; 1 bad input, or no such node or pod."


@click.group(invoke_without_command=False)
def explain() -> None:
    """Say why a node is still there, why a pod waits, and who holds up savings.

    Looks at a cluster (the sandbox is one), or at a dump of one. Changes nothing.
    """


@explain.command(epilog=_EPILOG)
@click.argument("name", required=False)
@look_options
def node(name: str | None, output: str, **given: Any) -> None:
    """Say why a node stays and what it costs per hour that it does; without NAME, all of them."""
    seen = looked(msgspec.convert(given, Source))
    if name is not None:
        _known_node(seen, name)
    with progress("Thinking about every node"):
        stays = explain_nodes(seen.mirror, seen.types_of, seen.now)
    if name is None:
        ranked = Nodes(nodes=sorted(stays, key=lambda one: (-one.price, one.node)))
        _show(output, ranked, nodes_lines(ranked.nodes, seen.prices), seen)
        return
    (stay,) = [one for one in stays if one.node == name]
    story = _node_story(seen, stay)
    _show(output, story, node_lines(story, seen.prices), seen)


@explain.command(epilog=_EPILOG)
@click.argument("name")
@click.option("-n", "--namespace", default="", help="Default: the one that has such a pod.")
@look_options
def pod(name: str, namespace: str, output: str, **given: Any) -> None:
    """Say where a pod is or why it waits, and whether it holds its node.

    For one that waits: the node that would be bought for it, or why there is none.
    """
    seen = looked(msgspec.convert(given, Source))
    found = _known_pod(seen, name, namespace)
    with progress("Thinking about the cluster"):
        story = _pod_story(seen, found)
    _show(output, story, pod_lines(story, seen.prices), seen)


@explain.command(epilog=_EPILOG)
@look_options
def blockers(output: str, **given: Any) -> None:
    """Rank who keeps nodes from being given back by the dollars that they hold.

    For each, what the nodes cost that stay because of it, and what could be saved if it alone
    were not there.
    """
    now = looked(msgspec.convert(given, Source))
    seen = now.seen_otherwise(in_the_end(now.objects))

    def saving(objects: Objects) -> float:
        changed = seen.seen_otherwise(objects)
        stays = explain_nodes(changed.mirror, changed.types_of, changed.now, unhurried=True)
        return sum(one.saving for one in stays)

    with progress("Thinking about every blocker"):
        stays = explain_nodes(seen.mirror, seen.types_of, seen.now, unhurried=True)
        held = reckoned(held_by(stays), saving, seen.objects, _MOST_RECKONED)
    told = Blockers(
        blockers=held,
        nodes=len(stays),
        price=sum(one.price for one in stays),
        saving=sum(one.saving for one in stays),
    )
    _show(output, told, blocker_lines(told, seen.prices), seen)


def _show(output: str, data: msgspec.Struct, lines: Iterable[Text], seen: Looked) -> None:
    if output == "json":
        document = {**msgspec.to_builtins(data), "prices": seen.price_source}
        write(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        write_lines(list(lines))


def _known_node(seen: Looked, name: str) -> NodeObject:
    found = seen.mirror.node(name)
    if found is None:
        names = [one.name for one in seen.mirror.nodes()]
        raise DovetailError(f"there is no node {name!r}{_nearest(name, names)}")
    return found


def _known_pod(seen: Looked, name: str, namespace: str) -> Pod:
    namespace, _, bare = name.rpartition("/") if "/" in name else (namespace, "", name)
    pods = _all_pods(seen)
    found = [one for one in pods if one.name == bare and namespace in ("", one.namespace)]
    if len(found) > 1:
        where = ", ".join(one.namespace for one in found)
        raise DovetailError(f"several namespaces have a pod {bare!r}: {where}; say one with -n")
    if not found:
        raise DovetailError(f"there is no pod {name!r}{_nearest(bare, [p.name for p in pods])}")
    return found[0]


def _all_pods(seen: Looked) -> list[Pod]:
    bound = [pod for one in seen.mirror.nodes() for pod in seen.mirror.pods_on(one.name)]
    return [*bound, *seen.mirror.unbound_pods()]


def _nearest(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _node_story(seen: Looked, stay: Stay) -> NodeStory:
    found = _known_node(seen, stay.node)
    pods = seen.mirror.pods_on(found.name)
    claims = seen.mirror.claims_of(found.provider_id)
    joined = seen.mirror.joined(found.provider_id or found.name)
    return NodeStory(
        stay=stay,
        claim=claims[0].name if claims else "",
        nodepool=claims[0].pool if claims else "",
        labels=dict(found.labels),
        pods=[one.key for one in pods if is_reschedulable(one)],
        others=sum(not is_reschedulable(one) for one in pods),
        allocatable=found.allocatable.spelled(),
        free=joined.available().spelled() if joined is not None else {},
    )


def _pod_story(seen: Looked, pod: Pod) -> PodStory:
    budgets = seen.mirror.budgets_for(pod)
    blocking = blocking_budget(pod, budgets, seen.now)
    holds = bool(blocking) or protection(pod, seen.now).active
    story = PodStory(
        pod=pod.key,
        node=pod.node_name,
        budgets=[f"{one.namespace}/{one.name}" for one in budgets],
        blocking=[f"{one.namespace}/{one.name}" for one in blocking],
        protected=protection(pod, seen.now).active,
    )
    if pod.node_name:
        if not holds:
            return story
        stays = explain_nodes(seen.mirror, seen.types_of, seen.now)
        return msgspec.structs.replace(
            story, stay=next((one for one in stays if one.node == pod.node_name), None)
        )
    if not is_provisionable(pod):
        return story
    claim = next(
        (one for one in seen.mirror.claims() if pod.uid in one.annotations.get(PROMISED_TO, "")),
        None,
    )
    if claim is not None and not claim.deleting:
        return msgspec.structs.replace(story, claim=claim.name, waiting=True)
    found = prospect_of(pod, _snapshot(seen))
    return msgspec.structs.replace(
        story,
        waiting=True,
        existing=found.existing,
        new=found.new.instance_type.name if found.new is not None else "",
        new_nodepool=found.new.nodepool if found.new is not None else "",
        new_price=found.new.price if found.new is not None else 0.0,
        refusals=list(found.refusals),
    )


def _snapshot(seen: Looked) -> ClusterSnapshot:
    pools = [one for one in seen.mirror.pools() if is_usable(one)]
    types = {one.name: seen.types_of(one) for one in pools}
    waiting = [one for one in seen.mirror.unbound_pods() if is_provisionable(one)]
    return Picture(seen.mirror, Promises(seen.mirror)).snapshot(
        seen.now,
        pending=sorted(waiting, key=lambda one: one.key),
        pools=[one for one in pools if types[one.name]],
        types=types,
    )
