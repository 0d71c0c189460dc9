"""Saved plans: what fits an account, and what is refused."""

import json
from typing import Any

import msgspec
import pytest

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.planner import Plan, plan_changes
from dovetail.eks.plan.resource import Account
from dovetail.eks.plan.saved_plan import (
    SavedPlanError,
    StalePlanError,
    check_account,
    check_file,
    check_steps,
    read_plan,
    save_plan,
)
from tests.support.eks.configs import ACCOUNT, a_cluster
from tests.support.eks.in_memory_account import InMemoryAccount, changed

CONTENT = b"name: dev"


def saved(plan: Plan, content: bytes = CONTENT) -> Any:
    text = save_plan(
        plan, cluster="dev", account=ACCOUNT, file="cluster.yaml", content=content, dovetail="1.0"
    )
    return read_plan("plan.json", text.encode())


def check(saved_plan: Any, plan: Plan) -> None:
    check_steps(saved_plan, plan, content=CONTENT, dovetail="1.0")


def test_plan_fits_after_every_step_of_an_interrupted_run() -> None:
    desired = desired_state(a_cluster(account="123456789012"))
    account = InMemoryAccount(desired)
    plan = plan_changes(desired, account.observed())
    saved_plan = saved(plan)

    for step in plan.steps:
        account.execute(step)
        check(saved_plan, plan_changes(desired, account.observed()))

    assert not plan_changes(desired, account.observed()).steps


def test_resource_that_was_deleted_since_is_refused() -> None:
    desired = desired_state(a_cluster())
    account = InMemoryAccount(desired)
    account.run(plan_changes(desired, account.observed()))
    saved_plan = saved(plan_changes(desired, account.observed()))
    del account.resources["sqs-queue-policy/dev"]

    with pytest.raises(StalePlanError, match="create SQS queue policy dev: the plan left it as it was"):
        check(saved_plan, plan_changes(desired, account.observed()))


def _updated() -> tuple[InMemoryAccount, list[Any]]:
    """Return an account with a cluster, and desired resources with two changes."""
    desired = list(desired_state(a_cluster()))
    account = InMemoryAccount(desired)
    account.run(plan_changes(desired, account.observed()))
    number = next(index for index, resource in enumerate(desired) if resource.address == "eks-cluster/dev")
    logging = {"ClusterLogging": {"EnabledTypes": [{"Type": "api"}]}}
    desired[number] = changed(desired[number], Version="1.34", Logging=logging)
    return account, desired


def test_half_done_update_fits() -> None:
    account, desired = _updated()
    saved_plan = saved(plan_changes(desired, account.observed()))
    cluster = account.resources["eks-cluster/dev"]
    account.resources["eks-cluster/dev"] = msgspec.structs.replace(
        cluster, properties={**cluster.properties, "Version": "1.34"}
    )

    plan = plan_changes(desired, account.observed())

    assert [str(change.path[0]) for change in plan.steps[0].changes] == ["Logging"]
    check(saved_plan, plan)


def test_update_from_another_value_is_refused_with_the_value() -> None:
    account, desired = _updated()
    saved_plan = saved(plan_changes(desired, account.observed()))
    cluster = account.resources["eks-cluster/dev"]
    account.resources["eks-cluster/dev"] = msgspec.structs.replace(
        cluster, properties={**cluster.properties, "Version": "1.32"}
    )

    with pytest.raises(
        StalePlanError, match=r"update EKS cluster dev: it was changed since \(Version: 1.32 → 1.34\)"
    ):
        check(saved_plan, plan_changes(desired, account.observed()))


def test_deletion_of_another_resource_of_the_same_name_is_refused() -> None:
    desired = desired_state(a_cluster())
    account = InMemoryAccount(desired)
    account.run(plan_changes(desired, account.observed()))
    fewer = [resource for resource in desired if resource.address != "event-rule/dev-health"]
    rule = account.resources["event-rule/dev-health"]
    saved_plan = saved(plan_changes(fewer, account.observed()))
    account.resources["event-rule/dev-health"] = msgspec.structs.replace(rule, attributes={"id": "another"})

    with pytest.raises(StalePlanError, match="another resource than the one that was planned"):
        check(saved_plan, plan_changes(fewer, account.observed()))


def test_other_properties_are_refused() -> None:
    desired = list(desired_state(a_cluster()))
    account = InMemoryAccount(desired)
    saved_plan = saved(plan_changes(desired, account.observed()))
    number = next(index for index, resource in enumerate(desired) if resource.address == "vpc/main")
    desired[number] = changed(desired[number], CidrBlock="10.9.0.0/16")

    with pytest.raises(StalePlanError, match=r"create VPC main: it would get other properties than planned"):
        check(saved_plan, plan_changes(desired, account.observed()))


def test_refusal_names_the_versions_if_another_version_made_the_plan() -> None:
    desired = desired_state(a_cluster())
    plan = plan_changes(desired, InMemoryAccount(desired).observed())

    with pytest.raises(StalePlanError, match=r"made by dovetail 1\.0, this is 2\.0"):
        check_steps(saved(Plan()), plan, content=CONTENT, dovetail="2.0")


def test_file_has_no_value_of_a_resource() -> None:
    marker = "hunter2-very-secret"
    config = a_cluster(
        controller={"image": "registry.example.com/dovetail:1", "values": {"password": marker}},
        objects=[
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s", "namespace": "default"},
                "stringData": {"p": marker},
            }
        ],
    )
    desired = desired_state(config)
    plan = plan_changes(desired, InMemoryAccount(desired).observed())

    text = save_plan(plan, cluster="dev", account=ACCOUNT, file="c", content=CONTENT, dovetail="1")
    other = save_plan(plan, cluster="dev", account=ACCOUNT, file="c", content=b"other", dovetail="1")

    assert "kubernetes-object/Secret/default/s" in text
    assert marker not in text
    fingerprints = [{step["desired"] for step in json.loads(document)["steps"]} for document in (text, other)]
    assert not fingerprints[0] & fingerprints[1], "fingerprints depend on the content of the file"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a saved plan; save one with: dovetail cluster plan"),
        (b"name: dev\n", "is not a saved plan"),
        (b"\xff\xfe", "is not a saved plan"),
        (b'["format"]', "is not a saved plan"),
        (b'{"format": "other", "version": 1}', "is not a saved plan"),
        (
            b'{"format": "dovetail cluster plan", "version": 2, "dovetail": "9.0"}',
            "has version 2 of the format, made by dovetail 9.0; this dovetail reads version 1: plan again",
        ),
        (b'{"format": "dovetail cluster plan", "version": 1}', "is damaged: Object missing required field"),
    ],
)
def test_other_files_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(SavedPlanError, match=rf"^p\.json: {message}"):
        read_plan("p.json", data)


def test_changed_cluster_file_is_refused() -> None:
    with pytest.raises(StalePlanError, match=r"cluster\.yaml was changed after the plan was saved"):
        check_file(saved(Plan()), file="cluster.yaml", content=b"name: other")


def test_another_account_or_region_is_refused() -> None:
    for other in (Account(account="1" * 12, region="us-east-1"), Account(account="123456789012", region="x")):
        with pytest.raises(StalePlanError, match="the plan is for account 123456789012 in us-east-1"):
            check_account(saved(Plan()), other)
