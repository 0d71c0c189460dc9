"""The small parts under ``apply``: comparing live objects, tokens, kubeconfigs, failures."""

import asyncio
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from dovetail.eks.apply.executor import DryExecutor, carry_out, seconds_of
from dovetail.eks.kubernetes.helm import lacking
from dovetail.eks.kubernetes.kubeconfig import kubeconfig_with_aws, merge_into, take_out_of
from dovetail.eks.plan.planner import Plan, Step, Verb
from dovetail.eks.plan.resource import Existing
from dovetail.eks.resources.kubernetes.objects import projected
from dovetail.eks.session import ReadOnly, Site
from dovetail.errors import DovetailError
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount

NETWORK = {"create": {"cidr": "10.0.0.0/16", "zones": 2}}


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"list": [{"name": "x"}]}, {"list": [{"name": "x", "pullPolicy": "Always"}]}),
        ({"cpu": "1000m"}, {"cpu": "1"}),
        ({"memory": "1024Mi"}, {"memory": "1Gi"}),
        ({"tags": {}}, {}),
        ({"budgets": []}, {"budgets": None}),
    ],
)
def test_what_a_server_adds_or_writes_in_its_own_way_is_no_difference(
    wanted: Any, live: Any
) -> None:
    assert projected(wanted, live) == wanted


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ({"list": ["x"]}, {"list": ["x", "y"]}),
        ({"cpu": "1"}, {"cpu": "2"}),
        ({"name": "x"}, {"name": "y"}),
    ],
)
def test_what_says_something_else_is_a_difference(wanted: Any, live: Any) -> None:
    assert projected(wanted, live) != wanted


def test_a_token_is_a_question_to_sts_signed_for_this_cluster(account: TestAccount) -> None:
    async def token(site: Site) -> str:
        return await site.door.credentials.token()

    made = account.do(a_cluster(), token)

    head, _, packed = made.partition(".")
    url = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode()
    asked = parse_qs(urlsplit(url).query)
    assert head == "k8s-aws-v1"
    assert asked["Action"] == ["GetCallerIdentity"]
    assert asked["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert asked["X-Amz-Expires"] == ["60"]


def test_a_kubeconfig_keeps_its_other_contexts_and_gets_ours(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    ours = kubeconfig_with_aws("dev", region="us-east-1", endpoint="https://x", authority="eA==")

    merge_into(file, ours)
    merge_into(file, ours)

    whole = yaml.safe_load(file.read_text())
    assert [one["name"] for one in whole["contexts"]] == ["other", "dev"]
    assert whole["current-context"] == "dev"
    assert file.stat().st_mode & 0o077 == 0


def test_the_context_of_a_cluster_that_is_gone_goes_and_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    merge_into(
        file, kubeconfig_with_aws("dev", region="us-east-1", endpoint="https://x", authority="eA==")
    )

    assert not take_out_of(file, "dev", region="eu-west-1")
    assert take_out_of(file, "dev", region="us-east-1")
    assert not take_out_of(file, "dev", region="us-east-1")

    whole = yaml.safe_load(file.read_text())
    assert [one["name"] for one in whole["contexts"]] == ["other"]
    assert (whole["users"], whole["clusters"], whole["current-context"]) == ([], [], "")


def test_a_context_of_the_same_name_that_somebody_else_made_stays(tmp_path: Path) -> None:
    file = tmp_path / "config"
    text = "users: [{name: dev, user: {token: mine}}]\n"
    file.write_text(text)

    assert not take_out_of(file, "dev", region="us-east-1")
    assert not take_out_of(tmp_path / "none", "dev", region="us-east-1")

    assert file.read_text() == text


@pytest.mark.parametrize("text", ["users: 3\n", "contexts: [dev]\n"])
def test_entries_that_no_kubeconfig_has_are_said_to_be_wrong(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(DovetailError, match="must be a list of objects"):
        take_out_of(file, "dev", region="us-east-1")


def test_a_file_that_is_no_kubeconfig_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("- a list\n")
    ours = kubeconfig_with_aws("dev", region="us-east-1", endpoint="https://x", authority="eA==")

    with pytest.raises(DovetailError, match="is no kubeconfig"):
        merge_into(file, ours)

    assert file.read_text() == "- a list\n"


def test_a_site_that_only_looks_cannot_write(account: TestAccount) -> None:
    async def write(site: Site) -> Any:
        return await site.reach.ask("ec2", "create_vpc", CidrBlock="10.0.0.0/16")

    with pytest.raises(ReadOnly):
        account.do(a_cluster(), write, may_write=False)

    assert account.moto.door.calls["CreateVpc"] == 0


def test_a_dry_run_says_the_steps_in_an_order_in_which_they_could_be_done() -> None:
    said: list[str] = []
    first = Step(verb=Verb.REMOVE, address="vpc/a", existing=Existing(kind="vpc", name="a"))
    second = Step(
        verb=Verb.REMOVE,
        address="vpc/b",
        existing=Existing(kind="vpc", name="b"),
        needs=(first.id,),
    )

    asyncio.run(carry_out(Plan(steps=(second, first)), DryExecutor(said.append)))

    assert said == ["remove VPC a", "remove VPC b"]
    assert seconds_of((first, second), {"vpc": 2}) == 4


def test_a_node_group_that_did_not_come_up_is_made_anew(account: TestAccount) -> None:
    spec = a_cluster(vpc=NETWORK)
    account.apply(spec)
    groups = account.eks.parts["dev"]["node-groups"]
    name, group = next(iter(groups.items()))
    account.eks.failed.add(name)
    broken = account.plan(spec)

    account.apply(spec)

    assert [one.id for one in broken.steps if one.kind == "eks-node-group"] == [
        f"remove eks-node-group/{name}",
        f"create eks-node-group/{name}",
    ]
    assert groups[name] is not group


def test_a_chart_in_a_repository_needs_no_directory() -> None:
    told = lacking(["metrics-server", "oci://registry.example.com/x", "./not/there"])

    assert [one for one in told if "chart" in one and "PATH" not in one] == [
        "there is no chart at ./not/there: say where it is in controller.chart"
    ]
