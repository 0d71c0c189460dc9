"""Pods with complex specs: planned on their own, within a number of steps, after all others."""

from itertools import compress, islice, product

import pytest
from msgspec.structs import replace

from dovetail.core.scheduling.constraints.topology import MAX_RUNNING_RULES
from dovetail.core.scheduling.placement_order import place_in_order
from dovetail.core.scheduling.pods.equivalence import classify
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.solver import solve
from dovetail.core.scheduling.work import (
    MAX_COMPLEXITY,
    WorkCounter,
    WorkLimitExceededError,
    is_complex,
    spec_complexity,
)
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import HostPort, Pod, PodAffinityTerm
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim
from dovetail.model.kube.taints import find_untolerated_taint
from dovetail.model.plan import Constraint
from dovetail.model.settings import CLASS_STEPS, SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import (
    a_node,
    a_pod,
    a_pool,
    affinity,
    cluster,
    node_term,
    pods,
    prefer_pods,
    spread,
    taint,
    tolerate,
    zone_spread,
)
from tests.support.scheduling.instance_types import incremental
from tests.support.scheduling.plans import node_of, reasons_of, unplaced
from tests.support.scheduling.solver import checked
from tests.support.work import count_calls

ONE_CLASS = SchedulingSettings(isolated_steps=1)
"""With a limit of time, a plan considers one class of complex pods."""
_TYPE_KEYS = (
    label_keys.INSTANCE_TYPE,
    label_keys.ARCH,
    label_keys.OS,
    label_keys.ZONE,
    label_keys.CAPACITY_TYPE,
)


def complex_pod(name: str, **fields: object) -> Pod:
    """Return a pod with many anti-affinity terms; it fits on any node."""
    terms = [affinity({"app": f"other-{number}"}, label_keys.ZONE) for number in range(100)]
    return a_pod(name, anti_affinity=terms, labels={"app": name}, **fields)


def many_spreads(name: str) -> Pod:
    """Return a pod that is spread over 70 labels."""
    spreads = [spread(f"example.com/key-{number}", {"app": "web"}) for number in range(70)]
    return a_pod(name, spreads=spreads, labels={"app": "web"}, tolerations=[tolerate()])


def many_domains(*given: Pod, pools: int = 40) -> ClusterSnapshot:
    """Return a cluster whose NodePools have many labels with many values."""
    values = [str(value) for value in range(8)]
    requirements = [(f"example.com/key-{number}", "In", values) for number in range(70)]
    others = [a_pool(f"pool-{number}", requirements, taints=[taint("x")]) for number in range(pools)]
    return cluster(given, [a_pool(), *others])


# -- isolation -------------------------------------------------------------------------


def test_usual_specs_are_not_complex() -> None:
    terms = [node_term((label_keys.INSTANCE_TYPE, "NotIn", [f"m5.{size}" for size in range(700)]))]
    usual = a_pod(
        "usual",
        node_terms=terms,
        spreads=[zone_spread({"app": "usual"}), spread(label_keys.HOSTNAME, {"app": "usual"})],
        preferred_anti_affinity=[prefer_pods(1, affinity({"app": "usual"})) for _ in range(10)],
        tolerations=[tolerate(str(number)) for number in range(20)],
        ports=range(20),
    )

    assert spec_complexity(usual.spec) < MAX_COMPLEXITY / 4
    assert is_complex(complex_pod("complex").spec)


def test_complex_pod_gets_a_node_of_its_own_plan() -> None:
    plan = checked(cluster([complex_pod("complex"), *pods(3)]))

    assert not plan.unschedulable
    assert not plan.postponed
    assert node_of(plan, "complex") not in {node_of(plan, "pod-0"), None}


def test_complex_pod_uses_free_capacity_that_other_pods_leave() -> None:
    nodes = [a_node("node", cpu=2, pool="default")]

    plan = checked(cluster([a_pod("large", cpu="1500m"), complex_pod("complex", cpu="1")], nodes=nodes))

    assert node_of(plan, "large") == "node"
    assert node_of(plan, "complex") not in {"node", None}


def test_complex_pods_respect_limits_that_other_pods_used_up() -> None:
    pool = a_pool(limits={"cpu": 2})

    plan = solve(cluster([a_pod("first", cpu="1500m"), complex_pod("complex", cpu="1")], [pool]))

    assert unplaced(plan) == ["complex"]
    assert [reason.constraint for reason in reasons_of(plan, "complex")] == [Constraint.LIMITS]


def test_complex_pods_do_not_change_the_plan_of_others() -> None:
    ordinary = pods(20, cpu="700m", spreads=[zone_spread({"app": "pod"})], labels={"app": "pod"})

    alone = solve(cluster(ordinary))
    beside = solve(cluster([*ordinary, complex_pod("z-1"), complex_pod("z-2")]))

    assert beside.nodes[: len(alone.nodes)] == alone.nodes


def test_complex_pods_on_a_deleting_node_are_planned_too() -> None:
    node = replace(a_node("node", pool="default", pods=[complex_pod("complex")]), deleting=True)

    plan = checked(cluster(nodes=[node]))

    assert node_of(plan, "complex") not in {"node", None}


# -- steps -----------------------------------------------------------------------------


def test_class_that_needs_too_many_steps_is_given_up_with_the_sizes_to_reduce() -> None:
    settings = SchedulingSettings(class_steps=2000)

    plan = solve(many_domains(many_spreads("hopeless"), a_pod("ordinary")), settings)

    (reason,) = reasons_of(plan, "hopeless")
    assert reason.constraint is Constraint.COMPLEXITY
    assert "70 topology spread constraints" in reason.message
    assert node_of(plan, "ordinary")
    assert plan.steps < 3 * 2000


def test_pod_that_is_spread_over_many_labels_of_many_nodepools_gets_a_node() -> None:
    plan = solve(many_domains(many_spreads("web")))

    assert node_of(plan, "web")
    assert plan.steps < CLASS_STEPS


def test_equal_snapshots_take_equal_steps() -> None:
    snapshot = many_domains(many_spreads("hopeless"), a_pod("ordinary"))

    assert solve(snapshot) == solve(snapshot)


def test_complex_pods_beyond_the_steps_of_a_plan_are_postponed() -> None:
    plan = solve(cluster([complex_pod("a"), complex_pod("b"), a_pod("ordinary")]), ONE_CLASS, lambda: False)

    assert [pod.name for pod in plan.postponed] == ["b"]
    assert not plan.unschedulable
    assert node_of(plan, "a")
    assert node_of(plan, "ordinary")


def test_plan_without_a_limit_of_time_considers_all_complex_pods() -> None:
    """As ``simulate`` and ``explain`` need it."""
    plan = solve(cluster([complex_pod("a"), complex_pod("b")]), ONE_CLASS)

    assert not plan.postponed
    assert len(plan.nodes) == 2


def test_complex_pods_that_got_no_node_before_come_after_others() -> None:
    first, second = complex_pod("a"), complex_pod("b")

    plan = solve(cluster([first, second]), ONE_CLASS, lambda: False, {first.uid: 1})

    assert [pod.name for pod in plan.postponed] == ["a"]


def test_steps_of_a_class_are_limited_and_those_of_others_are_not_counted() -> None:
    counter = WorkCounter()
    counter.charge(10 * CLASS_STEPS)

    with counter.limit_class():
        counter.charge(CLASS_STEPS)
        with pytest.raises(WorkLimitExceededError), counter.limit_class():
            counter.charge(1)
    counter.charge(CLASS_STEPS)

    assert counter.steps == 12 * CLASS_STEPS + 1


# -- time ------------------------------------------------------------------------------


def test_pods_that_are_not_considered_in_time_are_postponed_without_a_reason() -> None:
    calls = iter([False, False, True])
    selectors = [{"example.com/group": str(number)} for number in range(5)]
    given = [a_pod(f"pod-{n}", node_selector=chosen, ports=[n + 1]) for n, chosen in enumerate(selectors)]
    pool = a_pool("default", [("example.com/group", "In", [str(number) for number in range(5)])])

    plan = solve(cluster(given, [pool]), should_stop=lambda: next(calls, True))

    placed = {pod.name for node in plan.nodes for pod in node.pods}
    assert placed
    assert len(placed) + len(plan.postponed) == 5
    assert not plan.unschedulable


def test_postponed_pods_get_their_nodes_in_the_next_plans() -> None:
    given = [a_pod(f"pod-{n}", cpu="1", ports=[n + 1]) for n in range(6)]
    waiting, rounds = list(given), 0

    while waiting:
        calls = iter([False, False, False])
        plan = solve(cluster(waiting), should_stop=lambda calls=calls: next(calls, True))
        waiting, rounds = list(plan.postponed), rounds + 1

    assert 1 < rounds <= 6


def test_retried_pods_are_considered_after_all_others() -> None:
    old, new = a_pod("old", cpu="3", ports=[1]), a_pod("new", cpu="1", ports=[2])
    calls = iter([False])

    plan = solve(cluster([old, new]), should_stop=lambda: next(calls, True), retried={old.uid: 1})

    assert [pod.name for pod in plan.postponed] == ["old"]


def test_time_is_up_before_the_plan_begins_and_no_pod_is_lost() -> None:
    given = [*pods(3), complex_pod("complex")]

    plan = solve(cluster(given), should_stop=lambda: True)

    assert {pod.name for pod in plan.postponed} == {pod.name for pod in given}


# -- products of sizes that users choose --------------------------------------------------


def test_domains_of_several_keys_are_combined_only_where_a_node_exists() -> None:
    """Combinations of all values: 40 types, 2 architectures, 3 zones ...; nearly all are impossible."""
    spreads = [spread(key, {"app": "web"}, max_skew=50) for key in _TYPE_KEYS]
    given = a_pod("web", spreads=spreads, labels={"app": "web"}, node_selector={label_keys.ZONE: "nowhere"})

    plan = solve(cluster([given], types=incremental(40)))

    assert unplaced(plan) == ["web"]
    assert plan.steps < 200


def test_spread_constraints_of_a_class_share_the_terms_of_its_node_affinity() -> None:
    terms = [node_term((label_keys.ZONE, "In", [f"zone-{number}"])) for number in range(20)]
    spreads = [spread(f"example.com/key-{number}", {"app": "web"}) for number in range(20)]
    classes = classify([a_pod("web", node_terms=terms, spreads=spreads, labels={"app": "web"})])

    problem = Problem(cluster(), SchedulingSettings(), classes, frozenset())

    assert len({id(group.node_filter.terms) for group in problem.topology.groups}) == 1


def test_host_ports_are_compared_only_with_equal_numbers() -> None:
    given = [a_pod(f"pod-{n}", ports=range(1 + 300 * n, 301 + 300 * n)) for n in range(4)]
    snapshot = cluster(given)

    compared = count_calls(lambda: solve(snapshot), of=HostPort.conflicts_with)

    assert not solve(snapshot).unschedulable
    assert 0 < compared <= 8 * 300


def test_tolerations_are_compared_with_nodepools_once_for_all_constraints() -> None:
    tolerations = [tolerate(str(number)) for number in range(500)]
    spreads = [zone_spread({"app": "web"}), spread(label_keys.INSTANCE_TYPE, {"app": "web"})]
    pools = [a_pool(f"pool-{number}", taints=[taint("1")]) for number in range(10)]
    pod = a_pod("web", tolerations=tolerations, spreads=spreads, labels={"app": "web"})
    snapshot = cluster([pod], pools)

    compared = count_calls(lambda: solve(snapshot), of=find_untolerated_taint)

    assert not solve(snapshot).unschedulable
    assert 0 < compared <= 4 * len(pools)


def test_preferences_are_not_tried_one_by_one_if_no_node_fits_without_them() -> None:
    preferred = [prefer_pods(1, affinity({"app": str(number)}, label_keys.ZONE)) for number in range(30)]
    given = a_pod("web", preferred_affinity=preferred, node_selector={"example.com/absent": "yes"})

    plan = solve(cluster([given]))

    assert not is_complex(given.spec)
    assert unplaced(plan) == ["web"]
    assert plan.steps < 100


def test_alternatives_of_many_volumes_are_limited() -> None:
    names = [f"data-{number}" for number in range(12)]
    terms = [
        tuple(node_term((f"example.com/disk-{name}", "In", [str(number)])) for number in range(4))
        for name in names
    ]
    volumes = [
        PersistentVolume(name=name, driver="ebs.csi.aws.com", node_terms=of_volume)
        for name, of_volume in zip(names, terms, strict=True)
    ]
    claims = [
        PersistentVolumeClaim(
            name=name, namespace="default", volume=name, annotations=FrozenDict({BIND_COMPLETED: "yes"})
        )
        for name in names
    ]
    snapshot = cluster([a_pod("db", claims=names)], volumes=tuple(volumes), volume_claims=tuple(claims))

    placer = place_in_order(
        snapshot, SchedulingSettings(), classify(snapshot.pending_pods), frozenset(), lambda _: []
    )

    ((topologies, _),) = placer.problem.volumes_by_class.values()
    assert len(topologies) <= 128


def test_anti_affinity_of_running_pods_without_a_domain_adds_no_topology_key() -> None:
    terms = [affinity({}, f"example.com/key-{number}") for number in range(60)]
    node = a_node("node", pool="default", pods=[a_pod("apart", anti_affinity=terms)])
    snapshot = cluster([a_pod("ordinary", cpu="8")], nodes=[node])
    classes = classify(snapshot.pending_pods)

    placer = place_in_order(snapshot, SchedulingSettings(), classes, frozenset(), lambda _: [])

    assert placer.compile_class(classes[0], 0).topology_keys == ()
    assert classes[0].placed == 1


def test_anti_affinity_of_a_running_pod_with_a_domain_is_kept() -> None:
    apart = a_pod("apart", anti_affinity=[affinity({"app": "web"}, label_keys.ZONE)])
    node = a_node("node", cpu=1, zone="test-zone-1", pool="default", pods=[apart])

    plan = checked(cluster([a_pod("web", labels={"app": "web"})], nodes=[node]))

    (planned,) = plan.nodes
    assert "test-zone-1" not in planned.requirements[label_keys.ZONE].values


def test_anti_affinity_terms_of_running_pods_take_no_memory_per_node() -> None:
    """Terms that select no pod to place are ignored; the others share one rule per selection."""
    nodes = [
        a_node(
            f"node-{number}",
            pool="default",
            pods=[
                a_pod(
                    f"apart-{number}",
                    anti_affinity=[
                        *(affinity({f"n{term}": str(number)}, label_keys.HOSTNAME) for term in range(20)),
                        *(
                            affinity({"app": "web"}, label_keys.HOSTNAME, namespaces=("default", f"x-{term}"))
                            for term in range(20)
                        ),
                    ],
                )
            ],
        )
        for number in range(30)
    ]
    snapshot = cluster([a_pod("web", labels={"app": "web"}), a_pod("other")], nodes=nodes)
    classes = classify(snapshot.pending_pods, frozenset({"app"}))

    problem = Problem(snapshot, SchedulingSettings(), classes, frozenset())
    plan = checked(snapshot)

    rules = [rule for group in problem.topology.groups for rule in group.rules]
    assert len(rules) == 1
    assert node_of(plan, "web") not in {node.name for node in nodes}
    assert node_of(plan, "other") in {node.name for node in nodes}


def test_many_different_anti_affinity_terms_of_running_pods_share_a_rule() -> None:
    """Each rule has a number for every node: terms times nodes must not exhaust memory."""
    apps = [f"app-{number}" for number in range(11)]
    selections = (list(compress(apps, bits)) for bits in product((False, True), repeat=len(apps)))
    terms = (
        PodAffinityTerm(
            label_keys.HOSTNAME,
            LabelSelector(expressions=(RequirementSpec("app", Operator.IN, tuple(selected)),)),
        )
        for selected in selections
        if selected
    )
    nodes = [
        a_node(f"node-{number}", pool="default", pods=[a_pod(f"apart-{number}", anti_affinity=chosen)])
        for number in range(60)
        if (chosen := list(islice(terms, 25)))
    ]
    selected_pods = [a_pod(app, labels={"app": app}) for app in apps]
    snapshot = cluster([*selected_pods, a_pod("other")], nodes=nodes)
    classes = classify(snapshot.pending_pods, frozenset({"app"}))

    problem = Problem(snapshot, SchedulingSettings(), classes, frozenset())
    plan = checked(snapshot)

    rules = [rule for group in problem.topology.groups for rule in group.rules]
    assert len(rules) == MAX_RUNNING_RULES + 1
    assert not plan.unschedulable
    assert node_of(plan, "other") in {node.name for node in nodes}


def test_hostname_terms_that_no_pod_states_or_matches_share_their_counts() -> None:
    pods_apart = [
        a_pod(name, anti_affinity=[affinity({f"n{t}": name}, label_keys.HOSTNAME) for t in range(50)])
        for name in ("a", "b")
    ]
    snapshot = cluster(pods_apart, nodes=[a_node(f"node-{number}", pool="default") for number in range(100)])

    problem = Problem(snapshot, SchedulingSettings(), classify(snapshot.pending_pods), frozenset())

    arrays = [group.node_counts for group in problem.topology.groups]
    assert len(arrays) == 100
    assert len({id(array) for array in arrays}) == 1


def test_steps_grow_with_hostname_terms_times_nodes() -> None:
    apart = [affinity({f"n{number}": "x"}, label_keys.HOSTNAME) for number in range(50)]

    def steps(nodes: int) -> int:
        given = [a_node(f"node-{number}", cpu=1, pool="default") for number in range(nodes)]
        return solve(cluster([a_pod("web", anti_affinity=apart)], nodes=given)).steps

    assert steps(4100) >= steps(10) + 50


def test_reasons_do_not_repeat_thousands_of_label_values() -> None:
    values = [f"value-{number}" for number in range(3000)]
    given = a_pod("web", node_terms=[node_term((label_keys.INSTANCE_TYPE, "In", values))])

    plan = solve(cluster([given]))

    assert max(len(reason.message) for reason in reasons_of(plan, "web")) <= 1000


def test_limit_of_steps_is_far_above_what_usual_pods_need() -> None:
    given = pods(50, spreads=[zone_spread({"app": "web"})], labels={"app": "web"})

    plan = solve(cluster(given, types=incremental(200)))

    assert not plan.unschedulable
    assert plan.steps < CLASS_STEPS / 20
