"""Scenarios from YAML: every field is read, and every mistake is told with its line."""

from datetime import timedelta
from functools import cache
from textwrap import dedent, indent
from typing import Any

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog, scenario, scenarios
from dovetail.errors import BadInput
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.simulator.ec2.latencies import Latencies as CloudLatencies
from dovetail.simulator.kubelet.latencies import Latencies as KubeletLatencies
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import (
    Action,
    Apply,
    Delete,
    Home,
    Interrupt,
    Phase,
    Scale,
    Scenario,
    SellOut,
    Until,
    Wait,
)

HEAD = "name: mine\nabout: a test\n"


@cache
def a_catalog() -> Catalog:
    few = ("m5.large", "t3.small")
    known = bundled_catalog()
    machines = tuple(one for one in known.machines if one.name in few)
    return msgspec.structs.replace(known, machines=machines)


def read(text: str, **more: Any) -> Scenario:
    return read_scenario("mine.yaml", (HEAD + dedent(text)).encode(), **more)


def mistakes(text: str, *, head: str = HEAD) -> list[str]:
    """What is said about a scenario, without the name of the file."""
    data = (head + dedent(text)).encode()
    with pytest.raises(BadInput) as refused:
        read_scenario("mine.yaml", data, catalog=a_catalog())
    return [str(one).removeprefix("mine.yaml:") for one in refused.value.mistakes]


def doing(actions: str) -> str:
    """A scenario whose only phase does this; the first action is on line 6."""
    return f"phases:\n- name: one\n  do:\n{indent(dedent(actions).strip(), '  ')}\n"


def action(text: str) -> Action:
    [phase] = read(doing(f"- {text}")).phases
    [made] = phase.actions
    return made


# What a scenario can say.


def test_a_scenario_needs_no_more_than_a_name_and_a_sentence() -> None:
    made = read("")

    assert made == Scenario(name="mine", about="a test")
    assert (made.region, made.seed, made.home, made.phases) == ("us-east-1", 1, None, ())


def test_every_field_is_read() -> None:
    made = read(
        """
        region: eu-west-1
        seed: 7
        home: {count: 2, instanceType: m5.large}
        manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]
        cloud: {boot: 60, bootJitter: 0.5}
        kubelet: {nodeReady: 10, containerStart: 0}
        phases:
        - name: one
          do: [{wait: 1m}]
          until: {running: 3, nodes: 4}
          limit: 1h30m
        - name: two
        """,
        catalog=a_catalog(),
    )

    assert made == Scenario(
        name="mine",
        about="a test",
        region="eu-west-1",
        seed=7,
        home=Home(count=2, instance_type="m5.large"),
        objects=({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},),
        cloud=CloudLatencies(boot=timedelta(minutes=1), boot_jitter=timedelta(seconds=0.5)),
        kubelet=KubeletLatencies(node_ready=timedelta(seconds=10), container_start=timedelta()),
        phases=(
            Phase(
                name="one",
                actions=(Wait(timedelta(minutes=1)),),
                until=Until(running=3, nodes=4),
                limit=timedelta(minutes=90),
            ),
            Phase(name="two", limit=timedelta(minutes=15)),
        ),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "scale: {name: web, replicas: 3}",
            Scale(kind="Deployment", name="web", namespace="default", replicas=3),
        ),
        (
            "scale: {kind: StatefulSet, name: db, namespace: shop, replicas: 0}",
            Scale(kind="StatefulSet", name="db", namespace="shop", replicas=0),
        ),
        ("delete: {kind: Node}", Delete(kind="Node")),
        ("delete: {kind: Node, count: 3}", Delete(kind="Node", count=3)),
        (
            "delete: {kind: Pod, name: web, namespace: shop}",
            Delete(kind="Pod", name="web", namespace="shop"),
        ),
        ("interrupt: {share: 0.5}", Interrupt(0.5)),
        ("interrupt: {share: 1}", Interrupt(1.0)),
        ("sellOut: {}", SellOut()),
        (
            "sellOut: {types: 'm5.*', zones: us-east-1a, capacityTypes: spot, lasts: 10m}",
            SellOut(
                types="m5.*",
                zones="us-east-1a",
                capacity_types="spot",
                lasts=timedelta(minutes=10),
            ),
        ),
        ("sellOut: {types: 'm5.*', lasts: Never}", SellOut(types="m5.*")),
        ("wait: 2m30s", Wait(timedelta(seconds=150))),
        (
            "apply: [{apiVersion: v1, kind: Namespace, metadata: {name: a}}]",
            Apply(({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},)),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_action_is_read(text: str, expected: Action) -> None:
    assert action(text) == expected


def test_a_phase_may_have_no_time_at_all() -> None:
    [phase] = read("phases: [{name: now, limit: 0s}]").phases

    assert phase.limit == timedelta()


def test_objects_of_older_versions_come_out_as_those_of_today() -> None:
    [made] = read(
        """
        manifests:
        - apiVersion: karpenter.sh/v1beta1
          kind: NodePool
          metadata: {name: default}
          spec:
            template:
              spec:
                nodeClassRef: {name: default}
                requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
        """
    ).objects

    assert made["apiVersion"] == "karpenter.sh/v1"
    assert made["kind"] == "NodePool"


@pytest.mark.parametrize("name", scenarios())
def test_the_bundled_scenarios_have_no_mistakes_by_the_whole_catalogue(name: str) -> None:
    made = read_scenario(name, scenario(name), catalog=bundled_catalog())

    assert made.name == name
    assert made.phases


# What is wrong, and where.


def test_name_and_about_are_needed() -> None:
    assert mistakes("seed: 1\n", head="") == ["1 name: is missing", "1 about: is missing"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("color: red", "3 color: no such field; known are name, about, region, "),
        ("phase: []", "3 phase: no such field; did you mean 'phases'?"),
        ("1: 2", "3 1: no such field; known are "),
        ("region: us-esat-1", "3 region: 'us-esat-1' is no region of the catalogue"),
        ("region: 5", "3 region: must be text, not 5"),
        ("seed: -1", "3 seed: is -1, but must be at least 0"),
        ("seed: dice", "3 seed: must be a whole number, not 'dice'"),
        ("home: {}", "3 home.instanceType: is missing"),
        (
            "home: {instanceType: m5.larg}",
            "3 home.instanceType: 'm5.larg' is no instance type sold",
        ),
        ("home: {instanceType: m5.large, count: 0}", "3 home.count: is 0, but must be at least 1"),
        ("home: {instanceType: m5.large, size: 3}", "3 home.size: no such field; known are count"),
        ("cloud: {boot: soon}", "3 cloud.boot: 'soon' is no number of seconds"),
        ("cloud: {boot: true}", "3 cloud.boot: True is no number of seconds"),
        ("cloud: {boot: -1}", "3 cloud.boot: -1 is no number of seconds"),
        ("cloud: {boot: .nan}", "3 cloud.boot: '.nan' is no number of seconds"),
        ("cloud: {boot: 90000}", "3 cloud.boot: 90000 is no number of seconds"),
        ("cloud: {weather: 1}", "3 cloud.weather: no such field; known are createFleet, "),
        ("kubelet: {nodeRedy: 1}", "3 kubelet.nodeRedy: no such field; did you mean 'nodeReady'?"),
        ("kubelet: fast", "3 kubelet: must be a map, not 'fast'"),
        ("manifests: {}", "3 manifests: must be a list, not a map"),
        ("manifests: [x]", "3 manifests[0]: must be a map, not 'x'"),
        ("manifests: [{}]", "3 manifests[0]"),
        (
            "manifests: [{apiVersion: v1, kind: Gadget, metadata: {name: a}}]",
            "3 manifests[0]: v1 Gadget is not served here",
        ),
        (
            "manifests: [{apiVersion: v1, kind: ConfigMap}]",
            "3 manifests[0].metadata.name: is missing",
        ),
        (
            "manifests: [{apiVersion: v1, kind: Secret, metadata: {name: 3}}]",
            "3 manifests[0].metadata.name: must be text, not 3",
        ),
        ("phases: none", "3 phases: must be a list, not 'none'"),
        ("phases: [{}]", "3 phases[0].name: is missing"),
        ("phases: [{name: a, unless: 1}]", "3 phases[0].unless: no such field; "),
        ("phases: [{name: a, do: {}}]", "3 phases[0].do: must be a list, not a map"),
        ("phases: [{name: a, until: 5}]", "3 phases[0].until: must be a map, not 5"),
        ("phases: [{name: a, until: {pods: 5}}]", "3 phases[0].until.pods: no such field; known"),
        ("phases: [{name: a, until: {running: many}}]", "3 phases[0].until.running: must be a "),
        ("phases: [{name: a, until: {nodes: -1}}]", "3 phases[0].until.nodes: is -1, but must be"),
        ("phases: [{name: a, limit: 90}]", "3 phases[0].limit: 90 is no duration; did you mean"),
        ("phases: [{name: a, limit: Never}]", "3 phases[0].limit: 'Never' is no duration"),
    ],
    ids=lambda value: value if value[0] != "3" else "",
)
def test_a_mistake_is_told_with_its_place(text: str, told: str) -> None:
    [first] = mistakes(text)

    assert first.startswith(told)


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("x", "", "must be a map, not 'x'"),
        ("{}", "", "needs exactly one of apply, scale, delete, interrupt, sellOut, thin"),
        ("{wait: 1s, delete: {kind: Node}}", "", "needs exactly one of apply, scale, "),
        ("scael: {}", ".scael", "no such field; did you mean 'scale'?"),
        ("reboot: {}", ".reboot", "no such field; known are apply, scale, "),
        ("scale: {replicas: 1}", ".scale.name", "is missing"),
        ("scale: {name: web}", ".scale.replicas", "is missing"),
        ("scale: {name: web, replicas: -1}", ".scale.replicas", "is -1, but must be at least 0"),
        ("scale: {name: web, replicas: 1, kind: Job}", ".scale.kind", "'Job' is no kind that can"),
        ("scale: {name: web, replicas: 1, by: 2}", ".scale.by", "no such field; known are kind"),
        ("delete: {}", ".delete.kind", "is missing"),
        ("delete: {kind: Secret}", ".delete.kind", "'Secret' is no kind that a scenario deletes"),
        ("delete: {kind: Node, count: 0}", ".delete.count", "is 0, but must be at least 1"),
        ("delete: {kind: Node, force: true}", ".delete.force", "no such field; known are kind"),
        (
            "delete: {kind: Node, name: a, count: 2}",
            ".delete.count",
            "is of no use beside a name",
        ),
        ("interrupt: {}", ".interrupt.share", "None is no share; write a number above 0"),
        ("interrupt: {share: 0}", ".interrupt.share", "0 is no share"),
        ("interrupt: {share: 1.1}", ".interrupt.share", "1.1 is no share"),
        ("interrupt: {share: true}", ".interrupt.share", "True is no share"),
        ("interrupt: {share: half}", ".interrupt.share", "'half' is no share"),
        ("interrupt: {share: .nan}", ".interrupt.share", "'.nan' is no share"),
        ("interrupt: {share: 1, of: x}", ".interrupt.of", "no such field; known are share"),
        ("sellOut: {types: m5.lrage}", ".sellOut.types", "'m5.lrage' fits no instance type; did"),
        ("sellOut: {zones: 'eu-*'}", ".sellOut.zones", "'eu-*' fits no zone"),
        (
            "sellOut: {capacityTypes: on_demand}",
            ".sellOut.capacityTypes",
            "'on_demand' fits no capacity type; did you mean 'on-demand'?",
        ),
        ("sellOut: {lasts: forever}", ".sellOut.lasts", "'forever' is no duration"),
        ("sellOut: {until: 5m}", ".sellOut.until", "no such field; known are types"),
        ("wait: 90", ".wait", "90 is no duration; did you mean '90s'?"),
        ("wait:", ".wait", "None is no duration"),
        ("wait: Never", ".wait", "'Never' is no duration"),
        ("apply: {kind: Pod}", ".apply", "must be a list, not a map"),
    ],
    ids=lambda value: value,
)
def test_a_mistake_in_an_action_is_told_with_its_place(text: str, place: str, told: str) -> None:
    [first] = mistakes(doing(f"- {text}"))

    assert first.startswith(f"6 phases[0].do[0]{place}: {told}")


def test_what_should_be_a_map_and_is_not_has_nothing_in_it() -> None:
    assert mistakes("home: 3") == [
        "3 home: must be a map, not 3",
        "3 home.instanceType: is missing",
    ]


def test_a_phase_that_waits_beyond_its_limit_cannot_succeed() -> None:
    usual = mistakes(doing("- wait: 10m\n- wait: 6m"))
    own = mistakes("phases:\n- name: a\n  do: [{wait: 2m}]\n  limit: 1m\n")

    assert usual[0].endswith("phases[0].limit: is 15m, but the phase waits for 16m")
    assert own == ["6 phases[0].limit: is 1m, but the phase waits for 2m"]


def test_objects_are_searched_for_mistakes_wherever_they_stand() -> None:
    broken = """\
        - apiVersion: v1
          kind: Pod
          metadata: {name: a}
          spec:
            containers:
            - {name: main, image: app, resources: {requests: {cpu: lots}}}
        """
    early = "manifests:\n" + dedent(broken)
    late = doing("- apply:\n" + indent(dedent(broken), "  "))

    [there] = mistakes(early)
    [here] = mistakes(late)

    path = "spec.containers[0].resources.requests.cpu: 'lots'"
    assert there.startswith(f"9 manifests[0].{path}")
    assert here.startswith(f"12 phases[0].do[0].apply[0].{path}")


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines() -> None:
    told = mistakes(
        """\
        seed: -1
        phases:
        - name: one
          do:
          - scale: {replicas: many}
          - wait: 5
        - until: {running: 1}
          limits: 5m
        cloud: {boot: x}
        """
    )

    assert [one.split(": ")[0] for one in told] == [
        "3 seed",
        "7 phases[0].do[0].scale.name",
        "7 phases[0].do[0].scale.replicas",
        "8 phases[0].do[1].wait",
        "9 phases[1].name",
        "10 phases[1].limits",
        "11 cloud.boot",
    ]


def test_without_a_catalogue_places_and_machines_are_taken_on_trust() -> None:
    made = read("region: mars\nhome: {instanceType: rover}\n" + doing("- sellOut: {types: rover}"))

    assert made.region == "mars"
    assert made.home == Home(count=1, instance_type="rover")


def test_a_scenario_is_one_document() -> None:
    assert mistakes("---\nname: other\n") == [
        "mine.yaml holds several documents; a scenario is one"
    ]
    [nothing] = mistakes("", head="")
    assert nothing.startswith("mine.yaml ")


def test_what_is_no_yaml_is_told_as_such() -> None:
    [told] = mistakes("phases: [\n")

    assert told[0].isdigit()
