"""Identities: who may assume the roles of controller and nodes, and for which cluster."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import ROLE_ARN, Controller, variables
from dovetail.doctor.facts import Facts, Part, Raw, Role
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import RequestContext, allowing, conditions_hold, may, principals
from dovetail.doctor.object_fields import get_field, join_names, name_of
from dovetail.eks.iam.documents import VERSION
from dovetail.model.cloud.partitions import dns_suffix
from dovetail.ports.api_resources import DAEMON_SETS, EC2_NODE_CLASSES, SERVICE_ACCOUNTS

_POD_IDENTITY: Final = "pods.eks.amazonaws.com"
_POD_IDENTITY_ACTIONS: Final = ("sts:AssumeRole", "sts:TagSession")
_AUDIENCE: Final = "sts.amazonaws.com"
_AGENT: Final = "eks-pod-identity-agent"
_OTHER_CREDENTIALS: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Environment variables that give a container credentials without IRSA and Pod Identity."""


def _association(facts: Facts, controller: Controller) -> Raw | None:
    """Return the Pod Identity association of the controller's service account."""
    account = (controller.namespace, controller.service_account)
    return next(
        (
            association
            for association in facts.aws.pod_identities
            if (association.get("namespace"), association.get("serviceAccount")) == account
        ),
        None,
    )


@controller_check(
    code="I12",
    title="controller has no role",
    severity=Severity.BROKEN,
    detection="the service account's annotation, its Pod Identity association, and that role in IAM",
    remedy="associate a role with the service account",
    needs=(SERVICE_ACCOUNTS, Part.POD_IDENTITIES, Part.CONTROLLER_IDENTITY),
)
def no_controller_role(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller whose service account has no role, or one that does not exist."""
    account = f"{controller.namespace}/{controller.service_account}"
    missing = facts.aws.missing_controller_role
    if not facts.aws.cluster_exists:
        return  # K21 reports it.
    if missing:
        evidence = f"its role is {missing}, and IAM has no such role"
    elif controller.role_arn or _association(facts, controller) is not None:
        return
    elif set(variables(controller.container)) & set(_OTHER_CREDENTIALS):
        return
    else:
        evidence = f"no annotation {ROLE_ARN} and no Pod Identity association for it in EKS"
    yield Symptom(
        about=f"ServiceAccount/{account}",
        seen=evidence,
        wrong="the controller has no AWS credentials of its own; its requests are denied",
        fix="dovetail cluster apply -f cluster.yaml  # or: aws eks create-pod-identity-association "
        f"--cluster-name {facts.cluster} --namespace {controller.namespace} "
        f"--service-account {controller.service_account} --role-arn ROLE",
    )


@controller_check(
    code="I13",
    title="controller's role cannot be assumed",
    severity=Severity.BROKEN,
    detection="trust policy of the controller's role, for Pod Identity or the cluster's OIDC provider",
    remedy="trust the service account",
    needs=(SERVICE_ACCOUNTS, Part.CLUSTER, Part.CONTROLLER_ROLE),
)
def controller_trust(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a role whose trust policy does not allow the controller's pods."""
    role = facts.aws.controller_role
    if role is None:
        return
    actions: tuple[str, ...]
    if controller.role_arn:
        issuer = _issuer(facts)
        context = RequestContext(
            {f"{issuer}:sub": _subject(controller), f"{issuer}:aud": _AUDIENCE}, absent=("oidc.eks.",)
        )
        principal, actions = _provider_arn(facts), ("sts:AssumeRoleWithWebIdentity",)
        trusted = f"{_subject(controller)} through {issuer}"
        condition = {"StringEquals": dict(context.values)}
        statement: dict[str, Any] = {"Principal": {"Federated": principal}, "Condition": condition}
    else:
        tags = {
            "eks-cluster-name": facts.cluster,
            "kubernetes-namespace": controller.namespace,
            "kubernetes-service-account": controller.service_account,
        }
        context = RequestContext(
            {
                "aws:SourceAccount": facts.aws.account,
                "aws:SourceArn": str(facts.aws.cluster.get("arn") or ""),
                **{f"aws:RequestTag/{key}": value for key, value in tags.items()},
            }
        )
        principal, actions, trusted = _POD_IDENTITY, _POD_IDENTITY_ACTIONS, _POD_IDENTITY
        statement = {"Principal": {"Service": principal}}
    missing = [action for action in actions if not _trusts(role.trust, (principal,), action, context)]
    if missing:
        yield Symptom(
            about=f"role/{role.name}",
            seen=f"its trust policy does not allow {' and '.join(missing)} to {trusted}; "
            f"it trusts {join_names(_trusted(role.trust)) or 'no principal'}",
            wrong="the controller gets no credentials: AccessDenied",
            fix=_update_trust(role, {"Effect": "Allow", **statement, "Action": list(actions)}),
        )


@check(
    code="I14",
    title="node role is not for EC2",
    severity=Severity.BROKEN,
    detection="trust policy of the role of each EC2NodeClass",
    remedy="trust ec2.amazonaws.com",
    needs=(EC2_NODE_CLASSES, Part.NODE_ROLES),
)
def node_trust(facts: Facts) -> Iterator[Symptom]:
    """Yield node roles that EC2 may not assume."""
    service = f"ec2.{dns_suffix(facts.aws.partition)}"
    for role in {role.name: role for role in facts.aws.node_roles.values() if role}.values():
        if _trusts(role.trust, (service, "ec2.amazonaws.com"), "sts:AssumeRole", RequestContext()):
            continue
        yield Symptom(
            about=f"role/{role.name}",
            seen=f"its trust policy does not allow sts:AssumeRole to {service}; "
            f"it trusts {join_names(_trusted(role.trust)) or 'no principal'}",
            wrong="instances get no credentials, so kubelets cannot join the cluster",
            fix=_update_trust(
                role, {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
            ),
        )


_CLUSTER_TAG: Final = "kubernetes.io/cluster/"
_CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"


@controller_check(
    code="I15",
    title="policy of another cluster",
    severity=Severity.BROKEN,
    detection="policies of the controller's role against this cluster's tags, ARNs and region",
    remedy="attach the policies of this cluster",
    needs=(Part.CONTROLLER_ROLE,),
    helped_by=(Part.CLUSTER, Part.QUEUE),
)
def other_clusters_policy(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the actions that the role allows, but not for this cluster."""
    role = facts.aws.controller_role
    if role is None:
        return
    denied = [
        action
        for action, resource, context in _requests(facts)
        if may(role, action) and not may(role, action, resource, context)
    ]
    if denied:
        others = sorted(set(_named_clusters(role)) - {facts.cluster})
        scope = f"with the tags of cluster {join_names(others)}" if others else "for other resources"
        yield Symptom(
            about=f"role/{role.name}",
            seen=f"its policies allow {', '.join(denied)} only {scope}, "
            f"and this is {facts.cluster} in {facts.region}",
            wrong="no node can be launched or terminated here: UnauthorizedOperation",
            fix=f"dovetail cluster render -f cluster.yaml  # then attach its policies to {role.name}",
        )


def _requests(facts: Facts) -> Iterator[tuple[str, str, RequestContext]]:
    """Yield action, resource and context of requests that the controller makes."""
    partition, region, account = facts.aws.partition, facts.region, facts.aws.account
    ec2 = f"arn:{partition}:ec2:{region}:{account}"
    here = {"aws:RequestedRegion": region}
    tags = {f"{_CLUSTER_TAG}{facts.cluster}": "owned", _CLUSTER_NAME_TAG: facts.cluster}

    def with_tags(where: str) -> RequestContext:
        values = {**here, **{f"aws:{where}/{key}": value for key, value in tags.items()}}
        return RequestContext(values, absent=(f"aws:{where}/{_CLUSTER_TAG}",))

    for action, kind in (
        ("ec2:CreateFleet", "fleet/a"),
        ("ec2:RunInstances", "instance/a"),
        ("ec2:CreateLaunchTemplate", "launch-template/a"),
    ):
        yield action, f"{ec2}:{kind}", with_tags("RequestTag")
    yield "ec2:TerminateInstances", f"{ec2}:instance/a", with_tags("ResourceTag")
    yield "ec2:DescribeInstances", "*", RequestContext(here)
    if facts.aws.cluster:
        yield "eks:DescribeCluster", str(facts.aws.cluster.get("arn") or "*"), RequestContext(here)
    if facts.aws.queue:
        yield "sqs:ReceiveMessage", str(facts.aws.queue.get("QueueArn") or "*"), RequestContext(here)


def _named_clusters(role: Role) -> Iterator[str]:
    """Yield the names of clusters in the conditions of a role's policies."""
    for text in map(json.dumps, role.documents.values()):
        yield from re.findall(rf"aws:Re(?:quest|source)Tag/{_CLUSTER_TAG}([^\"/]+)\"", text)


@controller_check(
    code="I16",
    title="no OIDC provider for IRSA",
    severity=Severity.BROKEN,
    detection="the cluster's issuer among the OIDC providers of IAM, if the controller uses IRSA",
    remedy="create the provider, or use Pod Identity",
    needs=(SERVICE_ACCOUNTS, Part.CLUSTER, Part.OIDC_PROVIDERS),
)
def no_oidc_provider(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the missing OIDC provider of a controller with a role annotation."""
    if not controller.role_arn or _provider_arn(facts) in facts.aws.oidc_providers:
        return
    yield Symptom(
        about=f"oidc-provider/{_issuer(facts)}",
        seen=f"ServiceAccount {controller.namespace}/{controller.service_account} has the annotation "
        f"{ROLE_ARN}, and IAM has no OIDC provider for this cluster",
        wrong="the controller gets no credentials: InvalidIdentityToken",
        fix=f"aws iam create-open-id-connect-provider --url https://{_issuer(facts)} "
        f"--client-id-list {_AUDIENCE}",
    )


@controller_check(
    code="I17",
    title="no Pod Identity agent",
    severity=Severity.BROKEN,
    detection=f"DaemonSet {_AGENT}, if the controller has a Pod Identity association",
    remedy=f"install the add-on {_AGENT}",
    needs=(SERVICE_ACCOUNTS, DAEMON_SETS, Part.CLUSTER, Part.POD_IDENTITIES),
)
def no_pod_identity_agent(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the missing agent of a controller that uses Pod Identity."""
    if controller.role_arn or _association(facts, controller) is None:
        return
    if get_field(facts.aws.cluster, "computeConfig", "enabled"):
        return  # Nodes of EKS Auto Mode have the agent built in.
    if any(name_of(daemon_set) == _AGENT for daemon_set in facts.of(DAEMON_SETS)):
        return
    yield Symptom(
        about=f"DaemonSet/kube-system/{_AGENT}",
        seen=f"ServiceAccount {controller.namespace}/{controller.service_account} has a Pod Identity "
        "association, and there is no such DaemonSet",
        wrong="pods get no credentials from their association",
        fix=f"aws eks create-addon --cluster-name {facts.cluster} --addon-name {_AGENT}",
    )


def _issuer(facts: Facts) -> str:
    """Return the cluster's OIDC issuer without its scheme."""
    return str(get_field(facts.aws.cluster, "identity", "oidc", "issuer") or "").partition("://")[2]


def _provider_arn(facts: Facts) -> str:
    return f"arn:{facts.aws.partition}:iam::{facts.aws.account}:oidc-provider/{_issuer(facts)}"


def _subject(controller: Controller) -> str:
    return f"system:serviceaccount:{controller.namespace}:{controller.service_account}"


def _trusts(policy: Raw, names: Iterable[str], action: str, context: RequestContext) -> bool:
    """Return True if a trust policy allows an action to one of these principals."""
    accepted = {*names, "*"}
    return any(
        conditions_hold(statement, context) and not accepted.isdisjoint(principals(statement))
        for statement in allowing([policy], action)
    )


def _trusted(policy: Raw) -> list[str]:
    """Return the principals that a trust policy allows to assume the role."""
    actions = (*_POD_IDENTITY_ACTIONS, "sts:AssumeRoleWithWebIdentity")
    statements = [statement for action in actions for statement in allowing([policy], action)]
    return sorted({principal for statement in statements for principal in principals(statement)})


def _update_trust(role: Role, statement: Raw) -> str:
    document = json.dumps({"Version": VERSION, "Statement": [statement]}, separators=(",", ":"))
    return f"aws iam update-assume-role-policy --role-name {role.name} --policy-document '{document}'"
