"""Fork of recorded objects: API server, EC2 and kubelets take over where the cluster was."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.discounts import DiscountBook
from dovetail.model.cloud.ec2_catalog import Catalog, Region
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.condition_types import REGISTERED
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.conditions import is_true
from dovetail.model.kube.requirements import Requirements
from dovetail.model.node import NodeObject
from dovetail.ports.api_resources import (
    CSI_NODES,
    EC2_NODE_CLASSES,
    LEASES,
    NODE_CLAIMS,
    NODES,
    PODS,
    RESOURCES,
)
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze, get_field
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.ec2.nodeclass_resolver import AccountNetwork, RecordedNodeClass, resolve_nodeclass
from dovetail.simulator.fork.calibration import Calibration, calibrate
from dovetail.simulator.fork.claims import rebuild_claims
from dovetail.simulator.fork.decoding import decode, decode_recorded_claim, decode_recorded_node
from dovetail.simulator.fork.instances import (
    InstancePrices,
    booted_from,
    complete_catalog,
    is_fargate,
    launch_record,
    managed_instance,
    price_fargate,
)
from dovetail.simulator.fork.records import read_records
from dovetail.simulator.fork.report import ForkReport, ReportBuilder
from dovetail.simulator.fork.workloads import UnknownControllers, parse_time, prepare_workloads
from dovetail.simulator.kubelet.heartbeats import new_lease
from dovetail.simulator.kubelet.kubelets import Kubelets, encode_csi_node

CLUSTER: Final = "sandbox"
"""Name of every simulated cluster in the tags of its instances."""
_STARTING: Final = timedelta(minutes=10)
"""Pods and nodes that are not ready for longer stay so."""
_REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)
_DEFAULT_REGION: Final = "us-east-1"
_VERSION: Final = re.compile(r"v1\.(\d+)\.(\d+)")


class Fork:
    """A recorded cluster, read once; ``restore`` puts it into a simulated one."""

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]],
        *,
        now: datetime,
        catalog: Catalog,
        prices: PriceBook,
        discounts: DiscountBook,
        region: str = "",
        version: str = "",
        missing: Iterable[str] = (),
    ) -> None:
        """Raise ``DovetailError`` only if the catalogue lacks a ``region`` that is named.

        ``version`` is the minor version of the control plane (``1.35``), if it is known.
        """
        self._notes = ReportBuilder()
        for sentence in missing:
            self._notes.note(sentence)
        self._records = read_records(objects, now=now, report=self._notes)
        # Before NodeClaims are rebuilt: those have no times of their own.
        self.calibration: Calibration = calibrate(self._records)
        rebuild_claims(self._records, self._notes)
        prepare_workloads(self._records, self._notes)
        if not self._records[PODS]:
            self._notes.note(
                "no pods were recorded: recorded workloads create theirs at the start, "
                "and nodes that none of them needs are deleted"
            )
        self._nodes = {name: decode_recorded_node(obj) for (_, name), obj in self._records[NODES].items()}
        self._claims = {
            name: decode_recorded_claim(obj) for (_, name), obj in self._records[NODE_CLAIMS].items()
        }
        place = _find_region(catalog, region, self._nodes.values(), self._notes)
        running = [
            *((node.labels, node.capacity) for node in self._nodes.values()),
            *((claim.labels, claim.capacity) for claim in self._claims.values()),
        ]
        self.catalog = complete_catalog(catalog, place.name, running)
        """The catalogue, with all types that run."""
        self.region: Region = self.catalog.regions[place.name]
        self.now = now
        self._control_plane_version = version
        names = [node.labels.get(label_keys.INSTANCE_TYPE, "") for node in self._nodes.values()]
        names += [claim.labels.get(label_keys.INSTANCE_TYPE, "") for claim in self._claims.values()]
        self._prices = InstancePrices(catalog, prices, discounts, names=names, report=self._notes)
        self.unmanaged: dict[str, LaunchRecord] = {}
        """Provider ID → bill of nodes without a NodeClaim."""

    def restore(self, api: ApiServer, clock: VirtualClock, ec2: Ec2Account, kubelets: Kubelets) -> ForkReport:
        """Put everything in place at the current instant; no time passes."""
        self._restore_nodeclasses(ec2)
        claim_of_node = self._match_claims()
        self._restore_instances(ec2, claim_of_node)
        for resource in RESOURCES:
            for obj in self._records[resource].values():
                api.restore(resource, obj)
        self._adopt_nodes(api, kubelets)
        version = self._find_version()
        kubelets.version = version or kubelets.version
        if any(UnknownControllers.find_pods(self._records)):
            UnknownControllers(api, clock)
        pods = self._records[PODS].values()
        return ForkReport(
            region=self.region.name,
            version=version,
            version_is_assumed=not self._control_plane_version,
            nodes=len(self._nodes),
            managed_nodes=len(claim_of_node),
            pods=len(pods),
            pending_pods=sum(not pod["spec"].get("nodeName") and not _is_terminal(pod) for pod in pods),
            assumptions=self._notes.assumptions,
            partly=self._notes.partly,
            latencies=self.calibration.latencies,
        )

    def _find_version(self) -> str:
        """Return the newest version of nodes with the control plane's minor version."""
        versions = [
            _VERSION.match(get_field(obj, "status", "nodeInfo", "kubeletVersion") or "")
            for obj in self._records[NODES].values()
        ]
        newest = max(((int(match[1]), int(match[2])) for match in versions if match), default=None)
        known = self._control_plane_version
        if newest is not None and known in ("", f"1.{newest[0]}"):
            return f"v1.{newest[0]}.{newest[1]}"
        return f"v{known}.0" if known else ""

    def _restore_nodeclasses(self, ec2: Ec2Account) -> None:
        """Record what each node class resolves to; missing parts as the simulation resolves them."""
        network = AccountNetwork.from_region(self.region)
        for (_, name), obj in self._records[EC2_NODE_CLASSES].items():
            simulated = resolve_nodeclass(obj, network=network, reservations=(), cluster=CLUSTER)
            status = {**simulated.status, **{k: v for k, v in (obj.get("status") or {}).items() if v}}
            if not get_field(obj, "status", "amis"):
                status["amis"] = self._images_of(name) or status.get("amis")
                self._notes.assume_of(
                    "EC2NodeClass", name, "without resolved images keep those of their nodes"
                )
            ec2.recorded_nodeclasses[name] = RecordedNodeClass(spec=obj.get("spec") or {}, status=status)

    def _images_of(self, node_class: str) -> list[dict[str, Any]]:
        """Return the images of a node class's NodeClaims as resolved images, by architecture."""
        images: dict[str, Counter[str]] = {}
        for claim in self._claims.values():
            if claim.node_class.name == node_class and claim.image_id:
                arch = claim.labels.get(label_keys.ARCH, "amd64")
                images.setdefault(arch, Counter())[claim.image_id] += 1
        return [
            {
                "id": counts.most_common(1)[0][0],
                "name": counts.most_common(1)[0][0],
                "requirements": [{"key": label_keys.ARCH, "operator": "In", "values": [arch]}],
            }
            for arch, counts in sorted(images.items())
        ]

    def _match_claims(self) -> dict[str, NodeClaim]:
        """Return the NodeClaim of each managed node."""
        by_provider = {claim.provider_id: claim for claim in self._claims.values() if claim.provider_id}
        matched = {}
        for node in self._nodes.values():
            claim = by_provider.get(node.provider_id) if node.provider_id else None
            if claim is not None:
                matched[node.name] = claim
            elif label_keys.NODEPOOL in node.labels:
                self._notes.note_of(
                    "node", node.name, "of a NodePool without NodeClaim; kept, never disrupted"
                )
        return matched

    def _restore_instances(self, ec2: Ec2Account, claim_of_node: Mapping[str, NodeClaim]) -> None:
        instances, booting = [], []
        nodes_by_claim = {claim.name: self._nodes[name] for name, claim in claim_of_node.items()}
        families = {
            name: decode(decode_nodeclass, obj).ami_family
            for (_, name), obj in self._records[EC2_NODE_CLASSES].items()
        }
        for claim in self._claims.values():
            if not claim.provider_id:
                continue
            node = nodes_by_claim.get(claim.name)
            if node is None and is_true(claim.conditions, REGISTERED) and not claim.deleting:
                self._notes.note_of("NodeClaim", claim.name, "without its Node; its instance counts as gone")
                continue
            labels = {**claim.labels, **(node.labels if node is not None else {})}
            capacity = node.capacity if node is not None else claim.capacity
            choice = self._prices.find(claim.node_name or claim.name, labels, self.region.name, capacity)
            instance = managed_instance(
                claim,
                node,
                choice,
                recorded=ec2.recorded_nodeclasses.get(claim.node_class.name),
                ami_family=families.get(claim.node_class.name, AmiFamily.AL2023),
                cluster=CLUSTER,
                now=self.now,
            )
            instances.append(instance)
            if node is None and not claim.deleting:
                booting.append(instance)
        # Also of nodes without a NodeClaim: a dump of a simulation has IDs of the same sequence.
        ids = (node.provider_id.rpartition("/")[2] for node in self._nodes.values())
        ec2.restore(instances, taken=(*self._nodes, *ids))
        latencies = self.calibration.cloud
        for instance in booting:
            if not instance.private_dns_name:
                instance.private_dns_name = ec2.next_name(instance.choice.offering.zone)
            age = self.now - instance.launched
            if age < _REGISTRATION_TIMEOUT:
                ec2.boot(instance, after=max(latencies.start + latencies.boot - age, timedelta(seconds=1)))
        self._bill_unmanaged(ec2, claim_of_node)

    def _bill_unmanaged(self, ec2: Ec2Account, managed: Mapping[str, NodeClaim]) -> None:
        for node in self._nodes.values():
            if node.name in managed:
                continue
            provider_id = node.provider_id or f"unknown:///{node.name}"
            if is_fargate(node.labels):
                choice = _fargate_choice(node)
                self._notes.assume("Fargate nodes cost what their vCPUs and memory cost in us-east-1")
            elif node.provider_id and not node.provider_id.startswith("aws://"):
                self._notes.note_of(
                    "node", node.name, "of another cloud; kept, priced at $0, never disrupted"
                )
                choice = _free_choice(node)
            else:
                choice = self._prices.find(node.name, node.labels, self.region.name, node.capacity)
            launched = node.created or self.now
            self.unmanaged[provider_id] = launch_record(provider_id, choice, launched)
        ec2.billing.record_existing(self.unmanaged.values(), now=self.now)

    def _adopt_nodes(self, api: ApiServer, kubelets: Kubelets) -> None:
        pods_on: dict[str, list[tuple[Object, bool]]] = {}
        for key, pod in self._records[PODS].items():
            node = pod["spec"].get("nodeName")
            if node and node not in self._nodes and not _is_terminal(pod):
                self._notes.note_of("pod", "/".join(key), "bound to nodes that were not recorded; lost")
            elif node:
                pods_on.setdefault(node, []).append((pod, self._becomes_ready(pod)))
        for (_, name), obj in self._records[NODES].items():
            node_object = self._nodes[name]
            instance = booted_from(node_object)
            if not instance.provider_id:
                instance = msgspec.structs.replace(instance, provider_id=f"unknown:///{name}")
            ready_after = None
            if not node_object.ready:
                created = node_object.created or self.now
                if self.now - created < _STARTING:
                    ready_after = self.calibration.kubelet.node_ready
                else:
                    self._notes.assume_of("node", name, "not ready; they stay so")
            api.restore(LEASES, _complete(new_lease(obj, now=self.now), f"{obj['metadata']['uid']}-lease"))
            if ("", name) not in self._records[CSI_NODES]:
                csi_node = encode_csi_node(obj, instance)
                api.restore(CSI_NODES, _complete(csi_node, f"{obj['metadata']['uid']}-csinode"))
            kubelets.adopt(instance, pods_on.get(name, ()), ready=node_object.ready, ready_after=ready_after)

    def _becomes_ready(self, pod: Object) -> bool:
        if _is_terminal(pod) or _is_ready(pod):
            return True
        since = parse_time(get_field(pod, "status", "startTime")) or self.now
        if self.now - since < _STARTING:
            return True
        meta = pod["metadata"]
        self._notes.assume_of("pod", f"{meta['namespace']}/{meta['name']}", "not ready; they stay so")
        return False


def _complete(obj: dict[str, Any], uid: str) -> Object:
    """Return an object that the simulation writes itself, with the metadata of a stored one."""
    meta = {**obj["metadata"], "uid": uid, "creationTimestamp": "1970-01-01T00:00:00Z"}
    kind = "Lease" if "namespace" in meta else "CSINode"
    version = "coordination.k8s.io/v1" if kind == "Lease" else "storage.k8s.io/v1"
    frozen: Object = freeze({**obj, "apiVersion": version, "kind": kind, "metadata": meta})
    return frozen


def _find_region(catalog: Catalog, named: str, nodes: Iterable[NodeObject], notes: ReportBuilder) -> Region:
    """Return the region that is named, or that of most nodes."""
    if named:
        if named not in catalog.regions:
            raise DovetailError(f"the catalogue has no region {named!r}; it has {', '.join(catalog.regions)}")
        return catalog.regions[named]
    counts = Counter(
        region for node in nodes if (region := node.labels.get(label_keys.REGION, "")) in catalog.regions
    )
    if not counts:
        notes.assume(f"no node has the label of a region in the catalogue; {_DEFAULT_REGION} was assumed")
        default = catalog.regions.get(_DEFAULT_REGION) or next(iter(catalog.regions.values()))
        return default
    most = max(counts, key=lambda region: (counts[region], region))
    if len(counts) > 1:
        notes.note(
            f"nodes are in {len(counts)} regions ({', '.join(sorted(counts))}), as in dumps of several "
            f"clusters; new nodes are launched in {most}"
        )
    return catalog.regions[most]


def _fargate_choice(node: NodeObject) -> LaunchChoice:
    return _choice(node, "fargate", price_fargate(node))


def _free_choice(node: NodeObject) -> LaunchChoice:
    return _choice(node, node.labels.get(label_keys.INSTANCE_TYPE, "unknown"), 0.0)


def _choice(node: NodeObject, name: str, price: float) -> LaunchChoice:
    zone = node.labels.get(label_keys.ZONE, "")
    return LaunchChoice(
        instance_type=InstanceType(name=name, requirements=Requirements(), capacity=node.capacity),
        offering=Offering(zone=zone, capacity_type=label_keys.ON_DEMAND, price=price),
    )


def _is_terminal(pod: Object) -> bool:
    return get_field(pod, "status", "phase") in ("Succeeded", "Failed")


def _is_ready(pod: Object) -> bool:
    conditions = get_field(pod, "status", "conditions") or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
