"""Requests to AWS are Karpenter's, but for the table in docs/behaviours/aws-requests.md."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import xform_name

from tests.aws.golden.accepted import PAGE, read_accepted
from tests.aws.golden.cases import Case
from tests.aws.golden.compare import AcceptedDifferences, compare
from tests.aws.golden.facts import RECORDINGS, facts_of_run, plain_requests, read_recordings
from tests.aws.golden.normal_form import Facts, sample_types
from tests.aws.golden.run import CaseRun, run_case, running_aws
from tests.aws.golden.store import FACTS, encode_facts, read_facts
from tests.support.canned_aws.account import CannedAccount
from tests.support.canned_aws.server import CannedAws
from tests.support.canned_aws.wire import AwsRequest

CASES = 150
_SELECTIVE = {"networkInterfaces", "placementGroupSelector", "cpuOptions", "connectionTracking"}
"""Fields of a node class that not every instance type can launch with."""


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[CannedAws, boto3.Session]]:
    with running_aws() as aws_and_session:
        yield aws_and_session


@pytest.fixture(scope="module")
def golden() -> dict[str, tuple[Case, Facts]]:
    return read_facts(FACTS.read_bytes())


# Slow: unused rows are known only after the last case. It takes 20 s of CPU.
@pytest.mark.slow
def test_requests_and_results_are_karpenters_but_for_the_table(
    running: tuple[CannedAws, boto3.Session], golden: dict[str, tuple[Case, Facts]], subtests: pytest.Subtests
) -> None:
    accepted = AcceptedDifferences(read_accepted(PAGE.read_text()))
    assert len(golden) == CASES

    for name in golden:
        with subtests.test(name):
            _check_case(name, running, golden, accepted)
    unused = accepted.unused()
    assert not unused, "\n".join(["patterns of the table that nothing needs:", *unused])


def test_a_sixth_of_the_requests_and_results_are_karpenters_but_for_the_table(
    running: tuple[CannedAws, boto3.Session], golden: dict[str, tuple[Case, Facts]], subtests: pytest.Subtests
) -> None:
    accepted = AcceptedDifferences(read_accepted(PAGE.read_text()))

    for name in list(golden)[::6]:
        with subtests.test(name):
            _check_case(name, running, golden, accepted)


def _check_case(
    name: str,
    running: tuple[CannedAws, boto3.Session],
    golden: dict[str, tuple[Case, Facts]],
    accepted: AcceptedDifferences,
) -> None:
    case, karpenter = golden[name]
    run = run_case(*running, case)

    assert _failures(run) == []
    uncovered = accepted.uncovered(name, compare(karpenter, facts_of_run(run)))
    assert not uncovered, "\n".join(["not in the table:", *map(str, uncovered)])
    assert _unsupported_samples(case, karpenter, run) == set()


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"there are no recordings in {RECORDINGS}")
def test_committed_facts_are_those_of_the_recordings() -> None:
    assert FACTS.read_bytes() == encode_facts(read_recordings())


def test_the_stand_in_records_parameters_as_the_sdk_got_them(
    running: tuple[CannedAws, boto3.Session],
) -> None:
    aws, _ = running
    aws.account = CannedAccount()
    aws.take_requests()
    tags = [{"Key": "a", "Value": ""}, {"Key": "b", "Value": "1,2&3"}]
    interface = {"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"], "AssociatePublicIpAddress": False}
    template = {
        "LaunchTemplateName": "t",
        "LaunchTemplateData": {"NetworkInterfaces": [interface], "UserData": "eA==", "EbsOptimized": True},
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
        "ClientToken": "token",
    }
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("ec2", "CreateLaunchTemplate", template),
        ("ec2", "DescribeSubnets", {"Filters": [{"Name": "tag-key", "Values": ["x", "y"]}], "MaxResults": 5}),
        ("iam", "CreateInstanceProfile", {"InstanceProfileName": "p", "Path": "/a/b/", "Tags": tags}),
        ("ssm", "GetParameter", {"Name": "/my/ami"}),
        ("eks", "DescribeCluster", {"name": "rec"}),
    ]

    for service, operation, params in calls:
        client = boto3.client(service, region_name="eu-west-1")
        getattr(client, xform_name(operation))(**params)
        client.close()

    recorded = [(entry.request, entry.code) for entry in aws.take_requests()]
    assert recorded == [
        (AwsRequest(service, operation, "eu-west-1", params), "ok") for service, operation, params in calls
    ]


def _failures(run: CaseRun) -> list[str]:
    """Return requests that the stand-in could not answer."""
    return [
        f"{phase} {recorded.request.operation}: {recorded.code}"
        for phase, requests in run.requests.items()
        for recorded in requests
        if recorded.code in ("InvalidAction", "StandInFailure")
    ]


def _unsupported_samples(case: Case, karpenter: Facts, run: CaseRun) -> set[str]:
    """Return types of dry runs that Karpenter does not launch with a selective node class."""
    launched = {
        name
        for request in karpenter["requests"].get("launch", ())
        for config in request["params"].get("Configs", ())
        for override in config["overrides"]
        for name in override["types"]
    }
    is_selective = bool(_SELECTIVE & case.nodeclass["spec"].keys())
    return sample_types(plain_requests(run)["class"]) - launched if is_selective and launched else set()
