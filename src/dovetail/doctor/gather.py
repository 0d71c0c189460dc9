"""Gather facts: files, then Kubernetes, which names the resources to read in AWS."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from dovetail.aws.errors import AwsError
from dovetail.aws.session import MAX_THREADS, AwsSession
from dovetail.doctor.controller_deployment import Controller, controller_of
from dovetail.doctor.facts import Facts, FileFacts, Need, Part
from dovetail.doctor.object_fields import label, name_of
from dovetail.doctor.sources.aws import aws_facts
from dovetail.doctor.sources.aws import unreadable as no_aws
from dovetail.doctor.sources.files import objects_in
from dovetail.doctor.sources.kubernetes import KubeFacts, kube_facts, open_connection, scrape_metrics
from dovetail.doctor.sources.kubernetes import unreadable as no_kube
from dovetail.doctor.sources.query import AwsQuery, NodeClassQuery
from dovetail.eks.aws_errors import with_advice
from dovetail.eks.desired.names import Names
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.kube.connection import Connection
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODES
from dovetail.ports.kube_errors import ApiError


class InitialFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts known before any request: options and files."""

    now: datetime
    catalog: Catalog
    files: FileFacts = FileFacts()
    unseen: Mapping[Need, str] = {}
    cluster: str = ""
    region: str = ""


async def gather_facts(initial: InitialFacts, access: RestConfig | str, *, with_aws: bool = True) -> Facts:
    """Return the facts of all reachable sources.

    ``access`` may be the reason why Kubernetes is not reachable.
    """
    if isinstance(access, str):
        facts = await gather_cluster_facts(initial, access)
    else:
        connection = open_connection(access)
        try:
            facts = await gather_cluster_facts(initial, connection)
        finally:
            await connection.close()
    if not with_aws:
        return await add_aws_facts(facts, "AWS is disabled by --no-aws")
    threads = ThreadExecutor(MAX_THREADS, name="aws")
    try:
        aws = AwsSession(
            loop=AsyncioEventLoop(),
            executor=threads,
            random=SystemRandomSource(),
            region=facts.region or None,
        )
        return await add_aws_facts(facts, aws)
    except AwsError as error:
        # For example an unknown profile. Errors of single requests affect one part only.
        return await add_aws_facts(facts, str(with_advice(error, "sts")))
    finally:
        threads.close()


async def gather_cluster_facts(initial: InitialFacts, connection: Connection | str) -> Facts:
    """Return the facts from files and Kubernetes.

    ``connection`` may be the reason why there is none.
    """
    if isinstance(connection, str):
        kube = _from_file(no_kube(connection), initial.files)
    else:
        kube = await kube_facts(connection)
    facts = Facts(
        now=initial.now,
        catalog=initial.catalog,
        objects=kube.objects,
        aws_auth=kube.aws_auth,
        files=initial.files,
        unseen={**initial.unseen, **kube.unseen},
    )
    controller = controller_of(facts)
    facts = msgspec.structs.replace(
        facts, cluster=_cluster(initial, controller), region=_region(initial, facts, controller)
    )
    if isinstance(connection, str):
        return facts
    if controller is None:
        reason = facts.unseen.get(DEPLOYMENTS, "there is no Deployment of Karpenter or Dovetail")
        return _without(facts, dict.fromkeys((Part.CONTROLLER, Part.VERSION, Part.METRICS), reason))
    if not controller.version:
        reason = f"neither the labels nor the image of {controller.about} has its version"
        facts = _without(facts, {Part.VERSION: reason})
    return await _with_metrics(facts, controller, connection)


async def add_aws_facts(facts: Facts, aws: AwsSession | str) -> Facts:
    """Return the facts with those from AWS; ``aws`` may be the reason for none."""
    aws_values, unseen = no_aws(aws) if isinstance(aws, str) else await aws_facts(aws, query(facts))
    region = facts.region or ("" if isinstance(aws, str) else aws.region)
    if region not in facts.catalog.regions:
        problem = f"the catalogue has no region {region!r}" if region else "the region is not known"
        reason = f"{problem}; set --region"
        unseen = {**unseen, Part.TYPES: reason}
    return _without(msgspec.structs.replace(facts, aws=aws_values, region=region), unseen)


def query(facts: Facts) -> AwsQuery:
    """Return the names to look up in AWS."""
    controller, spec = controller_of(facts), facts.files.spec
    role_arn = controller.role_arn if controller is not None else ""
    role = role_arn.rpartition("/")[2]
    queue = controller.setting("INTERRUPTION_QUEUE") if controller is not None else ""
    if controller is None and spec is not None:
        role = Names.from_config(spec).controller_role
        queue = spec.name if spec.controller.interruption_queue else ""
    return AwsQuery(
        cluster=facts.cluster,
        classes=tuple(NodeClassQuery.of(node_class) for node_class in facts.of(EC2_NODE_CLASSES)),
        namespace=controller.namespace if controller is not None else "",
        service_account=controller.service_account if controller is not None else "",
        controller_role=role,
        controller_account=role_arn.split(":")[4] if role_arn.count(":") >= 5 else "",
        queue=queue,
    )


def _from_file(kube: KubeFacts, files: FileFacts) -> KubeFacts:
    """Use the objects of a cluster.yaml if there is no cluster."""
    if files.spec is None:
        return kube
    objects = objects_in(files.spec)
    unseen = {need: reason for need, reason in kube.unseen.items() if need not in objects}
    return KubeFacts(objects=objects, unseen=unseen)


def _without(facts: Facts, unseen: Mapping[Need, str]) -> Facts:
    return msgspec.structs.replace(facts, unseen={**facts.unseen, **unseen})


async def _with_metrics(facts: Facts, controller: Controller, connection: Connection) -> Facts:
    running = [pod for pod in controller.pods if pod.get("status", {}).get("phase") == "Running"]
    if not running:
        return _without(facts, {Part.METRICS: f"no pod of {controller.about} runs"})
    try:
        lines = await scrape_metrics(
            connection, controller.namespace, name_of(running[0]), controller.setting("METRICS_PORT")
        )
    except ApiError as error:
        reason = f"the metrics of {controller.about} cannot be read: {error}"
        return _without(facts, {Part.METRICS: reason})
    return msgspec.structs.replace(facts, metrics=lines)


def _cluster(initial: InitialFacts, controller: Controller | None) -> str:
    spec = initial.files.spec
    setting = controller.setting("CLUSTER_NAME") if controller is not None else ""
    return initial.cluster or (spec.name if spec is not None else "") or setting


def _region(initial: InitialFacts, facts: Facts, controller: Controller | None) -> str:
    spec = initial.files.spec
    regions = Counter(label(node, label_keys.REGION) for node in facts.of(NODES))
    regions.pop("", None)
    setting = controller.setting("AWS_REGION") if controller is not None else ""
    return (
        initial.region
        or (spec.region if spec is not None else "")
        or (setting if setting != "(set)" else "")
        or min(regions, key=lambda name: (-regions[name], name), default="")
    )
