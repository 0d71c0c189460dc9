"""Spot share: which part of a trace's demand may run on spot nodes."""

from typing import Any

import pytest

from dovetail.model.settings import ControllerSettings
from dovetail.replay.sweep.nodepool_keys import PoolChanges
from dovetail.replay.sweep.spot_share import describe_shares, limit_spot
from dovetail.replay.sweep.worker import Outcome, Point, SweepInput, Worker
from dovetail.trace.model import Delete, Event, Initial, Interruption, Scale, Set, Tasks, Template
from tests.replay.traces import a_trace, deployment, options, pod_template

NAMES = [f"service-{number}" for number in range(40)]


def workloads(events: tuple[Event, ...]) -> dict[str, dict[str, Any]]:
    return {
        event.object["metadata"]["name"]: event.object["spec"]["template"]["spec"]
        for event in events
        if isinstance(event, Initial | Set) and event.object["kind"] == "Deployment"
    }


def excludes_spot(spec: dict[str, Any]) -> bool:
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
    )
    expected = {"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}
    return all(expected in term.get("matchExpressions", ()) for term in required["nodeSelectorTerms"])


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_workloads_with_the_share_of_the_demand_may_run_on_spot(share: float) -> None:
    trace = a_trace(*(Set(t=0, object=deployment(name, 5)) for name in NAMES))

    limited = limit_spot(trace, (), share)

    on_spot = [name for name, spec in workloads(limited.trace.events).items() if not excludes_spot(spec)]
    assert len(on_spot) / len(NAMES) == pytest.approx(share, abs=0.02)
    assert limited.reached == pytest.approx(share, abs=0.02)


def test_a_higher_share_only_adds_workloads_and_equal_traces_give_equal_choices() -> None:
    trace = a_trace(*(Set(t=0, object=deployment(name, 5)) for name in NAMES))

    chosen = []
    for share in (0.2, 0.5, 0.8):
        specs = workloads(limit_spot(trace, (), share).trace.events)
        chosen.append({name for name, spec in specs.items() if not excludes_spot(spec)})

    assert chosen[0] < chosen[1] < chosen[2]
    assert limit_spot(trace, (), 0.5) == limit_spot(trace, (), 0.5)


def test_demand_counts_scale_over_time_and_not_the_number_of_workloads() -> None:
    events: list[Event] = [Set(t=0, object=deployment(name, 1)) for name in NAMES]
    events.append(Scale(t=0, kind="Deployment", namespace="shop", name=NAMES[0], replicas=400))
    events.append(Delete(t=1800, kind="Deployment", namespace="shop", name=NAMES[0]))
    trace = a_trace(*events)

    limited = limit_spot(trace, (), 0.5)

    # Half of the time with 400 replicas is five times all others together.
    is_on_spot = not excludes_spot(workloads(limited.trace.events)[NAMES[0]])
    assert limited.reached > 200 / 239 if is_on_spot else limited.reached < 39 / 239
    (note, interruptions) = describe_shares(trace, (), ["0.5"])
    assert "a workload is not divided" in note
    assert "no spot interruptions" in interruptions


def test_tasks_are_divided_one_by_one() -> None:
    template = Template(t=0, id="cores", template=pod_template("cores", "1"))
    tasks = [Tasks(t=float(number), template="cores", count=3, seconds=60) for number in range(10)]
    trace = a_trace(template, *tasks, Interruption(t=60, count=1))

    limited = limit_spot(trace, (), 0.8)

    counts = dict.fromkeys(("cores", "cores/on-demand"), 0)
    for event in limited.trace.events:
        if isinstance(event, Tasks):
            counts[event.template] += event.count
    assert counts == {"cores": 24, "cores/on-demand": 6}
    assert not list(describe_shares(trace, (), ["0.8"]))


def test_pods_that_name_a_capacity_type_are_left_as_they_are() -> None:
    pinned = deployment("pinned", 5)
    pinned["spec"]["template"]["spec"]["nodeSelector"] = {"karpenter.sh/capacity-type": "spot"}
    trace = a_trace(Set(t=0, object=pinned))

    assert limit_spot(trace, (), 0.0).trace == trace


def test_each_term_of_an_affinity_excludes_spot() -> None:
    web = deployment("web", 5)
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in "ab"]
    web["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }

    limited = limit_spot(a_trace(), (web,), 0.0)

    (changed,) = limited.manifests
    spec = changed["spec"]["template"]["spec"]
    assert excludes_spot(spec)
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [len(term["matchExpressions"]) for term in required["nodeSelectorTerms"]] == [2, 2]


@pytest.mark.slow
def test_more_spot_costs_less_and_no_pod_is_left_without_a_node() -> None:
    trace = a_trace(*(Set(t=0, object=deployment(name, 2)) for name in NAMES[:8]), seconds=900)
    worker = Worker(SweepInput(trace="", options=options(empty=True)), trace)

    outcomes = [
        worker.run(
            Point(values=(), settings=ControllerSettings(), pools=PoolChanges((("", "spotShare", share),)))
        )
        for share in ("0", "0.5", "1")
    ]

    assert all(isinstance(outcome, Outcome) and outcome.unschedulable == 0 for outcome in outcomes)
    costs = [outcome.cost for outcome in outcomes if isinstance(outcome, Outcome)]
    assert costs[0] > costs[1] > costs[2]
