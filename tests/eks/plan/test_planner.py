"""From what is there to what is wanted: every step in order, and none too many."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.plan.planner import Step, Verb, plan, plan_removal
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import Existing, Observed, Resource, in_order
from tests.support.clusters import ACCOUNT, EXAMPLES, a_cluster, an_example
from tests.support.paper import PaperAccount, changed

NAMES = [one.stem for one in EXAMPLES]


@pytest.mark.parametrize("example", NAMES)
def test_once_a_plan_is_done_nothing_is_left_to_do(example: str) -> None:
    resources = wanted(an_example(example))
    account = PaperAccount(resources)

    account.run(plan(resources, account.observed()))

    assert plan(resources, account.observed()).steps == ()
    assert set(account.resources) == {one.address for one in resources}


@pytest.mark.parametrize("example", NAMES)
def test_a_plan_cut_off_after_any_step_is_finished_by_the_next_one(example: str) -> None:
    resources = wanted(an_example(example))
    whole = plan(resources, PaperAccount(resources).observed())

    for stop in range(len(whole.steps)):
        account = PaperAccount(resources)
        account.run(whole, steps=stop)
        account.run(plan(resources, account.observed()))

        assert plan(resources, account.observed()).steps == ()
        assert account.writes == len(whole.steps), f"after {stop} steps something was done twice"


@pytest.mark.parametrize("example", NAMES)
def test_destroying_leaves_only_what_was_there_before(example: str) -> None:
    resources = wanted(an_example(example))
    account = PaperAccount(resources)
    before = set(account.resources)
    account.run(plan(resources, account.observed()))

    account.run(plan_removal(resources, account.observed()))

    assert set(account.resources) == before


@pytest.mark.parametrize("example", NAMES)
def test_destroying_that_was_cut_off_anywhere_goes_on_where_it_was(example: str) -> None:
    resources = wanted(an_example(example))
    made = PaperAccount(resources)
    made.run(plan(resources, made.observed()))
    whole = plan_removal(resources, made.observed())

    for stop in range(len(whole.steps)):
        account = PaperAccount(resources)
        account.resources = dict(made.resources)
        account.run(whole, steps=stop)
        account.run(plan_removal(resources, account.observed()))

        assert all(one.given for one in resources if one.address in account.resources)


def test_nodepools_go_before_the_controller_and_the_controller_before_its_role() -> None:
    resources = wanted(a_cluster())
    account = PaperAccount(resources)
    account.run(plan(resources, account.observed()))

    gone = [one.address for one in plan_removal(resources, account.observed()).steps]

    order = [
        "kubernetes-object/NodePool/default",
        "kubernetes-object/EC2NodeClass/default",
        "helm-release/kube-system/dovetail",
        "iam-role/dev-dovetail",
    ]
    assert sorted(order, key=gone.index) == order
    assert gone.index("eks-cluster/dev") > gone.index("eks-node-group/controller")
    assert gone.index("vpc/main") > gone.index("eks-cluster/dev")


def test_one_changed_field_makes_one_step() -> None:
    account = PaperAccount(wanted(a_cluster()))
    account.run(plan(wanted(a_cluster()), account.observed()))

    newer = plan(wanted(a_cluster(version="1.34")), account.observed())

    assert [str(one) for one in newer.steps] == [
        "change EKS cluster dev (Version: 1.33 → 1.34)",
    ]
    assert newer.replaced() == []


def test_a_value_that_cannot_change_replaces_the_resource_and_what_hangs_on_it() -> None:
    network = Resource(kind="vpc", name="main", properties={"CidrBlock": "10.0.0.0/16"})
    subnet = Resource(
        kind="subnet",
        name="a",
        properties={"VpcId": ref("vpc/main", "id"), "CidrBlock": "10.0.0.0/24"},
    )
    account = PaperAccount([network, subnet])
    account.run(plan([network, subnet], account.observed()))
    moved = [changed(network, CidrBlock="10.1.0.0/16"), changed(subnet, CidrBlock="10.1.0.0/24")]

    found = plan(moved, account.observed())

    assert [one.id for one in found.steps] == [
        "remove subnet/a",
        "remove vpc/main",
        "create vpc/main",
        "create subnet/a",
    ]
    assert found.replaced() == ["vpc/main", "subnet/a"]
    account.run(found)
    assert plan(moved, account.observed()).steps == ()


def test_a_new_version_of_a_launch_template_reaches_its_node_group_in_the_same_plan() -> None:
    larger = a_cluster(home={"kind": "managed-node-group", "diskGib": 50})
    account = PaperAccount(wanted(a_cluster()))
    account.run(plan(wanted(a_cluster()), account.observed()))

    steps = plan(wanted(larger), account.observed()).steps

    assert [one.id for one in steps] == [
        "change launch-template/dev-controller",
        "change eks-node-group/controller",
    ]
    assert steps[1].needs == (steps[0].id,)
    assert str(steps[1].changes[0]).endswith("→ (known once it is made)")


def test_what_is_ours_and_no_longer_wanted_goes_last() -> None:
    both = a_cluster(nodePools=[{"name": "default"}, {"name": "spot"}])
    account = PaperAccount(wanted(both))
    account.run(plan(wanted(both), account.observed()))

    found = plan(wanted(a_cluster(version="1.34")), account.observed())

    assert [one.id for one in found.steps] == [
        "change eks-cluster/dev",
        "remove kubernetes-object/NodePool/spot",
    ]
    assert found.steps[1].needs == ("change eks-cluster/dev",)


def test_what_must_have_been_there_before_and_is_not_is_named() -> None:
    resources = wanted(an_example("existing-cluster"))

    found = plan(resources, Observed(account=ACCOUNT))

    assert [one.address for one in found.missing] == [
        "subnet-selection/nodes",
        "iam-role/platform-one-worker",
        "eks-cluster/platform-one",
    ]
    assert not any(step.address == "eks-cluster/platform-one" for step in found.steps)


def test_tags_and_properties_that_others_added_stay() -> None:
    resources = wanted(a_cluster())
    account = PaperAccount(resources)
    account.run(plan(resources, account.observed()))
    role = account.resources["iam-role/dev-node"]
    account.resources[role.address] = msgspec.structs.replace(
        role,
        tags={**role.tags, "cost-centre": "42"},
        properties={**role.properties, "MaxSessionDuration": 7200},
    )

    assert plan(resources, account.observed()).steps == ()


def test_things_on_their_way_are_named() -> None:
    cluster = Existing(kind="eks-cluster", name="dev", settled=False)

    found = plan((), Observed(account=ACCOUNT, resources={cluster.address: cluster}))

    assert found.unsettled == (cluster,)


def test_lists_that_are_sets_may_come_in_any_order() -> None:
    role = Resource(kind="iam-role", name="r", properties={"ManagedPolicyArns": ["a", "b"]})
    there = Existing(kind="iam-role", name="r", properties={"ManagedPolicyArns": ["b", "a"]})

    assert plan([role], Observed(account=ACCOUNT, resources={there.address: there})).steps == ()


def test_json_text_is_compared_by_what_it_says() -> None:
    addon = Resource(kind="eks-addon", name="x", properties={"ConfigurationValues": '{"a": 1}'})
    there = Existing(kind="eks-addon", name="x", properties={"ConfigurationValues": '{"a":1}'})

    assert plan([addon], Observed(account=ACCOUNT, resources={there.address: there})).steps == ()


@pytest.mark.parametrize("example", NAMES)
def test_the_undo_of_every_step_brings_back_what_was_there(example: str) -> None:
    resources = wanted(an_example(example))
    account = PaperAccount(resources)
    before = account.observed()
    done: list[Step] = []
    for step in plan(resources, before).steps:
        account.do(step)
        done.append(step)

    for step in reversed(done):
        account.do(step.undo())

    assert set(account.resources) == set(before.resources)


def test_a_change_can_be_undone() -> None:
    account = PaperAccount(wanted(a_cluster()))
    account.run(plan(wanted(a_cluster()), account.observed()))
    step = plan(wanted(a_cluster(version="1.34")), account.observed()).steps[0]

    account.do(step)
    account.do(step.undo())

    assert step.undo().verb is Verb.CHANGE
    assert plan(wanted(a_cluster()), account.observed()).steps == ()


@st.composite
def graphs(draw: st.DrawFn) -> list[Resource]:
    """Draw resources of which each may refer to earlier ones."""
    made: list[Resource] = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["vpc", "subnet", "security-group", "iam-role", "sqs-queue"]))
        attribute = {"iam-role": "arn", "sqs-queue": "url"}
        targets = draw(st.lists(st.sampled_from(made), max_size=3)) if made else []
        properties = {
            f"P{place}": ref(one.address, attribute.get(one.kind, "id"))
            for place, one in enumerate(targets)
        }
        made.append(Resource(kind=kind, name=f"n{number}", properties=properties))
    return draw(st.permutations(made))


@given(graphs(), st.data())
def test_any_part_of_any_graph_can_be_reached_from_any_other(
    resources: list[Resource], data: st.DataObject
) -> None:
    account = PaperAccount(resources)
    account.run(plan(resources, account.observed()))
    for address in data.draw(st.sets(st.sampled_from([one.address for one in resources] or [""]))):
        account.resources.pop(address, None)

    account.run(plan(resources, account.observed()))

    assert plan(resources, account.observed()).steps == ()


@given(graphs())
def test_order_puts_everything_after_what_it_needs(resources: list[Resource]) -> None:
    seen: set[str] = set()
    for one in in_order(resources):
        assert seen.issuperset(one.needs())
        seen.add(one.address)

    assert seen == {one.address for one in resources}


def test_a_second_one_of_a_kind_goes_when_the_first_does() -> None:
    vpc = Resource(kind="vpc", name="main")
    inside = Resource(kind="subnet", name="a", properties={"VpcId": ref("vpc/main", "id")})
    there = [
        Existing(kind="vpc", name="main"),
        Existing(kind="vpc", name="main#vpc-2"),
        Existing(kind="subnet", name="a"),
    ]
    observed = Observed(account=ACCOUNT, resources={one.address: one for one in there})

    steps = {one.address: one for one in plan_removal([vpc, inside], observed).steps}

    assert steps["vpc/main#vpc-2"].needs == ("remove subnet/a",)
    assert steps["subnet/a"].needs == ()
