"""The controller's policies, evaluated for recorded requests of Karpenter.

The recordings are not part of this repository; without them the tests are skipped.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.iam.authorizations import Account
from tests.support.iam.calls import Call
from tests.support.iam.enforcer import Evaluation, PolicyEnforcer
from tests.support.iam.policies import Documents, dovetail_policies, karpenter_policies, partition_of

DIRECTORY = Path(
    os.environ.get("DOVETAIL_GOLDEN_AWS") or Path(__file__).parents[3].parent / "shared" / "golden-aws"
)
CLUSTER, ROLE = "rec", "KarpenterNodeRole-rec"
DENIED = {
    ("iam:PassRole", "arn:aws:iam::123456789012:role/other-role"): (
        "an EC2NodeClass with another role than that of the cluster; it is added to the policy by its owner"
    ),
    ("ssm:GetParameter", "arn:aws:ssm:us-west-2:123456789012:parameter/my/ami"): (
        "a parameter of the account; both policies allow those of AWS only"
    ),
}
"""Requests that the policies deny, and why."""
pytestmark = pytest.mark.skipif(not DIRECTORY.is_dir(), reason=f"there are no recordings in {DIRECTORY}")


def recordings() -> Iterator[tuple[str, list[Call]]]:
    """Yield each case and its calls; those that create resources come first."""
    for path in sorted(DIRECTORY.glob("*.json")):
        recording = json.loads(path.read_text())
        if not isinstance(recording, dict) or "requests" not in recording:
            continue
        calls = [
            Call(
                service=request["service"],
                operation=request["operation"],
                region=request["region"],
                parameters=request["params"],
            )
            for requests in recording["requests"].values()
            for request in requests
        ]
        yield path.stem, sorted(calls, key=lambda call: not call.operation.startswith("Create"))


def evaluate(calls: list[Call], documents: Documents) -> list[Evaluation]:
    enforcer = PolicyEnforcer(documents, _account(calls))
    return [enforcer.evaluate(call) for call in calls]


def _account(calls: list[Call]) -> Account:
    """Return an account with everything that the calls of a case create."""
    account = Account(partition=partition_of(region_of(calls)))
    for call in calls:
        account.learn(call)
    pools = {f"kubernetes.io/cluster/{CLUSTER}": "owned", "karpenter.sh/nodepool": "default"}
    named = [
        name
        for call in calls
        for field in ("InstanceIds", "Resources")
        for name in call.parameters.get(field, ())
    ]
    account.instances = dict.fromkeys(named, pools)
    return account


def region_of(calls: list[Call]) -> str:
    return next(call.region for call in calls if call.service != "pricing")


@pytest.fixture(scope="module")
def cases() -> dict[str, list[Call]]:
    return dict(recordings())


def test_the_policies_allow_every_recorded_request_of_the_cluster(cases: dict[str, list[Call]]) -> None:
    denied = {
        key
        for calls in cases.values()
        for entry in evaluate(calls, _with_role(dovetail_policies(CLUSTER, region_of(calls))))
        for key in _keys(entry)
    }

    partitions = {partition_of(region_of(calls)) for calls in cases.values()}
    assert len(cases) > 100
    assert {"aws", "aws-us-gov", "aws-iso"} <= partitions
    assert denied == DENIED.keys()


def test_the_policies_of_karpenter_as_written_here_deny_the_same(cases: dict[str, list[Call]]) -> None:
    denied = {
        key
        for calls in cases.values()
        for entry in evaluate(calls, karpenter_policies(CLUSTER, region_of(calls), role=ROLE))
        for key in _keys(entry)
    }

    assert denied == DENIED.keys()


def test_another_cluster_may_make_no_recorded_request_that_changes_something(
    cases: dict[str, list[Call]],
) -> None:
    for calls in cases.values():
        documents = dovetail_policies("other", region_of(calls))
        for entry in evaluate(calls, documents):
            if not entry.call.operation.startswith(("Describe", "Get", "List")):
                assert entry.denied, entry.call


def _with_role(documents: Documents) -> Documents:
    """Allow the node role of the recordings in place of that of the cluster file."""
    text = json.dumps(documents).replace(f":role/{CLUSTER}-node", f":role/{ROLE}")
    changed: Documents = json.loads(text)
    return changed


def _keys(entry: Evaluation) -> set[tuple[str, str]]:
    return {(request.action, request.resource) for request in entry.denied}
