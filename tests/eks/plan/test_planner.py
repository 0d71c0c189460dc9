"""Plans: all steps in order, and no unnecessary ones."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.planner import Action, Step, plan_changes, plan_deletion
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import DesiredResource, ObservedResource, ObservedState, sort_by_dependency
from dovetail.eks.plan.resource_kinds import KINDS
from tests.support.eks.configs import ACCOUNT, EXAMPLES, a_cluster, an_example
from tests.support.eks.in_memory_account import InMemoryAccount, changed

NAMES = [path.stem for path in EXAMPLES]


@pytest.mark.parametrize("example", NAMES)
def test_plan_is_empty_after_it_was_applied(example: str) -> None:
    resources = desired_state(an_example(example))
    account = InMemoryAccount(resources)

    account.run(plan_changes(resources, account.observed()))

    assert plan_changes(resources, account.observed()).steps == ()
    assert set(account.resources) == {resource.address for resource in resources}


@pytest.mark.parametrize("example", NAMES)
def test_plan_interrupted_after_any_step_is_finished_by_the_next_one(example: str) -> None:
    resources = desired_state(an_example(example))
    full_plan = plan_changes(resources, InMemoryAccount(resources).observed())

    for stop in range(len(full_plan.steps)):
        account = InMemoryAccount(resources)
        account.run(full_plan, steps=stop)
        account.run(plan_changes(resources, account.observed()))

        assert plan_changes(resources, account.observed()).steps == ()
        assert account.writes == len(full_plan.steps), f"after {stop} steps a step was executed twice"


@pytest.mark.parametrize("example", NAMES)
def test_deletion_keeps_only_external_and_shared_resources(example: str) -> None:
    resources = desired_state(an_example(example))
    account = InMemoryAccount(resources)
    shared = {resource.address for resource in resources if KINDS[resource.kind].shared}
    before = set(account.resources)
    account.run(plan_changes(resources, account.observed()))

    account.run(plan_deletion(resources, account.observed()))

    assert shared <= {"service-linked-role/AWSServiceRoleForEC2Spot"}
    assert set(account.resources) == before | shared


@pytest.mark.parametrize("example", NAMES)
def test_deletion_interrupted_after_any_step_is_finished_by_the_next_one(example: str) -> None:
    resources = desired_state(an_example(example))
    complete = InMemoryAccount(resources)
    complete.run(plan_changes(resources, complete.observed()))
    full_plan = plan_deletion(resources, complete.observed())

    for stop in range(len(full_plan.steps)):
        account = InMemoryAccount(resources)
        account.resources = dict(complete.resources)
        account.run(full_plan, steps=stop)
        account.run(plan_deletion(resources, account.observed()))

        left = [resource for resource in resources if resource.address in account.resources]
        assert all(resource.external or KINDS[resource.kind].shared for resource in left)


def test_nodepools_are_deleted_before_the_controller_and_the_controller_before_its_role() -> None:
    resources = desired_state(a_cluster())
    account = InMemoryAccount(resources)
    account.run(plan_changes(resources, account.observed()))

    deleted = [step.address for step in plan_deletion(resources, account.observed()).steps]

    order = [
        "kubernetes-object/NodePool/default",
        "kubernetes-object/EC2NodeClass/default",
        "helm-release/kube-system/dovetail",
        "iam-role/dev-us-east-1-dovetail",
    ]
    assert sorted(order, key=deleted.index) == order
    assert deleted.index("eks-cluster/dev") > deleted.index("eks-node-group/controller")
    assert deleted.index("vpc/main") > deleted.index("eks-cluster/dev")


def test_changed_field_is_one_step() -> None:
    account = InMemoryAccount(desired_state(a_cluster()))
    account.run(plan_changes(desired_state(a_cluster()), account.observed()))

    larger = a_cluster(home={"kind": "managed-node-group", "max": 9})
    plan = plan_changes(desired_state(larger), account.observed())

    assert [str(step) for step in plan.steps] == [
        "update managed node group controller (ScalingConfig.MaxSize: 3 → 9)"
    ]
    assert plan.replaced_addresses() == []


def test_immutable_property_replaces_the_resource_and_its_dependents() -> None:
    network = DesiredResource(kind="vpc", name="main", properties={"CidrBlock": "10.0.0.0/16"})
    subnet = DesiredResource(
        kind="subnet", name="a", properties={"VpcId": ref("vpc/main", "id"), "CidrBlock": "10.0.0.0/24"}
    )
    account = InMemoryAccount([network, subnet])
    account.run(plan_changes([network, subnet], account.observed()))
    changed_resources = [changed(network, CidrBlock="10.1.0.0/16"), changed(subnet, CidrBlock="10.1.0.0/24")]

    plan = plan_changes(changed_resources, account.observed())

    assert [step.id for step in plan.steps] == [
        "delete subnet/a",
        "delete vpc/main",
        "create vpc/main",
        "create subnet/a",
    ]
    assert plan.replaced_addresses() == ["vpc/main", "subnet/a"]
    account.run(plan)
    assert plan_changes(changed_resources, account.observed()).steps == ()


def test_launch_template_update_updates_its_node_group_in_the_same_plan() -> None:
    larger = a_cluster(home={"kind": "managed-node-group", "diskGib": 50})
    account = InMemoryAccount(desired_state(a_cluster()))
    account.run(plan_changes(desired_state(a_cluster()), account.observed()))

    steps = plan_changes(desired_state(larger), account.observed()).steps

    assert [step.id for step in steps] == [
        "update launch-template/dev-controller",
        "update eks-node-group/controller",
    ]
    assert steps[1].depends_on == (steps[0].id,)
    assert str(steps[1].changes[0]).endswith("→ (known after create)")


def test_owned_resource_that_is_not_desired_is_deleted_last() -> None:
    both = a_cluster(nodePools=[{"name": "default"}, {"name": "spot"}])
    account = InMemoryAccount(desired_state(both))
    account.run(plan_changes(desired_state(both), account.observed()))

    plan = plan_changes(desired_state(a_cluster(version="1.34")), account.observed())

    assert [step.id for step in plan.steps] == [
        "update eks-cluster/dev",
        "update eks-node-group/controller",
        "delete kubernetes-object/NodePool/spot",
    ]
    assert plan.steps[-1].depends_on == ("update eks-cluster/dev", "update eks-node-group/controller")


def test_missing_external_resources_are_reported() -> None:
    resources = desired_state(an_example("existing-cluster"))

    plan = plan_changes(resources, ObservedState(account=ACCOUNT))

    assert [resource.address for resource in plan.missing] == [
        "subnet-selection/nodes",
        "iam-role/platform-one-worker",
        "eks-cluster/platform-one",
    ]
    assert not any(step.address == "eks-cluster/platform-one" for step in plan.steps)


def test_foreign_tags_and_properties_are_kept() -> None:
    resources = desired_state(a_cluster())
    account = InMemoryAccount(resources)
    account.run(plan_changes(resources, account.observed()))
    role = account.resources["iam-role/dev-us-east-1-node"]
    account.resources[role.address] = msgspec.structs.replace(
        role,
        tags={**role.tags, "cost-centre": "42"},
        properties={**role.properties, "MaxSessionDuration": 7200},
    )

    assert plan_changes(resources, account.observed()).steps == ()


def test_resources_in_transition_are_unsettled() -> None:
    cluster = ObservedResource(kind="eks-cluster", name="dev", settled=False)

    plan = plan_changes((), ObservedState(account=ACCOUNT, resources={cluster.address: cluster}))

    assert plan.unsettled == (cluster,)


def test_order_of_unordered_lists_does_not_matter() -> None:
    role = DesiredResource(kind="iam-role", name="r", properties={"ManagedPolicyArns": ["a", "b"]})
    observed_resource = ObservedResource(
        kind="iam-role", name="r", properties={"ManagedPolicyArns": ["b", "a"]}
    )

    assert (
        plan_changes(
            [role], ObservedState(account=ACCOUNT, resources={observed_resource.address: observed_resource})
        ).steps
        == ()
    )


def test_json_text_is_compared_after_parsing() -> None:
    addon = DesiredResource(kind="eks-addon", name="x", properties={"ConfigurationValues": '{"a": 1}'})
    observed_resource = ObservedResource(
        kind="eks-addon", name="x", properties={"ConfigurationValues": '{"a":1}'}
    )

    assert (
        plan_changes(
            [addon], ObservedState(account=ACCOUNT, resources={observed_resource.address: observed_resource})
        ).steps
        == ()
    )


@pytest.mark.parametrize("example", NAMES)
def test_undo_of_every_step_restores_the_observed_state(example: str) -> None:
    resources = desired_state(an_example(example))
    account = InMemoryAccount(resources)
    before = account.observed()
    done: list[Step] = []
    for step in plan_changes(resources, before).steps:
        account.execute(step)
        done.append(step)

    for step in reversed(done):
        account.execute(step.undo())

    assert set(account.resources) == set(before.resources)


def test_update_can_be_undone() -> None:
    account = InMemoryAccount(desired_state(a_cluster()))
    account.run(plan_changes(desired_state(a_cluster()), account.observed()))
    step = plan_changes(desired_state(a_cluster(version="1.34")), account.observed()).steps[0]

    account.execute(step)
    account.execute(step.undo())

    assert step.undo().action is Action.UPDATE
    assert plan_changes(desired_state(a_cluster()), account.observed()).steps == ()


@st.composite
def graphs(draw: st.DrawFn) -> list[DesiredResource]:
    """Draw resources that can refer to earlier ones."""
    resources: list[DesiredResource] = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["vpc", "subnet", "security-group", "iam-role", "sqs-queue"]))
        attribute = {"iam-role": "arn", "sqs-queue": "url"}
        targets = draw(st.lists(st.sampled_from(resources), max_size=3)) if resources else []
        properties = {
            f"P{place}": ref(target.address, attribute.get(target.kind, "id"))
            for place, target in enumerate(targets)
        }
        resources.append(DesiredResource(kind=kind, name=f"n{number}", properties=properties))
    return draw(st.permutations(resources))


@given(graphs(), st.data())
def test_any_partial_state_of_any_graph_is_completed(
    resources: list[DesiredResource], data: st.DataObject
) -> None:
    account = InMemoryAccount(resources)
    account.run(plan_changes(resources, account.observed()))
    for address in data.draw(st.sets(st.sampled_from([resource.address for resource in resources] or [""]))):
        account.resources.pop(address, None)

    account.run(plan_changes(resources, account.observed()))

    assert plan_changes(resources, account.observed()).steps == ()


@given(graphs())
def test_sort_puts_dependencies_first(resources: list[DesiredResource]) -> None:
    sorted_addresses: set[str] = set()
    for resource in sort_by_dependency(resources):
        assert sorted_addresses.issuperset(resource.dependencies())
        sorted_addresses.add(resource.address)

    assert sorted_addresses == {resource.address for resource in resources}


def test_duplicate_is_deleted_together_with_the_original() -> None:
    vpc = DesiredResource(kind="vpc", name="main")
    subnet = DesiredResource(kind="subnet", name="a", properties={"VpcId": ref("vpc/main", "id")})
    observed_resource = [
        ObservedResource(kind="vpc", name="main"),
        ObservedResource(kind="vpc", name="main#vpc-2"),
        ObservedResource(kind="subnet", name="a"),
    ]
    observed = ObservedState(
        account=ACCOUNT, resources={resource.address: resource for resource in observed_resource}
    )

    steps = {step.address: step for step in plan_deletion([vpc, subnet], observed).steps}

    assert steps["vpc/main#vpc-2"].depends_on == ("delete subnet/a",)
    assert steps["subnet/a"].depends_on == ()
