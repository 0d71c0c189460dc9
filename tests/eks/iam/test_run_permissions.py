"""The controller's policies, enforced while it makes every call that it can make."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import msgspec
import pytest
from botocore import xform_name
from botocore.session import get_session
from moto.core import DEFAULT_ACCOUNT_ID

import dovetail
from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.aws.nodeclass_account import REGION, Account
from tests.support.iam.authorizations import Account as IamAccount
from tests.support.iam.enforcer import Evaluation, PolicyEnforcer
from tests.support.iam.policies import Documents, dovetail_policies, karpenter_policies
from tests.support.iam.run_session import CLUSTER, ROLE, RunSession
from tests.support.moto.instance_types import few_instance_types
from tests.support.moto.server import MotoAws, moto_without_amis

OPTIONAL = {"ec2:DescribeAvailabilityZones"}
"""Actions that the controller works without; Karpenter's role lacks them."""
UNUSED = {
    "AllowScopedInstanceProfileTagActions": (
        "IAM can check it when a profile is created with tags; there is no call of its own"
    )
}
"""Statements that no call of the session needs, and why they stay."""
_SERVICES = ("ec2", "iam", "sqs", "ssm", "sts", "eks", "pricing", "arc-zonal-shift")


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoAws]:
    with pytest.MonkeyPatch.context() as patch, few_instance_types(), moto_without_amis() as running:
        for name, value in {**FAKE_CREDENTIALS, "AWS_ENDPOINT_URL": running.url}.items():
            patch.setenv(name, value)
        yield running


def run_with(moto: MotoAws, documents: Documents) -> list[Evaluation]:
    """Run a session with these policies, and return all of its calls."""
    session = RunSession(Account(moto))
    boto = boto3.Session("test", "test", region_name=REGION)
    session.prepare({name: boto.client(name, endpoint_url=moto.url) for name in ("ec2", "iam", "sqs")})
    moto.middleware.calls.clear()
    enforcer = PolicyEnforcer(documents, IamAccount(snapshots={"ami-al2023": "snap-1"}))
    moto.middleware.authorizer = enforcer
    instances = session.run()
    assert {instance.capacity_type for instance in instances} == {"on-demand", "spot", "reserved"}
    return enforcer.evaluations


@pytest.fixture(scope="module")
def session(moto: MotoAws) -> list[Evaluation]:
    return run_with(moto, dovetail_policies(CLUSTER, REGION))


def test_the_session_makes_every_call_that_the_adapter_can_make(session: list[Evaluation]) -> None:
    root = Path(dovetail.__file__).parent
    sources = [*(root / "aws").rglob("*.py"), *(root / "operator").glob("*.py")]
    text = "".join(path.read_text() for path in sources)
    loader = get_session()
    known = {name for service in _SERVICES for name in loader.get_service_model(service).operation_names}
    methods = set(re.findall(r"\.([a-z]\w+)", text))
    operations = {name for name in known if f'"{name}"' in text or xform_name(name) in methods}

    assert len(operations) > 30
    assert {evaluation.call.operation for evaluation in session} == operations


def test_the_policies_allow_every_call(session: list[Evaluation]) -> None:
    assert [evaluation.denied for evaluation in session if evaluation.denied] == []


def test_every_action_and_resource_of_the_policies_is_needed_by_a_call(session: list[Evaluation]) -> None:
    needed = {
        msgspec.json.encode(request, order="sorted"): request
        for evaluation in session
        for request in evaluation.needed
    }
    unused = {
        (sid, entry)
        for documents, sid, entry in _without_each_entry(dovetail_policies(CLUSTER, REGION))
        if all(PolicyEnforcer(documents).is_allowed(request) for request in needed.values())
    }

    assert {(sid, entry) for sid, entry in unused if sid not in UNUSED} == set()
    assert {sid for sid, _ in unused} == UNUSED.keys()


def _without_each_entry(policies: Documents) -> Iterator[tuple[Documents, str, str]]:
    """Yield the policies without one action or resource, its Sid, and the entry."""
    for number, document in enumerate(policies):
        for index, statement in enumerate(document["Statement"]):
            for element in ("Action", "Resource"):
                for entry in statement[element]:
                    reduced = {
                        **statement,
                        element: [other for other in statement[element] if other != entry],
                    }
                    statements = [*document["Statement"]]
                    statements[index] = reduced
                    documents = [*policies]
                    documents[number] = {**document, "Statement": statements}
                    yield documents, statement["Sid"], entry


def test_the_policy_of_karpenter_allows_everything_that_is_required(moto: MotoAws) -> None:
    evaluations = run_with(moto, karpenter_policies(CLUSTER, REGION, role=ROLE))

    assert {request.action for evaluation in evaluations for request in evaluation.denied} == OPTIONAL


@pytest.fixture(scope="module")
def foreign(session: list[Evaluation]) -> Callable[[str], set[str]]:
    """Evaluate the session's calls with the policies of another cluster."""

    def denied(cluster: str) -> set[str]:
        documents = dovetail_policies(cluster, REGION)
        enforcer = PolicyEnforcer(documents)
        result = set()
        for evaluation in session:
            again = [request for request in evaluation.needed if not enforcer.is_allowed(request)]
            if again:
                result.add(evaluation.call.operation)
        return result

    return denied


def test_another_cluster_may_make_none_of_the_calls_that_change_something(
    session: list[Evaluation], foreign: Callable[[str], set[str]]
) -> None:
    operations = {evaluation.call.operation for evaluation in session}
    reads = {name for name in operations if name.startswith(("Describe", "Get", "List"))}
    by_name = {"DescribeCluster", "GetManagedResource", "GetQueueUrl"}

    assert foreign("prod") == (operations - reads) | by_name
    assert foreign(CLUSTER) == set()


def test_each_call_that_changes_a_resource_is_denied_without_the_tags_of_the_cluster(
    session: list[Evaluation],
) -> None:
    enforcer = PolicyEnforcer(dovetail_policies(CLUSTER, REGION))
    scoped = [
        request
        for evaluation in session
        for request in evaluation.needed
        if any(key.startswith(("aws:RequestTag/", "aws:ResourceTag/")) for key in request.context)
        and request.action != "iam:GetInstanceProfile"
    ]
    owned = f"kubernetes.io/cluster/{CLUSTER}"

    assert len(scoped) > 20
    for request in scoped:
        for change in ({}, {"shared": ""}):
            context = {
                key: change.get("shared", value) if key.endswith(owned) else value
                for key, value in request.context.items()
                if change or not key.endswith(owned)
            }
            assert not enforcer.is_allowed(msgspec.structs.replace(request, context=context)), request


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-2"])
def test_no_call_is_allowed_in_another_region(session: list[Evaluation], region: str) -> None:
    enforcer = PolicyEnforcer(dovetail_policies(CLUSTER, region))
    denied = {
        evaluation.call.operation
        for evaluation in session
        if not all(enforcer.is_allowed(request) for request in evaluation.needed)
    }

    global_calls = {"GetProducts", "ListInstanceProfiles", "GetInstanceProfile", "GetCallerIdentity"}
    assert {evaluation.call.operation for evaluation in session} - denied == global_calls


def test_account_of_the_policies_is_that_of_the_session() -> None:
    assert IamAccount().id == DEFAULT_ACCOUNT_ID
