"""A cluster to explain: asked now, or from a dump, and what its nodes cost."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from dovetail.cli.files import attempt, read_sources
from dovetail.cli.options.catalog import catalog_in, prices_in
from dovetail.cli.options.discounts import DISCOUNTS_HELP, discounts_in, told_with
from dovetail.cli.output.console import progress
from dovetail.cli.output.plan_report import PriceSource
from dovetail.codec.text.documents import Files
from dovetail.data.bundled import bundled_catalog
from dovetail.errors import BadInput, DovetailError, Mistake
from dovetail.host.clock import RealClock
from dovetail.kube.auth.kubeconfig import find_access
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.operator.list_cluster import look
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource, resource_of_kind
from dovetail.ports.kube_client import Object
from dovetail.simulate import DEFAULT_REGION
from dovetail.state.cluster.cache import Mirror
from dovetail.state.explain.blockers import Objects
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity

DUMP = (
    "kubectl get nodes,pods,nodepools,nodeclaims,ec2nodeclasses,pdb,ds,rs,sts,ns,pv,pvc,sc,csinodes"
    " -A -o json"
)
"""What to type for a dump that tells all that is looked at."""

_Command = Callable[..., Any]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look, as the user said."""

    cluster: tuple[str, ...]
    kubeconfig: str | None
    context: str
    catalog: str | None
    prices: str | None
    discounts: str | None
    region: str | None


def look_options(command: _Command) -> _Command:
    """Give a command the options by which users say what to look at."""
    options = (
        click.option(
            "--cluster",
            multiple=True,
            metavar="DUMP",
            type=click.Path(),
            help="A cluster as `kubectl get … -o json` wrote it, instead of asking one. May be "
            "repeated.",
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="Default: KUBECONFIG, else the pod's own identity, else ~/.kube/config.",
        ),
        click.option("--context", default="", help="Of the kubeconfig. Default: the current one."),
        click.option("--catalog", metavar="FILE", type=click.Path(), help="One that you recorded."),
        click.option("--prices", metavar="FILE", type=click.Path(), help="A price book in CSV."),
        click.option("--discounts", metavar="FILE", type=click.Path(), help=DISCOUNTS_HELP),
        click.option("--region", metavar="R", help="Default: that of the nodes."),
        click.option(
            "-o",
            "--output",
            type=click.Choice(["table", "json"]),
            default="table",
            show_default=True,
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one instant, and what can be bought for it."""

    objects: Objects
    mirror: Mirror
    now: datetime
    types_of: Callable[[NodePool], tuple[InstanceType, ...]]
    prices: str
    """Where they are from, as a sentence for people."""
    price_source: PriceSource

    def seen_otherwise(self, objects: Objects) -> "Looked":
        """Return the same with other objects."""
        changed = mirror_of(objects)
        return msgspec.structs.replace(self, objects=objects, mirror=changed)


def looked(source: Source) -> Looked:
    """Read or ask for everything; raises with the mistakes of all files."""
    mistakes: list[Mistake] = []
    with progress("Looking at the cluster"):
        catalog = attempt(mistakes, lambda: catalog_in(source.catalog))
        book = attempt(mistakes, lambda: discounts_in(source.discounts))
        prices = attempt(mistakes, lambda: prices_in(source.prices, catalog or bundled_catalog()))
        objects = attempt(mistakes, lambda: _objects(source))
    if catalog is None or prices is None or objects is None or book is None:
        raise BadInput(mistakes)
    region = _region(catalog, source.region or _said(objects) or DEFAULT_REGION)
    shelf = Shelf(
        catalog.machines_in(region.name),
        region=region,
        prices=prices,
        scarcity=Scarcity(),
        discounts=book,
    )
    mirror, now = mirror_of(objects), _when(objects) if source.cluster else RealClock().now()

    def types_of(pool: NodePool) -> tuple[InstanceType, ...]:
        node_class = mirror.node_class(pool.template.node_class.name)
        return () if node_class is None else shelf.instance_types(node_class, now=now)

    priced = told_with(prices, book)
    return Looked(
        objects=objects,
        mirror=mirror,
        now=now,
        types_of=types_of,
        prices=f"{priced.describe()}; region {region.name}",
        price_source=PriceSource(source=priced.source, date=priced.date),
    )


def mirror_of(objects: Objects) -> Mirror:
    """Return a mirror of objects that were listed once."""
    mirror = Mirror()
    for resource in mirror.tables:
        mirror.replace(resource, objects.get(resource, ()))
    return mirror


def _objects(source: Source) -> Objects:
    if source.cluster:
        if source.kubeconfig or source.context:
            raise click.UsageError(
                "Say --cluster for a dump, or --kubeconfig and --context; not both."
            )
        return _from_dumps(source.cluster)
    access = find_access(
        source.kubeconfig, environ=os.environ, clock=RealClock(), context=source.context
    )
    return asyncio.run(look(access))


def _from_dumps(paths: Sequence[str]) -> Objects:
    files = Files()
    found: dict[Resource, dict[tuple[str, str], Object]] = {}
    for name, data in read_sources(paths):
        for raw in files.objects(name, data):
            obj = raw.value
            resource = resource_of_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
            meta = obj.get("metadata")
            if resource is None or not isinstance(meta, dict) or "name" not in meta:
                continue
            key = (str(meta.get("namespace", "")), str(meta["name"]))
            found.setdefault(resource, {}).setdefault(key, obj)
    if files.mistakes:
        raise BadInput(files.mistakes)
    if kinds.NODES not in found:
        raise DovetailError(f"there are no nodes in {', '.join(paths)}; make a dump with: {DUMP}")
    return {resource: list(ones.values()) for resource, ones in found.items()}


def _said(objects: Objects) -> str:
    """Return the region that most nodes say they are in."""
    said = Counter(
        (one["metadata"].get("labels") or {}).get(label_keys.REGION, "")
        for one in objects.get(kinds.NODES, ())
    )
    said.pop("", None)
    return min(said, key=lambda name: (-said[name], name), default="")


def _region(catalog: Catalog, name: str) -> Region:
    known = catalog.regions.get(name)
    if known is None:
        raise DovetailError(
            f"the catalogue does not know the region {name!r}; choose one with --region, or give "
            "a catalogue that you recorded with --catalog"
        )
    return known


def _when(objects: Objects) -> datetime:
    """Return about when a dump was made: the latest time that anything in it names."""
    times = [time for node in objects.get(kinds.NODES, ()) for time in _times(node)]
    times += [time for pod in objects.get(kinds.PODS, ()) for time in _times(pod)]
    return max(times, default=RealClock().now())


def _times(obj: Object) -> Iterator[datetime]:
    told = [obj["metadata"].get("creationTimestamp")]
    for one in (obj.get("status") or {}).get("conditions") or ():
        told += [one.get("lastHeartbeatTime"), one.get("lastTransitionTime")]
    for text in told:
        try:
            yield msgspec.convert(text, datetime)
        except msgspec.ValidationError:
            continue
