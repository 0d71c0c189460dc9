"""From whatever is at hand to facts: Kubernetes first, for it says what to ask AWS."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import msgspec

from dovetail.aws.session import Aws
from dovetail.doctor.controller_deployment import Controller, controller_of
from dovetail.doctor.facts import Facts, FileFacts, Need, Part
from dovetail.doctor.object_fields import label, name_of
from dovetail.doctor.sources.aws import aws_facts
from dovetail.doctor.sources.aws import unreadable as no_aws
from dovetail.doctor.sources.files import objects_in
from dovetail.doctor.sources.kubernetes import KubeFacts, kube_facts, scraped
from dovetail.doctor.sources.kubernetes import unreadable as no_kube
from dovetail.doctor.sources.query import Asked, NodeClassAsked
from dovetail.eks.desired.names import Names
from dovetail.kube.connection import Connection
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODES
from dovetail.ports.kube_errors import ApiError


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What is known before anybody is asked."""

    now: datetime
    catalog: Catalog
    files: FileFacts = FileFacts()
    unseen: Mapping[Need, str] = {}
    cluster: str = ""
    region: str = ""


async def facts_of_cluster(given: Given, connection: Connection | str) -> Facts:
    """Return what files and Kubernetes say; a text instead of a connection says why not."""
    if isinstance(connection, str):
        seen = _from_file(no_kube(connection), given.files)
    else:
        seen = await kube_facts(connection)
    facts = Facts(
        now=given.now,
        catalog=given.catalog,
        objects=seen.objects,
        aws_auth=seen.aws_auth,
        files=given.files,
        unseen={**given.unseen, **seen.unseen},
    )
    found = controller_of(facts)
    facts = msgspec.structs.replace(
        facts, cluster=_cluster(given, found), region=_region(given, facts, found)
    )
    if isinstance(connection, str):
        return facts
    if found is None:
        why = facts.unseen.get(DEPLOYMENTS, "there is no Deployment of Karpenter or Dovetail")
        return _without(facts, dict.fromkeys((Part.CONTROLLER, Part.VERSION, Part.METRICS), why))
    if not found.version:
        why = f"neither labels nor image of {found.about} tell its version"
        facts = _without(facts, {Part.VERSION: why})
    return await _with_metrics(facts, found, connection)


async def facts_with_aws(facts: Facts, aws: Aws | str) -> Facts:
    """Return the same facts with what AWS says; a text says why nobody asks."""
    seen, unseen = no_aws(aws) if isinstance(aws, str) else await aws_facts(aws, asked(facts))
    region = facts.region or ("" if isinstance(aws, str) else aws.region)
    if region not in facts.catalog.regions:
        why = f"the catalogue does not know the region {region!r}; say one with --region"
        unseen = {**unseen, Part.TYPES: why}
    return _without(msgspec.structs.replace(facts, aws=seen, region=region), unseen)


def asked(facts: Facts) -> Asked:
    """Return what to ask AWS about."""
    found, spec = controller_of(facts), facts.files.spec
    role = found.role_arn.rpartition("/")[2] if found is not None else ""
    queue = found.setting("INTERRUPTION_QUEUE") if found is not None else ""
    if found is None and spec is not None:
        role = Names.of(spec).controller_role
        queue = spec.name if spec.controller.interruption_queue else ""
    return Asked(
        cluster=facts.cluster,
        classes=tuple(NodeClassAsked.of(one) for one in facts.of(EC2_NODE_CLASSES)),
        namespace=found.namespace if found is not None else "",
        service_account=found.service_account if found is not None else "",
        controller_role=role,
        queue=queue,
    )


def _from_file(seen: KubeFacts, files: FileFacts) -> KubeFacts:
    """Let a cluster.yaml speak for the objects that it would make."""
    if files.spec is None:
        return seen
    objects = objects_in(files.spec)
    unseen = {need: why for need, why in seen.unseen.items() if need not in objects}
    return KubeFacts(objects=objects, unseen=unseen)


def _without(facts: Facts, unseen: Mapping[Need, str]) -> Facts:
    return msgspec.structs.replace(facts, unseen={**facts.unseen, **unseen})


async def _with_metrics(facts: Facts, found: Controller, connection: Connection) -> Facts:
    running = [one for one in found.pods if one.get("status", {}).get("phase") == "Running"]
    if not running:
        return _without(facts, {Part.METRICS: f"no pod of {found.about} runs"})
    try:
        lines = await scraped(
            connection, found.namespace, name_of(running[0]), found.setting("METRICS_PORT")
        )
    except ApiError as error:
        why = f"the metrics of {found.about} cannot be read: {error}"
        return _without(facts, {Part.METRICS: why})
    return msgspec.structs.replace(facts, metrics=lines)


def _cluster(given: Given, found: Controller | None) -> str:
    spec = given.files.spec
    told = found.setting("CLUSTER_NAME") if found is not None else ""
    return given.cluster or (spec.name if spec is not None else "") or told


def _region(given: Given, facts: Facts, found: Controller | None) -> str:
    spec = given.files.spec
    said = Counter(label(one, label_keys.REGION) for one in facts.of(NODES))
    said.pop("", None)
    told = found.setting("AWS_REGION") if found is not None else ""
    return (
        given.region
        or (spec.region if spec is not None else "")
        or (told if told != "(set)" else "")
        or min(said, key=lambda name: (-said[name], name), default="")
    )
